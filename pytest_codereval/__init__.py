"""A pytest plugin in which a task for an AI coding agent is a test.

For handlers of recorded tools: `Call`, `Reply`, `Passthrough`, and the effects `Write` and `Copy`.
For agents of one's own: `AgentKind`, `AgentConfig`, `Job` with its `Sandbox` and `Phase`, `AgentError` with `Cause`,
and the events `Message`, `ToolCall`, `ModelCall` and `ModelFault` with `Usage`.
For criteria of one's own: `CriterionKind`, the base `Criterion` of its model with `StopEarly`, `StrictModel` for parts
of it, the types of values in `pytest_codereval.task.fields` and `Finding` for what is wrong with them; `Evidence`,
`Judgement`, `JudgingError`, `NotJudged` and `Verdict` for its checker, and `fail_when_unreadable` around it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agents.protocol import Job
    from .agents.registry import AgentKind
    from .criteria.contract import Evidence, Judgement, Verdict
    from .criteria.reading import fail_when_unreadable
    from .criteria.registry import CriterionKind
    from .errors import AgentError, Cause, JudgingError, NotJudged
    from .recorder.answers.call import Call, Copy, Passthrough, Reply, Write
    from .sandbox.protocol import Phase, Sandbox
    from .task.agent_models import AgentConfig
    from .task.base import Finding, StrictModel
    from .task.criterion import Criterion, StopEarly
    from .trajectory.model import Message, ModelCall, ModelFault, ToolCall, Usage

__all__ = [
    "AgentConfig",
    "AgentError",
    "AgentKind",
    "Call",
    "Cause",
    "Copy",
    "Criterion",
    "CriterionKind",
    "Evidence",
    "Finding",
    "Job",
    "Judgement",
    "JudgingError",
    "Message",
    "ModelCall",
    "ModelFault",
    "NotJudged",
    "Passthrough",
    "Phase",
    "Reply",
    "Sandbox",
    "StopEarly",
    "StrictModel",
    "ToolCall",
    "Usage",
    "Verdict",
    "Write",
    "fail_when_unreadable",
]

_HOMES = {
    "agents.protocol": ("Job",),
    "agents.registry": ("AgentKind",),
    "criteria.contract": ("Evidence", "Judgement", "Verdict"),
    "criteria.reading": ("fail_when_unreadable",),
    "criteria.registry": ("CriterionKind",),
    "plugin.collection": ("CoderEvalWarning",),
    "errors": ("AgentError", "Cause", "JudgingError", "NotJudged"),
    "recorder.answers.call": ("Call", "Copy", "Passthrough", "Reply", "Write"),
    "sandbox.protocol": ("Phase", "Sandbox"),
    "task.agent_models": ("AgentConfig",),
    "task.base": ("Finding", "StrictModel"),
    "task.criterion": ("Criterion", "StopEarly"),
    "trajectory.model": ("Message", "ModelCall", "ModelFault", "ToolCall", "Usage"),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that the plugin alone stays light."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
