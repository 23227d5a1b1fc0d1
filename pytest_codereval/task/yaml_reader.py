"""Reading YAML as plain data: duplicate keys are noticed, every value's place is known, hostile input is refused."""

from __future__ import annotations

import codecs
import dataclasses
import math
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from .base import Location

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML without libyaml: the same result, about ten times slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

MOST_BYTES = 64 * 1024 * 1024
_MOST_DEPTH = 200
_SPARE_NODES = 100_000
_PREFIX = "tag:yaml.org,2002:"
_MERGE = _PREFIX + "merge"
_CONSTRUCTORS = {
    _PREFIX + "null": yaml.constructor.SafeConstructor.construct_yaml_null,
    _PREFIX + "bool": yaml.constructor.SafeConstructor.construct_yaml_bool,
    _PREFIX + "int": yaml.constructor.SafeConstructor.construct_yaml_int,
    _PREFIX + "float": yaml.constructor.SafeConstructor.construct_yaml_float,
    _PREFIX + "timestamp": yaml.constructor.SafeConstructor.construct_yaml_timestamp,
}


class ReadError(Exception):
    """Text that cannot be read. Line and column count from 1; `location` is given for a value that is refused."""

    def __init__(self, message: str, line: int = 1, column: int = 1, location: Location = ()) -> None:
        super().__init__(message)
        self.message, self.line, self.column, self.location = message, line, column, location


@dataclasses.dataclass(frozen=True)
class Duplicate:
    """A key that stands twice in a mapping: the last one counts. Lines and columns count from 1."""

    location: Location
    line: int
    column: int
    first_line: int


@dataclasses.dataclass(frozen=True)
class Document:
    """One document: its data, its duplicate keys and where everything stands."""

    data: Any
    duplicates: tuple[Duplicate, ...]
    root: Node

    def position(self, location: Location) -> tuple[int, int]:
        """Line and column of the key or item that `location` leads to, or of the nearest part that is there."""
        node, mark = self.root, self.root.start_mark
        for part in location:
            step = _step(node, part)
            if step is None:
                break
            mark, node = step
        return mark.line + 1, mark.column + 1

    def place(self, location: Location) -> tuple[str | None, int, int, Location]:
        """File, line, column and location to tell people; the file None is the one that this document was read from."""
        return None, *self.position(location), location


def _step(node: Node, part: str | int) -> tuple[Any, Node] | None:
    if isinstance(node, MappingNode):
        for key, value in reversed(node.value):
            if isinstance(key, ScalarNode) and key.value == part:
                return key.start_mark, value
    elif isinstance(node, SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark, node.value[part]
    return None


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, whatever the platform; a byte order mark and CR LF are accepted.

    Raises ReadError for what is no such file.
    """
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ReadError("this is a directory; expected a file")
        if not stat.S_ISREG(status.st_mode):
            raise ReadError("this is not a regular file")
        if status.st_size > MOST_BYTES:
            raise ReadError(f"the file is larger than {MOST_BYTES // 1024 // 1024} MB")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise ReadError(f"cannot read the file: {getattr(error, 'strerror', None) or error}") from None
    return decode(data)


def decode(data: bytes) -> str:
    """Return the text of UTF-8 bytes without a byte order mark. Raises ReadError for other encodings."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ReadError("the file is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise ReadError(f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8", line, column) from None


def read(text: str) -> Document:
    """Return the only document of `text`. Raises ReadError."""
    text = text.removeprefix("\ufeff")
    root = _compose(text)
    reader = _Reader(len(text) + _SPARE_NODES)
    return Document(reader.build(root, (), 0), tuple(reader.duplicates), root)


def _compose(text: str) -> Node:
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise _marked(error) from None
    except yaml.reader.ReaderError as error:
        raise _at(
            text, error.position, f"the character U+{_code(error.character):04X} is not allowed in YAML"
        ) from None
    except UnicodeEncodeError as error:
        raise _at(text, error.start, "half of a surrogate pair is no character") from None
    except RecursionError:
        raise ReadError("nested too deeply") from None
    if root is None:
        raise ReadError("the file is empty")
    return root


def _code(character: Any) -> int:
    return character if isinstance(character, int) else ord(character)


def _at(text: str, position: int, message: str) -> ReadError:
    before = text[:position]
    return ReadError(message, before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)


def _marked(error: yaml.MarkedYAMLError) -> ReadError:
    mark = error.problem_mark or error.context_mark
    message = error.problem or error.context or "not YAML"
    if "expected a single document" in (error.context or ""):
        message = "a second document starts here; expected one task per file"
    elif "cannot start any token" in message:
        message += " (a tab, or a character such as @ or ` outside quotes?)"
    if mark is None:
        return ReadError(message)
    return ReadError(message, mark.line + 1, mark.column + 1)


class _Reader:
    """Turns nodes into data. Used once."""

    def __init__(self, budget: int) -> None:
        self.duplicates: list[Duplicate] = []
        self._budget = budget
        self._constructor = yaml.constructor.SafeConstructor()

    def build(self, node: Node, location: Location, depth: int) -> Any:
        tag = node.tag
        if isinstance(node, ScalarNode):
            self._spend(node, depth)
            return node.value if tag == "tag:yaml.org,2002:str" else self._scalar(node, location)
        if isinstance(node, SequenceNode) and tag == "tag:yaml.org,2002:seq":
            self._spend(node, depth)
            return [self.build(item, (*location, index), depth + 1) for index, item in enumerate(node.value)]
        if isinstance(node, MappingNode) and tag == "tag:yaml.org,2002:map":
            return self._mapping(node, location, depth)
        raise _tag_error(node, location)

    def _spend(self, node: Node, depth: int) -> None:
        self._budget -= 1
        if self._budget < 0:
            raise _node_error(node, "aliases make this document too large")
        if depth > _MOST_DEPTH:
            raise _node_error(node, f"nested more than {_MOST_DEPTH} levels deep")

    def _scalar(self, node: ScalarNode, location: Location) -> Any:
        construct = _CONSTRUCTORS.get(node.tag)
        if construct is None:
            raise _tag_error(node, location)
        try:
            value = construct(self._constructor, node)
        except (ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
            kind = node.tag.removeprefix(_PREFIX)
            raise _node_error(
                node, f"{node.value[:80]!r} is no {kind} ({error}); put text in quotes", location
            ) from None
        if isinstance(value, float) and not math.isfinite(value):
            raise _node_error(node, f"{node.value!r} is no finite number; put text in quotes", location)
        return value

    def _mapping(self, node: MappingNode, location: Location, depth: int) -> dict[str, Any]:
        self._spend(node, depth)
        data: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                for part in self._merged(value_node, location, depth):
                    merged = {**part, **merged}
                continue
            key = _key(key_node)
            if key in lines:
                mark = key_node.start_mark
                place = (*location, key)
                self.duplicates.append(Duplicate(place, mark.line + 1, mark.column + 1, lines[key]))
            lines.setdefault(key, key_node.start_mark.line + 1)
            data[key] = self.build(value_node, (*location, key), depth + 1)
        return {**merged, **data} if merged else data

    def _merged(self, node: Node, location: Location, depth: int) -> Iterator[dict[str, Any]]:
        sources = node.value if isinstance(node, SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, MappingNode):
                raise _node_error(node, "'<<' merges a mapping or a list of mappings")
            yield self._mapping(source, location, depth + 1)


def _key(node: Node) -> str:
    if not isinstance(node, ScalarNode):
        raise _node_error(node, "expected text as a key, found a list or mapping")
    if node.tag != "tag:yaml.org,2002:str":
        kind = node.tag.removeprefix(_PREFIX)
        raise _node_error(node, f"YAML reads the key {node.value[:80]!r} as {kind}, not as text; put it in quotes")
    return str(node.value)


def _tag_error(node: Node, location: Location) -> ReadError:
    tag = node.tag.replace(_PREFIX, "!!")
    return _node_error(node, f"the tag {tag[:80]!r} is not allowed", location)


def _node_error(node: Node, message: str, location: Location = ()) -> ReadError:
    return ReadError(message, node.start_mark.line + 1, node.start_mark.column + 1, location)
