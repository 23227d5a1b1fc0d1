"""Conversations in whole sessions of pytest: a script that listens, a simulated user on a fake API, and its faults."""

from __future__ import annotations

from typing import Any

import pytest

from ..fakes import FakeAnthropic, fault, say
from ..plugin.conftest import Repo
from .talks import USER

STEPS: list[dict[str, Any]] = [
    {"bash": "echo one > a.txt"},
    {"say": "Which words?"},
    {"listen": True},
    {"bash": "echo two >> a.txt"},
    {"say": "Written. Is that all?"},
    {"listen": True},
    {"bash": "echo three >> a.txt"},
    {"say": "Bye."},
]
THREE = [{"type": "file_contains", "description": "all turns", "path": "a.txt", "includes": ["one\ntwo\nthree\n"]}]


def spent(record: dict[str, Any], key: str) -> tuple[int, int | None, int | None, int | None, int | None]:
    usage = record[key]["usage"]
    return (
        record[key]["calls"],
        usage["input_tokens"],
        usage["cache_creation_tokens"],
        usage["cache_read_tokens"],
        usage["output_tokens"],
    )


def test_three_turns_with_prompts_of_the_task_and_with_a_simulated_user(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.script("scripted", *STEPS, follow_up_prompts=["second", "third"], success_criteria=THREE)
    repo.script("talk", *STEPS, initial_prompt=None, simulation=USER, success_criteria=THREE)
    with FakeAnthropic([say("A greeting."), say("Good morning."), say("Thanks."), say("<<<END>>>")]) as fake:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
        repo.run().assert_outcomes(passed=2)
        ledger = fake.ledger
    record = repo.record("talk")
    assert record["dialogue"]["ended"] == "stop_token"
    assert record["dialogue"]["exchanges"] == [
        {"user": "A greeting.", "agent": "Which words?"},
        {"user": "Good morning.", "agent": "Written. Is that all?"},
        {"user": "Thanks.", "agent": "Bye."},
    ]
    assert len(ledger) == 4
    assert spent(record, "simulated_user_spending") == (
        4,
        sum(charged.input_tokens or 0 for charged in ledger),
        sum(charged.cache_creation_tokens or 0 for charged in ledger),
        sum(charged.cache_read_tokens or 0 for charged in ledger),
        sum(charged.output_tokens or 0 for charged in ledger),
    )
    assert spent(record, "spending")[1:] == (0, 0, 0, 0)
    assert "fake-key" not in (repo.path / "run" / "trials" / "talk" / "trial" / "record.json").read_text()
    record = repo.record("scripted")
    assert record["dialogue"]["ended"] == "prompts_used_up"
    told = [(event["role"], event["text"]) for event in record["trajectory"]["events"] if "role" in event]
    assert [text for role, text in told if role == "user"] == ["greet", "second", "third"]
    assert told[-1] == ("assistant", "Bye.")


def test_when_the_simulated_user_fails_nothing_is_judged(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    starter = {"type": "starter_files", "files": [{"path": "there.txt", "content": "x"}]}
    task = {
        "initial_prompt": None,
        "simulation": USER,
        "sandbox": {"template_sources": [starter]},
        "success_criteria": [{"type": "file_exists", "description": "holds at any time", "path": "there.txt"}],
    }
    repo.script("first", *STEPS, **task)
    repo.script("third", *STEPS, **task)
    with FakeAnthropic([fault("refusal"), say("go on"), say("go on"), fault("refusal")]) as fake:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
        result = repo.run()
    result.assert_outcomes(errors=2)
    cases = repo.cases()
    assert (cases.pop("first"), cases.pop("third")) == ("error", "error")
    assert set(cases.values()) <= {"skipped"}
    for name, turn in (("first", 1), ("third", 3)):
        result.stdout.fnmatch_lines([f"*message {turn} of the simulated user: *refusal*"])
        record = repo.record(name)
        assert (record["status"], record["cause"]) == ("error", "simulated_user")
        assert [criterion["verdict"] for criterion in record["criteria"]] == ["not_evaluated"]
        assert len(record["dialogue"]["exchanges"]) == turn - 1
        assert record["dialogue"]["ended"] == "fault"
