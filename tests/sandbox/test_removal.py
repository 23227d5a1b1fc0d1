"""Trees are removed whatever an agent made of them, and nothing else is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_codereval.sandbox.removal import remove_tree
from pytest_codereval.sandbox.snapshot import snapshot
from pytest_codereval.sandbox.workspace import Workspace

from .processes import needs_root


def deep(root: Path, levels: int, mode: int = 0o755) -> None:
    """A chain of folders, each with a file; made from its parent's descriptor, so longer than any path may be."""
    folder = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        os.mkdir("d" * 20, dir_fd=folder)
        below = os.open("d" * 20, os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        os.fchmod(folder, mode)
        os.close(folder)
        folder = below
    os.close(folder)


def odd(root: Path) -> None:
    for name in (b"\xff\xfe", b"a\nb", b"-rf", b" ", b"\x1b[31m", b"n" * 255, "é😀".encode(), b"moved-0", b"*"):
        (root / os.fsdecode(name)).mkdir()
        (root / os.fsdecode(name) / os.fsdecode(name)).write_bytes(b"x")
    os.mkfifo(root / "fifo")
    (root / "sealed" / "inner").mkdir(parents=True)
    (root / "sealed" / "inner" / "f").write_text("x")
    (root / "sealed" / "inner").chmod(0)
    (root / "sealed").chmod(0)
    (root / "read only").mkdir()
    (root / "read only" / "f").write_text("x")
    (root / "read only").chmod(0o555)
    for number in range(300):
        (root / f"f{number}").touch()


def in_child(action: Callable[[], None]) -> int:
    """Run in a forked copy of this process that has become another user; its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


TREES = {"deep": lambda root: deep(root, 1600), "deep and sealed": lambda root: deep(root, 200, 0), "odd": odd}


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory where everybody may write, in memory where that is possible: deep trees are slow on disks."""
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() and os.access(memory, os.W_OK) else Path("/tmp")
    folder = parent / f"removal-{os.getpid()}"
    folder.mkdir()
    folder.chmod(0o777)
    yield folder
    remove_tree(folder)


@pytest.mark.parametrize("kind", TREES)
def test_everything_goes(base: Path, kind: str) -> None:
    root = base / "root"
    root.mkdir()
    TREES[kind](root)
    assert remove_tree(root) == ()
    assert not root.exists()


@needs_root
@pytest.mark.parametrize("kind", TREES)
def test_everything_goes_for_another_user_too(base: Path, kind: str) -> None:
    def work() -> None:
        root = base / "root"
        root.mkdir()
        TREES[kind](root)
        root.chmod(0)
        assert remove_tree(root) == ()
        assert not root.exists()

    assert in_child(work) == 0


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (tmp_path / "kept").write_text("x")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    for folder in (root, root / "sub"):
        (folder / "to folder").symlink_to(outside)
        (folder / "to file").symlink_to(tmp_path / "kept")
        (folder / "dangling").symlink_to("nowhere")
        (folder / "loop").symlink_to("loop")
    assert remove_tree(root) == ()
    assert (outside.exists(), outside.stat().st_mode & 0o777) == (True, 0o500)
    assert (tmp_path / "kept").read_text() == "x"
    (tmp_path / "link").symlink_to(outside)
    assert remove_tree(tmp_path / "link") == ()
    assert outside.exists()


def test_what_is_not_there_is_no_problem(tmp_path: Path) -> None:
    assert remove_tree(tmp_path / "no") == ()
    assert remove_tree(tmp_path / "no" / "no") == ()


@needs_root
def test_what_cannot_be_removed_is_reported_and_the_rest_goes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "fixed").write_text("x")
    (root / "b").write_text("x")
    if not shutil.which("chattr") or subprocess.run(["chattr", "+i", root / "a" / "fixed"]).returncode:
        pytest.skip("the file system has no immutable files")
    try:
        problems = remove_tree(root)
        assert len(problems) == 1
        assert str(root / "a") in problems[0]
        (kept,) = root.rglob("fixed")
    finally:
        subprocess.run(["chattr", "-R", "-i", root], check=True)
    assert kept.read_text() == "x"


@needs_root
@pytest.mark.parametrize("where", ["root", "root/a", "root/a/b/c"])
def test_what_is_mounted_in_a_tree_is_never_emptied(tmp_path: Path, where: str) -> None:
    outside, place = tmp_path / "outside", tmp_path / where
    outside.mkdir()
    (outside / "precious").write_text("x")
    place.mkdir(parents=True)
    (tmp_path / "root" / "f").write_text("x")
    if subprocess.run(["mount", "--bind", outside, place], capture_output=True).returncode:
        pytest.skip("mounts are not allowed here")
    try:
        assert len(remove_tree(tmp_path / "root")) == 1
        assert (outside / "precious").read_text() == "x"
        assert snapshot(tmp_path / "root", tmp_path / "copy").files == () or where == "root"
        assert not Workspace(tmp_path / "root").exists("a/precious") or where == "root"
    finally:
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in (each for each in mounts if each.startswith(f"{tmp_path}/")):
            subprocess.run(["umount", mount], check=True)
    assert remove_tree(tmp_path / "root") == ()
