"""What one spender of a trial enters into the session's ledger: each call once, with what it cost in the end."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..trajectory.model import ModelCall
    from .session import Session, Spender


class Entries:
    """A call that is told of again, by its attempt and id, costs what it costs beyond the last time."""

    def __init__(self, trial_id: str, session: Session, spender: Spender) -> None:
        self._trial_id = trial_id
        self._session = session
        self._spender = spender
        self._entered: dict[tuple[int, str], float] = {}

    def enter(self, call: ModelCall, cost: float | None, is_whole: bool) -> None:
        """`cost` is what is known of it in US dollars, `is_whole` whether that is all."""
        key = (call.attempt, call.id)
        before = self._entered.get(key)
        self._entered[key] = max(cost or 0.0, before or 0.0)
        if before is not None:
            if cost is None or cost <= before:
                return
            cost = float(Decimal(str(cost)) - Decimal(str(before)))
        self._session.spent(self._trial_id, self._spender, cost, is_whole)
