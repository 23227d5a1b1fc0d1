"""Starts one command in a container, its standard streams being pipes of the harness and not of the engine.

The engine ends the streams of a command two seconds after the command itself, which kills what still writes to them
in the background, and until then it reports the end of no other command. So a command gets named pipes in a
directory that the container shares with the harness; a small script there opens them and becomes the command.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
from collections.abc import Iterable, Mapping
from pathlib import Path

from ... import clock
from ...errors import Cause, TrialError
from ..enclosure import Owner
from ..supervision import Command
from .containers import Container
from .engine import told
from .fifo import Fifo

READY = b"\n"
"""What the script writes to standard output before the command begins."""

_PARTS = "oeigs"
_LOOK = 0.05
_SOURCE = '. "$1"'
_NAMES_OF_SHELLS = ("PWD", "OLDPWD", "SHLVL", "HOSTNAME", "_")
_NAME = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


class Launch:
    """One command. One with private output waits, when it is ready, for `go`."""

    def __init__(self, container: Container, folder: Path, command: Command, user: Owner) -> None:
        """`folder` is the directory that is shared. Raises TrialError(SANDBOX)."""
        self._container = container
        self._identity = ""
        self._base = folder / secrets.token_hex(16)
        self._gate: int | None = None
        self.is_held = command.private_output
        self.pid = 0
        self.pidfd: int | None = None
        self.has_ended = False
        self.streams: tuple[Fifo, ...] = ()
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            try:
                self._prepare(command, user)
            except OSError as error:
                raise TrialError(Cause.SANDBOX, f"no pipes can be made for a command: {error}") from error
            with told("starting a command in a container"):
                self._start(command, user)
            stack.pop_all()

    @property
    def output(self) -> Fifo:
        return self.streams[0]

    @property
    def errors(self) -> Fifo:
        return self.streams[1]

    def _prepare(self, command: Command, user: Owner) -> None:
        giver = user if os.getuid() in (0, user.uid) else None
        self.streams += (Fifo(self._part("o"), None if self.is_held else giver),)
        self.streams += (Fifo(self._part("e"), giver),)
        if self.is_held:
            os.mkfifo(self._part("g"), 0o600)
            self._part("g").chmod(0o604)
            self._gate = os.open(self._part("g"), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        if command.stdin:
            self._write("i", command.stdin)
        self._write("s", _script(self._base, command))

    def _part(self, name: str) -> Path:
        return self._base.with_name(f"{self._base.name}{name}")

    def _write(self, name: str, content: bytes) -> None:
        path = self._part(name)
        path.write_bytes(content)
        path.chmod(0o644)

    def _start(self, command: Command, user: Owner) -> None:
        variables = [f"{name}={value}" for name, value in command.env.items() if _is_plain(name, value)]
        self._identity = self._container.start_in(["-c", _SOURCE, "sh", str(self._part("s"))], user, variables)
        self.pid = self._look()["Pid"]
        try:
            self.pidfd = self._container.open_process(self.pid)
        except ProcessLookupError:
            self.has_ended = True

    def _look(self) -> Mapping[str, int]:
        with told("looking at a command in a container"):
            return self._container.look_at(self._identity)

    def await_ready(self, patience: float) -> bool:
        """Wait until the command is about to begin; False when that never comes."""
        deadline = clock.monotonic() + patience
        self.output.limit = len(READY)
        watched = [self.output.reader, *([self.pidfd] if self.pidfd is not None else [])]
        while clock.monotonic() < deadline:
            ready = select.select(watched, [], [], _LOOK)[0]
            if self.output.read(len(READY)):
                return self.output.take() == READY
            self.look(self.pidfd in ready)
            if self.has_ended and not self.output.read(len(READY)):
                return self.output.take() == READY
        return False

    def read_line(self, patience: float) -> bytes:
        """What comes next on standard output, until the end of a line; what there is when it does not come."""
        deadline = clock.monotonic() + patience
        self.output.limit = None
        line = b""
        while not line.endswith(b"\n") and not self.has_ended and clock.monotonic() < deadline:
            watched = [self.output.reader, *([self.pidfd] if self.pidfd is not None else [])]
            ready = select.select(watched, [], [], _LOOK)[0]
            self.output.read()
            line += self.output.take()
            self.look(self.pidfd in ready)
        return line.strip()

    def failure(self) -> str:
        """What is known of a command that did not begin, behind a colon."""
        self.errors.drain()
        said = self.errors.content().decode("utf-8", "replace").strip()[:500]
        status = self.status()
        return f": {said or ('its shell exited ' + str(status) if status is not None else 'nothing comes of it')}"

    def look(self, is_seen: bool) -> None:
        """Note whether the command has ended: it `is_seen` to have, or else the daemon says so."""
        if is_seen or (self.pidfd is None and not self.has_ended and self.status() is not None):
            self.has_ended = True

    def status(self) -> int | None:
        """The exit status, as the shell has it; None while it runs. Raises TrialError(SANDBOX)."""
        found = self._look()
        return None if found["Running"] else found["ExitCode"]

    def hide(self) -> None:
        """Remove the names of the streams, once they are open."""
        for name in _PARTS:
            with contextlib.suppress(OSError):
                self._part(name).unlink()

    def go(self) -> None:
        """Let a command that is held begin."""
        assert self._gate is not None
        os.write(self._gate, b"\n")

    def close(self) -> None:
        """Let go of the streams; what writes to them is told so by a signal."""
        self.hide()
        for stream in self.streams:
            stream.close()
        for descriptor in (self._gate, self.pidfd):
            if descriptor is not None:
                os.close(descriptor)
        self._gate = self.pidfd = None


def _script(base: Path, command: Command) -> bytes:
    """Shell text that becomes the command. It is all bytes: the engine's API carries nothing that is not UTF-8."""
    source = f"{base}i" if command.stdin else "/dev/null"
    start = f"exec <{source} >{base}o 2>{base}e\necho\n"
    if command.private_output:
        start += f"read -r _ <{base}g\n"
    start += "trap - QUIT\necho 500 2>/dev/null >/proc/self/oom_score_adj\n"
    lines = [start.encode("ascii")]
    cwd = os.fsencode(command.cwd)
    lines.append(
        b"cd -P %b 2>/dev/null || { echo %b': cannot enter the directory' >&2; exit 126; }\n" % ((quoted(cwd),) * 2)
    )
    lines.append(b"unset %b\n" % b" ".join(_names_to_unset(command.env)))
    odd = []
    for name, value in command.env.items():
        if name in _NAMES_OF_SHELLS or not _is_plain(name, value):
            pair = quoted(os.fsencode(f"{name}={value}"))
            if _is_name(os.fsencode(name)):
                lines.append(b"export %b\n" % pair)
            else:
                odd.append(pair)
    if odd:
        lines.append(b'set -- /usr/bin/env; [ -x "$1" ] || set -- /bin/env\n')
    prefix = [b'"$1"', *odd] if odd else []
    lines.append(b"exec %b\n" % b" ".join([*prefix, *(quoted(os.fsencode(each)) for each in command.argv)]))
    return b"".join(lines)


def _names_to_unset(env: Mapping[str, str]) -> Iterable[bytes]:
    return [name.encode("ascii") for name in _NAMES_OF_SHELLS if name not in env and name != "_"]


def quoted(text: bytes) -> bytes:
    """Any bytes but NUL as one word of a shell."""
    return b"'" + text.replace(b"'", b"'\\''") + b"'"


def _is_plain(name: str, value: str) -> bool:
    """Whether the engine's API and a shell hand a variable on as it is."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return _is_name(os.fsencode(name))


def _is_name(name: bytes) -> bool:
    return bool(name) and not name[:1].isdigit() and _NAME.issuperset(name)
