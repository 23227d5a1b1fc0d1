"""Tool calls as items of the Responses API, as Codex's tools or a home-made agent's take them."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .tools import Made, Offer, patch, placed, shell_text, translate
from .turns import Call

SHELL = "exec_command"
PATCHED = ("Write", "Edit")
SHELLED = ("Bash", "Read", "Skill", *PATCHED)


def offer_of(body: Mapping[str, Any]) -> Offer:
    """The tools of a call, also those that come as an item of its input."""
    said = body.get("input")
    items = said if isinstance(said, list) else []
    listed = [*(body.get("tools") or []), *(tool for item in items for tool in item.get("tools") or [])]
    told = "\n".join(texts(items))
    found = re.search(r"<cwd>(.*?)</cwd>", told)
    return Offer(dict(schemas(listed)), found[1] if found else "", told)


def schemas(tools: Iterable[Mapping[str, Any]], space: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each tool by its whole name, with its kind, its namespace, and what its arguments are."""
    for tool in tools:
        name = tool.get("name") or tool.get("function", {}).get("name", "")
        if tool.get("type") == "namespace":
            yield from schemas(tool.get("tools") or [], name)
        elif name:
            plain = space in ("", "functions")
            known = {"kind": tool.get("type"), "space": "" if plain else space, **(tool.get("parameters") or {})}
            yield name if plain else f"{space}__{name}", known


def texts(said: list[Mapping[str, Any]]) -> Iterator[str]:
    for item in said:
        content = item.get("content") or []
        if isinstance(content, str):
            yield content
        else:
            yield from (part["text"] for part in content if isinstance(part, dict) and "text" in part)


def items_of(call: Call, offer: Offer, truncated: bool = False) -> list[dict[str, Any]]:
    """The output items of a canonical call."""
    call = helper_call(call, offer)
    if call.tool in offer.tools:
        return [function_item(made, truncated, space_of(made.name, offer)) for made in translate(call, offer)]
    if offer.tools.get("exec", {}).get("kind") == "custom":
        return [custom_item(program(call, offer), truncated)]
    if SHELL in offer.tools and call.tool in SHELLED:
        return [function_item(Made(SHELL, {"cmd": shell_text(call, offer), **extra(call)}), truncated)]
    return [function_item(made, truncated, space_of(made.name, offer)) for made in translate(call, offer)]


def helper_call(call: Call, offer: Offer) -> Call:
    """Agent as Codex's tool that spawns one; any other call as it is."""
    spawn = next((name for name in offer.tools if name.endswith("__spawn_agent")), None)
    if call.tool != "Agent" or spawn is None:
        return call
    given = {"message": call.input.get("prompt", ""), "task_name": "helper"}
    return Call(
        spawn, {name: value for name, value in given.items() if name in offer.tools[spawn].get("properties", {})}
    )


def extra(call: Call) -> dict[str, Any]:
    """Arguments of Codex's own shell tool that a script gives besides."""
    known = ("workdir", "login", "yield_time_ms", "max_output_tokens", "tty", "shell")
    return {name: value for name, value in call.input.items() if name in known}


def program(call: Call, offer: Offer) -> str:
    """JavaScript that makes the call."""
    given = {name: placed(value, offer.cwd) for name, value in call.input.items()}
    if call.tool in PATCHED:
        text = patch(call.tool, str(given.get("file_path", "")), given)
        return f"text(await tools.apply_patch({json.dumps(text)}));"
    if call.tool in SHELLED:
        arguments = {"cmd": shell_text(call, offer), **extra(call)}
        return f"const r = await tools.exec_command({json.dumps(arguments)}); text(r);"
    return f"text(await tools[{json.dumps(call.tool)}]({json.dumps(given)}));"


def custom_item(text: str, truncated: bool) -> dict[str, Any]:
    return {
        "type": "custom_tool_call",
        "id": f"ctc_{uuid.uuid4().hex[:16]}",
        "call_id": f"call_{uuid.uuid4().hex[:16]}",
        "name": "exec",
        "input": text[: len(text) * 2 // 3] if truncated else text,
        "status": "completed",
    }


def space_of(name: str, offer: Offer) -> str:
    """The namespace that a tool's whole name begins with, empty when it has none."""
    if name in offer.tools:
        return str(offer.tools[name]["space"])
    return "__".join(name.split("__")[:2]) if name.startswith("mcp__") else ""


def function_item(made: Made, truncated: bool, space: str = "") -> dict[str, Any]:
    written = json.dumps(made.input)
    item = {
        "type": "function_call",
        "id": f"fc_{uuid.uuid4().hex[:16]}",
        "call_id": f"call_{uuid.uuid4().hex[:16]}",
        "name": made.name,
        "arguments": written[: len(written) * 2 // 3] if truncated else written,
        "status": "completed",
    }
    if space:
        item.update(namespace=space, name=made.name.removeprefix(f"{space}__"))
    return item
