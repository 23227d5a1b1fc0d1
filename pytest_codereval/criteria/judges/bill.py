"""What one judgement uses, and whether it may use more."""

from __future__ import annotations

import dataclasses
import uuid

from ...errors import JudgingError, NotJudged
from ...trajectory.model import ModelCall, ModelFault
from ...trajectory.prices import SETTING
from ...trajectory.spending import Spending, spending
from .desk import Accounts


class Bill:
    """`max_usd` is the cap on this one judgement, in US dollars: no call begins once it is reached."""

    def __init__(self, accounts: Accounts, max_usd: float | None, provider: str | None) -> None:
        self._accounts = accounts
        self._max_usd = max_usd
        self._provider = provider
        self._mark = uuid.uuid4().hex[:12]
        self._calls: dict[tuple[type, str], ModelCall | ModelFault] = {}

    def admit(self, model: str | None) -> None:
        """Raise NotJudged when nothing more may be spent, JudgingError when a cap cannot be kept."""
        self._accounts.admit()
        self.refuse_unpriced(model)
        if self._max_usd is not None and self.spending.cost_usd >= self._max_usd:
            raise NotJudged(
                f"max_usd of this judge (${self._max_usd:g}) is used up by {self.spending.calls} calls, and its "
                "judgement is not complete"
            )

    def refuse_unpriced(self, model: str | None) -> None:
        """Raise JudgingError when there is a cap and it is not known what a call cost, or will cost."""
        if not (self._accounts.has_cap or self._max_usd is not None):
            return
        unpriced = [call.model for call in self.calls if call.complete and self._cost(call) is None]
        if unpriced or not self._accounts.prices.knows(model):
            named = repr(unpriced[0] if unpriced else model)
            raise JudgingError(
                f"a budget in dollars cannot be kept: what a call of the judge's model {named} costs is not known; "
                f"give its price in the ini setting {SETTING}"
            )

    def tell(self, event: ModelCall | ModelFault) -> None:
        """Take what a call used. Its id tells it from the calls of other judgements, whatever the provider gives."""
        event = dataclasses.replace(event, id=f"{self._mark}-{event.id}")
        self._calls[type(event), event.id] = event
        self._accounts.tell(event, self._provider)

    @property
    def calls(self) -> list[ModelCall]:
        return [call for call in self._calls.values() if isinstance(call, ModelCall)]

    @property
    def spending(self) -> Spending:
        return spending(self.calls, self._accounts.prices)

    def _cost(self, call: ModelCall) -> float | None:
        return self._accounts.prices.cost(call.model, call.usage)
