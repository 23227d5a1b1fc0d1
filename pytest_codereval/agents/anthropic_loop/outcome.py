"""What a tool call came to."""

from __future__ import annotations

import dataclasses

from ...trajectory.model import ToolStatus


@dataclasses.dataclass(frozen=True)
class Outcome:
    """`output` is what the record keeps, `shown` what the model sees of it, by default the same."""

    status: ToolStatus
    output: str = ""
    exit_status: int | None = None
    shown: str | None = None

    @property
    def result(self) -> str:
        """The text that the model gets."""
        return self.output if self.shown is None else self.shown


class InvalidInput(Exception):
    """The model called a tool in a way that it does not have; the message is for the model."""


def error(message: str) -> Outcome:
    """A call that failed, with the reason."""
    return Outcome("error", message)
