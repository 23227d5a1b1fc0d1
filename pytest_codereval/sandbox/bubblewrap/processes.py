"""The processes of one environment: a sandbox for each command, or one that commands enter."""

from __future__ import annotations

import abc
import contextlib
import socket
from collections.abc import Generator, Iterator

from ...errors import Cause, TrialError
from ...text import tail
from ..protocol import ProcessResult
from ..supervision import Command
from ..tempdir import KeptProcesses
from .entry import Entry, outside, prepared, refusal
from .holder import Holder
from .launch import Launch

_PURGE_PATIENCE = 10.0
_ATTEMPTS = 3
"""How often a command is started anew because an agent ended the sandbox in between."""


class _Processes(abc.ABC):
    """What both kinds have in common. See `enclosure.Enclosure`."""

    def __init__(self, kept: KeptProcesses, launch: Launch) -> None:
        self._kept = kept
        self._launch = launch

    def run(self, command: Command) -> ProcessResult:
        """See `enclosure.Enclosure.run`."""
        running = self._run(command, None, streamed=False)
        while True:
            try:
                next(running)
            except StopIteration as end:
                result: ProcessResult = end.value
                return result

    def stream(self, command: Command, wake: int | None) -> Generator[bytes, None, ProcessResult]:
        """See `enclosure.Enclosure.stream`."""
        return (yield from self._run(command, wake, streamed=True))

    @abc.abstractmethod
    def _run(self, command: Command, wake: int | None, *, streamed: bool) -> Generator[bytes, None, ProcessResult]:
        """As `stream`; without `streamed` nothing is yielded."""

    def _start(
        self, command: Command, entry: Entry, text: str, wake: int | None, streamed: bool
    ) -> Generator[bytes, None, ProcessResult]:
        """Run the shell text that leads to the entry; without `streamed` nothing is yielded."""
        made = outside(command, self._launch.joining() + entry.opening() + text)
        if streamed:
            return (yield from self._kept.stream(made, wake))
        return self._kept.run(made)

    @abc.abstractmethod
    def make_ready(self) -> None:
        """See `enclosure.Enclosure.make_ready`."""

    def abort(self) -> None:
        """See `enclosure.Enclosure.abort`."""
        self._kept.abort()

    @contextlib.contextmanager
    def _prepared(self, command: Command) -> Iterator[Entry]:
        try:
            with prepared(command) as entry:
                yield entry
        except OSError as error:
            raise TrialError(Cause.SANDBOX, f"no command can be started in the sandbox: {error}") from error

    def end(self) -> None:
        """See `enclosure.Enclosure.end`. It can be used again afterwards."""
        self._kept.end()


class DirectProcesses(_Processes):
    """Each command has a sandbox of its own, of which nothing outlives it."""

    def make_ready(self) -> None:
        """See `enclosure.Enclosure.make_ready`. There is nothing to make before a command."""

    def _run(self, command: Command, wake: int | None, *, streamed: bool) -> Generator[bytes, None, ProcessResult]:
        if (refused := refusal(command)) is not None:
            return refused
        with self._prepared(command) as entry:
            text = self._launch.command_text()
            result = yield from self._start(command, entry, text, wake, streamed)
            return _checked(entry, result)

    def listen(self, address: str = "127.0.0.1", port: int = 0) -> socket.socket:
        """See `enclosure.Enclosure.listen`."""
        if self._launch.own_network:
            raise TrialError(Cause.SANDBOX, "each command has a network of its own here, where nothing can listen")
        return _host_listener(address, port)


class HeldProcesses(_Processes):
    """One sandbox, made for the first command, that all commands enter.

    A deadline kills what runs in it and leaves the sandbox itself, with its network. One that an agent ended is made
    anew.
    """

    def __init__(self, kept: KeptProcesses, launch: Launch) -> None:
        super().__init__(kept, launch)
        self._holder: Holder | None = None
        self._listened = False

    def _run(self, command: Command, wake: int | None, *, streamed: bool) -> Generator[bytes, None, ProcessResult]:
        if (refused := refusal(command)) is not None:
            return refused
        for left in reversed(range(_ATTEMPTS)):
            holder = self._open_holder()
            with self._prepared(command) as entry, self._purged_when_left(holder):
                result = yield from self._start(command, entry, holder.entering_text(), wake, streamed)
                if result.timed_out:
                    self._purge(holder)
                if entry.was_reached() or result.timed_out or holder.alive or not left:
                    return _checked(entry, result)
        raise AssertionError("the last attempt has returned or raised")

    def make_ready(self) -> None:
        """See `enclosure.Enclosure.make_ready`."""
        self._open_holder()

    @contextlib.contextmanager
    def _purged_when_left(self, holder: Holder) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._purge(holder)
            raise

    def _open_holder(self) -> Holder:
        if self._holder is not None and not self._holder.alive:
            self._end_holder()
            if self._listened:
                raise TrialError(Cause.SANDBOX, "the sandbox ended while it was in use, and with it its network")
        if self._holder is None:
            self._holder = Holder(self._launch)
        return self._holder

    def _purge(self, holder: Holder) -> None:
        """Kill all that works in the sandbox, in one step that no fork outruns; the sandbox too if that fails."""
        if not holder.alive:
            return
        argv = ["/bin/sh", "-c", "kill -KILL -1"]
        kill = Command(argv, "/", {}, _PURGE_PATIENCE, output_limit=1000, scoped=False, reap=False)
        with contextlib.suppress(OSError, TrialError), prepared(kill) as entry:
            result = self._kept.run(outside(kill, entry.opening() + holder.entering_text()))
            if result.exit_status == 0 and entry.was_reached():
                return
        self._end_holder()

    def abort(self) -> None:
        """See `enclosure.Enclosure.abort`."""
        if self._holder is not None:
            self._holder.kill()
        super().abort()

    def listen(self, address: str = "127.0.0.1", port: int = 0) -> socket.socket:
        """See `enclosure.Enclosure.listen`."""
        if not self._launch.own_network:
            return _host_listener(address, port)
        self._listened = True
        return self._open_holder().listen(address, port)

    def end(self) -> None:
        """See `enclosure.Enclosure.end`. It can be used again afterwards."""
        try:
            self._end_holder()
            self._listened = False
        finally:
            super().end()

    def _end_holder(self) -> None:
        """One whose end was interrupted is kept, so that the next call waits for it."""
        if self._holder is None:
            return
        try:
            self._holder.end()
        except TrialError:
            self._holder = None
            raise
        self._holder = None


def _checked(entry: Entry, result: ProcessResult) -> ProcessResult:
    """A result of the command itself. Raises TrialError(SANDBOX) when it was never reached."""
    if entry.was_reached() or result.timed_out:
        return result
    said = tail(result.stderr_text.strip(), 500) or f"exit status {result.exit_status}"
    raise TrialError(Cause.SANDBOX, f"bubblewrap cannot run a command: {said}")


def _host_listener(address: str, port: int) -> socket.socket:
    try:
        return socket.create_server((address, port))
    except OSError as error:
        raise TrialError(Cause.SANDBOX, f"cannot listen at {address}: {error}") from error
