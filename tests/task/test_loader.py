"""Mistakes of authors: each is told with its place, its key, the value and what was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.errors import TaskFileError
from pytest_codereval.task.loader import load_task

from .samples import EXISTS, PATH, criterion, load, problems, task_data, task_text

MANY = """\
task_id: t
description: 5
initial_promt: x
env: {A: b}
initial_prompt: hi
sandbox:
  driver: dokcer
success_criteria:
  - type: file_exist
    description: d
    path: x
  - description: d
    path: x
  - type: file_matches_regex
    description: d
    path: x
    patern: "(a"
  - {type: file_exists, path: y}
agent:
  type: claud-code
"""


def test_every_mistake_is_told_with_line_column_and_key() -> None:
    found = {(p.line, p.column, p.key): p.message for p in problems(MANY)}
    assert list(found) == sorted(found)
    assert found[2, 1, "description"] == "expected text, found 5; put it in quotes"
    assert "did you mean 'initial_prompt'?" in found[3, 1, "initial_promt"]
    assert "belongs under sandbox" in found[4, 1, "env"]
    assert "did you mean 'docker'?" in found[7, 3, "sandbox.driver"]
    assert "did you mean 'file_exists'?" in found[9, 5, "success_criteria[0].type"]
    assert "'type' is missing" in found[12, 5, "success_criteria[1]"]
    assert "did you mean 'pattern'?" in found[17, 5, "success_criteria[2].patern"]
    assert "'pattern' is missing" in found[14, 5, "success_criteria[2].pattern"]
    assert "'description' is missing" in found[18, 5, "success_criteria[3].description"]
    assert "did you mean 'claude-code'?" in found[20, 3, "agent.type"]
    assert len(found) == 10


@pytest.mark.parametrize("kind", ["file_exist", "", None, 7, ["file_exists"], {"a": 1}, "FILE_EXISTS"])
def test_a_wrong_type_is_one_problem_about_that_criterion(kind: object) -> None:
    wrong = {"type": kind, "description": 1, "nonsense": 2, "path": "/abs"}
    (problem,) = problems(success_criteria=[EXISTS, wrong])
    assert problem.key == "success_criteria[1].type"
    assert "file_exists" in problem.message


@pytest.mark.parametrize("value", ["text", 3, None, ["a"]])
def test_a_criterion_that_is_no_mapping_is_one_problem(value: object) -> None:
    (problem,) = problems(success_criteria=[value])
    assert problem.key == "success_criteria[0]"


@pytest.mark.parametrize("kind", ["program_stdout_equals", "code_lints", "scored_command"])
def test_a_removed_type_tells_how_to_migrate(kind: str) -> None:
    (problem,) = problems(success_criteria=[criterion(kind, command="x")])
    assert "use run_command" in problem.message


@pytest.mark.parametrize(
    ("changes", "key", "expected"),
    [
        ({"task_id": None}, "task_id", "missing"),
        ({"task_id": ""}, "task_id", "letter or digit first"),
        ({"task_id": "../../escape"}, "task_id", "rows"),
        ({"task_id": "a b"}, "task_id", "found 'a b'"),
        ({"task_id": "a\nb"}, "task_id", "A-Z"),
        ({"task_id": "-rf"}, "task_id", "letter or digit first"),
        ({"task_id": "x" * 201}, "task_id", "200"),
        ({"task_id": "t\u00e9"}, "task_id", "A-Z"),
        ({"task_id": 123}, "task_id", "quotes"),
        ({"task_id": True}, "task_id", "found true"),
        ({"task_id": "setup_module"}, "task_id", "Python test module"),
        ({"task_id": "pytestmark"}, "task_id", "Python test module"),
        ({"task_id": "pytest_plugins"}, "task_id", "Python test module"),
        ({"task_id": "tearDownModule"}, "task_id", "Python test module"),
        ({"task_id": "a/b"}, "task_id", "suite_id"),
        ({"task_id": "a/..", "suite_id": "a", "row_id": ".."}, "task_id", "row"),
        ({"description": None}, "description", "missing"),
        ({"success_criteria": None}, "success_criteria", "missing"),
        ({"success_criteria": []}, "success_criteria", "nothing would be judged"),
        ({"success_criteria": {"a": 1}}, "success_criteria", "expected a list, found a mapping"),
        ({"initial_prompt": None}, "", "initial_prompt is missing"),
        ({"initial_prompt": "  "}, "initial_prompt", "empty"),
        ({"initial_prompt_file": "p.md"}, "initial_prompt_file", "exclude each other"),
        ({"tags": ["Smoke"]}, "tags", "'Smoke'"),
        ({"tags": ["a_b"]}, "tags", "lowercase"),
        ({"tags": ["a:b:c"]}, "tags", "'key:value'"),
        ({"tags": ["-a"]}, "tags", "lowercase"),
        ({"tags": "smoke"}, "tags", "expected a list"),
        ({"skip": ""}, "skip", "reason"),
        ({"skip": "no"}, "skip", "without quotes"),
        ({"skip": 1}, "skip", "found 1"),
        ({"expected_commands": 0}, "expected_commands", "more than 0"),
        ({"run_limits": {"max_turns": True}}, "run_limits.max_turns", "found true"),
        ({"run_limits": {"max_turns": 0}}, "run_limits.max_turns", "more than 0"),
        ({"run_limits": {"task_timeout": 29}}, "run_limits.task_timeout", "at least 30"),
        ({"run_limits": {"turn_timeout": 9}}, "run_limits.turn_timeout", "at least 10"),
        ({"run_limits": {"max_usd": 0}}, "run_limits.max_usd", "more than 0"),
        ({"run_limits": {"max_turn": 5}}, "run_limits.max_turn", "did you mean 'max_turns'"),
        ({"run_limits": {"stop_early": True}}, "run_limits.stop_early", "removed"),
        ({"run_limits": []}, "run_limits", "expected a mapping, found a list"),
        ({"pre_run": [{"command": " "}]}, "pre_run[0].command", "found none"),
        ({"pre_run": [{"command": "x", "timeout": 301}]}, "pre_run[0].timeout", "at most 300"),
        ({"post_run": [{"command": "x", "fail_on_error": True}]}, "post_run[0].fail_on_error", "pre_run"),
        ({"reference": {}}, "reference", "exactly one"),
        ({"reference": {"file": "a", "code": "b"}}, "reference", "file and code"),
        ({"dataset": {}}, "dataset", "exactly one of rows and paths"),
        ({"dataset": {"rows": []}}, "dataset.rows", "at least one"),
        ({"dataset": {"paths": []}}, "dataset.paths", "at least one"),
        ({"simulation": {"goal": "g", "persona": " "}}, "simulation.persona", "text"),
        ({"simulation": {"goal": "g", "persona": "p", "max_turns": 101}}, "simulation.max_turns", "at most 100"),
        ({"simulation": {"goal": "g", "persona": "p", "stop_on_criteria_pass": True}},
         "simulation.stop_on_criteria_pass", "every_turn"),
        ({"checker_context": {"api_route": {"route": "direct", "params": {"a": 1}}}},
         "checker_context.api_route.params", "litellm"),
        ({"checker_context": {"api_route": {"route": "litellm"}}}, "checker_context.api_route.model", "needs a model"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_problem_at_its_key(changes: dict[str, Any], key: str, expected: str) -> None:
    (problem,) = problems(**changes)
    assert problem.key == key
    assert expected in problem.message


@pytest.mark.parametrize(
    "changes",
    [
        {"task_id": "A.b_c-9"},
        {"task_id": "x" * 200},
        {"task_id": "test_setup"},
        {"task_id": "suite/row.1", "suite_id": "suite", "row_id": "row.1"},
        {"tags": ["smoke", "mode:build", "path-to-ga", "1"]},
        {"skip": True},
        {"skip": "waits for the API"},
        {"initial_prompt": None, "initial_prompt_file": "$HOME_OF_PROMPTS/no-such-file.md"},
        {"initial_prompt": None, "agent": {"type": "none"}},
        {"initial_prompt": None, "simulation": {"enabled": True, "goal": "g", "persona": "p"}},
        {"agent": {"type": None}},
        {"agent": {}},
        {"reference": {"file": "RESOLUTION.md"}},
        {"reference": {"directory": "no/such/directory"}},
        {"reference": {"code": "print(1)"}},
        {"sandbox": {"template_sources": [{"type": "template_dir", "path": "$NOT_SET/no-such"}]}},
        {"run_limits": {"stop_early": False, "max_usd": 0.01, "task_timeout": 30}},
    ],
)
def test_what_an_author_may_write_loads(changes: dict[str, Any]) -> None:
    assert problems(**changes) == ()


def test_only_stale_keys_and_outer_duplicates_warn() -> None:
    text = (
        task_text(run_limits={"max_turns": 1}) + "max_iterations: 2\nllm_reviewer: {a: 1}\nrun_limits: {max_turns: 7}\n"
    )
    loaded = load_task(PATH, text)
    assert loaded.task.run_limits is not None
    assert loaded.task.run_limits.max_turns == 7
    assert {(w.key, w.line) for w in loaded.warnings} == {
        ("max_iterations", 10),
        ("llm_reviewer", 11),
        ("run_limits", 12),
    }
    assert next(w for w in loaded.warnings if w.key == "run_limits").message.endswith("the last one counts")


def test_a_stale_key_below_the_top_level_is_an_error() -> None:
    (problem,) = problems(run_limits={"max_iterations": 1})
    assert problem.key == "run_limits.max_iterations"


def test_duplicates_that_lose_criteria_are_errors() -> None:
    (problem,) = problems(task_text() + "success_criteria: [{type: file_exists, description: d, path: b}]\n")
    assert (problem.key, problem.line) == ("success_criteria", 8)
    text = task_text().replace("  path: a.txt", "  path: a.txt\n  path: b.txt")
    (problem,) = problems(text)
    assert (problem.key, problem.line) == ("success_criteria[0].path", 8)
    assert "first on line 7" in problem.message


def test_the_line_is_that_of_the_task_id() -> None:
    assert load_task(PATH, "# comment\n\n" + task_text()).line == 3


def test_paths_are_shown_relative_to_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tasks" / "a.yaml"
    path.parent.mkdir()
    path.write_text("task_id: 1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TaskFileError) as caught:
        load_task(path)
    assert {p.path for p in caught.value.problems} == {str(Path("tasks", "a.yaml"))}
    monkeypatch.chdir(path.parent)
    (tmp_path / "b.yaml").write_text("task_id: 1\n")
    with pytest.raises(TaskFileError) as caught:
        load_task(tmp_path / "b.yaml")
    assert {p.path for p in caught.value.problems} == {str(tmp_path / "b.yaml")}


def test_very_many_mistakes_are_cut_short() -> None:
    found = problems(success_criteria=[1] * 1000)
    assert len(found) == 51
    assert found[-1].message == "and 950 more problems from here on"


def test_long_and_dirty_values_are_shortened_and_cleaned() -> None:
    (problem,) = problems(task_id="\x07" + "x" * 10_000)
    assert len(problem.message) < 300
    assert problem.message.isprintable()


def test_expanded_paths_and_variables_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    load(
        agent={"type": "claude-code", "system_prompt_file": "$NOT_SET/x", "plugins": [{"path": "$NOT_SET"}]},
        sandbox={"docker": {"dockerfile_path": "$NOT_SET/Dockerfile"}},
        dataset={"paths": ["$NOT_SET/rows.jsonl"]},
    )


@pytest.mark.parametrize("spelling", ["$REFERENCE_DIR", "${REFERENCE_DIR}", "see $REFERENCE_DIR/solution.py"])
@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("initial_prompt", lambda text: {"initial_prompt": text}),
        ("agent.system_prompt", lambda text: {"agent": {"type": "claude-code", "system_prompt": text}}),
        ("agent.steps[0].bash", lambda text: {"agent": {"type": "script", "steps": [{"bash": text}]}}),
        ("agent.steps[0].write.content",
         lambda text: {"agent": {"type": "script", "steps": [{"write": {"path": "a", "content": text}}]}}),
        ("simulation.goal", lambda text: {"simulation": {"persona": "p", "goal": text}}),
        ("simulation.constraints[0]",
         lambda text: {"simulation": {"persona": "p", "goal": "g", "constraints": [text]}}),
        ("sandbox.template_sources[0].files[0].content",
         lambda text: {"sandbox": {"template_sources": [
             {"type": "starter_files", "files": [{"path": "a", "content": text}]}]}}),
        ("sandbox.record_cli[0].stdout", lambda text: {"sandbox": {"record_cli": [{"tool": "uip", "stdout": text}]}}),
        ("sandbox.env.A", lambda text: {"sandbox": {"env": {"A": text}}}),
        ("pre_run[0].command", lambda text: {"pre_run": [{"command": text}]}),
    ],
)  # fmt: skip
def test_the_reference_variable_in_what_the_agent_gets_is_an_error(key: str, change: Any, spelling: str) -> None:
    (problem,) = problems(reference={"directory": "r"}, **change(spelling))
    assert problem.key == key
    assert "REFERENCE_DIR" in problem.message


def test_the_reference_variable_elsewhere_is_fine() -> None:
    graders = [criterion("run_command", command="diff a $REFERENCE_DIR/a")]
    load(reference={"directory": "r"}, success_criteria=graders, post_run=[{"command": "ls $REFERENCE_DIR"}],
         initial_prompt="$REFERENCE_DIRECTORY is another variable")  # fmt: skip


@pytest.mark.parametrize(
    "one",
    [
        criterion("run_command", command="diff a ${REFERENCE_DIR}/a"),
        criterion("llm_judge", prompt="p", files=["$REFERENCE_DIR/a"]),
        criterion("agent_judge", prompt="p", files=["$REFERENCE_DIR"]),
        criterion("reference_comparison", agent_file="a.py", reference_file="a.py"),
    ],
)
def test_a_criterion_that_needs_the_reference_needs_one(one: dict[str, Any]) -> None:
    (problem,) = problems(success_criteria=[one])
    assert "no reference" in problem.message
    assert problems(success_criteria=[one], reference={"file": "a.py"}) == ()


@pytest.mark.parametrize(
    "one",
    [
        criterion("command_executed", command_pattern="x"),
        criterion("commands_efficiency", expected_commands=1),
        criterion("skill_triggered", skill_name="a", expected_skill="a"),
        criterion("reference_comparison", agent_file="a.py", reference_file="a.py"),
    ],
)
def test_without_an_agent_nothing_can_be_judged_about_it(one: dict[str, Any]) -> None:
    (problem,) = problems(
        success_criteria=[one], agent={"type": "none"}, initial_prompt=None, reference={"file": "a.py"}
    )
    assert "the agent's type is none" in problem.message


def test_no_agent_takes_no_prompt_and_no_dialog() -> None:
    (problem,) = problems(agent={"type": "none"})
    assert problem.key == "initial_prompt"
    simulation = {"enabled": True, "persona": "p", "goal": "g"}
    (problem,) = problems(agent={"type": "none"}, initial_prompt=None, simulation=simulation)
    assert problem.key == "simulation"


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(
        [*sorted(task_data()), "agent", "sandbox", "run_limits", "dataset", "reference", "simulation", "skip"]
    ),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.dates(),
        lambda c: st.lists(c, max_size=2) | st.dictionaries(st.sampled_from(["type", "path", "x"]), c, max_size=2),
        max_leaves=5,
    ),
)
def test_any_value_anywhere_loads_or_is_refused(key: str, value: object) -> None:
    change: dict[str, Any] = {key: value}
    for problem in problems(**change):
        assert problem.message
