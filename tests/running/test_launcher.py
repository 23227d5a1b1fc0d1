"""Graders have the agent's own program run by `codereval-run`, where nothing of the grading material is in sight."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import JudgingError
from pytest_codereval.running import launcher
from pytest_codereval.sandbox.protocol import Phase, ProcessResult, Sandbox
from tests.sandbox import isolated

Graded = Callable[..., "Grading"]


class Grading:
    """A sandbox in which grading has begun, with material that only graders see."""

    def __init__(self, sandbox: Sandbox, task: Path, reference: Path) -> None:
        self.sandbox = sandbox
        self.task = task
        self.environment = {"TASK_DIR": str(task), "REFERENCE_DIR": str(reference)}

    def run(self, command: str, timeout: float = 30, **env: str) -> ProcessResult:
        return launcher.grade(self.sandbox, command, timeout=timeout, env={**self.environment, **env})

    def out(self, command: str, **options: Any) -> str:
        result = self.run(command, **options)
        assert not result.timed_out
        return result.stdout_text + result.stderr_text


def make(driver: str, folder: Path, **programs: str) -> Grading:
    task = folder / "task"
    task.mkdir(exist_ok=True)
    (task / "cases").write_text("expected: 42\n")
    folder.chmod(0o755)
    sandbox = isolated.create(driver, withhold=(task,))
    try:
        for name, text in programs.items():
            sandbox.write_file(f"{name}.sh", f"#!/bin/sh\n{text}\n".encode(), executable=True)
        sandbox.run(["true"], phase=Phase.AGENT, timeout=60)
        sandbox.reap()
        sandbox.begin_grading()
        reference = sandbox.root / "reference-0"
        reference.mkdir(mode=0o755)
        (reference / "answer").write_text("the answer\n")
        (reference / "answer").chmod(0o644)
        sandbox.show(reference)
    except BaseException:
        sandbox.close()
        raise
    return Grading(sandbox, task, reference)


@pytest.fixture
def graded(tmp_path: Path) -> Iterator[Graded]:
    """Make a Grading under the driver `tempdir` of programs by name."""
    made: list[Grading] = []

    def one(**programs: str) -> Grading:
        made.append(make("tempdir", tmp_path, **programs))
        return made[-1]

    yield one
    for each in made:
        each.sandbox.close()


SOLUTION = 'read number; echo $((number * 2)); echo "seen $number" >&2; exit 3'
THIEF = """
echo ${REFERENCE_DIR-unset} ${TASK_DIR-unset} $CODEREVAL_PHASE
for p in /proc/[0-9]*; do cat $p/environ 2>/dev/null; done | tr '\\0' '\\n' | grep -a REFERENCE_DIR=
cat "$1"/* ../reference-*/* "$2"/cases
true
"""


@pytest.fixture(scope="module", params=["tempdir", *isolated.ISOLATING])
def anywhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grading]:
    """A Grading under each driver that can be had here."""
    made = make(request.param, tmp_path_factory.mktemp("graded"), solution=SOLUTION, thief=THIEF)
    yield made
    made.sandbox.close()


def test_a_case_is_piped_into_the_agents_program(anywhere: Grading) -> None:
    command = "echo 21 | codereval-run ./solution.sh a 'b c'; echo $?; cat $TASK_DIR/cases $REFERENCE_DIR/answer"
    result = anywhere.run(command)
    assert (result.stdout, result.stderr) == (b"42\n3\nexpected: 42\nthe answer\n", b"seen 21\n")


def test_the_agents_program_sees_nothing_of_the_material(anywhere: Grading) -> None:
    told = anywhere.out('codereval-run ./thief.sh "$REFERENCE_DIR" "$TASK_DIR" 2>&1')
    assert told.startswith("unset unset run\n")
    if anywhere.sandbox.driver == "tempdir" and "the answer" in told:
        pytest.skip("tempdir hides nothing on this kernel")
    assert "the answer" not in told
    assert "expected" not in told
    assert "REFERENCE_DIR=" not in told


def test_the_directory_arguments_and_bytes_get_through(graded: Graded) -> None:
    grading = graded(args='printf "%s|" "$PWD" "$@"; cat')
    script = r"""
        mkdir -p "sub dir"; cd "sub dir"; printf 'a\000\377b' | codereval-run ../args.sh "x y" '*' '' '$HOME' | od -c
        cd /; codereval-run pwd
    """
    told = grading.out(script)
    assert told.endswith(f"{grading.sandbox.workspace}\n")
    joined = "".join(word for line in told.splitlines()[:-2] for word in line.split()[1:])
    assert joined.endswith("/subdir|xy|*||$HOME|a\\0377b")


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("codereval-run sh -c 'kill -9 $$'", 137, ""),
        ("codereval-run sh -c 'exit 255'", 255, ""),
        ("codereval-run ./nosuch", 127, "not found"),
        ("codereval-run ./plain.sh/", 126, ""),
        ("codereval-run", 125, "usage:"),
        ("codereval-run --help", 125, "usage:"),
        ("codereval-run yes", 125, "printed more than"),
        ("codereval-run ./plain.sh >/dev/full", 0, ""),
    ],
)
def test_the_exit_status_is_the_programs_or_says_what_went_wrong(
    graded: Graded, monkeypatch: pytest.MonkeyPatch, command: str, status: int, said: str
) -> None:
    monkeypatch.setattr(launcher, "OUTPUT_LIMIT", 100_000)
    grading = graded(plain="echo x")
    result = grading.run(f"{command}; echo $? >&2")
    expected = {126: (126, 127)}.get(status, (status,))
    assert int(result.stderr_text.split()[-1]) in expected
    assert said in result.stderr_text


def test_the_program_is_killed_with_its_grader(graded: Graded) -> None:
    grading = graded(slow="sleep 60 & echo $$ >pid; wait")
    result = grading.run("codereval-run ./slow.sh", timeout=3)
    assert result.timed_out
    assert not Path(f"/proc/{(grading.sandbox.workspace / 'pid').read_text().strip()}").exists()
    assert grading.out("codereval-run echo next") == "next\n"


def test_a_program_whose_caller_was_killed_ends_at_once(graded: Graded) -> None:
    grading = graded()
    script = (
        "timeout 0.5 codereval-run sleep 500; echo $?; "
        "timeout -s KILL 0.5 codereval-run sleep 500; codereval-run echo x"
    )
    assert "124\n" in grading.out(script)
    assert grading.out("(codereval-run sleep 500 &); echo done") == "done\n"


def test_calls_in_pipes_and_in_parallel(graded: Graded) -> None:
    grading = graded(double='while read -r n; do echo "$((n * 2))"; done')
    assert grading.out("seq 3 | codereval-run ./double.sh | codereval-run ./double.sh") == "4\n8\n12\n"
    parallel = "for i in 1 2 3 4 5 6; do (echo $i | codereval-run ./double.sh) & done | sort -n; wait"
    assert grading.out(parallel).split() == ["2", "4", "6", "8", "10", "12"]


def test_what_the_program_writes_is_there_for_the_grader_and_nothing_of_it_lives(graded: Graded) -> None:
    grading = graded(writes="echo made >made; echo home >~/x; echo tmp >$TMPDIR/x; (sleep 60; echo late >late) &")
    told = grading.out("codereval-run ./writes.sh; cat made; ls -A ~/x $TMPDIR/x 2>&1 | grep -c cannot")
    assert told == "made\n2\n"
    assert grading.out("codereval-run sh -c 'cat ~/x'") == "home\n"


def test_the_channel_is_new_for_each_command_and_gone_after_it(graded: Graded) -> None:
    """The agent is dead before it is made, and what one command leaves there the next does not find."""
    grading = graded()
    folder = grading.sandbox.launcher_dir
    assert not any((folder / name).exists() and list((folder / name).iterdir()) for name in ("bin", "spool"))
    assert "codereval-run" in grading.out("command -v codereval-run")
    assert list((folder / "bin").iterdir()) == list((folder / "spool").iterdir()) == []
    result = grading.sandbox.run(["sh", "-c", "codereval-run true"], phase=Phase.GRADE, timeout=60)
    assert result.exit_status == 127
    assert grading.sandbox.run(["codereval-run", "true"], phase=Phase.RUN, timeout=60).exit_status == 127


def test_a_disturbed_channel_is_an_error(graded: Graded) -> None:
    grading = graded()
    spool = grading.sandbox.launcher_dir / "spool"
    with pytest.raises(JudgingError, match=r"codereval-run was disturbed: .*lines that no shim wrote"):
        grading.run(f"echo garbage >>{spool}/index; true")
    assert grading.out("codereval-run echo fine") == "fine\n"


def test_the_shims_of_the_agent_are_there_only_on_request(graded: Graded) -> None:
    grading = graded()
    tool = grading.sandbox.bin_dir / "codereval-run"
    tool.write_text("#!/bin/sh\necho trojan\n")
    tool.chmod(0o755)
    shims = grading.sandbox.env_with_shims()
    assert grading.out("codereval-run echo x", **shims) == "x\n"


def test_an_unread_standard_input_stops_nothing(graded: Graded) -> None:
    grading = graded()
    assert grading.out("head -c 3000000 /dev/zero | codereval-run true; echo $?") == "0\n"
    assert grading.out("codereval-run wc -c </dev/null; codereval-run wc -c <&-") == "0\n0\n"


@pytest.mark.skipif(not os.access("/bin/bash", os.X_OK), reason="no bash here")
def test_a_loop_of_cases_in_bash(graded: Graded) -> None:
    grading = graded(double='read -r n; echo "$((n * 2))"')
    loop = 'for n in 1 2 3; do [[ $(codereval-run ./double.sh <<<"$n") == $((n * 2)) ]] || exit 1; done; echo all'
    assert grading.out(f"exec bash -c '{loop}'") == "all\n"
