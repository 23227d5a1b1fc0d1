"""The limits that a task asks for hold under the driver `tempdir` too, or the trial is an error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox import cgroups
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.protocol import Phase
from tests.sandbox.making import _plain_config, create
from tests.sandbox.processes import alive, new_tag

FORK_BOMB = "i=0; while [ $i -lt 200 ]; do sleep {tag} & i=$((i+1)); done"
MEMORY_BOMB = "b = bytearray(300 << 20)"


def make(**limits: Any) -> DirectorySandbox:
    config = _plain_config()
    vars(config.limits).update(limits)
    return create(config, environments=EnvironmentPlan())


@pytest.fixture
def limited() -> Iterator[DirectorySandbox]:
    limits = {"max_memory_mb": 96, "max_pids": 24, "max_cpus": 0.5}
    try:
        made = make(**limits)
    except TrialError as error:
        pytest.skip(f"no control groups can be made here: {error}")
    with contextlib.closing(made):
        yield made


def folders(sandbox: DirectorySandbox) -> tuple[Path, ...]:
    found: tuple[Path, ...] = sandbox.system._group.folders  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.AGENT, Phase.GRADE])
def test_bombs_are_bounded_in_each_phase(limited: DirectorySandbox, phase: Phase) -> None:
    tag = new_tag()
    if phase is Phase.GRADE:
        limited.begin_grading()
    forks = limited.run(["sh", "-c", FORK_BOMB.format(tag=tag)], phase=phase, timeout=60)
    assert forks.exit_status != 0
    assert b"fork" in forks.stderr
    limited.reap()
    assert alive(tag) == []
    assert limited.run([sys.executable, "-c", MEMORY_BOMB], phase=phase, timeout=60).exit_status == 137
    assert limited.run(["echo", "on"], phase=phase, timeout=60).stdout == b"on\n"


def test_what_is_left_in_the_background_counts_and_is_no_reason_for_a_verdict(limited: DirectorySandbox) -> None:
    tag = new_tag()
    fill = f"i=0; while [ $i -lt 20 ]; do setsid sleep {tag} >/dev/null 2>&1 & i=$((i+1)); done"
    assert limited.run(["sh", "-c", fill], phase=Phase.AGENT, timeout=60).exit_status == 0
    more = limited.run(["sh", "-c", FORK_BOMB.format(tag=tag)], phase=Phase.AGENT, timeout=60)
    assert b"fork" in more.stderr
    limited.begin_grading()
    assert alive(tag) == []
    assert limited.run(["echo", "graded"], phase=Phase.GRADE, timeout=60).stdout == b"graded\n"


def test_programs_that_cannot_be_run_give_the_same_statuses(limited: DirectorySandbox) -> None:
    (limited.workspace / "plain").write_text("echo by the shell\n")
    (limited.workspace / "plain").chmod(0o755)
    for argv, status in ((["no-such-program"], 127), (["/etc"], 126), (["./plain"], 0), (["a\0b"], 126)):
        assert limited.run(argv, phase=Phase.AGENT, timeout=60).exit_status == status, argv
    assert limited.run(["ls", "/proc/self/fd"], phase=Phase.AGENT, timeout=60).stdout.split() == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]


def test_limits_are_told_and_their_groups_removed(limited: DirectorySandbox) -> None:
    assert limited.described["limits"] == {"max_memory_mb": 96, "max_pids": 24, "max_cpus": 0.5}
    assert "memory and processors" not in limited.described["does_not_isolate"]  # type: ignore[operator]
    groups = folders(limited)
    assert groups
    limited.run(["true"], phase=Phase.AGENT, timeout=60)
    limited.close()
    assert not any(group.exists() for group in groups)


def test_a_group_that_somebody_removed_is_no_verdict(limited: DirectorySandbox) -> None:
    for group in folders(limited):
        group.rmdir()
    with pytest.raises(TrialError, match="a control group cannot be joined") as caught:
        limited.run(["true"], phase=Phase.AGENT, timeout=60)
    assert caught.value.cause is Cause.SANDBOX


@pytest.mark.parametrize("limits", [{"max_memory_mb": 64}, {"max_pids": 9}, {"max_cpus": 1}])
def test_a_limit_that_cannot_be_applied_is_an_error(limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_parents", lambda limit: iter(()))
    with pytest.raises(
        TrialError, match=f"limits.{next(iter(limits))} cannot be applied by the driver tempdir"
    ) as caught:
        make(**limits)
    assert caught.value.cause is Cause.SANDBOX


def test_nothing_changes_for_tasks_that_ask_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_parents", lambda limit: iter(()))
    with contextlib.closing(make()) as sandbox:
        assert folders(sandbox) == ()
        assert "limits" not in sandbox.described
        assert "memory and processors" in sandbox.described["does_not_isolate"]  # type: ignore[operator]
        assert sandbox.run(["true"], phase=Phase.AGENT, timeout=60).exit_status == 0
