"""What a handler gets and what it returns: the public side of the reply engine."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..argv import ArgvPattern, split_argv

if TYPE_CHECKING:
    from ...sandbox.workspace import Workspace

ABSENT: Final[Any] = object()
"""The `json` of a reply that has none; None is JSON's null."""

MAX_DELAY = 3600.0
"""Seconds that a reply may wait at most."""


class StdinNeeded(BaseException):
    """Ends a handler that asks for standard input before it was read. No `except Exception` on the way stops it."""


@dataclasses.dataclass(frozen=True)
class Write:
    """An effect: a file of the workspace gets this content; text becomes UTF-8.

    A relative `path` counts from the caller's directory, or from the workspace when the caller is outside of it. A path
    that leaves the workspace makes the call fail with status 1.
    """

    path: str | os.PathLike[str]
    content: str | bytes


@dataclasses.dataclass(frozen=True)
class Copy:
    """An effect: a file, or what a folder holds, is copied into the workspace.

    `source` is relative to the task file's folder (to the table's for a rule of a table). `to` is the new file or
    folder, a path as in `Write`. Links in the source are refused.
    """

    source: str | os.PathLike[str]
    to: str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Passthrough:
    """The real program answers."""


@dataclasses.dataclass(frozen=True)
class Reply:
    """What the tool prints and returns. Text becomes UTF-8; `json` is printed as one line instead of `stdout`.

    `exit_code` is 0 to 255, `delay` is in seconds (0 to 3600). `effects` are done in order before, when `delay` has
    passed and the caller still waits. Raises TypeError and ValueError for anything else.
    """

    stdout: str | bytes = ""
    stderr: str | bytes = ""
    exit_code: int = 0
    json: Any = ABSENT
    delay: float = 0.0
    effects: Sequence[Write | Copy] = ()

    def __post_init__(self) -> None:
        for name in ("stdout", "stderr"):
            if not isinstance(getattr(self, name), str | bytes):
                raise TypeError(f"Reply: {name}: expected str or bytes, got {_kind(getattr(self, name))}")
        if not isinstance(self.exit_code, int) or isinstance(self.exit_code, bool):
            raise TypeError(f"Reply: exit_code: expected an int, got {_kind(self.exit_code)}")
        if not 0 <= self.exit_code <= 255:
            raise ValueError(f"Reply: exit_code: expected 0 to 255, got {self.exit_code}")
        if self.json is not ABSENT and self.stdout:
            raise ValueError("Reply: json and stdout exclude each other")
        if isinstance(self.delay, bool) or not isinstance(self.delay, int | float):
            raise TypeError(f"Reply: delay: expected seconds, got {_kind(self.delay)}")
        if not math.isfinite(self.delay) or not 0 <= self.delay <= MAX_DELAY:
            raise ValueError(f"Reply: delay: expected 0 to {MAX_DELAY:g} seconds, got {self.delay}")
        for effect in self.effects:
            _check_effect(effect)


def _check_effect(effect: object) -> None:
    if isinstance(effect, Write):
        paths: tuple[object, ...] = (effect.path,)
        if not isinstance(effect.content, str | bytes):
            raise TypeError(f"Reply: effects: Write: expected content as str or bytes, got {_kind(effect.content)}")
    elif isinstance(effect, Copy):
        paths = (effect.source, effect.to)
    else:
        raise TypeError(f"Reply: effects: expected Write or Copy, got {_kind(effect)}")
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"Reply: effects: {_kind(effect)}: expected a path, got {_kind(path)}")


class Call:
    """One call of a recorded tool, as a handler sees it. Tests of handlers make it themselves.

    `argv` is what followed the tool's name; bytes that are not UTF-8 are surrogate escapes. `cwd` is the caller's
    directory relative to the workspace (`.`), absolute outside of it. `env` holds the variables that the tool's rules
    name, where they were set. `state` is shared by all tools of the trial and lives as long as it. `nth` is the number
    of this call among the tool's calls, from 1. `workspace` reads what the agent wrote; where that cannot be read, its
    error makes the call fail with status 1 unless the handler catches it (`sandbox.workspace.Unreadable`).
    """

    def __init__(
        self,
        tool: str,
        argv: Sequence[str] = (),
        *,
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        state: MutableMapping[str, Any] | None = None,
        nth: int = 1,
        workspace: Workspace | None = None,
        reading: ArgvPattern | None = None,
    ) -> None:
        """`stdin` None means not read yet. `reading` declares flags, and the verb that was asked for, if any."""
        self.tool = tool
        self.argv = tuple(argv)
        self.cwd = cwd
        self.env: Mapping[str, str] = dict(env or {})
        self.state: MutableMapping[str, Any] = {} if state is None else state
        self.nth = nth
        self.stdin_was_asked = False
        self._stdin = stdin
        self._workspace = workspace
        self._reading = reading or ArgvPattern()
        self._words, self._flags = self._split()
        self._verb = next((verb for verb in self._reading.verbs if tuple(self._words[: len(verb)]) == verb), None)

    @property
    def verb(self) -> str:
        """The verb that the rule asked for; without a rule, or a verb in it, all arguments that are no flags, joined by
        spaces.
        """
        return " ".join(self._words if self._verb is None else self._verb)

    @property
    def positional(self) -> tuple[str, ...]:
        """The arguments that are no flags: those behind the verb that the rule asked for, else all."""
        return tuple(self._words[len(self._verb or ()) :])

    @property
    def stdin(self) -> str:
        """Standard input to its end, UTF-8 with surrogate escapes.

        Where it was not read yet, this ends the handler, which is called once more when it was; `state` is then as it
        was before the first time. Read it before you change anything else.
        """
        if self._stdin is None:
            self.stdin_was_asked = True
            raise StdinNeeded
        return self._stdin

    @property
    def stdin_is_read(self) -> bool:
        """Whether `stdin` is there already."""
        return self._stdin is not None

    @property
    def workspace(self) -> Workspace:
        """The agent's workspace, for reading. Links never lead out of it."""
        if self._workspace is None:
            raise RuntimeError("this call was made without a workspace")
        return self._workspace

    def flag(self, name: str, default: str | None = None) -> str | None:
        """The last value of a flag, named without dashes; `default` when it was not passed; "" for a switch.

        All names that `options` declare for the flag count. A flag that they do not declare is taken to have a value,
        since its value is asked for.
        """
        values = self.flags(name)
        return values[-1] if values else default

    def flags(self, name: str) -> list[str]:
        """All values of a flag, in order; empty when it was not passed."""
        names = self._names(name)
        reading = self._reading
        declared = name in reading.value_names or any(name in option.names for option in reading.options)
        flags = self._flags if declared else self._split(*names)[1]
        return [value for each in names for value in flags.get(each, ())]

    def has(self, name: str) -> bool:
        """Whether a flag was passed, under any of its declared names."""
        return any(each in self._flags for each in self._names(name))

    def passed(self) -> tuple[str, ...]:
        """The names of all flags that were passed; the first declared name of those that are declared."""
        return tuple(self._flags)

    def _names(self, name: str) -> tuple[str, ...]:
        groups = [option.names for option in self._reading.options] + [test.names for test in self._reading.flags]
        return next((names for names in groups if name in names), (name,))

    def _split(self, *with_value: str) -> tuple[list[str], dict[str, list[str]]]:
        reading = self._reading
        names = reading.value_names.union(with_value)
        return split_argv(self.argv, names, frozenset(), reading.known_names, reading.options)

    def __repr__(self) -> str:
        return f"Call({self.tool!r}, {list(self.argv)!r}, cwd={self.cwd!r}, nth={self.nth})"


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__
