"""Keeps the processes of sandboxes and leaves none behind. Stand-alone: `python -I -S -E supervisor.py FD`.

One supervisor per harness process. It forks one *keeper* per sandbox, each keeper forks the commands of its sandbox.
Both are child subreapers, so whatever a command starts stays below its keeper, however it daemonises. The end of any
control socket means: kill everything below, then exit. So a harness that is killed takes its agents with it.

Messages, over stream sockets: 4 bytes of length, then JSON, file descriptors beside it.
To the supervisor: {ping}, sent back; {open: id} with the keeper's socket; {settle: id}, which waits for the end of that
keeper and answers {status, survivors}. To a keeper: {run: id, argv, cwd, env, scoped, reap} with stdout and stderr,
answered at its end by {run: id, status, survivors} or {run: id, failure}; {reap: id, renew}, answered by {reap: id,
survivors}, `renew` for the next sandbox; {drain: count} with pipes that it reads, and forgets, from then on.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF, LANDLOCK_SCOPE_SIGNAL = 444, 446, 2

WIPE_PATIENCE = 10.0
"""Seconds after which processes that SIGKILL does not end are reported as survivors."""

_HARMLESS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
"""Caught and disregarded. Not ignored, because what a process ignores its children ignore too."""


class Channel:
    """Messages with file descriptors over a stream socket. Raises OSError when the other side is gone."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._buffer = b""
        self._descriptors: list[int] = []

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Mapping[str, object], descriptors: Sequence[int] = ()) -> None:
        body = json.dumps(message).encode("ascii")
        data = struct.pack("!I", len(body)) + body
        sent = socket.send_fds(self.socket, [data], list(descriptors)) if descriptors else self.socket.send(data)
        if sent < len(data):
            self.socket.sendall(data[sent:])

    def receive(self) -> dict[str, Any] | None:
        """The next message, or None when the other side is gone."""
        while not self.pending():
            try:
                data, descriptors, _, _ = socket.recv_fds(self.socket, 1 << 18, 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._buffer += data
            self._descriptors += descriptors
        end = 4 + struct.unpack_from("!I", self._buffer)[0]
        body, self._buffer = self._buffer[4:end], self._buffer[end:]
        message: dict[str, Any] = json.loads(body)
        return message

    def pending(self) -> bool:
        """Whether `receive` would answer from what was read already."""
        return len(self._buffer) >= 4 and len(self._buffer) >= 4 + struct.unpack_from("!I", self._buffer)[0]

    def take_descriptors(self, count: int) -> list[int]:
        taken, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        return taken

    def close(self) -> None:
        self.socket.close()


class _Wakeup:
    """A pipe that becomes readable when a child ends. Made in the main thread."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self.reader, 4096)) == 4096:
                pass


def _prctl(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False


def _children(pid: int) -> list[int]:
    """Process ids of the direct children, by each of its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as threads:
        for thread in threads:
            with contextlib.suppress(OSError), open(f"{thread.path}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _children_by_parent() -> dict[int, list[int]]:
    """The same for kernels without the `children` file: from every process's own account of its parent."""
    found: dict[int, list[int]] = {}
    with os.scandir("/proc") as processes:
        for pid in (int(process.name) for process in processes if process.name.isdigit()):
            found.setdefault(int(_stat(pid)[1]), []).append(pid)
    return found


def _stat(pid: int) -> list[bytes]:
    """State, parent and so on, as in proc(5) from the third field on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return [b"X", b"0"]


def descendants(pid: int, spared: Collection[int] = ()) -> list[int]:
    """All processes below `pid`, without the trees of `spared`."""
    if not os.access("/proc/self", os.F_OK):
        return []
    known = None if os.access(f"/proc/self/task/{os.getpid()}/children", os.R_OK) else _children_by_parent()
    found: list[int] = []
    todo = [pid]
    while todo:
        parent = todo.pop()
        children = _children(parent) if known is None else known.get(parent, [])
        below = [child for child in children if child not in spared]
        found += below
        todo += below
    return found


def _ended_children() -> Iterator[tuple[int, int]]:
    """Reap the children that have ended: their ids and wait statuses. Raises ChildProcessError when none is left."""
    while (ended := os.waitpid(-1, os.WNOHANG))[0]:
        yield ended


def _kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


class _Run(NamedTuple):
    """A command that was started and has not ended."""

    identity: int
    reap: bool
    process: subprocess.Popen[bytes]


class Keeper:
    """Runs the commands of one sandbox at a time. `serve` is called in a thread that is not the main one."""

    def __init__(self, control: Channel, lifeline: int) -> None:
        self._control = control
        self._lifeline = lifeline
        self._wakeup = _Wakeup()
        self._running: dict[int, _Run] = {}
        self._started: list[int] = []
        self._drains: set[int] = set()
        self._scoped = False
        self._renew = False
        self.finished = False

    def serve(self) -> None:
        """Answer requests until the harness or the supervisor is gone, then kill everything.

        Returns earlier, without having `finished`, when the next sandbox wants a thread whose signals are not confined.
        """
        while True:
            poller = select.poll()
            for descriptor in (self._control.fileno(), self._lifeline, self._wakeup.reader, *self._drains):
                poller.register(descriptor, select.POLLIN)
            ready = {descriptor for descriptor, _ in poller.poll()}
            for descriptor in ready & self._drains:
                self._drain(descriptor)
            if self._wakeup.reader in ready:
                self._wakeup.drain()
                self._collect()
            if self._lifeline in ready:
                break
            if self._control.fileno() in ready and not self._requests():
                break
            if self._renew:
                self._renew = self._scoped = False
                return
        self.finished = True
        self._wipe()

    def _requests(self) -> bool:
        while True:
            message = self._control.receive()
            if message is None:
                return False
            if "run" in message:
                self._run(message)
            elif "drain" in message:
                self._drains.update(self._control.take_descriptors(message["drain"]))
            else:
                self._renew = self._scoped and message["renew"]
                self._control.send({"reap": message["reap"], "survivors": self._wipe()})
            if not self._control.pending():
                return True

    def _drain(self, descriptor: int) -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(descriptor, 1 << 16):
                os.close(descriptor)
                self._drains.discard(descriptor)

    def _run(self, message: dict[str, Any]) -> None:
        stdout, stderr = self._control.take_descriptors(2)
        if message["scoped"] and not self._scoped:
            self._wipe()
            _confine_signals()
            self._scoped = True
        try:
            started = _launch(message, stdout, stderr)
        except OSError as error:
            self._control.send({"run": message["run"], "failure": f"cannot start a process: {error.strerror}"})
            return
        finally:
            os.close(stdout)
            os.close(stderr)
        if isinstance(started, int):
            self._control.send({"run": message["run"], "status": started, "survivors": []})
        else:
            self._running[started.pid] = _Run(message["run"], message["reap"], started)
            self._started.append(started.pid)

    def _collect(self) -> None:
        """Reap zombies, report commands that ended."""
        with contextlib.suppress(ChildProcessError):
            for pid, status in _ended_children():
                self._report(pid, status)

    def _report(self, pid: int, status: int) -> None:
        run = self._running.pop(pid, None)
        if run is None:
            return
        code = run.process.returncode = os.waitstatus_to_exitcode(status)
        if self.finished:
            return
        survivors = self._wipe() if run.reap else []
        with contextlib.suppress(OSError):
            self._control.send(
                {"run": run.identity, "status": code if code >= 0 else 128 - code, "survivors": survivors}
            )

    def _wipe(self) -> list[int]:
        """Kill all descendants until the kernel says that no child is left; the survivors otherwise."""
        limit = time.monotonic() + WIPE_PATIENCE
        while True:
            try:
                for pid, status in _ended_children():
                    self._report(pid, status)
            except ChildProcessError:
                self._kill_groups()
                while self._drains:
                    os.close(self._drains.pop())
                return []
            below = descendants(os.getpid())
            for pid in below or list(self._running):
                _kill(pid)
            if time.monotonic() > limit:
                return below
            time.sleep(0.0002)

    def _kill_groups(self) -> None:
        """Where orphans do not come back to us, the process groups are all that can be killed."""
        if not sys.platform.startswith("linux"):
            for group in self._started:
                with contextlib.suppress(OSError):
                    os.killpg(group, signal.SIGKILL)
        self._started.clear()


def _confine_signals() -> None:
    """Let this thread and what it starts from now on signal only each other (Landlock ABI 6), for ever.

    Kernels without it leave things as they are. The main thread stays outside, so the keeper as a process cannot be
    signalled by its commands; among each other they can.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    attributes = ctypes.c_char_p(struct.pack("=QQQ", 0, 0, LANDLOCK_SCOPE_SIGNAL))
    ruleset = libc.syscall(LANDLOCK_CREATE_RULESET, attributes, ctypes.c_size_t(24), ctypes.c_uint32(0))
    if ruleset < 0:
        return
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        libc.syscall(LANDLOCK_RESTRICT_SELF, ruleset, ctypes.c_uint32(0))
    os.close(ruleset)


def _launch(message: Mapping[str, Any], stdout: int, stderr: int) -> subprocess.Popen[bytes] | int:
    """Start the command of a run; when it cannot be run, a message on its stderr and the status that a shell gives."""
    argv = message["argv"]
    try:
        try:
            return _spawn(argv, message, stdout, stderr)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            return _spawn(["/bin/sh", _which(argv[0], message["env"]), *argv[1:]], message, stdout, stderr)
    except ValueError as error:
        os.write(stderr, os.fsencode(f"{argv[0]!r}: {error}\n"))
        return 126
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.ENOMEM):
            raise
        if error.filename == message["cwd"]:
            os.write(stderr, os.fsencode(f"{error.filename}: cannot enter the directory: {error.strerror}\n"))
            return 126
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        os.write(stderr, os.fsencode(f"{argv[0]}: {'not found' if missing else error.strerror}\n"))
        return 127 if missing else 126


def _spawn(argv: list[str], message: Mapping[str, Any], stdout: int, stderr: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv, cwd=message["cwd"], env=message["env"], stdout=stdout, stderr=stderr, start_new_session=True
    )


def _which(program: str, environment: dict[str, str]) -> str:
    if "/" in program:
        return program
    folders = os.get_exec_path(environment)
    return next(path for folder in folders if os.access(path := f"{folder}/{program}", os.X_OK))


class Supervisor:
    """Forks keepers and kills what a killed keeper leaves behind."""

    def __init__(self, control: Channel) -> None:
        self._control = control
        self._wakeup = _Wakeup()
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
                self._control.send(message)
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
        """The main thread only waits, so that signal scopes of the working thread do not include this process."""
        try:
            _prctl(PR_SET_CHILD_SUBREAPER, 1)
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
            for pid, status in _ended_children():
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
                if known == identity and _stat(pid)[0] in (b"T", b"t"):
                    _kill(pid)
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
                for pid, status in _ended_children():
                    self._note_end(pid, status)
            below = descendants(os.getpid(), spared)
            if not below or time.monotonic() > limit:
                return below
            for pid in below:
                _kill(pid)
            time.sleep(0.0002)


def _serve(keeper: Keeper) -> None:
    status = 1
    try:
        keeper.serve()
        status = 0
    finally:
        if status or keeper.finished:
            os._exit(status)


def main() -> NoReturn:
    """Serve on the socket whose descriptor is the argument."""
    control = int(sys.argv[1])
    os.set_inheritable(control, False)
    os.closerange(control + 1, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    gc.disable()
    for number in _HARMLESS:
        signal.signal(number, lambda *_: None)
    with contextlib.suppress(PermissionError):
        os.setsid()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    supervisor = Supervisor(Channel(socket.socket(fileno=control)))
    _prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    supervisor.serve()
    os._exit(0)


if __name__ == "__main__":
    main()
