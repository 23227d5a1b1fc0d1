"""The replies of a task file made ready: files are read and templates compiled before any call."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import Cause, TrialError
from ...sandbox.host_path import host_path
from ...task.reply_files import read_json
from ...task.reply_texts import TemplateError, without_notes
from .call import Call
from .effects import Place, SourceProblem, Tree, read_tree
from .templates import FixedBytes, FixedText, Stream, TemplateText, json_stream, stream_of, text_of

if TYPE_CHECKING:
    from ...task.reply_models import ReplyModel

_LARGEST_FILE = 50_000_000


@dataclasses.dataclass(frozen=True)
class WriteEffect:
    """A file that is written."""

    path: FixedText | TemplateText
    content: Stream

    @property
    def asks_stdin(self) -> bool:
        return self.path.asks_stdin or self.content.asks_stdin

    def do(self, call: Call, place: Place) -> None:
        """Raises EffectRefused and TemplateFault."""
        place.write(self.path.render(call), self.content.produce(call))


@dataclasses.dataclass(frozen=True)
class CopyEffect:
    """A file or folder that is copied."""

    tree: Tree
    to: FixedText | TemplateText

    @property
    def asks_stdin(self) -> bool:
        return self.to.asks_stdin

    def do(self, call: Call, place: Place) -> None:
        """Raises EffectRefused and TemplateFault."""
        place.copy(self.tree, self.to.render(call))


@dataclasses.dataclass(frozen=True)
class PrintStep:
    """One reply. In `set_state` None removes. With `from_caller` relative paths count from the caller's directory."""

    stdout: Stream
    stderr: Stream
    exit_status: int = 0
    delay: float = 0.0
    set_state: tuple[tuple[str, FixedText | TemplateText | None], ...] = ()
    effects: tuple[WriteEffect | CopyEffect, ...] = ()
    from_caller: bool = False

    @property
    def asks_stdin(self) -> bool:
        """Whether a template in it names standard input."""
        parts = (self.stdout, self.stderr, *self.effects, *(text for _, text in self.set_state if text is not None))
        return any(part.asks_stdin for part in parts)

    @property
    def is_fixed(self) -> bool:
        """Whether it only prints, and the same for every call."""
        fixed = isinstance(self.stdout, FixedBytes) and isinstance(self.stderr, FixedBytes)
        return fixed and not (self.effects or self.set_state)


@dataclasses.dataclass(frozen=True)
class PassthroughStep:
    """The real program answers, after `delay` seconds."""

    delay: float = 0.0


@dataclasses.dataclass(frozen=True)
class HandlerStep:
    """A Python function answers, by the text that names it; `folder` is what its files are relative to."""

    name: str
    folder: Path


Step = PrintStep | PassthroughStep | HandlerStep
Steps = tuple[Step, ...]
"""One reply for each call, the last one again and again."""


def steps_of(reply: ReplyModel, folder: Path, origin: str) -> Steps:
    """Make a reply ready; `folder` is what its files are relative to, `origin` names it in messages.

    Raises TrialError(CONFIGURATION) for what cannot be read or understood.
    """
    if reply.sequence:
        return tuple(
            _step_of(step, folder, f"{origin}.sequence[{number}]") for number, step in enumerate(reply.sequence)
        )
    return (_step_of(reply, folder, origin),)


def fallback_of(tool: Any, folder: Path) -> Steps:
    """The reply that a tool itself describes; its handler comes before and is no part of it."""
    if tool.sequence:
        return steps_of(tool, folder, tool.tool)
    if tool.passthrough:
        return (PassthroughStep(tool.delay),)
    return (_print_step(tool, folder, tool.tool),)


def _step_of(reply: ReplyModel, folder: Path, origin: str) -> Step:
    if reply.handler is not None:
        return HandlerStep(reply.handler, folder)
    if reply.passthrough:
        return PassthroughStep(reply.delay)
    return _print_step(reply, folder, origin)


def _print_step(reply: ReplyModel, folder: Path, origin: str) -> PrintStep:
    try:
        return PrintStep(
            _stdout_of(reply, folder),
            stream_of(_text_or_file(reply.stderr, reply.stderr_file, folder, "stderr_file"), reply.template),
            reply.exit_code,
            reply.delay,
            tuple(
                (name, None if value is None else text_of(value, reply.template))
                for name, value in reply.set_state.items()
            ),
            tuple(_effect_of(effect, folder, reply.template) for effect in reply.effects),
            from_caller=reply.template,
        )
    except (OSError, TypeError, ValueError, RecursionError, SourceProblem, TemplateError) as error:
        raise TrialError(Cause.CONFIGURATION, f"sandbox.record_cli: {origin}: {error}") from error


def _stdout_of(reply: ReplyModel, folder: Path) -> Stream:
    if reply.has_json:
        return json_stream(without_notes(reply.json_value), reply.template)
    if reply.json_file is not None:
        content = _read(host_path(reply.json_file, folder, "json_file"))
        return json_stream(without_notes(read_json(content)), reply.template)
    return stream_of(_text_or_file(reply.stdout, reply.stdout_file, folder, "stdout_file"), reply.template)


def _text_or_file(text: str, file: str | None, folder: Path, key: str) -> str | bytes:
    return text if file is None else _read(host_path(file, folder, key))


def _effect_of(effect: Any, folder: Path, template: bool) -> WriteEffect | CopyEffect:
    if hasattr(effect, "copy_from"):
        tree = read_tree(host_path(effect.copy_from, folder, "effects: copy"))
        return CopyEffect(tree, text_of(effect.to, template))
    content = _text_or_file(effect.content or "", effect.content_file, folder, "effects: content_file")
    return WriteEffect(text_of(effect.write, template), stream_of(content, template))


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise ValueError(f"{path}: larger than {_LARGEST_FILE} bytes")
    return content
