"""Fakes of model APIs on the loopback device, which play scripted turns and misbehave on demand."""

from .anthropic import FakeAnthropic
from .gemini import FakeGemini
from .openai import FakeOpenAI
from .server import Fake
from .turns import Charged, Fault, Request, Turn, call, fault, repeat, say, think, turn

__all__ = [
    "Charged",
    "Fake",
    "FakeAnthropic",
    "FakeGemini",
    "FakeOpenAI",
    "Fault",
    "Request",
    "Turn",
    "call",
    "fault",
    "repeat",
    "say",
    "think",
    "turn",
]
