"""The sandbox that the commands of an agent enter: a process that does nothing but keep its namespaces."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import tempfile
import threading
from typing import IO

from ... import clock
from ...errors import Cause, TrialError
from ...text import tail
from .. import supervision
from ..namespaces import listen_in, owner_of
from ..supervision import Command, KeeperLost
from .launch import READY, Launch
from .tools import CLEAN_ENVIRONMENT

_PATIENCE = 60.0
_KINDS = {"mount": "mnt", "pid": "pid", "net": "net", "ipc": "ipc", "uts": "uts"}


class Holder:
    """Alive from the start on. Its keeper keeps nothing else. Raises TrialError(SANDBOX) when it cannot be made."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._keeper = supervision.supervisor().open_keeper()
        self._descriptors = contextlib.ExitStack()
        self._ended = self._closed = False
        self._closing = threading.Lock()
        try:
            self.pid = self._start()
            self._life = self._kept(os.pidfd_open(self.pid))
            self._namespaces = self._open_namespaces()
        except OSError as error:
            self.end()
            raise TrialError(Cause.SANDBOX, f"the sandbox ended as soon as it was made: {error}") from error
        except BaseException:
            self.end()
            raise

    def _start(self) -> int:
        """Start it and wait until it is ready; the id of its first process."""
        reader, writer = os.pipe()
        with open(reader, "rb", buffering=0) as output, tempfile.TemporaryFile() as errors:
            with open(writer, "wb") as written, open(os.devnull, "rb") as nothing:
                self._start_with(nothing, written, errors)
            said = _read_until_ready(output)
            if not said.endswith(READY + b"\n"):
                errors.seek(0)
                reason = tail(errors.read().decode("utf-8", "replace").strip(), 500)
                raise TrialError(Cause.SANDBOX, f"bubblewrap cannot make the sandbox: {reason or 'it gave no reason'}")
        pid: int = json.loads(said.splitlines()[0])["child-pid"]
        return pid

    def _start_with(self, *files: IO[bytes]) -> None:
        text = self._launch.holder_text()
        command = Command(["/bin/sh", "-c", text], "/", CLEAN_ENVIRONMENT, 0, output_limit=0, scoped=False, reap=False)
        stdin, stdout, stderr = (file.fileno() for file in files)
        try:
            self._keeper.start(command, (stdin, stdout, stderr))
        except KeeperLost:
            raise TrialError(Cause.SANDBOX, "the keeper of the sandbox is gone") from None

    def _open_namespaces(self) -> dict[str, int]:
        """Descriptors of those that it does not share with the harness, by the names that nsenter has for them."""
        folder = f"/proc/{self.pid}/ns"
        kinds = {kind: name for kind, name in _KINDS.items() if kind != "net" or self._launch.own_network}
        found = {kind: self._kept(os.open(f"{folder}/{name}", os.O_RDONLY)) for kind, name in kinds.items()}
        if self._launch.owner is None:
            found = {"user": self._kept(owner_of(found["mount"])), **found}
        return found

    def _kept(self, descriptor: int) -> int:
        self._descriptors.callback(os.close, descriptor)
        return descriptor

    @property
    def alive(self) -> bool:
        """Whether commands can still enter it."""
        if self._closed:
            return False
        poller = select.poll()
        poller.register(self._life, select.POLLIN)
        return not poller.poll(0)

    def entering_text(self) -> str:
        """Shell text that becomes the script of an entry, in here."""
        return self._launch.entering_text(self._namespaces)

    def listen(self, address: str, port: int) -> socket.socket:
        """See `enclosure.Enclosure.listen`."""
        return listen_in(self.pid, address, port)

    def kill(self) -> None:
        """Kill it and all in it, from any thread, without waiting."""
        with self._closing, contextlib.suppress(OSError):
            if not self._closed:
                signal.pidfd_send_signal(self._life, signal.SIGKILL)

    def end(self) -> None:
        """Kill it and all in it. May be called twice. Raises TrialError(SANDBOX) when that is not possible."""
        if self._ended:
            return
        with self._closing:
            self._closed = True
            self._descriptors.close()
        try:
            survivors = self._keeper.release() if self._keeper.usable else self._keeper.settle()[1]
        except KeeperLost:
            survivors = self._keeper.settle()[1]
        self._ended = True
        if survivors:
            named = ", ".join(map(str, survivors))
            raise TrialError(Cause.SANDBOX, f"processes of the sandbox cannot be killed: {named}")


def _read_until_ready(output: IO[bytes]) -> bytes:
    """What is said until it is ready, or its output ends, or patience does."""
    deadline = clock.monotonic() + _PATIENCE
    poller = select.poll()
    poller.register(output, select.POLLIN)
    said = b""
    while not said.endswith(READY + b"\n"):
        left = deadline - clock.monotonic()
        if left <= 0 or not poller.poll(left * 1000):
            break
        piece = os.read(output.fileno(), 4096)
        if not piece:
            break
        said += piece
    return said
