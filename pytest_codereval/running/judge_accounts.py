"""Who pays for the judges of a trial: the session, in its ledger, apart from what agents and users spend."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..criteria.judges.agents import model_of_judge
from ..criteria.judges.endpoints import named_model
from ..errors import AgentError, Cause, JudgingError, NotJudged, TrialError
from ..trajectory.model import ModelCall, ModelFault
from ..trajectory.prices import SETTING
from ..trajectory.spending import Spending, spending
from .entries import Entries

if TYPE_CHECKING:
    from ..task.models import Task
    from .session import Session


def refuse_unpriced_judges(task: Task, session: Session) -> None:
    """Raise TrialError(UNPRICED), before anything is spent, when a gating judge could not be asked under its budget."""
    route = task.checker_context.api_route if task.checker_context else None
    criterion: Any
    for index, criterion in enumerate(task.success_criteria):
        if not criterion.gating or criterion.type not in ("llm_judge", "agent_judge"):
            continue
        judges_cap = session.has_budget or session.has_judge_budget
        model = named_model(criterion, route) if criterion.type == "llm_judge" else model_of_judge(criterion)
        if (judges_cap or criterion.max_usd is not None) and not session.prices.knows(model):
            raise TrialError(
                Cause.UNPRICED,
                f"success_criteria[{index}]: the price of the judge's model {model!r} is not known, so a budget in "
                f"dollars cannot be kept; name a model and give its price in the ini setting {SETTING}",
            )


class JudgeAccounts:
    """See `criteria.judges.desk.Accounts`."""

    def __init__(self, trial_id: str, session: Session) -> None:
        self.prices = session.prices
        self.patience = session.patience
        self.has_cap = session.has_budget or session.has_judge_budget
        self._session = session
        self._entries = Entries(trial_id, session, "judge")
        self._calls: dict[tuple[int, str], ModelCall] = {}
        self._limits = 0

    def admit(self) -> None:
        """Raise NotJudged when the budget of the session, or the one of its judges, is used up."""
        try:
            self._session.refuse_judge_when_spent()
        except TrialError as error:
            raise NotJudged(f"the judge was not asked: {error}") from None

    @contextlib.contextmanager
    def turn(self, provider: str | None, patience: float) -> Iterator[None]:
        """Raise JudgingError when no turn with the provider comes in `patience` seconds."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._session.turn_of_judge(provider, patience))
            except AgentError as error:
                raise JudgingError(f"the judge was not asked: {error}") from None
            calls, limits = len(self._calls), self._limits
            yield
            if len(self._calls) > calls and self._limits == limits:
                self._session.unlimited(provider)

    def tell(self, event: ModelCall | ModelFault, provider: str | None) -> None:
        """Enter a call; of one that was told before, what it cost beyond that."""
        if isinstance(event, ModelFault):
            if event.cause is Cause.RATE_LIMITED:
                self._limits += 1
                self._session.limited(provider, event.retry_after)
            return
        self._calls[event.attempt, event.id] = event
        is_whole = event.complete and self.prices.cost(event.model, event.usage) is not None
        self._entries.enter(event, self.prices.least_cost(event.model, event.usage), is_whole)

    @property
    def spending(self) -> Spending:
        """What the judges of the trial used."""
        return spending(self._calls.values(), self.prices)

    def as_record(self) -> dict[str, object]:
        """The same as plain data."""
        return dataclasses.asdict(self.spending)
