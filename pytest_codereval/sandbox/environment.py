"""The explicit environment of a trial's processes: what is let through, what is withheld from the agent."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import itertools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ..errors import Cause, TrialError
from .interpreters import make_interpreters
from .protocol import Phase
from .withholding import Withheld

PHASE_VARIABLE = "CODEREVAL_PHASE"
"""Set for preparation and grading only, so that login shells there leave out shims and mock directories."""

GRADE_WITH_SHIMS = "grade-with-shims"

_HARMLESS_GIT = {"core.fsmonitor": "false", "core.hooksPath": "/dev/null"}
"""Keeps git from running the monitor and the hooks that a repository of the agent names; `git -c` is stronger."""

_PYTHON = re.compile(r"python(3(\.\d+)?)?")

_OWN_NAMES = frozenset({"PATH", "HOME", "TMPDIR", PHASE_VARIABLE})


@dataclasses.dataclass(frozen=True)
class EnvironmentPlan:
    """What the environment of a trial has beyond the basics.

    `passthrough`: names and globs of the harness's variables to let through. `extra`: variables set by the author.
    `withhold`: files and directories that no variable of the agent may name, such as the task's folder, the reference
    and the checkout. `basics`: what every process gets, which all the others may replace.
    """

    passthrough: tuple[str, ...] = ()
    extra: Mapping[str, str] = dataclasses.field(default_factory=dict)
    withhold: tuple[Path, ...] = ()
    basics: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Places:
    """Directories of one environment. `tools`: small programs and links that PATH needs; `cache`: compiled Python."""

    home: Path
    tmp: Path
    tools: Path
    cache: Path

    @property
    def login_script(self) -> Path:
        """Where the script lies that login shells source."""
        return self.home.parent / "login.sh"


class Environment:
    """The environments of one trial. `withheld_names` are the variables that only the agent does not get.

    Preparation and agent share their places; grading has none until `grade` is called. Raises
    TrialError(CONFIGURATION) when an author's variable names a withheld place or one that the sandbox sets.
    """

    def __init__(self, plan: EnvironmentPlan, places: Places, bin_dir: Path, search_path: SearchPath) -> None:
        self._places = places
        self._bin_dir = bin_dir
        self._search_path = search_path
        self._withhold = Withheld(plan.withhold)
        self._runs = itertools.count(1)
        self.venv: Path | None = None
        self.agent_path_dirs: list[Path] = []
        self.preparing = True
        self.grading: Places | None = None
        self._running: Places | None = None
        self._launcher: list[Path] = []
        self._interpreters: list[Path] = []
        passed = _passed_through(plan.passthrough)
        self.withheld_names = tuple(
            sorted(name for name, value in passed.items() if name not in plan.extra and self._withhold.named_in(value))
        )
        self._check_extra(plan.extra)
        self._variables = {**plan.basics, **passed, **plan.extra}

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

    def grade(self, grading: Places, running: Places, launcher: Path) -> None:
        """Let grading begin: the places of GRADE and of RUN, and the directory that is first on the PATH of GRADE.

        Raises OSError when the interpreters of GRADE cannot be made.
        """
        self.grading, self._running, self._launcher = grading, running, [launcher]
        names = {*self._search_path.pythons, *(("python", "python3") if self.venv is not None else ())}
        if names:
            self._interpreters = [make_interpreters(grading.tools / "interpreters", sorted(names))]

    def of(self, phase: Phase) -> dict[str, str]:
        """The complete environment of a process in `phase`. In grading each has a fresh cache for compiled Python.

        Raises TrialError(UNEXPECTED) for grading that has not begun.
        """
        places = self.places_of(phase)
        variables = {**self._variables, "HOME": str(places.home), "TMPDIR": str(places.tmp), "PATH": self.path(phase)}
        if self.venv is not None:
            variables["VIRTUAL_ENV"] = str(self.venv)
        if phase in (Phase.AGENT, Phase.RUN):
            for name in self.withheld_names:
                del variables[name]
        if phase is Phase.AGENT:
            return variables
        if phase is Phase.GRADE:
            variables |= _git_settings(variables)
        variables[PHASE_VARIABLE] = str(phase)
        if phase in (Phase.GRADE, Phase.RUN):
            variables["PYTHONPYCACHEPREFIX"] = f"{places.cache}/{next(self._runs)}"
            variables["PYTHONNOUSERSITE"] = "1"
        return variables

    def places_of(self, phase: Phase) -> Places:
        """Where a phase has its HOME and the like. Raises TrialError(UNEXPECTED) for grading that has not begun."""
        if phase not in (Phase.GRADE, Phase.RUN):
            return self._places
        if self.grading is None or self._running is None:
            raise TrialError(Cause.UNEXPECTED, "grading has not begun in this sandbox")
        return self.grading if phase is Phase.GRADE else self._running

    def with_shims(self) -> dict[str, str]:
        """What to lay over the grading environment of a command that wants the agent's shims and mock directories."""
        return {
            "PATH": self._join([*self._launcher, *self._shadowing(), *self._interpreters], self._grading_folders),
            PHASE_VARIABLE: GRADE_WITH_SHIMS,
        }

    def path(self, phase: Phase) -> str:
        """The value of PATH in `phase`."""
        if phase is Phase.AGENT:
            return self._join(self._shadowing(), self._agent_folders)
        if phase is Phase.PREPARE:
            return self._join([], self._preparation_folders)
        first = [*self._launcher, *self._interpreters] if phase is Phase.GRADE else []
        return self._join(first, self._grading_folders)

    @functools.cached_property
    def _aliases(self) -> Aliases:
        return Aliases(self._places.tools, self._withhold)

    @functools.cached_property
    def _wrappers(self) -> list[str]:
        return self._search_path.python_wrappers(self._places.tools / "python", self._aliases.of)

    @functools.cached_property
    def _preparation_folders(self) -> list[str]:
        return [*self._search_path.folders, *self._wrappers]

    @functools.cached_property
    def _agent_folders(self) -> list[str]:
        return [*map(self._aliases.of, self._search_path.folders), *self._wrappers]

    @functools.cached_property
    def _grading_folders(self) -> list[str]:
        tools = self.places_of(Phase.GRADE).tools
        return [*self._search_path.folders, *self._search_path.python_wrappers(tools / "python")]

    @property
    def base_path(self) -> str:
        """What criteria find on PATH when nothing stands before it."""
        return os.pathsep.join(self._search_path.folders)

    def _shadowing(self) -> list[Path]:
        return [self._bin_dir, *self.agent_path_dirs]

    def _join(self, first: Iterable[Path], folders: Iterable[str]) -> str:
        venv = [f"{self.venv}/bin"] if self.venv is not None else []
        return os.pathsep.join([*map(str, first), *venv, *folders])

    def login_script(self, *, running: bool = False) -> str:
        """Shell text that puts the phase's PATH first; sourced by login shells after the system reset theirs.

        For preparation and agent until grading has begun, then for grading only, or for the programs that graders have
        `running`; the agent's tells of no other PATH.
        """
        if running:
            known = {"*": self.path(Phase.RUN)}
        elif self.grading is not None:
            known = {GRADE_WITH_SHIMS: self.with_shims()["PATH"], "*": self.path(Phase.GRADE)}
        elif self.preparing:
            known = {str(Phase.PREPARE): self.path(Phase.PREPARE), "*": self.path(Phase.AGENT)}
        else:
            known = {"*": self.path(Phase.AGENT)}
        cases = "".join(f"  {phase}) PATH={shlex.quote(path)}:$PATH ;;\n" for phase, path in known.items())
        return f"case ${{{PHASE_VARIABLE}-}} in\n{cases}esac\nexport PATH\n"


class Aliases:
    """Links in `folder` that lead into withheld places without naming them."""

    def __init__(self, folder: Path, withheld: Withheld) -> None:
        self._folder = folder
        self._withheld = withheld
        self._known: dict[str, str] = {}

    def of(self, path: str) -> str:
        """`path` itself, or by a link when it is withheld.

        A virtual environment finds its files from the parent of its `bin`, so the parent is what is linked.
        """
        if not self._withheld.holds(path):
            return path
        if path not in self._known:
            parent, name = os.path.split(path)
            link = self._folder / f"p{len(self._known) + 1}"
            self._folder.mkdir(0o755, exist_ok=True)
            link.symlink_to(parent)
            self._known[path] = f"{link}/{name}"
        return self._known[path]


class SearchPath:
    """The harness's own PATH, made absolute, and what `python` and `python3` are where it lacks one of them."""

    def __init__(self) -> None:
        folders = [os.path.normpath(folder) for folder in os.get_exec_path() if folder.startswith("/")]
        self.folders = tuple(folder for folder in dict.fromkeys(folders) if os.access(f"{folder}/.", os.X_OK))
        path = os.pathsep.join(self.folders)
        found = {name: shutil.which(name, path=path) for name in ("python", "python3")}
        self._missing = tuple(name for name, program in found.items() if program is None)
        self._python = found["python"] or found["python3"] or sys.executable

    @functools.cached_property
    def pythons(self) -> tuple[str, ...]:
        """The names by which an interpreter is found."""
        names = {name for folder in self.folders for name in _names_in(folder) if _PYTHON.fullmatch(name)}
        return tuple(sorted(names | {"python", "python3"}))

    def python_wrappers(self, folder: Path, name_of: Callable[[str], str] = str) -> list[str]:
        """Make `folder` with the missing names: the other one, else the harness's interpreter; none when none is.

        `name_of` says by which path a directory is to be called.
        """
        if not self._missing:
            return []
        folder.mkdir(0o755, parents=True)
        program = f"{name_of(str(Path(self._python).parent))}/{Path(self._python).name}"
        for name in self._missing:
            wrapper = folder / name
            wrapper.write_text(f'#!/bin/sh\nexec {shlex.quote(program)} "$@"\n', encoding="utf-8")
            wrapper.chmod(0o755)
        return [str(folder)]


def _names_in(folder: str) -> list[str]:
    try:
        return [path.name for path in Path(folder).iterdir()]
    except OSError:
        return []


def _git_settings(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables by which git gets the harmless settings, and behind them those of an author."""
    given = variables.get("GIT_CONFIG_COUNT", "")
    count = int(given) if re.fullmatch(r"\d{1,4}", given) else 0
    settings = dict(enumerate(_HARMLESS_GIT.items()))
    for index in range(count):
        key, value = (variables.get(f"GIT_CONFIG_{part}_{index}") for part in ("KEY", "VALUE"))
        if key is None or value is None:
            return {}
        settings[len(settings)] = (key, value)
    numbered = {"GIT_CONFIG_COUNT": str(len(settings))}
    for index, (key, value) in settings.items():
        numbered |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return numbered


def _passed_through(patterns: Sequence[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _OWN_NAMES
        and not name.startswith("PYTEST_")
        and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }
