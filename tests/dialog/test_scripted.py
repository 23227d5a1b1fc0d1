"""Conversations whose prompts stand in the task."""

from __future__ import annotations

import pytest

from pytest_codereval.dialog.talk import Talk, make_talk
from pytest_codereval.dialog.transcript import Ending

from ..task.samples import load
from .talks import nothing, soon, talk


def test_prompts_are_said_in_order_whatever_the_agent_replies() -> None:
    dialog = talk(prompt="one", follow_up_prompts=["two", "three"])
    assert dialog.opening(soon()) == "one"
    assert dialog.answer("first reply", soon()) == "two"
    assert dialog.answer("", soon()) == "three"
    assert dialog.answer("last reply", soon()) is None
    assert dialog.answer("once more", soon()) is None
    assert dialog.record["ended"] == "prompts_used_up"
    exchanges = dialog.record["exchanges"]
    assert isinstance(exchanges, list)
    assert [exchange["user"] for exchange in exchanges] == ["one", "two", "three"]


def test_each_reply_is_kept_beside_its_prompt() -> None:
    dialog = talk(prompt="one", follow_up_prompts=["two"])
    dialog.opening(soon())
    dialog.answer("a", soon())
    assert dialog.record == {
        "model": None,
        "exchanges": [{"user": "one", "agent": "a"}, {"user": "two", "agent": None}],
        "ended": None,
    }


def test_without_a_prompt_there_is_no_opening() -> None:
    task = load(agent={"type": "none"}, initial_prompt=None).task
    dialog = make_talk(task, "", nothing)
    assert dialog.opening(soon()) is None


def test_a_simulation_that_is_switched_off_is_none() -> None:
    dialog = talk({"enabled": False}, follow_up_prompts=["two"])
    dialog.opening(soon())
    assert dialog.answer("a", soon()) == "two"


@pytest.mark.parametrize("ending", [Ending.CRITERIA_PASSED, Ending.AGENT_STOPPED])
def test_the_trial_can_end_it(ending: Ending) -> None:
    dialog: Talk = talk(prompt="one", follow_up_prompts=["two"])
    dialog.opening(soon())
    dialog.end(ending, "the reply")
    assert dialog.answer("x", soon()) is None
    assert dialog.record["ended"] == ending
    dialog.end(Ending.FAULT)
    assert dialog.record["ended"] == ending
