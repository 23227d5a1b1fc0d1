"""Conversations of several turns: what an author may write about them, and what comes of it."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_codereval.errors import TaskFileError
from pytest_codereval.task.trials import expand

from .samples import load, problems

USER = {"enabled": True, "persona": "p", "goal": "g"}
LISTENING = {"type": "script", "steps": [{"say": "a"}, {"listen": True}, {"say": "b"}]}


@pytest.mark.parametrize(
    ("changes", "key", "expected"),
    [
        ({"follow_up_prompts": ["a", " "]}, "follow_up_prompts[1]", "expected text"),
        ({"follow_up_prompts": "a"}, "follow_up_prompts", "list"),
        ({"follow_up_prompts": ["a"], "initial_prompt": None}, "", "initial_prompt is missing"),
        ({"follow_up_prompts": ["a"], "initial_prompt": None, "agent": {"type": "none"}}, "follow_up_prompts",
         "nobody reads"),
        ({"follow_up_prompts": ["a"], "simulation": USER}, "follow_up_prompts", "expected one of the two"),
        ({"follow_up_prompts": ["a", "b"], "agent": LISTENING}, "follow_up_prompts[1]",
         "it has 1 listen steps; expected 2"),
        ({"agent": LISTENING}, "agent.steps[1].listen", "follow_up_prompts has 0"),
        ({"agent": LISTENING, "simulation": {**USER, "max_turns": 1}}, "agent.steps[1].listen", "max_turns 1"),
        ({"agent": {"type": "script", "steps": [{"listen": False}]}}, "agent.steps[0].listen", "expected true"),
        ({"agent": {"type": "script", "steps": [{"listen": 1}]}}, "agent.steps[0].listen", "expected true"),
        ({"agent": {"type": "script", "steps": [{"listen": True, "say": "x"}]}}, "agent.steps[0]", "say and listen"),
        ({"simulation": {**USER, "stop_token": " "}}, "simulation.stop_token", "blanks"),
        ({"reference": {"code": "x"}, "follow_up_prompts": ["a", "see $REFERENCE_DIR"]}, "follow_up_prompts[1]",
         "REFERENCE_DIR"),
        ({"initial_prompt": "Say ${row.word}."}, "initial_prompt",
         "there is no dataset, so ${row.word} is never filled in"),
        ({"follow_up_prompts": ["a", "${row.b}"]}, "follow_up_prompts[1]", "there is no dataset"),
        ({"simulation": {**USER, "constraints": ["a", "no ${row.c}"]}}, "simulation.constraints[1]", "no dataset"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_problem_at_its_key(changes: dict[str, Any], key: str, expected: str) -> None:
    (problem,) = problems(**changes)
    assert problem.key == key
    assert expected in problem.message


@pytest.mark.parametrize(
    "changes",
    [
        {"follow_up_prompts": ["a", "b"]},
        {"initial_prompt": "Use ${row} and ${HOME}."},
        {"initial_prompt": "${row.a}", "task_id": "t/1", "suite_id": "t", "row_id": "1"},
        {"follow_up_prompts": ["a"], "simulation": {**USER, "enabled": False}},
        {"follow_up_prompts": ["a"], "agent": LISTENING},
        {"follow_up_prompts": ["a"], "initial_prompt": None, "initial_prompt_file": "p.md"},
        {"agent": LISTENING, "simulation": USER},
        {"agent": {"type": "script", "steps": [{"say": "a"}]}, "simulation": USER},
    ],
)
def test_what_an_author_may_write_loads(changes: dict[str, Any]) -> None:
    assert problems(**changes) == ()


def test_a_row_stands_in_all_that_the_user_says_and_is() -> None:
    rows = [{"id": "a", "w": "x"}, {"id": "b", "w": "y"}]
    first, second = expand(load(dataset={"rows": rows}, follow_up_prompts=["1 ${row.w}", "2 ${row.w}"]))
    assert first.task.follow_up_prompts == ("1 x", "2 x")
    assert second.task.follow_up_prompts == ("1 y", "2 y")
    simulation = {**USER, "persona": "is ${row.w}", "goal": "wants ${row.w}", "constraints": ["not ${row.id}"]}
    trials = expand(load(dataset={"rows": rows}, simulation={**simulation, "max_turns": 3}))
    user = trials[1].task.simulation
    assert user is not None
    assert (user.persona, user.goal, user.constraints, user.max_turns) == ("is y", "wants y", ("not b",), 3)
    assert trials[0].task.simulation != user


@pytest.mark.parametrize(
    ("changes", "key", "expected"),
    [
        ({"follow_up_prompts": ["a", "${row.wrod}"]}, "follow_up_prompts[1]", "no 'wrod'; did you mean 'word'?"),
        ({"follow_up_prompts": ["${row.none}"]}, "follow_up_prompts[0]", "the prompt is empty"),
        ({"follow_up_prompts": ["${row.leak}"]}, "follow_up_prompts[0]", "REFERENCE_DIR"),
        ({"simulation": {**USER, "goal": "${row.goal}"}}, "simulation.goal", "no 'goal'"),
        ({"simulation": {**USER, "goal": "${row.none}"}}, "simulation.goal", "expected text"),
        ({"simulation": {**USER, "constraints": ["a", "${row.leak}"]}}, "simulation.constraints[1]", "REFERENCE_DIR"),
    ],
)
def test_what_a_row_makes_wrong_is_found(changes: dict[str, Any], key: str, expected: str) -> None:
    loaded = load(dataset={"rows": [{"id": "a", "word": "x", "none": None, "leak": "$REFERENCE_DIR"}]}, **changes)
    with pytest.raises(TaskFileError) as caught:
        expand(loaded)
    (problem,) = caught.value.problems
    assert problem.key == key
    assert expected in problem.message


@pytest.mark.parametrize(
    ("simulation", "repeats", "expected"),
    [
        ({"n_trials": 3}, 1, ["r1", "r2", "r3"]),
        ({"n_trials": 2}, 5, ["r1", "r2"]),
        ({"n_trials": 1}, 2, ["r1", "r2"]),
        ({"n_trials": 3, "enabled": False}, 1, [""]),
    ],
)
def test_trials_of_a_simulation_go_before_repeats(
    simulation: dict[str, Any], repeats: int, expected: list[str]
) -> None:
    trials = expand(load(simulation={**USER, **simulation}), repeats)
    assert [trial.label for trial in trials] == expected
    assert {trial.repeats for trial in trials} == {len(expected)}
