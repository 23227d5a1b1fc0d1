"""Whole sessions of pytest in which real agent programs work against fakes of their models' APIs."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import Fake, FakeAnthropic, FakeOpenAI

CLIENT = """
import json, os, subprocess, sys, urllib.request
messages = [{"role": "user", "content": sys.stdin.read() or "do it"}]
tools = [{"name": "Bash", "description": "runs a command", "input_schema": {"type": "object", "properties": {
    "command": {"type": "string"}}, "required": ["command"]}}]
while True:
    model = os.environ.get("MODEL", "claude-sonnet-4-5")
    body = {"model": model, "max_tokens": 100, "messages": messages, "tools": tools}
    request = urllib.request.Request(os.environ["URL"] + "/v1/messages", json.dumps(body).encode(), {
        "x-api-key": os.environ["KEY"], "content-type": "application/json", "anthropic-version": "2023-06-01"})
    reply = json.load(urllib.request.urlopen(request))
    messages.append({"role": "assistant", "content": reply["content"]})
    results = []
    for block in reply["content"]:
        if block["type"] == "text":
            print(block["text"], flush=True)
        elif block["type"] == "tool_use":
            done = subprocess.run(["/bin/sh", "-c", block["input"]["command"]], capture_output=True, text=True)
            print(done.stdout, done.stderr, flush=True)
            results.append({"type": "tool_result", "tool_use_id": block["id"], "content": done.stdout})
    if not results:
        break
    messages.append({"role": "user", "content": results})
"""
"""A home-made agent with one tool."""


WITHOUT_LANDLOCK = """
from pytest_codereval.sandbox import landlock
landlock.abi = lambda: 0
"""
"""A conftest.py for agents that reach the repository, as they can on kernels without Landlock."""


@dataclasses.dataclass(frozen=True)
class Program:
    """An agent, the fake of its model's API, and how a task and the harness's environment name them."""

    name: str
    fake: type[FakeAnthropic] | type[FakeOpenAI]
    base_variable: str
    key_variable: str
    block: Mapping[str, Any]

    def need(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Skip the test when the program is not installed."""
        if self.name == "claude-code":
            if shutil.which("claude") is None and importlib.util.find_spec("claude_agent_sdk") is None:
                pytest.skip("claude is not on PATH and claude-agent-sdk is not installed")
        elif self.name == "codex":
            found = os.environ.get("CODEREVAL_TEST_CODEX") or shutil.which("codex")
            if found is None:
                pytest.skip("codex is not on PATH and CODEREVAL_TEST_CODEX does not name it")
            monkeypatch.setenv("PATH", f"{Path(found).parent}{os.pathsep}{os.environ['PATH']}")

    def environment(self, fake: Fake, key: str) -> dict[str, str]:
        """What the harness needs to reach the fake."""
        return {self.base_variable: fake.url, self.key_variable: key}


_MODEL = "claude-sonnet-4-5"
_OPEN = {"permission_mode": "bypassPermissions", "model": _MODEL}

PROGRAMS = {
    program.name: program
    for program in (
        Program(
            "anthropic",
            FakeAnthropic,
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_API_KEY",
            {"type": "anthropic", "model": _MODEL},
        ),
        Program(
            "claude-code",
            FakeAnthropic,
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_API_KEY",
            {"type": "claude-code", **_OPEN},
        ),
        Program("codex", FakeOpenAI, "OPENAI_BASE_URL", "OPENAI_API_KEY", {"type": "codex", **_OPEN}),
        Program(
            "command",
            FakeAnthropic,
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_API_KEY",
            {
                "type": "command",
                "command": [sys.executable, "-c", CLIENT],
                "api": "anthropic",
                "env": {"URL": "{base_url}", "KEY": "{api_key}"},
            },
        ),
    )
}
