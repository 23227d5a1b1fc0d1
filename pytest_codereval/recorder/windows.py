"""Shims for Windows: a Python script and a command file that starts it. Neither was ever run on Windows."""

from __future__ import annotations

import os
from pathlib import Path

from .shim import CALLS, INDEX, LOST_MARK, MAX_TRIES, OK, RECORD_VERSION, Reply

_SCRIPT = '''\
"""Recording shim, made by pytest-codereval."""
import os
import sys

TOOL = {tool!a}
SPOOL = {spool!a}
FLAGS = os.O_CREAT | os.O_WRONLY | getattr(os, "O_BINARY", 0)


def write(name, data, flags):
    handle = os.open(os.path.join(SPOOL, name), FLAGS | flags, 0o600)
    try:
        while data:
            data = data[os.write(handle, data):]
    finally:
        os.close(handle)


def record():
    fields = [{version!a}, TOOL, os.getcwd(), str(os.getppid()), str(len(sys.argv) - 1), *sys.argv[1:], "END"]
    data = b"".join(field.encode("utf-8", "surrogateescape") + b"\\0" for field in fields)
    for attempt in range({tries}):
        name = "%d.%d" % (os.getpid(), attempt)
        try:
            write(os.path.join({calls!a}, name), data, os.O_EXCL)
        except FileExistsError:
            continue
        write({index!a}, name.encode() + b"\\n", os.O_APPEND)
        return
    raise OSError("no free name for the record")


def give_up(error):
    line = b"{lost_mark}" + TOOL.encode() + b"\\n"
    for name, data, flags in (({ok!a}, b"", os.O_TRUNC), ({index!a}, line, os.O_APPEND)):
        try:
            write(name, data, flags)
        except OSError:
            pass
    reply(2, ("%s: this call could not be recorded: %s\\n" % (TOOL, error)).encode("utf-8", "replace"))


def reply(stream, data):
    try:
        while data:
            data = data[os.write(stream, data):]
    except OSError:
        pass


try:
    record()
except OSError as error:
    give_up(error)
reply(1, {stdout!a})
reply(2, {stderr!a})
os._exit({exit_code})
'''

_COMMAND_FILE = '@echo off\r\n"{python}" -I -S "%~dp0{tool}" %*\r\nexit /b %ERRORLEVEL%\r\n'


def render_script(tool: str, reply: Reply, spool: Path) -> bytes:
    """Return the Python program that records calls of `tool` in `spool` and gives `reply`. It is pure ASCII."""
    text = _SCRIPT.format(
        tool=tool,
        spool=os.fspath(spool),
        version=RECORD_VERSION,
        tries=MAX_TRIES,
        calls=CALLS,
        index=INDEX,
        ok=OK,
        lost_mark=LOST_MARK,
        stdout=reply.stdout.encode("utf-8", "surrogateescape"),
        stderr=reply.stderr.encode("utf-8", "surrogateescape"),
        exit_code=reply.exit_code,
    )
    return text.encode("ascii")


def render_command_file(tool: str, python: Path) -> bytes:
    """Return the .cmd twin of `tool`: it starts the script beside it by the absolute path of `python`, not by PATH."""
    return _COMMAND_FILE.format(python=os.fspath(python).replace("%", "%%"), tool=tool).encode("utf-8")
