"""Refuses a session whose trials would run with less isolation than is demanded, or without their driver.

On the controller, once it is known what will run and before the first trial starts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from ..errors import CoderEvalError
from ..text import clean
from . import isolation
from .collection import names_task, trial_of
from .options import is_worker
from .resolving import resolved

if TYPE_CHECKING:
    from ..sandbox.choice import Choice
    from ..sandbox.drivers import Order
    from ..task.trials import TrialSpec

MOST_NAMED = 5


class IsolationGuard:
    """Raises pytest.UsageError, exit status 4. Trials of Python tests are not known before: they refuse themselves."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._passed: Sequence[str] = ()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        option = self._config.option
        if not (option.collectonly or option.showfixtures or option.show_fixtures_per_test):
            trials = ((item.nodeid, trial_of(item)) for item in session.items)
            self._check({nodeid: trial for nodeid, trial in trials if trial is not None})

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        if ids != self._passed and self._asks():
            self._check(dict(self._trials(ids)))
            self._passed = ids

    def _asks(self) -> bool:
        """Whether this session decides anything about drivers."""
        choice = isolation.choice(self._config)
        return choice.driver is not None or choice.default is not None or choice.least > 0

    def _trials(self, ids: Sequence[str]) -> Iterator[tuple[str, TrialSpec]]:
        """The trials that workers collected, by node id. A file that cannot be loaded here is their error."""
        files: dict[str, dict[str, TrialSpec]] = {}
        for nodeid in ids:
            file = nodeid.partition("::")[0]
            if file not in files:
                files[file] = self._trials_of(file) if names_task(nodeid, self._config) else {}
            if (found := files[file].get(nodeid)) is not None:
                yield nodeid, found

    def _trials_of(self, file: str) -> dict[str, TrialSpec]:
        try:
            trials = resolved(self._config, self._config.rootpath / file).trials
        except CoderEvalError:
            return {}
        return {f"{file}::{trial.trial_id}": trial for trial in trials}

    def _check(self, tasks: Mapping[str, TrialSpec]) -> None:
        if not tasks:
            return
        choice = isolation.choice(self._config)
        self._refuse_unavailable(choice, tasks)
        if choice.least > 0:
            self._refuse_weak(choice, tasks)

    def _refuse_unavailable(self, choice: Choice, tasks: Mapping[str, TrialSpec]) -> None:
        """What the session chose must be there. What a task names itself is an error of that trial."""
        from ..sandbox.choice import availability
        from ..sandbox.drivers import Order

        what, name = isolation.DRIVER_OPTION, choice.driver
        if name is None:
            what, name = isolation.DRIVER_INI, choice.default
        if name is None or name == "auto":
            return
        for nodeid, task in tasks.items():
            sandbox = task.task.sandbox
            if choice.name_for(sandbox) != name or not ("driver" not in sandbox.model_fields_set or choice.driver):
                continue
            where = "on this machine"
            found = availability(name)
            if found.usable:
                where = f"for {nodeid}"
                found = availability(name, Order(sandbox, task_dir=task.path.parent, image=choice.image))
            if not found.usable:
                raise pytest.UsageError(
                    clean(
                        f"{what} {name}: it cannot be had {where}: {found.reason}. "
                        "`python -m pytest_codereval drivers` says what can; auto picks the strongest of them"
                    )
                )

    def _refuse_weak(self, choice: Choice, tasks: Mapping[str, TrialSpec]) -> None:
        picked = _Picked(choice)
        found = {nodeid: name for nodeid, task in tasks.items() if (name := picked.too_weak(task)) is not None}
        weak = [f"{nodeid} ({name or 'no driver can be had'})" for nodeid, name in found.items()]
        if not weak:
            return
        asked = {choice.name_for(tasks[nodeid].task.sandbox) for nodeid in found}
        number = "1 trial" if len(weak) == 1 else f"{len(weak)} trials"
        lines = [f"{isolation.least_asked(self._config)}: {number} would run with less; nothing was run"]
        lines += [f"  {each}" for each in weak[:MOST_NAMED]]
        if len(weak) > MOST_NAMED:
            lines.append(f"  and {len(weak) - MOST_NAMED} more")
        raise pytest.UsageError(clean("\n".join([*lines, self._remedy(choice, asked)])))

    def _remedy(self, choice: Choice, asked: Collection[str]) -> str:
        """What to do about trials that ask for the drivers in `asked`, of which `auto` may be one."""
        level = choice.least.label
        if "auto" in asked:
            found = isolation.found(self._config)
            lacking = [f"{name} cannot be had: {there.reason}" for name, there in found.items() if not there.usable]
            why = f"{isolation.DRIVER_OPTION} {level} says why such a trial cannot have it"
            return "\n".join(lacking) or f"auto takes a weaker driver where a trial cannot have the strongest; {why}"
        if choice.driver is not None:
            return f"{isolation.DRIVER_OPTION} {choice.driver} is weaker than what is asked for: give {level} or auto"
        return (
            f"Run them with {isolation.DRIVER_OPTION} {level}, or write `driver: {level}` below `sandbox:` in the task "
            f"files, or `codereval_driver = {level}` in the ini file for those that name none"
        )


class _Picked:
    """The drivers that trials will get, as far as that can be known before they start."""

    def __init__(self, choice: Choice) -> None:
        from ..sandbox.drivers import Isolation

        self._least = choice.least
        self._choice = dataclasses.replace(choice, least=Isolation.TEMPDIR)
        self._known: dict[str, str] = {}

    def too_weak(self, task: TrialSpec) -> str | None:
        """The driver of a trial when it is weaker than is demanded; "" when there is none, None when all is well."""
        from ..sandbox.drivers import AUTO, Order, driver

        sandbox = task.task.sandbox
        name = self._choice.name_for(sandbox)
        if name == AUTO:
            key = f"{task.path.parent} {sandbox.model_dump_json()}"
            if key not in self._known:
                self._known[key] = self._strongest(Order(sandbox, task_dir=task.path.parent, image=self._choice.image))
            name = self._known[key]
        return name if not name or driver(name).isolation < self._least else None

    def _strongest(self, order: Order) -> str:
        try:
            return self._choice.driver_for(order).name
        except CoderEvalError:
            return ""


def pytest_configure(config: pytest.Config) -> None:
    if not is_worker(config):
        config.pluginmanager.register(IsolationGuard(config), "codereval-isolation")
