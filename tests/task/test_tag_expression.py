"""Expressions over tags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.errors import CoderEvalError
from pytest_codereval.task.tag_expression import compile_tags

TAGS = ("smoke", "mode:build", "a-b", "windows")
expressions = st.recursive(
    st.sampled_from(TAGS),
    lambda inner: (
        st.builds("not ({})".format, inner)
        | st.builds("({}) and ({})".format, inner, inner)
        | st.builds("({}) or ({})".format, inner, inner)
        | st.builds("{} or {} and not {}".format, st.sampled_from(TAGS), st.sampled_from(TAGS), st.sampled_from(TAGS))
    ),
)


@given(expressions, st.sets(st.sampled_from(TAGS)))
def test_expressions_mean_what_python_means(expression: str, tags: set[str]) -> None:
    names = {tag: f"t{index}" for index, tag in enumerate(TAGS)}
    python = expression
    for tag, name in names.items():
        python = python.replace(tag, name)
    expected = eval(python, {name: tag in tags for tag, name in names.items()})
    assert compile_tags(expression)(frozenset(tags)) is expected


@pytest.mark.parametrize("expression", ["smoke and", "(smoke", "not", "smoke)", "a b", "§"])
def test_a_mistake_is_told_with_its_column(expression: str) -> None:
    with pytest.raises(CoderEvalError, match=r"column \d+: "):
        compile_tags(expression)
