"""Judges in whole sessions, against a fake of the model's API."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from pytest_codereval.store.ledger import Ledger
from tests.fakes import FakeAnthropic, fault, say
from tests.fakes.anthropic import texts_of
from tests.fakes.turns import Entry, Request

from ...plugin.conftest import OFF, PASS, Repo, repo
from .conftest import MODEL, verdict

__all__ = ["repo"]

PRICES = f"codereval_prices={MODEL} 100 0 0 0"
JUDGE: dict[str, Any] = {"type": "llm_judge", "description": "polite", "files": ["a.txt"]}
AGENT = {"type": "agent_judge", "agent": {"type": "anthropic"}, "description": "looked", "prompt": "agent pass"}


def _judged(request: Request) -> Entry:
    """What the criterion's prompt asks for."""
    asked = "\n".join(texts_of(request.body["messages"][0]["content"]))
    prompt = asked.partition("# CRITERION\n\n")[2].partition("\n")[0]
    used = {"input_tokens": 100}
    if "shape" in prompt:
        return say("perfect: 1.0", usage=used)
    reply = verdict(0.9 if "pass" in prompt else 0.1, prompt)
    return type(reply)(reply.parts, usage=used)


def _ask(fake: FakeAnthropic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-key-of-the-judge")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)


def test_a_session_with_judges(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verdicts, the gate, costs apart from the agent's, and one call for what two workers want to know."""
    tasks = {
        "a-pass": [{**JUDGE, "prompt": "pass"}],
        "b-same": [{**JUDGE, "prompt": "pass"}],
        "c-fail": [{**JUDGE, "prompt": "fail"}, PASS],
        "d-shape": [{**JUDGE, "prompt": "out of shape"}, PASS],
        "e-off": [PASS, OFF],
        "f-only-off": [OFF],
        "g-informs": [PASS, {**JUDGE, "prompt": "out of shape", "weight": 0}],
        "h-agent": [AGENT],
    }
    for name, criteria in tasks.items():
        repo.task(name, success_criteria=criteria)
    with FakeAnthropic([_judged], loop=True) as fake:
        _ask(fake, monkeypatch)
        result = repo.run("-n2", "-v", "-o", PRICES, "-o", "codereval_patience=0", "--codereval-judge-budget-usd=1")
        asked = [texts_of(request.body["messages"][0]["content"])[0] for request in fake.requests]
        charged = len(fake.ledger)
    status = {name: repo.record(name)["status"] for name in tasks}
    assert status == {
        "a-pass": "passed",
        "b-same": "passed",
        "c-fail": "failed",
        "d-shape": "error",
        "e-off": "passed",
        "f-only-off": "not_evaluated",
        "g-informs": "passed",
        "h-agent": "passed",
    }
    assert sum("CRITERION\n\npass" in text for text in asked) == 1
    cached = [repo.record(name)["criteria"][0]["judge"]["cached"] for name in ("a-pass", "b-same")]
    assert sorted(cached) == [False, True]
    spent = [repo.record(name)["judge_spending"] for name in tasks]
    assert sum(each["calls"] for each in spent) == charged == len(asked)
    ledger = Ledger(repo.path / "run/shared").state()
    assert ledger.by_kind["judge"] == ledger.spent == Decimal("0.01") * charged
    assert sum(Decimal(str(each["usage"]["cost_usd"] or 0)) for each in spent) == ledger.spent
    result.stdout.fnmatch_lines([f"cost: $0.0000, of judges ${ledger.spent:.4f}"])
    error = repo.record("d-shape")["criteria"][0]
    assert (error["verdict"], error["score"]) == ("error", None)
    assert "(judge-1.json has what it said)" in error["reason"]
    assert "perfect: 1.0" in (repo.path / "run/trials/d-shape/trial/judge-1.json").read_text()
    assert repo.cases()["d-shape"] == "error"
    assert "sk-key-of-the-judge" not in (repo.path / "run/trials/a-pass/trial/record.json").read_text()


def test_what_is_not_paid_for_is_not_evaluated(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a-first", "b-second"):
        repo.task(name, success_criteria=[PASS, {**JUDGE, "prompt": f"pass {name}"}])
    repo.task("c-unpriced", success_criteria=[{**JUDGE, "prompt": "pass", "model": "nobody-knows-it"}])
    repo.file("pytest.ini", "[pytest]\ncodereval_judge_budget_usd = 0.005\n")
    with FakeAnthropic([_judged], loop=True) as fake:
        _ask(fake, monkeypatch)
        result = repo.run("-o", PRICES, "-rs")
        assert len(fake.requests) == 1
    result.assert_outcomes(passed=1, skipped=1, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    late = repo.record("b-second")
    assert (late["status"], late["criteria"][1]["verdict"]) == ("not_evaluated", "not_evaluated")
    assert "budget of the session's judges of $0.005 is used up: $0.01 spent" in late["criteria"][1]["reason"]
    unpriced = repo.record("c-unpriced")
    assert (unpriced["cause"], unpriced["trajectory"]) == ("unpriced", None)
    bad = repo.run("--codereval-judge-budget-usd=-1")
    assert bad.ret == pytest.ExitCode.USAGE_ERROR


def test_an_interrupt_ends_the_wait_for_a_judge(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.task("slow", success_criteria=[{**JUDGE, "prompt": "pass"}])
    repo.file(
        "conftest.py",
        """
        import os, signal
        from pytest_codereval.model_api.messages import MessagesApi

        first = MessagesApi.ask

        def ask(self, *args):
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            return first(self, *args)

        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        MessagesApi.ask = ask
        """,
    )
    with FakeAnthropic([fault("hang")], loop=True) as fake:
        _ask(fake, monkeypatch)
        result = repo.run("-p", "no:timeout")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    record = repo.record("slow")
    assert (record["status"], record["cause"]) == ("error", "interrupted")
    assert record["judge_spending"]["cost_complete"] is False
    assert list((repo.path / "run/active").iterdir()) == []


def test_judging_between_turns_asks_the_same_judge(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[dict[str, Any]] = [
        {"write": {"path": "a.txt", "content": "hello\n"}},
        {"say": "Here."},
        {"listen": True},
        {"say": "Bye."},
    ]
    judge = {**JUDGE, "prompt": "pass", "include_dialog": True}
    user = {"enabled": True, "persona": "p", "goal": "g", "check_criteria": "every_turn", "stop_on_criteria_pass": True}
    repo.script("talk", *steps, success_criteria=[judge], simulation=user)
    with FakeAnthropic([_judged], loop=True, user_turns=[say("Go on.")]) as fake:
        _ask(fake, monkeypatch)
        repo.run("-o", PRICES)
        assert len(fake.requests) == 1, json.dumps([request.body for request in fake.requests])
    record = repo.record("talk")
    assert (record["status"], record["dialogue"]["ended"]) == ("passed", "criteria_passed")
    assert record["criteria"][0]["judge"]["cached"] is True
    assert record["judge_spending"]["calls"] == 1
