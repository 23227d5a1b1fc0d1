"""Validation against a JSON Schema that never fetches anything."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

from ..text import shorten

SHOWN_ERRORS = 10
SHOWN_LENGTH = 500


class BadSchema(ValueError):
    """A schema that cannot be used, with the reason."""


def schema_errors(value: Any, schema: Any) -> list[str]:
    """Return a line about each violation of `schema` in `value`, at most `SHOWN_ERRORS`.

    The schema's `$schema` chooses the draft, 2020-12 without it. Raises BadSchema when the schema is none, when it
    refers to another document, and when it never comes to an end.
    """
    import jsonschema
    import jsonschema.validators
    import referencing.exceptions
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    if not isinstance(schema, bool | dict):
        raise BadSchema("a schema is an object or a boolean")
    try:
        kind: Any = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
        validator = kind(schema, registry=REGISTRY)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            errors = itertools.islice(validator.iter_errors(value), SHOWN_ERRORS)
            return [f"{error.json_path}: {shorten(error.message, SHOWN_LENGTH)}" for error in errors]
    except jsonschema.SchemaError as error:
        raise BadSchema(f"{error.json_path}: {error.message}") from None
    except referencing.exceptions.Unresolvable as error:
        raise BadSchema(f"it refers to {error.ref!r}, which is not in it; other documents are never fetched") from None
    except RecursionError:
        raise BadSchema("it refers to itself without end, or the file is nested too deeply") from None
    except ArithmeticError as error:
        return [f"$: it has a number that cannot be checked: {type(error).__name__}: {error}"]
    except Exception as error:
        # Both files may be the agent's, and nobody says what jsonschema raises for odd ones.
        raise BadSchema(f"{type(error).__name__}: {error}") from None
