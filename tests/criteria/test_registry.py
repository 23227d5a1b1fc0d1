"""Every type of the dialect has a checker; those that are not there yet never pass."""

from __future__ import annotations

import inspect
from typing import get_args

import pytest

from pytest_codereval.criteria.registry import TYPES, checker
from pytest_codereval.errors import JudgingError
from pytest_codereval.task import criteria_models
from pytest_codereval.task.criteria_models import Criterion

MODELS = [
    model
    for _, model in inspect.getmembers(criteria_models, inspect.isclass)
    if issubclass(model, Criterion) and get_args(model.model_fields["type"].annotation)
]


def test_types_of_the_models_are_those_of_the_registry():
    assert {get_args(model.model_fields["type"].annotation)[0] for model in MODELS} == set(TYPES)


@pytest.mark.parametrize("name", TYPES)
def test_each_type_has_a_checker(name):
    assert callable(checker(name))


@pytest.mark.parametrize("name", ["", "file_exist", "contract", "registry", "os", "..errors"])
def test_unknown_type_is_an_error(name):
    with pytest.raises(JudgingError, match="no criterion type"):
        checker(name)


@pytest.mark.parametrize("name", ["llm_judge", "agent_judge", "system_one_judge", "uipath_eval"])
def test_types_that_need_a_model_are_not_available(name):
    with pytest.raises(JudgingError, match=r"^not available: "):
        checker(name)(object(), None)
