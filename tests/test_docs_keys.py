"""docs/format.md names every key that an author may write, those of a criterion in the section of its type."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.criteria import vendor
from pytest_codereval.criteria.registry import TYPES, use_kinds
from pytest_codereval.task.criteria_models import CRITERION_MODELS
from pytest_codereval.task.criterion import Criterion
from pytest_codereval.task.json_schema import ROOTS, schema_of

FORMAT = (Path(__file__).parents[1] / "docs" / "format.md").read_text(encoding="utf-8")
VENDORS = [kind.type_name for kind in vendor.KINDS]


@pytest.fixture(autouse=True)
def types_of_vendors() -> Iterator[None]:
    undo = use_kinds(vendor.KINDS)
    yield
    undo()


def named(text: str) -> frozenset[str]:
    """The words in the code of a text."""
    return frozenset(re.findall(r"[a-z][a-z0-9_]*", " ".join(re.findall(r"`([^`\n]+)`", text))))


@functools.cache
def section(type_name: str) -> str:
    """What the page says of a criterion type."""
    _, _, rest = FORMAT.partition(f"\n### {type_name}\n")
    return re.split(r"\n##+ ", rest, maxsplit=1)[0]


def keys_in(schema: Any) -> Iterator[str]:
    """The keys of all mappings that a JSON Schema knows, at every depth."""
    if isinstance(schema, list):
        for item in schema:
            yield from keys_in(item)
    elif isinstance(schema, dict):
        properties = schema.get("properties", {})
        yield from properties
        yield from keys_in(list(properties.values()))
        yield from keys_in([value for key, value in schema.items() if key not in ("properties", "default", "enum")])


@pytest.mark.parametrize("kind", ROOTS)
def test_every_key_is_named(kind: str) -> None:
    keys = set(keys_in(schema_of(kind)))
    assert len(keys) > 50
    assert sorted(keys - named(FORMAT)) == []


@pytest.mark.parametrize("type_name", [*TYPES, *VENDORS])
def test_every_key_of_a_criterion_is_named_where_its_type_is_explained(type_name: str) -> None:
    own = section(type_name)
    explained = own + "".join(section(other) for other in CRITERION_MODELS if other in named(own) or f"#{other}" in own)
    keys = CRITERION_MODELS[type_name].model_fields.keys() - Criterion.model_fields.keys()
    assert own
    assert sorted(keys - named(explained)) == []
