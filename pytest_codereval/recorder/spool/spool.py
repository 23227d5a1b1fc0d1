"""Where shims leave their records, and how the harness takes them in at the moment they come.

Records lie in `calls`, within reach of the agent for an instant only: a thread copies each into memory as soon as its
line comes through the FIFO `index`, and removes it. `replies` is where shims get their answers. Nothing else in the
directory ever changes, so that its times tell when it was moved aside and put back. What the agent does to it is told
as a fault.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import select
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from ... import clock
from ...errors import Cause
from ..shims.shim import CALLS, INDEX, LOST_MARK, OK, REPLIES, UNANSWERED_MARK
from .desk import AUTHOR, LOST, TAMPERED, Desk
from .identity import identity, state
from .modes import OWN, Modes
from .spooled import MalformedRecord, SpooledCall, parse_record

RECORD_LIMIT = 16 * 1024 * 1024
"""Bytes of one record; the kernel allows no longer command line unless its limits were raised."""

MEMORY_LIMIT = 512 * 1024 * 1024
"""Bytes of all records of a trial that are kept."""

UNFINISHED = "a call was not recorded to its end"
"""What is told of a shim that was killed while it wrote its record."""

_NOT_RECORDED = "a shim could not record a call"
_PARTS = {OK: "mark of the recorder", INDEX: "index of the recorder", CALLS: "folder of the recorder's calls"}
_ANSWERS = "folder of the recorder's answers"
_STRANGE = TAMPERED + "something that no shim wrote lies in the spool"
_NAME = re.compile(rb"[0-9]{1,10}\.[0-9]\Z")
_LATER = re.compile(rb"([0-9]{1,10}\.[0-9])(?:(<)|=([0-9]{1,3})|\?(?:([0-9]{1,4})(?::([0-9]{1,3}))?)?)\Z")
_CHUNK = 65536
_CHUNKS_AT_ONCE = 32
_ROUNDS = 64
_MAX_LISTED = 10_000
_MAX_FAULTS = 20
_GARBAGE_LIMIT = 1000
_FLOOD_PAUSE = 0.01
_OK_TEXT = b"ok\n"
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_WITH_DIR_FD = {os.open, os.stat, os.unlink} <= os.supports_dir_fd


class Spool:
    """The spool of one trial: `open`, then `take` or `discard` what has come, `check` it, `close` at the end.

    Until `close` the FIFO is read, so that no shim ever waits for the harness but for its answer, which `desk` gives.
    """

    def __init__(
        self,
        directory: Path,
        *,
        desk: Desk | None = None,
        fifo: bool = hasattr(os, "mkfifo"),
        modes: Modes = OWN,
        host_path_of: Callable[[str], str] = str,
    ) -> None:
        self._host_path_of = host_path_of
        self._directory = directory
        self._modes = modes
        self._calls = directory / CALLS
        self._fifo = fifo
        self._desk = desk
        self._lock = threading.Lock()
        self._records: list[SpooledCall] = []
        self._live: dict[str, SpooledCall] = {}
        self._faults: list[str] = []
        self._bytes = 0
        self._garbage = 0
        self._partial = b""
        self._taken = False
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._index = -1
        self._wake: tuple[int, ...] = ()
        self._calls_fd: int | None = None
        self._marks: dict[str, tuple[int, ...]] = {}

    def open(self) -> None:
        """Make the directory anew and start to read. Raises OSError."""
        fresh_directory(self._directory, self._modes.directory)
        fresh_directory(self._calls, self._modes.drop)
        if _WITH_DIR_FD:
            self._calls_fd = os.open(self._calls, os.O_RDONLY)
        ok = os.open(self._directory / OK, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(ok, _OK_TEXT)
        os.close(ok)
        (self._directory / OK).chmod(self._modes.ok)
        self._index = self._open_index()
        if self._fifo:
            self._wake = os.pipe()
            os.set_blocking(self._wake[1], False)
        if self._desk is not None:
            self._desk.open(self._lock, self._fault, self._wake_listener)
        self._parts = _PARTS | ({REPLIES: _ANSWERS} if self._desk is not None else {})
        self._marks = {name: self._mark(name) for name in (*self._parts, "")}
        if self._fifo:
            self._thread = threading.Thread(target=self._listen, name="codereval-recorder", daemon=True)
            self._thread.start()

    def take(self) -> tuple[SpooledCall, ...]:
        """Return all calls so far by their time; those of one instant in the order in which they came.

        To be called when the processes that make calls are dead: a record that is not complete now is a fault.
        """
        return self._take(last=True)

    def so_far(self) -> tuple[SpooledCall, ...]:
        """As `take`, but what comes later is taken in too."""
        return self._take(last=False)

    def seen(self) -> tuple[SpooledCall, ...]:
        """The calls that were told so far, by their time. Waits for nobody and finds no fault with what goes on."""
        with self._lock:
            for _ in range(_ROUNDS):
                if not self._read_all():
                    break
            return tuple(sorted(self._records, key=lambda call: call.time))

    def _take(self, *, last: bool) -> tuple[SpooledCall, ...]:
        with self._lock:
            self._complete()
            self._taken = last
        if self._desk is not None:
            self._desk.settle()
        return tuple(sorted(self._records, key=lambda call: call.time))

    def discard(self) -> tuple[SpooledCall, ...]:
        """Forget every call that was made until now, and what went wrong with it; return the forgotten ones."""
        with self._lock:
            self._complete()
            forgotten = tuple(self._records)
            self._records.clear()
        if self._desk is not None:
            self._desk.settle()
            self._desk.reset()
        with self._lock:
            self._faults.clear()
            self._bytes = self._garbage = 0
            self._renew_times()
        return forgotten

    def check(self) -> tuple[str, ...]:
        """Return what is wrong with the evidence, worst first; empty when every call is known to have been seen."""
        with self._lock:
            authors = self._desk.faults if self._desk is not None else ()
            faults = dict.fromkeys((*self._structural_faults(), *self._faults, *authors))
            if any(fault.startswith(f"{LOST}{_NOT_RECORDED} of ") for fault in faults):
                faults.pop(LOST + _NOT_RECORDED, None)
            return tuple(sorted(faults, key=lambda text: (text.startswith(AUTHOR), text.startswith(LOST))))

    def close(self) -> None:
        """Stop reading. May be called twice."""
        self._closing.set()
        if self._thread is not None:
            self._wake_listener()
            self._thread.join()
            self._thread = None
        if self._desk is not None:
            self._desk.close()
        for handle in (self._index, self._calls_fd, *self._wake):
            if handle is not None and handle >= 0:
                os.close(handle)
        self._index, self._calls_fd, self._wake = -1, None, ()

    # -- the index

    def _open_index(self) -> int:
        flags = os.O_RDWR | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        path = self._directory / INDEX
        if self._fifo:
            os.mkfifo(path, 0o600)
            handle = os.open(path, flags)
            os.fchmod(handle, self._modes.index)
            return handle
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                self._listen_once()
            except Exception as error:
                with self._lock:
                    self._fault(f"{LOST}the recorder failed: {type(error).__name__}: {error}")
                self._closing.wait(_FLOOD_PAUSE)
            if self._garbage > _GARBAGE_LIMIT:
                self._closing.wait(_FLOOD_PAUSE)

    def _listen_once(self) -> None:
        poll = select.poll()
        with self._lock:
            poll.register(self._index, select.POLLIN)
            poll.register(self._wake[0], select.POLLIN)
            places = self._desk.places if self._desk is not None else None
            for handle in places.waiting() if places is not None else ():
                poll.register(handle, 0)
            seconds = self._desk.seconds_to_next() if self._desk is not None else None
        events = poll.poll(None if seconds is None else seconds * 1000)
        with self._lock:
            for handle, _ in events:
                if handle == self._wake[0]:
                    os.read(handle, _CHUNK)
                elif handle != self._index and self._desk is not None:
                    self._desk.free(handle)
            self._read_all()
            if self._desk is not None:
                self._desk.send_late()

    def _wake_listener(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake[1], b"w")

    def _read_all(self) -> bool:
        """Take in what has come, a bounded piece of it. Return whether there may be more."""
        for _ in range(_CHUNKS_AT_ONCE):
            try:
                chunk = os.read(self._index, _CHUNK)
            except BlockingIOError:
                return False
            if not chunk:
                return False
            self._take_lines(chunk)
        return True

    def _complete(self) -> None:
        if all(self._read_all() for _ in range(_ROUNDS)):
            self._fault(TAMPERED + "something writes to the recorder's index without end")
        if self._partial:
            self._partial = b""
            self._fault(TAMPERED + "the recorder's index ends in the middle of a line")
        self._records += self._unindexed()
        if self._desk is not None:
            self._desk.grow_old()
            self._wake_listener()

    def _take_lines(self, chunk: bytes) -> None:
        if self._closing.is_set():
            return
        if self._garbage > _GARBAGE_LIMIT:
            self._partial = b""
            return
        *lines, rest = (self._partial + chunk).split(b"\n")
        self._partial = rest if len(rest) <= 64 else self._malformed(rest)
        for line in lines:
            if _NAME.match(line):
                self._take_record(line.decode("ascii"))
            elif (later := _LATER.match(line)) is not None:
                self._take_later(line, later)
            elif line.startswith(UNANSWERED_MARK.encode()):
                self._fault(f"{LOST}a call of {os.fsdecode(line[2:66])} got no answer")
            elif line.startswith(LOST_MARK.encode()):
                self._fault(f"{LOST}{_NOT_RECORDED} of {os.fsdecode(line[1:65])}")
            else:
                self._malformed(line)

    def _malformed(self, line: bytes) -> bytes:
        self._garbage += 1
        self._fault(TAMPERED + "the recorder's index holds lines that no shim wrote")
        if self._garbage > _GARBAGE_LIMIT:
            self._fault(TAMPERED + "the recorder's index was flooded")
        return b""

    # -- the records

    def _take_record(self, name: str) -> None:
        self._live.pop(name, None)
        try:
            call = self._keep(self._read_record(name), self._records)
        except FileNotFoundError:
            self._fault(TAMPERED + "a recorded call was announced, but its record was not there")
        except MalformedRecord:
            self._fault(TAMPERED + "a recorded call was announced, but its record was not complete")
        except OSError as error:
            self._fault(f"{TAMPERED}the record of a call could not be read: {error.strerror}")
        else:
            self._live[name] = call

    def _take_later(self, line: bytes, later: re.Match[bytes]) -> None:
        """What a shim tells of a call after its record: what it read, that it waits, its end."""
        name = later[1].decode("ascii")
        status, place, real_status = (int(group) if group else None for group in later.groups()[2:])
        asks = later[2] is None and status is None
        if asks and self._is_new(name):
            self._take_record(name)
        call = self._live.get(name)
        if call is None or (status or 0) > 255:
            self._malformed(line)
        elif later[2]:
            self._take_stdin(call, name)
        elif status is not None:
            self._end(self._live.pop(name), name, status)
        if asks and self._desk is not None:
            if place is not None:
                self._desk.wait(call, name, place, real_status)
            elif call is not None and self._desk.places is not None:
                self._desk.places.give_room()

    def _is_new(self, name: str) -> bool:
        """Whether a record of this name was not taken in yet."""
        try:
            os.stat(self._at(name), dir_fd=self._calls_fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _take_stdin(self, call: SpooledCall, name: str) -> None:
        if self._desk is None:
            return
        self._count(self._desk.take_stdin(call, name))
        if self._bytes > MEMORY_LIMIT:
            call.stdin = b""

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MEMORY_LIMIT:
            self._fault(f"{LOST}more than {MEMORY_LIMIT >> 20} MiB of calls were made; the later ones are not kept")

    def _end(self, call: SpooledCall, name: str, status: int) -> None:
        call.ended = clock.now()
        call.exit_status = status
        if self._desk is not None:
            self._desk.end(call, name)

    def _read_record(self, name: str) -> tuple[bytes, float]:
        """Return the bytes of a record and the time of its call; the record is gone then."""
        handle = os.open(self._at(name), _READ, dir_fd=self._calls_fd)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size > RECORD_LIMIT:
                raise MalformedRecord
            data = os.read(handle, status.st_size + 1)
        finally:
            os.close(handle)
            self._unlink(name)
        return data, min(status.st_mtime, clock.now())

    def _keep(self, read: tuple[bytes, float], records: list[SpooledCall]) -> SpooledCall:
        data, time = read
        record = parse_record(data, time)
        record = dataclasses.replace(record, cwd=self._host_path_of(record.cwd))
        if self._taken:
            return record
        self._count(len(data))
        if self._bytes <= MEMORY_LIMIT:
            records.append(record)
        return record

    def _unindexed(self) -> list[SpooledCall]:
        """The complete records whose line never came because their shim was killed in between, by time."""
        records: list[SpooledCall] = []
        for name in self._names():
            try:
                self._keep(self._read_record(name), records)
            except MalformedRecord:
                ours = _NAME.match(os.fsencode(name)) is not None
                self._fault(LOST + UNFINISHED if ours else _STRANGE)
            except OSError:
                self._fault(_STRANGE)
        return sorted(records, key=lambda record: record.time)

    def _names(self) -> Iterator[str]:
        try:
            with os.scandir(self._calls if self._calls_fd is None else self._calls_fd) as entries:
                names = [entry.name for entry, _ in zip(entries, range(_MAX_LISTED + 1), strict=False)]
        except OSError:
            return
        if len(names) > _MAX_LISTED:
            self._fault(TAMPERED + "the spool was flooded with files")
        yield from names

    def _unlink(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._at(name), dir_fd=self._calls_fd)

    # -- what the agent may have done

    def _structural_faults(self) -> Iterator[str]:
        whole = self._fault_of("", "recorder's spool")
        parts = [fault for name, what in self._parts.items() if (fault := self._fault_of(name, what))]
        places = self._desk.places if self._desk is not None else None
        if places is not None and not places.is_whole() and not self._fault_of(REPLIES, _ANSWERS):
            parts.append(TAMPERED + "the places where shims wait for answers were changed, replaced or removed")
        if whole and (not parts or not self._is_same_directory()):
            yield whole
        else:
            yield from parts

    def _is_same_directory(self) -> bool:
        try:
            return identity(self._directory) == self._marks[""][:3]
        except OSError:
            return False

    def _fault_of(self, name: str, what: str) -> str:
        try:
            same = self._mark(name) == self._marks[name]
        except OSError:
            return f"{TAMPERED}the {what} is gone"
        if same:
            return ""
        if name == OK and self._emptied():
            return LOST + _NOT_RECORDED
        return f"{TAMPERED}the {what} was moved, replaced or changed"

    def _mark(self, name: str) -> tuple[int, ...]:
        """What stays the same unless somebody interferes; calls alone change the times of the index and of folders."""
        path = self._directory / name
        return identity(path) if name in (INDEX, CALLS, REPLIES) else state(path)

    def _renew_times(self) -> None:
        """Let go what was done, before the agent came, to the spool and the mark if they are still the same."""
        for name, compared in ((OK, 4), ("", 3)):
            with contextlib.suppress(OSError):
                now = state(self._directory / name)
                if now[:compared] == self._marks[name][:compared]:
                    self._marks[name] = now

    def _emptied(self) -> bool:
        status = os.lstat(self._directory / OK)
        return identity(self._directory / OK) == self._marks[OK][:3] and status.st_size == 0

    def _fault(self, text: str) -> None:
        if text not in self._faults and len(self._faults) < _MAX_FAULTS:
            self._faults.append(text)

    def _at(self, name: str) -> str:
        return name if self._calls_fd is not None else os.fspath(self._calls / name)


def fresh_directory(path: Path, mode: int = 0o700) -> None:
    """Make `path` an empty directory of this mode; what was there is removed, no link is followed.

    A directory stays the same directory.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        path.mkdir(parents=True, mode=0o700)
        path.chmod(mode)
        return
    if not stat.S_ISDIR(status.st_mode):
        path.unlink()
        path.mkdir(mode=0o700)
        path.chmod(mode)
        return
    path.chmod(mode)
    for entry in path.iterdir():
        if stat.S_ISDIR(entry.lstat().st_mode):
            shutil.rmtree(entry)
        else:
            entry.unlink()


def describe(faults: tuple[str, ...]) -> str:
    """The faults in one line, to be read behind the headline of their cause, which it does not repeat."""
    prefix = {Cause.TAMPERED: TAMPERED, Cause.EVIDENCE_LOST: LOST}.get(cause_of(faults), AUTHOR)
    return "; ".join(fault.removeprefix(prefix) for fault in faults)


def cause_of(faults: tuple[str, ...]) -> Cause:
    """The cause with which a trial with these faults ends in error. What its author did wrong counts least."""
    if any(fault.startswith(TAMPERED) for fault in faults):
        return Cause.TAMPERED
    return Cause.ANSWERS_FAILED if all(fault.startswith(AUTHOR) for fault in faults) else Cause.EVIDENCE_LOST
