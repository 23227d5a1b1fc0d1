"""Shims that ask: what the harness is asked, what the caller gets, and what happens when either of them is gone."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.recorder.answering import Answer, Printed, ReadStdin, Request, ShimPlan
from pytest_codereval.recorder.options import Option
from pytest_codereval.recorder.recorder import Recorder
from pytest_codereval.recorder.shims import reply_text
from pytest_codereval.recorder.spool import desk, places, spool
from pytest_codereval.recorder.spool.spool import cause_of, describe

from .shadowing import Answering, Shadow, Shadowed, Tool, box, record, until
from .test_shim import ARGVS, REPLIES

ASKS = ShimPlan("uip", asks=True)


def repeat(request: Request) -> Answer:
    """Print the arguments, one a line, and exit with their number."""
    return Printed(
        "rule 1", stdout=b"".join(os.fsencode(word) + b"\n" for word in request.argv), exit_status=len(request.argv)
    )


def hear(request: Request) -> Answer:
    """Print what was read."""
    return ReadStdin() if request.stdin is None else Printed("handler", stdout=b"<" + request.stdin + b">")


def always(answer: Answer) -> Callable[[Request], Answer]:
    return lambda request: answer


def is_quiet(tools: Shadowed) -> bool:
    """Whether nobody waits and nothing of an answer is left."""
    return all(path.is_fifo() for path in tools.replies.iterdir())


# -- what the caller gets


@pytest.mark.parametrize("text", REPLIES)
def test_the_answer_comes_byte_by_byte(shadow: Shadow, interpreter: str, text: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    tools = shadow(ASKS, interpreter=interpreter, answer=always(Printed("rule 2", data, data[::-1], 255)))
    result = tools.call("uip")
    assert (result.returncode, result.stdout, result.stderr) == (255, data, data[::-1])
    (call,) = tools.drain().invocations
    assert (call.answered_by, call.exit_status, tools.drain().faults) == ("rule 2", 255, ())
    assert call.ended is not None
    assert call.ended >= call.time


def test_an_answer_larger_than_a_pipe_to_a_slow_reader(shadow: Shadow, interpreter: str) -> None:
    data = bytes(range(256)) * 2000
    tools = shadow(ASKS, interpreter=interpreter, answer=always(Printed("rule 1", data)))
    with subprocess.Popen(["uip"], env=tools.environment(), stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        first = process.stdout.read(10)
        assert tools.call("uip").stdout == data
        rest, _ = process.communicate(timeout=60)
    assert first + rest == data
    assert [call.exit_status for call in tools.drain().invocations] == [0, 0]


@pytest.mark.parametrize(
    "closed", [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full", ">/dev/full 2>/dev/full"]
)
def test_closed_and_full_streams(shadow: Shadow, interpreter: str, closed: str) -> None:
    tools = shadow(ASKS, interpreter=interpreter, answer=always(Printed("rule 1", b"out\n", b"err\n", 7)))
    assert tools.shell(f"uip a {closed}").returncode == 7
    assert [call.exit_status for call in tools.drain().invocations] == [7]


def test_a_reader_that_is_gone(shadow: Shadow, interpreter: str) -> None:
    tools = shadow(ASKS, interpreter=interpreter, answer=always(Printed("rule 1", b"x" * 200_000, exit_status=7)))
    assert tools.bash("uip a | true; exit ${PIPESTATUS[0]}").returncode == 7
    assert [call.exit_status for call in tools.drain().invocations] == [7]


def test_the_environment_cannot_change_a_shim(shadow: Shadow, interpreter: str, tmp_path: Path) -> None:
    (tmp_path / "evil.sh").write_text("exit 99\n")
    names = ("printf", "trap", "read", "command", "kill", "wait", "umask", "[", "true", "exec", "eval")
    hostile = {f"BASH_FUNC_{name}%%": "() { exit 98; }" for name in names} | {
        "ENV": str(tmp_path / "evil.sh"),
        "BASH_ENV": str(tmp_path / "evil.sh"),
        "SHELLOPTS": "noexec:errexit:nounset:xtrace:noclobber:noglob",
        "IFS": "INTQUH0 ",
        "POSIXLY_CORRECT": "1",
        "REPLY": "x",
        **{
            f"codereval_{name}": "exit 97"
            for name in ("spool", "n", "lost", "call", "open", "slot", "round", "text", "ended", "status", "keyboard")
        },
    }
    tools = shadow(ASKS, interpreter=interpreter, answer=hear)
    result = tools.call("uip", "a b", env=hostile, cwd="/", stdin=None, input=b"in")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"<in>", b"")
    for env in ({}, {"PATH": ""}):
        result = subprocess.run(
            [tools.bin / "uip"], env=env, check=False, stdin=subprocess.DEVNULL, capture_output=True
        )
        assert (result.returncode, result.stdout) == (0, b"<>")
    assert tools.argvs() == [("a b",), (), ()]


def test_tools_that_a_shim_might_need_itself(shadow: Shadow, interpreter: str) -> None:
    names = ("cat", "env", "printf", "kill", "true", "test", "dash", "bash", "busybox", "umask", "mkfifo", "sleep")
    plans = [ShimPlan(name, asks=True) for name in names]
    tools = shadow(*plans, interpreter=interpreter, answer=hear)
    for name in names:
        result = tools.call(name, input=b"x", stdin=None)
        assert (result.returncode, result.stdout, result.stderr) == (0, b"<x>", b"")
    assert [call.tool for call in tools.drain().invocations] == list(names)


# -- what is asked


@pytest.mark.parametrize("argv", ARGVS, ids=range(len(ARGVS)))
def test_arguments_are_asked_exactly(shadow: Shadow, interpreter: str, argv: tuple[str, ...]) -> None:
    tools = shadow(ASKS, interpreter=interpreter, answer=repeat)
    assert tools.call("uip", *argv).returncode == len(argv) & 255
    assert [request.argv for request in tools.answerer.requests] == [argv]
    assert tools.argvs() == [argv]


def test_any_bytes_come_back_equal_in_batches(tmp_path: Path, shadow: Shadow) -> None:
    tools = shadow(
        ASKS, answer=lambda request: Printed("rule 1", stdout=b"\0".join(map(os.fsencode, (*request.argv, ""))))
    )
    word = st.binary(max_size=12).map(lambda raw: raw.replace(b"\0", b"'"))
    calls: list[list[bytes]] = []

    @settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(st.lists(word, max_size=5), min_size=1, max_size=20))
    def check(batch: list[list[bytes]]) -> None:
        script = tmp_path / "script"
        lines = (b" ".join([b"uip", *(b"'" + raw.replace(b"'", b"'\\''") + b"'" for raw in argv)]) for argv in batch)
        script.write_bytes(b"\n".join(lines) + b"\n")
        wanted = b"".join(b"".join(raw + b"\0" for raw in argv) for argv in batch)
        assert tools.call("/bin/sh", script).stdout == wanted
        calls.extend(batch)

    check()
    assert [tuple(map(os.fsencode, argv)) for argv in tools.argvs()] == [tuple(argv) for argv in calls]


def test_directory_and_variables_go_with_the_call(shadow: Shadow, interpreter: str, tmp_path: Path) -> None:
    plan = ShimPlan("uip", asks=True, variables=("UIP_ENV", "EMPTY", "UNSET"))
    folder = tmp_path / "a b"
    folder.mkdir()
    tools = shadow(plan, interpreter=interpreter, answer=repeat)
    tools.call("uip", "END", env={"UIP_ENV": "a=b\n'c' ", "EMPTY": "", "OTHER": "x"}, cwd=folder)
    (request,) = tools.answerer.requests
    assert request.environment == {"UIP_ENV": "a=b\n'c' ", "EMPTY": ""}
    assert (request.tool, request.argv, request.cwd, request.stdin) == ("uip", ("END",), str(folder), None)
    assert tools.argvs() == [("END",)]


def test_directories_are_told_relative_to_the_workspace(shadow: Shadow, tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    (workspace / "sub dir").mkdir(parents=True)
    (tmp_path / "link").symlink_to(workspace / "sub dir")
    (tmp_path / "workshop").mkdir()
    tools = shadow("uip", workspace=workspace)
    places_ = (workspace, workspace / "sub dir", tmp_path / "link", tmp_path / "workshop", Path("/"))
    for place in places_:
        tools.shell(f'cd "{place}" && uip')
    assert [call.cwd for call in tools.drain().invocations] == [
        ".", "sub dir", "sub dir", str(tmp_path / "workshop"), "/",
    ]  # fmt: skip


# -- standard input


@pytest.mark.parametrize("data", [b"", b"x", b"a\0b\xff\n\n", b"no newline", bytes(range(256)) * 1000])
def test_standard_input_is_read_when_asked_for(shadow: Shadow, interpreter: str, data: bytes) -> None:
    tools = shadow(ASKS, interpreter=interpreter, answer=hear)
    result = tools.call("uip", "x", stdin=None, input=data)
    assert (result.stdout, result.stderr) == (b"<" + data + b">", b"")
    assert [request.stdin for request in tools.answerer.requests] == [None, data]
    (call,) = tools.drain().invocations
    assert call.stdin == data.decode("utf-8", "surrogateescape")
    assert tools.drain().faults == ()
    until(lambda: is_quiet(tools))


@pytest.mark.parametrize("source", ["<&-", "</dev/null", "0>/dev/null"])
def test_standard_input_that_holds_nothing(shadow: Shadow, interpreter: str, source: str) -> None:
    tools = shadow(ASKS, interpreter=interpreter, answer=hear)
    result = tools.shell(f"uip x {source}")
    assert (result.returncode, result.stdout) == (0, b"<>")
    assert tools.argvs() == [("x",)]


def test_standard_input_is_left_alone_when_nobody_asks(shadow: Shadow, interpreter: str) -> None:
    tools = shadow(ASKS, interpreter=interpreter, answer=repeat)
    assert tools.shell("printf 'left\\n' | { uip; cat; }").stdout == b"left\n"
    with subprocess.Popen(["uip"], stdin=subprocess.PIPE, env=tools.environment()) as process:
        assert process.wait(timeout=60) == 0
    assert [call.stdin for call in tools.drain().invocations] == [None, None]


@pytest.mark.parametrize("asks", [True, False])
def test_every_call_can_be_made_to_send_its_input(shadow: Shadow, interpreter: str, asks: bool) -> None:
    plan = ShimPlan("uip", asks=asks, read_stdin=True, stdout=b"<in>")
    tools = shadow(plan, interpreter=interpreter, answer=hear)
    assert tools.call("uip", stdin=None, input=b"in").stdout == b"<in>"
    (call,) = tools.drain().invocations
    assert (call.stdin, call.exit_status, tools.drain().faults) == ("in", 0, ())
    if asks:
        assert [request.stdin for request in tools.answerer.requests] == [b"in"]


def test_standard_input_without_cat(shadow: Shadow, interpreter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_text, "_CATS", ("/nonexistent/cat",))
    tools = shadow(ASKS, interpreter=interpreter, answer=hear)
    for data in (b"", b"a\n\\b \n  c", b"line\n"):
        assert tools.call("uip", stdin=None, input=data).stdout == b"<" + data + b">"


def test_standard_input_has_a_bound(shadow: Shadow, interpreter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply_text, "STDIN_LIMIT", 1 << 20)
    monkeypatch.setattr(desk, "OUTPUT_LIMIT", 1 << 20)
    tools = shadow(ASKS, interpreter=interpreter, answer=hear)
    result = tools.shell("yes | uip | wc -c")
    assert int(result.stdout) == (1 << 20) + 2
    assert describe(tools.drain().faults) == "standard input of a call is longer than 1 MiB"


def test_a_shim_that_reads_can_be_killed(shadow: Shadow, interpreter: str) -> None:
    tools = shadow(ASKS, interpreter=interpreter, answer=hear)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with subprocess.Popen(["uip"], stdin=subprocess.PIPE, env=tools.environment()) as process:
            until(lambda: any(tools.replies.glob("*.in")))
            process.send_signal(number)
            assert process.wait(timeout=60) == -number
        assert all(request.stdin is None for request in tools.answerer.requests)
        for path in tools.replies.glob("*.in"):
            path.unlink()
    assert [call.ended for call in tools.drain().invocations] == [None] * 3


# -- time and number


def test_a_delay_holds_up_its_own_call_only(shadow: Shadow) -> None:
    delays = {"for ever": 3600.0, "a little": 0.2, "not": 0.0}
    tools = shadow(ASKS, answer=lambda request: Printed("rule 1", b"x", delay=delays[request.argv[0]]))
    with subprocess.Popen(["uip", "for ever"], env=tools.environment()) as process:
        until(lambda: len(tools.answerer.requests) == 1)
        assert tools.call("uip", "not").stdout == b"x"
        assert tools.call("uip", "a little").stdout == b"x"
        assert process.poll() is None
        process.kill()
    (late,) = [call for call in tools.drain().invocations if call.argv == ("a little",)]
    assert late.ended is not None
    assert late.ended - late.time >= 0.2


def test_sixty_four_callers_at_once(shadow: Shadow, interpreter: str) -> None:
    tools = shadow(ASKS, interpreter=interpreter, answer=repeat)
    loop = 'i=0; while [ $i -lt 4 ]; do [ "$(uip "$1" $i)" = "$1\n$i" ] || exit 1; i=$((i+1)); done'.replace(
        "\\n", "\n"
    )

    def caller(number: int) -> int:
        return int(tools.call("/bin/sh", "-c", loop, "sh", str(number)).returncode)

    with ThreadPoolExecutor(64) as pool:
        assert list(pool.map(caller, range(64))) == [0] * 64
    calls = tools.drain().invocations
    assert tools.drain().faults == ()
    assert sorted(call.argv for call in calls) == sorted((str(n), str(i)) for n in range(64) for i in range(4))
    assert {call.exit_status for call in calls} == {2}
    assert sorted(request.argv for request in tools.answerer.requests) == sorted(call.argv for call in calls)


def fifos(tools: Shadowed) -> int:
    return sum(path.is_fifo() for path in tools.replies.iterdir())


def test_who_asks_seldom_holds_few_files_open(shadow: Shadow) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    tools = shadow(ASKS, answer=repeat)
    for number in range(5):
        assert tools.call("uip", str(number)).returncode == 1
        until(lambda: is_quiet(tools))
    assert fifos(tools) == 3
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 8


def test_places_grow_with_the_callers(shadow: Shadow) -> None:
    tools = shadow(ASKS, answer=always(Printed("rule 1", delay=3600.0)))
    processes = [subprocess.Popen(["uip"], env=tools.environment()) for _ in range(9)]
    until(lambda: len(tools.answerer.requests) == 9)
    assert 10 <= fifos(tools) <= 33
    tools.drain()
    for process in processes:
        process.kill()
        process.wait()


def test_a_place_that_cannot_be_opened_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shim would wait there for ever."""

    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    folder = os.open(tmp_path, os.O_RDONLY)
    pool = places.Places(folder, 0o600)
    names = {"0", "1", "room"}
    for number in (0, 1):
        (tmp_path / f"{number}.claim").touch()
    with monkeypatch.context() as patch:
        patch.setattr(places.Places, "_open", fail)
        pool.give_room()
    assert {path.name for path in tmp_path.iterdir() if path.is_fifo()} == names
    pool.give_room()
    assert {path.name for path in tmp_path.iterdir() if path.is_fifo()} == names | {"2", "3"}
    pool.close()
    os.close(folder)


def test_more_callers_than_places(shadow: Shadow, interpreter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "AT_FIRST", 1)
    monkeypatch.setattr(places, "AT_MOST", 3)
    tools = shadow(
        ASKS, interpreter=interpreter, answer=lambda request: Printed("rule 1", request.argv[0].encode(), delay=0.02)
    )
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda number: tools.call("uip", str(number)).stdout, range(40)))
    assert found == [str(number).encode() for number in range(40)]
    assert len(tools.drain().invocations) == 40
    assert tools.drain().faults == ()
    assert len([path for path in tools.replies.iterdir() if path.name.isdigit()]) == 3


def test_callers_who_were_killed_leave_their_places(shadow: Shadow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "AT_FIRST", 2)
    monkeypatch.setattr(places, "AT_MOST", 2)
    tools = shadow(ASKS, answer=lambda request: Printed("rule 1", b"ok", delay=3600.0 if request.argv else 0.0))

    def nobody_waits() -> bool:
        return is_quiet(tools)

    numbers = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    for asked, number in enumerate(numbers, start=1):
        process = subprocess.Popen(["uip", "forever"], env=tools.environment(), preexec_fn=no_core)
        until(lambda asked=asked: len(tools.answerer.requests) == asked)
        process.send_signal(number)
        assert process.wait(timeout=60) == -number
        until(nobody_waits)
    assert tools.call("uip").stdout == b"ok"
    calls = tools.drain().invocations
    assert [call.ended for call in calls[:-1]] == [None] * 5
    assert [call.exit_status for call in calls] == [None] * 5 + [0]
    assert tools.drain().faults == ()


def no_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def test_a_signal_that_the_caller_ignores_stays_ignored(shadow: Shadow, interpreter: str) -> None:
    tools = shadow(ASKS, interpreter=interpreter, answer=always(Printed("rule 1", b"ok", delay=0.3)))
    result = tools.shell("trap '' INT HUP; uip & p=$!; sleep 0.1; kill -INT $p; kill -HUP $p; wait $p; echo $?")
    assert result.stdout == b"ok0\n"


def test_timeout_ends_a_call_that_waits(shadow: Shadow, interpreter: str) -> None:
    tools = shadow(ASKS, interpreter=interpreter, answer=always(Printed("rule 1", delay=3600.0)))
    assert tools.shell("timeout 2 uip").returncode == 124
    assert [call.exit_status for call in tools.drain().invocations] == [None]


# -- what is known at the end


def test_the_log_says_who_answered(shadow: Shadow) -> None:
    answers = {
        "1": Printed("rule 3"),
        "2": Printed("fallback", unmatched=True),
        "3": Printed("cassette"),
    }
    table = {"uip": (Option(("output", "o"), 1),)}
    tools = shadow(ASKS, Tool("curl", 0), answer=lambda request: answers[request.argv[0]], options=table)
    for words in (("uip", "1"), ("curl", "x"), ("uip", "2"), ("uip", "3")):
        tools.call(*words)
    log = tools.drain()
    assert [call.answered_by for call in log.invocations] == ["rule 3", "constant", "fallback", "cassette"]
    assert (log.unmatched, log.options, log.shim_dir, log.faults) == ((3,), table, str(tools.bin), ())


def test_calls_after_the_drain_are_answered_and_not_counted(shadow: Shadow) -> None:
    tools = shadow(ASKS, answer=repeat)
    tools.call("uip", "agent")
    log = tools.drain()
    assert tools.call("uip", "grader").stdout == b"grader\n"
    assert tools.drain() is log
    assert [call.argv for call in log.invocations] == [("agent",)]


def test_the_proof_asks_nobody_and_the_answerer_begins_anew(shadow: Shadow, tmp_path: Path) -> None:
    tools = shadow(ASKS, answer=repeat)
    tools.call("uip", "before")
    tools.recorder.prove_reachable(box(tools, tmp_path))
    assert tools.answerer.resets >= 1
    tools.call("uip", "agent")
    assert [request.argv for request in tools.answerer.requests] == [("before",), ("agent",)]
    assert tools.argvs() == [("agent",)]


@pytest.mark.parametrize("proven", [True, False])
def test_the_arguments_of_the_proof_are_the_agents_afterwards(shadow: Shadow, tmp_path: Path, proven: bool) -> None:
    tools = shadow(ASKS, answer=repeat)
    (word,) = tools.recorder._probe
    assert word != shadow(ASKS, answer=repeat).recorder._probe[0]
    assert tools.call("uip", word).returncode == 0
    assert tools.call("uip", "codereval-probe").returncode == 1
    if proven:
        tools.recorder.prove_reachable(box(tools, tmp_path))
    else:
        tools.recorder.discard_calls_so_far()
    assert tools.call("uip", word).stdout == f"{word}\n".encode()
    (call,) = tools.drain().invocations
    assert (call.argv, call.answered_by, call.exit_status) == ((word,), "rule 1", 1)


def test_what_the_author_did_wrong_is_the_authors_fault(shadow: Shadow) -> None:
    tools = shadow(ASKS, answer=always(Printed("handler")))
    tools.call("uip")
    tools.answerer.faults = ("uip: handler.py:uip: ValueError: no",)
    faults = tools.drain().faults
    assert faults == ("rules: uip: handler.py:uip: ValueError: no",)
    assert cause_of(faults) is Cause.ANSWERS_FAILED
    assert describe(faults) == "uip: handler.py:uip: ValueError: no"
    assert cause_of((*faults, "evidence lost: a")) is Cause.EVIDENCE_LOST
    assert cause_of((*faults, "tampered: a")) is Cause.TAMPERED


def fail(request: Request) -> Answer:
    raise ValueError("secret answer")


@pytest.mark.parametrize("answer", [fail, always(ReadStdin())])
def test_an_answerer_that_misbehaves(shadow: Shadow, answer: Callable[[Request], Answer]) -> None:
    tools = shadow(ASKS, answer=answer)
    result = tools.call("uip", timeout=60)
    assert (result.returncode, result.stdout, result.stderr) == (1, b"", b"uip: internal error\n")
    assert cause_of(tools.drain().faults) is Cause.ANSWERS_FAILED


def test_an_answer_that_never_comes_ends_with_the_trial(shadow: Shadow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "PATIENCE", 0.1)
    release = threading.Event()

    def hang(request: Request) -> Answer:
        release.wait(60)
        return Printed("handler")

    tools = shadow(ASKS, answer=hang)
    tools.answerer.at_work = "handler 'h'"
    with subprocess.Popen(["uip", "a", "b c"], env=tools.environment()) as process:
        until(lambda: bool(tools.answerer.requests))
        process.kill()
    log = tools.drain()
    tools.recorder.close()
    assert [call.answered_by for call in log.invocations] == ["unanswered"]
    assert cause_of(log.faults) is Cause.ANSWERS_FAILED
    assert describe(log.faults) == "uip: handler 'h' had not returned 0.1 s after the end; the call was: uip a 'b c'"
    release.set()


def test_nothing_is_answered_when_the_agent_is_dead(shadow: Shadow) -> None:
    """An answer may have effects on the workspace, which is sealed then."""
    entered, release = threading.Event(), threading.Event()

    def answer(request: Request) -> Answer:
        entered.set()
        release.wait(60)
        return Printed("handler")

    tools = shadow(ASKS, answer=answer)
    processes = [subprocess.Popen(["uip"], env=tools.environment()) for _ in range(3)]
    assert entered.wait(30)
    until(lambda: len(list(tools.replies.glob("*.claim"))) == 3 and not any(tools.calls.iterdir()))
    for process in processes:
        process.kill()
        process.wait()
    drained = threading.Thread(target=tools.drain)
    drained.start()
    until(lambda: tools.recorder._spool._taken)
    release.set()
    drained.join(timeout=60)
    assert len(tools.drain().invocations) == 3
    assert len(tools.answerer.requests) == 1


def test_no_answer_lies_in_the_sandbox_before_or_after(shadow: Shadow) -> None:
    tools = shadow(ASKS, answer=always(Printed("rule 1", b"the secret answer")))
    texts = [path.read_bytes() for path in tools.bin.iterdir()]
    assert not any(b"secret" in text for text in texts)
    assert is_quiet(tools)
    assert tools.call("uip").stdout == b"the secret answer"
    until(lambda: is_quiet(tools))


def test_no_thread_and_no_descriptor_is_left(shadow: Shadow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "AT_FIRST", 2)
    before = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
    for _ in range(4):
        tools = shadow(ASKS, answer=hear)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(tools.call, ["uip"] * 8))
        tools.drain()
        tools.recorder.close()
        tools.recorder.close()
    assert (len(list(Path("/proc/self/fd").iterdir())), threading.active_count()) == before


def test_closing_what_was_never_opened(tmp_path: Path) -> None:
    recorder = Recorder([ASKS], tmp_path / "bin", tmp_path / "spool", answerer=Answering(repeat))
    recorder.close()


def test_who_asks_needs_somebody_who_answers(tmp_path: Path) -> None:
    for plan, words in ((ASKS, "nobody answers"), (ShimPlan("uip", variables=("a-b",)), "no name of a variable")):
        with pytest.raises(TrialError, match=words) as caught:
            Recorder([plan], tmp_path / "bin", tmp_path / "spool")
        assert caught.value.cause is Cause.CONFIGURATION


def test_a_spool_that_cannot_be_written(shadow: Shadow, interpreter: str) -> None:
    tools = shadow(ASKS, interpreter=interpreter, answer=repeat)
    tools.calls.rmdir()
    result = tools.call("uip", timeout=60)
    assert (result.returncode, result.stderr) == (1, b"uip: this call could not be recorded\n")
    assert cause_of(tools.drain().faults) is Cause.TAMPERED


def test_an_answer_that_cannot_be_made_leaves_nobody_waiting(shadow: Shadow, interpreter: str) -> None:
    wrong: Any = "seven"
    answers = {"good": Printed("rule 1", b"x"), "bad": Printed("rule 2", exit_status=wrong)}
    tools = shadow(ASKS, interpreter=interpreter, answer=lambda request: answers[request.argv[0]])
    result = tools.call("uip", "bad", timeout=60)
    assert (result.returncode, result.stderr) == (1, b"uip: this call was recorded, but it got no answer\n")
    assert tools.call("uip", "good").stdout == b"x"
    log = tools.drain()
    assert log.faults[0].startswith("evidence lost: the answer to a call of uip could not be made: TypeError")
    assert cause_of(log.faults) is Cause.EVIDENCE_LOST
    assert log.unmatched == (1,)


def test_an_answer_that_cannot_be_handed_over(shadow: Shadow, interpreter: str, tmp_path: Path) -> None:
    root = tmp_path / "small"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", root]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        answers = {"small": Printed("rule 1", b"x"), "large": Printed("rule 2", b"\xff" * 2_000_000)}
        tools = shadow(ASKS, interpreter=interpreter, root=root, answer=lambda request: answers[request.argv[0]])
        assert tools.call("uip", "small").stdout == b"x"
        result = tools.call("uip", "large", timeout=60)
        assert (result.returncode, result.stderr) == (1, b"uip: this call was recorded, but it got no answer\n")
        assert tools.call("uip", "small").stdout == b"x"
        faults = tools.drain().faults
        assert (
            faults[0] == "evidence lost: the answer to a call of uip could not be handed over: No space left on device"
        )
        assert cause_of(faults) is Cause.EVIDENCE_LOST
        tools.recorder.close()
    finally:
        subprocess.run(["umount", "-l", root], check=True)


def test_memory_has_a_bound(shadow: Shadow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "MEMORY_LIMIT", 1 << 20)
    tools = shadow(ASKS, answer=hear)
    for _ in range(3):
        tools.call("uip", stdin=None, input=b"x" * 500_000)
    log = tools.drain()
    assert sum(len(call.stdin or "") for call in log.invocations) <= 1 << 20
    assert "more than 1 MiB of calls" in log.faults[0]


# -- what an agent may do


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ('echo "424.0?0" >>"$SPOOL/index"', "lines that no shim wrote"),
        ('echo "424.0?" >>"$SPOOL/index"', "lines that no shim wrote"),
        ('echo "424.0?9999" >>"$SPOOL/index"', "lines that no shim wrote"),
        ('echo "424.0=0" >>"$SPOOL/index"', "lines that no shim wrote"),
        ('echo "424.0<" >>"$SPOOL/index"', "lines that no shim wrote"),
        ('cp "$RECORD" "$SPOOL/calls/4.0"; printf "4.0\\n4.0?7777\\n" >>"$SPOOL/index"', "where no answer can reach"),
        ('cp "$RECORD" "$SPOOL/calls/4.0"; printf "4.0\\n4.0=9\\n4.0=9\\n" >>"$SPOOL/index"', "no shim wrote"),
        ('cp "$RECORD" "$SPOOL/calls/4.0"; printf "4.0\\n4.0<\\n" >>"$SPOOL/index"', "standard input of a call"),
        ('cp "$RECORD" "$SPOOL/calls/4.0"; mkfifo "$SPOOL/replies/4.0.in"; printf "4.0\\n4.0<\\n" >>"$SPOOL/index"',
         "standard input of a call lies in no file"),
        ('cp "$RECORD" "$SPOOL/calls/4.0"; ln -s /etc "$SPOOL/replies/4.0.in"; printf "4.0\\n4.0<\\n" >>"$SPOOL/index"',
         "standard input of a call could not be read"),
        ('rm "$SPOOL/replies/0"; timeout 2 uip x', "places where shims wait"),
        ('rm "$SPOOL/replies/"*; timeout 2 uip x', "places where shims wait"),
        ('rm "$SPOOL/replies/0"; mkfifo "$SPOOL/replies/0"; timeout -s KILL 2 uip x', "places where"),
        ('rm "$SPOOL/replies/0"; : >"$SPOOL/replies/0"; timeout 2 uip x', "where no answer can reach|places where"),
        ('rm "$SPOOL/replies/0"; ln -s /dev/zero "$SPOOL/replies/0"; timeout -s9 2 uip x', "no answer|places where"),
        ('rm -r "$SPOOL/replies"; timeout 2 uip x', "folder of the recorder's answers is gone"),
        ('mv "$SPOOL/replies" k; mkdir "$SPOOL/replies"; timeout 2 uip x', "answers was moved, replaced or changed"),
        ('mv "$SPOOL/replies" k; mv k "$SPOOL/replies"; timeout 2 uip x', "spool was moved, replaced or changed"),
        ('chmod 0 "$SPOOL/replies"; timeout 2 uip x', "answers was moved, replaced or changed"),
        ('echo garbage >"$SPOOL/replies/0"; timeout 2 uip x', "a call of uip got no answer"),
        ('uip 0; printf "%s\\n" "$$.0?0" >>"$SPOOL/index"; exec uip 1', "second answer|no shim|no answer can"),
        ('yes "4.0?" | head -c 1000000 >>"$SPOOL/index"', "flooded"),
    ],
    ids=range(22),
)  # fmt: skip
def test_tampering_with_answers_is_noticed(shadow: Shadow, tmp_path: Path, script: str, words: str) -> None:
    (tmp_path / "record").write_bytes(record("forged"))
    tools = shadow(ASKS, answer=repeat)
    variables = {"SPOOL": str(tools.spool), "RECORD": str(tmp_path / "record")}
    tools.call("uip", "before")
    until(lambda: is_quiet(tools))
    tools.call("/bin/sh", "-c", script, env=variables, cwd=tmp_path, timeout=60)
    log = tools.drain()
    tools.recorder.close()
    assert not words or any(part in fault for part in words.split("|") for fault in log.faults), log.faults
    assert [call.argv for call in log.invocations][:1] == [("before",)]


def test_no_line_of_the_index_stops_the_recorder(shadow: Shadow) -> None:
    draw = random.Random(7)
    names = ("4.0", "5.1", "99999999999.0", "1.23", "é", "", "!", "!?uip", "..", "0")
    ends = ("", "?", "?0", "?1", "?99", "?0:1", "?0:", "<", "=0", "=256", "=999", "<<", "?-1", "= 1", "\0", ":")
    tools = shadow(ASKS, answer=repeat)
    (tools.calls / "4.0").write_bytes(record("forged"))
    with (tools.spool / "index").open("ab", buffering=0) as index:
        for _ in range(400):
            index.write(f"{draw.choice(names)}{draw.choice(ends)}\n".encode())
    until(lambda: tools.call("uip", "still answered", timeout=60).stdout == b"still answered\n")
    assert cause_of(tools.drain().faults) is Cause.TAMPERED
    assert not any("recorder failed" in fault for fault in tools.drain().faults)


def test_a_call_cannot_be_given_another_end(shadow: Shadow) -> None:
    tools = shadow(ASKS, Tool("curl", 7), answer=always(Printed("rule 1", exit_status=5, delay=0.5)))
    with subprocess.Popen(["uip"], env=tools.environment()) as process:
        until(lambda: bool(tools.answerer.requests))
        with (tools.spool / "index").open("ab") as index:
            index.write(b"%d.0=0\n" % process.pid)
        assert process.wait(timeout=60) == 5
    faults = tools.drain().faults
    assert "tampered: a call ended with another status than its shim was told to give" in faults
    assert cause_of(faults) is Cause.TAMPERED


def test_places_that_the_agent_claims_are_only_its_own_loss(shadow: Shadow) -> None:
    tools = shadow(ASKS, answer=repeat)
    script = 'for i in 0 1 2 3 4 5; do : >"$SPOOL/replies/$i.claim"; done; mkdir "$SPOOL/replies/6.claim"; uip x'
    assert tools.call("/bin/sh", "-c", script, env={"SPOOL": str(tools.spool)}).returncode == 1
    assert tools.argvs() == [("x",)]


def test_a_claim_that_was_removed(shadow: Shadow) -> None:
    """Two shims at one place get no answer, and it shows."""
    tools = shadow(ASKS, answer=lambda request: Printed("rule 1", delay=3600.0 if request.argv else 0.0))
    claimed = 'until [ -e "$SPOOL/replies/0.claim" ]; do sleep 0.01; done; sleep 0.1'
    script = f'uip 1 & {claimed}; rm "$SPOOL/replies/"*.claim; uip 2; wait'
    result = tools.call("/bin/sh", "-c", script, env={"SPOOL": str(tools.spool)}, timeout=60)
    assert result.stderr == b"uip: this call was recorded, but it got no answer\n" * 2
    assert tools.call("uip").returncode == 0
    assert tools.drain().faults[0] == "tampered: a shim waits where no answer can reach it"


def test_reading_what_is_meant_for_a_shim_hurts_only_that_shim(shadow: Shadow) -> None:
    tools = shadow(ASKS, answer=repeat)
    thief = subprocess.Popen(["cat", tools.replies / "0"], stdout=subprocess.DEVNULL)
    tools.shell("timeout 2 uip stolen")
    assert tools.call("uip", "next").stdout == b"next\n"
    thief.kill()
    thief.wait()
    assert tools.argvs() == [("stolen",), ("next",)]
