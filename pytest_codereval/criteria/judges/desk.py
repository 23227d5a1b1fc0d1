"""Where judges work: who pays, where their transcripts lie, which judgements this run has already."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import JudgingError
from ...trajectory.model import ModelCall, ModelFault
from ...trajectory.prices import PriceList

if TYPE_CHECKING:
    from ...sandbox.protocol import Sandbox
    from ...task.models import Task
    from ..contract import Evidence


class Accounts(Protocol):
    """Pays for judges."""

    prices: PriceList
    patience: float
    """Multiplies the waits before a failed call is made again."""

    has_cap: bool
    """Whether a budget holds for judges, so that the price of each call must be known."""

    def admit(self) -> None:
        """Raise NotJudged when no money is left for a judge."""

    def turn(self, provider: str | None, patience: float) -> AbstractContextManager[None]:
        """A turn with the provider, which others of the session wait for; begun before a judgement is held.

        Raises JudgingError when none comes in `patience` seconds.
        """

    def tell(self, event: ModelCall | ModelFault, provider: str | None) -> None:
        """Enter what a call of a judge used; a later one with the id of an earlier one takes its place."""


class Place(Protocol):
    """Where one judgement of a run is kept, held by one process at a time."""

    def read(self) -> dict[str, Any] | None:
        """What was judged before, None when nothing was or it cannot be read."""

    def write(self, judged: dict[str, Any]) -> None:
        """Keep what was judged now."""


class NoPlace:
    """Keeps nothing."""

    def read(self) -> None:
        return None

    def write(self, judged: dict[str, Any]) -> None:
        return None


class Shelf(Protocol):
    """The judgements of a run, by the SHA-256 of all that they depend on."""

    def held(self, key: str) -> AbstractContextManager[Place]:
        """The place of one judgement; others that want the same one wait."""


@dataclasses.dataclass(frozen=True)
class Room:
    """A sandbox for an agent that judges. `left_out` names what its copy of the workspace lacks or calls otherwise."""

    sandbox: Sandbox
    left_out: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class JudgeDesk:
    """What judges need beside the evidence.

    `task_folder` is what `$TASK_DIR` stands for. `folder` is where transcripts go, None for nowhere; without a `shelf`
    each judgement is made anew. `make_room` gives a room with a copy of the workspace and of the reference; it is
    closed by the context.
    """

    task: Task
    task_folder: Path
    accounts: Accounts
    folder: Path | None = None
    shelf: Shelf | None = None
    make_room: Callable[[Evidence], AbstractContextManager[Room]] | None = None

    def held(self, key: str) -> AbstractContextManager[Place]:
        """The place of the judgement with this key."""
        return self.shelf.held(key) if self.shelf is not None else nullcontext(NoPlace())


def desk_of(evidence: Evidence) -> JudgeDesk:
    """The desk of a trial's judges. Raises JudgingError where there is none."""
    if evidence.desk is None:
        raise JudgingError("no judge can be asked here: this evidence is not that of a trial that is being judged")
    return evidence.desk
