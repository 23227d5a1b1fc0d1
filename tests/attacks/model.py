"""What an attack is, and what is looked at to tell whether it succeeded."""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class State(enum.StrEnum):
    """What came of an attack under one driver."""

    PREVENTED = "prevented"
    DETECTED = "detected"
    """The trial ended in an error that names it, a verdict counts it, or the evidence is marked as tainted."""
    POSSIBLE = "possible"
    """It succeeded, and nothing tells of it."""
    REFUSED = "refused"
    """The driver did not start the trial, as it cannot give what the task asks for."""
    UNTESTED = "untested"


@dataclasses.dataclass(frozen=True)
class Expected:
    """What has to come of an attack under each driver."""

    tempdir: State = State.PREVENTED
    bubblewrap: State = State.PREVENTED
    docker: State = State.PREVENTED
    bubblewrap_as_user: State | None = None
    tempdir_as_user: State | None = None
    """Where pytest does not run as root, when that makes a difference."""

    def of(self, driver: str) -> State:
        """Against the open driver each attack has to succeed in silence."""
        if driver == "open":
            return State.POSSIBLE
        as_user: State | None = getattr(self, f"{driver}_as_user", None)
        return as_user if as_user is not None and os.getuid() != 0 else State(getattr(self, driver))


PREVENTED = Expected()
ON_TEMPDIR = Expected(tempdir=State.POSSIBLE)
"""A directory and a supervisor do not prevent it; the other drivers do."""

DETECTED_ON_TEMPDIR = Expected(tempdir=State.DETECTED)

DETECTED = Expected(State.DETECTED, State.DETECTED, State.DETECTED)


EVERYWHERE = ("tempdir", "bubblewrap", "docker")


@dataclasses.dataclass(frozen=True)
class Setting:
    """The trial in which attacks are tried, one after the other. `fields` are keys of the task beside the usual ones.

    Under the drivers named in `alone` each attack gets a trial of its own, because it may decide what becomes of the
    trial; against the open driver each has one.
    """

    name: str
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    alone: tuple[str, ...] = ()

    def is_alone(self, driver: str) -> bool:
        """Whether each attack gets a trial of its own under this driver."""
        return driver == "open" or driver in self.alone


@dataclasses.dataclass(frozen=True)
class World:
    """The fake host: directories that lie there, and a token in each thing that an agent is not to read."""

    base: str
    checkout: str
    task_dir: str
    home: str
    bin: str
    run: str
    tmp: str
    docker_socket: str
    abstract_socket: str
    tcp_port: int
    udp_port: int
    tokens: Mapping[str, str]
    mark: str
    """Part of the arguments of processes that attacks leave behind, and of files that they put elsewhere."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one attack: `output` of its commands, the `verdicts` of its criteria, and the rest of its trial.

    `alive` tells that a process of the attack lived after the seal, `seen` what reached the fake services from it,
    `seconds` how long the trial took from its staging to its record, `left` that its folder is still on the disk,
    `leftovers` what the trial says of that. `record` is None when there is none that can be read; `raised` is what the
    trial raised.
    """

    name: str
    output: str
    verdicts: tuple[str, ...]
    alive: bool
    seen: tuple[str, ...]
    seconds: float
    left: bool
    leftovers: tuple[str, ...]
    record: Mapping[str, Any] | None
    raised: str
    changed: tuple[str, ...]
    """The paths of the host that are no longer what they were before the trial."""
    folder: Path
    """The trial's folder in the run directory."""
    world: World

    def told(self, *tokens: str) -> bool:
        """Whether the output has one of these tokens of the world."""
        return any(self.world.tokens[token] in self.output for token in tokens)

    def changed_below(self, path: str) -> bool:
        """Whether something of the host changed there."""
        return any(each == path or each.startswith(f"{path}/") for each in self.changed)

    def said(self, text: str) -> bool:
        """Whether a line of the output is `text`."""
        return text in self.output.splitlines()

    @property
    def passed(self) -> bool:
        """Whether a criterion of the attack passed: each is written so that this must not be."""
        return "pass" in self.verdicts

    @property
    def calls(self) -> tuple[tuple[str, ...], ...]:
        """The recorded calls: tool and arguments."""
        calls = ((self.record or {}).get("invocations") or {}).get("calls", ())
        return tuple((call["tool"], *call["argv"]) for call in calls)


Judge = Callable[[Outcome], bool]


@dataclasses.dataclass(frozen=True)
class Attack:
    """One attack. `script` is run by bash as the agent; `@name@` in it stands for places of the world.

    `criteria` are added to the task, written so that an honest trial fails them all. `user` is "root" where only an
    agent of root could succeed, "other" where only another user could.
    """

    name: str
    tries: str
    success: str
    setting: Setting
    script: str
    succeeded: Judge
    expected: Expected = PREVENTED
    criteria: tuple[Mapping[str, Any], ...] = ()
    timeout: float = 30
    user: str = ""
    changes: tuple[str, ...] = ()
    """What of the operator's it changes where it succeeds."""
    needs_landlock: bool = False
    """Whether the driver `tempdir` answers it by Landlock, although it does not answer all of its theme in that way."""
    detected: Judge = lambda outcome: False
    """Whether a success is told by a verdict."""
    kills: bool = False
    """Whether it may end the harness itself, which then is its success."""


def told(*tokens: str) -> Judge:
    """The attack read one of these tokens."""
    return lambda outcome: outcome.told(*tokens)


def said(text: str) -> Judge:
    """The attack printed this line, which it does when it had its way."""
    return lambda outcome: outcome.said(text)


def passed(outcome: Outcome) -> bool:
    """A criterion passed that must not."""
    return outcome.passed


def reached(outcome: Outcome) -> bool:
    """A fake service outside of the sandbox saw it."""
    return bool(outcome.seen)


def command(text: str, **more: Any) -> dict[str, Any]:
    """A criterion that passes when the command exits with 0."""
    return {"type": "run_command", "command": text, "timeout": 20, **more}
