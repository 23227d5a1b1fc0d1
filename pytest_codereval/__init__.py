"""A pytest plugin in which a task for an AI coding agent is a test.

For handlers of recorded tools: `Call`, `Reply`, `Passthrough`, and the effects `Write` and `Copy`.
For agents of one's own: `AgentKind`, `AgentConfig`, `Job` with its `Sandbox` and `Phase`, `AgentError` with `Cause`,
and the events `Message`, `ToolCall`, `ModelCall` and `ModelFault` with `Usage`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agents.protocol import Job
    from .agents.registry import AgentKind
    from .errors import AgentError, Cause
    from .recorder.answers.call import Call, Copy, Passthrough, Reply, Write
    from .sandbox.protocol import Phase, Sandbox
    from .task.agent_models import AgentConfig
    from .trajectory.model import Message, ModelCall, ModelFault, ToolCall, Usage

__all__ = [
    "AgentConfig",
    "AgentError",
    "AgentKind",
    "Call",
    "Cause",
    "Copy",
    "Job",
    "Message",
    "ModelCall",
    "ModelFault",
    "Passthrough",
    "Phase",
    "Reply",
    "Sandbox",
    "ToolCall",
    "Usage",
    "Write",
]

_HOMES = {
    "agents.protocol": ("Job",),
    "agents.registry": ("AgentKind",),
    "errors": ("AgentError", "Cause"),
    "recorder.answers.call": ("Call", "Copy", "Passthrough", "Reply", "Write"),
    "sandbox.protocol": ("Phase", "Sandbox"),
    "task.agent_models": ("AgentConfig",),
    "trajectory.model": ("Message", "ModelCall", "ModelFault", "ToolCall", "Usage"),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that the plugin alone stays light."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
