"""Success criteria: what each may say, and mistakes that are found at load."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_codereval.task import models
from pytest_codereval.task.models import CRITERION_MODELS

from .samples import EXISTS, criterion, criterion_problems, load, load_criterion, problems

MINIMAL: dict[str, dict[str, Any]] = {
    "file_exists": {"path": "a"},
    "file_contains": {"path": "a", "includes": ["x"]},
    "file_matches_regex": {"path": "a", "pattern": "x"},
    "file_check": {"path": "a"},
    "json_check": {"path": "a"},
    "run_command": {"command": "true"},
    "cli_called": {"tool": "uip", "log": "mocks/calls.jsonl"},
    "command_executed": {},
    "commands_efficiency": {"expected_commands": 3},
    "skill_triggered": {"skill_name": "a", "expected_skill": ""},
    "classification_match": {"path": "a", "expected_label": "x", "allowed_labels": ["x"]},
    "reference_comparison": {"agent_file": "a.py", "reference_file": "b.py"},
    "llm_judge": {"prompt": "p"},
    "agent_judge": {"prompt": "p"},
    "system_one_judge": {"questions": {"q": {"type": "noul", "instructions": "i"}}},
    "uipath_eval": {"agent_name": "a", "eval_set": "e", "thresholds": {"accuracy": 0.5}},
}
TASK = {"reference": {"directory": "r"}}


def test_every_type_is_covered_here() -> None:
    assert set(MINIMAL) == set(CRITERION_MODELS)


@pytest.mark.parametrize("kind", sorted(MINIMAL))
def test_every_type_loads_with_its_defaults_and_the_common_keys(kind: str) -> None:
    plain = load_criterion(kind, TASK, **MINIMAL[kind])
    assert type(plain) is CRITERION_MODELS[kind]
    judge = kind.endswith("judge")
    expected = 0.7 if judge else 0.8 if kind == "reference_comparison" else 0.9
    assert (plain.weight, plain.pass_threshold, plain.enabled, plain.gating) == (1.0, expected, True, True)
    full = load_criterion(kind, TASK, **MINIMAL[kind], weight=0, pass_threshold=0.5, enabled=False, name="n")
    assert (full.weight, full.enabled, full.gating, full.name) == (0, False, False, "n")
    assert full.pass_threshold == 0.5


@pytest.mark.parametrize("kind", sorted(MINIMAL))
def test_every_type_refuses_an_unknown_key(kind: str) -> None:
    (problem,) = criterion_problems(kind, TASK, **MINIMAL[kind], wieght=1)
    assert problem.key == "success_criteria[0].wieght"
    assert "did you mean 'weight'" in problem.message


@pytest.mark.parametrize("kind", sorted(MINIMAL))
@pytest.mark.parametrize("field", [{"weight": float("nan")}, {"weight": -1}, {"pass_threshold": 2}, {"weight": True}])
def test_weights_and_thresholds_are_checked(kind: str, field: dict[str, Any]) -> None:
    (problem,) = criterion_problems(kind, TASK, **{**MINIMAL[kind], **field})
    assert problem.key == f"success_criteria[0].{next(iter(field))}"


@pytest.mark.parametrize(
    ("kind", "fields", "key", "expected"),
    [
        ("file_exists", {"path": ""}, "path", "empty"),
        ("file_exists", {"path": "/etc/passwd"}, "path", "absolute"),
        ("file_exists", {"path": "C:\\x"}, "path", "absolute"),
        ("file_exists", {"path": "../a"}, "path", "leaves the workspace"),
        ("file_exists", {"path": "a/../../b"}, "path", "leaves the workspace"),
        ("file_exists", {"path": "..\\b"}, "path", "leaves the workspace"),
        ("file_exists", {"path": "."}, "path", "workspace itself"),
        ("file_exists", {"path": "a/.."}, "path", "workspace itself"),
        ("file_exists", {"path": "a\0b"}, "path", "NUL"),
        ("file_exists", {"path": "~/a"}, "path", "not expanded"),
        ("json_check", {"path": "a", "json_schema": "$TASK_DIR/s.json"}, "json_schema", "not expanded"),
        ("file_exists", {"path": 5}, "path", "quotes"),
        ("file_exists", {"path": "a", "includes": ["x"]}, "includes", "only file_contains, file_check can have it"),
        ("file_exists", {"path": "a", "stop_early": {}}, "stop_early", "only cli_called, command_executed, skill"),
        ("file_contains", {"path": "a"}, "includes", "missing"),
        ("file_contains", {"path": "a", "includes": "x"}, "includes", "expected a list"),
        ("file_matches_regex", {"path": "a", "pattern": "(a"}, "pattern", "not a regular expression"),
        ("file_matches_regex", {"path": "a", "pattern": "(?<=a+)b"}, "pattern", "look-behind"),
        ("file_matches_regex", {"path": "a", "pattern": "a", "flags": 128}, "flags", "flags 128"),
        ("file_matches_regex", {"path": "a", "pattern": "a", "flags": 288}, "pattern", "incompatible"),
        ("file_check", {"path": "a", "patterns": [{"pattern": "x"}, {"pattern": "["}]}, "patterns[1].pattern", "reg"),
        ("json_check", {"path": "a", "json_schema": "../s.json"}, "json_schema", "leaves"),
        ("json_check", {"path": "a", "assertions": [{"expression": "a..b", "expected": 1}]},
         "assertions[0].expression", "JMESPath"),
        ("json_check", {"path": "a", "assertions": [{"expression": "lenght(a)", "expected": 1}]},
         "assertions[0].expression", "did you mean 'length'"),
        ("json_check", {"path": "a", "assertions": [{"expression": "x[?length(a, b)]", "expected": 1}]},
         "assertions[0].expression", "takes 1 arguments, not 2"),
        ("json_check", {"path": "a", "assertions": [{"expression": "a"}]}, "assertions[0].expected", "equals needs"),
        ("json_check", {"path": "a", "assertions": [{"expression": "a", "operator": "contains", "expected": "short "}]},
         "assertions[0].expected", "by chance"),
        ("json_check", {"path": "a", "assertions": [{"expression": "a", "operator": "regex", "expected": "("}]},
         "assertions[0].expected", "regular expression"),
        ("json_check", {"path": "a", "assertions": [{"expression": "a", "operator": "gt", "expected": True}]},
         "assertions[0].expected", "number"),
        ("json_check", {"path": "a", "assertions": [{"expression": "a", "operator": "type", "expected": "list"}]},
         "assertions[0].expected", "array"),
        ("json_check", {"path": "a", "assertions": [{"expression": "a", "operator": "equal", "expected": 1}]},
         "assertions[0].operator", "did you mean 'equals'"),
        ("run_command", {"command": ""}, "command", "found none"),
        ("run_command", {"command": "a\0"}, "command", "NUL"),
        ("run_command", {"command": "x", "timeout": 0}, "timeout", "more than 0"),
        ("run_command", {"command": "x", "expected_stdout": "(", "stdout_match": "regex"}, "expected_stdout", "reg"),
        ("run_command", {"command": "x", "expected_stdout": "1", "score_from_stdout": True},
         "expected_stdout", "exclude"),
        ("command_executed", {"command_pattern": "["}, "command_pattern", "regular"),
        ("command_executed", {"exclude_pattern": "*"}, "exclude_pattern", "regular"),
        ("command_executed", {"min_count": 2, "max_count": 1}, "max_count", "at least min_count"),
        ("command_executed", {"min_count": -1}, "min_count", "at least 0"),
        ("command_executed", {"weight": 0, "stop_early": {"on_pass": "stop"}}, "stop_early", "informational"),
        ("command_executed", {"stop_early": {"on_pass": "halt"}}, "stop_early.on_pass", "'stop' or 'continue'"),
        ("commands_efficiency", {"expected_commands": 0}, "expected_commands", "more than 0"),
        ("classification_match", {"path": "a", "expected_label": "x", "allowed_labels": []}, "allowed_labels", "one"),
        ("reference_comparison", {"agent_file": "/a", "reference_file": "b"}, "agent_file", "absolute"),
        ("reference_comparison", {"agent_file": "a", "reference_file": "../b"}, "reference_file", "inside"),
        ("llm_judge", {"prompt": " "}, "prompt", "found none"),
        ("llm_judge", {"prompt": "p", "files": ["../x"]}, "files[0]", "leaves"),
        ("llm_judge", {"prompt": "p", "verdict_channel": "tool"}, "", "removed"),
        ("llm_judge", {"prompt": "p", "temperature": 3}, "temperature", "at most 2"),
        ("agent_judge", {"prompt": "p", "turn_timeout": 5}, "turn_timeout", "at least 10"),
        ("agent_judge", {"prompt": "p", "agent": {"type": "none"}}, "agent.type", "no agent is called 'none'"),
        ("agent_judge", {"prompt": "p", "agent": {"modle": "x"}}, "agent.modle", "did you mean 'model'"),
        ("system_one_judge", {"questions": {}}, "questions", "at least one"),
        ("system_one_judge", {"questions": {"q": {"type": "bool", "instructions": "i"}}}, "questions.q", "noul"),
        ("uipath_eval", {"agent_name": "a", "eval_set": "e"}, "thresholds", "missing"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_problem_at_its_key(kind: str, fields: dict[str, Any], key: str, expected: str) -> None:
    (problem,) = criterion_problems(kind, TASK, **fields)
    assert problem.key == f"success_criteria[0].{key}".rstrip(".")
    assert expected in problem.message


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("file_exists", {"path": "src/*/[a-z]?.py"}),
        ("file_exists", {"path": "a/../b.txt"}),
        ("file_exists", {"path": "..hidden"}),
        ("file_matches_regex", {"path": "a", "pattern": "(?m)^[[a]x", "flags": 2}),
        ("json_check", {"path": "a", "assertions": [{"expression": "a", "expected": None}]}),
        ("json_check", {"path": "a", "assertions": [{"expression": "a", "operator": "exists"}]}),
        ("json_check", {"path": "a", "assertions": [{"expression": "not_null(a, b, c)", "expected": "x"}]}),
        ("json_check", {"path": "a", "assertions": [{"expression": "a", "operator": "contains", "expected": 5}]}),
        ("run_command", {"command": "x", "expected_stdout": "(", "stdout_match": "contains", "timeout": 0.5}),
        ("run_command", {"command": "x", "expected_exit_code": -9, "shims": True, "read_only": True}),
        ("command_executed", {"min_count": 0}),
        ("command_executed", {"command_pattern": "a", "stop_early": {}}),
        ("llm_judge", {"prompt": "p", "files": ["a.txt", "$TASK_DIR/../rubric.md", "$REFERENCE_DIR/a"]}),
        ("agent_judge", {"prompt": "p", "agent": {"model": "x", "allowed_tools": ["Read"]}}),
        ("system_one_judge", {"questions": {
            "a": {"type": "choice", "instructions": "i", "criteria": {"x": "1", "y": "2"}, "values": {"x": 1.0}},
            "b": {"type": "choice", "instructions": "i", "criteria": ["x", "y"], "expected": "x"},
            "c": {"type": "score", "instructions": "i", "criteria": ["bad", "good"], "weight": 2},
            "d": {"type": "noul", "instructions": "i", "expected": False}}}),
    ],
)  # fmt: skip
def test_what_an_author_may_write_loads(kind: str, fields: dict[str, Any]) -> None:
    assert criterion_problems(kind, TASK, **fields) == ()


def test_the_legacy_guard_becomes_a_count_of_zero_whatever_else_it_says() -> None:
    found = load_criterion("command_not_executed", command_pattern="rm", min_count=3, max_count=9)
    assert isinstance(found, models.CommandExecuted)
    assert (found.type, found.min_count, found.max_count) == ("command_executed", 0, 0)


def test_a_similarity_threshold_is_the_pass_threshold() -> None:
    fields = {"agent_file": "a.py", "reference_file": "b.py"}
    assert load_criterion("reference_comparison", TASK, **fields, similarity_threshold=0.6).pass_threshold == 0.6
    assert load_criterion("reference_comparison", TASK, **fields, pass_threshold=0.5).pass_threshold == 0.5


ROWS = {"dataset": {"rows": [{"id": "r"}]}}


@pytest.mark.parametrize(
    ("kind", "metric", "expected"),
    [
        ("file_exists", "avg", "no metric is called 'avg'"),
        ("file_exists", "f1.macro", "classifies"),
        ("file_exists", "accuracy", "needs a criterion that classifies"),
        ("skill_triggered", "recal.yes", "did you mean"),
        ("skill_triggered", "recall.true", "no row can have the label 'true'"),
        ("classification_match", "recall.y", "expected (none), (other) or x"),
        ("classification_match", "f1.", "no metric"),
    ],
)
def test_metric_names_are_checked(kind: str, metric: str, expected: str) -> None:
    (problem,) = criterion_problems(kind, ROWS, **MINIMAL[kind], suite_thresholds={metric: 0.5})
    assert problem.key.startswith("success_criteria[0].suite_thresholds")
    assert expected in problem.message


@pytest.mark.parametrize(
    ("kind", "metric"),
    [
        *(("file_exists", name) for name in ("count", "mean", "median", "std", "min", "max", "completion_rate")),
        *(("skill_triggered", name) for name in ("accuracy", "macro_f1", "weighted_f1", "micro_f1", "recall.yes")),
        ("classification_match", "precision.x"),
    ],
)  # fmt: skip
def test_known_metrics_load(kind: str, metric: str) -> None:
    assert criterion_problems(kind, ROWS, **MINIMAL[kind], suite_thresholds={metric: 0.5}) == ()


def test_thresholds_need_rows_and_a_weight() -> None:
    (problem,) = criterion_problems("file_exists", path="a", suite_thresholds={"mean": 1})
    assert "need a dataset" in problem.message
    row = {"task_id": "s/r", "suite_id": "s", "row_id": "r"}
    assert criterion_problems("file_exists", row, path="a", suite_thresholds={"mean": 1}) == ()
    (problem,) = criterion_problems("file_exists", ROWS, path="a", weight=0, suite_thresholds={"mean": 1})
    assert "informational" in problem.message


def test_early_stop_is_not_for_dialogs_nor_for_a_threshold_of_zero() -> None:
    armed = criterion("skill_triggered", skill_name="a", expected_skill="a", stop_early={"on_pass": "stop"})
    dialog = {"enabled": True, "persona": "p", "goal": "g"}
    (problem,) = problems(success_criteria=[EXISTS, armed], simulation=dialog)
    assert problem.key == "success_criteria[1].stop_early"
    limits: dict[str, Any] = {"stop_early_gate_threshold": 0}
    (problem,) = problems(success_criteria=[armed], run_limits=limits)
    assert problem.key == "run_limits.stop_early_gate_threshold"
    assert problems(success_criteria=[armed], run_limits={**limits, "stop_early": False}, simulation=dialog) == ()


def test_what_a_run_must_have_to_be_stopped_early() -> None:
    armed = criterion("cli_called", tool="t", verb="v", stop_early={"on_pass": "stop"})
    records: dict[str, Any] = {"sandbox": {"record_cli": [{"tool": "t"}]}}
    dialog = {"enabled": True, "persona": "p", "goal": "g"}
    assert problems(success_criteria=[armed], **records) == ()
    assert problems(success_criteria=[EXISTS, criterion("cli_called", tool="t")], stop_early=True, **records) == ()
    (problem,) = problems(success_criteria=[armed], agent={"type": "none"}, initial_prompt=None, **records)
    assert (problem.key, problem.message) == (
        "success_criteria[0].stop_early",
        "with agent type none there is no run to stop",
    )
    (problem,) = problems(success_criteria=[EXISTS], stop_early=True, simulation=dialog)
    assert problem.key == "stop_early"
    (problem,) = problems(success_criteria=[EXISTS, armed], stop_early=True, **records)
    assert problem.key == "success_criteria[1].stop_early"
    assert "not together with stop_early: true at the top of the task" in problem.message
    (problem,) = problems(success_criteria=[EXISTS], run_limits={"stop_early": True})
    assert "stop_early: true at the top of the task stops at its outcome" in problem.message
    off = {"stop_early": True, "run_limits": {"stop_early": False}}
    assert problems(success_criteria=[EXISTS, armed], simulation=dialog, **off, **records) == ()


def test_a_limit_for_a_pass_that_only_the_end_can_tell() -> None:
    first = criterion("cli_called", tool="t", verb="a", name="first", before="second")
    second = criterion("cli_called", tool="t", verb="b", name="second")
    third = criterion("cli_called", tool="t", after="first", stop_early={"decide_within": 3})
    records = {"record_cli": [{"tool": "t"}]}
    (problem,) = problems(success_criteria=[first, second, third], sandbox=records)
    assert problem.key == "success_criteria[2].stop_early.decide_within"
    third["after"] = "second"
    assert problems(success_criteria=[first, second, third], sandbox=records) == ()


def test_doubts_about_early_stops() -> None:
    armed = criterion("command_executed", command_pattern="x", stop_early={"on_pass": "stop"})
    (doubt,) = load(success_criteria=[armed]).warnings
    assert doubt.key == "success_criteria[0].stop_early"
    assert "add require_success: true" in doubt.message
    fine = [{**armed, "require_success": True}, {**armed, "max_count": 2}, {**armed, "stop_early": {}}]
    assert load(success_criteria=fine).warnings == ()
    (doubt,) = load(success_criteria=[EXISTS], stop_early=True).warnings
    assert (doubt.key, "changes nothing" in doubt.message) == ("stop_early", True)


def test_a_template_is_checked_only_with_a_row() -> None:
    fields: dict[str, Any] = {"path": "${row.p}", "pattern": "(${row.x}"}
    assert criterion_problems("file_matches_regex", ROWS, **fields) == ()
    keys = {p.key for p in criterion_problems("file_matches_regex", **fields)}
    assert keys == {"success_criteria[0].pattern"}


def test_models_cannot_be_changed() -> None:
    task = load().task
    with pytest.raises(Exception, match="frozen"):
        task.success_criteria[0].weight = 5
