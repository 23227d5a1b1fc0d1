"""Which calls of the model were made, and which of them belong to a sub-agent."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ...trajectory.model import Event, ModelCall, ModelFault


class ModelCalls:
    """Takes what the gateway tells. `open_fault` is the last fault that no whole reply to the main thread followed.

    `replies` counts these replies. `sub_agents` has, by the program's own id of a sub-agent, the id of the tool call
    that started it.
    """

    def __init__(self) -> None:
        self.open_fault: ModelFault | None = None
        self.replies = 0
        self.sub_agents: dict[str, str] = {}
        self._homeless: dict[str, ModelCall] = {}

    def take(self, event: Event) -> Event:
        """The event as it is told on: a sub-agent's call has the id of its tool call where that is known by now."""
        if isinstance(event, ModelFault):
            self.open_fault = event
        if not isinstance(event, ModelCall):
            return event
        if event.parent_id is not None:
            return self._placed(event)
        if event.complete:
            self.replies += 1
            self.open_fault = None
        return event

    def _placed(self, call: ModelCall) -> ModelCall:
        tool_call = self.sub_agents.get(call.parent_id or "")
        if tool_call is None:
            self._homeless[call.id] = call
            return call
        self._homeless.pop(call.id, None)
        return dataclasses.replace(call, parent_id=tool_call)

    def late(self) -> Iterator[ModelCall]:
        """Calls that were told before it was known which tool call they belong to, to be told again."""
        for call in list(self._homeless.values()):
            if call.parent_id in self.sub_agents:
                yield self._placed(call)
