"""What is asked of one text that may be missing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.recorder.texts import REGEX_LIMIT, TextTest, text_test
from pytest_codereval.task.cli_models import TextPredicate


@pytest.mark.parametrize(
    ("predicate", "yes", "no", "shown"),
    [
        ("a b", ["a b"], ["a", "", None], "equals 'a b'"),
        ({"equals": ""}, [""], ["x", None], "equals ''"),
        ({"contains": "b"}, ["abc"], ["", "ac", None], "contains 'b'"),
        ({"matches_regex": "^B", "flags": re.IGNORECASE}, ["b", "Bc"], ["ab", None], "matches_regex '^B'"),
        ({"any_of": ["a", "b"]}, ["a", "b"], ["ab", "", None], "any_of ['a', 'b']"),
        ({"present": True}, ["", "x"], [None], "present"),
        ({"absent": True}, [None], ["", "x"], "absent"),
    ],
)
def test_predicates(predicate: Any, yes: list[str | None], no: list[str | None], shown: str) -> None:
    for test in (text_test(predicate), text_test(TextPredicate.model_validate(predicate))):
        assert [text for text in yes if not test.holds(text)] == []
        assert [text for text in no if test.holds(text)] == []
        assert str(test) == shown


def test_a_regex_that_does_not_compile_is_told_when_the_test_is_built() -> None:
    with pytest.raises(re.error):
        text_test({"matches_regex": "("})


def test_a_regex_sees_a_bounded_part_of_the_text() -> None:
    text = "x" * REGEX_LIMIT + "end"
    assert not text_test({"matches_regex": "end"}).holds(text)
    assert text_test({"matches_regex": "end"}, limit=None).holds(text)
    assert text_test({"contains": "end"}).holds(text)


@given(st.none() | st.text())
def test_absent_is_the_opposite_of_present(text: str | None) -> None:
    assert TextTest("absent").holds(text) != TextTest("present").holds(text)
