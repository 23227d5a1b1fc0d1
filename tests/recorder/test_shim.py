"""Rendered shims, run for real under each shell: what the caller sees and what is recorded."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_codereval.recorder.answering import ShimPlan
from pytest_codereval.recorder.shims import shim as shim_module
from pytest_codereval.recorder.shims.shell_text import printf_format, quote
from pytest_codereval.recorder.shims.shim import find_interpreter, render, runner

from .shadowing import Shadow, Tool

AWKWARD = 'it\'s "50 %" \\n \\ $HOME `id` ! \x01\x7f\x81 é\u2028 \U0001f600'
REPLIES = [
    "",
    "plain\n",
    "no newline at the end",
    "-n leading dash",
    "-e\\c\n",
    "%s %d %% %\n",
    "\n\n\n",
    "a\0b\0",
    "\r\n\ttab",
    "1" * 300,
    AWKWARD,
    "\udcff\udc80 not UTF-8",
    "".join(map(chr, range(1, 256))),
]
ARGVS = [
    (),
    ("",),
    ("", "", "x", ""),
    ("-n", "-e", "--", "-"),
    ("two words", "it's", '"q"', "a\\b", "a\nb\n", "%s%n", "$(id)", "`id`", "*", "~", "!x"),
    ("END", "1", "\x01", "\x1b[31m", "\x7f", "é", "\U0001f600", "\udcff\udc80"),
    ("x" * 100_000,),
    tuple(str(number) for number in range(3000)),
]
PROPERTY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("text", REPLIES)
def test_the_reply_comes_byte_by_byte(shadow: Shadow, interpreter: str, text: str) -> None:
    expected = text.encode("utf-8", "surrogateescape")
    tool = shadow(Tool("uip", 3, stdout=text, stderr=text), interpreter=interpreter)
    result = tool.call("uip")
    assert (result.returncode, result.stdout, result.stderr) == (3, expected, expected)
    assert tool.argvs() == [()]


def test_a_reply_of_one_megabyte(shadow: Shadow, interpreter: str) -> None:
    text = ("it's 50 % \\ é\n" * 80_000)[:1_000_000]
    tool = shadow(Tool("uip", 0, stdout=text), interpreter=interpreter)
    assert tool.call("uip").stdout == text.encode()
    assert tool.argvs() == [()]


@PROPERTY
@given(st.text(max_size=40), st.binary(max_size=40))
@example("-", b"-")
@example("\\", b"'\\''")
def test_printf_prints_what_was_asked_for(interpreter: str, text: str, raw: bytes) -> None:
    shell = interpreter.split()
    for wanted in (text.encode("utf-8", "surrogatepass"), raw):
        form = printf_format(wanted)
        assert form.isascii()
        assert not set("'\n$`") & set(form)
        result = subprocess.run([*shell, "-c", f"printf '{form}'"], capture_output=True, check=True)
        assert result.stdout == wanted


@pytest.mark.parametrize("argv", ARGVS, ids=range(len(ARGVS)))
def test_arguments_are_recorded_exactly(shadow: Shadow, interpreter: str, argv: tuple[str, ...]) -> None:
    tool = shadow("uip", interpreter=interpreter)
    assert tool.call("uip", *argv).returncode == 1
    assert tool.argvs() == [argv]


@PROPERTY
@given(st.lists(st.binary(max_size=30).map(lambda raw: raw.replace(b"\0", b"")), max_size=8))
def test_any_bytes_come_back_equal(shadow: Shadow, raw: list[bytes]) -> None:
    tool = shadow("uip")
    tool.call("uip", *raw)
    assert [tuple(map(os.fsencode, argv)) for argv in tool.argvs()] == [tuple(raw)]
    tool.recorder.close()


@pytest.mark.parametrize("code", [0, 1, 127, 255])
def test_exit_codes(shadow: Shadow, interpreter: str, code: int) -> None:
    tool = shadow(Tool("uip", code), interpreter=interpreter)
    assert tool.call("uip").returncode == code
    assert [call.exit_status for call in tool.drain().invocations] == [code]


@pytest.mark.parametrize(
    "closed", [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full", ">/dev/full 2>/dev/full"]
)
def test_closed_and_full_streams(shadow: Shadow, interpreter: str, closed: str) -> None:
    tool = shadow(Tool("uip", 7, stdout="out\n", stderr="err\n"), interpreter=interpreter)
    assert tool.shell(f"uip a {closed}").returncode == 7
    assert tool.argvs() == [("a",)]


def test_a_reader_that_is_gone(shadow: Shadow, interpreter: str) -> None:
    tool = shadow(Tool("uip", 7, stdout="x" * 200_000), interpreter=interpreter)
    assert tool.bash("uip a | true; exit ${PIPESTATUS[0]}").returncode == 7
    assert tool.argvs() == [("a",)]


def test_standard_input_is_neither_read_nor_waited_for(shadow: Shadow, interpreter: str) -> None:
    tool = shadow(Tool("uip", 0), interpreter=interpreter)
    result = tool.shell("printf 'left\\n' | { uip; cat; }")
    assert result.stdout == b"left\n"
    with subprocess.Popen(["uip", "open"], stdin=subprocess.PIPE, env=tool.environment()) as process:
        assert process.wait(timeout=60) == 0
    assert tool.argvs() == [(), ("open",)]


def test_the_environment_cannot_change_a_shim(shadow: Shadow, interpreter: str, tmp_path: Path) -> None:
    evil = tmp_path / "evil.sh"
    evil.write_text("exit 99\n")
    function = "() { exit 98; }"
    names = ("printf", "trap", "set", "exit", "case")
    hostile = {f"BASH_FUNC_{name}%%": function for name in names} | {
        "ENV": str(evil),
        "BASH_ENV": str(evil),
        "SHELLOPTS": "noexec:errexit:nounset:xtrace",
        "BASHOPTS": "extdebug",
        "PS4": "$(exit 97)",
        "IFS": "u0",
        "PWD": "/nowhere",
        "OLDPWD": "/nowhere",
        "CDPATH": "/",
        "POSIXLY_CORRECT": "1",
        "spool": "/nowhere",
        "n": "8",
        "lost": "1",
        "LC_ALL": "C",
        "LANG": "ja_JP.SJIS",
        "PYTHONHOME": "/nonexistent",
    }
    tool = shadow(Tool("uip", 5, stdout="out\n"), interpreter=interpreter)
    result = tool.call("uip", "a b", env=hostile, cwd="/")
    assert (result.returncode, result.stdout, result.stderr) == (5, b"out\n", b"")
    calls = tool.drain().invocations
    assert [(call.argv, call.cwd) for call in calls] == [(("a b",), "/")]


def test_an_empty_environment_and_an_empty_path(shadow: Shadow, interpreter: str) -> None:
    tool = shadow(Tool("uip", 5), interpreter=interpreter)
    for env in ({}, {"PATH": ""}, {"PATH": "/nonexistent"}):
        assert subprocess.run([tool.bin / "uip", "x"], env=env, check=False).returncode == 5
    assert tool.argvs() == [("x",)] * 3


def test_a_directory_that_is_gone(shadow: Shadow, interpreter: str, tmp_path: Path) -> None:
    tool = shadow(Tool("uip", 5, stdout="out\n"), interpreter=interpreter)
    gone = tmp_path / "gone"
    gone.mkdir()
    result = tool.shell(f"cd {gone} && rmdir {gone} && uip a")
    assert (result.returncode, result.stdout) == (5, b"out\n")
    assert tool.argvs() == [("a",)]


def test_the_working_directory_is_recorded(shadow: Shadow, interpreter: str, tmp_path: Path) -> None:
    odd = tmp_path / "a b\n'c'"
    odd.mkdir()
    tool = shadow("uip", interpreter=interpreter)
    tool.call("uip", cwd=odd)
    assert [call.cwd for call in tool.drain().invocations] == [str(odd)]


@pytest.mark.parametrize("limit", ["ulimit -f 0", "ulimit -f 1", "umask 777"])
def test_limits_of_the_caller(shadow: Shadow, interpreter: str, limit: str) -> None:
    tool = shadow(Tool("uip", 5, stdout="out\n"), interpreter=interpreter)
    result = tool.shell(f"{limit}; exec 2>&1; uip {'x' * 3000} | cat; uip y >/dev/null; exit $?")
    assert result.returncode == 5
    log = tool.drain()
    seen = len(log.invocations)
    assert seen == 2 or "ulimit" in limit
    assert seen == 2 or any("could not record" in fault for fault in log.faults)
    if limit.endswith(" 0"):
        assert seen == 0
        assert b"uip: this call could not be recorded" in result.stdout


def test_the_mark_is_emptied_when_no_line_can_be_sent(tmp_path: Path, interpreter: str) -> None:
    spool = tmp_path / "spool"
    (spool / "calls").mkdir(parents=True)
    (spool / "index").mkdir()
    (spool / "ok").write_text("ok\n")
    shim = tmp_path / "uip"
    shim.write_bytes(render(Tool("uip", 4, "out\n"), spool, interpreter, runner("uip", shim, interpreter)))
    shim.chmod(0o755)
    result = subprocess.run([shim], capture_output=True, check=False)
    assert (result.returncode, result.stdout) == (4, b"out\n")
    assert result.stderr == b"uip: this call could not be recorded\n"
    assert (spool / "ok").read_bytes() == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_does_not_tear_a_record(shadow: Shadow, number: signal.Signals) -> None:
    tool = shadow(Tool("uip", 5))
    started = 0
    for _ in range(30):
        process = subprocess.Popen(["uip", "x" * 50_000], env=tool.environment())
        process.send_signal(number)
        started += process.wait(timeout=60) == 5
    assert tool.argvs() == [("x" * 50_000,)] * started


def test_sixteen_callers_at_once(shadow: Shadow, interpreter: str) -> None:
    tool = shadow(Tool("uip", 0), Tool("curl", 0), interpreter=interpreter)
    loop = 'i=0; while [ $i -lt 25 ]; do {name} "$1" $i "$2"; i=$((i+1)); done'
    filler = "y" * 8000

    def caller(number: int) -> int:
        script = loop.replace("{name}", ("uip", "curl")[number % 2])
        return int(tool.call("/bin/sh", "-c", script, "sh", str(number), filler).returncode)

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(caller, range(16))) == [0] * 16
    calls = tool.drain().invocations
    assert tool.drain().faults == ()
    assert [call.sequence for call in calls] == list(range(1, 401))
    for number in range(16):
        mine = [call for call in calls if call.argv[0] == str(number)]
        assert [call.argv for call in mine] == [(str(number), str(i), filler) for i in range(25)]
        assert {call.tool for call in mine} == {("uip", "curl")[number % 2]}


EVERYDAY = [
    "python3.11",
    "dash",
    "busybox",
    "cat",
    "mkdir",
    "date",
    "printf",
    "docker",
    "claude",
    "bash",
    "env",
    "python3",
]


def test_tools_that_a_shim_might_need_itself(shadow: Shadow, interpreter: str) -> None:
    tools = shadow(*(Tool(name, 4, stdout=f"{name}!\n") for name in EVERYDAY), interpreter=interpreter)
    for round_ in ("1", "2"):
        for name in EVERYDAY:
            result = tools.call(name, round_)
            assert (result.returncode, result.stdout, result.stderr) == (4, f"{name}!\n".encode(), b"")
    assert [(call.tool, call.argv) for call in tools.drain().invocations] == [
        (name, (round_,)) for round_ in ("1", "2") for name in EVERYDAY
    ]
    assert shutil.which("cat") != str(tools.bin / "cat")
    assert subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, check=True).stdout == b"1\n"


def test_a_shim_runs_no_other_program(shadow: Shadow, interpreter: str) -> None:
    strace = shutil.which("strace")
    if not strace:
        pytest.skip("no strace here")
    tool = shadow(Tool("uip", 0, stdout="x"), interpreter=interpreter)
    trace = subprocess.run(
        [strace, "-f", "-e", "trace=execve,clone,fork,vfork,clone3", tool.bin / "uip"],
        capture_output=True,
        check=False,
        env=tool.environment(),
    )
    lines = trace.stderr.decode().splitlines()
    assert sum("execve(" in line for line in lines) == 1
    assert not [line for line in lines if "clone" in line or "fork" in line]


AWKWARD_SHIMS = [
    render(plan, Path("/tmp/a'b/spool"), "/bin/dash", runner("uip", Path("/tmp/a'b/bin/uip"), "/bin/dash"))
    for plan in (
        *(Tool("uip", 0, text, text) for text in (*REPLIES, "x'%\\\n" * 200_000)),
        *(
            ShimPlan("uip", asks=asks, passthrough=not asks, read_stdin=reads, variables=("UIP_ENV", "X_1"))
            for asks in (True, False)
            for reads in (True, False)
        ),
        ShimPlan("uip", read_stdin=True, stdout=b"x"),
    )
]


@pytest.mark.parametrize("shell", ["dash", "bash", "bash --posix", "busybox sh", "busybox ash"])
def test_every_shell_accepts_the_shims(tmp_path: Path, shell: str) -> None:
    command = shell.split()
    if not shutil.which(command[0]):
        pytest.skip(f"no {command[0]} here")
    for number, text in enumerate(AWKWARD_SHIMS):
        assert text.isascii()
        shim = tmp_path / f"shim{number}"
        shim.write_bytes(text)
        result = subprocess.run([*command, "-n", shim], capture_output=True, check=False)
        assert (result.returncode, result.stderr) == (0, b"")


INTENDED = {
    "SC1090": "the answer is read from a file whose name comes with it",
    "SC2015": "a && b || c with tests only",
    "SC2034": "used by the answer",
    "SC2064": "the signal is known when the trap is set",
    "SC2086": "a list of signals is split into words",
    "SC2317": "functions that traps and other functions call by name",
    "SC3013": "test -ef: dash, bash and busybox have it",
    "SC3045": "ulimit -c: dash, bash and busybox have it",
}


def test_shellcheck_accepts_the_shims(tmp_path: Path) -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("no shellcheck here")
    constant, others = [], []
    for number, text in enumerate(shim for shim in AWKWARD_SHIMS if len(shim) < 100_000):
        path = tmp_path / f"shim{number}"
        path.write_bytes(text)
        (others if b"codereval_run" in text or b"codereval_ask" in text else constant).append(path)
    for shims, options in ((constant, []), (others, ["-e", ",".join(INTENDED)])):
        assert shims
        result = subprocess.run(["shellcheck", "-s", "sh", *options, *shims], capture_output=True, check=False)
        assert (result.returncode, result.stdout.decode()) == (0, "")


@given(st.text(max_size=20).map(lambda text: text.replace("\0", "")))
@settings(max_examples=30, deadline=None)
def test_quote_makes_one_word(text: str) -> None:
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        return
    script = b"printf %s " + quote(text).encode()
    assert subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True).stdout == raw


def test_the_interpreter_is_absolute() -> None:
    shebang = find_interpreter()
    assert os.access(shebang.split()[0], os.X_OK)
    assert shebang.startswith("/")
    assert "env" not in shebang


@pytest.mark.parametrize(
    ("shell", "shebang"),
    [
        ("/bin/bash", "/bin/bash -p"),
        ("/bin/busybox", "/bin/busybox sh"),
        ("/bin/dash", "/bin/dash"),
        ("/bin/sh", "/bin/sh -p"),
    ],
)
def test_what_bin_sh_is_decides_the_shebang(monkeypatch: pytest.MonkeyPatch, shell: str, shebang: str) -> None:
    if not os.access(shell, os.X_OK):
        pytest.skip(f"no {shell} here")
    monkeypatch.setattr(shim_module, "_DASHES", ())
    monkeypatch.setattr(os.path, "realpath", lambda path: shell)
    assert find_interpreter.__wrapped__() == shebang


def test_nothing_is_left_open_for_the_callers(shadow: Shadow) -> None:
    """A shim that holds an inherited stream open would make its caller wait."""
    tool = shadow(Tool("uip", 0))
    reader, writer = os.pipe()
    subprocess.run(["uip"], env=tool.environment(), stdout=writer, check=True)
    os.close(writer)
    assert select.select([reader], [], [], 10)[0]
    assert os.read(reader, 1) == b""
    os.close(reader)
