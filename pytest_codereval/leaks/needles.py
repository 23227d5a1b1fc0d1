"""What would show that the agent saw grading material: canaries, whole grading files, withheld paths."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..sandbox.digest import EXCLUDED
from ..sandbox.host_path import host_path
from ..text import texts_in
from .reading import Budget, facts_of, files_below, text_of
from .tokens import CanaryReader, fresh_canary

if TYPE_CHECKING:
    from ..task.models import Task

SMALLEST = 128
"""Bytes from which on the content of a task file, dataset or grader is no coincidence."""

SMALLEST_ANSWER = 1024
"""Bytes from which on it is worth a note that a file is the same as a part of the reference or an expected output."""

LONGEST_TEXT = 256 << 10
"""Bytes of the largest grading file whose text is looked for in what the agent said and was told."""

MOST_TOKENS = 2_000

_PROGRAM = re.compile(
    r"""(?:^|[;&|(\n]\s*|\b(?:python[\d.]*|bash|sh|dash|zsh|node|ruby|perl|pytest|run)\s+(?:-\S+\s+)*)"""
    r"""["']?\$\{?TASK_DIR\}?/(?P<path>[\w./+-]+)"""
)


class Kind(enum.StrEnum):
    """What a grading file is."""

    TASK = "task file"
    DATASET = "dataset"
    GRADER = "grader"
    REFERENCE = "reference"
    OTHER = "file of the task's folder"
    ANSWER = "answers of a recorded tool"

    @property
    def is_telling(self) -> bool:
        """Whether no right work of an agent has this content: unlike an expected output, nobody asks it to make it."""
        return self in (Kind.TASK, Kind.DATASET, Kind.GRADER)


@dataclasses.dataclass(frozen=True)
class GradingFile:
    """A file that only preparation and grading may see."""

    path: Path
    kind: Kind
    size: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.kind} {self.path.name}"

    def read_text(self) -> str | None:
        """Its text, None when it is too large or none."""
        return text_of(self.path, LONGEST_TEXT)


@dataclasses.dataclass(frozen=True)
class Needles:
    """What to look for.

    `tokens` maps each canary and planted name to what it stands in, `answer_tokens` are those that a recorded tool may
    have answered. `files` are the grading files by SHA-256, `reference` the digests of the whole reference. `places`
    maps names to withheld paths. `warnings` and `short` are for the author: what is wrong with the material, and what
    of it was not read.
    """

    tokens: Mapping[str, str] = dataclasses.field(default_factory=dict)
    answer_tokens: frozenset[str] = frozenset()
    files: Mapping[str, GradingFile] = dataclasses.field(default_factory=dict)
    reference: frozenset[str] = frozenset()
    places: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    short: tuple[str, ...] = ()


def planted(folder: Path) -> str:
    """The canary of a session, made once in `folder` for all its processes: it stands in what no agent may read.

    Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, partial = folder / "canary", folder / f".canary.{secrets.token_hex(4)}"
    if not path.exists():
        partial.write_text(f"{fresh_canary()}\n", encoding="ascii")
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(partial)
        partial.unlink()
    return path.read_text(encoding="ascii").strip()


def collect(
    task: Task,
    task_file: Path,
    *,
    dataset_files: Iterable[Path] = (),
    answer_files: Iterable[Path] = (),
    planted_tokens: Mapping[str, str] | None = None,
    places: Mapping[str, Path] | None = None,
    keep_out: Iterable[Path] = (),
    budget: Budget | None = None,
) -> Needles:
    """Read the grading material of a task, within `budget`.

    `planted_tokens` are tokens of the harness, each with what it stands in. `places` are withheld paths by name.
    `keep_out` are places of the harness that are not read, such as the run directory. Raises
    TrialError(CONFIGURATION) for a path with an undefined variable.
    """
    reader = _Reader(task, task_file, budget or Budget(), keep_out)
    reader.files((task_file,), Kind.TASK)
    reader.files(dataset_files, Kind.DATASET)
    reader.reference()
    reader.files(answer_files, Kind.ANSWER)
    reader.folder()
    tokens = dict(planted_tokens or {}) | reader.tokens
    if len(tokens) > MOST_TOKENS:
        reader.short.append(f"only {MOST_TOKENS} of {len(tokens)} canaries are looked for")
        tokens = dict(list(tokens.items())[:MOST_TOKENS])
    if reader.budget.short:
        reader.short.append("the grading material is too large to be read as a whole")
    return Needles(
        tokens,
        frozenset(reader.answer_tokens),
        reader.by_digest,
        frozenset(reader.of_reference),
        places or {},
        tuple(reader.short),
    )


class _Reader:
    """Reads grading files one after the other; the first kind that a file has counts."""

    def __init__(self, task: Task, task_file: Path, budget: Budget, keep_out: Iterable[Path]) -> None:
        self._task = task
        self._folder = task_file.parent.absolute()
        self._keep_out = {os.path.realpath(path) for path in keep_out}
        self._seen: set[str] = set()
        self.budget = budget
        self.tokens: dict[str, str] = {}
        self.answer_tokens: set[str] = set()
        self.by_digest: dict[str, GradingFile] = {}
        self.of_reference: set[str] = set()
        self.short: list[str] = []

    def files(self, paths: Iterable[Path], kind: Kind) -> None:
        """Read these files, and all files of those that are folders."""
        for path in paths:
            real = os.path.realpath(path)
            found = [entry.path for entry in files_below(real, names=EXCLUDED)] if Path(real).is_dir() else [real]
            for each in found:
                self._file(each, kind)

    def reference(self) -> None:
        """Read the reference, whether it is a file, a folder or a text."""
        reference = self._task.reference
        if reference is not None and reference.code is not None:
            self._note_canaries(_canaries(reference.code), "the reference")
        elif (path := reference_path(self._task, self._folder)) is not None:
            self.files((path,), Kind.REFERENCE)

    def folder(self) -> None:
        """Read what lies in the task's folder and is not there to be staged."""
        top = os.path.realpath(self._folder)
        given = {os.path.realpath(path) for path in given_paths(self._task, self._folder)} - {top}
        programs = {os.path.realpath(self._folder / path) for path in _programs(self._task)}
        for entry in files_below(top, names=EXCLUDED, places=given | self._keep_out):
            self._file(entry.path, Kind.GRADER if entry.path in programs else Kind.OTHER)

    def _file(self, path: str, kind: Kind) -> None:
        if path in self._seen or path in self._keep_out:
            return
        self._seen.add(path)
        if (facts := facts_of(path, self.budget)) is None:
            return
        if facts.is_task and kind in (Kind.OTHER, Kind.GRADER):
            kind = Kind.TASK
        file = GradingFile(Path(path), kind, facts.size, facts.sha256)
        self._note_canaries(facts.canaries, f"the {file}")
        if kind is Kind.ANSWER:
            self.answer_tokens |= facts.canaries
            return
        if kind is Kind.REFERENCE and facts.size:
            self.of_reference.add(facts.sha256)
        if facts.size >= (SMALLEST if kind.is_telling else SMALLEST_ANSWER):
            self.by_digest.setdefault(facts.sha256, file)

    def _note_canaries(self, canaries: Iterable[str], where: str) -> None:
        for token in canaries:
            self.tokens.setdefault(token, where)


def _canaries(text: str) -> frozenset[str]:
    reader = CanaryReader()
    reader.feed(text.encode("utf-8", "replace"))
    return reader.finish()


def given_paths(task: Task, folder: Path) -> list[Path]:
    """The files and folders of the author's disk from which the agent is given something. Raises TrialError."""
    named: list[tuple[str, str | None]] = [("initial_prompt_file", task.initial_prompt_file)]
    for index, source in enumerate(task.sandbox.template_sources or ()):
        named.append((f"sandbox.template_sources[{index}]", getattr(source, "path", None)))
    if task.agent is not None:
        named.append(("agent.system_prompt_file", getattr(task.agent, "system_prompt_file", None)))
        named += [(f"agent.plugins[{i}].path", each.path) for i, each in enumerate(task.agent.plugins or ())]
    given = [host_path(text, folder, key) for key, text in named if text]
    return [*given, *_mounted_paths(task, folder)]


def reference_path(task: Task, folder: Path) -> Path | None:
    """The file or folder that is the reference; None without one, and for a text. Raises TrialError."""
    reference = task.reference
    if reference is None or reference.code is not None:
        return None
    key, text = ("directory", reference.directory) if reference.directory else ("file", reference.file)
    return host_path(text, folder, f"reference.{key}") if text is not None else None


def _mounted_paths(task: Task, folder: Path) -> list[Path]:
    """The files and folders that the task asks to have mounted into its sandbox. Raises TrialError."""
    from ..task.docker_models import parse_mount

    key = "sandbox.docker.extra_mounts"
    given = [parse_mount(each) if isinstance(each, str) else each for each in task.sandbox.docker.extra_mounts]
    return [host_path(each.source, folder, key) for each in given]


def given_texts(task: Task, folder: Path) -> list[str]:
    """The texts beside its prompts that an agent is given by the task. Raises TrialError for an undefined variable."""
    agent = task.agent
    if agent is None:
        return []
    told = [agent.system_prompt or "", *texts_in(agent.model_dump(mode="json", include={"mcp_servers"}))]
    if agent.system_prompt_file is not None:
        told.append(
            text_of(host_path(agent.system_prompt_file, folder, "agent.system_prompt_file"), LONGEST_TEXT) or ""
        )
    return told


def answers_of(task: Task) -> list[str]:
    """The texts of the task that recorded tools may answer."""
    return list(texts_in([tool.model_dump(mode="json") for tool in task.sandbox.record_cli or ()]))


def _programs(task: Task) -> Iterator[str]:
    """The files of the task's folder that criteria and post_run run as programs, as `python $TASK_DIR/check.py`."""
    commands = [getattr(criterion, "command", None) for criterion in task.success_criteria]
    for text in [*commands, *(hook.command for hook in task.post_run)]:
        for match in _PROGRAM.finditer(text if isinstance(text, str) else ""):
            yield match["path"]
