"""Looks through the sealed evidence of a trial for signs that the agent saw grading material."""

from __future__ import annotations

import dataclasses
import enum
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..recorder.invocation import Invocation, InvocationLog
from ..sandbox.snapshot import Manifest
from ..text import cut
from ..trajectory.model import Event, Message, ToolCall
from .needles import SMALLEST, GradingFile, Needles
from .places import PlaceFinder, usable_places
from .reading import Budget, opened, pieces
from .tokens import TokenFinder, shown
from .view import Given

MOST_FINDINGS = 50
MOST_SKIPPED = 1000
"""Entries that a snapshot names at most when it leaves them out."""

_NUMBERED = re.compile(r"^(?:\s*\d+[→|:\t]\s?)+")
_HARMLESS = ("link to ", "ignored", "fifo", "socket", "character device", "block device", "gone")
_FEWEST_LINES = 3


class State(enum.StrEnum):
    """What the evidence says. Tainted: it was seen. Inconclusive: that cannot be ruled out."""

    CLEAN = "clean"
    TAINTED = "tainted"
    INCONCLUSIVE = "inconclusive"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One sign, where it was found and what it is; `state` is what it alone amounts to."""

    where: str
    what: str
    state: State

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclasses.dataclass(frozen=True)
class Taint:
    """What the scan came to. `warnings` are mistakes in the grading material, for its author."""

    state: State
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()

    def as_record(self) -> dict[str, object]:
        """As plain data."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What is looked through. `snapshot` holds the files of `manifest`, which is None when there is no snapshot.

    `tells` says whether an agent worked that tells what it does.
    """

    events: Sequence[Event]
    log: InvocationLog
    manifest: Manifest | None
    snapshot: Path
    tells: bool = True


def scan(
    needles: Needles,
    given: Given,
    evidence: Evidence,
    *,
    given_texts: Iterable[str] = (),
    answers: Iterable[str] = (),
    allowed: Iterable[Path] = (),
    budget: Budget | None = None,
) -> Taint:
    """Look through trajectory, recorded calls and workspace. What the agent was given counts for nothing.

    `given_texts` are those that the task tells the agent; what its user said is added. `answers` are what recorded
    tools may tell it. Paths below `allowed` may be named.
    """
    search = _Search(needles, given, tuple(allowed), budget or Budget(files=200_000), bool(evidence.log.invocations))
    users = [event.text for event in evidence.events if isinstance(event, Message) and event.role == "user"]
    search.leave_out([*given_texts, *users], answers)
    search.trajectory(evidence.events)
    search.calls(evidence.log.invocations)
    search.workspace(evidence.manifest, evidence.snapshot)
    search.completeness(evidence)
    return search.taint()


class _Search:
    """Goes through the evidence piece by piece and collects findings."""

    def __init__(self, needles: Needles, given: Given, allowed: tuple[Path, ...], budget: Budget, called: bool) -> None:
        self._needles = needles
        self._given = given
        self._budget = budget
        self._warnings = list(given.warnings)
        self._findings: list[Finding] = []
        self._same: list[Finding] = []
        self._allowed = allowed
        self._called = called
        self._use(set(given.tokens), set(given.places))
        self._texts = {
            text: file for file in needles.files.values() if file.kind.is_telling if (text := self._text_of(file))
        }

    def _use(self, tokens: set[str], places: set[str]) -> None:
        """Look for all needles but these."""
        self._tokens = TokenFinder(token for token in self._needles.tokens if token not in tokens)
        wanted = {name: path for name, path in self._needles.places.items() if name not in places}
        self._places = PlaceFinder(usable_places(wanted, self._allowed), self._allowed)

    def _text_of(self, file: GradingFile) -> str | None:
        """The lines to look for, None where they are too few to mean anything or were given."""
        if file.sha256 in self._given.contents or (text := file.read_text()) is None:
            return None
        lines = _lines(text)
        return lines if len(lines) >= SMALLEST and lines.count("\n") >= _FEWEST_LINES - 1 else None

    def leave_out(self, texts: Iterable[str], answers: Iterable[str]) -> None:
        """What these texts say was told to the agent; of `answers` only the canaries count."""
        data = "\n".join(texts)
        tokens, places = self._found_in(_bytes(data))
        tokens = tokens | self._found_in(_bytes("\n".join(answers)))[0]
        self._warnings += [f"{shown(token)} shows nothing: the task tells it to the agent" for token in sorted(tokens)]
        self._warnings += [f"the path of the {name} is told to the agent by the task" for name in sorted(places)]
        self._use({*self._given.tokens, *tokens}, {*self._given.places, *places})
        told = _lines(data)
        self._texts = {text: file for text, file in self._texts.items() if text not in told}

    def _found_in(self, data: bytes) -> tuple[set[str], frozenset[str]]:
        self._tokens.restart()
        self._places.restart()
        self._tokens.feed(data)
        self._places.feed(data)
        return self._tokens.found, self._places.finish()

    # -- the parts of the evidence

    def trajectory(self, events: Sequence[Event]) -> None:
        """What the agent said, what it asked of its tools, and what they told it."""
        answers = [e for e in events if isinstance(e, Message) and e.role == "assistant"]
        for number, message in enumerate(answers, 1):
            name = "final answer" if message is answers[-1] else f"message {number}"
            self._text(name, message.text)
        for number, call in enumerate((e for e in events if isinstance(e, ToolCall)), 1):
            self._text(f"tool call {number} ({call.name}), input", "\n".join(_strings(call.parameters)))
            self._text(f"tool call {number} ({call.name}), output", call.output)

    def calls(self, invocations: Sequence[Invocation]) -> None:
        """What recorded tools were called with."""
        for call in invocations:
            said = "\n".join([*call.argv, call.cwd, call.stdin or ""])
            self._text(f"call {call.sequence} of {call.tool}", said)

    def workspace(self, manifest: Manifest | None, snapshot: Path) -> None:
        """The files that the agent left, by name and content."""
        if manifest is None:
            self._doubt("workspace", "there is no snapshot of it")
            return
        names = [*(file.path for file in manifest.files), *manifest.links]
        self._text("names in the workspace", "\n".join(names))
        self._text("what was not copied", "\n".join(f"{each.path}\n{each.reason}" for each in manifest.skipped))
        for file in manifest.files:
            where = f"workspace: {file.path}"
            self._content(file.sha256, where)
            before = self._given.workspace.get(file.path)
            if before is None or before[1] != file.sha256:
                self._file(f"{snapshot}/{file.path}", where)
        unread = [each for each in manifest.skipped if not each.reason.startswith(_HARMLESS)]
        if unread:
            example = _one_line(f"{unread[0].path} ({unread[0].reason})")
            self._doubt("workspace", f"{len(unread)} not read, such as {example}")
        if manifest.truncated or len(manifest.skipped) >= MOST_SKIPPED:
            self._doubt("workspace", "it is too large to be kept as a whole")

    def completeness(self, evidence: Evidence) -> None:
        """Say what of the evidence is missing."""
        for reason in (*self._needles.short, *self._given.short):
            self._doubt("grading material", reason)
        if self._budget.short:
            self._doubt("evidence", "it is too large to be looked through as a whole")
        if evidence.log.faults:
            self._doubt("recorded calls", "some may be missing")
        told = any(isinstance(event, ToolCall) for event in evidence.events)
        if evidence.tells and not told and (evidence.log.invocations or self._changed(evidence.manifest)):
            self._doubt("trajectory", "the agent used tools and told of none")

    def _changed(self, manifest: Manifest | None) -> bool:
        if manifest is None or self._given.short:
            return True
        left = {file.path: file.sha256 for file in manifest.files if not file.redacted}
        return (
            left.items()
            != {path: sha256 for path, (_, sha256) in self._given.workspace.items() if path in left}.items()
        )

    # -- one piece

    def _text(self, where: str, text: str) -> None:
        data = _bytes(text)
        if not data:
            return
        if not self._budget.takes(0) or len(data) > self._budget.total:
            self._budget.short = True
            return
        self._budget.total -= len(data)
        self._note(where, *self._found_in(data))
        self._whole_files(where, text)

    def _whole_files(self, where: str, text: str) -> None:
        if not self._texts or len(text) < SMALLEST:
            return
        lines = _lines(text)
        for wanted, file in self._texts.items():
            if wanted in lines:
                self._proof(where, f"the text of the {file}")

    def _file(self, path: str, where: str) -> None:
        if (file := opened(path, self._budget)) is None:
            return
        descriptor, _ = file
        self._tokens.restart()
        self._places.restart()
        try:
            for piece in pieces(descriptor, self._budget.largest):
                self._tokens.feed(piece)
                self._places.feed(piece)
        except OSError as error:
            self._doubt(where, f"it cannot be read: {error.strerror}")
        finally:
            os.close(descriptor)
        self._note(where, self._tokens.found, self._places.finish())

    def _content(self, sha256: str, where: str) -> None:
        file = self._needles.files.get(sha256)
        if file is None or sha256 in self._given.contents:
            return
        if file.kind.is_telling:
            self._proof(where, f"it is the same as the {file}")
        else:
            what = f"it is the same as the {file}, and the agent named a path that it was not told"
            self._same.append(Finding(_one_line(where), what, State.TAINTED))

    def _note(self, where: str, tokens: Iterable[str], places: Iterable[str]) -> None:
        for token in sorted(tokens):
            what = f"{shown(token)} of {self._needles.tokens[token]}"
            if token in self._needles.answer_tokens and self._called:
                self._doubt(where, f"{what}, which a recorded tool may have answered")
            else:
                self._proof(where, what)
        for name in sorted(places):
            self._doubt(where, f"the path of the {name}, which the agent was not told")

    def _proof(self, where: str, what: str) -> None:
        self._findings.append(Finding(_one_line(where), what, State.TAINTED))

    def _doubt(self, where: str, what: str) -> None:
        self._findings.append(Finding(_one_line(where), what, State.INCONCLUSIVE))

    def taint(self) -> Taint:
        """All findings, the worst first."""
        named = any(finding.what.startswith("the path of") for finding in self._findings)
        findings = [*self._findings, *(self._same if named else ())]
        findings.sort(key=lambda finding: finding.state is not State.TAINTED)
        state = findings[0].state if findings else State.CLEAN
        return Taint(state, tuple(findings[:MOST_FINDINGS]), tuple(dict.fromkeys(self._warnings)))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
    elif value is not None:
        yield str(value)


def _bytes(text: str) -> bytes:
    """The text in UTF-8; undecodable bytes of paths as they were."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _one_line(text: str) -> str:
    return cut(text.replace("\n", "\\n").replace("\r", "\\r"), 300)


def _lines(text: str) -> str:
    """The lines that say something, without indents and the numbers that tools put in front of them."""
    found = (_NUMBERED.sub("", line).strip() for line in text.splitlines())
    return "\n".join(filter(None, found))
