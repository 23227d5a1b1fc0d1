"""A stored workspace that is not whole is an error for what depends on it, never another verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_codereval.again.workspace import StoredFiles, files_naming, gaps_of, restore
from pytest_codereval.errors import JudgingError, TrialError
from pytest_codereval.redaction import hide
from pytest_codereval.sandbox.snapshot import Limits, Manifest, snapshot

SECRET = "s3cr3t-of-the-stored-workspace"
UNLIMITED = Limits()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "workspace"
    (path / "sub").mkdir(parents=True)
    (path / "a.txt").write_text("a")
    return path


def stored(workspace: Path, limits: Limits = UNLIMITED) -> tuple[Manifest, StoredFiles]:
    """Store the workspace, put it into a fresh place and look at it there."""
    copy, target = workspace.parent / "copy", workspace.parent / "target"
    manifest = snapshot(workspace, copy, limits, keep_secrets=False)
    target.mkdir()
    restore(copy, manifest, target, str(workspace))
    return manifest, StoredFiles(target, (), gaps_of(manifest))


def test_a_whole_workspace_has_no_gaps(workspace: Path) -> None:
    (workspace / "sub" / "run.sh").write_text("#!/bin/sh\n")
    (workspace / "sub" / "run.sh").chmod(0o750)
    (workspace / "sub").chmod(0o700)
    (workspace / "to-a").symlink_to(workspace / "a.txt")
    (workspace / "out").symlink_to("/usr/bin/env")
    manifest, files = stored(workspace)
    assert gaps_of(manifest) == ()
    assert files.read_text("to-a") == "a"
    assert (files.root / "to-a").readlink() == files.root / "a.txt"
    assert (files.root / "out").readlink() == Path("/usr/bin/env")
    assert (files.root / "sub").stat().st_mode & 0o777 == 0o700
    assert (files.root / "sub" / "run.sh").stat().st_mode & 0o777 == 0o750


def test_a_file_that_is_too_large_cannot_be_judged_and_others_can(workspace: Path) -> None:
    (workspace / "sub" / "big.bin").write_bytes(b"x" * 2000)
    (workspace / "near").symlink_to("sub/big.bin")
    _, files = stored(workspace, Limits(file_bytes=1000))
    for look in (
        lambda: files.is_file("sub/big.bin"),
        lambda: files.is_file("near"),
        lambda: files.read_text("sub/big.bin"),
        lambda: files.glob("**/*.bin"),
        lambda: files.exists("sub/*"),
    ):
        with pytest.raises(JudgingError, match="larger than 1000 bytes"):
            look()
    assert files.read_text("a.txt") == "a"
    assert not files.exists("missing.txt")


def test_a_file_without_its_secrets_is_there_but_cannot_be_read(workspace: Path) -> None:
    hide(SECRET)
    (workspace / "key.txt").write_text(f"key={SECRET}")
    (workspace / "sub" / SECRET).write_text("x")
    _, files = stored(workspace)
    assert files.is_file("key.txt")
    with pytest.raises(JudgingError, match="secrets are left out"):
        files.read_text("key.txt")
    with pytest.raises(JudgingError, match="secret in its name"):
        files.exists(f"sub/{SECRET}")
    assert not files.exists("missing.txt")


def test_of_a_truncated_workspace_nothing_is_absent(workspace: Path) -> None:
    for number in range(5):
        (workspace / f"f{number}").write_text("x" * 10)
    _, files = stored(workspace, Limits(total_bytes=25))
    with pytest.raises(JudgingError, match="not all of it"):
        files.exists("missing.txt")


def test_files_that_name_the_old_path_are_told(workspace: Path) -> None:
    (workspace / "sub" / "settings.ini").write_text(f"root={workspace}/sub")
    copy = workspace.parent / "copy"
    manifest = snapshot(workspace, copy)
    assert files_naming(manifest, copy, str(workspace)) == ["sub/settings.ini"]
    assert files_naming(manifest, copy, "") == []


def test_a_workspace_that_was_removed_stays_removed(workspace: Path) -> None:
    elsewhere = workspace.rename(workspace.with_name("elsewhere"))
    workspace.symlink_to(elsewhere)
    manifest, files = stored(workspace)
    assert manifest.files == ()
    assert not files.root.exists()
    assert not files.exists("a.txt")


@pytest.mark.parametrize("change", ["edit", "add", "remove"])
def test_a_stored_copy_that_was_changed_is_an_error(workspace: Path, change: str) -> None:
    copy, target = workspace.parent / "copy", workspace.parent / "target"
    manifest = snapshot(workspace, copy, keep_secrets=False)
    target.mkdir()
    if change == "remove":
        (copy / "a.txt").unlink()
    else:
        (copy / ("a.txt" if change == "edit" else "b.txt")).write_text("b")
    with pytest.raises(TrialError, match="not as its record says"):
        restore(copy, manifest, target, str(workspace))
