"""What a judge is shown of a trial, each part with its limit; what is left out is said."""

from __future__ import annotations

import dataclasses
import json
import os.path
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import JudgingError
from ...sandbox.workspace import Unreadable, Workspace
from ...text import clean, cut
from ...trajectory.model import Message, ToolCall, Trajectory

if TYPE_CHECKING:
    from ...task.judge_models import JudgeMaterial
    from ..contract import Evidence
    from .desk import JudgeDesk

MOST_FILES = 200
"""Files that one pattern, or the reference, shows."""

MOST_REFERENCE_BYTES = 2_000_000
MOST_REFERENCE_CHARS = 200_000
MOST_MESSAGE_CHARS = 20_000
MOST_PARAMETER_CHARS = 2_000
MOST_TOOL_OUTPUT_CHARS = 2_000

FENCE_CHARS = 80
"""About what the fence around a part of a series has; it counts as a part of it."""

_ROOT = re.compile(r"\$\{?(TASK_DIR|REFERENCE_DIR)\}?(?:/|$)")
_MAGIC = re.compile(r"[*?\[]")
_NO_TRAJECTORY = "no agent ran, so there is none"

FILE, AUTHORS, REFERENCE = "file", "file of the author", "reference"
"""Kinds of files. A label does not tell by its name alone: a workspace may have a folder that is called $TASK_DIR."""


@dataclasses.dataclass(frozen=True)
class Block:
    """One part. `text` is None where there is nothing to show; `note` is what the harness says of it."""

    kind: str
    name: str
    text: str | None
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Material:
    """`missing` are the files that were asked for and could not be shown, `answers` the texts that nobody may keep."""

    blocks: tuple[Block, ...]
    missing: tuple[str, ...]
    answers: tuple[str, ...]

    @property
    def plain(self) -> list[tuple[str, ...]]:
        """All that is shown, part by part."""
        return [dataclasses.astuple(block) for block in self.blocks]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, in words."""
        return tuple(f"{f'{block.kind} {block.name}'.strip()}: {block.note}" for block in self.blocks if block.note)


def gather(criterion: JudgeMaterial, evidence: Evidence, desk: JudgeDesk) -> Material:
    """What the criterion asks to be shown. Raises JudgingError when the reference should be there and is not."""
    collected = _Collected(criterion.max_file_chars)
    for path in criterion.files:
        _add_files(collected, path, evidence, desk)
    if criterion.include_reference and desk.task.reference is not None:
        if evidence.reference is None:
            raise JudgingError("the task's reference is not at hand for its judge")
        for block in reference_blocks(evidence.reference, collected.answers):
            collected.blocks.append(block)
    trajectory, most = evidence.trajectory, criterion.max_dialog_chars
    if criterion.include_agent_output:
        collected.blocks.append(_output(trajectory, criterion.max_file_chars))
    if criterion.include_tool_calls:
        calls = None if trajectory is None else [("", _told(call)) for call in trajectory.tool_calls]
        collected.blocks += _series("tool call", calls, most)
    if criterion.include_dialog:
        turns = None if trajectory is None else [(f": {who}", text) for who, text in exchanged(trajectory)]
        collected.blocks += _series("dialogue", turns, most)
    return Material(tuple(collected.blocks), tuple(collected.missing), tuple(collected.answers))


class _Collected:
    def __init__(self, most: int) -> None:
        self.most = most
        self.blocks: list[Block] = []
        self.missing: list[str] = []
        self.answers: list[str] = []

    def limited(self, path: str, found: Sequence[str], kind: str) -> Sequence[str]:
        """What a pattern matched, as far as it is shown."""
        if not found:
            self.lack(path, "matches no file", kind)
        if len(found) > MOST_FILES:
            self.lack(path, f"matches {len(found)} files, of which only the first {MOST_FILES} are shown", kind)
        return found[:MOST_FILES]

    def add(self, path: str, tree: Workspace, name: str, kind: str) -> None:
        try:
            text = _as_text(tree.read_bytes(name))
        except Unreadable as error:
            self.lack(path, error.reason.removeprefix(f"{name}: "), kind)
            return
        shown = cut(text, self.most)
        if kind != FILE:
            self.answers += [text, shown]
        note = "" if shown == text else f"{len(text)} characters, of which the middle is left out"
        self.blocks.append(Block(kind, path, shown, note))

    def lack(self, path: str, reason: str, kind: str) -> None:
        self.missing.append(path)
        self.blocks.append(Block(kind, path, None, f"not shown: {' '.join(clean(reason).split())}"))


def _as_text(data: bytes) -> str:
    if b"\0" in data:
        raise Unreadable(f"a binary file of {len(data)} bytes")
    return clean(data.decode("utf-8", "replace"))


def _add_files(collected: _Collected, path: str, evidence: Evidence, desk: JudgeDesk) -> None:
    match = _ROOT.match(path)
    if match is None:
        _add_of_tree(collected, path, path, evidence.workspace, FILE)
    elif match[1] == "TASK_DIR":
        _add_of_host(collected, path, Path(os.path.normpath(desk.task_folder / path[match.end() :])))
    elif evidence.reference is None:
        raise JudgingError(f"{path}: the task's reference is not at hand for its judge")
    else:
        _add_of_tree(collected, path, path[match.end() :] or "**", evidence.reference, REFERENCE)


def _add_of_tree(collected: _Collected, shown: str, path: str, tree: Workspace, kind: str) -> None:
    prefix = shown[: len(shown) - len(path)] if shown.endswith(path) else "$REFERENCE_DIR/"
    if tree.resolve(path) is not None or not _MAGIC.search(path):
        collected.add(shown, tree, path, kind)
        return
    try:
        found = tree.glob(path)
    except Unreadable as error:
        collected.lack(shown, error.reason, kind)
        return
    for name in collected.limited(shown, found, kind):
        collected.add(prefix + name, tree, name, kind)


def _add_of_host(collected: _Collected, shown: str, path: Path) -> None:
    """A file of the author's, wherever it lies."""
    if os.path.lexists(path) or not _MAGIC.search(str(path)):
        real = Path(os.path.realpath(path))
        collected.add(shown, Workspace(real.parent), real.name, AUTHORS)
        return
    fixed = path
    while _MAGIC.search(str(fixed)):
        fixed = fixed.parent
    for name in collected.limited(shown, Workspace(fixed).glob(str(path.relative_to(fixed))), AUTHORS):
        collected.add(f"{shown} ({name})", Workspace(fixed), name, AUTHORS)


def reference_blocks(reference: Workspace, answers: list[str]) -> Iterator[Block]:
    """The files of the reference, sorted, as far as the limits permit; their texts are added to `answers`."""
    names = files_of(reference)
    bytes_left, chars_left = MOST_REFERENCE_BYTES, MOST_REFERENCE_CHARS
    omitted = [f"{name} (above {MOST_FILES} files)" for name in names[MOST_FILES:]]
    for name in names[:MOST_FILES]:
        try:
            data = reference.read_bytes(name, bytes_left)
            text = _as_text(data)
        except Unreadable as error:
            omitted.append(clean(error.reason if name in error.reason else f"{name} ({error.reason})"))
            continue
        bytes_left -= len(data)
        answers.append(text)
        if chars_left <= 0:
            omitted.append(f"{name} (above {MOST_REFERENCE_CHARS} characters)")
            continue
        shown = cut(text, chars_left)
        chars_left -= len(text)
        if shown != text:
            answers.append(shown)
        yield Block(REFERENCE, name, shown, "" if shown == text else "its middle is left out")
    if omitted:
        yield Block(REFERENCE, "", None, f"not shown: {', '.join(omitted[:20])}" + _more(len(omitted) - 20))


def files_of(tree: Workspace, folder: str = "") -> list[str]:
    """All regular files of a tree, sorted, without links and what is below them."""
    found: list[str] = []
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        for name, is_folder in tree.entries(place):
            path = f"{place}/{name}" if place else name
            if is_folder:
                waiting.append(path)
            elif (tree.root / path).is_file() and not (tree.root / path).is_symlink():
                found.append(path)
    return sorted(found)


def _more(number: int) -> str:
    return f" and {number} more" if number > 0 else ""


def _output(trajectory: Trajectory | None, most: int) -> Block:
    if trajectory is None:
        return Block("agent output", "", None, _NO_TRAJECTORY)
    text = clean(trajectory.final_answer)
    shown = cut(text, most)
    return Block("agent output", "", shown, "" if shown == text else "its middle is left out")


def _told(call: ToolCall) -> str:
    parameters = cut(clean(json.dumps(dict(call.parameters), default=str, ensure_ascii=False)), MOST_PARAMETER_CHARS)
    ended = f"{call.status}" + ("" if call.exit_status is None else f", exit status {call.exit_status}")
    name = " ".join(clean(call.name).split())
    return f"{name} {parameters}\n[{ended}]\n{cut(clean(call.output), MOST_TOOL_OUTPUT_CHARS)}".rstrip()


def exchanged(trajectory: Trajectory) -> Iterator[tuple[str, str]]:
    """Who said what in the last attempt: each prompt of the user, and the last text of the agent before the next."""
    said: str | None = None
    for event in trajectory.events:
        if not isinstance(event, Message) or event.attempt != trajectory.attempt:
            continue
        if event.role == "assistant":
            said = event.text
            continue
        if said is not None:
            yield "agent", cut(clean(said), MOST_MESSAGE_CHARS)
        said = None
        yield "user", cut(clean(event.text), MOST_MESSAGE_CHARS)
    if said is not None:
        yield "agent", cut(clean(said), MOST_MESSAGE_CHARS)


def _series(kind: str, parts: Sequence[tuple[str, str]] | None, most: int) -> Iterator[Block]:
    """Parts in order, as (who, text), each in a fence of its own, for its text may look like the beginning of another.

    Those at the end are dropped once `most` characters are there.
    """
    if not parts:
        yield Block(kind, "", None, _NO_TRAJECTORY if parts is None else "there is none")
        return
    left = most
    for number, (who, text) in enumerate(parts, 1):
        left -= len(text) + FENCE_CHARS
        if left < 0:
            dropped = len(parts) - number + 1
            note = f"the last {dropped} of {len(parts)} parts are left out, being above {most} characters"
            yield Block(kind, "", None, note)
            return
        yield Block(kind, f"{number} of {len(parts)}{who}", text)
