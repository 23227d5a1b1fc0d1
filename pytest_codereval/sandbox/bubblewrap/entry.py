"""How a command gets into a sandbox: a script that says that it was reached, then becomes the command."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..protocol import ProcessResult
from ..supervision import Command
from .tools import CLEAN_ENVIRONMENT

_REACHED = 8
"""The descriptor on which the script says that it runs; it is closed before the command starts."""

_OUTER = "/"


class Entry:
    """One command on its way in: the script, and the pipe by which it says that it runs."""

    def __init__(self, script: Path, pipe: Path, reader: int) -> None:
        self.script = script
        self._pipe = pipe
        self._reader = reader
        self._reached = False

    def opening(self) -> str:
        """Shell text that opens the pipe for the script."""
        return f"exec {_REACHED}>{shlex.quote(str(self._pipe))}\n"

    def was_reached(self) -> bool:
        """Whether the script ran, so that exit status and output are those of the command."""
        with contextlib.suppress(BlockingIOError):
            self._reached = self._reached or os.read(self._reader, 1) != b""
        return self._reached


class Entries:
    """The scripts of one environment. `folder` is seen there, read-only; `own` is not."""

    def __init__(self, folder: Path, own: Path) -> None:
        self.folder = folder
        self._own = own
        self._numbers = itertools.count(1)
        for place, mode in ((folder, 0o755), (own, 0o700)):
            place.mkdir(0o700)
            place.chmod(mode)

    @contextlib.contextmanager
    def prepared(self, command: Command) -> Iterator[Entry]:
        """Write the script of a command; it is gone afterwards. Raises OSError."""
        number = next(self._numbers)
        script, pipe = self.folder / str(number), self._own / str(number)
        os.mkfifo(pipe, 0o600)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            script.write_bytes(_text(command))
            script.chmod(0o644)
            yield Entry(script, pipe, reader)
        finally:
            os.close(reader)
            script.unlink(missing_ok=True)
            pipe.unlink(missing_ok=True)


def refusal(command: Command) -> ProcessResult | None:
    """The result of a command that no system can run, because a text has a zero byte in it."""
    texts = (*command.argv, *command.env, *command.env.values())
    if any("\0" in text for text in texts):
        return ProcessResult(126, stderr=os.fsencode(f"{command.argv[0]!r}: embedded null byte\n"))
    return None


def outside(command: Command, text: str, arguments: Sequence[str] = ()) -> Command:
    """The command that the harness runs in place of `command`: a shell script of its own, in a clean environment."""
    return dataclasses.replace(
        command, argv=["/bin/sh", "-c", text, "sh", *arguments], cwd=_OUTER, env=CLEAN_ENVIRONMENT, scoped=False
    )


def _text(command: Command) -> bytes:
    """The environment is handed over here, so that nothing of it is seen by the programs that make the sandbox."""
    variables = [f"{name}={value}" for name, value in command.env.items()]
    program = [*variables, *command.argv] if "=" not in command.argv[0] else [*variables, *_by_shell(command.argv)]
    lines = [
        f"echo >&{_REACHED}",
        f"exec {_REACHED}>&-",
        f"cd -- {shlex.quote(command.cwd)} || exit 126",
        f"exec /usr/bin/env -i {shlex.join(program)}",
    ]
    return os.fsencode("\n".join(lines) + "\n")


def _by_shell(argv: Sequence[str]) -> list[str]:
    """A program whose name env would take for a variable."""
    return ["/bin/sh", "-c", 'exec "$@"', "sh", *argv]
