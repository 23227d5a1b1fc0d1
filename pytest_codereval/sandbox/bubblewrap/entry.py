"""How a command gets into a sandbox: a script that says that it was reached, then becomes the command."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import shlex
from collections.abc import Iterator, Sequence

from ..protocol import ProcessResult
from ..supervision import Command
from .tools import CLEAN_ENVIRONMENT

_REACHED = 8
"""The descriptor on which the script says that it runs; it is closed before the command starts, as is the next."""

_SCRIPT = 9
SCRIPT = f"/proc/self/fd/{_SCRIPT}"

_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL

_OUTER = "/"


class Entry:
    """One command on its way in: the script, and the pipe by which it says that it runs."""

    def __init__(self, script: int, writer: int, reader: int) -> None:
        self._script = script
        self._writer = writer
        self._reader = reader
        self._reached = False

    def opening(self) -> str:
        """Shell text that opens the pipe for the script, and the script itself, which is then `SCRIPT`."""
        return f"exec {_REACHED}>{path_of(self._writer)} {_SCRIPT}<{path_of(self._script)}\n"

    def was_reached(self) -> bool:
        """Whether the script ran, so that exit status and output are those of the command."""
        with contextlib.suppress(BlockingIOError):
            self._reached = self._reached or os.read(self._reader, 1) != b""
        return self._reached


@contextlib.contextmanager
def prepared(command: Command) -> Iterator[Entry]:
    """The way in for a command. Nothing of it lies on the disk. Raises OSError."""
    with contextlib.ExitStack() as opened:
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        opened.callback(os.close, reader)
        opened.callback(os.close, writer)
        script = sealed("command", _text(command))
        opened.callback(os.close, script)
        yield Entry(script, writer, reader)


def sealed(name: str, content: bytes) -> int:
    """A descriptor of a file in memory that nobody can change; the caller closes it. Raises OSError."""
    made = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with os.fdopen(os.dup(made), "wb") as file:
            file.write(content)
        fcntl.fcntl(made, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(made)
        raise
    return made


def path_of(descriptor: int) -> str:
    """The path by which the processes that make a sandbox open a file of this process."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


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
        f"exec {_REACHED}>&- {_SCRIPT}<&-",
        f"cd -- {shlex.quote(command.cwd)} || exit 126",
        f"exec /usr/bin/env -i {shlex.join(program)}",
    ]
    return os.fsencode("\n".join(lines) + "\n")


def _by_shell(argv: Sequence[str]) -> list[str]:
    """A program whose name env would take for a variable."""
    return ["/bin/sh", "-c", 'exec "$@"', "sh", *argv]
