"""Runs a command through a keeper: bounded output, a deadline, no waiting for background processes."""

from __future__ import annotations

import array
import fcntl
import os
import select
import termios
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import clock
from ..errors import Cause, TrialError
from .protocol import ProcessResult
from .supervision import Keeper

TIMED_OUT_STATUS = 137
_CHUNK = 1 << 16


class _Stream:
    """The read end of a pipe, of whose bytes at most `limit` are kept."""

    def __init__(self, limit: int) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._limit = limit
        self._kept = bytearray()
        self.truncated = False

    def read(self, at_most: int = _CHUNK) -> int:
        """Take what is there; the number of bytes, 0 at the end of the stream or when there is none."""
        try:
            data = os.read(self.reader, min(at_most, _CHUNK))
        except BlockingIOError:
            return 0
        room = self._limit - len(self._kept)
        if len(data) > room:
            self.truncated = True
        if room > 0:
            self._kept += data[:room]
        return len(data)

    def drain(self) -> None:
        """Take what is in the pipe now and no more, so that a writer that lives on delays nothing."""
        count = array.array("i", [0])
        fcntl.ioctl(self.reader, termios.FIONREAD, count)
        left = count[0]
        while left > 0 and (taken := self.read(left)):
            left -= taken

    def has_writer(self) -> bool:
        """Whether a process could still write."""
        poller = select.poll()
        poller.register(self.reader, 0)
        return not poller.poll(0)

    def content(self) -> bytes:
        return bytes(self._kept)

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self.close_writer()
        os.close(self.reader)


class SurvivorsError(Exception):
    """Processes that SIGKILL did not end."""

    def __init__(self, pids: Sequence[int]) -> None:
        super().__init__(", ".join(map(str, pids)))
        self.pids = tuple(pids)


def run(
    keeper: Keeper,
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout: float,
    output_limit: int,
    scoped: bool,
    reap: bool,
) -> ProcessResult:
    """Run a command and wait for its own end, at most `timeout` seconds; then all that the keeper keeps is killed.

    After its end only what is in the pipes already is kept; background processes can go on writing. Raises
    KeeperLost, SurvivorsError, and TrialError(SANDBOX) when no process can be started.
    """
    begin = clock.monotonic()
    streams = (_Stream(output_limit), _Stream(output_limit))
    try:
        number = keeper.start(argv, cwd, env, (streams[0].writer, streams[1].writer), scoped=scoped, reap=reap)
        for stream in streams:
            stream.close_writer()
        with keeper.guarded():
            answer = _wait(keeper, number, streams, begin + timeout)
            if answer is None:
                survivors = keeper.reap()
            elif "failure" in answer:
                raise TrialError(Cause.SANDBOX, answer["failure"])
            else:
                survivors = answer["survivors"]
            for stream in streams:
                stream.drain()
            still_used = [stream.reader for stream in streams if stream.has_writer()]
            if still_used:
                keeper.drain(still_used)
        if survivors:
            raise SurvivorsError(survivors)
        return ProcessResult(
            exit_status=TIMED_OUT_STATUS if answer is None else answer["status"],
            stdout=streams[0].content(),
            stderr=streams[1].content(),
            truncated=streams[0].truncated or streams[1].truncated,
            timed_out=answer is None,
            duration=clock.monotonic() - begin,
        )
    finally:
        for stream in streams:
            stream.close()


def _wait(keeper: Keeper, number: int, streams: tuple[_Stream, _Stream], deadline: float) -> dict[str, Any] | None:
    """Read output until the keeper reports the end of the run; None at the deadline."""
    poller = select.poll()
    readers: dict[int, Callable[[], int]] = {stream.reader: stream.read for stream in streams}
    for descriptor in (keeper.fileno(), *readers):
        poller.register(descriptor, select.POLLIN)
    while True:
        left = deadline - clock.monotonic()
        if left <= 0:
            return None
        for descriptor, _ in poller.poll(min(left * 1000 + 1, 1 << 30)):
            if descriptor in readers:
                if not readers[descriptor]():
                    poller.unregister(descriptor)
                    del readers[descriptor]
                continue
            if (message := _end_of(keeper, number)) is not None:
                return message


def _end_of(keeper: Keeper, number: int) -> dict[str, Any] | None:
    """Read what the keeper says; the report about this run if it was there."""
    while True:
        message = keeper.answer()
        if message.get("run") == number:
            return message
        if not keeper.pending():
            return None
