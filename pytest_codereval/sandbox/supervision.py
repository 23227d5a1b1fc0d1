"""The harness's side of the supervisor: one per process, started when first needed; one keeper per sandbox."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import fcntl
import itertools
import os
import select
import signal
import socket
import sys
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import clock
from ..errors import Cause, TrialError
from .channel import Channel
from .landlock import Rules

PATIENCE = 15.0
"""Seconds that supervisor and keeper get for an answer; what they do themselves is bounded by 11 seconds."""

_START = f"import sys; sys.path.append(sys.argv[1]); from {__package__}.supervisor import main; main(int(sys.argv[2]))"
_ABOVE = Path(__file__).absolute().parents[__package__.count(".") + 1]


@dataclasses.dataclass(frozen=True)
class Command:
    """What is run in `cwd`; `timeout` is in seconds, `output_limit` in bytes of each stream.

    `scoped` keeps it from signalling processes outside the sandbox where the kernel can do that; `rules` are what its
    environment is kept to, the same for all commands of one keeper. `reap` kills what it leaves behind before its end
    is reported. With `private_output` other processes cannot open its standard output. `joins` are files of control
    groups that it joins before it is started, see `cgroups.Group.joins`.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    timeout: float
    output_limit: int
    scoped: bool
    reap: bool
    stdin: bytes = b""
    private_output: bool = False
    rules: Rules | None = None
    joins: Sequence[Path] = ()


class KeeperLost(Exception):
    """The keeper's socket closed although nobody asked it to go."""


class Supervisor:
    """The running supervisor of this process."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours, theirs:
            self.pid = _spawn(theirs)
            self._channel = Channel(ours.dup())
        self._identities = itertools.count(1)
        self._idle: list[Keeper] = []
        self._opened: weakref.WeakSet[Keeper] = weakref.WeakSet()
        self._status: int | None = None
        self.owner = os.getpid()
        self.alive = True
        self.fit = True

    def works(self) -> bool:
        """Whether it can be asked; it says nothing of its own accord, so what can be read is the end of the stream."""
        return self.alive and self.fit and self.owner == os.getpid() and not _readable(self._channel, 0)

    def open_keeper(self) -> Keeper:
        """A keeper that keeps nothing yet. Raises TrialError(SANDBOX) when the supervisor cannot be reached."""
        while self._idle:
            keeper = self._idle.pop()
            if not _readable(keeper.channel, 0):
                return keeper
            keeper.close()
        identity = next(self._identities)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            try:
                self._channel.send({"open": identity}, [theirs.fileno()])
            except OSError as error:
                ours.close()
                self.stop()
                raise TrialError(Cause.SANDBOX, f"the process supervisor cannot be reached: {error}") from error
        keeper = Keeper(self, identity, Channel(ours))
        self._opened.add(keeper)
        return keeper

    def give_back(self, keeper: Keeper) -> None:
        """Take a keeper that was reaped with `renew` for the next sandbox: forking one costs about 2 ms."""
        self._idle.append(keeper)

    def settle(self, identity: int) -> tuple[int, list[int]]:
        """Wait until a keeper whose socket is closed has ended and nothing that it kept lives.

        Returns its exit status (negative: the signal that killed it) and the process ids of survivors. Raises
        KeeperLost when the supervisor itself is gone.
        """
        answer = self._ask({"settle": identity})
        return answer["status"], answer["survivors"]

    def ping(self) -> list[str]:
        """What somebody changed of the supervisor's standing.

        Raises KeeperLost when it does not live, also when it has been killed and is still ending.
        """
        changed: list[str] = self._ask({"ping": True})["changed"]
        return changed

    def _ask(self, question: Mapping[str, object]) -> dict[str, Any]:
        try:
            self._channel.send(question)
            answer = self._channel.receive() if _readable(self._channel, PATIENCE) else None
        except OSError:
            answer = None
        except BaseException:
            self.stop()
            raise
        if answer is None:
            self.stop()
            raise KeeperLost
        return answer

    def stop(self) -> int | None:
        """Let the supervisor kill everything and end; its exit status when it is known."""
        if not self.alive:
            return self._status
        self.alive = False
        self._channel.close()
        while self._idle:
            self._idle.pop().close()
        deadline = clock.monotonic() + PATIENCE
        with contextlib.suppress(ChildProcessError):
            while clock.monotonic() < deadline:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self._status = os.waitstatus_to_exitcode(status)
                    return self._status
                time.sleep(0.001)
            os.kill(self.pid, signal.SIGKILL)
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def forget(self) -> None:
        """Close the sockets in a forked copy of this process, so that they do not keep anything alive."""
        self.alive = False
        self._channel.close()
        for keeper in self._opened:
            keeper.close()


class Keeper:
    """The keeper of one sandbox; `altered` names what somebody else changed of what its commands inherit.

    Every wait may be interrupted: what it keeps is then killed, and `reap` proves it.
    """

    def __init__(self, supervisor: Supervisor, identity: int, channel: Channel) -> None:
        self._supervisor = supervisor
        self._identity = identity
        self.channel = channel
        self._requests = itertools.count(1)
        self.usable = True
        self.altered: list[str] = []

    def fileno(self) -> int:
        return self.channel.fileno()

    def start(self, command: Command, standard: tuple[int, int, int]) -> int:
        """Start a command with these descriptors as its stdin, stdout and stderr; the number of the run."""
        request = next(self._requests)
        message = {
            "run": request,
            "argv": list(command.argv),
            "cwd": command.cwd,
            "env": dict(command.env),
            "scoped": command.scoped,
            "rules": command.rules,
            "reap": command.reap,
            "joins": len(command.joins),
        }
        with self.guarded(), _opened(command.joins) as joins:
            self.channel.send(message, [*standard, *joins])
        return request

    def drain(self, descriptors: Sequence[int]) -> None:
        """Have pipes read, and their content dropped, while background processes write to them."""
        with self.guarded():
            self.channel.send({"drain": len(descriptors)}, descriptors)

    def answer(self) -> dict[str, Any]:
        """The next message of the keeper; waits for it. Raises KeeperLost."""
        with self.guarded():
            message = self.channel.receive()
            if message is None:
                raise KeeperLost
            return message

    def pending(self) -> bool:
        """Whether `answer` would not wait although the socket is not readable."""
        return self.channel.pending()

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Give the keeper up, which kills what it keeps, when the block is left by any exception."""
        try:
            yield
        except OSError as error:
            self.abandon()
            raise KeeperLost from error
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Close the socket: the keeper kills everything and ends. `settle` waits for it."""
        if self.usable:
            self.usable = False
            with contextlib.suppress(OSError):
                self.channel.socket.shutdown(socket.SHUT_WR)

    def reap(self, *, renew: bool = False) -> list[int]:
        """Kill all that lives and wait for it; the process ids of survivors. Raises KeeperLost.

        `renew` makes the keeper ready for another sandbox, see `Supervisor.give_back`.
        """
        request = next(self._requests)
        deadline = clock.monotonic() + PATIENCE
        with self.guarded():
            self.channel.send({"reap": request, "renew": renew})
            while True:
                if not self.pending() and not _readable(self.channel, deadline - clock.monotonic()):
                    raise KeeperLost
                message = self.channel.receive()
                if message is None:
                    raise KeeperLost
                if message.get("reap") == request:
                    of_supervisor = self._supervisor.ping()
                    self.altered += [*message["changed"], *of_supervisor]
                    if of_supervisor:
                        self._supervisor.fit = False
                    survivors: list[int] = message["survivors"]
                    return survivors

    def settle(self) -> tuple[int, list[int]]:
        """Wait for the end of an abandoned keeper; its exit status and survivors.

        A negative status is the number of the signal that killed it. Raises TrialError(TAMPERED or SANDBOX) when the
        supervisor is gone too; then the keeper is given time to end by itself.
        """
        self.abandon()
        try:
            return self._supervisor.settle(self._identity)
        except KeeperLost:
            ended = self._wait_for_end()
            status = self._supervisor.stop()
            if status is not None and status >= 0:
                raise TrialError(Cause.SANDBOX, f"the process supervisor ended with status {status}") from None
            how = "" if ended else ", and its processes may live on"
            raise TrialError(Cause.TAMPERED, f"the process supervisor was killed{how}") from None
        finally:
            self.channel.close()

    def _wait_for_end(self) -> bool:
        deadline = clock.monotonic() + PATIENCE
        while _readable(self.channel, deadline - clock.monotonic()):
            try:
                if self.channel.receive() is None:
                    return True
            except OSError:
                return True
        return False

    def release(self) -> list[int]:
        """As `reap`, then leave the keeper to the next sandbox."""
        survivors = self.reap(renew=True)
        if survivors or self.altered or not self._supervisor.alive:
            self.close()
        else:
            self._supervisor.give_back(self)
        return survivors

    def close(self) -> None:
        """Let it go: it kills everything and ends, unseen."""
        self.usable = False
        self.channel.close()


_current: Supervisor | None = None


def supervisor() -> Supervisor:
    """The supervisor of this process, started when there is none that works."""
    global _current
    if _current is not None and not _current.works():
        shut_down()
    if _current is None:
        _current = Supervisor()
    return _current


def shut_down() -> None:
    """Stop the supervisor of this process, if any; it is started anew when needed."""
    global _current
    if _current is not None and _current.owner == os.getpid():
        _current.stop()
    _current = None


def _forget_after_fork() -> None:
    global _current
    if _current is not None:
        _current.forget()
        _current = None


atexit.register(shut_down)
os.register_at_fork(after_in_child=_forget_after_fork)


@contextlib.contextmanager
def _opened(files: Sequence[Path]) -> Iterator[list[int]]:
    """Descriptors that can be written to. Raises TrialError(SANDBOX)."""
    with contextlib.ExitStack() as stack:
        descriptors = []
        for file in files:
            try:
                descriptors.append(os.open(file, os.O_WRONLY | os.O_CLOEXEC))
            except OSError as error:
                raise TrialError(Cause.SANDBOX, f"a control group cannot be joined: {error}") from error
            stack.callback(os.close, descriptors[-1])
        yield descriptors


def _readable(channel: Channel, timeout: float) -> bool:
    poller = select.poll()
    poller.register(channel.fileno(), select.POLLIN)
    return bool(poller.poll(max(timeout, 0) * 1000))


def _spawn(control: socket.socket) -> int:
    """Start the script with the socket as descriptor 3 and nothing else of ours."""
    spare = fcntl.fcntl(control.fileno(), fcntl.F_DUPFD_CLOEXEC, 10)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, null, target) for target in range(3)]
        actions.append((os.POSIX_SPAWN_DUP2, spare, 3))
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-E", "-B", "-X", "utf8", "-c", _START, str(_ABOVE), "3"],
            {"PATH": os.defpath},
            file_actions=actions,
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            setsigmask=[],
        )
    except OSError as error:
        raise TrialError(Cause.SANDBOX, f"cannot start the process supervisor: {error}") from error
    finally:
        os.close(spare)
        os.close(null)
