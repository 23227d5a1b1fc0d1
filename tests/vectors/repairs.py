"""Taking one kind of content out of a vector's input, to see whether that alone made the difference."""

from __future__ import annotations

import posixpath
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jmespath

Repair = Callable[[Any], Any]
"""Returns its input without the kind of content, changed nowhere else."""

_PATH_KEYS = frozenset({"path", "agent_file", "json_schema", "log", "mount_point"})
_NUMBER_KEYS = frozenset(
    {
        *("weight", "pass_threshold", "similarity_threshold", "min_count", "max_count", "flags", "expected_commands"),
        *("expected_exit_code", "exit_code", "timeout", "turn_timeout", "task_timeout"),
        *("expected_turns", "max_turns", "max_usd"),
    }
)
_FLAGS = int(re.I | re.M | re.S | re.X | re.A | re.U)
_JSON_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")


def walk(value: Any, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Any:
    """Return `value` with `change` applied to every mapping in it, the outermost last."""
    if isinstance(value, Mapping):
        return change({key: walk(item, change) for key, item in value.items()})
    if isinstance(value, list):
        return [walk(item, change) for item in value]
    return value


def without_bad_patterns(value: Any) -> Any:
    """Regular expressions that do not compile become `x`."""
    return walk(value, _good_patterns)


def _good_patterns(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    keys = {"pattern", "command_pattern", "exclude_pattern", "matches_regex"}
    if fields.get("operator") == "regex":
        keys.add("expected")
    if fields.get("stdout_match") == "regex":
        keys.add("expected_stdout")
    flags = fields.get("flags", 0)
    if not isinstance(flags, int):
        flags = 0
    bad_flags = bool(flags & ~_FLAGS)
    good = {
        key: "x" if key in keys and isinstance(item, str) and not _compiles(item, 0 if bad_flags else flags) else item
        for key, item in fields.items()
    }
    return {**good, "flags": 0} if bad_flags and keys & fields.keys() else good


def _compiles(pattern: str, flags: int) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern, flags)
    except (re.error, ValueError, OverflowError, RecursionError):
        return False
    return True


def without_bad_expressions(value: Any) -> Any:
    """JMESPath expressions that do not compile, or call unknown functions or with wrong counts, become `@`."""
    return walk(value, _good_expressions)


def _good_expressions(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    expression = fields.get("expression")
    if not isinstance(expression, str):
        return fields
    try:
        jmespath.compile(expression).search(None)
    except (jmespath.exceptions.ParseError, jmespath.exceptions.LexerError):
        return {**fields, "expression": "@"}
    except (jmespath.exceptions.UnknownFunctionError, jmespath.exceptions.ArityError):
        return {**fields, "expression": "@"}
    except Exception:
        return fields
    return fields


def without_foreign_paths(value: Any) -> Any:
    """Paths of the workspace that are empty, absolute, lead out of it or name the workspace itself become `inside`."""
    return walk(value, _inside_paths)


def _inside_paths(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    if fields.get("type") == "template_dir" or {"mount_point", "include_patterns"} & fields.keys():
        keys = _PATH_KEYS - {"path"}
    else:
        keys = _PATH_KEYS
    inside = {key: "inside" if key in keys and is_foreign(item) else item for key, item in fields.items()}
    for key in ("mock_path_dirs", "include_patterns"):
        if isinstance(inside.get(key), list):
            inside[key] = ["inside" if is_foreign(item) else item for item in inside[key]]
    return inside


def is_foreign(path: object) -> bool:
    """Tell whether a path is empty, absolute, leads out of the workspace or names the workspace itself."""
    if not isinstance(path, str):
        return False
    plain = path.replace("\\", "/")
    if not plain.strip() or plain.startswith("/") or re.match(r"[A-Za-z]:/", plain):
        return True
    depth = 0
    for part in plain.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return True
    return posixpath.normpath(plain) == "."


def without_bool_numbers(value: Any) -> Any:
    """true and false where a number belongs become 1."""
    return walk(
        value,
        lambda fields: {k: 1 if k in _NUMBER_KEYS and isinstance(v, bool) else v for k, v in fields.items()},
    )


def without_endless_timeouts(value: Any) -> Any:
    """Timeouts of a command that are not above 0 become 1."""
    return walk(
        value,
        lambda fields: {
            **fields,
            **(
                {"timeout": 1}
                if "command" in fields and isinstance(fields.get("timeout"), int | float) and fields["timeout"] <= 0
                else {}
            ),
        },
    )


def without_unfit_operands(value: Any) -> Any:
    """Expected values that an operator can never meet become one that fits it."""
    return walk(value, _fit_operands)


def _fit_operands(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    operator, expected = fields.get("operator"), fields.get("expected")
    if operator == "type" and expected not in _JSON_TYPES:
        return {**fields, "expected": "string"}
    if operator == "regex" and not isinstance(expected, str):
        return {**fields, "expected": "x"}
    if operator in ("gt", "gte", "lt", "lte") and (isinstance(expected, bool) or not isinstance(expected, int | float)):
        return {**fields, "expected": 1}
    return fields


def without_untyped_sources(value: Any) -> Any:
    """Template sources without a type get the one that their keys fit."""
    return walk(value, _typed_sources)


def _typed_sources(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    sources = fields.get("template_sources")
    if not isinstance(sources, list):
        return fields
    kinds = {"path": "template_dir", "files": "starter_files", "url": "repo"}
    typed = []
    for source in sources:
        kind = next((kind for key, kind in kinds.items() if isinstance(source, dict) and key in source), None)
        typed.append({"type": kind, **source} if kind else source)
    return {**fields, "template_sources": typed}


def without_bad_metrics(value: Any) -> Any:
    """Thresholds over rows are left out."""
    return walk(value, lambda fields: {key: item for key, item in fields.items() if key != "suite_thresholds"})


def without_blank_commands(value: Any) -> Any:
    """Commands that are blank become `true`."""

    def change(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        command = fields.get("command")
        return {**fields, "command": "true"} if isinstance(command, str) and not command.strip() else fields

    return walk(value, change)


def with_ended_calls(value: Any) -> Any:
    """Calls of tools that have no status yet have succeeded."""
    return walk(value, lambda call: {**call, "status": "success"} if call.get("status", "") is None else call)


def with_read_folders(value: Any) -> Any:
    """Commands that list folders print what is in them instead."""
    return walk(value, _read_folder)


def _read_folder(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    command = fields.get("command")
    if not isinstance(command, str):
        return fields
    return {**fields, "command": re.sub(r"^ls\b.*?([^\s/]+(?:/[^\s/]+)*)/?$", r"cat \1/*", command)}
