"""A walk over all types: each has a model, a checker, a schema, documentation and, where it is live, cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.criteria import conformance
from pytest_codereval.criteria.registry import checker, kind_of, live, types
from pytest_codereval.errors import JudgingError
from pytest_codereval.task.criteria_models import CRITERION_MODELS, type_name_of
from pytest_codereval.task.json_schema import schema_of

from ..task.test_criteria_models import MINIMAL

DOCS = Path(__file__).resolve().parents[2] / "docs"
TYPES = types()


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return schema_of("task")


def test_models_and_checkers_are_of_the_same_types() -> None:
    assert set(TYPES) == set(CRITERION_MODELS) == set(MINIMAL)
    assert "system_one_judge" in TYPES
    assert "uipath_eval" in TYPES


@pytest.mark.parametrize("name", TYPES)
def test_each_type_is_complete(name: str, schema: dict[str, Any]) -> None:
    kind = kind_of(name)
    assert callable(checker(name))
    assert type_name_of(kind.model) == name
    assert kind.model.__doc__
    assert kind.model.__name__ in schema["$defs"]
    items = schema["properties"]["success_criteria"]["items"]
    assert name in items["properties"]["type"]["enum"]
    assert f"`{name}`" in (DOCS / "criteria.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TYPES)
def test_only_what_reads_alone_may_be_looked_at_after_a_failure(name: str) -> None:
    model = kind_of(name).model
    plain = model.model_validate({"type": name, "description": "d", **MINIMAL[name]}, context={"rows": False})
    assert isinstance(plain.evaluable_after_failure, bool)
    assert not (plain.evaluable_after_failure and model.asks_model)


@pytest.mark.parametrize("name", TYPES)
def test_a_type_is_live_exactly_when_a_task_can_say_so(name: str) -> None:
    assert (live(name) is not None) == ("stop_early" in kind_of(name).model.model_fields)
    if live(name) is not None:
        conformance.prove_complete(name, conformance.BUILT_IN)


@pytest.mark.parametrize("name", ["", "file_exist", "contract", "registry", "vendor", "os", "..errors"])
def test_unknown_type_is_an_error(name: str) -> None:
    with pytest.raises(JudgingError, match="no criterion type"):
        checker(name)
