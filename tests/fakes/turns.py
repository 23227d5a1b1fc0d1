"""What a fake model says, and what it charges."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

# kind -> its options
KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cut": (
            "after",
            "how",
        ),  # after so many SSE events the body ends; how: "end", "drop" (unfinished chunks), "reset"
        "malformed_json": (),  # one piece of the reply is no JSON
        "truncated_tool": (),  # the arguments of the tool call break off, the rest is whole
        "html": ("status",),  # a page instead of a reply
        "empty": (),  # 200 and an empty body
        "sse_error": ("after", "type", "code", "message"),  # an error event inside the stream
        "slow_drip": ("seconds", "size"),  # so many bytes (1) at a time with seconds (0.05) between
        "hang": ("after", "seconds"),  # silence, after so many SSE events; without seconds until the fake is closed
        "refusal": (),
        "max_tokens": (),
        "context_full": ("how",),  # how: "error" or "stop" (a reply that ends for that reason)
        "reset": ("after",),  # a TCP reset, after so many SSE events
    }
)
STATUS_OPTIONS = ("retry_after", "type", "code", "message", "headers")

Usage = Mapping[str, int] | Literal[False] | None


@dataclasses.dataclass(frozen=True)
class Request:
    """One call as it came in. Header names are in lower case; `time` is of `time.monotonic`."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    time: float


@dataclasses.dataclass(frozen=True)
class Charged:
    """Tokens of one reply in buckets that do not overlap; None where the reply did not say."""

    model: str
    input_tokens: int | None
    cache_creation_tokens: int | None
    cache_read_tokens: int | None
    output_tokens: int | None


@dataclasses.dataclass(frozen=True)
class Tokens:
    """Usage as it is charged, in buckets that do not overlap."""

    input_tokens: int
    cache_creation_tokens: int
    cache_read_tokens: int
    output_tokens: int

    def over(self, given: Mapping[str, int]) -> Tokens:
        """These with what was given instead, by our names or by Anthropic's. Raises TypeError for an unknown bucket."""
        return dataclasses.replace(self, **{name.replace("_input_tokens", "_tokens"): given[name] for name in given})

    @property
    def all_input(self) -> int:
        return self.input_tokens + self.cache_creation_tokens + self.cache_read_tokens


def charged(model: str, tokens: Tokens | None) -> Charged:
    if tokens is None:
        return Charged(model, None, None, None, None)
    return Charged(model, **dataclasses.asdict(tokens))


@dataclasses.dataclass(frozen=True)
class Say:
    text: str


@dataclasses.dataclass(frozen=True)
class Think:
    text: str


@dataclasses.dataclass(frozen=True)
class Call:
    """A tool call in the harness's own vocabulary."""

    tool: str
    input: Mapping[str, Any]


Part = Say | Think | Call


@dataclasses.dataclass(frozen=True)
class Turn:
    """One whole reply, begun after `delay` seconds. `usage` goes over the default one; False leaves it out."""

    parts: tuple[Part, ...]
    usage: Usage = None
    stop_reason: str | None = None
    model: str | None = None
    delay: float = 0.0


@dataclasses.dataclass(frozen=True)
class Fault:
    """A reply that goes wrong: an HTTP status or one of KINDS. `reply` is what would have been said."""

    kind: int | str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def reply(self) -> Turn:
        given = self.options.get("reply")
        if isinstance(given, Turn):
            return given
        if self.kind == "truncated_tool":
            return call("Bash", command="echo this command is cut short")
        return say("The beginning of an answer that may never have an end.")


Entry = Turn | Fault
ScriptEntry = Entry | Callable[[Request], Entry]


def say(
    text: str,
    *,
    usage: Usage = None,
    stop_reason: str | None = None,
    model: str | None = None,
    delay: float = 0.0,
) -> Turn:
    """A text. `usage` has any of the fields of `Charged`; False leaves it out of the reply."""
    return Turn((Say(text),), usage, stop_reason, model, delay)


def think(text: str) -> Turn:
    """A thought, which the model keeps apart from what it says."""
    return Turn((Think(text),))


def call(tool: str, /, **arguments: Any) -> Turn:
    """A tool call by its canonical name and arguments; `{{cwd}}` in a text is the client's working directory."""
    return Turn((Call(tool, arguments),))


def turn(
    *turns: Turn,
    usage: Usage = None,
    stop_reason: str | None = None,
    model: str | None = None,
    delay: float = 0.0,
) -> Turn:
    """Several texts and calls in one reply."""
    parts = tuple(part for one in turns for part in one.parts)
    said = next((one.usage for one in turns if one.usage is not None), None)
    reason = stop_reason or next((one.stop_reason for one in turns if one.stop_reason), None)
    name = model or next((one.model for one in turns if one.model), None)
    return Turn(
        parts, said if usage is None else usage, reason, name, delay or max((one.delay for one in turns), default=0)
    )


def fault(kind: int | str, /, **options: Any) -> Fault:
    """A fault by an HTTP status, with STATUS_OPTIONS, or by a kind of KINDS, with its options. Raises ValueError."""
    return check(Fault(kind, options))


def check(fault: Fault) -> Fault:
    """The fault itself. Raises ValueError for an unknown kind or option."""
    known = STATUS_OPTIONS if isinstance(fault.kind, int) else KINDS.get(fault.kind)
    if known is None:
        near = difflib.get_close_matches(str(fault.kind), KINDS, 1)
        raise ValueError(
            f"no fault {fault.kind!r}" + (f", did you mean {near[0]!r}?" if near else f"; there are {', '.join(KINDS)}")
        )
    if unknown := set(fault.options) - {*known, "reply"}:
        raise ValueError(f"fault {fault.kind!r} has no option {sorted(unknown)}; it has {', '.join(known) or 'none'}")
    return fault


def repeat(entry: ScriptEntry, times: int) -> list[ScriptEntry]:
    """The entry so many times; a list in a list of turns stands for its entries."""
    return [entry] * times
