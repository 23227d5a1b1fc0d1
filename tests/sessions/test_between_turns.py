"""Judging between the turns of a dialogue with a simulated user."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes import FakeAnthropic, say

from ..plugin.conftest import Repo

STEPS: list[dict[str, Any]] = [
    {"write": {"path": "draft.txt", "content": "hello\n"}},
    {"say": "Here is a draft."},
    {"listen": True},
    {"write": {"path": "a.txt", "content": "hello\n"}},
    {"bash": "(sleep 300 &) ; test ! -e ../reference*"},
    {"say": "Now it is a.txt."},
    {"listen": True},
    {"bash": "rm a.txt"},
    {"say": "I took it away again."},
]
CHECK = {"type": "run_command", "description": "as the reference has it", "command": "cmp a.txt $REFERENCE_DIR/a.txt"}


def _dialogue(repo: Repo, monkeypatch: pytest.MonkeyPatch, **simulation: Any) -> dict[str, Any]:
    repo.file("tasks/solution/a.txt", "hello\n")
    repo.script(
        "talk",
        *STEPS,
        success_criteria=[CHECK],
        reference={"directory": "solution"},
        simulation={"enabled": True, "persona": "p", "goal": "g", **simulation},
    )
    with FakeAnthropic([], user_turns=[say("Go on."), say("Once more."), say("<<<END>>>")]) as fake:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-simulated-user")
        repo.run()
        record = repo.record("talk")
        record["asked"] = len(fake.requests)
    return record


def test_the_dialogue_ends_as_soon_as_the_criteria_pass(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    record = _dialogue(repo, monkeypatch, check_criteria="every_turn", stop_on_criteria_pass=True)
    assert record["status"] == "passed"
    assert record["dialogue"]["ended"] == "criteria_passed"
    assert [each["status"] for each in record["dialogue"]["between_turns"]] == ["failed", "passed"]
    assert record["asked"] == 1


def test_without_the_stop_the_verdict_is_that_of_the_end(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    record = _dialogue(repo, monkeypatch, check_criteria="both")
    assert record["status"] == "failed"
    assert [each["status"] for each in record["dialogue"]["between_turns"]] == ["failed", "passed", "failed"]
    assert record["dialogue"]["ended"] == "stop_token"


def test_by_default_nothing_is_judged_before_the_end(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    record = _dialogue(repo, monkeypatch)
    assert (record["status"], record["dialogue"]["between_turns"]) == ("failed", [])


def test_calls_before_and_after_are_all_counted(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    call = {"bash": "relctl push a && relctl other; relctl push b"}
    twice = {"type": "cli_called", "description": "twice", "tool": "relctl", "verb": "push", "min_count": 4}
    repo.script(
        "calls",
        call,
        {"say": "Done once."},
        {"listen": True},
        call,
        {"say": "Done twice."},
        success_criteria=[{**twice, "max_count": 4}],
        sandbox={"record_cli": [{"tool": "relctl", "responses": [{"when": {"verb": "push"}, "stdout": "ok\n"}]}]},
        simulation={"enabled": True, "persona": "p", "goal": "g", "check_criteria": "both"},
    )
    with FakeAnthropic([], user_turns=[say("Again."), say("<<<END>>>")]) as fake:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-simulated-user")
        repo.run()
    record = repo.record("calls")
    assert [each["status"] for each in record["dialogue"]["between_turns"]] == ["failed", "passed"]
    assert (record["status"], len(record["invocations"]["calls"])) == ("passed", 6)
