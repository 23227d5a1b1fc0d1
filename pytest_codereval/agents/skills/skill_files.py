"""Reading what a SKILL.md says about its skill."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from ...task.yaml_reader import ReadError, read

_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(?P<yaml>.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_PLAIN = re.compile(r"^(?P<key>name|description)[ \t]*:[ \t]*(?P<value>[^\r\n]*)", re.MULTILINE)
_LARGEST = 1_000_000


@dataclasses.dataclass(frozen=True)
class SkillFile:
    """`name` is that of its folder, by which agents call the skill."""

    name: str
    description: str


def read_skills(plugin: Path) -> tuple[list[SkillFile], list[str]]:
    """The skills of a plugin's copy, `skills/*/SKILL.md` by name, and what their author should know."""
    found: list[SkillFile] = []
    doubts: list[str] = []
    for file in sorted(plugin.glob("skills/*/SKILL.md")):
        name = file.parent.name
        with file.open("rb") as opened:
            fields, doubt = front_matter(opened.read(_LARGEST).decode("utf-8", "replace"))
        own = fields.get("name", name)
        if doubt is None and own != name:
            doubt = f"its front matter calls it {own!r}; agents and criteria call it by its folder"
        if doubt is None and not fields.get("description"):
            doubt = "it has no description, so that an agent cannot know when to use it"
        if doubt is not None:
            doubts.append(f"skill {name}: {doubt}")
        found.append(SkillFile(name, fields.get("description", "")))
    return found, doubts


def front_matter(text: str) -> tuple[dict[str, str], str | None]:
    """The texts that stand before the body of a SKILL.md, and what is wrong there. Bad YAML is read line by line."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, "its SKILL.md does not begin with front matter"
    try:
        data: Any = read(match["yaml"]).data
    except ReadError as error:
        lines = {line["key"]: line["value"].strip().strip("\"'") for line in _PLAIN.finditer(match["yaml"])}
        return lines, f"its front matter is not YAML: {error}"
    if not isinstance(data, dict):
        return {}, "its front matter is no mapping"
    return {key: " ".join(str(value).split()) for key, value in data.items() if value is not None}, None
