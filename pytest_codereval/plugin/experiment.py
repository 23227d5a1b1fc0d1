"""Experiments, settings of single keys and samples of rows: what a session asks of all its tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..errors import CoderEvalError
from .agents import add_agents_of_plugins, check_agent
from .isolation import add_drivers_of_plugins
from .options import is_worker

if TYPE_CHECKING:
    from ..task.layering.settings import Setting
    from ..task.resolution import Asked

_ASKED = pytest.StashKey["Asked"]()
_SETTINGS = pytest.StashKey["tuple[Setting, ...]"]()
_EXPERIMENT = pytest.StashKey["Path | None"]()
_OPTIONS = {
    "--codereval-agent": "codereval_agent",
    "--codereval-model": "codereval_model",
    "--codereval-driver": "codereval_driver",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("codereval", "tasks for coding agents")
    group.addoption(
        "--codereval-experiment",
        metavar="FILE",
        help="experiment file: run every task under each of its variants, with its defaults below the tasks' settings",
    )
    group.addoption(
        "--codereval-set",
        metavar="PATH=VALUE",
        action="append",
        default=[],
        help="set one value of all tasks, such as run_limits.max_turns=3; the value is YAML; may be given often",
    )
    group.addoption(
        "--codereval-sample",
        type=int,
        metavar="N",
        help="run N rows of each dataset, always the same ones",
    )
    group.addoption(
        "--codereval-sample-per-stratum",
        type=int,
        metavar="N",
        help="run N rows of each dataset with the same value of its stratify_field, always the same ones",
    )
    group.addoption(
        "--codereval-sample-seed",
        type=int,
        metavar="N",
        help="draw other rows (default: the dataset's sample_seed, else 0)",
    )
    parser.addini(
        "codereval_experiment", "experiment file, relative to the root directory; --codereval-experiment goes before it"
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    for option in ("sample", "sample_per_stratum"):
        number = config.getoption(f"codereval_{option}")
        if number is not None and number < 1:
            raise pytest.UsageError(f"--codereval-{option.replace('_', '-')} {number}: expected 1 or more")
    if config.getoption("codereval_experiment") == "":
        raise pytest.UsageError("--codereval-experiment: expected a file")
    config.stash[_EXPERIMENT] = _experiment(config)
    config.stash[_SETTINGS] = _settings(config)


def _experiment(config: pytest.Config) -> Path | None:
    given, in_ini = config.getoption("codereval_experiment"), config.getini("codereval_experiment")
    if given:
        path = Path(config.invocation_params.dir / Path(given).expanduser())
    elif in_ini:
        path = config.rootpath / in_ini
    else:
        return None
    add_agents_of_plugins(config)
    add_drivers_of_plugins(config)
    from ..task.experiment_models import read_experiment

    try:
        read_experiment(path)
    except CoderEvalError as error:
        what = "--codereval-experiment" if given else "ini codereval_experiment"
        raise pytest.UsageError(f"{what}: {error}") from None
    return path


def _settings(config: pytest.Config) -> tuple[Setting, ...]:
    """The settings but those with an option of their own, which get its value."""
    texts = config.getoption("codereval_set")
    if not texts:
        return ()
    add_agents_of_plugins(config)
    add_drivers_of_plugins(config)
    from ..task.layering.settings import ALIASES, settings_of

    options = {} if is_worker(config) else {option: config.getoption(name) for option, name in _OPTIONS.items()}
    try:
        found = settings_of(texts, options)
    except CoderEvalError as error:
        raise pytest.UsageError(str(error)) from None
    for setting in found:
        if setting.path in ALIASES:
            if setting.path == ("agent", "type"):
                check_agent(config, "--codereval-set agent.type", setting.value)
            setattr(config.option, _OPTIONS[ALIASES[setting.path]], setting.value)
    return tuple(setting for setting in found if setting.path not in ALIASES)


def asked(config: pytest.Config) -> Asked:
    """What this session asks of all tasks."""
    made = config.stash.get(_ASKED, None)
    if made is None:
        from ..task.dataset import Sampling
        from ..task.layering.stack import CommandLine
        from ..task.resolution import Asked

        option = config.getoption
        made = config.stash[_ASKED] = Asked(
            repeats=option("codereval_repeat"),
            experiment=config.stash[_EXPERIMENT],
            command_line=CommandLine(
                settings=config.stash[_SETTINGS],
                agent=option("codereval_agent"),
                default_agent=config.getini("codereval_agent") or None,
                model=option("codereval_model"),
                driver=option("codereval_driver"),
                folder=config.invocation_params.dir,
            ),
            sampling=Sampling(
                option("codereval_sample"), option("codereval_sample_per_stratum"), option("codereval_sample_seed")
            ),
            rootdir=config.rootpath,
        )
    return made


def pytest_report_header(config: pytest.Config) -> str | None:
    path = config.stash[_EXPERIMENT]
    if path is None:
        return None
    from ..task.experiment_models import read_experiment
    from ..text import clean

    experiment = read_experiment(path).content
    names = [variant.variant_id for variant in experiment.variants]
    shown = names if len(names) <= 8 else [*names[:8], f"and {len(names) - 8} more"]
    number = "1 variant" if len(names) == 1 else f"{len(names)} variants"
    return clean(f"codereval experiment: {experiment.experiment_id}, {number}: {', '.join(shown)}")
