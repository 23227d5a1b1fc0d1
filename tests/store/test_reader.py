"""What a record holds comes back as it was."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_codereval.errors import Cause, CoderEvalError
from pytest_codereval.recorder.invocation import Invocation, InvocationLog
from pytest_codereval.recorder.options import option_table
from pytest_codereval.sandbox.snapshot import File, Manifest, Skipped
from pytest_codereval.store.reader import StoredRun, TrialKey, UnreadableRecord, read
from pytest_codereval.store.record import FORMAT, VERSION, describe_invocations, describe_trajectory
from pytest_codereval.store.run_directory import RunDirectory, write_json
from pytest_codereval.trajectory.model import Message, ModelCall, ModelFault, ToolCall, Trajectory, Usage

TEXT = st.text(st.characters(codec=None), max_size=20)
COUNT = st.none() | st.integers(0, 10**6)
TIME = st.floats(0, 10**10)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
USAGE = st.builds(Usage, COUNT, COUNT, COUNT, COUNT, st.none() | TIME, st.booleans())
ATTEMPT = st.integers(1, 3)
EVENT = st.one_of(
    st.builds(
        ToolCall,
        TEXT,
        TEXT,
        st.dictionaries(TEXT, JSON, max_size=3),
        st.sampled_from(["success", "error", "unknown"]),
        TEXT,
        st.none() | st.integers(0, 255),
        TIME,
        st.none() | TIME,
        ATTEMPT,
        st.none() | TEXT,
    ),
    st.builds(Message, st.sampled_from(["user", "assistant"]), TEXT, TIME, ATTEMPT),
    st.builds(
        ModelCall, TEXT, st.none() | TEXT, USAGE, st.booleans(), TIME, st.none() | TIME, ATTEMPT, st.none() | TEXT
    ),
    st.builds(
        ModelFault,
        TEXT,
        st.sampled_from(Cause),
        TEXT,
        st.none() | st.integers(100, 599),
        st.none() | TIME,
        TIME,
        ATTEMPT,
    ),
)


def stored(folder: Path, **content: Any) -> Path:
    trial = {"task_id": "t", "row_id": None, "variant": None, "repeat": 1, **content.pop("trial", {})}
    path = folder / "record.json"
    folder.mkdir(parents=True, exist_ok=True)
    basics = {"format": FORMAT, "version": VERSION, "trial": trial, "status": "passed", "cause": None}
    write_json(path, {**basics, **content})
    return path


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(events=st.lists(EVENT, max_size=4), usage=USAGE, turns=st.integers(0, 9), attempt=ATTEMPT)
def test_a_trajectory_comes_back_with_every_event(
    tmp_path: Path, events: list[Any], usage: Usage, turns: int, attempt: int
) -> None:
    trajectory = Trajectory(tuple(events), usage, turns, attempt)
    assert read(stored(tmp_path / "t", trajectory=describe_trajectory(trajectory))).trajectory == trajectory


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    calls=st.lists(
        st.builds(
            Invocation,
            st.integers(1, 99),
            TEXT,
            st.lists(TEXT, max_size=3).map(tuple),
            TEXT,
            TIME,
            st.none() | TIME,
            st.none() | st.integers(0, 255),
            TEXT,
            st.none() | TEXT,
        ),
        max_size=3,
    ),
    names=st.frozensets(TEXT, max_size=2),
)
def test_recorded_calls_come_back_with_every_field(
    tmp_path: Path, calls: list[Invocation], names: frozenset[str]
) -> None:
    log = InvocationLog(
        invocations=tuple(calls),
        recorded_tools=names,
        faults=("lost",),
        builtin_tools=frozenset({"printf"}),
        options={"uip": option_table(((("output", "o"), 1), (("v",), 0)))},
        unmatched=(3, 5),
        shim_dir="/somewhere/bin",
        uncovered_tools=names,
    )
    assert all(getattr(log, field.name) for field in dataclasses.fields(log) if field.name not in _MAYBE_EMPTY)
    assert read(stored(tmp_path / "t", invocations=describe_invocations(log))).log == log


_MAYBE_EMPTY = {"invocations", "recorded_tools", "uncovered_tools"}


def test_what_the_workspace_held_comes_back(tmp_path: Path) -> None:
    manifest = Manifest(
        (File("odd \udcff", 3, 0o640, "ab", redacted=True),),
        ("link",),
        (Skipped("big", "larger than 1 bytes"),),
        True,
        {"closed": 0o700},
        {"here": "/root/a"},
    )
    found = read(stored(tmp_path / "t", workspace=dataclasses.asdict(manifest), workspace_root="/w"))
    assert found.manifest == manifest
    assert found.workspace_root == "/w"
    assert {field.name for field in dataclasses.fields(manifest)} == set(found.content["workspace"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"version": 99}, "record version 99"),
        ({"format": "other"}, "not a trial record"),
        ({"trial": None}, "its trial is not as a record has it"),
        ({"status": "splendid"}, "its status is not as a record has it"),
        ({"trial": {"task_id": "t", "row_id": ["x"], "repeat": 1}}, "its trial is not as a record has it"),
        ({"trial": {"task_id": "t", "row_id": None, "repeat": 1e999}}, "its trial is not as a record has it"),
        ({"spending": "much"}, "its content is not as a record has it"),
        ({"redacted": 5}, "its content is not as a record has it"),
        ({"workspace": []}, "its workspace is not as a record has it"),
    ],
)
def test_another_version_or_nonsense_is_told_with_the_path(tmp_path: Path, content: dict[str, Any], said: str) -> None:
    path = stored(tmp_path / "t")
    path.write_text(json.dumps(json.loads(path.read_text()) | content))
    with pytest.raises(CoderEvalError, match=said) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_a_torn_record_and_a_torn_part_are_errors(tmp_path: Path) -> None:
    path = stored(tmp_path / "t", trajectory={"events": [{"kind": "Dance"}], "usage": {}, "turns": 0, "attempt": 1})
    with pytest.raises(CoderEvalError, match="its trajectory is not as a record has it"):
        _ = read(path).trajectory
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(CoderEvalError, match="not a readable trial record"):
        read(path)
    path.write_text("[" * 200_000)
    with pytest.raises(CoderEvalError, match="its text is not as a record has it"):
        read(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CoderEvalError, match="not a readable trial record"):
        read(path)


def test_nothing_is_read_through_a_link(tmp_path: Path) -> None:
    path = stored(tmp_path / "elsewhere")
    (tmp_path / "run" / "trials" / "t").mkdir(parents=True)
    (tmp_path / "run" / "trials" / "t" / "trial").symlink_to(path.parent)
    with pytest.raises(CoderEvalError, match="a link"):
        StoredRun(tmp_path / "run").find(TrialKey("t", None, None, 1), "trial")
    (tmp_path / "run" / "trials" / "u").symlink_to(tmp_path)
    with pytest.raises(CoderEvalError, match="a link"):
        read(tmp_path / "run" / "trials" / "u" / "elsewhere" / "record.json")


@pytest.mark.parametrize("name", ["trials", "active", "shared", "earlier", "lock", "run.json", "shared/ledger.jsonl"])
def test_a_run_directory_is_made_of_no_links_and_no_pipes(tmp_path: Path, name: str) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    for path in (run / "trials", run / "shared", elsewhere):
        path.mkdir(parents=True)
    if (run / name).is_dir():
        (run / name).rmdir()
    if name != "trials":
        os.mkfifo(run / name)
        with pytest.raises(CoderEvalError, match="neither a file nor a folder"):
            StoredRun(run)
        (run / name).unlink()
    (run / name).symlink_to(elsewhere)
    with pytest.raises(CoderEvalError, match="a link"):
        StoredRun(run)


def test_of_several_records_of_a_trial_that_of_the_item_is_found(tmp_path: Path) -> None:
    trials = tmp_path / "trials" / "t"
    stored(trials / "trial", trial={"item": "a.py::one"})
    stored(trials / "trial.again2", trial={"item": "a.py::two"})
    stored(trials / "renamed", trial={"row_id": "x", "repeat": 2})
    run = StoredRun(tmp_path)
    key = TrialKey("t", None, None, 1)
    found = run.find(key, "trial", "a.py::two")
    assert found is not None
    assert found.folder.name == "trial.again2"
    with pytest.raises(CoderEvalError, match="2 records of this trial"):
        run.find(key, "trial", "b.py::three")
    moved = run.find(TrialKey("t", "x", None, 2), "x-r2")
    assert moved is not None
    assert moved.folder.name == "renamed"
    assert run.find(TrialKey("t", None, None, 9), "trial-r9") is None


def test_an_item_has_its_own_trial_whatever_became_of_that_of_another(tmp_path: Path) -> None:
    trials, key = tmp_path / "trials" / "t", TrialKey("t", None, None, 1)
    stored(trials / "trial", trial={"item": "sub/test_a.py::one"})
    run = StoredRun(tmp_path)
    for item in ("sub/test_a.py::one", "test_a.py::one", "repo/sub/test_a.py::one"):
        assert run.find(key, "trial", item, of_others=False) is not None
    for item in ("sub/test_a.py::two", "sub/t.yaml::t"):
        assert run.find(key, "trial", item, of_others=False) is None
        assert run.find(key, "trial", item) is not None
    torn = stored(trials / "trial.again2")
    torn.write_text("{")
    assert run.find(key, "trial", "sub/test_a.py::one", of_others=False) is not None
    with pytest.raises(UnreadableRecord) as caught:
        run.find(key, "trial", "sub/test_a.py::two", of_others=False)
    assert caught.value.path == torn
    stored(trials / "trial", trial={"item": "tasks/old.yaml::t"})
    torn.unlink()
    assert run.find(key, "trial", "tasks/new.yaml::t", of_others=False) is not None


def test_a_resumed_run_keeps_its_trials_and_what_was_spent(tmp_path: Path) -> None:
    first = RunDirectory(tmp_path / "run")
    first.claim()
    folder = first.new_trial("t", "")
    (first.shared / "ledger.jsonl").write_text("spent")
    first.write_session({"exit_status": 1})
    first.release()
    again = RunDirectory(tmp_path / "run")
    again.claim(resumed=True)
    assert folder.is_dir()
    assert (again.shared / "ledger.jsonl").read_text() == "spent"
    assert not (again.path / "run.json").exists()
    assert again.put_trial_aside(folder).is_relative_to(again.path / "earlier" / "trials" / "t")
    assert not folder.exists()
    again.release()
