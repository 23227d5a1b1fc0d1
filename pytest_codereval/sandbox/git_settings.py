"""The text of a git configuration: read as git reads it, and written anew without what could run a program."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

_KEPT = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol"
    " safecrlf worktree sharedrepository sparsecheckout sparsecheckoutcone quotepath abbrev whitespace trustctime"
    " checkstat untrackedcache preloadindex splitindex protecthfs protectntfs longpaths commentchar compression",
    "extensions": "objectformat compatobjectformat refstorage worktreeconfig preciousobjects relativeworktrees noop",
    "remote.*": "url fetch pushurl push tagopt mirror prune",
    "branch.*": "remote merge rebase pushremote description",
    "branch": "autosetupmerge autosetuprebase sort",
    "user": "name email useconfigonly",
    "init": "defaultbranch",
    "submodule.*": "url path active branch ignore",
    "submodule": "active recurse",
    "lfs": "repositoryformatversion",
    "diff": "renames renamelimit noprefix mnemonicprefix algorithm context interhunkcontext",
    "merge": "conflictstyle ff",
    "pull": "rebase ff",
    "push": "default autosetupremote",
    "fetch": "prune",
    "status": "short branch showuntrackedfiles relativepaths",
    "log": "date decorate",
    "color": "ui",
    "index": "version",
    "gc": "auto",
}
"""Keys by their section; `section.*` are those with a subsection."""

_ALLOWED = frozenset(f"{section}.{key}" for section, keys in _KEPT.items() for key in keys.split())

_PLAIN = re.compile(
    rb"(?:[ \t]*(?:\[[A-Za-z0-9-]+(?: \"[^\"\\\n\r\0]*\")?\]"
    rb"|[A-Za-z][A-Za-z0-9-]*(?:[ \t]*=[^\"\\#;\n\r\0]*)?"
    rb"|[#;][^\n\r\0]*)?\r?\n)*"
)
"""Text in which each line is one header, one key with a simple value, or a comment."""

_SPACE = b" \t\n\r"
_ESCAPES = {b"t": b"\t", b"b": b"\b", b"n": b"\n", b"\\": b"\\", b'"': b'"'}
_WRITTEN = {b"\\": rb"\\", b'"': rb"\"", b"\n": rb"\n", b"\t": rb"\t", b"\b": rb"\b"}

BROKEN = b"[what follows cannot be read\n"
"""Makes git refuse the file, as it refused the one that this stands for."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """`section` and `key` are in lower case. `value` is None for a key without one."""

    section: str
    subsection: bytes | None
    key: str
    value: bytes | None

    @property
    def name(self) -> str:
        """As git shows it, without what cannot be shown."""
        below = "" if self.subsection is None else f".{self.subsection.decode('ascii', 'backslashreplace')}"
        return f"{self.section}{below}.{self.key}"


@dataclasses.dataclass(frozen=True)
class Cut:
    """What is left of a configuration: its new text, and the names of the settings that were left out."""

    text: bytes
    left_out: tuple[str, ...]
    broken: bool


def cut(text: bytes, worktree_allowed: Callable[[bytes], bool]) -> Cut:
    """Keep what runs nothing; `core.worktree` is kept where its value is allowed.

    A text with nothing to leave out is kept to the byte when there are no two ways to read it.
    """
    kept, left_out, broken = [], [], False
    try:
        for setting in _read(text):
            if _is_kept(setting, worktree_allowed):
                kept.append(setting)
            else:
                left_out.append(setting.name)
    except _UnreadableError:
        broken = True
    if not left_out and not broken and _PLAIN.fullmatch(text if text.endswith(b"\n") else text + b"\n"):
        return Cut(text, (), False)
    written = b"".join(map(_written, kept)) + (BROKEN if broken else b"")
    return Cut(written, tuple(dict.fromkeys(left_out)), broken)


def _is_kept(setting: Setting, worktree_allowed: Callable[[bytes], bool]) -> bool:
    below = "" if setting.subsection is None else ".*"
    if f"{setting.section}{below}.{setting.key}" not in _ALLOWED:
        return False
    if (setting.section, setting.key) != ("core", "worktree"):
        return True
    return setting.value is not None and worktree_allowed(setting.value)


def _written(setting: Setting) -> bytes:
    below = b"" if setting.subsection is None else b' "%b"' % re.sub(rb'(["\\])', rb"\\\1", setting.subsection)
    line = b"[%b%b]\n\t%b" % (setting.section.encode(), below, setting.key.encode())
    if setting.value is None:
        return line + b"\n"
    value = b"".join(
        _WRITTEN.get(setting.value[at : at + 1], setting.value[at : at + 1]) for at in range(len(setting.value))
    )
    return b'%b = "%b"\n' % (line, value)


class _UnreadableError(Exception):
    """Git says that a line is bad."""


class _Text:
    """The characters of a configuration; the end is a line's end."""

    def __init__(self, text: bytes) -> None:
        self._text = text.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at > len(self._text)

    def next(self) -> bytes:
        char = self._text[self._at : self._at + 1]
        self._at += 1
        return char or b"\n"

    def skip_line(self) -> None:
        end = self._text.find(b"\n", self._at)
        self._at = (end if end >= 0 else len(self._text)) + 1


def _read(raw: bytes) -> Iterator[Setting]:
    text = _Text(raw)
    section, subsection = "", None
    while True:
        char = text.next()
        if text.at_end:
            return
        if char in _SPACE:
            continue
        if char in b"#;":
            text.skip_line()
        elif char == b"[":
            section, subsection = _header(text)
        elif char.isalpha():
            yield _setting(text, char, section, subsection)
        else:
            raise _UnreadableError


def _header(text: _Text) -> tuple[str, bytes | None]:
    name = b""
    while True:
        char = text.next()
        if text.at_end:
            raise _UnreadableError
        if char == b"]":
            if not name:
                raise _UnreadableError
            section, dot, below = name.lower().partition(b".")
            return section.decode("ascii"), below if dot else None
        if char in _SPACE:
            break
        if not (char.isalnum() or char in b"-."):
            raise _UnreadableError
        name += char
    while char in _SPACE:
        if char == b"\n":
            raise _UnreadableError
        char = text.next()
    if char != b'"':
        raise _UnreadableError
    return _quoted_header(text, name.lower())


def _quoted_header(text: _Text, name: bytes) -> tuple[str, bytes]:
    subsection = b""
    while (char := text.next()) != b'"':
        if char == b"\\":
            char = text.next()
        if char == b"\n":
            raise _UnreadableError
        subsection += char
    if text.next() != b"]":
        raise _UnreadableError
    section, dot, below = name.partition(b".")
    return section.decode("ascii"), below + b"." + subsection if dot else subsection


def _setting(text: _Text, first: bytes, section: str, subsection: bytes | None) -> Setting:
    key = first
    while (char := text.next()).isalnum() or char == b"-":
        key += char
    while char in b" \t":
        char = text.next()
    value = None
    if char != b"\n":
        if char != b"=":
            raise _UnreadableError
        value = _value(text)
    return Setting(section, subsection, key.lower().decode("ascii"), value)


def _value(text: _Text) -> bytes:
    value, spaces, quoted = bytearray(), b"", False
    while True:
        char = text.next()
        if char == b"\n":
            if quoted:
                raise _UnreadableError
            return bytes(value)
        if not quoted and char in _SPACE:
            spaces += char if value else b""
            continue
        if not quoted and char in b"#;":
            text.skip_line()
            return bytes(value)
        value += spaces
        spaces = b""
        if char == b'"':
            quoted = not quoted
            continue
        if char == b"\\":
            char = text.next()
            if char == b"\n":
                continue
            if char not in _ESCAPES:
                raise _UnreadableError
            char = _ESCAPES[char]
        value += char
