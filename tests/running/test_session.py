"""What the trials of all workers share. Each Session here stands for one worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_codereval.errors import AgentError, Cause, TrialError
from pytest_codereval.running.session import Session
from pytest_codereval.trajectory.prices import PriceList


def _workers(folder: Path, number: int = 2) -> list[Session]:
    return [Session(folder, budget_usd=1.0, most_at_once={"anthropic": 2}) for _ in range(number)]


def test_a_budget_is_used_up_for_all_workers_at_once(tmp_path: Path) -> None:
    one, other = _workers(tmp_path)
    one.spent("a", "agent", 0.4, True)
    other.refuse_when_spent()
    one.spent("a", "simulated user", 0.6, True)
    with pytest.raises(TrialError, match=r"budget of \$1 is used up: \$1 spent by 1 trial$") as caught:
        other.refuse_when_spent()
    assert caught.value.cause is Cause.BUDGET_SPENT
    one.spent("b", "agent", None, True)
    with pytest.raises(TrialError, match="and what 1 incomplete entries do not tell"):
        other.refuse_when_spent()


def test_without_a_budget_the_ledger_is_kept_and_refuses_nothing(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.spent("a", "agent", 1e6, True)
    session.refuse_when_spent()
    assert session.ledger is not None
    assert session.ledger.state().spent == 1_000_000


def test_places_at_a_provider_are_shared_and_a_wait_for_one_has_an_end(tmp_path: Path) -> None:
    one, other, third = _workers(tmp_path, 3)
    with one.turn("anthropic", 1), other.turn("anthropic", 1):
        with pytest.raises(AgentError, match=r"no turn with anthropic came within 0.05 s") as caught:
            third.turn("anthropic", 0.05).__enter__()
        assert caught.value.cause is Cause.RATE_LIMITED
        with third.turn("openai", 0.0), third.turn(None, 0.0):
            pass
    with third.turn("anthropic", 0.0):
        pass


def test_a_limit_is_halved_for_all_and_grows_again_with_each_trial_that_comes_through(tmp_path: Path) -> None:
    one, other = _workers(tmp_path)
    one.limited("anthropic", 0.01)
    with one.turn("anthropic", 5), pytest.raises(AgentError), other.turn("anthropic", 0.05):
        pass
    other.unlimited("anthropic")
    with one.turn("anthropic", 1), other.turn("anthropic", 1):
        pass


def test_a_trial_outside_of_a_session_waits_for_nobody() -> None:
    alone = Session(prices=PriceList(["m 1 2"]))
    alone.spent("a", "agent", 5.0, True)
    alone.limited("anthropic", 100)
    with alone.turn("anthropic", 0.0):
        assert alone.ledger is None
