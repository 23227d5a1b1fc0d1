"""Shims for Windows: a Python script and a command file that starts it. Neither was ever run on Windows."""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import Cause, TrialError
from ..answering import ShimPlan
from .shim import CALLS, INDEX, LOST_MARK, MAX_TRIES, OK, RECORD_VERSION

_SCRIPT = '''\
"""Recording shim, made by pytest-codereval."""
import os
import sys
from contextlib import suppress

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
    arguments = sys.argv[1:]
    fields = [{version!a}, TOOL, os.getcwd(), str(os.getppid()), str(len(arguments)), "0", *arguments, "END"]
    data = b"".join(field.encode("utf-8", "surrogateescape") + b"\\0" for field in fields)
    for attempt in range({tries}):
        name = "%d.%d" % (os.getpid(), attempt)
        try:
            write(os.path.join({calls!a}, name), data, os.O_EXCL)
        except FileExistsError:
            continue
        write({index!a}, name.encode() + b"\\n", os.O_APPEND)
        return name
    raise OSError("no free name for the record")


def give_up(error):
    line = b"{lost_mark}" + TOOL.encode() + b"\\n"
    for name, data, flags in (({ok!a}, b"", os.O_TRUNC), ({index!a}, line, os.O_APPEND)):
        with suppress(OSError):
            write(name, data, flags)
    reply(2, ("%s: this call could not be recorded: %s\\n" % (TOOL, error)).encode("utf-8", "replace"))


def reply(stream, data):
    with suppress(OSError):
        while data:
            data = data[os.write(stream, data):]


name = None
try:
    name = record()
except OSError as error:
    give_up(error)
reply(1, {stdout!a})
reply(2, {stderr!a})
if name:
    with suppress(OSError):
        write({index!a}, b"%s={exit_code}\\n" % name.encode(), os.O_APPEND)
os._exit({exit_code})
'''

_COMMAND_FILE = '@echo off\r\n"{python}" -I -S "%~dp0{tool}" %*\r\nexit /b %ERRORLEVEL%\r\n'


def render_script(plan: ShimPlan, spool: Path) -> bytes:
    """Return the Python program that records calls in `spool` and gives a constant reply. It is pure ASCII.

    Raises TrialError(CONFIGURATION) for a plan that does anything else.
    """
    if plan.asks or plan.passthrough or plan.read_stdin or plan.variables:
        raise TrialError(
            Cause.CONFIGURATION,
            f"sandbox.record_cli: tool {plan.tool!r}: on Windows only constant replies can be given: no responses, "
            "handler, passthrough or standard input",
        )
    text = _SCRIPT.format(
        tool=plan.tool,
        spool=os.fspath(spool),
        version=RECORD_VERSION,
        tries=MAX_TRIES,
        calls=CALLS,
        index=INDEX,
        ok=OK,
        lost_mark=LOST_MARK,
        stdout=plan.stdout,
        stderr=plan.stderr,
        exit_code=plan.exit_status,
    )
    return text.encode("ascii")


def render_command_file(tool: str, python: Path) -> bytes:
    """Return the .cmd twin of `tool`: it starts the script beside it by the absolute path of `python`, not by PATH."""
    return _COMMAND_FILE.format(python=os.fspath(python).replace("%", "%%"), tool=tool).encode("utf-8")
