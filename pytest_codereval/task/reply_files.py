"""The files beside a task that replies name: are they there, and can they be used?"""

from __future__ import annotations

import ast
import codecs
import functools
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .base import Finding, Location
from .fields import ROW_MARK
from .nearest import hint
from .reply_models import FILE_KEYS, CopyEffect, ReplyModel, WriteEffect
from .reply_texts import TemplateError, TemplateUse, key_findings, template_use, texts_in, without_notes
from .variables import UndefinedVariable, host_path
from .yaml_reader import MOST_BYTES


class NamedFile(NamedTuple):
    """A file that a reply names: where, under which key, in what words, as what path, and whether it is a template."""

    location: Location
    key: str
    text: str
    path: Path
    template: bool


class FileError(Exception):
    """A file that cannot be used as a reply wants it."""


def host_file(text: str, folder: Path, rows: bool) -> Path | None:
    """The path, None while it waits for a row. Raises FileError for a variable that is not set."""
    if rows and ROW_MARK in text:
        return None
    try:
        return host_path(text, folder)
    except (UndefinedVariable, RuntimeError) as error:
        raise FileError(str(error)) from None


def named_files(reply: ReplyModel, folder: Path, rows: bool) -> tuple[list[NamedFile], list[Finding]]:
    """The files that a reply and its sequence name, and findings for names that lead nowhere."""
    files, found = [], []
    for location, key, text, template in _names(reply):
        try:
            path = host_file(text.rpartition(":")[0] if key == "handler" else text, folder, rows)
        except FileError as error:
            found.append(Finding(location, str(error)))
            continue
        if path is not None:
            files.append(NamedFile(location, key, text, path, template))
    return files, found


def _names(reply: ReplyModel) -> Iterator[tuple[Location, str, str, bool]]:
    for place, part in reply.replies():
        for key in FILE_KEYS:
            if (text := getattr(part, key)) is not None:
                yield (*place, key), key, text, part.template
        for index, effect in enumerate(part.effects):
            if isinstance(effect, WriteEffect) and effect.content_file is not None:
                yield (*place, "effects", index, "content_file"), "content_file", effect.content_file, part.template
            elif isinstance(effect, CopyEffect):
                yield (*place, "effects", index, "copy"), "copy", effect.copy_from, False
        if part.handler is not None and part.handler.rpartition(":")[0].endswith(".py"):
            yield (*place, "handler"), "handler", part.handler, False


def file_use(file: NamedFile) -> TemplateUse:
    """Check a file and return what its templates ask of a call. Raises FileError."""
    if file.key == "copy":
        if not file.path.exists():
            raise FileError(f"{file.path}: there is no such file or folder")
        return TemplateUse()
    stamp = _stamp(file.path)
    if file.key == "handler":
        _check_function(file.path, file.text.rpartition(":")[2], stamp)
        return TemplateUse()
    if file.key == "json_file":
        value, error = _json(file.path, stamp)
        if error is not None:
            raise FileError(f"{file.path}: {error}")
        return _template_uses(file, _json_texts(file, value)) if file.template else TemplateUse()
    return _template_uses(file, [_text(file.path, stamp)]) if file.template else TemplateUse()


def _json_texts(file: NamedFile, value: Any) -> list[str]:
    for place, message in key_findings(value, ()):
        raise FileError(f"{file.path}: {message}; found {place[-1]!r}")
    return [text for _, text in texts_in(without_notes(value), ())]


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        why = "there is no such file" if missing else f"cannot read the file: {error}"
        raise FileError(f"{path}: {why}") from None
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{path}: this is no regular file")
    if status.st_size > MOST_BYTES:
        raise FileError(f"{path}: the file is larger than {MOST_BYTES // 1024 // 1024} MB")
    try:
        with path.open("rb"):
            return status.st_mtime_ns, status.st_size, status.st_ino
    except OSError as error:
        raise FileError(f"{path}: cannot read the file: {error.strerror}") from None


def _template_uses(file: NamedFile, texts: list[str]) -> TemplateUse:
    stdin, variables = False, frozenset[str]()
    for text in texts:
        try:
            use = template_use(text)
        except TemplateError as error:
            raise FileError(f"{file.path}: {error}") from None
        stdin, variables = stdin or use.stdin, variables | use.variables
    return TemplateUse(stdin, variables)


@functools.lru_cache(maxsize=256)
def _text(path: Path, _changed: tuple[int, int, int]) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


@functools.lru_cache(maxsize=4096)
def _json(path: Path, _changed: tuple[int, int, int]) -> tuple[Any, str | None]:
    try:
        return read_json(path.read_bytes()), None
    except ValueError as error:
        return None, str(error)


def read_json(data: bytes) -> Any:
    """Return the value of JSON in UTF-8, with or without a byte order mark, or UTF-16 with one. Raises ValueError."""
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        value = json.loads(data.decode("utf-16" if utf16 else "utf-8-sig"), parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not JSON: byte {error.start} is not {'UTF-16' if utf16 else 'UTF-8'}") from None
    except UnicodeEncodeError:
        raise ValueError("not JSON: a text has half of a surrogate pair, which is no character") from None
    except json.JSONDecodeError as error:
        line = error.doc.split("\n")[error.lineno - 1][:60].strip()
        raise ValueError(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}: {line!r}") from None
    except RecursionError:
        raise ValueError("not usable JSON: nested too deeply") from None
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"not JSON: {name}")


def _check_function(path: Path, name: str, stamp: tuple[int, int, int]) -> None:
    names, error = _functions(path, stamp)
    if error is not None:
        raise FileError(f"{path}: {error}")
    if names.get(name) == "async":
        raise FileError(f"{path}: {name!r} is an async function; a handler is a plain one")
    if name not in names and "*" not in names:
        raise FileError(f"{path}: there is no function {name!r}{hint(name, names)}")


@functools.lru_cache(maxsize=256)
def _functions(path: Path, _changed: tuple[int, int, int]) -> tuple[dict[str, str], str | None]:
    """The names that a module binds, and `*` when it may bind others, without running it; or what is wrong with it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        return {}, f"not Python: {getattr(error, 'msg', error)}{line}"
    return dict(_bound(tree)), None


def _bound(node: ast.AST) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield child.name, "def"
        elif isinstance(child, ast.AsyncFunctionDef):
            yield child.name, "async"
        elif isinstance(child, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name.partition(".")[0], "import") for alias in child.names)
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id, "value"
        elif not isinstance(child, ast.Lambda):
            yield from _bound(child)
