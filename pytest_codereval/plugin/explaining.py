"""A task as it will run, and where each of its values came from: `python -m pytest_codereval explain`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..errors import CoderEvalError
from ..text import clean
from .resolving import resolved

if TYPE_CHECKING:
    from ..task.resolution import Resolved, ResolvedArm

MOST_TRIALS = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("codereval", "tasks for coding agents").addoption(
        "--codereval-explain",
        nargs="?",
        const="",
        metavar="VARIANT",
        help="print the task files that the command line names as they will run, with where each value came from, and "
        "run nothing",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> object:
    """Nothing is collected, and so nothing runs, where tasks are only explained."""
    if session.config.getoption("codereval_explain") is None:
        return None
    session.config.pluginmanager.register(_Explanation(session.config), "codereval-explain")
    return True


class _Explanation:
    """Prints each file that the command line names, in place of running it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._status = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> object:
        for argument in self._config.args:
            path = (self._config.invocation_params.dir / argument.partition("::")[0]).absolute()
            try:
                print(clean("\n".join(self._lines(path, resolved(self._config, path)))))
            except CoderEvalError as error:
                print(clean(str(error)))
                self._status = 1
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        session.exitstatus = self._status

    def _lines(self, path: Path, task: Resolved) -> Iterator[str]:
        wanted = self._config.getoption("codereval_explain")
        chosen = [arm for arm in task.arms if not wanted or arm.variant == wanted]
        if not chosen:
            names = ", ".join(arm.variant for arm in task.arms if arm.variant is not None) or "none"
            raise CoderEvalError(f"no variant is called {wanted!r} (variants: {names})")
        for arm in chosen:
            yield from self._arm(path, task, arm)

    def _arm(self, path: Path, task: Resolved, arm: ResolvedArm) -> Iterator[str]:
        from ..task.layering.explanation import explained
        from ..task.problems import shown_path

        yield f"# {shown_path(path)}" + (f", variant {arm.variant}" if arm.variant is not None else "")
        yield explained(arm.data, arm.lineage)
        trials = [trial.trial_id for trial in task.trials if trial.variant == arm.variant]
        yield ""
        yield f"# {len(trials)} trials:" if len(trials) != 1 else "# 1 trial:"
        yield from (f"#   {trial}" for trial in trials[:MOST_TRIALS])
        if len(trials) > MOST_TRIALS:
            yield f"#   and {len(trials) - MOST_TRIALS} more"
        yield ""
