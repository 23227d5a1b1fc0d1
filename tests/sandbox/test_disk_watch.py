"""A sandbox that takes more of the disk than it may is stopped, and its trial says why."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox import disk_watch
from pytest_codereval.sandbox.disk_watch import DiskWatch
from pytest_codereval.sandbox.protocol import Phase

from . import isolated
from .conftest import MakeSandbox


def watch_until_stopped(folder: Path, max_bytes: int | None) -> TrialError | None:
    stopped = threading.Event()
    watch = DiskWatch([folder], max_bytes, stopped.set)
    try:
        return watch.fault if stopped.wait(60) else None
    finally:
        watch.close()
        watch.close()


def test_an_agent_that_fills_the_disk_is_stopped(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox(limits={"max_disk_mb": 8})
    script = "i=0; while [ $i -lt 2000 ]; do head -c 1000000 /dev/urandom >f$i; i=$((i+1)); sleep 0.01; done"
    with pytest.raises(TrialError, match=r"more than the 8 MB of limits\.max_disk_mb") as caught:
        sandbox.run(["sh", "-c", script], phase=Phase.AGENT, timeout=60)
    assert caught.value.cause is Cause.OUT_OF_SPACE
    with pytest.raises(TrialError):
        sandbox.reap()
    assert len(list(sandbox.workspace.iterdir())) < 2000


def test_a_sparse_file_takes_no_room(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox(limits={"max_disk_mb": 8})
    result = sandbox.run(["sh", "-c", "truncate -s 1T big; sleep 0.7"], phase=Phase.AGENT, timeout=60)
    assert result.exit_status == 0


def test_a_tree_within_its_limit_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 100_000)
    stopped = threading.Event()
    watch = DiskWatch([tmp_path], 1 << 20, stopped.set)
    assert not stopped.wait(0.6)
    watch.close()
    watch.refuse()


def test_too_many_files_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_watch, "MOST_ENTRIES", 20)
    for number in range(30):
        (tmp_path / f"{number}").touch()
    fault = watch_until_stopped(tmp_path, 1 << 30)
    assert fault is not None
    assert "files and directories" in str(fault)


def test_a_full_disk_is_told_without_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_watch, "FLOOR", 1 << 62)
    fault = watch_until_stopped(tmp_path, None)
    assert fault is not None
    assert "free on the disk" in str(fault)


FILLER = "cd /; env -i PATH=$PATH sh -c 'i=0; while :; do head -c 1000000 /dev/urandom >{folder}/f$i; i=$((i+1)); done'"


@pytest.mark.parametrize("kind", ["tempdir", "bubblewrap", "docker"])
def test_one_that_hides_what_it_belongs_to_is_stopped_too(kind: str) -> None:
    with contextlib.closing(isolated.create(kind, limits={"max_disk_mb": 40})) as sandbox:
        with pytest.raises(TrialError, match=r"limits\.max_disk_mb") as caught:
            sandbox.run(["sh", "-c", FILLER.format(folder=sandbox.workspace)], phase=Phase.AGENT, timeout=60)
        assert caught.value.cause is Cause.OUT_OF_SPACE


def test_one_that_was_quicker_than_the_watch_is_found_at_the_seal(
    make_sandbox: MakeSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_watch, "_PAUSE", 600.0)
    sandbox = make_sandbox(limits={"max_disk_mb": 4})
    sandbox.run(["sh", "-c", "head -c 9000000 /dev/urandom >f"], phase=Phase.AGENT, timeout=60)
    with pytest.raises(TrialError) as caught:
        sandbox.reap()
    assert caught.value.cause is Cause.OUT_OF_SPACE
