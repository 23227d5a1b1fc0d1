"""What running a command gives: status, bounded output, deadlines."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.protocol import Phase, ProcessResult

from .processes import alive, new_tag, wait_until


def sh(sandbox: DirectorySandbox, script: str, timeout: float = 20, limit: int = 1_000_000) -> ProcessResult:
    return grade(sandbox, ["sh", "-c", script], timeout=timeout, output_limit=limit)


def grade(sandbox: DirectorySandbox, argv: list[str], *, timeout: float = 9, **more: Any) -> ProcessResult:
    sandbox.begin_grading()
    return sandbox.run(argv, phase=Phase.GRADE, timeout=timeout, **more)


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("kill -PIPE $$", 141),
    ],
)
def test_exit_statuses_are_those_of_a_shell(sandbox: DirectorySandbox, script: str, status: int) -> None:
    result = sh(sandbox, script)
    assert (result.exit_status, result.timed_out) == (status, False)


def test_both_streams_are_kept_apart_and_exact(sandbox: DirectorySandbox) -> None:
    result = sh(sandbox, r"printf 'a\377\n'; printf 'b\0' >&2")
    assert (result.stdout, result.stderr, result.truncated) == (b"a\xff\n", b"b\0", False)


def test_arguments_are_exact(sandbox: DirectorySandbox) -> None:
    odd = ["", "a b", "x\ny", "'\"`$(echo)", "-n", os.fsdecode(b"\xff\xfe"), "é😀", "z" * 100_000]
    result = sandbox.run(["printf", "%s\\0", *odd], phase=Phase.AGENT, timeout=60)
    assert result.stdout == b"".join(os.fsencode(each) + b"\0" for each in odd)


def test_a_program_that_is_not_there_and_one_that_cannot_be_run(sandbox: DirectorySandbox) -> None:
    (sandbox.workspace / "text").write_text("x")
    missing = grade(sandbox, ["no-such-program"])
    assert (missing.exit_status, missing.stderr) == (127, b"no-such-program: not found\n")
    assert grade(sandbox, ["./nothing"]).exit_status == 127
    refused = grade(sandbox, ["./text"])
    assert (refused.exit_status, refused.stderr) == (126, b"./text: Permission denied\n")
    assert grade(sandbox, ["echo", "a\0b"]).exit_status == 126
    assert grade(sandbox, ["echo", "x" * 3_000_000]).exit_status == 126


def test_a_script_without_an_interpreter_line_is_run_by_sh(sandbox: DirectorySandbox) -> None:
    script = sandbox.workspace / "tool"
    script.write_text('echo "ran $1"')
    script.chmod(0o755)
    assert grade(sandbox, ["./tool", "it"]).stdout == b"ran it\n"


def test_standard_input_is_empty(sandbox: DirectorySandbox) -> None:
    result = sh(sandbox, "cat; read x || echo none")
    assert (result.stdout, result.exit_status) == (b"none\n", 0)


@pytest.mark.parametrize(
    "flood", ["yes | head -c 300000000", "head -c 1000000000 /dev/zero", "yes | head -c 300000000 >&2"]
)
def test_a_flood_of_output_is_cut_and_takes_no_memory(sandbox: DirectorySandbox, flood: str) -> None:
    sh(sandbox, "true")
    before = peak_memory()
    result = sh(sandbox, flood, timeout=60, limit=50_000)
    assert (result.truncated, result.timed_out) == (True, False)
    assert max(len(result.stdout), len(result.stderr)) == 50_000
    assert peak_memory() - before < 30_000


def test_a_deadline_kills_and_keeps_the_output_so_far(sandbox: DirectorySandbox) -> None:
    result = sh(sandbox, "echo first; sleep 600; echo never", timeout=3)
    assert (result.exit_status, result.timed_out, result.stdout) == (137, True, b"first\n")


def test_a_daemon_that_holds_the_output_delays_nothing(sandbox: DirectorySandbox) -> None:
    tag = new_tag()
    for phase in (Phase.AGENT, Phase.GRADE):
        if phase is Phase.GRADE:
            sandbox.begin_grading()
        result = sandbox.run(["sh", "-c", f"sleep {tag} & echo done"], phase=phase, timeout=60)
        assert (result.stdout, result.timed_out) == (b"done\n", False)
    assert alive(tag) == []


def test_a_background_flood_does_not_hold_up_the_end(sandbox: DirectorySandbox) -> None:
    result = sandbox.run(["sh", "-c", "yes & echo done >&2"], phase=Phase.AGENT, timeout=60)
    assert (result.stderr, result.timed_out) == (b"done\n", False)


def test_a_background_process_may_go_on_writing_to_the_output_of_its_command(sandbox: DirectorySandbox) -> None:
    writer = (
        "(trap '' PIPE; i=0; p=$(printf %0200d 0)\n"
        "while echo $p >&2 && echo $p; do i=$((i+1)); echo $i >count; done; touch broken) &"
    )
    sandbox.run(["sh", "-c", writer], phase=Phase.AGENT, timeout=60)
    count = sandbox.workspace / "count"
    wait_until(lambda: count.exists() and int(count.read_text() or 0) > 2_000)
    sandbox.reap()
    assert not (sandbox.workspace / "broken").exists()


def test_output_written_just_before_the_end_is_whole(sandbox: DirectorySandbox) -> None:
    for _ in range(20):
        result = sh(sandbox, "head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2")
        assert (len(result.stdout), len(result.stderr)) == (60_000, 60_000)


def test_commands_get_no_descriptors_and_no_terminal_and_default_signals(sandbox: DirectorySandbox) -> None:
    assert sh(sandbox, "ls /proc/self/fd | wc -l").stdout.strip() == b"4"
    assert sh(sandbox, "(: </dev/tty) 2>/dev/null || echo none").stdout == b"none\n"
    ignored = sh(sandbox, "grep SigIgn /proc/self/status").stdout.split()[1]
    assert int(ignored, 16) & 0x7FFFFFFF == 0


def test_variables_are_laid_over_the_environment(sandbox: DirectorySandbox) -> None:
    result = grade(sandbox, ["sh", "-c", "echo $A $HOME"], env={"A": "x y"})
    assert result.stdout_text == f"x y {sandbox.environment(Phase.GRADE)['HOME']}\n"


@pytest.mark.usefixtures("without_landlock")
def test_a_removed_workspace_is_a_failing_command(sandbox: DirectorySandbox) -> None:
    sandbox.run(["sh", "-c", 'rm -rf "$PWD"'], phase=Phase.AGENT, timeout=60)
    assert sandbox.run(["true"], phase=Phase.AGENT, timeout=60).exit_status == 126
    assert sh(sandbox, "true").exit_status == 126


@pytest.mark.usefixtures("without_landlock")
def test_a_workspace_replaced_by_a_link_is_not_entered(sandbox: DirectorySandbox, tmp_path: Path) -> None:
    (tmp_path / "answer").write_text("secret")
    sandbox.run(["sh", "-c", f"cd .. && rmdir workspace && ln -s {tmp_path} workspace"], phase=Phase.AGENT, timeout=60)
    result = sh(sandbox, "cat answer")
    assert (result.exit_status, result.stdout) == (126, b"")
    assert not sandbox.files.exists("answer")


@pytest.mark.usefixtures("without_landlock")
def test_a_new_workspace_in_the_place_of_the_old_one_counts(sandbox: DirectorySandbox) -> None:
    script = "cd .. && rm -rf workspace && mkdir workspace && echo x >workspace/a"
    sandbox.run(["sh", "-c", script], phase=Phase.AGENT, timeout=60)
    assert sh(sandbox, "cat a").stdout == b"x\n"
    assert sandbox.files.read_text("a") == "x\n"
