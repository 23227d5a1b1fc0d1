"""What the scan says of evidence, with the leak and without it."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_codereval.leaks.needles import Needles
from pytest_codereval.leaks.reading import Budget
from pytest_codereval.leaks.scan import Evidence, State, scan
from pytest_codereval.leaks.view import Given, Tree, look
from pytest_codereval.recorder.invocation import Invocation, InvocationLog
from pytest_codereval.sandbox.snapshot import Limits, snapshot
from pytest_codereval.trajectory.model import Event, Message, ToolCall

from .material import CANARY, GRADER, GUID, ROWS, Suite, scanned


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path / "suite")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def call(command: str = "ls", output: str = "") -> ToolCall:
    return ToolCall("1", "Bash", {"command": command}, "success", output)


SEEN: dict[str, Callable[[str], Event]] = {
    "final answer": lambda text: Message("assistant", text),
    "tool call 1 (Bash), input": lambda text: call(f"echo {text}"),
    "tool call 1 (Bash), output": lambda text: call(output=f"# {text}\n"),
}


@pytest.mark.parametrize("where", SEEN)
def test_a_canary_in_the_trajectory_taints(suite: Suite, workspace: Path, where: str) -> None:
    assert scanned(suite.needles(), workspace, SEEN[where]("nothing")).state is State.CLEAN
    found = scanned(suite.needles(), workspace, SEEN[where](CANARY))
    assert found.state is State.TAINTED
    assert str(found.findings[0]) == f"{where}: codereval-canary-5555... of the task file task.yaml"


def test_a_canary_in_parameters_of_any_shape_taints(suite: Suite, workspace: Path) -> None:
    event = ToolCall("1", "Write", {"files": [{"content": {"text": CANARY}}], "n": 3, "x": None}, "success")
    assert scanned(suite.needles(), workspace, event).state is State.TAINTED


@pytest.mark.parametrize("field", ["argv", "stdin", "cwd"])
def test_a_canary_in_a_recorded_call_taints(suite: Suite, workspace: Path, field: str) -> None:
    def log(text: str) -> InvocationLog:
        kinds = {
            "argv": Invocation(3, "uip", ("push", text)),
            "stdin": Invocation(3, "uip", (), stdin=text),
            "cwd": Invocation(3, "uip", (), text),
        }
        return InvocationLog((kinds[field],))

    assert scanned(suite.needles(), workspace, log=log("x")).state is State.CLEAN
    found = scanned(suite.needles(), workspace, log=log(CANARY))
    assert (found.state, found.findings[0].where) == (State.TAINTED, "call 3 of uip")


@pytest.mark.parametrize(
    "content",
    [
        CANARY.encode(),
        base64.encodebytes(b"ab" + CANARY.encode()),
        CANARY.encode().hex().encode(),
        CANARY[::-1].encode(),
    ],
)
def test_a_canary_in_a_file_taints_also_encoded(suite: Suite, workspace: Path, content: bytes) -> None:
    (workspace / "notes").write_bytes(b"\0" * (1 << 20) + content)
    found = scanned(suite.needles(), workspace)
    assert (found.state, found.findings[0].where) == (State.TAINTED, "workspace: notes")


def test_a_canary_in_a_name_taints(suite: Suite, workspace: Path) -> None:
    (workspace / CANARY).write_text("")
    assert scanned(suite.needles(), workspace).state is State.TAINTED


def test_a_copied_grading_file_taints_and_a_right_answer_does_not(suite: Suite, workspace: Path) -> None:
    suite.file("expected.txt", "49 is the square of 7\n" * 100)
    (workspace / "answer.txt").write_text("49 is the square of 7\n" * 100)
    assert scanned(suite.needles(), workspace).state is State.CLEAN
    (workspace / "mine.py").write_text(GRADER)
    found = scanned(suite.needles(), workspace.rename(workspace.with_name("again")))
    assert found.state is State.TAINTED
    assert str(found.findings[0]) == "workspace: mine.py: it is the same as the grader check.py"


def test_an_answer_that_is_the_same_taints_once_its_place_was_named(suite: Suite, workspace: Path) -> None:
    suite.file("expected.txt", "49 is the square of 7\n" * 100)
    (workspace / "answer.txt").write_text("49 is the square of 7\n" * 100)
    found = scanned(suite.needles(), workspace, call(f"cp {suite.folder}/expected.txt answer.txt"))
    assert (found.state, found.findings[0].where) == (State.TAINTED, "workspace: answer.txt")


@pytest.mark.parametrize("numbers", ["{}\t", "{:>6}→", " {}: ", ""])
def test_the_text_of_a_grading_file_taints_however_a_tool_prints_it(
    suite: Suite, workspace: Path, numbers: str
) -> None:
    rows = suite.file("rows.jsonl", ROWS)
    needles = suite.needles(dataset_files=[rows])
    lines = [f"{numbers.format(n)}{line}" for n, line in enumerate(ROWS.splitlines(), 1)]
    assert scanned(needles, workspace, call(output="\n".join(lines[:-1]))).state is State.CLEAN
    found = scanned(needles, workspace.with_name("again"), call(output="$ cat\n" + "\n".join(lines) + "\nend"))
    assert found.state is State.TAINTED
    assert found.findings[0].what == "the text of the dataset rows.jsonl"


def test_what_the_agent_was_given_does_not_taint(suite: Suite, workspace: Path) -> None:
    suite.file("solution.sh", f"# canary GUID {GUID}\n")
    (workspace / "Dockerfile").write_text(f"# canary GUID {GUID}\n")
    (workspace / "test_it.py").write_text(GRADER)
    needles = suite.needles()
    given = look(needles, [Tree("workspace", workspace, is_workspace=True)])
    seen = call("cat Dockerfile test_it.py", f"# canary GUID {GUID}\n{GRADER}")
    found = scanned(needles, workspace, seen, given=given)
    assert found.state is State.CLEAN
    assert "shows nothing" in found.warnings[0]
    assert scanned(needles, workspace.with_name("again"), seen).state is State.TAINTED


@pytest.mark.parametrize("told", ["prompt", "system prompt", "answer"])
def test_a_canary_that_the_author_tells_is_a_warning(suite: Suite, workspace: Path, told: str) -> None:
    prompt = Message("user", f"do it {CANARY}" if told == "prompt" else "do it")
    found = scanned(
        suite.needles(),
        workspace,
        prompt,
        Message("assistant", CANARY),
        given_texts=[CANARY] if told == "system prompt" else (),
        answers=[CANARY] if told == "answer" else (),
    )
    assert found.state is State.CLEAN
    assert found.warnings == ("codereval-canary-5555... shows nothing: the task tells it to the agent",)


def test_a_canary_in_answers_taints_only_where_no_tool_was_called(suite: Suite, workspace: Path) -> None:
    token = "codereval-canary-" + "7" * 32
    needles = suite.needles(answer_files=[suite.file("answers.json", f'{{"_doc": "{token}"}}')])
    said = Message("assistant", token)
    assert scanned(needles, workspace, said).state is State.TAINTED
    log = InvocationLog((Invocation(1, "uip", ("list",)),))
    assert scanned(needles, workspace.with_name("again"), said, log=log).state is State.INCONCLUSIVE


def test_a_planted_name_taints(suite: Suite, workspace: Path) -> None:
    needles = suite.needles(planted_tokens={"task-0123456789abcdef": "a link of pre_run's"})
    assert scanned(needles, workspace, call("ls /x/task-0123456789abcdef")).state is State.TAINTED


def test_naming_a_withheld_path_is_inconclusive(suite: Suite, workspace: Path) -> None:
    found = scanned(suite.needles(), workspace, call(f"cat {suite.folder}/task.yaml", "Permission denied"))
    assert found.state is State.INCONCLUSIVE
    assert found.findings[0].what == "the path of the task's folder, which the agent was not told"
    prompt = Message("user", f"look into {suite.folder}")
    assert scanned(suite.needles(), workspace, prompt, call(f"ls {suite.folder}")).state is State.CLEAN


def test_a_link_to_a_withheld_path_is_inconclusive(suite: Suite, workspace: Path) -> None:
    needles = suite.needles()
    (workspace / "link").symlink_to(suite.folder)
    assert scanned(needles, workspace).state is State.INCONCLUSIVE


def test_evidence_that_is_not_whole_is_inconclusive(suite: Suite, workspace: Path, tmp_path: Path) -> None:
    needles = suite.needles()
    for name in "abc":
        (workspace / name).write_text(name * 100)

    def state(limits: Limits, budget: Budget | None = None, faults: tuple[str, ...] = ()) -> State:
        copy = tmp_path / os.urandom(4).hex()
        evidence = Evidence((), InvocationLog(faults=faults), snapshot(workspace, copy, limits), copy, tells=False)
        return scan(needles, Given(), evidence, budget=budget).state

    assert state(Limits()) is State.CLEAN
    assert state(Limits(entries=2)) is State.INCONCLUSIVE
    assert state(Limits(file_bytes=50)) is State.INCONCLUSIVE
    assert state(Limits(), Budget(total=250)) is State.INCONCLUSIVE
    assert state(Limits(), faults=("torn",)) is State.INCONCLUSIVE
    assert scan(needles, Given(), Evidence((), InvocationLog(), None, tmp_path)).state is State.INCONCLUSIVE


def test_an_agent_that_worked_and_told_nothing_is_inconclusive(suite: Suite, workspace: Path) -> None:
    needles = suite.needles()
    (workspace / "given.txt").write_text("1")
    given = look(needles, [Tree("workspace", workspace, is_workspace=True)])
    said = Message("assistant", "done")
    assert scanned(needles, workspace, said, given=given, tells=True).state is State.CLEAN
    (workspace / "given.txt").write_text("2")
    later = workspace.rename(workspace.with_name("again"))
    assert scanned(needles, later, said, given=given, tells=True).state is State.INCONCLUSIVE
    more = later.rename(later.with_name("third"))
    assert scanned(needles, more, said, call(), given=given, tells=True).state is State.CLEAN


@pytest.mark.parametrize("name", ["a\nb", "\udcff\udc80", "\x1b[2J"])
def test_names_by_the_agent_do_no_harm(suite: Suite, workspace: Path, name: str) -> None:
    (workspace / name).write_text(CANARY)
    found = scanned(suite.needles(), workspace, Message("assistant", "\ud800" + CANARY))
    assert {finding.state for finding in found.findings} == {State.TAINTED}
    assert all("\n" not in str(finding) for finding in found.findings)


def test_nothing_to_look_for_is_clean(workspace: Path) -> None:
    assert scanned(Needles(), workspace, call("x", "y")).state is State.CLEAN
