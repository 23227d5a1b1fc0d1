"""The session's ledger: what every call of a model cost, written by all workers, and whether the budget is used up."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import threading
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal, get_args

from ..errors import CoderEvalError
from .locking import locked

Kind = Literal["agent", "simulated user", "judge"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FILE = "ledger.jsonl"


@dataclasses.dataclass(frozen=True)
class LedgerState:
    """`spent` is US dollars in all, `by_kind` who spent them, `trials` how many trials did.

    `incomplete` counts entries that are not the whole of what was spent; `torn` is how many of them are lines that a
    process began and did not finish, so that nothing but their being is known.
    """

    spent: Decimal
    incomplete: int
    by_kind: Mapping[Kind, Decimal]
    trials: int
    torn: int


class Ledger:
    """One JSON line per entry, in `ledger.jsonl` of a folder that all workers of one session share.

    Each line is numbered and carries the sum so far. A ledger that was removed, cut or changed raises CoderEvalError in
    every method: what was spent is then unknown. Amounts are decimals in text, so sums are exact. Any thread may call.
    """

    def __init__(self, folder: Path, cap_usd: float | None = None) -> None:
        """`cap_usd` is the budget in US dollars. The folder is made when missing."""
        if cap_usd is not None and not (math.isfinite(cap_usd) and cap_usd >= 0):
            raise CoderEvalError(f"the budget of the session, {cap_usd!r}: expected US dollars, 0 or more")
        self._path = folder / FILE
        self._cap = None if cap_usd is None else Decimal(str(cap_usd))
        self._mutex = threading.Lock()
        self._inode: int | None = None
        self._read_bytes = 0
        self._entries = 0
        self._spent = Decimal(0)
        self._incomplete = 0
        self._torn = 0
        self._ends_torn = False
        self._by_kind: dict[Kind, Decimal] = {}
        self._trials: set[str] = set()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CoderEvalError(f"the folder of the ledger, {folder}, cannot be made: {error.strerror}") from None
        self.state()

    def add(self, trial: str, kind: Kind, usd: float, complete: bool) -> None:
        """Enter that `trial` spent `usd`; `complete` tells that this is all of it. All workers see it at once.

        Raises ValueError for an amount that is no number of dollars, 0 or more.
        """
        if kind not in KINDS or not (math.isfinite(usd) and usd >= 0):
            raise ValueError(f"no entry for a ledger: {kind!r}, {usd!r}")
        amount = Decimal(str(usd))
        with self._mutex, locked(self._path) as descriptor:
            self._catch_up(descriptor)
            if self._ends_torn:
                self._write(descriptor, b"\n")
                self._catch_up(descriptor)
            entry = {
                "entry": self._entries + 1,
                "trial": trial,
                "kind": kind,
                "usd": f"{amount:f}",
                "complete": complete,
                "spent": f"{self._spent + amount:f}",
            }
            self._write(descriptor, f"{json.dumps(entry)}\n".encode("ascii"))
            self._catch_up(descriptor)

    def state(self) -> LedgerState:
        """What all workers have entered so far."""
        with self._mutex, locked(self._path) as descriptor:
            self._catch_up(descriptor)
            return LedgerState(
                spent=self._spent,
                incomplete=self._incomplete + self._ends_torn,
                by_kind=dict(self._by_kind),
                trials=len(self._trials),
                torn=self._torn + self._ends_torn,
            )

    def exhausted(self) -> str | None:
        """Why nothing more may be spent, or None while the budget lasts. A budget is used up when it is reached."""
        state = self.state()
        if self._cap is None or state.spent < self._cap:
            return None
        cap, spent = self._cap.normalize(), state.spent.normalize()
        trials = f"{state.trials} trial{'' if state.trials == 1 else 's'}"
        reason = f"the session's budget of ${cap:f} is used up: ${spent:f} spent by {trials}"
        if state.incomplete:
            reason += f" (and what {state.incomplete} incomplete entries do not tell)"
        return reason

    def _write(self, descriptor: int, line: bytes) -> None:
        try:
            written = os.write(descriptor, line)
        except OSError as error:
            raise CoderEvalError(f"the session's ledger {self._path} cannot be written: {error.strerror}") from None
        if written != len(line):
            raise CoderEvalError(f"the session's ledger {self._path} cannot be written: no space")

    def _catch_up(self, descriptor: int) -> None:
        """Read what is new in the file, under its lock."""
        status = os.fstat(descriptor)
        if self._inode is None:
            self._inode = status.st_ino
        if status.st_ino != self._inode or status.st_size < self._read_bytes:
            raise self._broken("was removed or cut by another program")
        new = os.pread(descriptor, status.st_size - self._read_bytes, self._read_bytes)
        whole, _, rest = new.rpartition(b"\n")
        if len(rest) < len(new):
            for line in whole.split(b"\n"):
                self._take(line)
        self._read_bytes += len(new) - len(rest)
        self._ends_torn = bool(rest)

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            number, kind, complete, trial = entry["entry"], entry["kind"], entry["complete"], entry["trial"]
            amount, spent = Decimal(entry["usd"]), Decimal(entry["spent"])
        except (ValueError, LookupError, TypeError, InvalidOperation):
            self._torn += 1
            self._incomplete += 1
            return
        if number != self._entries + 1 or spent != self._spent + amount or kind not in KINDS or amount < 0:
            raise self._broken(f"was changed by another program (at entry {self._entries + 1})")
        self._entries, self._spent = number, spent
        self._by_kind[kind] = self._by_kind.get(kind, Decimal(0)) + amount
        self._trials.add(str(trial))
        self._incomplete += not complete

    def _broken(self, what: str) -> CoderEvalError:
        return CoderEvalError(f"the session's ledger {self._path} {what}, so what was spent is not known")


def size(folder: Path) -> int:
    """Bytes of the ledger in this folder, 0 when there is none."""
    try:
        return (folder / FILE).stat().st_size
    except OSError:
        return 0


def entered(folder: Path, trial: str, begin: int = 0) -> dict[Kind, list[Decimal]]:
    """The amounts that stand for `trial` behind the first `begin` bytes, as far as they can be read."""
    found: dict[Kind, list[Decimal]] = {kind: [] for kind in KINDS}
    try:
        lines = (folder / FILE).read_bytes()[begin:].splitlines()
    except OSError:
        lines = []
    for line in lines:
        try:
            entry = json.loads(line)
            if entry["trial"] == trial:
                found[entry["kind"]].append(Decimal(entry["usd"]))
        except (ValueError, LookupError, TypeError, InvalidOperation):
            continue
    return found
