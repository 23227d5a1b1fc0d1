"""The comparison with recorded behaviour: what it finds, what it lets pass, and that its rules are written down."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .kinds import RUNNERS
from .outcome import Outcome, agrees
from .rules import RULES, justification

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "vectors"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="no recorded vectors here")


def compare(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    return subprocess.run(
        [sys.executable, "-m", "tests.vectors", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def write(directory: Path, name: str, *vectors: dict[str, Any]) -> None:
    lines = "".join(json.dumps(vector) + "\n" for vector in vectors)
    (directory / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def judged(kind: str, vector: dict[str, Any]) -> tuple[bool, str | None]:
    """Return whether we agree with a vector, and the rule that explains it if not."""
    outcome = RUNNERS[kind](vector)
    if agrees(vector, outcome):
        return True, None
    return False, justification(kind, vector, outcome)


@needs_shared
def test_no_difference_is_unexplained():
    done = compare(SHARED)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.search(r"vectors: agree (\d+) of (\d+), justified (\d+), unexplained 0\n\Z", done.stdout)
    assert counts
    agree, total, justified = map(int, counts.groups())
    assert agree + justified == total
    compared = sum(
        len(path.read_text(encoding="utf-8").splitlines()) for path in SHARED.glob("*.jsonl") if path.stem in RUNNERS
    )
    assert total == compared > 1000
    assert agree > 0.95 * total
    assert done.stdout.count("; justified: ") == justified


@needs_shared
def test_only_and_skip_choose_files():
    one = compare(SHARED, "--only", "is_number", "--only", "file_check.jsonl")
    assert one.returncode == 0
    assert one.stdout == (
        "file_check: 7 of 7 agree\nis_number: 8 of 8 agree\nvectors: agree 15 of 15, justified 0, unexplained 0\n"
    )
    rest = compare(SHARED, "--skip", "model_accept", "--skip", "cli_called")
    assert compare(SHARED, "--skip", "no_such_kind").returncode == 2
    assert "model_accept" not in rest.stdout
    assert "cli_called" not in rest.stdout
    assert "json_check: " in rest.stdout


def test_difference_is_listed_and_counts(tmp_path):
    write(
        tmp_path,
        "is_number",
        {"id": "good", "text": "1", "expected": {"number": True}},
        {"id": "bad", "text": "x", "expected": {"number": True}},
    )
    write(tmp_path, "something_else", {"id": "x"})
    done = compare(tmp_path)
    assert done.returncode == 1
    assert "is_number: 1 of 2 agree\n" in done.stdout
    assert '  bad: is_number: ours {"number": false}, expected {"number": true}; UNEXPLAINED\n' in done.stdout
    assert "something_else: left out, unknown kind of vectors\n" in done.stdout
    assert done.stdout.endswith("vectors: agree 1 of 2, justified 0, unexplained 1\n")


def test_line_that_is_no_vector_is_unexplained(tmp_path):
    lines = ["{", "[]", "5", '{"id": "x"}', '{"id": "x", "text": "1", "expected": {}}', '{"id": "x", "expected": 1}']
    (tmp_path / "is_number.jsonl").write_text("\n".join(lines))
    done = compare(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("; UNEXPLAINED\n") == len(lines)
    assert done.stdout.endswith("vectors: agree 0 of 6, justified 0, unexplained 6\n")


def test_nothing_to_compare_is_no_success(tmp_path):
    assert compare(tmp_path).returncode == 2
    write(tmp_path, "is_number", {"id": "a", "text": "1", "expected": {"number": True}})
    done = compare(tmp_path, "--only", "is_numer")
    assert done.returncode == 2
    assert "is_numer" in done.stderr


def test_endless_pattern_of_a_vector_does_not_stop_the_rest(tmp_path):
    write(
        tmp_path,
        "file_matches_regex",
        {
            "id": "endless",
            "criterion": {"type": "file_matches_regex", "path": "a", "pattern": "(a+)+$"},
            "files": {"a": "a" * 40 + "!"},
            "expected": {"score": 0.0, "error": False},
        },
        {
            "id": "fine",
            "criterion": {"type": "file_matches_regex", "path": "a", "pattern": "a+$"},
            "files": {"a": "aa"},
            "expected": {"score": 1.0, "error": False},
        },
    )
    done = compare(tmp_path)
    assert "agree 1 of 2, justified 0, unexplained 1" in done.stdout
    assert "CPU time" in done.stdout


def flipped(expected: dict[str, Any]) -> dict[str, Any] | None:
    """Return another expectation about the same input, or None where there is no plain opposite."""
    other = copy.deepcopy(expected)
    if "score" in other:
        other["score"] = 1 - other["score"] if other["score"] in (0, 1) else 1.0
    elif "accepted" in other:
        other["accepted"] = not other["accepted"]
    elif "match" in other:
        other["match"] = not other["match"]
    elif "number" in other:
        other["number"] = not other["number"]
    elif "text" in other:
        other["text"] = f"{other['text']}!"
    elif "verdict" in other:
        other["verdict"] = "fail" if other["verdict"] == "undecided" else "undecided"
    elif "exit" in other:
        other["exit"] += 1
    elif "index" in other:
        other["index"] = 0 if other["index"] is None else None
    elif "unusable" in other:
        other["unusable"] += 1
    elif "positional" in other:
        other["positional"].append("more")
    else:
        return None
    return other


REFUSALS = ("pattern-compiled-at-load", "path-stays-inside")
"""What both systems refuse in some places and only we in others: the kind of difference, were it one."""


@needs_shared
@pytest.mark.parametrize("kind", sorted(RUNNERS))
def test_no_rule_explains_a_wrong_expectation(kind):
    excused = []
    for line in (SHARED / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines():
        vector = json.loads(line)
        if judged(kind, vector) == (True, None) and (expected := flipped(vector["expected"])):
            agree, rule = judged(kind, {**vector, "expected": expected})
            both_refuse = expected.get("accepted") and rule in REFUSALS
            if (agree or rule is not None) and not both_refuse:
                excused.append((vector["id"], rule))
    assert not excused


def test_every_rule_is_documented_under_its_name():
    page = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE)
    assert sorted(documented) == sorted(rule.name for rule in RULES)


def accepted(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "input": fields, "expected": {"accepted": True, "errors": []}}


def refused(model: str, place: list[str], kind: str = "value_error", **fields: Any) -> dict[str, Any]:
    return {
        "model": model,
        "input": fields,
        "expected": {"accepted": False, "errors": [{"loc": place, "type": kind}]},
    }


def task(**fields: Any) -> dict[str, Any]:
    criteria = [{"type": "file_exists", "path": "a", "description": "d"}]
    return {"task_id": "t", "description": "d", "initial_prompt": "p", "success_criteria": criteria, **fields}


def files(score: float, texts: dict[str, Any], **criterion: Any) -> dict[str, Any]:
    return {"criterion": criterion, "files": texts, "expected": {"score": score, "error": False}}


def assertion(score: float, value: Any, operator: str, expected: Any) -> dict[str, Any]:
    asserted = [{"expression": "v", "operator": operator, "expected": expected}]
    return files(score, {"x": json.dumps({"v": value})}, type="json_check", path="x", assertions=asserted)


def skill(expected: dict[str, Any], status: str | None, tool: str, **parameters: Any) -> dict[str, Any]:
    criterion = {"type": "skill_triggered", "skill_name": "a", "expected_skill": "a"}
    turns = [[{"tool": tool, "parameters": parameters, "status": status}]]
    return {"criterion": criterion, "turns": turns, "expected": expected}


def recorded(argv: list[str], reply: str, **record: Any) -> dict[str, Any]:
    """A tool with one rule, called in a system where its table could not be read."""
    entry = {"tool": "t", "stderr": "no\n", "responses": [{"when": {"verb": "a"}, "stdout": reply}]}
    record = {"argv": argv, "exit": 1, "tool": "t", **record}
    return {"entry": entry, "argv": argv, "expected": {"exit": 1, "stdout": "", "stderr": "no\n", "record": record}}


USED = {"kind": "tool_end", "id": "u", "tool": "Skill", "parameters": {"skill": "a"}, "status": "ok"}
BEGUN = {**{key: value for key, value in USED.items() if key != "status"}, "kind": "tool_start"}
AGAIN = [{"kind": "agent_start"}, {"kind": "turn_start"}]
NEEDS_A = {"type": "skill_triggered", "skill_name": "a", "expected_skill": "a", "stop_early": {"on_pass": "stop"}}
CURLS = {"type": "command_executed", "command_pattern": "curl", "max_count": 3, "stop_early": {}}
NOT_STOPPED = {"first_stop_event_index": None, "disarmed": False, "info": None}


def stopped(index, events, **info):
    """A vector that expects the use of a skill to end the run at this event."""
    found = {
        "armed_criteria": ["skill_triggered: a activation"],
        "deciding_criterion_type": "skill_triggered",
        "gate_threshold": 1.0,
        "reason": "criterion_passed",
        "sdk_turn_index": 1,
        "tool_call_index": 1,
        "turns_remaining_at_stop": 8,
    }
    return {
        "armed": [NEEDS_A],
        "gate_threshold": 1.0,
        "max_turns": 9,
        "events": [*AGAIN, *events],
        "expected": {"fired": True, "first_stop_event_index": index, "disarmed": False, "info": {**found, **info}},
    }


def validated(agent, accepted):
    return {
        "criteria": [NEEDS_A],
        "run_limits": None,
        "agent": agent,
        "simulation": False,
        "expected": {"accepted": accepted},
    }


KINDS = [
    ("unknown-top-level-key", "model_accept", accepted("TaskDefinition", **task(no_such_key=1))),
    (
        "pattern-compiled-at-load",
        "model_accept",
        accepted("FileMatchesRegexCriterion", description="d", path="a", pattern="("),
    ),
    (
        "pattern-compiled-at-load",
        "file_check",
        files(0.5, {"a": "x"}, type="file_check", path="a", patterns=[{"pattern": "x"}, {"pattern": "("}]),
    ),
    (
        "pattern-compiled-at-load",
        "run_command",
        {
            "criterion": {"type": "run_command", "command": "c", "expected_stdout": "(", "stdout_match": "regex"},
            "command_result": {"exit": 0, "stdout": "(", "stderr": ""},
            "expected": {"score": 0.0, "error": False},
        },
    ),
    (
        "expression-compiled-at-load",
        "json_check",
        files(0.0, {"x": "{}"}, type="json_check", path="x", assertions=[{"expression": "a..b", "operator": "exists"}]),
    ),
    ("path-stays-inside", "model_accept", accepted("StarterFile", path="/etc/x", content="")),
    ("path-stays-inside", "file_exists", files(0.0, {}, type="file_exists", path="../up")),
    ("true-is-no-number", "model_accept", accepted("FileExistsCriterion", description="d", path="a", weight=True)),
    ("timeout-is-positive", "model_accept", accepted("RunCommandCriterion", description="d", command="c", timeout=0)),
    ("command-is-not-blank", "model_accept", accepted("RunCommandCriterion", description="d", command=" ")),
    (
        "operand-fits-operator",
        "model_accept",
        accepted("JMESPathAssertion", expression="a", operator="type", expected="text"),
    ),
    (
        "metric-is-known",
        "model_accept",
        accepted("FileExistsCriterion", description="d", path="a", suite_thresholds={"no_such_metric": 1}),
    ),
    (
        "template-source-has-a-type",
        "model_accept",
        accepted("SandboxConfig", template_sources=[{"path": "../x"}]),
    ),
    ("task-id-is-a-name", "model_accept", accepted("TaskDefinition", **task(task_id="a b"))),
    ("agent-is-known", "model_accept", accepted("TaskDefinition", **task(agent={"type": "of-a-plugin"}))),
    (
        "reference-stays-with-the-graders",
        "model_accept",
        accepted("TaskDefinition", **task(initial_prompt="see $REFERENCE_DIR", reference={"directory": "d"})),
    ),
    ("more-tools-can-be-recorded", "model_accept", refused("RecordedCli", ["tool"], tool="git")),
    (
        "one-rule-is-reachable",
        "model_accept",
        refused("RecordedCli", [], tool="t", responses=[{"when": {"verb": "a"}}]),
    ),
    (
        "older-reference-loads",
        "model_accept",
        refused("TaskDefinition", ["reference"], **task(reference={"file": "x.py"})),
    ),
    (
        "key-of-ours",
        "model_accept",
        refused("FileExistsCriterion", ["enabled"], "extra_forbidden", description="d", path="a", enabled=False),
    ),
    ("key-of-ours", "model_accept", refused("TaskDefinition", ["skip"], "bool_parsing", **task(skip="slow"))),
    (
        "unreadable-file-fails",
        "file_contains",
        {
            "criterion": {"type": "file_contains", "path": "a", "includes": ["x"]},
            "files": {},
            "read_raises": [["get_file_content", ["a"], "PermissionError"]],
            "expected": {"raises": "PermissionError"},
        },
    ),
    (
        "unreadable-file-fails",
        "file_contains",
        {
            **files(0, {"a": {"hex": "ff"}}, type="file_contains", path="a", includes=["x"]),
            "expected": {"raises": "UnicodeDecodeError"},
        },
    ),
    (
        "unreadable-file-fails",
        "file_contains",
        {
            **files(0, {"a.x": "x", "b.x": "x"}, type="file_contains", path="*.x", includes=["x"]),
            "expected": {"raises": "ValueError"},
        },
    ),
    (
        "link-out-is-absent",
        "file_exists",
        {**files(0, {"a": {"symlink": "/etc/passwd"}}, type="file_exists", path="a"), "expected": {"raises": "E"}},
    ),
    (
        "link-out-is-absent",
        "file_exists",
        {**files(0, {"d/a": {"symlink": "../.."}}, type="file_exists", path="d/a/x"), "expected": {"raises": "E"}},
    ),
    ("directory-is-no-file", "file_exists", files(1.0, {"d/a": ""}, type="file_exists", path="d")),
    ("nan-is-not-json", "json_check", files(1.0, {"x": '{"v": NaN}'}, type="json_check", path="x")),
    ("true-is-not-1", "json_check", assertion(1.0, True, "equals", 1)),
    ("true-is-not-1", "json_check", assertion(1.0, [True], "equals", [1])),
    ("true-is-not-1", "json_check", assertion(1.0, True, "gt", 0)),
    ("integer-is-a-type", "json_check", assertion(0.0, 3, "type", "integer")),
    (
        "content-not-recorded",
        "file_contains",
        files(1.0, {"a": {"len": 9}}, type="file_contains", path="a", includes=["x"]),
    ),
    ("answers-are-out-of-reach", "record_cli_shim", recorded(["a"], "yes", sidecar_error="FileNotFoundError()")),
    ("unfinished-call-decides-nothing", "live_verdict", skill({"verdict": "pass"}, None, "Skill", skill="a")),
    (
        "unfinished-call-decides-nothing",
        "live_verdict",
        skill({"verdict": "pass"}, None, "Read", file_path="skills/a/x"),
    ),
    ("unfinished-call-decides-nothing", "early_stop", stopped(2, [BEGUN])),
    ("call-without-end-is-a-call", "early_stop", stopped(3, [{**USED, "id": "x", "status": "unresolved"}, USED])),
    ("turns-of-each-run", "early_stop", stopped(4, [*AGAIN, USED], sdk_turn_index=2, turns_remaining_at_stop=7)),
    (
        "fault-not-recorded",
        "early_stop",
        {**stopped(2, [USED]), "expected": {"fired": False, **NOT_STOPPED, "disarmed": True}},
    ),
    (
        "pass-stops-no-fail",
        "early_stop",
        {
            **stopped(2, [USED], armed_criteria=["skill_triggered: a activation", "command_executed: command check"]),
            "armed": [NEEDS_A, CURLS],
        },
    ),
    ("listing-is-no-use", "live_verdict", skill({"verdict": "pass"}, "success", "Bash", command="ls skills/a/")),
    ("listing-is-no-use", "skill_triggered", skill({"score": 1.0}, "success", "Bash", command="ls -l /x/skills/a/")),
]


@pytest.mark.parametrize(("name", "kind", "vector"), KINDS, ids=lambda value: value if isinstance(value, str) else "")
def test_rule_explains_its_kind(name, kind, vector):
    assert judged(kind, vector) == (False, name)


def test_each_rule_is_tried():
    assert {name for name, _, _ in KINDS} == {rule.name for rule in RULES}


BESIDE = [
    ("early_stop", stopped(2, [BEGUN], reason="criterion_failed")),
    ("early_stop", stopped(2, [{**BEGUN, "parameters": {"skill": "b"}}])),
    ("early_stop", stopped(2, [USED], tool_call_index=2)),
    ("early_stop", stopped(2, [USED], turns_remaining_at_stop=3)),
    ("early_stop", {**stopped(2, [USED]), "expected": {"fired": False, **NOT_STOPPED}}),
    ("early_stop", {**stopped(2, [USED]), "armed": [NEEDS_A, CURLS]}),
    ("early_stop_validate", validated("claude-code", False)),
    ("early_stop_validate", validated("none", True)),
    ("live_verdict", skill({"verdict": "fail"}, None, "Skill", skill="a")),
    ("live_verdict", skill({"verdict": "pass"}, None, "Skill", skill="b")),
    ("live_verdict", skill({"verdict": "pass"}, "success", "Bash", command="ls skills/b/")),
    ("model_accept", accepted("TaskDefinition", **task(no_such_key=1, tags=["Not A Tag"]))),
    ("model_accept", accepted("FileMatchesRegexCriterion", description="d", path="a", pattern="(", weight=-1)),
    ("model_accept", accepted("FileExistsCriterion", description="d", path="../a", pass_threshold=2)),
    ("model_accept", accepted("FileExistsCriterion")),
    ("model_accept", refused("RecordedCli", ["tool"], tool="grep")),
    ("model_accept", refused("RecordedCli", [], tool="t", responses=[{"when": {"verb": v}} for v in "ab"])),
    ("model_accept", refused("FileExistsCriterion", ["path"], description="d", path="a")),
    ("file_exists", files(1.0, {"da": ""}, type="file_exists", path="../d")),
    ("file_exists", files(1.0, {"a": {"symlink": "/etc/passwd"}}, type="file_exists", path="a")),
    (
        "file_exists",
        {**files(0, {"a": {"symlink": "b"}}, type="file_exists", path="a"), "expected": {"raises": "E"}},
    ),
    ("file_matches_regex", files(1.0, {"a": "("}, type="file_matches_regex", path="a", pattern="(")),
    ("json_check", files(0.0, {"x": '{"v": 1}'}, type="json_check", path="x")),
    ("json_check", files(1.0, {"x": "{"}, type="json_check", path="x")),
    ("json_check", assertion(0.0, 1, "equals", 1)),
    ("json_check", assertion(1.0, 3.5, "type", "integer")),
    ("json_check", assertion(1.0, "a", "type", "integer")),
    ("record_cli_shim", recorded(["a"], "yes")),
    ("record_cli_shim", recorded(["a"], "yes", tool="u", sidecar_error="FileNotFoundError()")),
]


@pytest.mark.parametrize(("kind", "vector"), BESIDE)
def test_difference_beside_a_rule_stays_unexplained(kind, vector):
    assert judged(kind, vector) == (False, None)


def test_agreement_does_not_mistake_true_for_1():
    assert not agrees({"expected": {"match": 1}}, Outcome("answered", {"match": True}))
    assert not agrees({"expected": {"error": False}}, Outcome("answered", {"score": 1.0}))
