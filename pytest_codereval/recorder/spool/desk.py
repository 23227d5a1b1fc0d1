"""Answers for the shims that ask: one thread has them made, in the order in which the calls came, and hands them over.

An answer is a file of shell text in `replies` with a name that nobody can guess. Its name is the one line that goes to
the place where the shim waits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import heapq
import itertools
import os
import queue
import secrets
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from ... import clock
from ..answering import Answer, Answerer, CapturedRun, Later, Printed, ReadStdin, Request, RunReal, call_text
from ..shims import reply_text
from ..shims.shim import REPLIES
from .modes import OWN, Modes
from .places import Place, Places, Replaced
from .spooled import SpooledCall

TAMPERED = "tampered: "
LOST = "evidence lost: "
AUTHOR = "rules: "
"""How faults begin: what the agent did, what went wrong by itself, what the author of rules and handlers did wrong."""

PATIENCE = 5.0
"""Seconds for which an answer in the making is waited for when its caller is dead."""

OUTPUT_LIMIT = 64 * 1024 * 1024
"""Bytes that are kept of standard input, and of each output stream of a real program."""

_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_FAILURE = 1


@dataclasses.dataclass(frozen=True)
class _Job:
    """A call that waits at a place. Jobs of an earlier `age` are those of callers who are dead.

    `finish` settles an answer that was decided before its delay.
    """

    call: SpooledCall
    place: Place
    use: int
    age: int
    finish: Callable[[], Printed] | None = None

    @property
    def waits(self) -> bool:
        """Whether its shim is still there."""
        return self.place.taken and self.place.use == self.use


class Desk:
    """The answers of one trial. Under the spool's lock: `wait`, `take_stdin`, `free`, `send_late`, `end`, `grow_old`.

    Without it: `open`, `settle`, `reset`, `close`. `fault` is told what goes wrong. `probe` are the arguments of the
    call that proves that shims are heard: until the first `reset` it is answered here, by no answerer.
    """

    def __init__(
        self,
        directory: Path,
        answerer: Answerer | None,
        runner: Callable[[str], reply_text.Runner],
        probe: tuple[str, ...],
        modes: Modes = OWN,
    ) -> None:
        self._directory = directory / REPLIES
        self._answerer = answerer
        self._runner = runner
        self._modes = modes
        self._probe: tuple[str, ...] | None = probe
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._making = threading.Lock()
        self._age = 0
        self._late: list[tuple[float, int, _Job, bytes]] = []
        self._call: SpooledCall | None = None
        self._job: _Job | None = None
        self._count = itertools.count()
        self._texts: dict[SpooledCall, str] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._folder = -1
        self._closed = False
        self._stuck = False
        self.places: Places | None = None

    def open(self, lock: threading.Lock, fault: Callable[[str], None], wake: Callable[[], None]) -> None:
        """Make the directory and the places, and begin to answer. `wake` ends a wait that is too long now."""
        self._lock, self._fault, self._wake = lock, fault, wake
        self._directory.mkdir(mode=0o700)
        self._directory.chmod(self._modes.drop)
        self._folder = os.open(self._directory, os.O_RDONLY)
        if self._answerer is not None:
            self.places = Places(self._folder, self._modes.answer)
            self._thread = threading.Thread(target=self._work, name="codereval-answers", daemon=True)
            self._thread.start()

    # -- what shims ask for

    def wait(self, call: SpooledCall | None, name: str, number: int, status: int | None) -> None:
        """A shim waits at a place, with the status of the real program if it has run that. No call: no answer."""
        if self.places is None:
            return
        if call is not None and status is not None:
            out, err = (self._take_file(f"{name}.{end}", "what a real program printed") for end in ("out", "err"))
            call.run = CapturedRun(out, err, status)
        try:
            place = self.places.take(number)
        except Replaced:
            self._fault(TAMPERED + "a shim waits where no answer can reach it")
        except OSError as error:
            self._fault(f"{LOST}a call could not be answered: {error.strerror}")
        else:
            if call is None:
                self.places.tell(place, b"\n")
            elif call.waits:
                self._fault(f"{TAMPERED}a call of {call.tool} asked for a second answer")
                self.places.tell(place, b"\n")
            else:
                call.waits = True
                self._jobs.put(_Job(call, place, place.use, self._age))

    def take_stdin(self, call: SpooledCall, name: str) -> int:
        """Take in what a shim has read; return how many bytes."""
        call.stdin = self._take_file(f"{name}.in", "standard input")
        return len(call.stdin)

    def end(self, call: SpooledCall, name: str) -> None:
        """Remove what the call left: the text that was its answer, and the signal that it got."""
        self._forget(call)
        self._unlink(f"{name}.signal")

    def _forget(self, call: SpooledCall) -> None:
        text = self._texts.pop(call, None)
        if text is not None:
            self._unlink(text)

    def _take_file(self, name: str, what: str) -> bytes:
        try:
            handle = os.open(name, _READ, dir_fd=self._folder)
        except OSError as error:
            self._fault(f"{TAMPERED}{what} of a call could not be read: {error.strerror}")
            return b""
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                self._fault(f"{TAMPERED}{what} of a call lies in no file")
                return b""
            if status.st_size >= OUTPUT_LIMIT:
                self._fault(f"{LOST}{what} of a call is longer than {OUTPUT_LIMIT >> 20} MiB")
            return _read(handle, min(status.st_size, OUTPUT_LIMIT))
        finally:
            os.close(handle)
            self._unlink(name)

    def free(self, handle: int) -> None:
        """The shim that waited at the place of this handle has read its line, or is gone."""
        if self.places is None:
            return
        self.places.free(handle)
        if self._job is not None and not self._job.waits and self._answerer is not None:
            self._answerer.caller_left()

    # -- the thread that answers

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._making:
                if job.age == self._age:
                    self._job = job
                    self._serve(job)

    def _serve(self, job: _Job) -> None:
        """Answer a call; whatever goes wrong here, its shim is not left waiting, and the next call is answered."""
        try:
            if (answer := self._answer(job)) is not None:
                self._hand_over(job, answer)
        except BaseException as error:
            what = f"the answer to a call of {job.call.tool} could not be made: {type(error).__name__}: {error}"
            with self._lock:
                self._fault(LOST + what)
                if not self._closed and self.places is not None and job.waits:
                    self.places.tell(job.place, b"\n")

    def _answer(self, job: _Job) -> Answer | None:
        """The answer of a call; None when nobody waits for the rest of it any more."""
        assert self._answerer is not None
        self._call = call = job.call
        if call.argv == self._probe:
            return Printed("constant")
        waits = functools.partial(self._waits, job)
        request = Request(call.tool, call.argv, call.cwd, call.environment, call.stdin, call.run, waits)
        try:
            if job.finish is not None:
                return job.finish() if self._waits(job) else None
            answer = self._answerer.answer(request)
        except Exception as error:
            return self._failure(call, f"{type(error).__name__}: {error}")
        if isinstance(answer, ReadStdin) and call.stdin is not None:
            return self._failure(call, "standard input was asked for twice")
        if isinstance(answer, RunReal) and answer.capture and call.run is not None:
            return self._failure(call, "the real program was asked for twice")
        return answer

    def _waits(self, job: _Job) -> bool:
        with self._lock:
            return job.waits

    def _failure(self, call: SpooledCall, reason: str) -> Printed:
        with self._lock:
            self._fault(f"{AUTHOR}{call.tool}: {reason}")
        return Printed("handler", stderr=f"{call.tool}: internal error\n".encode(), exit_status=_FAILURE)

    def _hand_over(self, job: _Job, answer: Answer) -> None:
        text = self._text(job.call.tool, answer)
        if isinstance(answer, Later):
            job = dataclasses.replace(job, finish=answer.finish)
        with self._lock:
            if self._closed or self.places is None:
                return
            delay = _note(job.call, answer)
            if delay > 0 or isinstance(answer, Later):
                heapq.heappush(self._late, (clock.monotonic() + delay, next(self._count), job, text))
                self._wake()
            else:
                self._send(job, text)

    def _send(self, job: _Job, text: bytes) -> None:
        if self.places is not None and job.waits:
            self.places.tell(job.place, f"{self._write(job.call, text)}\n".encode())

    def _text(self, tool: str, answer: Answer) -> bytes:
        if isinstance(answer, Later):
            return b""
        if isinstance(answer, Printed):
            text = reply_text.printed(answer.stdout, answer.stderr, answer.exit_status & 255)
        elif isinstance(answer, ReadStdin):
            text = reply_text.RUN + reply_text.keep_stdin()
        else:
            run = reply_text.run_captured if answer.capture else reply_text.run_real
            text = reply_text.RUN + run(self._runner(tool))
        return text.encode("utf-8", "surrogateescape")

    def _write(self, call: SpooledCall, text: bytes) -> str:
        """Return the name of the text's file, or an empty one: then the shim says that it got no answer."""
        self._forget(call)
        name = secrets.token_hex(16)
        try:
            handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600, dir_fd=self._folder)
            with open(handle, "wb") as file:
                os.fchmod(handle, self._modes.answer)
                file.write(text)
        except OSError as error:
            self._fault(f"{LOST}the answer to a call of {call.tool} could not be handed over: {error.strerror}")
            self._unlink(name)
            return ""
        self._texts[call] = name
        return name

    # -- time

    def seconds_to_next(self) -> float | None:
        """How long until an answer that is to come late is due."""
        return max(0.0, self._late[0][0] - clock.monotonic()) if self._late else None

    def send_late(self) -> None:
        """Send the answers that are due now, or have the rest of them made."""
        while self._late and self._late[0][0] <= clock.monotonic():
            _, _, job, text = heapq.heappop(self._late)
            if text:
                self._send(job, text)
            else:
                self._jobs.put(job)

    # -- the ends

    def grow_old(self) -> None:
        """All callers until now are dead: their calls need no answer any more."""
        self._age += 1
        self._late.clear()
        for name in self._texts.values():
            self._unlink(name)
        self._texts.clear()

    def settle(self) -> None:
        """Wait until no answer is in the making, for a while."""
        if not self._idle():
            assert self._answerer is not None
            assert self._call is not None
            who, call = self._answerer.at_work or "the answer", call_text(self._call.tool, self._call.argv)
            what = f"{who} had not returned {PATIENCE:g} s after the end; the call was: {call}"
            with self._lock:
                self._fault(f"{AUTHOR}{self._call.tool}: {what}")

    def _idle(self) -> bool:
        self._stuck = self._stuck or not self._making.acquire(timeout=PATIENCE)
        if not self._stuck:
            self._making.release()
        return not self._stuck

    def reset(self) -> None:
        """Have the answerer begin anew. From now on it is asked whatever the call."""
        self._probe = None
        if self._answerer is not None and not self._stuck:
            with self._making:
                self._answerer.reset()

    @property
    def faults(self) -> Sequence[str]:
        """What the author did wrong, as it showed in answers."""
        return [AUTHOR + fault for fault in self._answerer.faults] if self._answerer is not None else []

    def close(self) -> None:
        """Stop answering. May be called twice, and before `open`."""
        with self._lock:
            if self._closed or self._folder < 0:
                return
            self._closed = True
            self._age += 1
        self._jobs.put(None)
        if self._thread is not None and self._idle():
            self._thread.join()
        with self._lock:
            if self.places is not None:
                self.places.close()
            os.close(self._folder)

    def _unlink(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._folder)


def _note(call: SpooledCall, answer: Answer) -> float:
    """Keep what the answer tells about the call; return its delay."""
    call.waits = not (isinstance(answer, ReadStdin) or (isinstance(answer, RunReal) and answer.capture))
    if isinstance(answer, ReadStdin):
        return 0.0
    call.run = None
    call.answered_by = answer.answered_by
    call.unmatched = answer.unmatched
    call.expected_status = answer.exit_status & 255 if isinstance(answer, Printed) else None
    return answer.delay


def _read(handle: int, size: int) -> bytes:
    pieces = []
    while size > 0 and (piece := os.read(handle, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
