"""Which names a recorded tool may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.task.tool_names import refusal

from .samples import problems


@pytest.mark.parametrize(
    "name",
    [
        "", "../evil", "a/b", "a\\b", "/usr/bin/uip", ".", "..", "...", ".hidden", "-rf", "~", "D:evil", "a\0b", "a\nb",
        "uip\n", " uip", "uip ", "a b", "a;b", "$x", "a$b", "a'b", 'a"b', "a`b", "a*b", "é", "x" * 65, "calls.jsonl",
        "CALLS.JSONL", "calls.jsonl.error", "index", "Index", "ok", "OK", "argv_match.py", "ARGV_MATCH.PY", "uip.cmd",
        "uip.BAT", "Python.exe", "sh", "SH",
    ],
)  # fmt: skip
def test_names_that_are_refused(name: str) -> None:
    assert refusal(name)


@pytest.mark.parametrize(
    "name",
    [
        "uip", "python", "python3", "python3.11", "dash", "bash", "zsh", "busybox", "cat", "git", "node", "uv", "env",
        "docker", "claude", "curl", "g++", "x_y", "typing.py", "7z", "x" * 64, "date", "printf", "mkdir",
    ],
)  # fmt: skip
def test_names_that_are_allowed(name: str) -> None:
    assert refusal(name) is None
    assert problems(sandbox={"record_cli": [{"tool": name}]}) == ()


def test_the_reason_is_told_at_the_key() -> None:
    (problem,) = problems(sandbox={"record_cli": [{"tool": "uip"}, {"tool": "sh"}]})
    assert problem.key == "sandbox.record_cli[1].tool"
    assert "run by sh" in problem.message


@given(st.text(max_size=70))
def test_an_allowed_name_is_one_plain_file_name(name: str) -> None:
    if refusal(name) is None:
        assert name.isascii()
        assert name[0].isalnum()
        assert not set(name) & set("/\\:;$'\"`~ \n\0*?<>|&(){}[]!#")
