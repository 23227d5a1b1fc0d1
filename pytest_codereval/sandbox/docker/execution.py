"""The processes of one phase: commands in a container of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import select
import socket
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

from ... import clock
from ...errors import Cause, TrialError
from ..enclosure import Owner
from ..protocol import ProcessResult
from ..supervision import Command, Keeper, KeeperLost, supervisor
from .containers import Container
from .engine import told
from .launch import Launch
from .listening import Forwarding, listen
from .stillness import standing_still

TIMED_OUT_STATUS = 137
CANNOT_RUN_STATUS = 126

START_PATIENCE = 120.0
"""Seconds that a command gets to begin, on a busy machine; its own time counts from then."""

END_PATIENCE = 15.0
"""Seconds that the daemon gets to tell the status of a command that has ended."""

KILL_PATIENCE = 10.0
"""Seconds that processes get to end after SIGKILL, before their container is killed as a whole."""

_LOOK = 0.05
"""Seconds between looks at the daemon where the end of a process cannot be seen otherwise."""

_DYING = 0.1
"""Seconds after the end of a process that was killed in which its container's own end is waited for."""

_PAUSE = 0.002
_KILL = "kill -KILL -1"

Step = Generator[bytes, None, ProcessResult]


class ContainerProcesses:
    """See `enclosure.Enclosure`. The container is made by `make` when first needed, and again after `end`.

    Commands run as `user`. `folder` is a directory of the harness that the container shows at the same path. `python`
    is the path of an interpreter in it, if there is one. `cwds` are working directories that have another path in it.
    """

    def __init__(
        self,
        make: Callable[[], Container],
        folder: Path,
        user: Owner,
        python: str | None,
        cwds: Mapping[str, str] | None = None,
    ) -> None:
        self._make = make
        self._folder = folder
        self._user = user
        self._python = python
        self._cwds = dict(cwds or {})
        self._container: Container | None = None
        self._gone: TrialError | None = None
        self._drains: Keeper | None = None
        self._forwarding: list[Forwarding] = []

    def run(self, command: Command) -> ProcessResult:
        """See `enclosure.Enclosure.run`."""
        running = self._run(command, command.output_limit, None)
        while True:
            try:
                next(running)
            except StopIteration as end:
                result: ProcessResult = end.value
                return result

    def stream(self, command: Command, wake: int | None) -> Step:
        """See `enclosure.Enclosure.stream`."""
        return (yield from self._run(command, None, wake))

    def make_ready(self) -> None:
        """See `enclosure.Enclosure.make_ready`."""
        self._open()

    def abort(self) -> None:
        """See `enclosure.Enclosure.abort`."""
        if self._container is not None:
            self._container.kill()

    def listen(self, address: str = "127.0.0.1", port: int = 0) -> socket.socket:
        """See `enclosure.Enclosure.listen`."""
        container = self._open()
        listener, forwarding = listen(container, self._folder, self._python, address, port)
        if forwarding is not None:
            self._forwarding.append(forwarding)
        return listener

    def end(self) -> None:
        """See `enclosure.Enclosure.end`. It can be used again afterwards."""
        while self._forwarding:
            self._forwarding.pop().close()
        if self._container is not None:
            self._container.remove()
        self._container = self._gone = None
        self._end_drains()

    # -- one command

    def _run(self, command: Command, limit: int | None, wake: int | None) -> Step:
        """Without a limit standard output is yielded as it comes, otherwise kept."""
        if (fault := _fault_of(command)) is not None:
            return ProcessResult(CANNOT_RUN_STATUS, stderr=fault)
        command = dataclasses.replace(command, cwd=self._cwds.get(command.cwd, command.cwd))
        container = self._open()
        try:
            with contextlib.closing(self._launch(container, command)) as launch:
                return (yield from self._follow(container, launch, command, limit, wake))
        except GeneratorExit:
            self._kill_all(container)
            raise
        except TrialError as error:
            if self._gone is None and container.is_dead_within(_DYING):
                self._gone = container.loss()
            raise (self._gone or error) from None
        except BaseException:
            self._discard("the wait for a command in it was interrupted")
            raise

    def _open(self) -> Container:
        if self._gone is not None:
            raise self._gone
        if self._container is None:
            container = self._make()
            container.start()
            self._container = container
        elif self._container.is_dead_within(0):
            self._gone = self._container.loss()
            raise self._gone
        return self._container

    def _launch(self, container: Container, command: Command) -> Launch:
        """Start a command; its own code runs from now on, and its private output is its own."""
        if not command.private_output:
            return self._ready(Launch(container, self._folder, command, self._user))
        with standing_still(lambda: container.processes_of(self._user.uid)):
            launch = self._ready(Launch(container, self._folder, command, self._user))
            launch.output.seal()
        launch.go()
        return launch

    def _ready(self, launch: Launch) -> Launch:
        """Wait until a command is about to start."""
        try:
            if not launch.await_ready(START_PATIENCE):
                raise TrialError(Cause.SANDBOX, f"a command cannot be started in the container{launch.failure()}")
        except BaseException:
            launch.close()
            raise
        launch.hide()
        return launch

    def _follow(
        self, container: Container, launch: Launch, command: Command, limit: int | None, wake: int | None
    ) -> Step:
        begin = clock.monotonic()
        launch.output.limit, launch.errors.limit = limit, command.output_limit
        has_ended = yield from _forward(launch, begin + command.timeout, wake)
        if has_ended:
            status = self._finish(container, launch, command)
        else:
            status = TIMED_OUT_STATUS
            self._kill_all(container)
        duration = clock.monotonic() - begin
        self._settle(launch)
        if limit is None and (rest := launch.output.take()):
            yield rest
        return ProcessResult(
            exit_status=status,
            stdout=launch.output.content(),
            stderr=launch.errors.content(),
            truncated=launch.output.truncated or launch.errors.truncated,
            timed_out=not has_ended,
            duration=duration,
        )

    def _finish(self, container: Container, launch: Launch, command: Command) -> int:
        """The status of a command that has ended, once what it left behind is dead where that is asked for."""
        deadline = clock.monotonic() + END_PATIENCE
        while (status := launch.status()) is None:
            if clock.monotonic() > deadline:
                raise TrialError(Cause.SANDBOX, "the Docker daemon does not tell the end of a command")
            time.sleep(_PAUSE)
        if container.is_dead_within(_DYING if status == TIMED_OUT_STATUS else 0):
            raise TrialError(Cause.SANDBOX, "the container is dead")
        if command.reap and container.processes_of(self._user.uid) != []:
            self._kill_all(container)
        return status

    def _settle(self, launch: Launch) -> None:
        """Take what was written until now; who writes on is not held up, and not listened to."""
        for each in launch.streams:
            each.drain()
        still_used = [each.reader for each in launch.streams if each.has_writer()]
        if not still_used:
            return
        try:
            self._keeper().drain(still_used)
        except KeeperLost:
            self._drains = None
            self._keeper().drain(still_used)

    def _keeper(self) -> Keeper:
        if self._drains is None or not self._drains.usable:
            self._drains = supervisor().open_keeper()
        return self._drains

    def _end_drains(self) -> None:
        keeper, self._drains = self._drains, None
        if keeper is not None and keeper.usable:
            with contextlib.suppress(KeeperLost):
                keeper.release()

    # -- killing

    def _kill_all(self, container: Container) -> None:
        """Kill what runs in the container, if need be with the container. Raises TrialError(SANDBOX)."""
        try:
            has_killed = self._has_killed(container)
        except TrialError:
            has_killed = False
        if not has_killed:
            self._discard("what ran in it could not be killed otherwise")

    def _has_killed(self, container: Container) -> bool:
        deadline = clock.monotonic() + KILL_PATIENCE
        while clock.monotonic() < deadline:
            with told("killing the processes of a container"):
                killer = container.start_in(["-c", _KILL], self._user)
                while container.look_at(killer)["Running"] and clock.monotonic() < deadline:
                    time.sleep(_PAUSE)
            if container.is_dead_within(0) or not container.processes_of(self._user.uid):
                return True
        return False

    def _discard(self, reason: str) -> None:
        """Kill the container as a whole."""
        container = self._container
        if container is not None:
            self._gone = TrialError(Cause.SANDBOX, f"the container was killed: {reason}")
            container.remove()


def _fault_of(command: Command) -> bytes | None:
    """Why no program can be started with these arguments and variables, in words."""
    try:
        texts = [*command.argv, *command.env, *command.env.values()]
        if any(b"\0" in each.encode("utf-8", "surrogateescape") for each in texts):
            return b"a NUL character in an argument or variable\n"
    except UnicodeEncodeError as error:
        return f"an argument or variable cannot be encoded: {error}\n".encode("ascii", "backslashreplace")
    return None if command.argv else b"no program is named\n"


def _forward(launch: Launch, deadline: float, wake: int | None) -> Generator[bytes, None, bool]:
    """Read what a command writes until it ends; whether it has, before the deadline.

    Yields pieces of its output if all of it is kept, and an empty piece when `wake` is readable.
    """
    poller = select.poll()
    readers = {each.reader: each for each in launch.streams}
    for descriptor in (*readers, launch.pidfd, wake):
        if descriptor is not None:
            poller.register(descriptor, select.POLLIN)
    while True:
        left = deadline - clock.monotonic()
        if launch.has_ended or left <= 0:
            return launch.has_ended
        pause = left if launch.pidfd is not None else min(left, _LOOK)
        ready = [descriptor for descriptor, _ in poller.poll(min(pause * 1000 + 1, 1 << 30))]
        for descriptor in ready:
            if descriptor in readers and not readers[descriptor].read():
                poller.unregister(descriptor)
                del readers[descriptor]
        launch.look(launch.pidfd in ready)
        piece = launch.output.take() if launch.output.limit is None else b""
        if piece or wake in ready:
            yield piece
