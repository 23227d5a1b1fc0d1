"""The `agent` block when several layers give parts of it for agents of different types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..agent_models import AgentConfig, all_models
from ..problems import dotted
from .engine import Layer, Merged, Origin

FROM_OPTION = Layer("--codereval-agent", "--codereval-agent", overlay=True)
FROM_INI = Layer("ini codereval_agent", "ini codereval_agent")


def make_room(merged: Merged, value: Any) -> None:
    """Called before a layer's block is merged: when it names another type, only what all agents have in common stays.

    The model goes too: it is another provider's.
    """
    block = merged.data.get("agent")
    if not isinstance(block, dict) or not isinstance(value, Mapping):
        return
    old, new = block.get("type"), value.get("type")
    if old is None or new is None or old == new:
        return
    for key in [key for key in block if key == "model" or key not in AgentConfig.model_fields]:
        _leave_out(merged, key, f"it was set for {old}, and {new} takes its place")


def override(merged: Merged, name: str | None) -> None:
    """The agent of the command line, the highest layer. It never takes the place of the agent none.

    Steps of a script stay, so that a session can say that they were left out; and so does the block where the agent
    needs more than its type, or is none, for which the rest of the task would be wrong: the trial chooses.
    """
    block = merged.data.get("agent")
    own = block.get("type") if isinstance(block, dict) else None
    if name is None or own in ("none", name):
        return
    told = f", in place of {own}" if own is not None else ""
    needs_more = any(field.is_required() for field in all_models()[name].model_fields.values())
    if own in (None, "script") or needs_more or name == "none":
        merged.notes["agent.type"] = f"{FROM_OPTION.told}{told}: {name}"
        return
    make_room(merged, {"type": name})
    merged.put(name, Origin(FROM_OPTION, ()), ("agent", "type"))
    merged.notes["agent.type"] = f"{FROM_OPTION.told}{told}"


def settle(merged: Merged, overriding: str | None, default: str | None) -> None:
    """Leave out what the chosen agent does not have, unless it stands where its type stands or on the command line.

    `overriding` is the command line's agent, `default` that of the ini file. A block without a type that has keys of
    the chosen agent gets its type.
    """
    block = merged.data.get("agent")
    own = block.get("type") if isinstance(block, dict) else None
    chosen = own if own is not None else overriding or default
    if not isinstance(block, dict) or not isinstance(chosen, str) or chosen not in all_models():
        return
    typed = merged.said_by(("agent", "type")) if own is not None else None
    for key in list(block):
        layer = merged.said_by(("agent", key))
        if layer is None or layer is typed or (chosen != "none" and layer.document is None):
            continue
        if layer.is_task and key in AgentConfig.model_fields:
            continue
        if not _has(all_models()[chosen], key) and _is_known(key):
            _leave_out(merged, key, f"{chosen} has no such setting")
    if own is None and any(key not in AgentConfig.model_fields for key in block):
        layer = FROM_OPTION if overriding is not None else FROM_INI
        merged.put(chosen, Origin(layer, ()), ("agent", "type"))


def _has(model: type[AgentConfig], key: str) -> bool:
    if key == "mcp_servers":
        return model.takes_mcp_servers
    if key == "context_window":
        return model.context_range is not None
    return key in model.model_fields


def _is_known(key: str) -> bool:
    return any(key in model.model_fields for model in all_models().values())


def _leave_out(merged: Merged, key: str, why: str) -> None:
    place = ("agent", key)
    origin = merged.origin_of(place)
    where = f" ({origin.layer.describe(origin.location)})" if origin is not None else ""
    merged.drop(place)
    merged.notes[dotted(place)] = f"left out{where}: {why}"
