"""Cases of the types that come with the package."""

from __future__ import annotations

from typing import Any

from .case import LiveCase, call, tool

GUARD: dict[str, Any] = {"min_count": 0, "max_count": 0}

_NEEDED: dict[str, Any] = {"type": "skill_triggered", "skill_name": "a", "expected_skill": "a"}
_UNWANTED: dict[str, Any] = {"type": "skill_triggered", "skill_name": "a", "expected_skill": "b"}
_USES = (*tool("Bash", command="ls"), *tool("Skill", skill="a"), *tool("Skill", skill="b"))
_OTHER = (
    *tool("Bash", command="ls skills/a"),
    *tool("Skill", "error", skill="a"),
    *tool("Skill", "unknown", skill="a"),
    *tool("Skill", skill="b"),
)
_READS = (
    *tool("Bash", "error", 1, command="cat skills/a/SKILL.md"),
    *tool("Read", file_path="/x/skills/a/SKILL.md"),
    *tool("Bash", exit_status=0, command="cat skills/b/SKILL.md"),
)

SKILL_TRIGGERED = (
    LiveCase("used, as expected", _NEEDED, _USES, "pass"),
    LiveCase("read, as expected", _NEEDED, _READS, "pass"),
    LiveCase("not used yet", _NEEDED, _OTHER, None),
    LiveCase("used, and another one was expected", _UNWANTED, _USES, "fail"),
    LiveCase("not used, as expected", _UNWANTED, _OTHER, None),
    LiveCase("used, of a criterion that never fails", {**_UNWANTED, "pass_threshold": 0}, _USES, None),
)


def _ran(command: str, status: int = 0) -> Any:
    return tool("Bash", "success" if status == 0 else "error", status, command=command)


_PUSHES = (*_ran("git status"), *_ran("git push a"), *_ran("git push b | tail", 1), *_ran("git push c && ls"))
_RECORDED = (*_ran("git push a; git push b"), *call(1, "git push a"), *call(2, "git push b", 1), *_ran("git log"))
_UNRECORDED = (*_ran("git log"), *_ran("/usr/bin/git push a"), *_ran("$X push a"), *call(1, "git log"))
_EXECUTED: dict[str, Any] = {"type": "command_executed", "command_pattern": r"git\s+push"}
_SUCCESS = {**_EXECUTED, "require_success": True}

COMMAND_EXECUTED = (
    LiveCase("run often enough", {**_EXECUTED, "min_count": 2}, _PUSHES, "pass"),
    LiveCase("run often enough, but partly", {**_EXECUTED, "min_count": 4, "pass_threshold": 0.5}, _PUSHES, None),
    LiveCase("ran well", _SUCCESS, _PUSHES, "pass"),
    LiveCase("crashed", _SUCCESS, (*_ran("git push a", 1), *_ran("git push b; true")), None),
    LiveCase("run too often", {**_EXECUTED, "min_count": 1, "max_count": 2}, _PUSHES, "fail"),
    LiveCase("run not too often", {**_EXECUTED, "min_count": 1, "max_count": 5}, _PUSHES, None),
    LiveCase("forbidden", {**_EXECUTED, **GUARD}, _PUSHES, "fail"),
    LiveCase("forbidden, without effect", {**_EXECUTED, **GUARD, "pass_threshold": 0}, _PUSHES, None),
    LiveCase("recorded", {**_EXECUTED, "min_count": 2}, _RECORDED, "pass"),
    LiveCase("recorded, one without success", {**_SUCCESS, "min_count": 2}, _RECORDED, None),
    LiveCase("recorded and forbidden", {**_EXECUTED, **GUARD}, _RECORDED, "fail"),
    LiveCase("past the recorder", _EXECUTED, _UNRECORDED, None),
    LiveCase("tools of any kind", {"type": "command_executed", "tool_name": "Bash", "min_count": 3}, _PUSHES, "pass"),
    LiveCase("a loop that has not ended", {**_EXECUTED, **GUARD}, _ran("while true; do git push; done"), None),
    LiveCase("anything", {**_EXECUTED, "min_count": 0}, _PUSHES, None),
)

_CALLS = (
    *call(1, "uip login"),
    *call(2, "uip get a", 1),
    *call(3, "uip delete a"),
    *call(4, "uip get b"),
    *call(5, "curl x"),
)
_CUT = (*call(1, "uip get a", None), *call(2, "uip login", None), *call(3, "uip get b", 1))
_CALLED: dict[str, Any] = {"type": "cli_called", "tool": "uip"}
_GET = {**_CALLED, "verb": "get"}
_NAMES = (
    {**_CALLED, "verb": "login", "exit_code": 0, "name": "login"},
    {**_CALLED, "verb": "delete", "name": "delete"},
    {**_CALLED, "verb": "login", "before": "delete", "name": "login first"},
)

CLI_CALLED = (
    LiveCase("called often enough", {**_GET, "min_count": 2}, _CALLS, "pass"),
    LiveCase("called too seldom", {**_GET, "min_count": 3}, _CALLS, None),
    LiveCase("called with success", {**_GET, "exit_code": 0}, _CALLS, "pass"),
    LiveCase("killed before its end", {**_GET, "exit_code": 0}, _CUT, None),
    LiveCase("forbidden", {**_CALLED, "verb": "delete", **GUARD}, _CALLS, "fail"),
    LiveCase("forbidden, and its status is open", {**_GET, "exit_code": 0, **GUARD}, _CUT, None),
    LiveCase("as often as allowed", {**_GET, "min_count": 1, "max_count": 2}, _CALLS, None),
    LiveCase("more often than allowed", {**_GET, "min_count": 0, "max_count": 1}, _CALLS, "fail"),
    LiveCase("exactly", {**_GET, "min_count": 2, "max_count": 2}, _CALLS, None),
    LiveCase("forbidden, without effect", {**_GET, **GUARD, "pass_threshold": 0}, _CALLS, None),
    LiveCase("after a login", {**_GET, "after": "login"}, _CALLS, "pass", _NAMES),
    LiveCase("after a login that did not end", {**_GET, "after": "login"}, _CUT, None, _NAMES),
    LiveCase("before the delete", {**_GET, "before": "delete"}, _CALLS, None, _NAMES),
    LiveCase("forbidden before the delete", {**_GET, "before": "delete", **GUARD}, _CALLS, "fail", _NAMES),
    LiveCase("after what is ordered by before", {**_GET, "after": "login first"}, _CALLS, None, _NAMES),
    LiveCase("in a sequence", {**_CALLED, "sequence": [{"verb": "login"}, {"verb": "get"}]}, _CALLS, "pass"),
    LiveCase(
        "too many sequences",
        {**_CALLED, "sequence": [{"verb": "get"}, {"verb": "delete", "exit_code": 0}], **GUARD},
        _CALLS,
        "fail",
    ),
    LiveCase("no sequence yet", {**_CALLED, "sequence": [{"verb": "delete"}, {"verb": "login"}]}, _CALLS, None),
    LiveCase("input is not known yet", {**_GET, "stdin": {"absent": True}}, call(1, "uip get a", None), None),
    LiveCase("a mock of the author", {**_GET, "log": "mocks/calls.jsonl"}, _CALLS, None),
    LiveCase("nobody records", {**_GET, "tool": "git"}, _CALLS, None),
)

BUILT_IN = (*SKILL_TRIGGERED, *COMMAND_EXECUTED, *CLI_CALLED)
"""Cases for every type of the package that gives live verdicts."""
