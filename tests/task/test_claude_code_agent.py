"""What the block of Claude Code may say, and servers of tools, which all agents may have."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_codereval.task.agent_models import ClaudeCodeAgent

from .samples import load, problems


def test_servers_and_effort_are_read() -> None:
    servers = {
        "calc": {"command": "python3", "args": ["server.py"], "env": {"KEY": "v"}},
        "far_away-2": {"type": "http", "url": "http://127.0.0.1:1/mcp", "headers": {"X": "y"}},
    }
    agent = load(agent={"type": "claude-code", "effort": "xhigh", "mcp_servers": servers}).task.agent
    assert isinstance(agent, ClaudeCodeAgent)
    assert agent.effort == "xhigh"
    assert agent.mcp_servers is not None
    calc, far = agent.mcp_servers.values()
    assert (calc.command, calc.args, calc.env, calc.url) == ("python3", ("server.py",), {"KEY": "v"}, None)
    assert (far.type, far.url, far.headers) == ("http", "http://127.0.0.1:1/mcp", {"X": "y"})


@pytest.mark.parametrize(
    ("agent", "key", "expected"),
    [
        ({"effort": "extreme"}, "effort", "'low', 'medium', 'high', 'xhigh' or 'max'"),
        ({"effort": "low", "sdk_options": {"effort": "low"}}, "effort", "give one"),
        ({"mcp_servers": {"s": {}}}, "mcp_servers.s", "either command or url"),
        ({"mcp_servers": {"s": {"command": "c", "url": "u"}}}, "mcp_servers.s", "either command or url"),
        ({"mcp_servers": {"s": {"url": "http://h"}}}, "mcp_servers.s.type", "http or sse"),
        ({"mcp_servers": {"s": {"type": "sse", "command": "c"}}}, "mcp_servers.s.type", "stdio"),
        ({"mcp_servers": {"s": {"command": "c", "headers": {}}}}, "mcp_servers.s.headers", "with a url"),
        ({"mcp_servers": {"s": {"type": "http", "url": "u", "args": []}}}, "mcp_servers.s.args", "with a command"),
        ({"mcp_servers": {"s": {"comand": "c"}}}, "mcp_servers.s.comand", "did you mean 'command'"),
        ({"mcp_servers": {"a.b": {"command": "c"}}}, "mcp_servers.a.b", "letters, digits"),
        ({"mcp_servers": {"s": {"command": "c", "args": ["a\0"]}}}, "mcp_servers.s.args[0]", "NUL"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_problem_at_its_key(agent: dict[str, Any], key: str, expected: str) -> None:
    (problem,) = problems(agent={"type": "claude-code", **agent})
    assert problem.key == f"agent.{key}"
    assert expected in problem.message
