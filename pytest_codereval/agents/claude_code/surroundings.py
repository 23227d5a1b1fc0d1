"""What is around the program: its environment, and files of the machine that it would read unasked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from types import MappingProxyType

from ...errors import AgentError, Cause
from ...sandbox.protocol import Phase, Sandbox

CONFIG_FOLDER = ".claude"
"""Below HOME."""

HARNESS_FOLDER = ".claude-harness"
"""Below HOME: what the harness tells the program by files."""

OWN_VARIABLES = frozenset(
    {
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CONFIG_DIR"),
        *("ANTHROPIC_PROFILE", "CLAUDE_CODE_API_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK"),
        *("CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_MANTLE", "CLAUDE_CODE_USE_GATEWAY"),
        *("CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD", "CLAUDE_CONFIG_DIR"),
        "CLAUDE_CODE_MANAGED_SETTINGS_PATH",
    }
)
"""Variables by which the program would go past the gateway, carry a key into the sandbox, or read other settings."""

_DEFAULTS = {
    "IS_SANDBOX": "1",
    "SHLVL": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK": "1",
    "CLAUDE_CODE_MAX_RETRIES": "2",
}
"""Each can be set otherwise in `sandbox.env`."""

QUIET = MappingProxyType({name: "1" for name in _DEFAULTS if name.startswith(("CLAUDE_CODE_DISABLE_", "DISABLE_"))})
"""What keeps the program from doing more than it is asked for."""

_MEMORY_FILES = ("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", ".claude/CLAUDE.md", ".claude/rules/**")

_LOOK = """
for place in /etc/claude-code '/Library/Application Support/ClaudeCode'; do
  for name in managed-settings.json managed-settings.d managed-mcp.json CLAUDE.md .claude; do
    [ -e "$place/$name" ] && printf '%s\\n' "$place/$name"
  done
done
[ -e .git ] && exit 0
for folder; do
  for name in skills agents commands output-styles workflows; do
    [ -d "$folder/.claude/$name" ] && printf '%s\\n' "$folder/.claude/$name"
  done
done
exit 0
"""


def program_environment(sandbox: Sandbox, url: str) -> dict[str, str]:
    """What is laid over the agent's environment. Raises AgentError(CONFIGURATION) for variables that are ours."""
    given = sandbox.environment(Phase.AGENT)
    ours = sorted(OWN_VARIABLES & given.keys())
    if ours:
        raise AgentError(
            Cause.CONFIGURATION,
            f"sandbox.env or an env_passthrough gives the agent {', '.join(ours)}: the harness sets how Claude Code "
            "reaches its model, and keys stay outside the sandbox; set them where pytest runs",
        )
    found = {name: value for name, value in _DEFAULTS.items() if name not in given}
    return found | {"ANTHROPIC_BASE_URL": url, "CLAUDE_CONFIG_DIR": str(sandbox.home / CONFIG_FOLDER)}


def foreign_memory(workspace: PurePath) -> list[str]:
    """Patterns of the instruction files in the folders above the workspace, for the setting `claudeMdExcludes`.

    The path of a workspace has no character that means something in a pattern.
    """
    return [f"{folder}/{name}" for folder in _above(workspace) for name in _MEMORY_FILES]


def refuse_foreign_files(sandbox: Sandbox, project: bool) -> None:
    """Raise AgentError(CONFIGURATION) when the program would read files of the machine, and cannot be kept from it.

    `project` tells that it reads the settings, skills and agents of the folder in which it works, and of those above.
    """
    folders = list(map(str, _above(sandbox.workspace))) if project else []
    looked = sandbox.run(["/bin/sh", "-c", _LOOK, "sh", *folders], phase=Phase.AGENT, timeout=30)
    found = looked.stdout_text.splitlines()
    if found:
        raise AgentError(
            Cause.CONFIGURATION,
            f"Claude Code would read {', '.join(found)}, which is not of the task; remove it, or set TMPDIR to a "
            "place that has no such folder above it",
        )


def _above(workspace: PurePath) -> Iterator[PurePath]:
    return (folder for folder in workspace.parents if folder != folder.parent)


def harness_file(sandbox: Sandbox, name: str, content: bytes) -> Path:
    """Write a file for the program; its path. Raises OSError."""
    sandbox.write_home(f"{HARNESS_FOLDER}/{name}", content)
    return sandbox.home / HARNESS_FOLDER / name


def without_ours(variables: Mapping[str, object], key: str) -> None:
    """Raise AgentError(CONFIGURATION) when `variables`, which stand under `key`, has one that is ours."""
    ours = sorted(OWN_VARIABLES & variables.keys())
    if ours:
        raise AgentError(Cause.CONFIGURATION, f"{key}: {', '.join(ours)}: set by the harness")
