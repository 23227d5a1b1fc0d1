"""The explicit environment of a trial's processes: what is let through, what is withheld from the agent."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..errors import Cause, TrialError
from .protocol import Phase
from .withholding import Withheld

PHASE_VARIABLE = "CODEREVAL_PHASE"
"""Set for preparation and grading only, so that login shells there leave out shims and mock directories."""

GRADE_WITH_SHIMS = "grade-with-shims"

_OWN_NAMES = frozenset({"PATH", "HOME", "TMPDIR", PHASE_VARIABLE})


@dataclasses.dataclass(frozen=True)
class EnvironmentPlan:
    """What the environment of a trial has beyond the basics.

    `passthrough`: names and globs of the harness's variables to let through. `extra`: variables set by the author.
    `withhold`: files and directories that no variable of the agent may name, such as the task's folder, the reference
    and the checkout.
    """

    passthrough: tuple[str, ...] = ()
    extra: Mapping[str, str] = dataclasses.field(default_factory=dict)
    withhold: tuple[Path, ...] = ()


@dataclasses.dataclass(frozen=True)
class Places:
    """The directories of one trial that its environment names."""

    home: Path
    tmp: Path
    bin_dir: Path


class Environment:
    """The environments of one trial. `withheld_names` are the variables that only the agent does not get.

    Raises TrialError(CONFIGURATION) when an author's variable names a withheld place or one that the sandbox sets.
    """

    def __init__(self, plan: EnvironmentPlan, places: Places, search_path: SearchPath) -> None:
        self._places = places
        self._search_path = search_path
        self._withhold = Withheld(plan.withhold)
        self.venv: Path | None = None
        self.agent_path_dirs: list[Path] = []
        passed = _passed_through(plan.passthrough)
        self.withheld_names = tuple(
            sorted(name for name, value in passed.items() if name not in plan.extra and self._withhold.named_in(value))
        )
        self._check_extra(plan.extra)
        self._variables = {**_basics(), **passed, **plan.extra, "HOME": str(places.home), "TMPDIR": str(places.tmp)}

    def _check_extra(self, extra: Mapping[str, str]) -> None:
        for name, value in extra.items():
            if name in _OWN_NAMES:
                raise TrialError(Cause.CONFIGURATION, f"sandbox.env.{name}: this variable is set by the sandbox")
            if self._withhold.named_in(value):
                raise TrialError(
                    Cause.CONFIGURATION,
                    f"sandbox.env.{name}: its value names the task's folder, its reference or the checkout, "
                    "which the agent must not be told",
                )

    def of(self, phase: Phase) -> dict[str, str]:
        """The complete environment of a process in `phase`."""
        variables = dict(self._variables)
        if self.venv is not None:
            variables["VIRTUAL_ENV"] = str(self.venv)
        variables["PATH"] = self.path(phase)
        if phase is Phase.AGENT:
            for name in self.withheld_names:
                del variables[name]
            return variables
        variables[PHASE_VARIABLE] = str(phase)
        if phase is Phase.GRADE:
            variables["PYTHONDONTWRITEBYTECODE"] = "1"
            variables["PYTHONNOUSERSITE"] = "1"
        return variables

    def with_shims(self) -> dict[str, str]:
        """What to lay over the grading environment of a command that wants the agent's shims and mock directories."""
        return {
            "PATH": self._join(self._shadowing(), self._search_path.folders),
            PHASE_VARIABLE: GRADE_WITH_SHIMS,
        }

    def path(self, phase: Phase) -> str:
        """The value of PATH in `phase`."""
        if phase is Phase.AGENT:
            return self._join(self._shadowing(), self._agent_folders)
        return self._join([], self._search_path.folders)

    @functools.cached_property
    def _agent_folders(self) -> list[str]:
        return self._search_path.folders_without(self._withhold)

    def _shadowing(self) -> list[Path]:
        return [self._places.bin_dir, *self.agent_path_dirs]

    def _join(self, first: Iterable[Path], folders: Iterable[str]) -> str:
        venv = [f"{self.venv}/bin"] if self.venv is not None else []
        return os.pathsep.join([*map(str, first), *venv, *folders])

    def login_script(self) -> str:
        """Shell text that puts the phase's PATH first; sourced by login shells after the system reset theirs."""
        shims = shlex.quote(self.with_shims()["PATH"])
        return (
            f"case ${{{PHASE_VARIABLE}-}} in\n"
            f"  '') PATH={shlex.quote(self.path(Phase.AGENT))}:$PATH ;;\n"
            f"  {GRADE_WITH_SHIMS}) PATH={shims}:$PATH ;;\n"
            f"  *) PATH={shlex.quote(self.path(Phase.GRADE))}:$PATH ;;\n"
            "esac\n"
            "export PATH\n"
        )


class SearchPath:
    """The harness's own PATH, made absolute, plus what makes `python` and `python3` resolve.

    `tools` is a directory of this process for the small programs and links that this needs.
    """

    def __init__(self, tools: Path) -> None:
        self._tools = tools
        self._aliases: dict[str, str] = {}
        folders = [os.path.normpath(folder) for folder in os.get_exec_path() if folder.startswith("/")]
        folders = [folder for folder in dict.fromkeys(folders) if os.access(f"{folder}/.", os.X_OK)]
        self.folders = (*folders, *_python_wrappers(tools / "python", folders))

    def folders_without(self, withheld: Withheld) -> list[str]:
        """The same folders, those inside a withheld place reached by a link that does not name it."""
        return [self._alias(folder) if withheld.holds(folder) else folder for folder in self.folders]

    def _alias(self, folder: str) -> str:
        """A virtual environment finds its files from the parent of its `bin`, so the parent is what is linked."""
        if folder not in self._aliases:
            parent, name = os.path.split(folder)
            link = self._tools / f"p{len(self._aliases) + 1}"
            link.symlink_to(parent)
            self._aliases[folder] = f"{link}/{name}"
        return self._aliases[folder]


def _python_wrappers(tools: Path, folders: Sequence[str]) -> list[str]:
    """A folder with `python` or `python3` where the path lacks one: the other one, else the harness's interpreter."""
    path = os.pathsep.join(folders)
    found = {name: shutil.which(name, path=path) for name in ("python", "python3")}
    if all(found.values()):
        return []
    tools.mkdir(exist_ok=True)
    target = found["python"] or found["python3"] or sys.executable
    for name in (name for name, program in found.items() if program is None):
        wrapper = tools / name
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(target)} "$@"\n', encoding="utf-8")
        wrapper.chmod(0o755)
    return [str(tools)]


def _basics() -> dict[str, str]:
    variables = {"LANG": "C.UTF-8"}
    for name in ("TZ", "USER", "LOGNAME"):
        if name in os.environ:
            variables[name] = os.environ[name]
    return variables


def _passed_through(patterns: Sequence[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _OWN_NAMES
        and not name.startswith("PYTEST_")
        and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }
