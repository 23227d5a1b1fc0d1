"""The agent of an agent_judge: what it may do, and how it hands in its verdict."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ...agents.protocol import OwnTool
from ...dialog.simulated_user import direct_name
from ...errors import JudgingError
from ...model_api.json_parts import mapping
from .endpoints import JUDGE_MODEL
from .verdict import SUBMIT, Opinion, opinion_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...task.agent_models import AgentConfig
    from ...task.judge_models import AgentJudge

READING = ("Read", "Glob", "Grep")
"""Tools that change nothing: all that a judge has unless its `agent` block allows more."""

CHANGING = ("Bash", "Write", "Edit", "MultiEdit", "NotebookEdit", "WebFetch", "WebSearch", "Task", "Agent", "Skill")

BY_TOOL = "Look around with your tools; then give your verdict by calling the tool submit_verdict once."

_BY_MESSAGE = """\
Look around with your tools; then end with one last message that has your verdict, as exactly one block of this form:

```verdict-{fence}
{{"rationale": "your reasoning", "findings": ["one observation", "another"], "score": 0.0}}
```
"""

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "claude-code": {"model": direct_name(JUDGE_MODEL), "permission_mode": "default"},
    "anthropic": {"model": direct_name(JUDGE_MODEL)},
}


def name_of(criterion: AgentJudge) -> str:
    """The type of the agent."""
    return (criterion.agent.type if criterion.agent is not None else None) or "claude-code"


def model_of_judge(criterion: AgentJudge) -> str | None:
    """The model that the agent is to ask, None where its program decides."""
    own = criterion.agent.model if criterion.agent is not None else None
    return own or _DEFAULTS.get(name_of(criterion), {}).get("model")


def agent_of(criterion: AgentJudge, rules: str) -> AgentConfig:
    """The agent's block: the author's laid over what a judge has; no settings, plugins or servers of the workspace's.

    Raises JudgingError when the two do not fit together.
    """
    from pydantic import ValidationError

    from ...task.agent_models import model_of

    own = criterion.agent
    name = name_of(criterion)
    model = model_of(name)
    given: dict[str, Any] = dict(_DEFAULTS.get(name, {}))
    if own is not None:
        given |= {key: getattr(own, key) for key in own.model_fields_set if getattr(own, key) is not None}
    given |= {"type": name, "system_prompt": "\n\n".join(filter(None, [rules, given.get("system_prompt")]))}
    allowed = tuple(given.get("allowed_tools") or READING)
    refused = [tool for tool in CHANGING if not any(one.partition("(")[0] == tool for one in allowed)]
    given |= {"allowed_tools": allowed, "disallowed_tools": (*(given.get("disallowed_tools") or ()), *refused)}
    forced = {"setting_sources": (), "system_prompt_mode": "replace"}
    given |= {key: value for key, value in forced.items() if key in model.model_fields}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise JudgingError(f"the judge's agent {name}: {where}: {first['msg']}") from None


def how_to_answer(name: str, fence: str) -> str:
    """How an agent of this type is told to hand in its verdict."""
    return BY_TOOL if name == "anthropic" else _BY_MESSAGE.format(fence=fence)


class Box:
    """Takes the verdict of one run: the first one that is in shape."""

    def __init__(self, name: str, fence: str) -> None:
        self.opinion: Opinion | None = None
        self._fence = fence
        self._calls = 0
        self._fault: JudgingError | None = None
        self.tools = (OwnTool(dict(SUBMIT), self._submit),) if name == "anthropic" else ()

    @property
    def closed(self) -> bool:
        """Whether something was handed in, so that the agent is done."""
        return self._calls > 0

    def _submit(self, submitted: Mapping[str, object]) -> tuple[bool, str]:
        self._calls += 1
        try:
            self.opinion = opinion_of(submitted)
        except JudgingError as error:
            self._fault = error
            return False, str(error)
        return True, "The verdict was taken. You are done."

    def verdict(self, last_message: str) -> Opinion:
        """What was handed in. Raises JudgingError when that is nothing, out of shape, or more than one verdict."""
        if self.tools:
            if self._fault is not None:
                raise self._fault
            if self.opinion is None or self._calls != 1:
                raise JudgingError(f"the judge submitted {self._calls or 'no'} verdicts, expected one")
            return self.opinion
        mark = re.escape(f"verdict-{self._fence}")
        blocks = re.findall(rf"^[ \t]*```[ \t]*{mark}[ \t]*\n(.*?)\n[ \t]*```[ \t]*$", last_message, re.M | re.S)
        if len(blocks) != 1:
            raise JudgingError(
                f"the judge's last message has {len(blocks) or 'no'} blocks with a verdict, expected one"
            )
        try:
            value = json.loads(blocks[0])
        except (ValueError, RecursionError):
            raise JudgingError("the judge's verdict is out of shape: it is no JSON") from None
        if not isinstance(value, dict):
            raise JudgingError("the judge's verdict is out of shape: it is no JSON object")
        return opinion_of(mapping(value))
