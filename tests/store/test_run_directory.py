"""Records on disk: whole or not at all, and nothing lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_codereval.errors import CoderEvalError
from pytest_codereval.redaction import hide
from pytest_codereval.store.ledger import Ledger
from pytest_codereval.store.record import read_record
from pytest_codereval.store.run_directory import RunDirectory, write_json

any_text = st.text(st.characters(exclude_categories=()))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.recursive(any_text | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(any_text, inner))
)
def test_what_is_written_is_read_back(tmp_path: Path, content: object) -> None:
    write_json(tmp_path / "record.json", content)
    assert json.loads((tmp_path / "record.json").read_text(encoding="ascii")) == content
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    write_json(tmp_path / "record.json", {"old": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "record.json", {"new": {(1, 2): 3}})
    assert json.loads((tmp_path / "record.json").read_text()) == {"old": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_numbers_that_json_lacks_become_text(tmp_path: Path) -> None:
    write_json(tmp_path / "record.json", {"numbers": [float("nan"), float("inf"), 1.5]})
    assert json.loads((tmp_path / "record.json").read_text()) == {"numbers": ["nan", "inf", 1.5]}


def test_secrets_are_left_out_of_keys_too_and_no_value_is_lost(tmp_path: Path) -> None:
    hide("sk-first-secret-of-keys", "sk-other-secret-of-keys")
    content = {"sk-first-secret-of-keys": {"a sk-first-secret-of-keys": 1}, "sk-other-secret-of-keys": 2, "[secret]": 3}
    write_json(tmp_path / "record.json", content)
    assert json.loads((tmp_path / "record.json").read_text()) == {
        "[secret]#2": {"a [secret]": 1},
        "[secret]#3": 2,
        "[secret]": 3,
    }


def test_two_sessions_cannot_share_a_run_directory(tmp_path: Path) -> None:
    first, second = RunDirectory(tmp_path / "run"), RunDirectory(tmp_path / "run")
    first.claim()
    with pytest.raises(CoderEvalError, match="in use by another session"):
        second.claim()
    first.release()
    second.claim()
    second.release()


def test_a_trial_run_again_gets_a_folder_of_its_own(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    names = [directory.new_trial("task", label).name for label in ("", "", "row-1", "row-1")]
    assert names == ["trial", "trial.again2", "row-1", "row-1.again2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a readable trial record"),
        ("[]", "not a trial record"),
        ('{"format": "codereval-trial", "version": 99}', "record version 99, expected 1"),
    ],
)
def test_a_foreign_record_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(CoderEvalError, match=message):
        read_record(tmp_path / "record.json")


def test_the_record_of_a_trial_that_died_tells_what_it_surely_spent(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    ledger = Ledger(directory.shared)
    ledger.add("a", "agent", 5, True)
    for name in "ab":
        record = {"status": "error", "trial": {"id": name}}
        directory.mark_active(directory.new_trial(name, ""), record)
    ledger.add("a", "agent", 0.1, True)
    ledger.add("other", "agent", 7, True)
    ledger.add("a", "agent", 0.2, False)
    ledger.add("a", "simulated user", 0.01, True)
    ledger.add("a", "judge", 0.02, True)
    (_, of_a), (_, of_b) = sorted(directory.close_active())
    assert json.loads((tmp_path / "trials/a/trial/record.json").read_text()) == of_a
    told = [(one["usage"]["cost_usd"], one["calls"], one["cost_complete"]) for one in map(_spent, (of_a, of_b))]
    assert told == [(0.3, 2, False), (None, 0, False)]
    assert of_a["simulated_user_spending"]["usage"]["cost_usd"] == 0.01  # type: ignore[index]
    assert of_a["judge_spending"]["usage"]["cost_usd"] == 0.02  # type: ignore[index]


def _spent(record: dict[str, object]) -> Any:
    return record["spending"]


@pytest.mark.parametrize(
    "mark",
    [
        {"folder": "OUTSIDE", "record": {"trial": {"id": "x"}}, "ledger": 0},
        {"folder": "../outside", "record": {"trial": {"id": "x"}}, "ledger": 0},
        {"folder": "trials/../../outside", "record": {"trial": {"id": "x"}}, "ledger": 0},
        {"folder": "trials/link/x", "record": {"trial": {"id": "x"}}, "ledger": 0},
        {"folder": "shared/x", "record": {"trial": {"id": "x"}}, "ledger": 0},
        {"folder": "trials/t/x", "record": 5, "ledger": 0},
        {"folder": 7, "record": {"trial": {"id": "x"}}, "ledger": 0},
        [],
    ],
)
def test_marks_of_a_foreign_run_write_nowhere_else(tmp_path: Path, mark: Any) -> None:
    outside = tmp_path / "outside"
    run = tmp_path / "run"
    (run / "active").mkdir(parents=True)
    (run / "trials").mkdir()
    outside.mkdir()
    (run / "trials" / "link").symlink_to(outside)
    text = json.dumps(mark).replace("OUTSIDE", str(outside))
    (run / "active" / "a.json").write_text(text, encoding="utf-8")
    assert list(RunDirectory(run).close_active()) == []
    assert list(outside.iterdir()) == []
    assert [entry.name for entry in (run / "active").iterdir()] == ["a.unreadable"]
