"""Rendering of the recording shims: POSIX sh, builtins only, so that a call starts no second program.

A shim writes its call to a file of its own in `calls` (NUL-separated, closed by END), then names that file in one short
line through the FIFO `index`, then gives its constant reply. It reads neither standard input nor anything from PATH.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import string
from pathlib import Path

from ..errors import Cause, TrialError

RECORD_VERSION = "1"
CALLS = "calls"
INDEX = "index"
OK = "ok"
LOST_MARK = "!"
MAX_TRIES = 8
"""How many names a shim tries for its record before it says that it cannot record."""

_DASHES = ("/bin/dash", "/usr/bin/dash")
_PLAIN = frozenset(string.printable[:95]) - frozenset("'\\%$`")

_SHIM = """\
#!{interpreter}
# Recording shim for {tool}, made by pytest-codereval. Only builtins of the shell: no other program is started.
trap '' HUP INT QUIT PIPE TERM XFSZ
umask 077
set -C
spool={spool}
n=0
lost=0
until {{ printf '%s\\0' {version} {tool} "$PWD" "$PPID" "$#" "$@" END >"$spool/{calls}/$$.$n"; }} 2>&-; do
    n=$((n + 1))
    case $n in {tries}) lost=1 && break ;; esac
done
case $lost in 0) {{ printf '%s\\n' "$$.$n" >>"$spool/{index}"; }} 2>&- || lost=1 ;; esac
case $lost in
1)
    {{ printf '' >|"$spool/{ok}"; }} 2>&-
    {{ printf '%s\\n' {lost_mark}{tool} >>"$spool/{index}"; }} 2>&-
    printf '%s: this call could not be recorded\\n' {tool} >&2
    ;;
esac
{reply}exit {exit_code}
"""


@dataclasses.dataclass(frozen=True)
class Reply:
    """The constant answer of a tool. Texts may hold any character; surrogate escapes stand for raw bytes."""

    exit_code: int = 0
    stdout: str = ""
    stderr: str = ""


@functools.cache
def find_interpreter() -> str:
    """The shebang of the shims on this machine: an absolute path, and an option where the shell needs one.

    dash and busybox take nothing from the environment that could change a script. bash does, but for `-p`.
    """
    for dash in _DASHES:
        if os.access(dash, os.X_OK):
            return os.path.realpath(dash)
    shell = os.path.realpath("/bin/sh")
    if not os.access(shell, os.X_OK):
        raise TrialError(Cause.SANDBOX, "recording needs a POSIX shell: there is no /bin/sh")
    name = Path(shell).name
    if name.startswith("busybox"):
        return f"{shell} sh"
    return shell if name in ("dash", "ash") else f"{shell} -p"


def render(tool: str, reply: Reply, spool: Path, interpreter: str) -> bytes:
    """Return the text of the shim that records calls of `tool` in `spool` and gives `reply`. It is pure ASCII."""
    text = _SHIM.format(
        interpreter=interpreter,
        version=RECORD_VERSION,
        tool=tool,
        spool=quote(os.fspath(spool)),
        tries=MAX_TRIES,
        calls=CALLS,
        index=INDEX,
        ok=OK,
        lost_mark=LOST_MARK,
        reply=_printing(reply.stdout, "{ %s; } 2>&-\n") + _printing(reply.stderr, "%s >&2\n"),
        exit_code=reply.exit_code,
    )
    return text.encode("utf-8", "surrogateescape")


def quote(text: str) -> str:
    """Return `text` as one word of a shell, always in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


def _printing(text: str, form: str) -> str:
    return form % f"printf '{printf_format(text)}'" if text else ""


def printf_format(text: str) -> str:
    """Return the format with which printf(1) prints `text` byte by byte: plain ASCII without quotes.

    A dash at the start would be read as an option, so it is escaped too.
    """
    escaped = "".join(char if char in _PLAIN else _escape(char) for char in text)
    return f"\\055{escaped[1:]}" if escaped.startswith("-") else escaped


@functools.lru_cache(maxsize=1024)
def _escape(char: str) -> str:
    if char == "\n":
        return "\\n"
    return "%%" if char == "%" else "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))
