"""Keeps the processes of sandboxes and leaves none behind. A process of its own, started by `supervision`; it needs the
standard library and the modules `channel`, `keeper`, `kernel`, `keyrings`, `landlock` and `standing`, nothing else.

One supervisor per harness process. It forks one *keeper* per sandbox, each keeper forks the commands of its sandbox.
Both are child subreapers, so whatever a command starts stays below its keeper, however it daemonises. The end of any
control socket means: kill everything below, then exit. So a harness that is killed takes its agents with it.

Messages, over stream sockets: 4 bytes of length, then JSON, file descriptors beside it.
To the supervisor: {ping}, sent back with what somebody `changed` of its standing; {open: id} with the keeper's socket;
{settle: id}, which waits for the end of that keeper and answers {status, survivors}. To a keeper: {run: id, argv, cwd,
env, scoped, rules, reap} with stdout and stderr, answered at its end by {run: id, status, survivors} or {run: id,
failure}; {reap: id, renew}, answered by {reap: id, survivors, changed}, `renew` for the next sandbox; {drain: count}
with pipes that it reads, and forgets, from then on.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Collection
from typing import NoReturn

from .channel import Channel
from .keeper import WIPE_PATIENCE, Keeper
from .kernel import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    Wakeup,
    descendants,
    ended_children,
    kill,
    prctl,
    process_state,
)
from .keyrings import leave_session_keyring
from .standing import changes, standing

_HARMLESS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
"""Caught and disregarded. Not ignored, because what a process ignores its children ignore too."""


class Supervisor:
    """Forks keepers and kills what a killed keeper leaves behind."""

    def __init__(self, control: Channel) -> None:
        self._control = control
        self._wakeup = Wakeup()
        self._standing = standing()
        self._parent = os.getppid()
        self._lifeline, self._lifeline_writer = os.pipe()
        self._keepers: dict[int, int] = {}
        self._failed: dict[int, int] = {}

    def serve(self) -> None:
        """Answer requests until the harness is gone, then kill everything."""
        poller = select.poll()
        poller.register(self._control.fileno(), select.POLLIN)
        poller.register(self._wakeup.reader, select.POLLIN)
        while os.getppid() == self._parent:
            ready = {descriptor for descriptor, _ in poller.poll()}
            if self._wakeup.reader in ready:
                self._wakeup.drain()
                self._collect()
            if self._control.fileno() in ready and not self._requests():
                break
        self._wipe(spared=())

    def _requests(self) -> bool:
        while True:
            message = self._control.receive()
            if message is None:
                return False
            if "open" in message:
                self._open(message["open"])
            elif "ping" in message:
                changed = [f"{name} of the supervisor" for name in changes(self._standing, standing())]
                self._control.send({"ping": True, "changed": changed})
            else:
                self._control.send(self._settle(message["settle"]))
            if not self._control.pending():
                return True

    def _open(self, identity: int) -> None:
        descriptor = self._control.take_descriptors(1)[0]
        try:
            pid = os.fork()
        except OSError:
            self._failed[identity] = 0
        else:
            if pid == 0:
                self._turn_into_keeper(descriptor)
            self._keepers[pid] = identity
        os.close(descriptor)

    def _turn_into_keeper(self, descriptor: int) -> NoReturn:
        """The main thread only waits, so that what restricts the working thread does not hold for this process."""
        try:
            prctl(PR_SET_CHILD_SUBREAPER, 1)
            self._control.close()
            os.close(self._lifeline_writer)
            os.close(self._wakeup.reader)
            os.close(signal.set_wakeup_fd(-1))
            keeper = Keeper(Channel(socket.socket(fileno=descriptor)), self._lifeline)
            while True:
                thread = threading.Thread(target=_serve, args=(keeper,))
                thread.start()
                thread.join()
        finally:
            os._exit(1)

    def _collect(self) -> None:
        """Reap zombies; remember how a keeper failed and kill what it kept."""
        killed = False
        with contextlib.suppress(ChildProcessError):
            for pid, status in ended_children():
                killed |= self._note_end(pid, status)
        if killed:
            self._wipe(spared=self._keepers)

    def _note_end(self, pid: int, status: int) -> bool:
        identity = self._keepers.pop(pid, None)
        if identity is None or status == 0:
            return False
        self._failed[identity] = os.waitstatus_to_exitcode(status)
        return True

    def _settle(self, identity: int) -> dict[str, object]:
        limit = time.monotonic() + WIPE_PATIENCE + 1
        while identity in self._keepers.values() and time.monotonic() < limit:
            for pid, known in self._keepers.items():
                if known == identity and process_state(pid)[0] in (b"T", b"t"):
                    kill(pid)
            select.select([self._wakeup.reader], [], [], 0.2)
            self._wakeup.drain()
            self._collect()
        left = [pid for pid, known in self._keepers.items() if known == identity]
        survivors = self._wipe(spared=self._keepers)
        return {"status": self._failed.pop(identity, 0), "survivors": left + survivors}

    def _wipe(self, spared: Collection[int]) -> list[int]:
        """Kill all descendants but the keepers to spare and theirs; what outlives it."""
        if not sys.platform.startswith("linux"):
            return []
        limit = time.monotonic() + WIPE_PATIENCE
        while True:
            with contextlib.suppress(ChildProcessError):
                for pid, status in ended_children():
                    self._note_end(pid, status)
            below = descendants(os.getpid(), spared)
            if not below or time.monotonic() > limit:
                return below
            for pid in below:
                kill(pid)
            time.sleep(0.0002)


def _serve(keeper: Keeper) -> None:
    status = 1
    try:
        keeper.serve()
        status = 0
    finally:
        if status or keeper.finished:
            os._exit(status)


def main(control: int) -> NoReturn:
    """Serve on the socket with this descriptor; close those above it."""
    os.set_inheritable(control, False)
    os.closerange(control + 1, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    gc.disable()
    for number in _HARMLESS:
        signal.signal(number, lambda *_: None)
    with contextlib.suppress(PermissionError):
        os.setsid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    leave_session_keyring()
    supervisor = Supervisor(Channel(socket.socket(fileno=control)))
    prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    supervisor.serve()
    os._exit(0)
