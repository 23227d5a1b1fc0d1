"""What a trial makes of each fault of its model's API, in whole sessions; `fault_table` prints all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import fault, say

from .claude_run import need_claude
from .codex_run import put_codex_on_path
from .fault_table import CAUSES, FAULTS, REFUSED, SLOW, TRIED_AGAIN, Play, Row, once, persisting, run_session

LEFT_OUT = (*SLOW, REFUSED, "429", "429-wait", "503", "403", "400", "cut-drop", "reset-midway")
"""Faults that take long because somebody waits, and those that only repeat another."""

PERSISTING = {
    "anthropic": ["429", *(name for name in FAULTS if name not in LEFT_OUT)],
    "claude-code": ["malformed_json", "truncated_tool", "html", "context_full-stop"],
    "codex": ["malformed_json", "truncated_tool", "html", "refusal"],
}
ONCE = {
    "anthropic": ["529", "cut", "malformed_json", "truncated_tool"],
    "claude-code": ["cut", "truncated_tool"],
    "codex": ["cut", "truncated_tool"],
}
KNOWN = ("529", "truncated_tool")
"""Faults that leave nothing unknown of what was used."""

REPLACED = FAULTS | {"429": fault(429, retry_after=0.02), REFUSED: fault(500)}


@pytest.mark.parametrize("agent", PERSISTING)
def test_a_fault_is_an_error_when_it_persists_and_nothing_when_it_does_not(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if agent == "codex":
        put_codex_on_path(monkeypatch)
    elif agent == "claude-code":
        need_claude()
    plays = {name: persisting(REPLACED[name]) for name in PERSISTING[agent]}
    plays |= {f"{name}-once": once(REPLACED[name]) for name in ONCE[agent]}
    plays["untold"] = Play(lambda request: say("done", usage=False), "there.txt")
    rows = run_session(tmp_path / "session", agent, plays)
    check_untold(rows["untold"])
    for name in PERSISTING[agent]:
        check_persisting(agent, name, rows[name])
    for name in ONCE[agent]:
        check_once(name, rows[f"{name}-once"])


def check_persisting(agent: str, name: str, found: Row) -> None:
    """An error with its cause, and no token is made up or lost in silence."""
    record = found.record
    assert (record["status"], record["cause"]) == ("error", CAUSES[name]), record["message"]
    assert (found.attempts > 1) == (record["cause"] in TRIED_AGAIN)
    assert list(found.problems()) == []
    assert record["score"] is None
    assert {criterion["verdict"] for criterion in record["criteria"]} == {"not_evaluated"}
    assert found.faults


def check_untold(found: Row) -> None:
    """A reply that does not say what it used is a turn like any other, and its cost is not known."""
    assert (found.record["status"], found.record["trajectory"]["turns"]) == ("passed", 1), found.record["message"]
    assert set(found.tokens.values()) == {None}
    assert not found.cost_complete


def check_once(name: str, found: Row) -> None:
    """Passed in the first attempt; the fault is in the record, and each reply was counted once."""
    assert (found.record["status"], found.attempts, len(found.faults)) == ("passed", 1, 1), found.record["message"]
    assert found.asked == 3
    assert list(found.problems()) == []
    assert found.cost_complete == (name in KNOWN)


def test_where_nothing_listens_the_trial_is_an_error_that_cost_nothing(tmp_path: Path) -> None:
    found = run_session(tmp_path / "session", "anthropic", {REFUSED: persisting(REPLACED[REFUSED])})[REFUSED]
    check_persisting("anthropic", REFUSED, found)
    assert found.record["spending"]["calls"] == 0
