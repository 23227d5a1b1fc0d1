"""Shims that run the real program: it is the one, it gets what the caller gave, and it ends the call as it ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.recorder.answering import Answer, CapturedRun, Printed, ReadStdin, Request, RunReal, ShimPlan
from pytest_codereval.recorder.shims import shim
from pytest_codereval.recorder.spool import desk

from .shadowing import SYSTEM_PATH, Shadow, Shadowed, box, until

ASKS = ShimPlan("uip", asks=True)
ALWAYS = ShimPlan("uip", passthrough=True)
BOTH = pytest.mark.parametrize("plan", [ALWAYS, ASKS], ids=["always", "asked"])


def run_real(request: Request) -> Answer:
    return RunReal()


def capture(request: Request) -> Answer:
    if request.run is None:
        return RunReal(capture=True)
    return Printed("passthrough", request.run.stdout, request.run.stderr, request.run.exit_status)


class Real:
    """A shadowed `uip` with a real program of that name behind it."""

    def __init__(self, tools: Shadowed, folder: Path) -> None:
        self.tools = tools
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def program(self, text: str) -> None:
        (self.folder / "uip").write_text(text)
        (self.folder / "uip").chmod(0o755)

    def call(self, *argv: str | bytes, **options: Any) -> Any:
        env = {"PATH": f"{self.tools.bin}:{self.folder}:{SYSTEM_PATH}"} | (options.pop("env", None) or {})
        return self.tools.call(*argv, env=env, **options)

    def start(self, *argv: str, **options: Any) -> subprocess.Popen[bytes]:
        env = {"PATH": f"{self.tools.bin}:{self.folder}:{SYSTEM_PATH}"}
        return subprocess.Popen(argv, env=env, **options)

    def shell(self, script: str, **options: Any) -> Any:
        return self.call("/bin/sh", "-c", script, **options)

    def statuses(self) -> list[int | None]:
        log = self.tools.drain()
        assert log.faults == ()
        assert {call.answered_by for call in log.invocations} == {"passthrough"}
        return [call.exit_status for call in log.invocations]


@pytest.fixture
def real(shadow: Shadow, tmp_path: Path) -> Any:
    def make(plan: ShimPlan, interpreter: str | None = None, answer: Any = run_real, text: str = "") -> Real:
        tools = shadow(plan, interpreter=interpreter, answer=answer)
        made = Real(tools, tmp_path / "real")
        if text:
            made.program(text)
        return made

    return make


# -- what it gets


@BOTH
def test_arguments_output_and_status(real: Any, interpreter: str, plan: ShimPlan) -> None:
    made = real(plan, interpreter, text="#!/bin/sh\nprintf '%s\\0' \"$@\"; printf 'e\\377' >&2; exit 42\n")
    argv = ("", "a b", "-n", "it's", "\n", b"\xff\x01", "*", "END")
    result = made.call("uip", *argv)
    assert result.stdout == b"".join(os.fsencode(word) + b"\0" for word in argv)
    assert (result.returncode, result.stderr) == (42, b"e\xff")
    assert made.statuses() == [42]
    assert [call.argv for call in made.tools.drain().invocations] == [tuple(map(os.fsdecode, argv))]


@BOTH
@pytest.mark.parametrize("status", [0, 1, 126, 127, 128, 145, 151, 193, 255])
def test_its_status_is_the_callers(real: Any, interpreter: str, plan: ShimPlan, status: int) -> None:
    made = real(plan, interpreter, text='#!/bin/sh\nexit "$1"\n')
    assert made.call("uip", str(status)).returncode == status
    assert made.statuses() == [status]


@BOTH
@pytest.mark.parametrize("source", ["printf 'a\\0b\\377' |", "printf '' |", "yes | head -c 300000 |"])
def test_standard_input_of_a_pipe(real: Any, interpreter: str, plan: ShimPlan, source: str) -> None:
    made = real(plan, interpreter, text="#!/bin/sh\nexec cat\n")
    assert made.shell(f"{source} uip").stdout == made.shell(f"{source} cat").stdout
    assert made.statuses() == [0]


@BOTH
def test_standard_input_that_stays_open_is_not_waited_for(real: Any, interpreter: str, plan: ShimPlan) -> None:
    made = real(plan, interpreter, text='#!/bin/sh\nread -r line; echo "<$line>"\n')
    result = made.shell("printf 'one\\ntwo\\n' | { uip; cat; }")
    assert result.stdout == b"<one>\ntwo\n"
    with made.start("uip", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"live\n")
        process.stdin.flush()
        assert process.stdout.read() == b"<live>\n"


FILES = """#!{python} -ISE
import os, sys
def what(n):
    try:
        return os.readlink(f"/proc/self/fd/{{n}}")
    except OSError:
        return "-"
found = sorted(int(n) for n in os.listdir("/proc/self/fd"))[:-1]
print([what(n) for n in (0, 1, 2)], found, file=open(sys.argv[1], "w"))
"""


@BOTH
@pytest.mark.parametrize(
    "streams",
    ["</dev/null >/dev/null 2>/dev/null", "<&- >&- 2>&-", "<&-", ">&-", "2>&-", "<&- 2>&-", "</dev/zero 2>&1 >&-"],
)
def test_it_gets_the_callers_streams(real: Any, interpreter: str, plan: ShimPlan, streams: str, tmp_path: Path) -> None:
    made = real(plan, interpreter, text=FILES.format(python=sys.executable))
    if "bash" in interpreter and streams == "2>&-":
        pytest.skip("bash keeps its script open as standard error when that is closed")
    fds = "4>/dev/null 9</dev/null 12>/dev/null"
    command = f'exec bash -c "{made.folder}/uip $PWD/direct {streams} {fds}; uip $PWD/shim {streams} {fds}"'
    made.shell(command, cwd=tmp_path)
    direct, through = (tmp_path / "direct").read_text(), (tmp_path / "shim").read_text()
    assert through == direct
    assert made.statuses() == [0]


@BOTH
def test_it_gets_the_callers_directory_umask_and_environment(
    real: Any, interpreter: str, plan: ShimPlan, tmp_path: Path
) -> None:
    made = real(plan, interpreter, text="#!/bin/sh\numask; pwd; env\n")
    odd = tmp_path / "a b"
    odd.mkdir()
    env = {"n": "5", "spool": "x", "lost": "1", "EMPTY": "", "LINES_": "a\nb", "LANG": "C", "PWD": str(odd)}
    direct = made.call("/bin/sh", "-c", f"umask 027; exec {made.folder}/uip", env=env, cwd=odd).stdout
    through = made.call("/bin/sh", "-c", "umask 027; exec uip", env=env, cwd=odd).stdout
    assert sorted(variables(through)) == sorted(variables(direct))
    assert through.startswith(b"0027\n")


def variables(text: bytes) -> list[bytes]:
    """Lines but for what every shell and env(1) set anew."""
    return [line for line in text.split(b"\n") if not line.startswith((b"_=", b"SHLVL=", b"OLDPWD="))]


@BOTH
def test_it_has_no_signal_ignored_that_the_caller_does_not_ignore(real: Any, interpreter: str, plan: ShimPlan) -> None:
    made = real(
        plan,
        interpreter,
        text="#!/bin/sh\nwhile read -r a b; do case $a in SigIgn:) echo $b ;; esac; done </proc/self/status\n",
    )
    for before in ("", "trap '' INT; ", "trap '' HUP PIPE; ", "trap '' TERM QUIT; "):
        direct = made.shell(f"{before}{made.folder}/uip").stdout
        assert direct
        assert made.shell(f"{before}uip").stdout == direct, before


@BOTH
def test_a_program_without_a_first_line(real: Any, interpreter: str, plan: ShimPlan) -> None:
    made = real(plan, interpreter, text="echo plain; exit 4\n")
    assert made.shell("uip").stdout == b"plain\n"
    assert made.statuses() == [4]


# -- which program it is


@BOTH
def test_there_is_no_real_one(real: Any, interpreter: str, plan: ShimPlan) -> None:
    made = real(plan, interpreter)
    (made.folder / "uip").mkdir()
    result = made.call("uip")
    words = b"uip: command not found: the recorder passes this call on, but no real uip is on PATH\n"
    assert (result.returncode, result.stdout, result.stderr) == (127, b"", words)
    assert made.statuses() == [127]


@BOTH
def test_it_is_never_the_shim_again(real: Any, interpreter: str, plan: ShimPlan, tmp_path: Path) -> None:
    made = real(plan, interpreter, text="#!/bin/sh\necho real\n")
    bin_ = made.tools.bin
    (tmp_path / "link").symlink_to(bin_)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "uip").symlink_to(bin_ / "uip")
    (tmp_path / "copy").mkdir()
    shutil.copy2(bin_ / "uip", tmp_path / "copy" / "uip")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "uip").write_text("not executable")
    for path in (
        f"{tmp_path}/link:{bin_}:{made.folder}",
        f"{tmp_path}/other:{tmp_path}/link:{bin_}/:{bin_}/../bin:{made.folder}",
        f"{tmp_path}/plain:{tmp_path}/copy:{bin_}:{made.folder}",
        f"{bin_}:{tmp_path}/copy:{tmp_path}/copy/:{made.folder}",
        f"link:other:{made.folder}",
        f"link:copy::{made.folder}",
        f":{made.folder}",
    ):
        env = {"PATH": f"{path}:/usr/bin:/bin"}
        result = subprocess.run([bin_ / "uip"], env=env, cwd=tmp_path, capture_output=True, check=False, timeout=60)
        assert (result.returncode, result.stdout, result.stderr) == (0, b"real\n", b""), path


@BOTH
@pytest.mark.parametrize("path", ["", ":", "{bin}:", "{bin}::/usr/bin", "{bin}:.", "{bin}:sub/..", "{bin}:-odd"])
def test_elements_of_path_that_are_relative(
    real: Any, interpreter: str, plan: ShimPlan, path: str, tmp_path: Path
) -> None:
    made = real(plan, interpreter, text='#!/bin/sh\necho "real $*"\n')
    place = made.folder
    (place / "sub").mkdir()
    (place / "-odd").mkdir()
    if path.endswith("-odd"):
        shutil.move(place / "uip", place / "-odd" / "uip")
    env = {"PATH": path.format(bin=made.tools.bin)}
    result = subprocess.run(
        [made.tools.bin / "uip", "x"], env=env, cwd=place, capture_output=True, check=False, timeout=60
    )
    assert (result.stdout, result.stderr) == (b"real x\n", b"")


@BOTH
def test_a_folder_with_an_equals_sign(real: Any, interpreter: str, plan: ShimPlan, tmp_path: Path) -> None:
    made = real(plan, interpreter, text="#!/bin/sh\necho real\n")
    (tmp_path / "a=b").symlink_to(made.folder)
    result = made.call("uip", env={"PATH": f"{made.tools.bin}:{tmp_path}/a=b:/usr/bin:/bin"})
    assert result.stdout == b"real\n"


@BOTH
def test_a_real_program_that_calls_itself_by_name(real: Any, interpreter: str, plan: ShimPlan) -> None:
    made = real(plan, interpreter, text="#!/bin/sh\ncase $1 in 0) exit 5 ;; esac\nuip $(($1 - 1)); exit $?\n")
    assert made.call("uip", "3").returncode == 5
    assert made.statuses() == [5] * 4
    assert [call.argv for call in made.tools.drain().invocations] == [("3",), ("2",), ("1",), ("0",)]


def test_tools_that_a_shim_might_need_itself(shadow: Shadow, interpreter: str) -> None:
    names = ("cat", "env", "printf", "kill", "true", "test", "dash", "bash", "busybox", "sleep")
    tools = shadow(*(ShimPlan(name, passthrough=True) for name in names), interpreter=interpreter)
    for name in names:
        direct = subprocess.run(
            [shutil.which(name), "--help"], capture_output=True, check=False, stdin=subprocess.DEVNULL
        )
        through = tools.call(name, "--help")
        assert through.returncode == direct.returncode, name
        assert len(through.stdout) > 0 or direct.stdout == b""
    assert [call.tool for call in tools.drain().invocations] == list(names)


# -- signals

WAITS = """#!{python} -ISE
import os, signal, sys
def end(number, frame):
    os.write(1, b"got %d\\n" % number)
    if sys.argv[1:] == ["die"]:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(9)
for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "PIPE"):
    signal.signal(getattr(signal, "SIG" + name), end if sys.argv[1:] != ["plain"] else signal.SIG_DFL)
os.write(1, b"%d\\n" % os.getpid())
while True:
    signal.sigtimedwait([], 60)
"""
SENT = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]


def pid_of(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@BOTH
@pytest.mark.parametrize("number", SENT)
def test_a_signal_reaches_the_program_and_its_status_counts(
    real: Any, interpreter: str, plan: ShimPlan, number: signal.Signals
) -> None:
    made = real(plan, interpreter, text=WAITS.format(python=sys.executable))
    with made.start("uip", stdout=subprocess.PIPE) as process:
        pid = pid_of(process)
        process.send_signal(number)
        assert process.stdout.read() == b"got %d\n" % number
        assert process.wait(timeout=60) == 9
    assert gone(pid)
    assert made.statuses() == [9]
    until(lambda: all(path.is_fifo() for path in made.tools.replies.iterdir()))


@BOTH
@pytest.mark.parametrize("number", [*SENT, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE])
def test_it_dies_as_the_program_died(real: Any, interpreter: str, plan: ShimPlan, number: signal.Signals) -> None:
    made = real(plan, interpreter, text=WAITS.format(python=sys.executable))
    with made.start("uip", "plain", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        os.kill(pid_of(process), number)
        ignores_quit = "dash" not in interpreter and number == signal.SIGQUIT
        assert process.wait(timeout=60) == (128 + number if ignores_quit else -number)
        assert process.stderr.read() == b""
    assert made.statuses() == [128 + number]


@BOTH
def test_a_program_in_the_background_can_be_killed(real: Any, interpreter: str, plan: ShimPlan) -> None:
    made = real(plan, interpreter, text=WAITS.format(python=sys.executable))
    script = "uip plain >out & p=$!; until [ -s out ]; do :; done; kill $p; wait $p; echo $?; cat out"
    result = made.shell(script, cwd=made.folder)
    status, pid = map(int, result.stdout.split())
    assert status == 143
    assert gone(pid)
    assert made.shell("timeout 3 uip plain >out", cwd=made.folder).returncode == 124
    until(lambda: gone(int((made.folder / "out").read_text())))
    assert made.statuses() == [143, 143]


@BOTH
def test_two_signals_at_once_leave_one_end(real: Any, interpreter: str, plan: ShimPlan) -> None:
    """timeout(1) sends its signal to the shim and to the whole group, whenever that is."""
    made = real(plan, interpreter, text="#!/bin/sh\nexec sleep 60\n")
    with ThreadPoolExecutor(4) as pool:
        limits = [f"timeout 0.{number:03}" for number in range(20, 100, 2)]
        statuses = list(pool.map(lambda limit: made.shell(f"{limit} uip").returncode, limits))
    assert set(statuses) == {124}
    log = made.tools.drain()
    assert log.faults == ()
    assert {call.exit_status for call in log.invocations} <= {143, None}


@BOTH
def test_a_broken_pipe_ends_the_program(real: Any, interpreter: str, plan: ShimPlan) -> None:
    made = real(plan, interpreter, text="#!/bin/sh\nexec yes\n")
    result = made.call("bash", "-c", "uip | head -1; echo ${PIPESTATUS[0]}")
    assert result.stdout == b"y\n141\n"
    assert made.statuses() == [141]


def test_an_interrupt_ends_the_program_also_where_env_cannot_help(
    real: Any, interpreter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim, "find_env", lambda: None)
    made = real(ALWAYS, interpreter, text="#!/bin/sh\necho $$; exec sleep 60\n")
    with made.start("uip", stdout=subprocess.PIPE) as process:
        pid = pid_of(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == -signal.SIGINT
    assert gone(pid)
    assert made.statuses() == [130]


@BOTH
def test_a_killed_shim_leaves_a_whole_record_without_an_end(real: Any, plan: ShimPlan) -> None:
    made = real(plan, text="#!/bin/sh\necho $$; exec sleep 60\n")
    with made.start("uip", "x" * 50_000, stdout=subprocess.PIPE) as process:
        pid = pid_of(process)
        process.kill()
        process.wait(timeout=60)
        os.kill(pid, signal.SIGKILL)
    log = made.tools.drain()
    assert log.faults == ()
    assert [(call.exit_status, call.ended, call.answered_by) for call in log.invocations] == [
        (None, None, "passthrough")
    ]


# -- with an answer before and after


def test_output_is_kept_for_the_answerer(real: Any, interpreter: str) -> None:
    text = "#!/bin/sh\nprintf 'out\\0\\377'; printf 'err' >&2; cat; exit 6\n"
    made = real(ASKS, interpreter, capture, text)
    result = made.call("uip", "x", stdin=None, input=b"in")
    assert (result.returncode, result.stdout, result.stderr) == (6, b"out\0\xffin", b"err")
    assert made.tools.answerer.requests[1].run == CapturedRun(b"out\0\xffin", b"err", 6)
    assert made.statuses() == [6]
    until(lambda: all(path.is_fifo() for path in made.tools.replies.iterdir()))


def test_kept_output_has_a_bound(real: Any, interpreter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "OUTPUT_LIMIT", 1000)
    made = real(ASKS, interpreter, capture, "#!/bin/sh\nyes | head -c 3000\n")
    assert len(made.call("uip").stdout) == 1000
    assert "longer than" in made.tools.drain().faults[0]


def test_a_kept_program_is_not_found(real: Any, interpreter: str) -> None:
    made = real(ASKS, interpreter, capture)
    result = made.call("uip")
    assert (result.returncode, result.stdout) == (127, b"")
    assert b"no real uip is on PATH" in result.stderr


def test_input_that_was_read_reaches_the_program(real: Any, interpreter: str) -> None:
    def answer(request: Request) -> Answer:
        return ReadStdin() if request.stdin is None else RunReal()

    made = real(ASKS, interpreter, answer, "#!/bin/sh\nexec cat\n")
    data = bytes(range(256)) * 500
    assert made.call("uip", stdin=None, input=data).stdout == data
    plan = ShimPlan("uip", passthrough=True, read_stdin=True)
    again = real(plan, interpreter, None, "#!/bin/sh\nexec cat\n")
    assert again.call("uip", stdin=None, input=data).stdout == data
    (call,) = again.tools.drain().invocations
    assert (call.stdin, call.exit_status) == (data.decode("utf-8", "surrogateescape"), 0)


def test_the_proof_runs_no_real_program(real: Any, tmp_path: Path) -> None:
    for plan in (ALWAYS, ASKS):
        made = real(plan, text=f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        path = f"{made.tools.bin}:{made.folder}:{SYSTEM_PATH}"
        made.tools.recorder.prove_reachable(box(made.tools, tmp_path, path=path))
        assert not (tmp_path / "ran").exists()
        made.call("uip")
        assert (tmp_path / "ran").exists()
        (tmp_path / "ran").unlink()
        assert [call.argv for call in made.tools.drain().invocations] == [()]


def test_no_argument_keeps_the_real_program_from_running(real: Any, interpreter: str, tmp_path: Path) -> None:
    made = real(ALWAYS, interpreter, text='#!/bin/sh\necho "real $1"\n')
    (word,) = made.tools.recorder._probe
    made.tools.recorder.prove_reachable(box(made.tools, tmp_path, path=f"{made.tools.bin}:{SYSTEM_PATH}"))
    for argument in (word, "codereval-probe"):
        assert made.call("uip", argument).stdout == f"real {argument}\n".encode()
    assert made.tools.argvs() == [(word,), ("codereval-probe",)]
    assert word.encode() not in (made.tools.bin / "uip").read_bytes()


def test_a_call_that_cannot_be_recorded_runs_nevertheless(real: Any, interpreter: str) -> None:
    made = real(ALWAYS, interpreter, text="#!/bin/sh\necho real\n")
    made.tools.calls.rmdir()
    result = made.call("uip")
    assert (result.returncode, result.stdout) == (0, b"real\n")
    assert result.stderr == b"uip: this call could not be recorded\n"
