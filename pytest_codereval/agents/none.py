"""The agent that does nothing: the criteria judge the staged workspace as it is."""

from __future__ import annotations

from collections.abc import Iterator

from ..trajectory.model import Event
from .protocol import Job


class TheAgent:
    """Ends at once, in no turn."""

    def start(self, job: Job) -> None:
        pass

    def run(self, prompt: str, deadline: float) -> Iterator[Event]:
        return iter(())

    def stop(self) -> tuple[()]:
        return ()
