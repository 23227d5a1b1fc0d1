"""The caps of one trial and its books, told what agents tell."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval import clock
from pytest_codereval.agents.limits import Meter, Stop
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.running.books import Books
from pytest_codereval.running.session import Session
from pytest_codereval.store.ledger import Ledger
from pytest_codereval.task.setting_models import RunLimits
from pytest_codereval.trajectory.model import ModelCall, ModelFault, Usage
from pytest_codereval.trajectory.prices import PriceList

from ..task.samples import load

PRICES = PriceList(["known 100 500 200 10", "uncached 100 500"])


def _meter(session_cap: bool = False, **limits: Any) -> Meter:
    return Meter(RunLimits(**limits) if limits else None, PRICES, session_cap)


def _call(name: str, *buckets: int | None, **fields: Any) -> ModelCall:
    return ModelCall(name, fields.pop("model", "known"), Usage(*buckets), **fields)


def test_turns_are_whole_replies_of_the_main_thread_in_one_run() -> None:
    meter = _meter(max_turns=2)
    meter.take(_call("1", 1, 0, 0, 1))
    meter.take(_call("2", 1, 0, 0, 1, complete=False))
    meter.take(_call("3", 1, 0, 0, 1, parent_id="tool"))
    assert meter.admit(True)
    meter.take(_call("2", 1, 0, 0, 1))
    assert meter.admit(False)
    assert not meter.admit(True)
    assert meter.stop is Stop.TURNS
    assert not meter.stop.forces_fail
    other = _meter(max_turns=1)
    for run in "12":
        other.begin_run()
        assert other.admit(True)
        other.take(_call(run, 1, 0, 0, 1))
    assert not other.admit(True)


def test_what_sub_agents_and_earlier_attempts_used_counts_and_a_call_counts_once() -> None:
    meter = _meter(max_output_tokens=30)
    meter.take(_call("1", 1, 0, 0, 10))
    meter.take(_call("1", 1, 0, 0, 10, attempt=2))
    meter.take(_call("1", 1, 0, 0, 10, attempt=2))
    meter.take(_call("2", 1, 0, 0, 10, attempt=2, parent_id="tool"))
    assert meter.stop is None
    meter.take(_call("3", 1, 0, 0, 1, complete=False))
    assert meter.stop is Stop.OUTPUT_TOKENS
    assert not meter.admit(False)


@pytest.mark.parametrize(
    ("limits", "usage", "untold"),
    [
        ({"max_input_tokens": 9}, (None, 0, 0, 0), "input_tokens"),
        ({"max_input_tokens": 9, "count_cached_input": True}, (0, None, None, None), "cache_read_tokens"),
        ({"max_input_tokens": 9, "count_cache_creation": True}, (0, None, None, None), "cache_creation_tokens"),
        ({"max_total_tokens": 9}, (0, None, None, None), "output_tokens"),
        ({"max_usd": 9}, (0, 0, None, 0), "cache_read_tokens"),
        ({"max_input_tokens": 9}, (0, None, None, None), None),
        ({"max_output_tokens": 9}, (None, None, None, 0), None),
        ({"max_turns": 9}, (None, None, None, None), None),
    ],
)
def test_a_reply_that_does_not_tell_what_a_cap_counts_is_refused(
    limits: dict[str, Any], usage: tuple[int | None, ...], untold: str | None
) -> None:
    meter = _meter(**limits)
    if untold is None:
        meter.take(_call("1", *usage))
        meter.refuse_unknown()
        return
    with pytest.raises(AgentError, match=f"'known' does not tell its {untold}, so run_limits.max_") as caught:
        meter.take(_call("1", *usage))
    assert caught.value.cause is Cause.USAGE_UNKNOWN


def test_a_price_that_shows_to_be_unknown_is_refused_unless_the_provider_tells_the_cost() -> None:
    meter = _meter(session_cap=True)
    meter.take(ModelCall("1", "unheard", Usage(1, 0, 0, 1, 0.5)))
    meter.take(_call("2", 1, 0, 0, 1, model="uncached"))
    with pytest.raises(AgentError, match=r"cached prompts of the model 'uncached'.*all four.*codereval_prices"):
        meter.take(_call("3", 1, 0, 7, 1, model="uncached"))
    with pytest.raises(AgentError, match="'unheard' is not known") as caught:
        meter.take(_call("4", 1, 0, 0, 1, model="unheard"))
    assert caught.value.cause is Cause.UNPRICED
    with pytest.raises(AgentError, match="does not tell its model, so --codereval-budget-usd cannot be kept"):
        meter.take(_call("5", 1, 0, 0, 1, model=None))


def test_broken_replies_count_by_what_they_told_and_calls_that_nobody_counted_are_refused_at_the_end() -> None:
    meter = _meter(max_usd=1)
    meter.take(ModelCall("1", "known", complete=False))
    meter.take(ModelFault("1", Cause.CONNECTION, "cut"))
    meter.take(_call("2", 1, 0, 0, 1))
    meter.refuse_unknown()
    assert not meter.spending.cost_complete
    meter.take(ModelCall("run-1", None, complete=False))
    with pytest.raises(AgentError, match="does not tell"):
        meter.refuse_unknown()
    meter.take(_call("3", 1_000_000, 0, 0, 1))
    assert meter.stop is Stop.COST
    meter.refuse_unknown()


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path, prices=PRICES, budget_usd=1.0, most_at_once={"anthropic": 2})


def _books(session: Session, **task: Any) -> Books:
    return Books(load(**task).task, "a-task", session)


def test_the_ledger_has_what_a_call_cost_however_often_it_is_told(session: Session, tmp_path: Path) -> None:
    books = _books(session)
    for output in (1, 7, 7, 5):
        books.tell(_call("1", 10, 0, 0, output, complete=False))
    books.tell(_call("1", 10, 0, 0, 9))
    assert Ledger(tmp_path).state().spent == Decimal("0.0055") == Decimal(str(books.spending.cost_usd))


def test_a_cost_that_is_not_known_is_no_cost_of_nothing(session: Session, tmp_path: Path) -> None:
    books = _books(session)
    books.tell_simulated(ModelCall("1", "unheard", Usage(1, 0, 0, 1)))
    assert (Ledger(tmp_path).state().incomplete, books.simulated_spending.cost_complete) == (1, False)
    assert books.spending.calls == 0


def test_what_is_known_of_a_cut_call_is_spent_and_never_all_of_it(session: Session, tmp_path: Path) -> None:
    books = _books(session)
    books.tell(_call("1", 4000, None, None, None, complete=False))
    books.tell(_call("2", complete=False))
    books.tell(_call("3", 4000, 0, 70, 0, model="uncached", complete=False))
    with pytest.raises(AgentError, match="does not tell its cache_read_tokens"):
        books.tell(_call("4", 4000, 0, None, 0))
    state = Ledger(tmp_path).state()
    assert (state.spent, state.incomplete) == (Decimal("1.2"), 4)
    assert (books.spending.cost_usd, books.spending.cost_complete) == (1.2, False)


def test_a_rate_limit_that_is_told_late_counts_from_its_time(session: Session) -> None:
    books = _books(session)
    books.provider = "anthropic"
    books.tell(ModelFault("1", Cause.RATE_LIMITED, "slow down", retry_after=50, time=clock.now() - 60))
    books.tell(ModelFault("2", Cause.RATE_LIMITED, "slow down", time=clock.now() - 60))
    books.tell(ModelFault("3", Cause.OVERLOADED, "too much", retry_after=50, time=clock.now()))
    with session.turn("anthropic", 0.0):
        pass
    books.tell(ModelFault("4", Cause.RATE_LIMITED, "slow down", retry_after=50, time=clock.now() - 10))
    with pytest.raises(AgentError, match="no turn with anthropic"), session.turn("anthropic", 0.0):
        pass


def test_a_rate_limit_of_the_simulated_user_holds_agents_of_its_provider_off(session: Session) -> None:
    _books(session).tell_simulated(ModelFault("1", Cause.RATE_LIMITED, "slow down", retry_after=50, time=clock.now()))
    with pytest.raises(AgentError, match="no turn with anthropic"), session.turn("anthropic", 0.0):
        pass
    with session.turn("openai", 0.0):
        pass


def test_a_call_that_is_not_admitted_does_not_break_the_run_off() -> None:
    """The agent ends by itself, so that what it did before is told to the end."""
    meter = _meter(max_turns=1)
    meter.take(_call("a", 1, 0, 0, 1))
    assert not meter.admit(True)
    assert (meter.stop, meter.overrun) == (Stop.TURNS, False)
    meter.take(_call("b", 1, 0, 0, 1))
    assert meter.overrun


def test_turns_are_counted_anew_in_each_run_and_all_in_the_attempt() -> None:
    meter = _meter(max_turns=2)
    for run in range(3):
        meter.begin_run()
        for number in range(2):
            assert meter.admit(True)
            meter.take(_call(f"{run}-{number}", 1, 0, 0, 1))
    assert (meter.stop, meter.turns(1), meter.turns(2)) == (None, 6, 0)


def test_a_call_under_way_when_the_agent_is_stopped_does_not_make_the_trial_an_error() -> None:
    meter = _meter(max_turns=1, max_total_tokens=1000)
    meter.take(_call("a", 1, 0, 0, 1))
    assert not meter.admit(True)
    meter.take(_call("sub", complete=False, parent_id="t"))
    meter.refuse_unknown()
    assert not meter.spending.tokens_complete
