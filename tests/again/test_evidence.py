"""Parts of the record from which secrets are left out cannot be looked at; all other parts can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.again.evidence import known_log, known_trajectory, with_gaps
from pytest_codereval.again.workspace import Gap
from pytest_codereval.criteria.contract import Evidence
from pytest_codereval.criteria.judges.desk import JudgeDesk
from pytest_codereval.errors import JudgingError
from pytest_codereval.recorder.invocation import Invocation, InvocationLog
from pytest_codereval.redaction import hide
from pytest_codereval.sandbox.workspace import Workspace
from pytest_codereval.store.reader import StoredRecord
from pytest_codereval.store.record import describe_invocations, describe_trajectory, redacted
from pytest_codereval.trajectory.model import Message, ToolCall, Trajectory

SECRET = "s3cr3t-of-the-stored-evidence"


def stored(trajectory: Trajectory, log: InvocationLog) -> StoredRecord:
    hide(SECRET)
    content = {
        "trajectory": describe_trajectory(trajectory),
        "invocations": describe_invocations(log),
        "redacted": redacted(trajectory, log),
    }
    return StoredRecord(Path("record.json"), content)


def trajectory(command: str, answer: str, attempt: int = 1) -> Trajectory:
    call = ToolCall("1", "Bash", {"command": command}, "success", attempt=attempt)
    return Trajectory((call, Message("assistant", answer, attempt=attempt)), attempt=1)


def test_what_holds_no_secret_is_known() -> None:
    record = stored(trajectory("ls", "done"), InvocationLog((Invocation(1, "uip", ("a",)),)))
    known = known_trajectory(record)
    assert known is not None
    assert [call.parameters for call in known.tool_calls] == [{"command": "ls"}]
    assert known.final_answer == known.last_reply == "done"
    assert known_log(record).invocations[0].argv == ("a",)


@pytest.mark.parametrize("where", ["command", "answer", "argv"])
def test_where_a_secret_was_nothing_is_known(where: str) -> None:
    texts = {name: SECRET if name == where else "x" for name in ("command", "answer", "argv")}
    log = InvocationLog((Invocation(1, "uip", (texts["argv"],)),), frozenset({"uip"}))
    record = stored(trajectory(texts["command"], texts["answer"]), log)
    known, calls = known_trajectory(record), known_log(record)
    assert known is not None
    looks = {
        "command": lambda: known.tool_calls,
        "answer": lambda: known.final_answer + known.last_reply,
        "argv": lambda: calls.invocations,
    }
    for name, look in looks.items():
        if name == where:
            with pytest.raises(JudgingError, match="secrets are left out"):
                look()
        else:
            assert look()
    assert calls.recorded_tools == {"uip"}


def test_secrets_of_an_earlier_attempt_do_not_matter() -> None:
    told = trajectory(SECRET, SECRET, attempt=2)
    assert redacted(told, InvocationLog()) == []


def test_where_the_workspace_has_a_gap_no_command_and_no_agent_that_judges_looks_around(tmp_path: Path) -> None:
    never: Any = None
    desk = JudgeDesk(never, tmp_path, never, make_room=never)
    whole = Evidence(Workspace(tmp_path), None, InvocationLog(), never, desk=desk)
    assert with_gaps(whole, ()) is whole
    partly = with_gaps(whole, [Gap("big.bin", "larger than 1 bytes")])
    assert partly.desk is not None
    assert partly.desk.make_room is not None
    with pytest.raises(JudgingError, match="larger than 1 bytes"):
        partly.desk.make_room(partly)
    with pytest.raises(JudgingError, match="larger than 1 bytes"):
        partly.shell("true", timeout=1)
    assert with_gaps(Evidence(Workspace(tmp_path), None, InvocationLog(), never), [Gap("x", "y")]).desk is None
