"""Canonical tool calls, told in the tools that the asking client has offered."""

from __future__ import annotations

import dataclasses
import posixpath
import re
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .turns import Call

NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "Bash": ("Bash", "bash", "run_shell_command", "shell", "run_command"),
        "Read": ("Read", "read", "read_file"),
        "Write": ("Write", "write", "write_file"),
        "Edit": ("Edit", "edit", "replace", "edit_file"),
        "Glob": ("Glob", "glob"),
        "Grep": ("Grep", "grep", "search_file_content"),
        "Skill": ("Skill", "skill", "activate_skill"),
    }
)
ARGUMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "command": ("command", "cmd"),
        "file_path": ("file_path", "filePath", "absolute_path", "path"),
        "content": ("content", "file_text"),
        "old_string": ("old_string", "oldString", "oldText", "old_str"),
        "new_string": ("new_string", "newString", "newText", "new_str"),
        "skill": ("skill", "name"),
    }
)
EDITOR = "str_replace_based_edit_tool"
ABSOLUTE = ("file_path", "filePath", "absolute_path")


@dataclasses.dataclass(frozen=True)
class Offer:
    """What a client has offered: its tools with the schemas of their arguments, where it works, what it was told."""

    tools: Mapping[str, Mapping[str, Any]]
    cwd: str = ""
    told: str = ""


@dataclasses.dataclass(frozen=True)
class Made:
    name: str
    input: dict[str, Any]


def translate(call: Call, offer: Offer) -> list[Made]:
    """The call or calls that do the same with the tools on offer; as it stands where nothing fits."""
    given = {name: placed(value, offer.cwd) for name, value in call.input.items()}
    if call.tool == "Skill":
        given["skill"] = skill_name(str(given.get("skill", "")), offer.told)
    offered = next((name for name in NAMES.get(call.tool, (call.tool,)) if name in offer.tools), None)
    if offered is not None and call.tool in NAMES:
        return [Made(offered, fitted(given, offer.tools[offered], offer.cwd))]
    if EDITOR in offer.tools and call.tool in ("Read", "Write", "Edit"):
        return [Made(EDITOR, editor_input(call.tool, given))]
    return [Made(call.tool, given)]


def placed(value: Any, cwd: str) -> Any:
    return value.replace("{{cwd}}", cwd) if isinstance(value, str) and cwd else value


def fitted(given: Mapping[str, Any], schema: Mapping[str, Any], cwd: str) -> dict[str, Any]:
    """The arguments under the names that the schema has for them; texts that it requires besides are filled in."""
    known = schema.get("properties", {})
    made: dict[str, Any] = {}
    for name, value in given.items():
        called = next((one for one in ARGUMENTS.get(name, ()) if one in known), name)
        made[called] = posixpath.join(cwd, value) if called in ABSOLUTE and cwd and isinstance(value, str) else value
    for name in schema.get("required", []):
        if name not in made and known.get(name, {}).get("type") == "string":
            made[name] = "as the script says"
    return made


def editor_input(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    path = given.get("file_path", "")
    if tool == "Read":
        return {"command": "view", "path": path}
    if tool == "Write":
        return {"command": "create", "path": path, "file_text": given.get("content", "")}
    return {
        "command": "str_replace",
        "path": path,
        "old_str": given.get("old_string", ""),
        "new_str": given.get("new_string", ""),
    }


def shell_text(call: Call, offer: Offer) -> str:
    """A shell command for the call, in the way that Codex's classic tools do it; an edit takes whole lines."""
    given = {name: placed(value, offer.cwd) for name, value in call.input.items()}
    path = str(given.get("file_path", ""))
    if call.tool == "Bash":
        return str(given.get("command", ""))
    if call.tool == "Skill":
        return f"cat {shlex.quote(skill_file(str(given.get('skill', '')), offer.told))}"
    if call.tool == "Read":
        return f"cat {shlex.quote(path)}"
    return f"apply_patch <<'END_OF_PATCH'\n{patch(call.tool, path, given)}END_OF_PATCH\n"


def patch(tool: str, path: str, given: Mapping[str, Any]) -> str:
    if tool == "Write":
        lines = [f"*** Add File: {path}", *marked("+", given.get("content", ""))]
    else:
        old, new = marked("-", given.get("old_string", "")), marked("+", given.get("new_string", ""))
        lines = [f"*** Update File: {path}", "@@", *old, *new]
    return "".join(f"{line}\n" for line in ["*** Begin Patch", *lines, "*** End Patch"])


def marked(mark: str, text: Any) -> list[str]:
    return [mark + line for line in str(text).splitlines()]


def skill_name(skill: str, told: str) -> str:
    """The name that the client lists the skill by, which may begin with its plugin's."""
    found = re.search(rf"^\s*- ((?:[\w.-]+:)?{re.escape(skill)}): ", told, re.MULTILINE)
    return found[1] if found else skill


def skill_file(skill: str, told: str) -> str:
    """The path of a skill's SKILL.md as the client was told it; a root's short name stands for its directory."""
    found = re.search(rf"^\s*- (?:\S+:)?{re.escape(skill)}:.*?\(file: ([^)]+)\)", told, re.MULTILINE)
    if not found:
        return f".agents/skills/{skill.rpartition(':')[2]}/SKILL.md"
    root, slash, rest = found[1].partition("/")
    place = re.search(rf"^\s*- `{re.escape(root)}` = `([^`]+)`", told, re.MULTILINE) if root else None
    return place[1] + slash + rest if place else found[1]
