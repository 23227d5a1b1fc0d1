"""Caps of a trial and the budget of a session, against the ledger of the fake that charges for every reply."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ..fakes import FakeAnthropic, call, fault, say, turn
from ..plugin.conftest import PASS, Repo
from .budget_show import BUDGET, TRIALS, eight_trials
from .models import AGENT, MODEL, OPTIONS, Scripts, ask, cost

WRITE = call("Bash", command="echo x > a.txt")
NOTHING = {"input_tokens": 0, "cache_creation_tokens": 0, "cache_read_tokens": 0, "output_tokens": 0}


def _usage(**counts: int) -> dict[str, int]:
    return {**NOTHING, **{f"{name}_tokens": count for name, count in counts.items()}}


def _task(repo: Repo, name: str, **fields: Any) -> None:
    repo.task(name, **{"initial_prompt": name, "agent": AGENT, "success_criteria": [PASS], **fields})


def test_a_session_stops_to_spend_when_its_budget_is_used_up(tmp_path: Path) -> None:
    shown = eight_trials(tmp_path)
    passed, left_out = shown.with_status("passed"), shown.with_status("not_evaluated")
    assert len(passed) + len(left_out) == len(shown.records) == TRIALS
    assert passed
    assert left_out
    assert shown.exit_status == pytest.ExitCode.TESTS_FAILED
    assert shown.fake == shown.ledger == shown.in_records == shown.terminal >= Decimal(BUDGET)
    before_the_last = max(Decimal(str(record["spending"]["usage"]["cost_usd"])) for record in passed)
    assert shown.fake < Decimal(BUDGET) + 2 * before_the_last, "a trial began when the budget was used up"
    for record in left_out:
        assert record["cause"] == "budget_spent"
        assert "the session's budget of $0.2 is used up: $" in record["message"]
        assert record["spending"]["calls"] == 0
    assert "not evaluated: the session's budget of $0.2 is used up" in shown.output
    assert sorted(shown.junit.values()) == ["passed"] * len(passed) + ["skipped"] * len(left_out)


def test_a_budget_that_nothing_can_be_held_to_is_refused_and_what_follows_its_end_is_skipped(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulated user spends the session's budget, but not what `run_limits` give the agent."""
    user = {"enabled": True, "persona": "You sell bread.", "goal": "Get a greeting.", "model": MODEL}
    _task(repo, "a-unpriced", agent={**AGENT, "model": "nobody-knows-it"})
    _task(repo, "b-unpriced-user", simulation={**user, "model": "nobody-knows-it"})
    _task(
        repo, "c-talk", initial_prompt="c-talk", simulation=user, run_limits={"max_usd": 0.05, "max_input_tokens": 99}
    )
    _task(repo, "d-late")
    repo.file(
        "test_late.py",
        """
        def test_late(codereval_run_task):
            codereval_run_task("tasks/d-late.yaml").assert_passed()
            raise AssertionError("this is not reached")
        """,
    )
    said_by_user = say("Thank you. <<<END>>>", usage=_usage(input=10_000))
    script = [turn(WRITE, usage=_usage(input=10)), say("done", usage=_usage(input=10, output=3))]
    with FakeAnthropic(script, user_turns=[said_by_user]) as fake:
        ask(fake, monkeypatch)
        result = repo.run(*OPTIONS, "--codereval-budget-usd=1", "-rs")
        spent = cost(fake.ledger)
        requests = len(fake.requests)
    assert requests == 3
    result.assert_outcomes(passed=1, errors=2, skipped=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    for name in ("a-unpriced", "b-unpriced-user"):
        record = repo.record(name)
        assert (record["status"], record["cause"]) == ("error", "unpriced")
        assert "'nobody-knows-it'" in record["message"]
        assert "codereval_prices" in record["message"]
    talk = repo.record("c-talk")
    assert (talk["status"], talk["stopped"]) == ("passed", None)
    assert (talk["spending"]["usage"]["cost_usd"], talk["simulated_user_spending"]["usage"]["cost_usd"]) == (0.0035, 1)
    assert spent == Decimal("1.0035")
    assert repo.record("d-late")["cause"] == "budget_spent"
    again = json.loads((repo.path / "run/trials/d-late/trial.again2/record.json").read_text())
    assert (again["status"], again["cause"]) == ("not_evaluated", "budget_spent")
    result.stdout.fnmatch_lines(
        ["SKIPPED*test_late.py:2: not evaluated: the session's budget of $1 is used up: $1.0035 spent by 1 trial*"]
    )
    assert repo.cases()["test_late"] == "skipped"


CAPS: dict[str, tuple[dict[str, Any], str | None, str, int]] = {
    # task: its limits, the cap that is reached, the status, how many calls of the model are made
    "turns": ({"max_turns": 1}, "max_turns", "passed", 1),
    "output": ({"max_output_tokens": 49}, "max_output_tokens", "failed", 1),
    "input": ({"max_input_tokens": 199}, "max_input_tokens", "failed", 2),
    "input-with-cached": (
        {"max_input_tokens": 199, "count_cached_input": True},
        "max_input_tokens",
        "failed",
        1,
    ),
    "dollars": ({"max_usd": 0.17}, "max_usd", "failed", 1),
    "dollars-are-enough": ({"max_usd": 0.38}, None, "passed", 2),
}


UNTOLD: dict[str, tuple[dict[str, Any], str | None]] = {
    # task: its limits, what the error says
    "no-cap": ({"max_turns": 5}, None),
    "token-cap": ({"max_output_tokens": 10_000}, "does not tell its output_tokens, so run_limits.max_output_tokens"),
    "dollar-cap": ({"max_usd": 5}, "does not tell its input_tokens, cache_creation_tokens*, so run_limits.max_usd"),
    "broken-off": ({"max_usd": 5}, None),
}

PROGRAM = {"type": "command", "model": MODEL, "command": ["sh", "-c", "echo x > a.txt"]}


def test_caps_end_a_trial_and_what_is_not_told_is_not_taken_for_none(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    # in dollars one call is 0.01 for input, 0.025 for output, 0.1 for what was written, 0.05 for what was read
    used = _usage(input=100, output=50, cache_creation=500, cache_read=5000)
    several = turn(WRITE, call("Bash", command="echo > second"), usage=used)
    plays: dict[str, list[Any]] = {name: [several, say("done", usage=used)] for name in CAPS}
    plays |= {name: [turn(WRITE, usage=False), say("done")] for name in UNTOLD}
    plays["broken-off"] = [WRITE, fault("cut", after=4), say("done")]
    scripts = Scripts(plays)
    for name, (limits, *_) in {**CAPS, **UNTOLD}.items():
        _task(repo, name, run_limits=limits)
    _task(repo, "program", agent=PROGRAM, run_limits={"max_usd": 5})
    _task(repo, "program-without-cap", agent=PROGRAM)
    with FakeAnthropic([scripts], loop=True) as fake:
        ask(fake, monkeypatch)
        result = repo.run(*OPTIONS)
    _check_caps(repo, scripts, result)
    _check_untold(repo, scripts, result)
    result.stdout.fnmatch_lines(["cost: $*, and what is not known of 6 trials"])


def _check_caps(repo: Repo, scripts: Scripts, result: pytest.RunResult) -> None:
    for name, (_, stopped, status, calls) in CAPS.items():
        record = repo.record(name)
        assert (name, record["stopped"], record["status"]) == (name, stopped, status)
        assert (name, scripts.calls(name)) == (name, calls)
        assert record["spending"]["calls"] == calls
        if status == "failed":
            result.stdout.fnmatch_lines([f"*{stopped}*"])
    assert _tools(repo, "dollars") == [], "a reply that breaks a cap is not acted on"
    assert len(_tools(repo, "turns")) == 2
    assert repo.record("turns")["trajectory"]["turns"] == 1


def _tools(repo: Repo, name: str) -> list[str]:
    """The ids of the tool calls that were told."""
    return [event["id"] for event in repo.record(name)["trajectory"]["events"] if event["kind"] == "ToolCall"]


def _check_untold(repo: Repo, scripts: Scripts, result: pytest.RunResult) -> None:
    for name, (_, message) in UNTOLD.items():
        record = repo.record(name)
        assert record["spending"]["cost_complete"] is False, name
        if message is None:
            assert record["status"] == "passed"
        else:
            assert (record["status"], record["cause"]) == ("error", "usage_unknown"), name
            assert scripts.calls(name) == 1
            assert record["spending"]["usage"]["output_tokens"] is None
            result.stdout.fnmatch_lines([f"*what the model used is not known: *'{MODEL}'*{message}*"])
    assert (repo.record("program")["status"], repo.record("program")["cause"]) == ("error", "usage_unknown")
    assert repo.record("program-without-cap")["status"] == "passed"
    assert repo.record("program-without-cap")["spending"]["cost_complete"] is False


def test_a_trial_that_waited_for_its_turn_looks_at_the_budget_again(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        _task(repo, name)
    script = [turn(WRITE, usage=_usage(input=10_000)), say("done", usage=_usage(input=10_000), delay=1)]
    with FakeAnthropic(script, loop=True) as fake:
        ask(fake, monkeypatch)
        one = ("-o", "codereval_at_once=anthropic=1", "-n3")
        result = repo.run(*OPTIONS, *one, "--codereval-budget-usd=1.5")
        assert len(fake.requests) == 2
    result.assert_outcomes(passed=1, skipped=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
