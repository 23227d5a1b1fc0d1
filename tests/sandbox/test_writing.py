"""Writing beside an agent that is at work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_codereval.sandbox import writing
from pytest_codereval.sandbox.writing import make_folder_beneath, write_beneath


@pytest.fixture(params=["openat2", "without openat2"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the kernel's help and without."""
    if request.param == "without openat2":

        def refuse(*args: object) -> int:
            raise OSError(38, "not here")

        monkeypatch.setattr(writing, "open_at", refuse)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace."""
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def test_folders_are_made_and_content_is_replaced(root: Path, way: str) -> None:
    write_beneath(root, "a/b/c.txt", b"first, longer")
    write_beneath(root, "./a//b/c.txt", b"second")
    assert (root / "a/b/c.txt").read_bytes() == b"second"
    assert (root / "a/b/c.txt").stat().st_mode & 0o777 == 0o644 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "."])
def test_a_path_that_leaves_is_refused(root: Path, way: str, path: str) -> None:
    with pytest.raises(OSError):
        write_beneath(root, path, b"x")
    assert list(root.parent.iterdir()) == [root]


def test_links_that_leave_are_refused(root: Path, way: str) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "file")
    for path in ("folder/x", "file", "folder/deep/x"):
        with pytest.raises(OSError):
            write_beneath(root, path, b"x")
    assert list(outside.iterdir()) == []


def test_what_is_no_regular_file_is_refused_without_waiting(root: Path, way: str) -> None:
    os.mkfifo(root / "fifo")
    (root / "folder").mkdir()
    for path in ("fifo", "folder", "fifo/x"):
        with pytest.raises(OSError):
            write_beneath(root, path, b"x")


def test_a_workspace_that_was_replaced_by_a_link_is_refused(root: Path, way: str) -> None:
    root.rmdir()
    (root.parent / "elsewhere").mkdir()
    root.symlink_to(root.parent / "elsewhere")
    with pytest.raises(OSError):
        write_beneath(root, "x", b"x")


def test_what_is_no_regular_file_is_not_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(OSError, match="not a regular file"):
            write_beneath(tmp_path, "fifo", b"x")
        assert os.read(reader, 9) == b""
    finally:
        os.close(reader)


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_what_is_no_path_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(OSError, match="not a path"):
        write_beneath(tmp_path, path, b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_made_with_those_above_it_and_stays_as_it_is(root: Path, way: str) -> None:
    make_folder_beneath(root, "a/./b//c")
    (root / "a/b/c/kept").write_text("kept")
    for path in ("a/b/c", "a/b/c/", ".", "a"):
        make_folder_beneath(root, path)
    assert (root / "a/b/c/kept").read_text() == "kept"
    (root / "file").write_text("file")
    for path in ("file", "file/x"):
        with pytest.raises(OSError):
            make_folder_beneath(root, path)


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "out/x", "dangling", "dangling/x", "up/x", "x\0y"])
def test_no_folder_is_made_outside(root: Path, way: str, path: str) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    for name, target in {"out": outside, "dangling": outside / "new", "up": ".."}.items():
        (root / name).symlink_to(target)
    with pytest.raises(OSError):
        make_folder_beneath(root, path)
    assert sorted(root.parent.rglob("*")) == sorted([root, outside, *root.iterdir()])
