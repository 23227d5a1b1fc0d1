"""Files with tables of replies: YAML or JSON, a list of responses or a mapping with `responses`."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ..errors import Problem
from .base import Finding, Location
from .nearest import hint
from .option_models import DeclaredFlags
from .problems import describe, finding_problem, problem_at, problems_of, shown_path, unreadable
from .reply_models import CliResponse, reply_keys, rule_findings, rule_warnings
from .reply_texts import NOTE
from .yaml_reader import Document, ReadError, read, read_text

_ENDINGS = (".yaml", ".yml", ".json")


@dataclasses.dataclass(frozen=True)
class TableFile:
    """One file: its rules, the place of their list in it, everything that is wrong with it, and what is doubtful."""

    path: Path
    responses: tuple[CliResponse, ...] = ()
    place: Location = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def problem(self, finding: Finding) -> Problem:
        """The problem of this file; the finding's location starts at the number of the rule."""
        return self._told(shown_path(self.path), _document(self.path), finding)

    def _told(self, shown: str, document: Document, finding: Finding) -> Problem:
        return finding_problem(shown, document, Finding((*self.place, *finding.location), finding.message))


def files_of(place: Path) -> list[Path]:
    """The tables at `place`: itself, or those of a folder by name.

    In a folder JSON files that are replies of its tables are no tables. Raises ReadError when there is nothing.
    """
    if not place.is_dir():
        if not place.exists():
            raise ReadError("there is no such file or folder")
        return [place]
    try:
        files = [path for path in sorted(place.iterdir()) if path.suffix in _ENDINGS and path.name[0] != "."]
    except OSError as error:
        raise ReadError(f"cannot read the folder: {error.strerror}") from None
    replies = {reply for path in files for reply in _named_by(path)}
    tables = [path for path in files if path not in replies]
    if not tables:
        raise ReadError(f"the folder has no table ({', '.join('*' + ending for ending in _ENDINGS)})")
    return tables


def _named_by(path: Path) -> tuple[Path, ...]:
    return _replies_of(path, _stamp(path))


@functools.lru_cache(maxsize=256)
def _replies_of(path: Path, _changed: tuple[int, int, int]) -> tuple[Path, ...]:
    """The files that a table names, if it is one."""
    try:
        text = read_text(path)
        data = json.loads(text) if path.suffix == ".json" else read(text).data
    except (ReadError, ValueError, RecursionError):
        return ()
    rules = data.get("responses") if isinstance(data, Mapping) else data
    return tuple(path.parent / name for name in _file_names(rules if isinstance(rules, list) else []))


def _file_names(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (value[key] for key in reply_keys() if isinstance(value.get(key), str))
        for key in ("sequence", "effects"):
            yield from _file_names(value.get(key))
    elif isinstance(value, list):
        for item in value:
            yield from _file_names(item)


def read_table(path: Path, declared: DeclaredFlags) -> TableFile:
    """Read and check a table of the tool that declares these flags. Never raises: see `problems`."""
    return _read_table(path, declared, shown_path(path), _stamp(path))


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
        return (status.st_mtime_ns, status.st_size, status.st_ino)
    except (OSError, ValueError):
        return (0, 0, 0)


@functools.lru_cache(maxsize=256)
def _read_table(path: Path, declared: DeclaredFlags, shown: str, _changed: tuple[int, int, int]) -> TableFile:
    try:
        document = _document(path)
    except ReadError as error:
        return TableFile(path, problems=(unreadable(shown, error),))
    problems = [
        problem_at(shown, document, item.location, f"the key {str(item.location[-1])!r} stands here twice")
        for item in document.duplicates
    ]
    rules, place, wrong = _rules(document.data)
    problems += [finding_problem(shown, document, finding) for finding in wrong]
    responses = []
    for index, rule in enumerate(rules):
        if isinstance(rule, Mapping):
            rule = {key: value for key, value in rule.items() if key != NOTE}
        try:
            responses.append(CliResponse.model_validate(rule, context={"rows": False}))
        except ValidationError as error:
            problems += problems_of(error, shown, document, CliResponse, (*place, index))
    table = TableFile(path, tuple(responses), place)
    if not problems:
        problems += [table._told(shown, document, found) for found in rule_findings(table.responses, declared)]
    warnings = [table._told(shown, document, found) for found in rule_warnings(table.responses, declared.tool)]
    return dataclasses.replace(table, problems=tuple(problems), warnings=tuple(warnings))


def _rules(data: Any) -> tuple[list[Any], Location, list[Finding]]:
    """The rules of a document, the place of their list, and what is wrong around them."""
    if isinstance(data, list):
        found = [] if data else [Finding((), "the table is empty; expected at least one rule")]
        return data, (), found
    if not isinstance(data, Mapping):
        message = f"a table is a list of rules, or a mapping with the key responses; found {describe(data)}"
        return [], (), [Finding((), message)]
    valid = ("responses", NOTE)
    found = [
        Finding((key,), f"unknown key {key!r}{hint(key, valid)} (keys here: {', '.join(valid)})")
        for key in data
        if key not in valid
    ]
    rules = data.get("responses")
    if not isinstance(rules, list) or not rules:
        found.append(Finding(("responses",), "expected a list of at least one rule"))
        return [], ("responses",), found
    return rules, ("responses",), found


def _document(path: Path) -> Document:
    return _document_of(path, _stamp(path))


@functools.lru_cache(maxsize=4)
def _document_of(path: Path, _changed: tuple[int, int, int]) -> Document:
    text = read_text(path)
    return _json_document(text) if path.suffix == ".json" else read(text)


def _json_document(text: str) -> Document:
    """Read JSON, with the places of its values where a reader of YAML finds them."""
    pairs: list[str] = []

    def unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
        data = dict(items)
        if len(data) < len(items):
            names = [name for name, _ in items]
            pairs.append(next(name for name in names if names.count(name) > 1))
        return data

    try:
        data = json.loads(text, object_pairs_hook=unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ReadError(f"not JSON: {error.msg}", error.lineno, error.colno) from None
    except (ValueError, RecursionError) as error:
        raise ReadError(f"not JSON: {error}") from None
    try:
        located = read(text.replace("\t", " "))
    except ReadError:
        if pairs:
            raise ReadError(f"the key {pairs[0]!r} stands twice in one object") from None
        return Document(data, (), yaml.ScalarNode(_TEXT, "", _START, _START))
    return Document(data, located.duplicates, located.root)


_TEXT = "tag:yaml.org,2002:str"
_START = yaml.Mark("", 0, 0, 0, "", 0)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
