"""Cassettes: what real programs answered once, kept as JSON Lines to be answered again offline."""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import fcntl
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import Cause, TrialError
from ...task.nearest import hint
from ..argv import split_argv
from ..options import OptionTable

LOCK_SECONDS = 30.0
"""Seconds to wait for another process that saves the same cassette."""

_NEEDED = ("tool", "argv", "exit", "stdout", "stderr", "trial")
_KEYS = (*_NEEDED, "stdin")
_MOST_UNDECLARED = 50

CallKey = tuple[Any, ...]
"""A call in canonical form, to be compared."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One answer of a real program, and the trial in which it gave it. `stdin` is None where it was not read."""

    tool: str
    argv: tuple[str, ...]
    exit_status: int
    stdout: bytes
    stderr: bytes
    trial: str
    stdin: bytes | None = None


def canonical(argv: Sequence[str], options: OptionTable) -> CallKey:
    """What two calls that mean the same have in common: the arguments that are no flags, in order, and the flags with
    their values, in any order. Values of one flag keep theirs.

    Only what `options` declare is sure to have a value or none. Where an undeclared flag is followed by an argument, it
    is not known whose that is, and the call is compared as it stands.
    """
    positional, flags = split_argv(argv, (), (), (), options)
    if _is_uncertain(argv, flags.keys() - {option.names[0] for option in options}, options):
        return ("as it stands", *argv)
    return ("canonical", tuple(positional), tuple(sorted((name, *values) for name, values in flags.items())))


def _is_uncertain(argv: Sequence[str], undeclared: Collection[str], options: OptionTable) -> bool:
    """Whether an argument could be the value of an undeclared flag. Each argument is told apart by its number."""
    if len(undeclared) > _MOST_UNDECLARED:
        return True
    numbered = [token if token.startswith("-") else str(number) for number, token in enumerate(argv)]
    positional = Counter(split_argv(numbered, (), (), (), options)[0])
    return any(positional - Counter(split_argv(numbered, (name,), (), (), options)[0]) for name in undeclared)


class Replay:
    """Answers the calls of one tool from a cassette: the entries of this trial, for calls that it lacks those of the
    first trial that has them. The same call gives its entries in order, the last one again and again. Calls with
    different standard input are different where it is known of both.
    """

    def __init__(self, entries: Iterable[Entry], tool: str, trial: str, options: OptionTable) -> None:
        self._options = options
        self._entries: dict[CallKey, list[Entry]] = {}
        self._given: Counter[tuple[CallKey, bytes | None]] = Counter()
        for entry in sorted(entries, key=lambda entry: entry.trial != trial):
            if entry.tool == tool:
                self._entries.setdefault(canonical(entry.argv, options), []).append(entry)

    def answer(self, argv: Sequence[str], stdin: bytes | None = None) -> Entry | None:
        """The next recorded answer to a call, or None when there is none. `stdin` is None when it was not read."""
        key = canonical(argv, self._options)
        fitting = [entry for entry in self._entries.get(key, ()) if stdin is None or entry.stdin in (None, stdin)]
        if not fitting:
            return None
        of_one_trial = [entry for entry in fitting if entry.trial == fitting[0].trial]
        number = self._given[key, stdin]
        self._given[key, stdin] += 1
        return of_one_trial[min(number, len(of_one_trial) - 1)]

    def reset(self) -> None:
        """Begin anew with the first entry of each call."""
        self._given.clear()


def load(path: Path) -> tuple[Entry, ...]:
    """Read a cassette. Raises TrialError(CONFIGURATION) with the place of every line that is none."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise TrialError(Cause.CONFIGURATION, f"{path}: {error.strerror or error}") from error
    entries, problems = [], []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                entries.append(_parse(line))
            except ValueError as error:
                problems.append(f"{path}:{number}: {error}")
    if problems:
        more = [f"and {len(problems) - 10} more"] if len(problems) > 10 else []
        raise TrialError(Cause.CONFIGURATION, "\n".join([*problems[:10], *more]))
    return tuple(entries)


def save(path: Path, trial: str, entries: Iterable[Entry], replaced_tools: Collection[str]) -> None:
    """Add entries to a cassette in place of this trial's earlier ones of `replaced_tools`; all others stay as they are.

    Several processes may save at once. Raises TrialError(CONFIGURATION) when the file cannot be written.
    """
    place = Path(os.path.realpath(path))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _locked(place):
            kept = [line for line in _lines(place) if not _is_of(line, trial, replaced_tools)]
            _replace(place, b"".join([*(line + b"\n" for line in kept), *map(_line, entries)]))
    except OSError as error:
        raise TrialError(Cause.CONFIGURATION, f"record_to: {path}: {error.strerror or error}") from error


def _lines(path: Path) -> list[bytes]:
    try:
        return [line for line in path.read_bytes().split(b"\n") if line.strip()]
    except FileNotFoundError:
        return []


def _is_of(line: bytes, trial: str, tools: Collection[str]) -> bool:
    try:
        entry = _parse(line)
    except ValueError:
        return False
    return entry.trial == trial and entry.tool in tools


def _replace(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's umask, read without changing it where the system shows it."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        return int(next(line for line in status.splitlines() if line.startswith("Umask:")).split()[1], 8)
    return 0o022


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file beside `path`, which is gone afterwards. Raises TimeoutError."""
    lock = path.with_name(f".{path.name}.lock")
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(lock, descriptor):
                break
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise TimeoutError(f"another process has held {lock} for {LOCK_SECONDS:g} s") from None
            time.sleep(0.01)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _is_still(lock: Path, descriptor: int) -> bool:
    """Whether the open file is the one that has the name; who held the lock before removed it."""
    try:
        found = lock.lstat()
    except FileNotFoundError:
        return False
    own = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)


def _line(entry: Entry) -> bytes:
    data = {
        "tool": entry.tool,
        "argv": list(entry.argv),
        "exit": entry.exit_status,
        "stdout": _as_json(entry.stdout),
        "stderr": _as_json(entry.stderr),
        "trial": entry.trial,
        **({} if entry.stdin is None else {"stdin": _as_json(entry.stdin)}),
    }
    return json.dumps(data, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _as_json(data: bytes) -> object:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _parse(line: bytes) -> Entry:
    """Read one line. Raises ValueError with what is wrong."""
    try:
        data = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError("expected a JSON object")
    for key in data:
        if key not in _KEYS:
            raise ValueError(f"unknown key {key!r}{hint(key, _KEYS)} (expected {', '.join(_KEYS)})")
    for key in _NEEDED:
        if key not in data:
            raise ValueError(f"the key {key!r} is missing")
    argv, status = data["argv"], data["exit"]
    if not isinstance(data["tool"], str) or not isinstance(data["trial"], str):
        raise ValueError("tool and trial: expected texts")
    if not isinstance(argv, list) or not all(isinstance(argument, str) for argument in argv):
        raise ValueError("argv: expected a list of texts")
    if not isinstance(status, int) or isinstance(status, bool) or not 0 <= status <= 255:
        raise ValueError(f"exit: expected 0 to 255, found {status!r}")
    stdout, stderr = (_from_json(data[key], key) for key in ("stdout", "stderr"))
    stdin = _from_json(data["stdin"], "stdin") if "stdin" in data else None
    return Entry(data["tool"], tuple(argv), status, stdout, stderr, data["trial"], stdin)


def _from_json(value: object, key: str) -> bytes:
    if isinstance(value, str):
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(f"{key}: half of a surrogate pair, which is no character") from None
    if isinstance(value, dict) and set(value) == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"{key}: base64: {error}") from None
    raise ValueError(f'{key}: expected a text or {{"base64": "..."}}')
