"""command_executed where it counts calls, commands_efficiency and skill_triggered."""

from __future__ import annotations

import pytest

from pytest_codereval.criteria import skill_triggered
from pytest_codereval.criteria.contract import Evidence, Verdict
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.sandbox.workspace import Workspace
from pytest_codereval.trajectory.model import Trajectory

from .build import call, criterion


def bash(command: str, status: str = "success"):
    return call("Bash", status, command=command)


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "command_executed"},
        {"type": "command_executed", "min_count": 0, "max_count": 0},
        {"type": "commands_efficiency", "expected_commands": 3},
        {"type": "skill_triggered", "skill_name": "s", "expected_skill": ""},
    ],
)
def test_without_a_trajectory_nothing_is_proven(judge, fields):
    judgement = judge(calls=None, **fields)
    assert judgement.score == 0
    assert "no agent" in judgement.reason


@pytest.mark.parametrize(
    ("fields", "score"),
    [
        ({}, 1),
        ({"min_count": 8}, 0.5),
        ({"min_count": 0}, 1),
        ({"command_pattern": "pytest"}, 1),
        ({"command_pattern": "pytest", "min_count": 2}, 0.5),
        ({"command_pattern": "nothing"}, 0),
        ({"command_pattern": "nothing", "min_count": 0, "max_count": 0}, 1),
        ({"command_pattern": "pytest", "min_count": 0, "max_count": 0}, 0),
        ({"command_pattern": "git|pytest", "min_count": 1, "max_count": 2}, 1),
        ({"command_pattern": "git|pytest", "min_count": 3, "max_count": 4}, 0),
        ({"tool_name": "Write"}, 1),
        ({"tool_name": "write"}, 0),
        ({"tool_name": "Bash", "min_count": 3}, 1),
        ({"tool_name": "Bash", "require_success": True, "min_count": 3}, pytest.approx(1 / 3)),
        ({"command_pattern": r'"file_path":\s*"[^"]*app', "tool_name": "Write"}, 1),
        ({"command_pattern": "git", "exclude_pattern": "--help"}, 0),
        ({"exclude_pattern": "."}, 0),
        ({"command_pattern": "^git commit -m a message$"}, 0),
        ({"command_pattern": "-m 'a message'"}, 0),
    ],
)
def test_command_executed_counts_matching_calls(judge, fields, score):
    calls = [
        bash("git status --help"),
        bash("python -m pytest", "error"),
        bash("ls", "unknown"),
        call("Write", file_path="src/app.py", content="x"),
    ]
    assert judge(type="command_executed", calls=calls, **fields).score == score


def test_command_is_searched_raw_and_without_its_quotes(judge):
    calls = [bash("/bin/bash -lc \"git commit -m 'a message'\"")]
    for pattern in ("^git commit -m a message$", "-m 'a message'", "bash -lc"):
        assert judge(type="command_executed", calls=calls, command_pattern=pattern).score == 1


def test_details_name_the_calls(judge):
    calls = [bash("git 0"), call("Read", file_path="a")]
    counted = judge(type="command_executed", calls=calls)
    assert "2 of 2 tool calls match" in counted.reason
    assert 'Read [success] {"file_path": "a"}' in counted.details
    missed = judge(type="command_executed", calls=calls, command_pattern="hg")
    assert "Bash [success] git 0" in missed.details


@pytest.mark.parametrize(("count", "score"), [(0, 0), (1, 1), (10, 1), (20, 0.5), (40, 0.25)])
def test_commands_efficiency(judge, count, score):
    calls = [bash("ls")] * count
    assert judge(type="commands_efficiency", expected_commands=10, calls=calls).score == score


@pytest.mark.parametrize(
    ("used", "skill_call"),
    [
        (True, call("Skill", skill="pdf")),
        (True, call("Skill", skill="plugin:pdf")),
        (True, call("Read", file_path="/home/me/skills/pdf/SKILL.md")),
        (True, call("Bash", command=r"type C:\box\skills\pdf\SKILL.md")),
        (True, call("Bash", command=r"sh -c \"type C:\\box\\skills\\pdf\\SKILL.md\"")),
        (False, call("Skill", skill="pdf-extra")),
        (False, call("Skill", skill="pdf:other")),
        (False, call("Task", skill="pdf")),
        (False, call("Read", file_path="skills/pdf-extra/SKILL.md")),
        (False, call("Read", file_path="skills/pdf")),
        (False, call("Read", file_path=["skills/pdf/SKILL.md"])),
        (True, call("Bash", command=["bash", "-lc", "cat .claude/skills/pdf/SKILL.md"])),
        (True, call("Bash", command="cd .claude/skills/pdf && cat SKILL.md")),
        (True, call("Bash", command="D=skills/pdf; cat 'my dir' $D/SKILL.md")),
        (True, call("Bash", command="python3 -c \"print(open('skills/pdf/SKILL.md').read())\"")),
        (True, call("Bash", command="if then ( cat skills/pdf/SKILL.md")),
        (False, call("Bash", command="cd .claude/skills/pdf && cd .. && ls")),
        (False, call("Bash", command="echo 'do not read skills/pdf/SKILL.md'")),
        (False, call("Bash", command="git commit -m 'mend skills/pdf/SKILL.md'")),
        (False, call("Bash", command="true || cat skills/pdf/SKILL.md # skills/pdf/x")),
        (False, call("Bash", command="ls", description="read skills/pdf/SKILL.md")),
        (False, call("TodoWrite", todos="read skills/pdf/SKILL.md")),
        (False, call("Write", file_path="notes.md", content="see skills/pdf/SKILL.md")),
        (False, call("Read", file_path=".claude/otherskills/pdf/x")),
    ],
)
def test_skill_triggered(judge, used, skill_call):
    calls = [bash("ls"), skill_call]
    expected = judge(type="skill_triggered", skill_name="pdf", expected_skill="pdf", calls=calls)
    unexpected = judge(type="skill_triggered", skill_name="pdf", expected_skill="", calls=calls)
    assert (expected.score, unexpected.score) == ((1, 0) if used else (0, 1))
    assert (expected.label, expected.expected_label) == ("yes" if used else "no", "yes")
    assert (unexpected.label, unexpected.expected_label) == ("yes" if used else "no", "no")


def test_skill_that_was_used_is_certain_while_the_agent_works(workspace):
    used, other = call("Skill", skill="pdf"), bash("ls")
    for expected, verdict in (("pdf", Verdict.PASS), ("", Verdict.FAIL), ("docx", Verdict.FAIL)):
        model = criterion(type="skill_triggered", skill_name="pdf", expected_skill=expected)
        for calls, live in (([], None), ([other], None), ([other, used], verdict), ([used, other], verdict)):
            evidence = Evidence(Workspace(workspace), Trajectory(tuple(calls)), InvocationLog(), shell=no_shell)
            assert skill_triggered.live_verdict(model, evidence) is live


def no_shell(command, *, timeout, shims=False):
    raise AssertionError("nothing is run")


def endless():
    value = {}
    value["again"] = value
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "odd", [endless(), deep(), {1: {(2,): 3}}, {"n": 10**5000}], ids=["endless", "deep", "key", "n"]
)
@pytest.mark.parametrize("bounds", [{}, {"min_count": 0, "max_count": 0}])
def test_parameters_that_are_no_json_are_a_fail(judge, odd, bounds):
    asked = {"type": "command_executed", "command_pattern": "x", "tool_name": "Odd"}
    judgement = judge(calls=[call("Odd", value=odd)], **asked, **bounds)
    assert judgement.score == 0
    assert "the parameters of a call of Odd cannot be written as JSON: " in judgement.details
    assert judge(type="command_executed", calls=[call("Odd", value=odd)]).score == 1
    assert judge(type="skill_triggered", calls=[call("Odd", v=odd)], skill_name="s", expected_skill="").score == 1
