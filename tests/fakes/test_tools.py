"""One script means the same to every client: canonical calls in the tools that each offers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import Fake, FakeAnthropic, FakeOpenAI, call, say, turn
from tests.fakes.openai_tools import items_of, offer_of
from tests.fakes.tools import Offer, translate
from tests.fakes.turns import Call


def schema(*names: str, required: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"properties": {name: {"type": "string"} for name in names}, "required": list(required)}


OURS = Offer({"bash": {}, "str_replace_based_edit_tool": {}, "Skill": schema("skill")})
CLAUDE = Offer({"Bash": schema("command"), "Write": schema("file_path", "content"), "Skill": schema("skill")}, "/ws")
LISTED = Offer({"Skill": schema("skill")}, told="- run: Launch it\n- acme:deploy: Deploy it\n")
OPENCODE = Offer(
    {
        "bash": schema("command", "description", required=("command", "description")),
        "write": schema("filePath", "content"),
        "edit": schema("filePath", "oldString", "newString"),
        "skill": schema("name"),
    },
    "/ws",
)
WRITE = Call("Write", {"file_path": "a/b", "content": "x\n"})
EDIT = Call("Edit", {"file_path": "a/b", "old_string": "x", "new_string": "y"})
SKILL = Call("Skill", {"skill": "deploy"})


@pytest.mark.parametrize(
    ("offer", "asked", "name", "given"),
    [
        (OURS, Call("Bash", {"command": "ls"}), "bash", {"command": "ls"}),
        (OURS, WRITE, "str_replace_based_edit_tool", {"command": "create", "path": "a/b", "file_text": "x\n"}),
        (
            OURS,
            EDIT,
            "str_replace_based_edit_tool",
            {"command": "str_replace", "path": "a/b", "old_str": "x", "new_str": "y"},
        ),
        (OURS, Call("Read", {"file_path": "a"}), "str_replace_based_edit_tool", {"command": "view", "path": "a"}),
        (OURS, SKILL, "Skill", {"skill": "deploy"}),
        (CLAUDE, WRITE, "Write", {"file_path": "/ws/a/b", "content": "x\n"}),
        (CLAUDE, Call("Bash", {"command": "cd {{cwd}}"}), "Bash", {"command": "cd /ws"}),
        (CLAUDE, Call("mcp__calc__add", {"a": 1}), "mcp__calc__add", {"a": 1}),
        (
            OPENCODE,
            Call("Bash", {"command": "ls"}),
            "bash",
            {"command": "ls", "description": "as the script says"},
        ),
        (LISTED, SKILL, "Skill", {"skill": "acme:deploy"}),
        (OPENCODE, EDIT, "edit", {"filePath": "/ws/a/b", "oldString": "x", "newString": "y"}),
        (OPENCODE, SKILL, "skill", {"name": "deploy"}),
    ],
)
def test_a_call_takes_the_client_s_names(offer: Offer, asked: Call, name: str, given: dict[str, Any]) -> None:
    (made,) = translate(asked, offer)
    assert (made.name, made.input) == (name, given)


PATCH = "apply_patch <<'END_OF_PATCH'\n*** Begin Patch\n"
TOLD = "### Skill roots\n- `r1` = `/ws/.agents/skills`\n- deploy: Use it (file: r1/deploy/SKILL.md)\n"
CLASSIC = offer_of({"tools": [{"type": "function", "name": "exec_command"}], "input": [{"content": TOLD}]})


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        (Call("Bash", {"command": "echo hi"}), "echo hi"),
        (SKILL, "cat /ws/.agents/skills/deploy/SKILL.md"),
        (
            WRITE,
            f"{PATCH}*** Add File: a/b\n+x\n*** End Patch\nEND_OF_PATCH\n",
        ),
        (
            EDIT,
            f"{PATCH}*** Update File: a/b\n@@\n-x\n+y\n*** End Patch\nEND_OF_PATCH\n",
        ),
    ],
)
def test_codex_gets_shell_commands(asked: Call, command: str) -> None:
    (item,) = items_of(asked, CLASSIC)
    assert (item["type"], item["name"], json.loads(item["arguments"])) == (
        "function_call",
        "exec_command",
        {"cmd": command},
    )


def test_codex_s_own_models_get_a_program() -> None:
    tools = [{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]
    offer = offer_of({"input": [{"type": "additional_tools", "tools": tools}]})
    (item,) = items_of(Call("Bash", {"command": "echo hi"}), offer)
    assert (item["type"], item["name"]) == ("custom_tool_call", "exec")
    assert 'tools.exec_command({"cmd": "echo hi"})' in item["input"]
    (item,) = items_of(WRITE, offer)
    assert "tools.apply_patch" in item["input"]


def test_a_tool_of_an_mcp_server_is_called_in_its_namespace() -> None:
    (item,) = items_of(Call("mcp__calc__add", {"a": 1}), CLASSIC)
    assert (item["namespace"], item["name"], item["arguments"]) == ("mcp__calc", "add", '{"a": 1}')


SCRIPT = [
    turn(
        say("I will."), call("Bash", command="echo hi > hi.txt"), call("Write", file_path="sub/a.txt", content="one\n")
    ),
    call("Read", file_path="sub/a.txt"),
    call("Edit", file_path="sub/a.txt", old_string="one", new_string="two"),
    say("All done."),
]


def play(fake: Fake, command: list[str], environment: dict[str, str], tmp_path: Path) -> list[dict[str, Any]]:
    """Run a program to its end in a workspace of its own; its events."""
    for name in ("ws", "home", "tmp"):
        (tmp_path / name).mkdir()
    own = {
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "PATH": os.environ["PATH"],
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        command,
        cwd=tmp_path / "ws",
        env={**own, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "ws" / "hi.txt").read_text() == "hi\n"
    assert (tmp_path / "ws" / "sub" / "a.txt").read_text() == "two\n"
    assert not fake.exhausted
    assert (len(fake.requests), len(fake.ledger)) == (4, 4)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_claude_code_plays_the_script(tmp_path: Path) -> None:
    sdk = pytest.importorskip("claude_agent_sdk", reason="no claude-agent-sdk, which brings Claude Code")
    program = Path(sdk.__file__).parent / "_bundled" / "claude"
    command = [str(program), "-p", "do it", "--output-format", "stream-json", "--verbose"]
    with FakeAnthropic(SCRIPT, key="fake") as fake:
        environment = {
            "ANTHROPIC_BASE_URL": fake.url,
            "ANTHROPIC_API_KEY": "fake",
            "CLAUDE_CONFIG_DIR": str(tmp_path / "home" / ".claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",
        }
        told = play(fake, [*command, "--dangerously-skip-permissions"], environment, tmp_path)
    used = next(one["usage"] for one in told if one["type"] == "result")
    assert used["input_tokens"] == sum(charged.input_tokens or 0 for charged in fake.ledger)
    assert used["output_tokens"] == sum(charged.output_tokens or 0 for charged in fake.ledger)


@pytest.mark.parametrize("model", [["-m", "fake-1"], []], ids=["tools", "program"])
def test_codex_plays_the_script(model: list[str], tmp_path: Path) -> None:
    program = shutil.which("codex")
    if program is None:
        pytest.skip("no codex on PATH")
    with FakeOpenAI(SCRIPT, key="fake") as fake:
        settings = [
            "model_provider=fake",
            f'model_providers.fake={{name="fake",base_url="{fake.url}",env_key="FAKE_KEY",wire_api="responses"}}',
            "features.plugins=false",
            "analytics.enabled=false",
            "check_for_update_on_startup=false",
        ]
        flags = [part for setting in settings for part in ("-c", setting)]
        command = [program, "exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", *flags, *model]
        (tmp_path / "codex").mkdir()
        environment = {"CODEX_HOME": str(tmp_path / "codex"), "FAKE_KEY": "fake"}
        told = play(fake, [*command, "do it"], environment, tmp_path)
    used = next(one["usage"] for one in told if one["type"] == "turn.completed")
    assert used["input_tokens"] == sum((one.input_tokens or 0) + (one.cache_read_tokens or 0) for one in fake.ledger)
    assert used["cached_input_tokens"] == sum(one.cache_read_tokens or 0 for one in fake.ledger)
