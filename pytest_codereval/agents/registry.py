"""Which agents there are, and which one runs a trial."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from ..errors import Cause, CoderEvalError, TrialError
from ..sandbox.host_path import host_path

if TYPE_CHECKING:
    from ..task.models import AgentConfig, Task
    from .protocol import Agent

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "none": "none",
        "script": "script",
        "replay": "replay",
        "anthropic": "anthropic_loop",
        "claude-code": "claude_code",
        "codex": "codex",
        "command": "command",
    }
)
"""The module or package of this one that holds each agent, as its class `TheAgent`."""

SCRIPTED = frozenset({"none", "script", "replay"})
"""Agents that ask no model, so that nothing of theirs has a price."""


_PROVIDERS: Mapping[str, str] = MappingProxyType(
    {"anthropic": "anthropic", "claude-code": "anthropic", "codex": "openai"}
)


@dataclasses.dataclass(frozen=True)
class AgentKind:
    """An agent of a plugin: `agent.type: <name>` in a task. `config` says which keys the block may have.

    `provider` names whose model it asks, so that it shares that provider's limits with other trials.
    """

    name: str
    create: Callable[[], Agent]
    config: type[AgentConfig] | None = None
    provider: str | None = None

    @property
    def origin(self) -> str:
        """Where its code stands, for messages."""
        named = getattr(self.create, "__qualname__", None)
        return f"{self.create.__module__}.{named}" if named else repr(self.create)


_added: dict[str, AgentKind] = {}


def add_agents(kinds: Iterable[AgentKind]) -> None:
    """Take these agents for those of plugins, in place of all that were added before.

    Raises CoderEvalError for one that is not complete and, naming both, when two have one name.
    """
    from ..task.agent_models import AGENT_MODELS, AgentConfig, add_models

    _added.clear()
    for kind in kinds:
        if not (isinstance(kind.name, str) and kind.name.strip() and callable(kind.create)):
            raise CoderEvalError(f"{kind!r:.200}: an agent needs a name and something that makes it")
        if kind.config is not None and not (isinstance(kind.config, type) and issubclass(kind.config, AgentConfig)):
            raise CoderEvalError(f"agent {kind.name!r} of {kind.origin}: its config is no class based on AgentConfig")
        if kind.name in AGENT_MODELS:
            raise CoderEvalError(f"agent {kind.name!r} of {kind.origin}: pytest-codereval has one of that name")
        other = _added.get(kind.name)
        if other is not None:
            raise CoderEvalError(f"agent {kind.name!r} is given by both {other.origin} and {kind.origin}")
        _added[kind.name] = kind
    add_models({name: kind.config or AgentConfig for name, kind in _added.items()})


def names() -> tuple[str, ...]:
    """The names of all agents that can run."""
    return (*BUILT_IN, *_added)


def choose(task: Task, *, override: str | None, default: str | None) -> str:
    """Name the agent of a trial: the command line's, else the task's, else the default of the ini file.

    The command line replaces every agent but `none`. Raises TrialError when none is chosen or it cannot run.
    """
    own = task.agent.type if task.agent is not None else None
    name = own if own == "none" else override or own or default
    if name is None:
        raise TrialError(
            Cause.NO_AGENT,
            "give --codereval-agent, agent.type in the task or codereval_agent in the ini file",
        )
    if name not in names():
        advice = "; the agent `command` can run its program" if name not in _added else ""
        raise TrialError(
            Cause.AGENT_UNAVAILABLE, f"agent {name!r} is not available; available: {', '.join(names())}{advice}"
        )
    return name


def config_of(name: str, task: Task, task_folder: Path) -> AgentConfig:
    """The agent's block as the chosen agent reads it, with the text of its `system_prompt_file`.

    Where another agent than the task's is chosen, of its block only what all agents have in common holds: not its
    model, which is another provider's. Raises TrialError(CONFIGURATION) for what the chosen agent cannot do.
    """
    from pydantic import ValidationError

    from ..task.agent_models import AgentConfig, model_of

    own = task.agent
    if own is not None and own.type == name:
        return _with_system_prompt(own, task_folder)
    common: dict[str, object] = {}
    if own is not None:
        given = own.model_fields_set & set(AgentConfig.model_fields) - {"type"}
        left_out = {"model"} if own.type is not None else set()
        common = {key: getattr(own, key) for key in given - left_out}
    try:
        config = model_of(name).model_validate({**common, "type": name})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise TrialError(Cause.CONFIGURATION, f"agent {name}: {where}: {first['msg']}") from None
    return _with_system_prompt(config, task_folder)


def _with_system_prompt(config: AgentConfig, task_folder: Path) -> AgentConfig:
    if config.system_prompt_file is None:
        return config
    from ..task.prompt_file import prompt_from_file

    path = host_path(config.system_prompt_file, task_folder, "agent.system_prompt_file")
    text = prompt_from_file(path, None)
    if not text and getattr(config, "system_prompt_mode", "append") == "replace":
        raise TrialError(Cause.CONFIGURATION, f"agent.system_prompt_file: {path} is empty, which replaces nothing")
    return config.model_copy(update={"system_prompt": text or None, "system_prompt_file": None})


def provider_of(name: str, config: AgentConfig) -> str | None:
    """The provider whose rate limits the agent shares with other trials, None when it is not known."""
    if name in _added:
        return _added[name].provider
    own = getattr(config, "api", None)
    return _PROVIDERS.get(name) or (own if own != "none" else None)


def providers() -> tuple[str, ...]:
    """The names of all providers that trials may share."""
    from ..model_api.credentials import PROVIDERS

    own = (kind.provider for kind in _added.values() if kind.provider is not None)
    return tuple(dict.fromkeys([*PROVIDERS, *own]))


def leaves_script_out(task: Task, override: str | None) -> bool:
    """Whether the agent of the command line takes the place of steps that stand in the task."""
    return override not in (None, "script") and task.agent is not None and task.agent.type == "script"


def create(name: str, config: AgentConfig) -> Agent:
    """Make the agent called `name`, one of `names()`. Where code of others runs in it, it is held to its deadline."""
    from .of_plugin import AgentOfPlugin

    if name in _added:
        return AgentOfPlugin(name, _added[name].origin, _added[name].create)
    module = importlib.import_module(f"{__package__}.{BUILT_IN[name]}")
    made = cast("Callable[[], Agent]", module.TheAgent)
    return made() if config.author_code is None else AgentOfPlugin(name, config.author_code, made)
