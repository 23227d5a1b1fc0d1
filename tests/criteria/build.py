"""Criteria as an author writes them, and what an agent did."""

from __future__ import annotations

from typing import Any

from pytest_codereval.task import criteria_models
from pytest_codereval.trajectory.model import ToolCall


def criterion(**fields: Any) -> Any:
    """Return the model of a criterion with these fields."""
    name = "".join(part.capitalize() for part in fields["type"].split("_"))
    return getattr(criteria_models, name).model_validate({"description": "d", **fields})


def call(name: str, status: str = "success", **parameters: object) -> ToolCall:
    """Return one call of a tool."""
    return ToolCall("id", name, parameters, status)  # type: ignore[arg-type]
