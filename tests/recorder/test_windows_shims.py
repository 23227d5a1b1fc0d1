"""The shims for Windows: their text, and what the Python program does here. Neither was ever run on Windows."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.recorder.answering import ShimPlan
from pytest_codereval.recorder.shims.windows import render_command_file, render_script
from pytest_codereval.recorder.spool.spool import Spool

from .shadowing import Tool

TEXTS = ["", "plain\n", "\"\"\" ''' \\ { } %s\r\n\0", "é\u2028\udcff"]


def test_the_command_file() -> None:
    text = render_command_file("uip", Path("C:/Program Files/Python 100%/python.exe"))
    assert text == (
        b'@echo off\r\n"C:/Program Files/Python 100%%/python.exe" -I -S "%~dp0uip" %*\r\nexit /b %ERRORLEVEL%\r\n'
    )


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("argv", [(), ("a b", "", 'q"\n'), ("x" * 100_000,)])
def test_the_script_records_and_replies(tmp_path: Path, text: str, argv: tuple[str, ...]) -> None:
    spool = Spool(tmp_path / "sp'ool", fifo=False)
    spool.open()
    program = render_script(Tool("uip", 7, text, text), tmp_path / "sp'ool")
    assert program.isascii()
    imported = {
        alias.name for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported == {"os", "sys"}
    (tmp_path / "uip").write_bytes(program)
    command = [sys.executable, "-I", "-S", tmp_path / "uip", *argv]
    result = subprocess.run(command, capture_output=True, check=False, cwd="/")
    expected = text.encode("utf-8", "surrogateescape")
    assert (result.returncode, result.stdout, result.stderr) == (7, expected, expected)
    calls = spool.take()
    assert [(call.tool, call.argv, call.cwd, call.exit_status) for call in calls] == [("uip", argv, "/", 7)]
    assert spool.check() == ()
    spool.close()


@pytest.mark.parametrize(
    "plan",
    [
        ShimPlan("uip", asks=True),
        ShimPlan("uip", passthrough=True),
        ShimPlan("uip", read_stdin=True),
        ShimPlan("uip", variables=("X",)),
    ],
)
def test_all_but_constant_replies_is_refused(tmp_path: Path, plan: ShimPlan) -> None:
    with pytest.raises(TrialError, match="on Windows only constant replies") as caught:
        render_script(plan, tmp_path)
    assert caught.value.cause is Cause.CONFIGURATION


def test_the_script_says_when_it_cannot_record(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", fifo=False)
    spool.open()
    (tmp_path / "uip").write_bytes(render_script(Tool("uip", 7, "out\n"), tmp_path / "spool"))
    (tmp_path / "spool" / "index").rename(tmp_path / "moved")
    (tmp_path / "spool" / "index").mkdir()
    result = subprocess.run([sys.executable, tmp_path / "uip"], capture_output=True, check=False)
    assert (result.returncode, result.stdout) == (7, b"out\n")
    assert b"uip: this call could not be recorded" in result.stderr
    assert any("could not record a call" in fault for fault in spool.check())
    spool.close()
