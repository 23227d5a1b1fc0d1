"""Runs a command through a keeper: a deadline, output bounded or as it comes, no waiting for background processes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import socket
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import IO, Any

from .. import clock
from ..errors import Cause, TrialError
from .kept import Kept
from .protocol import ProcessResult
from .supervision import Command, Keeper

TIMED_OUT_STATUS = 137


class _Stream(Kept):
    """The read end of a pipe, of whose bytes at most `limit` are kept; all without one.

    `private` makes it a pair of sockets, which no other process can open by a path in /proc.
    """

    def __init__(self, limit: int | None, private: bool = False) -> None:
        reader, self.writer = _sockets() if private else os.pipe()
        os.set_blocking(reader, False)
        super().__init__(reader, limit)

    def close_writer(self) -> None:
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self.close_writer()
        super().close()


def _sockets() -> tuple[int, int]:
    reader, writer = socket.socketpair()
    return reader.detach(), writer.detach()


class SurvivorsError(Exception):
    """Processes that SIGKILL did not end."""

    def __init__(self, pids: Sequence[int]) -> None:
        super().__init__(", ".join(map(str, pids)))
        self.pids = tuple(pids)


def run(keeper: Keeper, command: Command) -> ProcessResult:
    """Run a command and wait for its own end, at most `timeout` seconds; then all that the keeper keeps is killed.

    After its end only what is in the pipes already is kept; background processes can go on writing. Raises
    KeeperLost, SurvivorsError, and TrialError(SANDBOX) when no process can be started.
    """
    running = _run(keeper, command, _Stream(command.output_limit), None)
    while True:
        try:
            next(running)
        except StopIteration as end:
            result: ProcessResult = end.value
            return result


def stream(keeper: Keeper, command: Command, wake: int | None = None) -> Generator[bytes, None, ProcessResult]:
    """As `run`, but yield the output in pieces as it comes, and an empty piece whenever `wake` is readable."""
    output = _Stream(None, command.private_output)
    running = _run(keeper, command, output, wake)
    try:
        while True:
            try:
                woken = next(running)
            except StopIteration as end:
                if rest := output.take():
                    yield rest
                result: ProcessResult = end.value
                return dataclasses.replace(result, stdout=b"")
            piece = output.take()
            if piece or woken:
                yield piece
    finally:
        running.close()


def _run(keeper: Keeper, command: Command, output: _Stream, wake: int | None) -> Generator[bool, None, ProcessResult]:
    """Yield whenever something came, True when it was `wake`. Closing it kills all that the keeper keeps."""
    begin = clock.monotonic()
    streams = (output, _Stream(command.output_limit))
    try:
        with _standard_input(command.stdin) as stdin:
            number = keeper.start(command, (stdin, streams[0].writer, streams[1].writer))
        for each in streams:
            each.close_writer()
        with keeper.guarded():
            try:
                answer = yield from _wait(keeper, number, streams, begin + command.timeout, wake)
            except GeneratorExit:
                if survivors := keeper.reap():
                    raise SurvivorsError(survivors) from None
                raise
            if answer is None:
                survivors = keeper.reap()
            elif "failure" in answer:
                raise TrialError(Cause.SANDBOX, answer["failure"])
            else:
                survivors = answer["survivors"]
            for each in streams:
                each.drain()
            still_used = [each.reader for each in streams if each.has_writer()]
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
        for each in streams:
            each.close()


@contextlib.contextmanager
def _standard_input(content: bytes) -> Iterator[int]:
    if not content:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
        return
    with _unnamed_file() as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


def _unnamed_file() -> IO[bytes]:
    """A file that lies in no directory, where the system has such: it can be opened again by /dev/stdin."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("stdin"), "w+b")
    return tempfile.TemporaryFile()


def _wait(
    keeper: Keeper, number: int, streams: tuple[_Stream, _Stream], deadline: float, wake: int | None
) -> Generator[bool, None, dict[str, Any] | None]:
    """Read output until the keeper reports the end of the run; None at the deadline."""
    poller = select.poll()
    readers: dict[int, Callable[[], int]] = {each.reader: each.read for each in streams}
    for descriptor in (keeper.fileno(), *readers, *([wake] if wake is not None else [])):
        poller.register(descriptor, select.POLLIN)
    while True:
        left = deadline - clock.monotonic()
        if left <= 0:
            return None
        ready = [descriptor for descriptor, _ in poller.poll(min(left * 1000 + 1, 1 << 30))]
        for descriptor in ready:
            if descriptor in readers:
                if not readers[descriptor]():
                    poller.unregister(descriptor)
                    del readers[descriptor]
            elif descriptor != wake and (message := _end_of(keeper, number)) is not None:
                return message
        yield wake in ready


def _end_of(keeper: Keeper, number: int) -> dict[str, Any] | None:
    """Read what the keeper says; the report about this run if it was there."""
    while True:
        message = keeper.answer()
        if message.get("run") == number:
            return message
        if not keeper.pending():
            return None
