"""The end of a tool call, from what the program says of its result."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from ... import clock
from ...model_api.json_parts import mappings
from ...trajectory.model import ToolCall, ToolStatus

_EXIT_CODE = re.compile(r"Exit code (\d{1,3})(?:\n|$)")
_BACKGROUND_EXIT = re.compile(r"(?:completed \(exit code (\d{1,3})\)|failed with exit code (\d{1,3}))$")
_ONE_IS_NO_ERROR = re.compile(r"\b(?:[ef]?grep|rg|find|diff|test)\b|\[")
"""Programs whose exit status 1 Claude Code takes for no error, which it tells only to the main thread."""

_STATUS: Mapping[str, ToolStatus] = {"completed": "success", "failed": "error", "stopped": "error", "killed": "error"}


def ended(call: ToolCall, block: Mapping[str, Any], detail: Mapping[str, Any], goes_on: bool = False) -> ToolCall:
    """The call with its result; still without an end when it goes on in the background.

    `block` is the `tool_result` that the model gets, `detail` what the program tells besides, which is nothing for
    calls of sub-agents. `goes_on` tells that the call was moved to the background.
    """
    text = _content(block.get("content"))
    if block.get("is_error") is True:
        return _failed(call, text)
    if goes_on or "backgroundTaskId" in detail or detail.get("isAsync") is True:
        return dataclasses.replace(call, status="unknown", output=text)
    done = dataclasses.replace(call, status="success", output=text, ended=clock.now())
    if call.name != "Bash":
        return done
    if "stdout" not in detail:
        known = _ONE_IS_NO_ERROR.search(str(call.parameters.get("command"))) is None
        return dataclasses.replace(done, exit_status=0 if known else None)
    shell_output = _joined(detail.get("stdout"), detail.get("stderr"))
    if detail.get("interrupted") is True:
        return dataclasses.replace(done, status="error", output=shell_output)
    if detail.get("returnCodeInterpretation"):
        return dataclasses.replace(done, status="error", output=shell_output, exit_status=1)
    return dataclasses.replace(done, output=shell_output, exit_status=0)


def _failed(call: ToolCall, text: str) -> ToolCall:
    exit_status = None
    if call.name == "Bash" and (match := _EXIT_CODE.match(text)):
        exit_status = int(match[1])
        text = text[match.end() :]
    return dataclasses.replace(call, status="error", output=text, exit_status=exit_status, ended=clock.now())


def notified(call: ToolCall, notice: Mapping[str, Any]) -> ToolCall:
    """The end of a call that went on in the background: a shell command's, or a sub-agent's with its report."""
    summary = notice.get("summary")
    summary = summary if isinstance(summary, str) else ""
    status = _STATUS.get(str(notice.get("status")), "unknown")
    if call.name != "Bash":
        output = f"{call.output}\n\n{summary}" if summary else call.output
        return dataclasses.replace(call, status=status, output=output, ended=clock.now())
    match = _BACKGROUND_EXIT.search(summary)
    exit_status = int(match[1] or match[2]) if match else None
    return dataclasses.replace(call, status=status, exit_status=exit_status, ended=clock.now())


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = mappings(content)
    return "\n".join(_block_text(block) for block in blocks)


def _block_text(block: Mapping[str, Any]) -> str:
    text = block.get("text")
    return text if isinstance(text, str) else f"[{block.get('type')}]"


def _joined(*texts: object) -> str:
    return "\n".join(text for text in texts if isinstance(text, str) and text)
