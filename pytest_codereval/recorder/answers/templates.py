"""Texts of replies: fixed ones, and templates into which the values of the call are put as data."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ...errors import CoderEvalError
from ...task.reply_texts import template_use, texts_in
from .call import Call

if TYPE_CHECKING:
    import jinja2

_MARKS = ("{{", "{%", "{#")


class TemplateFault(CoderEvalError):
    """A template that cannot be filled."""


def encode(text: str) -> bytes:
    """UTF-8; surrogate escapes become the bytes that they stand for, other lone surrogates a visible escape."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


def json_line(value: Any) -> bytes:
    """`value` as one line of JSON. Raises TypeError and ValueError for what JSON cannot say, NaN included."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


class Text(Protocol):
    """A text of a reply. `asks_stdin` tells whether it needs the call's standard input."""

    @property
    def asks_stdin(self) -> bool: ...

    def render(self, call: Call) -> str: ...


class Stream(Protocol):
    """What is printed on a stream."""

    @property
    def asks_stdin(self) -> bool: ...

    def produce(self, call: Call) -> bytes: ...


@dataclasses.dataclass(frozen=True)
class FixedText:
    """A text that is the same for every call."""

    text: str
    asks_stdin: bool = False

    def render(self, call: Call) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class FixedBytes:
    """Bytes that are the same for every call."""

    content: bytes = b""
    asks_stdin: bool = False

    def produce(self, call: Call) -> bytes:
        return self.content


@dataclasses.dataclass(frozen=True)
class TemplateText:
    """A template. Raises TemplateError when it is none, and TemplateFault in `render` when it cannot be filled."""

    source: str

    def __post_init__(self) -> None:
        template_use(self.source)

    @property
    def asks_stdin(self) -> bool:
        return template_use(self.source).stdin

    def render(self, call: Call) -> str:
        try:
            return _compiled(self.source).render(_context(call))
        except Exception as error:
            raise TemplateFault(f"template: {type(error).__name__}: {error}") from error

    def produce(self, call: Call) -> bytes:
        return encode(self.render(call))


@dataclasses.dataclass(frozen=True)
class TemplateJson:
    """JSON whose texts are templates, each for itself, so that the result is JSON whatever the call holds."""

    value: Any
    _texts: tuple[TemplateText, ...] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_texts", tuple(TemplateText(text) for text in _texts_of(self.value) if _marked(text)))

    @property
    def asks_stdin(self) -> bool:
        return any(text.asks_stdin for text in self._texts)

    def produce(self, call: Call) -> bytes:
        return json_line(_mapped(self.value, lambda text: TemplateText(text).render(call) if _marked(text) else text))


def text_of(source: str, template: bool) -> FixedText | TemplateText:
    """The text, a template where the reply has `template: true`. Raises TemplateError."""
    return TemplateText(source) if template and _marked(source) else FixedText(source)


def stream_of(content: str | bytes, template: bool) -> Stream:
    """What is printed for a text or for the bytes of a file. Raises TemplateError."""
    text = content.decode("utf-8", "surrogateescape") if isinstance(content, bytes) else content
    if template and _marked(text):
        return TemplateText(text)
    return FixedBytes(content if isinstance(content, bytes) else encode(content))


def json_stream(value: Any, template: bool) -> Stream:
    """What is printed for JSON. Raises TemplateError, TypeError and ValueError."""
    line = json_line(value)
    return TemplateJson(value) if template and any(map(_marked, _texts_of(value))) else FixedBytes(line)


class _Values:
    """Values by name, and nothing else that a template could call or change."""

    def __init__(self, lookup: Callable[[str], Any], names: Callable[[], Iterator[str]]) -> None:
        self._lookup = lookup
        self._names = names

    def __getitem__(self, name: str) -> Any:
        found = self._lookup(name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or `default` where there is none."""
        found = self._lookup(name)
        return default if found is None else found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._lookup(name) is not None

    def __iter__(self) -> Iterator[str]:
        return self._names()


def _context(call: Call) -> dict[str, Any]:
    context = {
        "tool": call.tool,
        "argv": call.argv,
        "verb": call.verb,
        "positional": call.positional,
        "flags": _Values(call.flag, lambda: iter(call.passed())),
        "cwd": call.cwd,
        "env": _values(call.env),
        "state": _values(call.state),
        "nth": call.nth,
    }
    if call.stdin_is_read:
        context["stdin"] = call.stdin
    return context


def _values(mapping: Mapping[str, Any]) -> _Values:
    return _Values(mapping.get, lambda: iter(mapping))


@functools.lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(keep_trailing_newline=True)


@functools.lru_cache(maxsize=1024)
def _compiled(source: str) -> jinja2.Template:
    return _environment().from_string(source)


def _marked(text: str) -> bool:
    return any(mark in text for mark in _MARKS)


def _texts_of(value: Any) -> Iterator[str]:
    return (text for _, text in texts_in(value, ()))


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_mapped(item, change) for item in value]
    return value
