"""Checks of running programs: arguments, environment, streams, exit statuses, deadlines."""

from __future__ import annotations

import os
import time
from collections.abc import Generator

from ..protocol import Phase, ProcessResult, Sandbox
from .registration import Make, check, equal
from .watching import PATIENCE, all_there, await_beats, beat, escapes, living, sh, told

ODD_TEXTS = (
    "",
    " ",
    "a b",
    "x\ny",
    "'",
    '"',
    "`$(echo)$HOME\\",
    "-n",
    "--",
    "é😀",
    "\x1b[31m",
    os.fsdecode(b"\xff\xfe"),
)
LONG = "z" * 100_000

DEADLINES = (0.5, 3, 15)
"""Seconds; the next is for machines where not even the processes had begun."""


@check(sharing=True)
def check_arguments_arrive_as_they_are(make: Make) -> None:
    """Whatever they contain, without a shell in between."""
    given = [*ODD_TEXTS, LONG]
    result = make().run(["printf", "%s\\0", *given], phase=Phase.AGENT, timeout=PATIENCE)
    found = [os.fsdecode(each) for each in result.stdout.split(b"\0")[:-1]]
    assert len(found) == len(given), f"{len(given)} arguments were given, {len(found)} arrived: {result}"
    for each, expected in zip(found, given, strict=True):
        equal(each, expected, "an argument")


@check(sharing=True)
def check_the_environment_is_exact(make: Make) -> None:
    """A program gets the variables of its phase with `env` laid over them, and no other."""
    sandbox = make()
    extra = {f"ODD_{number}": text for number, text in enumerate(ODD_TEXTS)} | {"LONG": LONG, "lower.case": "="}
    result = sandbox.run(["cat", "/proc/self/environ"], phase=Phase.AGENT, timeout=PATIENCE, env=extra)
    pairs = [os.fsdecode(each).partition("=") for each in result.stdout.split(b"\0")[:-1]]
    found = {name: value for name, _, value in pairs}
    assert len(found) == len(pairs), f"variables that are there twice: {sorted(name for name, _, _ in pairs)}"
    expected = {**sandbox.environment(Phase.AGENT), **extra}
    equal(sorted(found), sorted(expected), "names of variables")
    for name, value in expected.items():
        equal(found[name], value, f"the variable {name}")


@check(sharing=True)
def check_programs_start_in_the_workspace(make: Make) -> None:
    """By its real path."""
    sandbox = make()
    equal(told(sandbox, "pwd -P"), f"{sandbox.workspace}\n", "the working directory")
    equal(sandbox.workspace, sandbox.workspace.resolve(), "the path of the workspace")
    assert " " not in str(sandbox.workspace), f"a space in {sandbox.workspace}"


@check(sharing=True)
def check_programs_inherit_nothing(make: Make) -> None:
    """No descriptors beside the standard ones, no terminal, no signals that are ignored."""
    sandbox = make()
    equal(told(sandbox, "ls /proc/self/fd").split(), ["0", "1", "2", "3"], "open descriptors (3 is that of ls itself)")
    equal(told(sandbox, "(: </dev/tty) 2>/dev/null || echo none"), "none\n", "the terminal")
    ignored = told(sandbox, "grep SigIgn /proc/self/status").split()[1]
    equal(int(ignored, 16) & 0x7FFFFFFF, 0, "ignored signals, as a mask")


@check(sharing=True)
def check_standard_input_is_given_and_ends(make: Make) -> None:
    """Without any it is empty; a program that does not read it is not held up."""
    sandbox = make()
    given = b"a\0\xff\n" * 150_000
    result = sandbox.run(["cat"], phase=Phase.AGENT, timeout=PATIENCE, stdin=given)
    assert result.stdout == given, f"{len(given)} bytes were given, {len(result.stdout)} came back, or others"
    empty = sandbox.run(["cat"], phase=Phase.AGENT, timeout=PATIENCE)
    equal((empty.stdout, empty.timed_out), (b"", False), "cat without input")
    unread = sandbox.run(["true"], phase=Phase.AGENT, timeout=PATIENCE, stdin=given)
    equal((unread.exit_status, unread.timed_out), (0, False), "a program that does not read its input")


@check(sharing=True)
def check_output_is_exact(make: Make) -> None:
    """Both streams apart, byte by byte, also what is written just before the end."""
    sandbox = make()
    result = sh(sandbox, r"printf 'a\377\r\n'; printf 'b\000' >&2")
    equal((result.stdout, result.stderr, result.truncated), (b"a\xff\r\n", b"b\0", False), "output, errors, truncated")
    for _ in range(3):
        large = sh(sandbox, "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2")
        equal((len(large.stdout), len(large.stderr)), (300_000, 300_000), "bytes of output and errors")


@check(sharing=True)
def check_output_is_bounded(make: Make) -> None:
    """At most `output_limit` bytes of each stream are kept, the first ones, and `truncated` tells of more."""
    sandbox = make()

    def flood(size: int) -> ProcessResult:
        script = f"printf first; head -c {size - 5} /dev/zero; printf first >&2; head -c {size - 5} /dev/zero >&2"
        return sandbox.run(["sh", "-c", script], phase=Phase.AGENT, timeout=PATIENCE, output_limit=1000)

    for size, truncated in ((1000, False), (1001, True), (20_000_000, True)):
        result = flood(size)
        equal((len(result.stdout), len(result.stderr)), (1000, 1000), f"bytes kept of {size} with a limit of 1000")
        equal((result.stdout[:5], result.truncated), (b"first", truncated), f"start of {size} bytes, truncated")


@check(sharing=True)
def check_exit_statuses_are_those_of_a_shell(make: Make) -> None:
    """0 to 255, 126 for what cannot be run, 127 for what is not there, 128 + n for signal n."""
    sandbox = make()
    for status in (0, 1, 126, 127, 128, 255):
        equal(sh(sandbox, f"exit {status}").exit_status, status, f"the status of `exit {status}`")
    for name, number in (("KILL", 9), ("TERM", 15), ("SEGV", 11), ("PIPE", 13)):
        result = sh(sandbox, f"kill -{name} $$")
        equal((result.exit_status, result.timed_out), (128 + number, False), f"the status after SIG{name}")
    sandbox.write_file("plain-text", b"x\n")
    for program, status in (("no-such-program", 127), ("./no-such-file", 127), ("./plain-text", 126)):
        result = sandbox.run([program], phase=Phase.AGENT, timeout=PATIENCE)
        equal(result.exit_status, status, f"the status of {program}")
    assert result.stderr, "nothing says why a program could not be run"


@check(sharing=True)
def check_background_processes_delay_nothing(make: Make) -> None:
    """A command has ended when its own process has, whoever holds its output open."""
    sandbox = make()
    begin = time.monotonic()
    result = sh(sandbox, "sleep 60 & echo done")
    equal((result.stdout, result.timed_out), (b"done\n", False), "output, timed out")
    assert time.monotonic() - begin < PATIENCE, "a sleeping background process held the command up"
    assert result.duration < PATIENCE, f"a duration of {result.duration} s"


@check(sharing=True)
def check_a_deadline_kills_the_whole_tree(make: Make) -> None:
    """What was put out until then is kept; no way of a process to detach itself saves it."""
    sandbox = make()
    for seconds in DEADLINES:
        names, script = escapes(f"deadline-{seconds}")
        main = f"main-{seconds}"
        script = f"echo first\n{script}\n{all_there(names)}\necho all >&2\n{beat(main)}"
        result = sh(sandbox, script, timeout=seconds)
        found = (result.exit_status, result.timed_out, result.stdout)
        equal(living(sandbox, [*names, main]), [], "processes that outlived the deadline of their command")
        if result.stderr:
            break
    equal(found, (137, True, b"first\n"), "status, timed out, output")
    equal(result.stderr, b"all\n", f"whether all processes had begun in {seconds} s")
    equal(told(sandbox, "echo next"), "next\n", "the next command")


def _drain(stream: Generator[bytes, None, ProcessResult]) -> tuple[bytes, ProcessResult]:
    pieces = []
    while True:
        try:
            pieces.append(next(stream))
        except StopIteration as end:
            return b"".join(pieces), end.value


def _stream(
    sandbox: Sandbox, script: str, wake: int | None = None, private: bool = False
) -> Generator[bytes, None, ProcessResult]:
    argv = ["/bin/sh", "-c", script]
    return sandbox.stream(argv, phase=Phase.AGENT, timeout=PATIENCE, wake=wake, private_output=private)


@check(sharing=True)
def check_output_streams_as_it_comes(make: Make) -> None:
    """The first piece is there while the program waits for what its reader does next."""
    sandbox = make()
    stream = _stream(sandbox, "echo one; while [ ! -e go ]; do :; done; echo two; echo oops >&2; exit 3")
    first = b""
    while not first.endswith(b"\n"):
        first += next(stream)
    equal(first, b"one\n", "the first piece")
    sandbox.write_file("go", b"")
    rest, result = _drain(stream)
    equal(rest, b"two\n", "the rest")
    equal((result.exit_status, result.stdout, result.stderr), (3, b"", b"oops\n"), "status, output, errors")


@check(sharing=True)
def check_a_stream_loses_nothing(make: Make) -> None:
    """Standard output is whole, however much it is and whatever the limit of what is kept."""
    argv = ["sh", "-c", "head -c 20000000 /dev/zero; printf end"]
    found, result = _drain(make().stream(argv, phase=Phase.AGENT, timeout=PATIENCE, output_limit=1000))
    equal((len(found), found[-3:], result.exit_status), (20_000_003, b"end", 0), "bytes, the last three, status")


@check(sharing=True)
def check_a_descriptor_wakes_the_reader_of_a_stream(make: Make) -> None:
    """By an empty piece each time that it is readable, while the program says nothing."""
    sandbox = make()
    reader, writer = os.pipe()
    try:
        stream = _stream(sandbox, "while [ ! -e woken ]; do :; done; echo end", wake=reader)
        os.write(writer, b"x")
        equal(next(stream), b"", "the piece that a readable descriptor brings")
        os.read(reader, 1)
        sandbox.write_file("woken", b"")
        found, result = _drain(stream)
        equal((found.strip(), result.exit_status), (b"end", 0), "output, status")
    finally:
        os.close(reader)
        os.close(writer)


@check(sharing=True)
def check_closing_a_stream_kills_the_whole_tree(make: Make) -> None:
    """As a deadline does."""
    sandbox = make()
    names, script = escapes("closing")
    stream = _stream(sandbox, f"{script}\n{all_there(names)}\necho all\n{beat('closing')}")
    while next(stream) == b"":
        pass
    stream.close()
    equal(living(sandbox, [*names, "closing"]), [], "processes that outlived the closing of their stream")


@check(sharing=True)
def check_private_output_cannot_be_opened_by_a_path(make: Make) -> None:
    """Neither by the program itself nor by what it starts."""
    forge = "for p in /dev/stdout /dev/fd/1 /proc/self/fd/1 /proc/$$/fd/1 /proc/$PPID/fd/1; do (echo forged >$p); done"
    found, result = _drain(_stream(make(), f"{{ {forge}; sh -c '{forge}'; }} 2>/dev/null; echo true", private=True))
    equal((found, result.exit_status), (b"true\n", 0), "output, status")


@check()
def check_what_the_agent_leaves_lives_until_it_is_reaped(make: Make) -> None:
    """From one command to the next; after `reap` nothing lives, however it detached itself."""
    sandbox = make()
    names, script = escapes("left")
    told(sandbox, script)
    await_beats(sandbox, names)
    told(sandbox, "true")
    equal(sorted(living(sandbox, names)), sorted(names), "background processes that live after the next command")
    sandbox.reap()
    equal(living(sandbox, names), [], "processes that outlived reap()")
    equal(told(sandbox, "echo again"), "again\n", "a command after reap()")


@check()
def check_what_preparation_and_grading_leave_dies_at_once(make: Make) -> None:
    """When the command's own process has ended, before its result is there."""
    sandbox = make()
    for phase in (Phase.PREPARE, Phase.GRADE, Phase.RUN):
        if phase is Phase.GRADE:
            sandbox.begin_grading()
        names, script = escapes(str(phase))
        told(sandbox, f"{script}\n{all_there(names)}", phase)
        equal(living(sandbox, names), [], f"processes that outlived their command in {phase}")
