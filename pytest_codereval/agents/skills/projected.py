"""What an agent is told of the plugins and skills that were copied for it."""

from __future__ import annotations

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Skill:
    """One folder with a SKILL.md. `folder` is its path in the sandbox; `plugin` names the plugin it belongs to."""

    name: str
    description: str
    folder: Path
    plugin: str | None = None


@dataclasses.dataclass(frozen=True)
class ProjectedPlugin:
    """The copy of one plugin; `folder` is its path in the sandbox, with `.claude-plugin/plugin.json` and `skills`."""

    name: str
    folder: Path
    skills: tuple[Skill, ...] = ()


@dataclasses.dataclass(frozen=True)
class Projection:
    """The copies of all plugins of a trial. `notes` say what was left out of them and why, for the record."""

    plugins: tuple[ProjectedPlugin, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def skills(self) -> tuple[Skill, ...]:
        return tuple(skill for plugin in self.plugins for skill in plugin.skills)
