"""The copy of a workspace in the run directory: exact where harmless, bounded, and it says what is missing."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from pytest_codereval.sandbox.snapshot import Limits, Skipped, snapshot

from .test_removal import deep


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "run" / "workspace"


def test_files_are_copied_and_listed(source: Path, target: Path) -> None:
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "a").write_bytes(b"\0\xff")
    (source / "sub" / "run").write_text("x")
    (source / "sub" / "run").chmod(0o6750)
    (source / "a").chmod(0o600)
    manifest = snapshot(source, target)
    assert (target / "a").read_bytes() == b"\0\xff"
    assert (target / "sub" / "empty").is_dir()
    listed = {file.path: file for file in manifest.files}
    assert set(listed) == {"a", "sub/run"}
    assert listed["a"].sha256 == hashlib.sha256(b"\0\xff").hexdigest()
    assert (listed["a"].size, listed["a"].mode, listed["sub/run"].mode) == (2, 0o600, 0o6750)
    assert stat.S_IMODE((target / "sub/run").stat().st_mode) == 0o755
    assert stat.S_IMODE((target / "a").stat().st_mode) & 0o7111 == 0
    assert (manifest.skipped, manifest.truncated) == ((), False)


def test_links_that_lead_to_something_copied_are_kept(source: Path, target: Path) -> None:
    (source / "d").mkdir()
    (source / "d" / "a").write_text("x")
    kept = {"one": "d/a", "d/two": "../d/a", "three": "d", "d/four": "..", "chain": "one", "through": "three/a"}
    kept |= {"abs": str(source / "d" / "a"), "d/abs": f"{source}/d"}
    dropped = {"out": "../secret", "etc": "/etc/passwd", "far": "chain-out", "chain-out": "out", "gone": "none"}
    dropped |= {"loop": "loop2", "loop2": "loop", "back": f"../{source.name}/d", "python": "/usr/bin/env"}
    (source.parent / "secret").write_text("s")
    for name, text in (kept | dropped).items():
        (source / name).symlink_to(text)
    manifest = snapshot(source, target)
    assert set(manifest.links) == set(kept)
    assert {each.path for each in manifest.skipped} == set(dropped)
    for name in ("d/two", "chain", "through", "abs", "d/abs/a"):
        assert (target / name).read_text() == "x"
    assert (target / "abs").readlink() == Path("d/a")


def test_what_is_dangerous_is_skipped_with_the_reason(source: Path, target: Path) -> None:
    os.mkfifo(source / "fifo")
    with open(source / "sparse", "wb") as file:
        file.truncate(1 << 40)
    (source / "good").write_text("x")
    manifest = snapshot(source, target, Limits(file_bytes=1000))
    assert set(manifest.skipped) == {Skipped("fifo", "fifo"), Skipped("sparse", "larger than 1000 bytes")}
    assert [path.name for path in target.iterdir()] == ["good"]


def test_totals_entries_and_depth_are_bounded(source: Path, target: Path, tmp_path: Path) -> None:
    for number in range(5):
        (source / f"f{number}").write_text("x" * 10)
    by_bytes = snapshot(source, target, Limits(total_bytes=25))
    assert (len(by_bytes.files), by_bytes.truncated) == (2, True)
    by_entries = snapshot(source, tmp_path / "two", Limits(entries=3))
    assert (len(by_entries.files), by_entries.truncated) == (3, True)
    deep(source, 150)
    by_depth = snapshot(source, tmp_path / "three", Limits(depth=5))
    assert "5 levels" in by_depth.skipped[-1].reason
    assert max(file.path.count("/") for file in by_depth.files) == 5


def test_odd_names_and_unreadable_folders(source: Path, target: Path) -> None:
    for name in (b"\xff", b"a\nb", b"-rf", b"\x1b[31m"):
        (source / os.fsdecode(name)).write_text("x")
    (source / "sealed").mkdir()
    (source / "sealed").chmod(0)
    manifest = snapshot(source, target)
    assert len(manifest.files) == 4
    assert len(list(target.iterdir())) == 5 - (os.geteuid() != 0)
    (source / "sealed").chmod(0o700)


def test_patterns_to_ignore_are_named_in_the_manifest(source: Path, target: Path) -> None:
    (source / "node_modules").mkdir()
    (source / "node_modules" / "a").write_text("x")
    (source / "b").write_text("x")
    manifest = snapshot(source, target, ignore=["node_modules"])
    assert [file.path for file in manifest.files] == ["b"]
    assert manifest.skipped == (Skipped("node_modules", "ignored"),)
