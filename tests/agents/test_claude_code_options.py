"""How Claude Code is started: what it gets, and what is refused before anything is spent."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.agents.claude_code import program_file
from pytest_codereval.agents.claude_code.options import sdk_arguments
from pytest_codereval.errors import AgentError, Cause, TrialError
from tests.fakes import FakeAnthropic, say

from .claude_run import KEY, Stage, need_claude


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    need_claude()
    with FakeAnthropic([say("done")], key=KEY) as fake:
        made = Stage(tmp_path, fake, monkeypatch)
        yield made
        made.close()
        assert fake.requests == []


def refused(stage: Stage, **config: Any) -> TrialError:
    with pytest.raises(TrialError) as caught:
        stage.start(**config)
    assert caught.value.cause is Cause.CONFIGURATION
    return caught.value


@pytest.mark.parametrize(
    "name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR"]
)
def test_variables_past_the_gateway_are_refused(stage: Stage, name: str) -> None:
    stage.make_sandbox(variables={name: "value-of-the-author"})
    error = refused(stage)
    assert name in str(error)
    assert "value-of-the-author" not in str(error)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"sdk_options": {"verbatim_prompts": True}}, "sdk_options.verbatim_prompts: the program has no argument"),
        ({"sdk_options": {"betas": ["other"]}}, "sdk_options.betas: ['other'] is not what it can be"),
        ({"claude_settings": {"env": {"ANTHROPIC_BASE_URL": "x"}}}, "claude_settings.env: ANTHROPIC_BASE_URL: set by"),
        ({"claude_settings": {"apiKeyHelper": "echo"}}, "claude_settings.apiKeyHelper"),
        ({"claude_settings": {"env": []}}, "claude_settings.env: expected a mapping"),
        ({"claude_settings": {"claudeMdExcludes": "x"}}, "claudeMdExcludes: expected a list"),
        ({"claude_settings": "/no/such/file.json"}, "claude_settings: /no/such/file.json cannot be read"),
        ({"allowed_tools": ["--model"]}, "allowed_tools: '--model' names no tool"),
    ],
)
def test_what_cannot_be_done_is_named(stage: Stage, config: dict[str, Any], expected: str) -> None:
    assert expected in str(refused(stage, **config))


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000])
def test_a_settings_file_that_is_none_is_named(stage: Stage, tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.json").write_text(text, encoding="utf-8")
    assert "settings.json" in str(refused(stage, claude_settings=str(tmp_path / "settings.json")))


def test_a_blank_prompt_file_replaces_nothing(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "blank.md").write_text(" \n", encoding="utf-8")
    error = refused(stage, system_prompt_mode="replace", system_prompt_file=str(tmp_path / "blank.md"))
    assert "replace needs a system prompt" in str(error)


@pytest.mark.parametrize("folder", ["skills", "agents", "commands"])
def test_foreign_folders_above_the_workspace_are_refused(stage: Stage, tmp_path: Path, folder: str) -> None:
    foreign = tmp_path / "above" / ".claude" / folder
    foreign.mkdir(parents=True)
    stage.make_sandbox(tmp_path / "above")
    assert str(foreign) in str(refused(stage))


def test_they_do_no_harm_where_no_project_is_read_or_the_workspace_is_a_repository(
    stage: Stage, tmp_path: Path
) -> None:
    (tmp_path / "above" / ".claude" / "skills").mkdir(parents=True)
    sandbox = stage.make_sandbox(tmp_path / "above")
    stage.start(setting_sources=["user"])
    sandbox.reap()
    list(stage.agent.stop())
    sandbox.make_folder(".git")
    stage.start()


def test_the_program_is_found_on_path_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert program_file.find_program() == str(program)


def test_without_the_program_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(program_file, "_bundled", lambda: None)
    with pytest.raises(AgentError, match="pip install claude-agent-sdk") as caught:
        program_file.find_program()
    assert caught.value.cause is Cause.AGENT_UNAVAILABLE


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, []),
        ({"effort": "low"}, ["--effort", "low"]),
        ({"effort": None, "include_hook_events": False, "strict_mcp_config": True}, []),
        ({"include_hook_events": True}, ["--include-hook-events"]),
        ({"max_thinking_tokens": 5}, ["--max-thinking-tokens", "5"]),
        ({"thinking": {"type": "adaptive"}}, ["--thinking", "adaptive"]),
        ({"thinking": {"type": "enabled", "budget_tokens": 9, "display": "omitted"}},
         ["--max-thinking-tokens", "9", "--thinking-display", "omitted"]),
        ({"task_budget": {"total": 7}}, ["--task-budget", "7"]),
    ],
)  # fmt: skip
def test_options_of_the_sdk_become_arguments(options: dict[str, Any], expected: list[str]) -> None:
    assert sdk_arguments(options) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"effort": "huge"},
        {"strict_mcp_config": False},
        {"include_hook_events": "yes"},
        {"max_thinking_tokens": True},
        {"thinking": {"type": "enabled"}},
        {"thinking": {"type": "adaptive", "budget_tokens": 5}},
        {"thinking": {"type": "adaptive", "display": "loud"}},
        {"task_budget": 5},
        {"resume_session_at": "x"},
    ],
)
def test_options_of_the_sdk_that_say_nothing_to_the_program_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(AgentError, match=f"sdk_options.{next(iter(options))}"):
        sdk_arguments(options)


def test_the_token_of_the_gateway_is_the_only_key_in_the_sandbox(stage: Stage) -> None:
    stage.start(claude_settings={"permissions": {"deny": ["WebFetch"]}})
    launch = stage.agent._launch("the prompt")
    assert launch.stdin == b"the prompt"
    assert stage.sandbox is not None
    written = json.loads((stage.sandbox.home / ".claude-harness/settings.json").read_text())
    assert written["permissions"] == {"deny": ["WebFetch"]}
    token = written["env"]["ANTHROPIC_API_KEY"]
    around = json.dumps([*launch.argv, launch.env, dict(stage.environment())])
    assert token not in around
    assert KEY not in around + json.dumps(written)
    assert launch.env["ANTHROPIC_BASE_URL"] == written["env"]["ANTHROPIC_BASE_URL"]
    assert launch.env["IS_SANDBOX"] == "1"
