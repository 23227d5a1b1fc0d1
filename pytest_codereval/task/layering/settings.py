"""Settings of the command line, `path=value`: reading them and checking them against the format."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ...errors import CoderEvalError
from ..agent_models import AgentConfig, all_models
from ..base import Location, StrictModel
from ..experiment_models import check_part_of_agent
from ..nearest import hint
from ..problems import dotted, message_of, models_in
from ..sandbox_models import SandboxConfig
from ..setting_models import CheckerContext, RunLimits, Simulation
from ..yaml_reader import ReadError, read

OPTION = "--codereval-set"
ROOTS: Mapping[str, type[StrictModel]] = {
    "agent": AgentConfig,
    "run_limits": RunLimits,
    "sandbox": SandboxConfig,
    "simulation": Simulation,
    "checker_context": CheckerContext,
}
ALIASES: Mapping[Location, str] = {
    ("agent", "type"): "--codereval-agent",
    ("agent", "model"): "--codereval-model",
    ("sandbox", "driver"): "--codereval-driver",
}
"""Settings that have an option of their own."""

_WORDS = frozenset({"on", "off", "yes", "no", "y", "n"})
"""What YAML 1.1 reads as true or false and people mean as text."""


class SettingError(CoderEvalError):
    """A setting of the command line that cannot be used."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting: the place in a task, and its value as read from YAML."""

    path: Location
    value: Any

    @property
    def dotted(self) -> str:
        """The path as it was given."""
        return ".".join(map(str, self.path))


def settings_of(texts: Sequence[str], options: Mapping[str, object]) -> tuple[Setting, ...]:
    """Read and check `path=value` texts; `options` are the values of those in `ALIASES`, None for one not given.

    Raises SettingError for the first one that is wrong, and when a setting is given twice.
    """
    found: dict[Location, Setting] = {}
    for text in texts:
        setting = _setting(text)
        if setting.path in found:
            raise SettingError(f"{OPTION} {setting.dotted} is given twice")
        alias = ALIASES.get(setting.path)
        if alias is not None and options.get(alias) is not None:
            raise SettingError(f"{OPTION} {setting.dotted} and {alias} say the same; give one of them")
        found[setting.path] = setting
    return tuple(found.values())


def _setting(text: str) -> Setting:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SettingError(f"{OPTION} {text!r}: expected path=value, such as run_limits.max_turns=3")
    path = _known_path(name.strip())
    setting = Setting(path, _value(name, value))
    _check(setting)
    return setting


def _value(name: str, text: str) -> Any:
    if not text.strip():
        return None
    try:
        document = read(text)
    except ReadError as error:
        raise SettingError(f"{OPTION} {name}: {text!r} is not YAML: {error.message}") from None
    return _with_words(document.data, document.root)


def _with_words(value: Any, node: Node) -> Any:
    """The value with the words of YAML 1.1 as texts."""
    if isinstance(value, bool) and isinstance(node, ScalarNode):
        return node.value if node.value.casefold() in _WORDS else value
    if isinstance(value, list) and isinstance(node, SequenceNode):
        return [_with_words(item, inside) for item, inside in zip(value, node.value, strict=True)]
    if isinstance(value, dict) and isinstance(node, MappingNode):
        inside = {key.value: item for key, item in node.value}
        return {key: _with_words(item, inside[key]) if key in inside else item for key, item in value.items()}
    return value


def _known_path(name: str) -> Location:
    parts = name.split(".")
    if parts[0] not in ROOTS:
        raise SettingError(f"{OPTION} {name}: expected a path below {', '.join(ROOTS)}{hint(parts[0], ROOTS)}")
    if len(parts) == 1:
        raise SettingError(f"{OPTION} {name}: expected the path of one setting, such as {name}.{_example(name)}")
    models: Sequence[type[BaseModel]] = tuple(all_models().values()) if parts[0] == "agent" else (ROOTS[parts[0]],)
    path = [parts[0]]
    for depth, part in enumerate(parts[1:], 1):
        keys = _keys(models)
        if part not in keys:
            where = ".".join(parts[:depth])
            raise SettingError(f"{OPTION} {name}: {where} has no key {part!r}{hint(part, keys)}")
        path.append(keys[part][0])
        rest = parts[depth + 1 :]
        if not rest:
            break
        annotations = keys[part][1]
        models = tuple(dict.fromkeys(model for each in annotations for model in models_in(each)))
        if models:
            continue
        if not any("dict[" in str(each) for each in annotations):
            raise SettingError(f"{OPTION} {name}: {'.'.join(parts[: depth + 1])} is a single value, nothing lies in it")
        return (*path, *rest)
    return tuple(path)


def _keys(models: Sequence[type[BaseModel]]) -> dict[str, tuple[str, list[Any]]]:
    """The keys of the models, each with the name of its field and the types that it has."""
    found: dict[str, tuple[str, list[Any]]] = {}
    for model in models:
        for name, field in model.model_fields.items():
            found.setdefault(name, (name, []))[1].append(field.annotation)
        merging = getattr(model, "merging", None)
        for alias, name in (merging.aliases if merging is not None else {}).items():
            found.setdefault(alias, (name, []))[1].append(model.model_fields[name].annotation)
    return found


def _example(root: str) -> str:
    return next(name for name in ROOTS[root].model_fields if name != "type")


def _check(setting: Setting) -> None:
    root, data = str(setting.path[0]), setting.value
    for part in reversed(setting.path[1:]):
        data = {str(part): data}
    try:
        if root == "agent" and "type" in data:
            _check_type(data["type"])
        elif root == "agent":
            check_part_of_agent(data)
        else:
            ROOTS[root].model_validate(data)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            if detail["type"] == "missing" or detail["loc"][: len(setting.path) - 1] != setting.path[1:]:
                continue
            inside = dotted(detail["loc"][len(setting.path) - 1 :])
            where = f"{setting.dotted}.{inside}" if inside else setting.dotted
            raise SettingError(f"{OPTION} {where}: {message_of(detail, ROOTS[root])}") from None


def _check_type(name: Any) -> None:
    known = all_models()
    if name not in known:
        raise SettingError(f"{OPTION} agent.type: no agent is called {name!r}{hint(str(name), known)}")
