"""What can be wrong with a `command` agent beyond its single values."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .base import Finding, Location
from .fields import VARIABLE_NAME
from .nearest import hint
from .program_template import OF_THE_API, ONLY_IN_ARGV, placeholder_error, placeholders_in
from .sandbox_models import OWNED_VARIABLES

if TYPE_CHECKING:
    from .agent_models import CommandAgent

PARSERS = ("opencode", "gemini", "pi")
"""The built-in ones; each is a module of `agents/command/`."""

_ASKED_BY = {"stdin": None, "argument": "prompt", "file": "prompt_file"}
_OWN_FILES = (".profile", ".bash_profile", ".zprofile")
_FUNCTION = re.compile(r"(?:.+\.py|[\w.]+):\w+")


def program_findings(agent: CommandAgent) -> Iterator[Finding]:
    """All mistakes in the block, each at its key."""
    found = {location: placeholders_in(value) for location, value in _texts(agent)}
    for location, names in found.items():
        for name in sorted(names):
            if (error := placeholder_error(name)) is not None:
                yield Finding(location, error)
            elif name in OF_THE_API and agent.api == "none":
                yield Finding(location, f"{{{name}}} needs api: anthropic, openai or gemini")
            elif name in ONLY_IN_ARGV and location[0] not in ("command", "resume_command"):
                yield Finding(location, f"{{{name}}} can stand in command and resume_command only")
    used = set().union(*found.values())
    if missing := sorted(OF_THE_API - used) if agent.api != "none" else ():
        named = " and ".join(f"{{{name}}}" for name in missing)
        yield Finding(
            ("api",), f"the program must be told where its model is and with what key: {named} is used nowhere"
        )
    yield from _prompt_findings(agent)
    yield from _place_findings(agent)
    if agent.parser is not None and agent.parser not in PARSERS and not _FUNCTION.fullmatch(agent.parser):
        known = f"expected {', '.join(PARSERS)}, file.py:function or module:function"
        yield Finding(("parser",), f"no parser is called {agent.parser!r}{hint(agent.parser, PARSERS)} ({known})")
    for key in ("system_prompt", "system_prompt_file"):
        if getattr(agent, key) is not None:
            yield Finding((key,), "the agent command cannot set it; tell the program by its own arguments or files")


def _texts(agent: CommandAgent) -> Iterator[tuple[Location, Any]]:
    for key in ("command", "resume_command"):
        for index, text in enumerate(getattr(agent, key) or ()):
            yield (key, index), text
    for name, text in agent.env.items():
        yield ("env", name), text
    for path, content in agent.files.items():
        yield ("files", path), content


def _prompt_findings(agent: CommandAgent) -> Iterator[Finding]:
    """The prompt goes one way and no other."""
    wanted = _ASKED_BY[agent.prompt_mode]
    for key in ("command", "resume_command"):
        argv = getattr(agent, key)
        if argv is None:
            continue
        names = placeholders_in(list(argv)) & ONLY_IN_ARGV
        if wanted is not None and wanted not in names:
            yield Finding((key,), f"prompt_mode: {agent.prompt_mode} needs an argument with {{{wanted}}}")
        for name in sorted(names - {wanted}):
            mode = next(mode for mode, asked in _ASKED_BY.items() if asked == name)
            yield Finding((key,), f"{{{name}}} needs prompt_mode: {mode}; it is {agent.prompt_mode}")


def _place_findings(agent: CommandAgent) -> Iterator[Finding]:
    for name in agent.env:
        if not VARIABLE_NAME.fullmatch(name):
            yield Finding(("env", name), f"{name!r} is no name of an environment variable")
        elif name in OWNED_VARIABLES:
            yield Finding(("env", name), f"{name} is set by the harness")
    for path in agent.files:
        if (error := _home_error(path)) is not None:
            yield Finding(("files", path), error)
    if (error := _home_error(agent.skills_to)) is not None:
        yield Finding(("skills_to",), error)


def below_home(path: str) -> str:
    """A path of the author's as one relative to HOME."""
    return posixpath.normpath(path.removeprefix("~/"))


def _home_error(path: str) -> str | None:
    place = below_home(path)
    if "\0" in path or place.startswith(("/", "..")) or place == ".":
        return "expected a path below HOME, such as .config/agent.json"
    return f"{place} belongs to the harness" if place in _OWN_FILES else None
