"""Whatever an agent starts is dead after its trial, on every path, and the records are written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Repo

pytestmark = pytest.mark.usefixtures("without_landlock")

DEADLINE = 60.0

DAEMONS = """
nohup sleep {mark} >/dev/null 2>&1 &
setsid sleep {mark} >/dev/null 2>&1 &
(setsid sh -c 'trap "" TERM HUP INT; sleep {mark} & sleep {mark}' >/dev/null 2>&1 &)
(setsid env -i sh -c 'while :; do echo x >> {workspace}/written.txt; sleep 0.01; done' >/dev/null 2>&1 &)
while [ ! -s written.txt ]; do sleep 0.01; done
echo started > {started}
"""


def _until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"waited {DEADLINE} s for {what}"
        time.sleep(0.02)


def _alive(mark: str) -> list[int]:
    """The processes whose command line holds `mark`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
                zombie = ") Z" in (entry / "stat").read_text()
            except OSError:
                continue
            if mark.encode() in command and b"pytest" not in command and not zombie:
                found.append(int(entry.name))
    return found


@pytest.fixture
def mark() -> str:
    """A number of seconds that no other process sleeps."""
    return f"{7000 + os.getpid() % 1000}.{time.time_ns() % 10**9:09d}"


def _daemons(repo: Repo, mark: str) -> str:
    return DAEMONS.format(mark=mark, started=repo.path / "started", workspace="$PWD")


def _start(repo: Repo, *args: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--codereval-run-dir=run", *args],
        cwd=repo.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def test_nothing_lives_after_a_trial_and_the_workspace_stands_still(repo: Repo, mark: str) -> None:
    still = "cp written.txt before; sleep 0.3; cmp before written.txt"
    repo.script(
        "daemons",
        {"bash": _daemons(repo, mark)},
        success_criteria=[{"type": "run_command", "description": "stands still", "command": still}],
    )
    repo.run().assert_outcomes(passed=1)
    assert _alive(mark) == []


def test_nothing_lives_after_a_timeout(repo: Repo, mark: str) -> None:
    repo.script("slow", {"bash": _daemons(repo, mark)}, {"sleep": 60}, run_limits={"turn_timeout": 10})
    result = repo.run()
    result.assert_outcomes(errors=1)
    assert repo.record("slow")["cause"] == "turn_timeout"
    assert _alive(mark) == []


def test_nothing_lives_after_a_crash(repo: Repo, mark: str) -> None:
    repo.script("crash", {"bash": _daemons(repo, mark)}, {"crash": "gone"})
    repo.run().assert_outcomes(errors=1)
    assert _alive(mark) == []


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_agents_and_writes_records(
    repo: Repo, mark: str, workers: str, number: signal.Signals
) -> None:
    cleaned = repo.path / "cleaned"
    steps = [{"bash": _daemons(repo, mark)}, {"bash": f"echo > {repo.path}/second; sleep 100"}]
    repo.script("long", *steps, post_run=[{"command": f"echo cleaned > {cleaned}"}])
    process = _start(repo, workers)
    _until((repo.path / "second").exists, "the agent's second step")
    process.send_signal(number)
    assert process.wait(DEADLINE) == pytest.ExitCode.INTERRUPTED
    assert _alive(mark) == []
    record = repo.record("long")
    assert (record["status"], record["cause"]) == ("error", "interrupted")
    calls = [event for event in record["trajectory"]["events"] if event["kind"] == "ToolCall"]
    assert [(call["status"], call["ended"] is None) for call in calls] == [("success", False), ("unknown", True)]
    assert [result["verdict"] for result in record["criteria"]] == ["not_evaluated"]
    assert cleaned.exists()
    assert json.loads((repo.path / "run" / "run.json").read_text())["exit_status"] == 2


def test_ctrl_c_for_the_whole_group(repo: Repo, mark: str) -> None:
    repo.script("long", {"bash": _daemons(repo, mark)}, {"sleep": 300})
    process = _start(repo, "-n2")
    _until((repo.path / "started").exists, "the agent")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(DEADLINE) == pytest.ExitCode.INTERRUPTED
    assert _alive(mark) == []
    assert repo.record("long")["cause"] == "interrupted"


def test_what_the_seal_finds_does_not_hide_an_interrupt(repo: Repo) -> None:
    tool = {"tool": "uip", "responses": [{"when": {"verb": "known"}}], "unmatched": "error"}
    steps = {"bash": f"uip unknown; echo > {repo.path}/called; sleep 100"}
    repo.script("a-long", steps, sandbox={"record_cli": [tool]})
    repo.task("b-next")
    process = _start(repo, "-n0", "tasks")
    _until((repo.path / "called").exists, "the call")
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == pytest.ExitCode.INTERRUPTED
    assert repo.record("a-long")["cause"] == "interrupted"
    assert not (repo.path / "run" / "trials" / "b-next").exists()


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_kill_9_of_pytest_leaves_no_agent_behind(repo: Repo, mark: str, workers: str) -> None:
    repo.script("long", {"bash": _daemons(repo, mark)}, {"sleep": 300})
    process = _start(repo, workers)
    _until((repo.path / "started").exists, "the agent")
    process.kill()
    process.wait(DEADLINE)
    _until(lambda: not _alive(mark), "the supervisor to end the agent's processes")
    (repo.path / "tasks" / "long.yaml").unlink()
    repo.task("next")
    repo.run().assert_outcomes(passed=1)
    (left,) = (repo.path / "run" / "earlier").glob("*/trials/long/trial/record.json")
    assert json.loads(left.read_text())["cause"] == "interrupted"


def test_an_interrupt_within_the_seal_is_sealed_again(repo: Repo, mark: str) -> None:
    repo.script("long", {"bash": _daemons(repo, mark)}, post_run=[{"command": "sleep 0.2; cp written.txt again.txt"}])
    repo.file(
        "conftest.py",
        """
        from pytest_codereval.sandbox.directory import DirectorySandbox

        reap = DirectorySandbox.reap

        def interrupted(self):
            DirectorySandbox.reap = reap
            raise KeyboardInterrupt

        DirectorySandbox.reap = interrupted
        """,
    )
    assert repo.run().ret == pytest.ExitCode.INTERRUPTED
    assert _alive(mark) == []
    record = repo.record("long")
    assert (record["status"], record["cause"]) == ("error", "interrupted")
    assert record["workspace"]["files"]


def test_an_interrupt_while_cleaning_up_keeps_the_verdict(repo: Repo) -> None:
    hook = f"echo started > {repo.path}/started; sleep 60"
    repo.task("slow", post_run=[{"command": hook, "timeout": 100}])
    process = _start(repo)
    _until((repo.path / "started").exists, "post_run")
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE) == pytest.ExitCode.INTERRUPTED
    record = repo.record("slow")
    assert (record["status"], record["criteria"][0]["verdict"]) == ("passed", "pass")
