"""Reading an agent's files: what counts as there, what is refused, nothing blocks."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.sandbox import workspace as module
from pytest_codereval.sandbox.workspace import Unreadable, Workspace


@pytest.fixture(params=["openat2", "portable"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty tree, seen with the system call and without."""
    if request.param == "portable":

        def missing(folder: int, path: str, flags: int, resolve: int) -> int:
            raise OSError(errno.ENOSYS, "no openat2", path)

        monkeypatch.setattr(module, "open_at", missing)
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def reason(root: Path, path: str, limit: int = 1000) -> str:
    with pytest.raises(Unreadable) as caught:
        Workspace(root).read_text(path, limit)
    assert "\n" not in caught.value.reason
    return caught.value.reason


def test_files_and_folders_are_there(root: Path) -> None:
    (root / "d").mkdir()
    (root / "d" / "a").write_bytes(b"one\r\ntwo\n\xc3\xa9")
    files = Workspace(root)
    assert files.exists("d")
    assert files.exists("d/a")
    assert files.exists("./d/../d/a")
    assert (files.is_file("d/a"), files.is_file("d"), files.is_dir("d")) == (True, False, True)
    assert files.resolve("d/a") == root.resolve() / "d" / "a"
    assert files.read_text("d/a") == "one\r\ntwo\né"
    assert "directory" in reason(root, "d")


@pytest.mark.parametrize(
    "path", ["nothing", "d/nothing", "a/below", "", "..", "../secret", "/etc/passwd", "a\0b", "x" * 300]
)
def test_what_is_not_there_or_not_inside(root: Path, path: str) -> None:
    (root / "a").write_text("x")
    (root.parent / "secret").write_text("s")
    files = Workspace(root)
    assert not files.exists(path)
    assert files.resolve(path) is None
    assert reason(root, path)


@pytest.mark.parametrize(
    "target",
    [
        "../secret",
        "{outside}",
        "..",
        "/",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "sub/../../secret",
        "chain",
        "up/secret",
    ],
)
def test_links_that_leave_count_as_absent(root: Path, target: str) -> None:
    secret = root.parent / "secret"
    secret.write_text("s")
    (root / "sub").mkdir()
    (root / "chain").symlink_to("up")
    (root / "up").symlink_to("..")
    (root / "link").symlink_to(target.format(outside=secret))
    files = Workspace(root)
    assert not files.exists("link")
    assert not files.exists("link/secret")
    assert files.glob("l*") == ()
    assert "leaves" in reason(root, "link")


def test_links_inside_count_as_what_they_lead_to_also_absolute_ones(root: Path) -> None:
    (root / "d").mkdir()
    (root / "d" / "a").write_text("x")
    (root / "relative").symlink_to("d/a")
    (root / "absolute").symlink_to(root / "d" / "a")
    (root / "folder").symlink_to(root / "d")
    files = Workspace(root)
    for path in ("relative", "absolute", "folder/a"):
        assert files.read_text(path) == "x"
    assert files.resolve("absolute") == root.resolve() / "d" / "a"
    assert files.exists("folder")


def test_loops_and_dangling_links_count_as_absent(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    (root / "gone").symlink_to("nothing")
    for name in ("loop", "gone"):
        assert not Workspace(root).exists(name)
        assert reason(root, name)


def test_fifos_sockets_and_devices_neither_block_nor_count(root: Path) -> None:
    os.mkfifo(root / "fifo")
    with contextlib.chdir(root), socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    (root / "device").symlink_to("/dev/zero")
    for name in ("fifo", "socket", "device"):
        assert not Workspace(root).exists(name)
        assert reason(root, name)
    if os.geteuid() == 0:
        os.mknod(root / "zero", 0o20666, os.makedev(1, 5))
        assert "not a regular file" in reason(root, "zero")


def test_giant_and_sparse_files_are_not_read(root: Path) -> None:
    with open(root / "sparse", "wb") as file:
        file.truncate(1 << 40)
    (root / "exact").write_text("x" * 1000)
    (root / "over").write_text("x" * 1001)
    assert "larger than 1000 bytes" in reason(root, "sparse")
    assert "larger than" in reason(root, "over")
    assert len(Workspace(root).read_text("exact", 1000)) == 1000
    assert Workspace(root).exists("sparse")


def test_text_that_is_no_utf8_is_refused(root: Path) -> None:
    (root / "a").write_bytes(b"ab\xff")
    assert "not UTF-8" in reason(root, "a")
    assert Workspace(root).read_bytes("a") == b"ab\xff"


def test_a_root_replaced_by_a_link_holds_nothing(root: Path) -> None:
    files = Workspace(root)
    root.rmdir()
    (root.parent / "elsewhere").mkdir()
    (root.parent / "elsewhere" / "a").write_text("x")
    root.symlink_to("elsewhere")
    assert not files.exists("a")
    assert not Workspace(root).exists("a")


def fill(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)


def test_patterns(root: Path) -> None:
    fill(root, "a.py", "b.txt", "src/c.py", "src/deep/er/d.py", ".hidden.py", "src/x.y/e.py")
    files = Workspace(root)
    assert files.glob("*.py") == (".hidden.py", "a.py")
    assert files.glob("src/*.py") == ("src/c.py",)
    assert files.glob("**/*.py") == (".hidden.py", "a.py", "src/c.py", "src/deep/er/d.py", "src/x.y/e.py")
    assert files.glob("src/**") == ("src/c.py", "src/deep/er/d.py", "src/x.y/e.py")
    assert files.glob("src/**/d.py") == ("src/deep/er/d.py",)
    assert files.glob("[ab].*") == ("a.py", "b.txt")
    assert files.glob("?.py") == ("a.py",)
    assert files.glob("src/*") == ("src/c.py",)
    assert files.glob("../*") == files.glob("/*") == files.glob("nothing/*") == files.glob("a.py/*") == ()
    assert files.exists("s*/c.py")
    assert not files.exists("*.rs")


def test_a_literal_name_wins_over_its_meaning_as_a_pattern(root: Path) -> None:
    fill(root, "[a].txt", "a.txt", "*")
    files = Workspace(root)
    assert files.resolve_one("[a].txt") == "[a].txt"
    assert files.read_text("[a].txt") == "[a].txt"
    assert files.read_text("*") == "*"


def test_ignored_names_are_left_out_only_where_a_wildcard_found_them(root: Path) -> None:
    fill(root, "dist/a.js", "node_modules/m/b.js", "src/c.js", "src/dist/d.js", "tmp/e.js")
    assert Workspace(root).glob("**/*.js") == ("src/c.js", "tmp/e.js")
    assert Workspace(root).glob("dist/*.js") == ("dist/a.js",)
    assert Workspace(root).glob("*/dist/*.js") == ("src/dist/d.js",)
    assert Workspace(root, ["!dist", "tmp"]).glob("**/*.js") == ("dist/a.js", "src/c.js", "src/dist/d.js")


def test_content_needs_exactly_one_match(root: Path) -> None:
    fill(root, *(f"f{number:02}.txt" for number in range(12)), "only.md")
    files = Workspace(root)
    assert files.resolve_one("*.md") == "only.md"
    assert files.read_text("o*") == "only.md"
    message = reason(root, "*.txt")
    assert "f00.txt" in message
    assert "f09.txt" in message
    assert "f10.txt" not in message
    assert "12" in message
    assert "no file" in reason(root, "*.rs")


def test_wide_patterns_follow_no_links_to_folders(root: Path) -> None:
    fill(root, "d/a")
    (root / "d" / "self").symlink_to(".")
    (root / "d" / "out").symlink_to("/")
    assert Workspace(root).glob("**/a") == ("d/a",)


@contextlib.contextmanager
def tree(names: list[str]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            with contextlib.suppress(OSError):
                fill(Path(folder), name)
        yield Path(folder)


SEGMENT = st.text("ab.[]*?-!", min_size=1, max_size=3).filter(lambda text: text not in (".", ".."))
PATH = st.lists(SEGMENT.filter(lambda text: "**" not in text), min_size=1, max_size=3).map("/".join)


@settings(max_examples=60, deadline=None)
@given(names=st.lists(PATH, max_size=6), pattern=PATH)
def test_patterns_match_as_pathlib_does(names: list[str], pattern: str) -> None:
    with tree(names) as folder:
        expected = {str(each.relative_to(folder)) for each in folder.glob(pattern) if each.is_file()}
        assert set(Workspace(folder).glob(pattern)) == expected
