"""The kinds of difference that are meant. docs/differences.md gives the reason of each under its name.

A rule looks at what the vector holds, never at which vector it is. Where it can, it takes that content out: the rule
holds only when nothing else is in the way.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import posixpath
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from pytest_codereval.criteria.json_strict import equal

from . import early_stop_rules, repairs
from .evidence import is_system_error
from .kinds import RUNNERS, model_of, run_model
from .models import model_named
from .outcome import Outcome, Vector, agrees

Applies = Callable[[str, Vector, Outcome], bool]
"""Takes the kind, the vector and what this package says."""

DIALECT_AGENTS = frozenset(["claude-code", "codex", "antigravity", "opencode", "pi", "delegate", "none"])
RESERVED_THERE = frozenset(["python", "python3", "py", "env", "sh", "bash", "zsh", "cmd", "node", "uv", "git"])
OUR_KEYS = frozenset({"enabled", "name", "shims", "env", "env_passthrough"})


@dataclasses.dataclass(frozen=True)
class Rule:
    """A kind of difference that is meant."""

    name: str
    applies: Applies


def justification(kind: str, vector: Vector, outcome: Outcome) -> str | None:
    """Return the name of the rule that explains why `outcome` is not what the vector expects, or None."""
    return next((rule.name for rule in RULES if rule.applies(kind, vector, outcome)), None)


def _refused_for(repair: repairs.Repair) -> Applies:
    """The input is refused when it is loaded, for this content alone; the other system finds out later or never."""

    def applies(kind: str, vector: Vector, outcome: Outcome) -> bool:
        if outcome.how != "refused":
            return False
        if kind == "model_accept":
            repaired = repair(vector["input"])
            changed = not _identical(repaired, vector["input"])
            return changed and vector["expected"]["accepted"] and run_model(vector["model"], repaired).how == "answered"
        if "criterion" not in vector or vector["expected"].get("score", 0) >= 1:
            return False
        repaired = repair(vector["criterion"])
        return not _identical(repaired, vector["criterion"]) and _loads(repaired)

    return applies


def _identical(left: object, right: object) -> bool:
    """Tell whether two inputs are the same as JSON, where true is not 1."""
    return json.dumps(left) == json.dumps(right)


def _loads(criterion: Mapping[str, Any]) -> bool:
    try:
        model_of(criterion)
    except ValidationError:
        return False
    return True


def _task_repair(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Applies:
    """As `_refused_for`, for a repair of the top level of a task."""
    applies_to_input = _refused_for(lambda value: change(dict(value)))
    return lambda kind, vector, outcome: (
        vector.get("model") == "TaskDefinition" and applies_to_input(kind, vector, outcome)
    )


def _without_unknown_keys(task: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in task.items() if key in model_named("Task").model_fields}


def _with_plain_id(task: dict[str, Any]) -> dict[str, Any]:
    return {**task, "task_id": "plain"} if isinstance(task.get("task_id"), str) else task


def _with_known_agent(task: dict[str, Any]) -> dict[str, Any]:
    agent = task.get("agent")
    if isinstance(agent, dict) and agent.get("type") not in DIALECT_AGENTS:
        return {**task, "agent": {"type": "claude-code"}}
    return task


def _without_leaks(task: dict[str, Any]) -> dict[str, Any]:
    kept = ("success_criteria", "post_run")
    return {key: value if key in kept else _unnamed(value) for key, value in task.items()}


def _unnamed(value: Any) -> Any:
    text = json.dumps(value)
    return json.loads(text.replace("$REFERENCE_DIR", "there").replace("${REFERENCE_DIR}", "there"))


def _wrongly_accepted(vector: Vector, outcome: Outcome) -> bool:
    return outcome.how == "answered" and vector["expected"].get("accepted") is False and "model" in vector


def _recordable_tool(kind: str, vector: Vector, outcome: Outcome) -> bool:
    if not _wrongly_accepted(vector, outcome) or vector["model"] != "RecordedCli":
        return False
    at_fault = [error["loc"] for error in vector["expected"]["errors"]]
    return vector["input"]["tool"].casefold() in RESERVED_THERE and at_fault == [["tool"]]


def _single_rule(kind: str, vector: Vector, outcome: Outcome) -> bool:
    """One rule can be neither a duplicate nor unreachable, so its refusal came from running the matcher."""
    if not _wrongly_accepted(vector, outcome) or vector["model"] != "RecordedCli":
        return False
    at_fault = [error["loc"] for error in vector["expected"]["errors"]]
    return len(vector["input"].get("responses", ())) == 1 and at_fault == [[]]


def _older_reference(kind: str, vector: Vector, outcome: Outcome) -> bool:
    if not _wrongly_accepted(vector, outcome):
        return False
    fields = vector["input"].get("reference") if vector["model"] == "TaskDefinition" else vector["input"]
    places = {(*error["loc"], "")[0] for error in vector["expected"]["errors"]}
    older = isinstance(fields, dict) and bool({"file", "code"} & fields.keys())
    return older and bool(places) and places <= {"reference", ""}


def _own_key(kind: str, vector: Vector, outcome: Outcome) -> bool:
    if not _wrongly_accepted(vector, outcome):
        return False
    errors = vector["expected"]["errors"]
    unknown = all(error["type"] == "extra_forbidden" and error["loc"][-1] in OUR_KEYS for error in errors)
    reason = [error["loc"] for error in errors] == [["skip"]] and isinstance(vector["input"].get("skip"), str)
    return bool(errors) and (unknown or reason)


def _unreadable(kind: str, vector: Vector, outcome: Outcome) -> bool:
    """There is no one text to read: the system refuses it, it is no UTF-8, or the pattern matches several files."""
    if "raises" not in vector["expected"] or outcome.answer.get("score") != 0:
        return False
    raised = [error for _, _, error in vector.get("read_raises", ())]
    if raised:
        return all(map(is_system_error, raised))
    path = vector["criterion"].get("path", "")
    named = [content for name, content in vector.get("files", {}).items() if fnmatch.fnmatch(name, path)]
    return len(named) > 1 or any(map(_is_binary, named))


def _is_binary(content: object) -> bool:
    if not isinstance(content, dict) or "hex" not in content:
        return False
    try:
        bytes.fromhex(content["hex"]).decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _link_out(kind: str, vector: Vector, outcome: Outcome) -> bool:
    if "raises" not in vector["expected"] or outcome.answer.get("score") != 0:
        return False
    path = vector["criterion"].get("path", "")
    links = {
        name: content["symlink"]
        for name, content in vector.get("files", {}).items()
        if isinstance(content, dict) and "symlink" in content
    }
    return any(
        (path == name or path.startswith(f"{name}/"))
        and repairs.is_foreign(posixpath.join(posixpath.dirname(name), target))
        for name, target in links.items()
    )


def _not_recorded(kind: str, vector: Vector, outcome: Outcome) -> bool:
    return outcome.how == "incomplete"


def _directory(kind: str, vector: Vector, outcome: Outcome) -> bool:
    if kind != "file_exists" or outcome.how != "answered":
        return False
    path = vector["criterion"]["path"]
    listed = any(name.startswith(f"{path}/") for name in vector.get("files", {}))
    return listed and vector["expected"].get("score") == 1 and outcome.answer["score"] == 0


def _skill_repair(repair: repairs.Repair) -> Applies:
    """The calls of tools, changed like this, give what is expected about a skill."""

    def applies(kind: str, vector: Vector, outcome: Outcome) -> bool:
        if kind not in ("live_verdict", "skill_triggered") or outcome.how != "answered":
            return False
        if vector["criterion"]["type"] != "skill_triggered" or not vector.get("turns"):
            return False
        turns = repair(vector["turns"])
        changed = {**vector, "turns": turns}
        return not _identical(turns, vector["turns"]) and agrees(changed, RUNNERS[kind](changed))

    return applies


def _unfinished(kind: str, vector: Vector, outcome: Outcome) -> bool:
    in_verdict = _skill_repair(repairs.with_ended_calls)
    return in_verdict(kind, vector, outcome) or early_stop_rules.unfinished_call(kind, vector, outcome)


def _json_texts(vector: Vector) -> list[str]:
    return [text for text in vector.get("files", {}).values() if isinstance(text, str)]


def _not_json(kind: str, vector: Vector, outcome: Outcome) -> bool:
    if kind != "json_check" or outcome.answer.get("score") != 0 or vector["expected"].get("score", 0) == 0:
        return False
    return any(map(_has_constant, _json_texts(vector)))


def _has_constant(text: str) -> bool:
    found: list[str] = []
    try:
        json.loads(text, parse_constant=found.append)
    except ValueError:
        return False
    return bool(found)


def _assertion_values(vector: Vector) -> list[tuple[str, Any, Any]]:
    """Operator, found and expected value of each assertion."""
    import jmespath

    criterion = vector["criterion"]
    try:
        value = json.loads(vector["files"][criterion["path"]])
        return [
            (item.get("operator", "equals"), jmespath.search(item["expression"], value), item.get("expected"))
            for item in criterion.get("assertions", ())
        ]
    except (KeyError, ValueError):
        return []


def _some_assertion(differs: Callable[[str, Any, Any], bool]) -> Applies:
    """The score of a json_check differs, and so do the systems about at least one assertion."""

    def applies(kind: str, vector: Vector, outcome: Outcome) -> bool:
        if kind != "json_check" or outcome.how != "answered" or "score" not in vector["expected"]:
            return False
        total = len(vector["criterion"].get("assertions", ()))
        parts = 2 if "json_schema" in vector["criterion"] else 1
        count = sum(differs(*values) for values in _assertion_values(vector))
        step = abs(outcome.answer["score"] - vector["expected"]["score"])
        return count > 0 and step * total * parts <= count + 1e-9

    return applies


def _true_beside_one(operator: str, found: Any, expected: Any) -> bool:
    if operator in ("equals", "not_equals"):
        return bool(found == expected) and not equal(found, expected)
    if operator == "contains" and isinstance(found, list):
        return expected in found and not any(equal(item, expected) for item in found)
    ordering = operator in ("gt", "gte", "lt", "lte")
    return ordering and (isinstance(found, bool) or isinstance(expected, bool))


def _whole_number(operator: str, found: Any, expected: Any) -> bool:
    number = isinstance(found, int | float) and not isinstance(found, bool)
    return operator == "type" and expected == "integer" and number and found % 1 == 0


def _answers_out_of_reach(kind: str, vector: Vector, outcome: Outcome) -> bool:
    """The table of answers was destroyed in the sandbox; here a rule still answers."""
    if kind != "record_cli_shim" or outcome.how != "answered":
        return False
    expected, found = vector["expected"]["record"], outcome.answer["record"]
    same_call = expected["argv"] == found["argv"] and expected["tool"] == found["tool"]
    return same_call and "sidecar_error" in expected and "rule" in found and "rule" not in expected


RULES = (
    Rule("unknown-top-level-key", _task_repair(_without_unknown_keys)),
    Rule("pattern-compiled-at-load", _refused_for(repairs.without_bad_patterns)),
    Rule("expression-compiled-at-load", _refused_for(repairs.without_bad_expressions)),
    Rule("path-stays-inside", _refused_for(repairs.without_foreign_paths)),
    Rule("true-is-no-number", _refused_for(repairs.without_bool_numbers)),
    Rule("timeout-is-positive", _refused_for(repairs.without_endless_timeouts)),
    Rule("command-is-not-blank", _refused_for(repairs.without_blank_commands)),
    Rule("operand-fits-operator", _refused_for(repairs.without_unfit_operands)),
    Rule("metric-is-known", _refused_for(repairs.without_bad_metrics)),
    Rule("template-source-has-a-type", _refused_for(repairs.without_untyped_sources)),
    Rule("task-id-is-a-name", _task_repair(_with_plain_id)),
    Rule("agent-is-known", _task_repair(_with_known_agent)),
    Rule("reference-stays-with-the-graders", _task_repair(_without_leaks)),
    Rule("more-tools-can-be-recorded", _recordable_tool),
    Rule("one-rule-is-reachable", _single_rule),
    Rule("older-reference-loads", _older_reference),
    Rule("key-of-ours", _own_key),
    Rule("unreadable-file-fails", _unreadable),
    Rule("link-out-is-absent", _link_out),
    Rule("content-not-recorded", _not_recorded),
    Rule("directory-is-no-file", _directory),
    Rule("nan-is-not-json", _not_json),
    Rule("true-is-not-1", _some_assertion(_true_beside_one)),
    Rule("integer-is-a-type", _some_assertion(_whole_number)),
    Rule("answers-are-out-of-reach", _answers_out_of_reach),
    Rule("unfinished-call-decides-nothing", _unfinished),
    Rule("listing-is-no-use", _skill_repair(repairs.with_read_folders)),
    Rule("call-without-end-is-a-call", early_stop_rules.call_without_end),
    Rule("turns-of-each-run", early_stop_rules.turns_of_each_run),
    Rule("fault-not-recorded", early_stop_rules.fault_not_recorded),
    Rule("pass-stops-no-fail", early_stop_rules.pass_of_a_fail),
)
