"""How each kind of vector is put to this package."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from pytest_codereval.criteria.commands.command_text import normalise
from pytest_codereval.criteria.registry import checker, live
from pytest_codereval.errors import JudgingError
from pytest_codereval.recorder.argv import ArgvPattern, flag_test, is_number, matches, split_argv
from pytest_codereval.recorder.log import parse_log

from .early_stop import early_stop, early_stop_validate
from .evidence import evidence_of
from .models import model_named
from .outcome import Outcome, Vector
from .shims import record_cli_shim


def _criterion(vector: Vector) -> Outcome:
    if missing := _unrecorded(vector):
        return Outcome("incomplete", reason=f"of {missing} only the length was recorded")
    try:
        criterion = model_of(vector["criterion"])
    except ValidationError as error:
        return Outcome("refused", reason=_first_problem(error))
    with tempfile.TemporaryDirectory() as root:
        workspace = Path(root).resolve() / "workspace"
        workspace.mkdir()
        try:
            judgement = checker(criterion.type)(criterion, evidence_of(vector, workspace))
        except JudgingError as error:
            return Outcome("unjudged", reason=str(error))
        except RuntimeError as error:
            return Outcome("raised", reason=repr(error))
    answer: dict[str, Any] = {"score": judgement.score}
    if judgement.expected_label is not None:
        answer["expected_label"] = judgement.expected_label
        answer["observed_label"] = judgement.label
    return Outcome("answered", answer, judgement.reason)


def _unrecorded(vector: Vector) -> str | None:
    """Return the name of a text of the vector that stands there by its length alone, or None."""
    texts = {"log": vector.get("log"), **vector.get("files", {}), **vector.get("command_result", {})}
    return next((name for name, text in texts.items() if isinstance(text, dict) and text.keys() == {"len"}), None)


def model_of(fields: Mapping[str, Any]) -> Any:
    """Return the model of a vector's criterion, in which values that are the default were left out.

    An assertion whose operator needs a value has none only where the value was null. Raises ValidationError.
    """
    filled: dict[str, Any] = {"description": "d", **fields}
    if "assertions" in filled:
        filled["assertions"] = [{"expected": None, **assertion} for assertion in filled["assertions"]]
    return model_named(fields["type"]).model_validate(filled)


def _model_accept(vector: Vector) -> Outcome:
    return run_model(vector["model"], vector["input"])


def run_model(name: str, fields: Mapping[str, Any]) -> Outcome:
    """Put an input to the model of that name."""
    model = model_named(name)
    try:
        model.model_validate(_with_type(model, fields))
    except ValidationError as error:
        return Outcome("refused", reason=_first_problem(error))
    return Outcome("answered", {"accepted": True})


def _with_type(model: Any, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Criteria of vectors may leave out the type that their model's name says."""
    field = model.model_fields.get("type")
    names: tuple[str, ...] = get_args(field.annotation) if field is not None else ()
    return {"type": names[0], **fields} if len(names) == 1 else fields


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]


def _argv_match(vector: Vector) -> Outcome:
    return Outcome("answered", {"match": matches(_pattern(vector["spec"]), vector["argv"])})


def _pattern(spec: Mapping[str, Any]) -> ArgvPattern:
    return ArgvPattern(
        verbs=tuple(map(tuple, spec["verb_spellings"] or ())),
        positional=tuple(spec["positional"] or ()),
        flags=tuple(flag_test(name, predicate) for name, predicate in (spec["flags"] or {}).items()),
        value_flags=frozenset(spec["value_flags"] or ()),
        ignore_flags=frozenset(spec["ignore_flags"] or ()),
    )


def _record_cli_rule(vector: Vector) -> Outcome:
    patterns = [_pattern(rule["when"]) for rule in vector["rules"]]
    index = next((index for index, pattern in enumerate(patterns) if matches(pattern, vector["argv"])), None)
    return Outcome("answered", {"index": index})


def _live_verdict(vector: Vector) -> Outcome:
    try:
        criterion = model_of(vector["criterion"])
    except ValidationError as error:
        return Outcome("refused", reason=_first_problem(error))
    with tempfile.TemporaryDirectory() as root:
        evidence = evidence_of(vector, Path(root).resolve())
        look = live(criterion.type)
        assert look is not None
        verdict = look(criterion, evidence)
    return Outcome("answered", {"verdict": verdict.value if verdict else "undecided"})


def _argv_split(vector: Vector) -> Outcome:
    positional, flags = split_argv(vector["argv"], vector["value_flags"], vector["ignore"], vector["known"])
    return Outcome("answered", {"positional": positional, "flags": flags})


def _flag_predicate(vector: Vector) -> Outcome:
    return Outcome("answered", {"match": flag_test("flag", vector["predicate"]).holds(vector["values"])})


def _is_number(vector: Vector) -> Outcome:
    return Outcome("answered", {"number": is_number(vector["text"])})


def _parse_log(vector: Vector) -> Outcome:
    parsed = parse_log(vector["text"])
    argvs = [list(invocation.argv) for invocation in parsed.invocations]
    return Outcome("answered", {"argvs": argvs, "unusable": parsed.unusable})


def _shell_normalize(vector: Vector) -> Outcome:
    return Outcome("answered", {"text": normalise(vector["text"])})


RUNNERS: Mapping[str, Callable[[Vector], Outcome]] = {
    "argv_match": _argv_match,
    "argv_split": _argv_split,
    "classification_match": _criterion,
    "cli_called": _criterion,
    "command_executed": _criterion,
    "commands_efficiency": _criterion,
    "early_stop": early_stop,
    "early_stop_validate": early_stop_validate,
    "file_check": _criterion,
    "file_contains": _criterion,
    "file_exists": _criterion,
    "file_matches_regex": _criterion,
    "flag_predicate": _flag_predicate,
    "is_number": _is_number,
    "json_check": _criterion,
    "live_verdict": _live_verdict,
    "model_accept": _model_accept,
    "parse_log": _parse_log,
    "record_cli_rule": _record_cli_rule,
    "record_cli_shim": record_cli_shim,
    "run_command": _criterion,
    "shell_normalize": _shell_normalize,
    "skill_triggered": _criterion,
}
"""By the name of the file: what runs one of its lines."""
