"""What an agent told, looked at from a test."""

from __future__ import annotations

from pytest_codereval.trajectory.model import Event, ModelCall, ModelFault, ToolCall


class ToldEvents:
    """Base of what holds `events` in the order in which they came."""

    events: list[Event]

    def calls(self, name: str | None = None) -> list[ToolCall]:
        """The tool calls in the order of their beginnings, each as it was told last."""
        last = {event.id: event for event in self.events if isinstance(event, ToolCall)}
        return [call for call in last.values() if name in (None, call.name)]

    @property
    def model_calls(self) -> list[ModelCall]:
        return list({event.id: event for event in self.events if isinstance(event, ModelCall)}.values())

    @property
    def faults(self) -> list[ModelFault]:
        return [event for event in self.events if isinstance(event, ModelFault)]
