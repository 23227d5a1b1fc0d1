"""Leaks in sessions: record, summary, terminal and JUnit tell them; no verdict changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..plugin.conftest import PASS, Repo

CANARY = "codereval-canary-" + "3" * 32

CONFTEST = '''
"""An agent that reads a file of the host, as one that no sandbox holds."""

from typing import Literal

from pytest_codereval import AgentConfig, AgentKind, Message, ToolCall


class ReaderConfig(AgentConfig):
    type: Literal["reader"] = "reader"
    reads: str


class Reader:
    def start(self, job):
        self.job = job

    def run(self, prompt, deadline):
        path = self.job.task_folder / self.job.config.reads
        self.job.sandbox.write_file("a.txt", b"mine")
        yield ToolCall("1", "Read", {"file_path": path.name}, "success", path.read_text())
        yield Message("assistant", "done")

    def stop(self):
        return ()


def pytest_codereval_agents(config):
    return [AgentKind("reader", Reader, ReaderConfig, provider=None)]
'''


@pytest.fixture
def repo(pytester: pytest.Pytester) -> Repo:
    made = Repo(pytester)
    made.file("conftest.py", CONFTEST)
    made.file("tasks/grade/check.py", f"# {CANARY}\nassert True\n")
    made.file("tasks/open.md", "nothing to hide\n")
    return made


def reading(name: str, **fields: Any) -> dict[str, Any]:
    return {"agent": {"type": "reader", "reads": name}, "success_criteria": [{**PASS, "path": "a.txt"}], **fields}


def test_leaks_are_told_everywhere_and_change_no_verdict(repo: Repo) -> None:
    repo.task("cheat", **reading("grade/check.py"))
    repo.task("honest", **reading("open.md"))
    repo.task("fails", **reading("grade/check.py", success_criteria=[{**PASS, "path": "missing"}]))
    repo.script("errs", {"write": {"path": "a.txt", "content": CANARY}}, {"crash": "gone"})
    repo.task("told", **reading("grade/check.py", initial_prompt=f"what is {CANARY}?"))
    result = repo.run("-n", "2")
    result.assert_outcomes(passed=3, failed=1, errors=1)
    expected = {
        "cheat": ("passed", "tainted"),
        "honest": ("passed", "clean"),
        "fails": ("failed", "tainted"),
        "errs": ("error", "tainted"),
        "told": ("passed", "clean"),
    }
    records = {name: repo.record(name) for name in expected}
    assert {name: (each["status"], each["leaks"]["state"]) for name, each in records.items()} == expected
    assert records["cheat"]["leaks"]["findings"][0]["where"] == "tool call 1 (Read), output"
    assert properties(repo) == {name: state for name, (_, state) in expected.items()}
    said = result.stdout.str()
    assert "grading material seen by agents" in said
    assert "tainted: cheat: tool call 1 (Read), output: codereval-canary-3333... of the " in said
    assert "warning: told: codereval-canary-3333... shows nothing: the task tells it to the agent" in said
    assert "honest: " not in said
    assert CANARY not in said


def properties(repo: Repo) -> dict[str, str | None]:
    """The property `codereval.leaks` of each testcase that has it."""
    return {
        str(case.get("name")): found.get("value")
        for case in repo.suite().iter("testcase")
        for found in case.iter("property")
        if found.get("name") == "codereval.leaks"
    }


def test_without_a_leak_nothing_is_said(repo: Repo) -> None:
    repo.task("honest", **reading("open.md"))
    repo.script("script", {"bash": "ls; echo hi > a.txt"})
    result = repo.run()
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*grading material*")


def test_grading_material_in_the_agents_view_is_an_error_before_it_starts(repo: Repo) -> None:
    repo.file("tasks/template/notes.md", f"see {CANARY}\n")
    template = [{"type": "template_dir", "path": "template"}]
    repo.script("staged", {"bash": "touch a.txt"}, sandbox={"template_sources": template})
    repo.script("copied", {"bash": "touch a.txt"}, pre_run=[{"command": "cp $TASK_DIR/grade/check.py ~/"}])
    repo.run().assert_outcomes(errors=2)
    for name, where in (("staged", "workspace: notes.md"), ("copied", "HOME: check.py")):
        record = repo.record(name)
        assert (record["cause"], record["leaks"]["state"]) == ("configuration", "inconclusive")
        assert where in record["message"]
        assert record["trajectory"] is None


def test_searches_are_counted_and_reading_records_taints(repo: Repo) -> None:
    for name in ("one", "two"):
        repo.script(name, {"bash": f"ls {repo.path}/tasks/ >/dev/null 2>&1; touch a.txt"})
    repo.task("reads", **reading("../run/shared/canary"))
    result = repo.run()
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["inconclusive: 2, such as one: tool call 1 (Bash), input: the path of the*"])
    canary = Path(repo.path, "run", "shared", "canary").read_text().strip()
    assert repo.record("one")["canary"] == canary
    leaks = repo.record("reads")["leaks"]
    assert (leaks["state"], leaks["findings"][0]["what"]) == ("tainted", f"{canary[:21]}... of the run directory")
