"""Fingerprints tell every change of names, types and contents."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_codereval.sandbox.digest import difference, digest


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "t" / "sub").mkdir(parents=True)
    (tmp_path / "t" / "a").write_text("one")
    (tmp_path / "t" / "sub" / "b").write_text("two")
    (tmp_path / "t" / "link").symlink_to("a")
    return tmp_path / "t"


def rewrite_same_size_and_time(tree: Path) -> None:
    found = (tree / "a").stat()
    (tree / "a").write_text("eno")
    os.utime(tree / "a", ns=(found.st_atime_ns, found.st_mtime_ns))


CHANGES: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "content": (lambda tree: (tree / "a").write_text("other"), ("changed: a",)),
    "content with size and time kept": (rewrite_same_size_and_time, ("changed: a",)),
    "new file": (lambda tree: (tree / "sub" / "c").write_text(""), ("added: sub/c",)),
    "new folder": (lambda tree: (tree / "empty").mkdir(), ("added: empty",)),
    "removed": (lambda tree: (tree / "sub" / "b").unlink(), ("removed: sub/b",)),
    "renamed": (lambda tree: (tree / "a").rename(tree / "z"), ("removed: a", "added: z")),
    "link retargeted": (
        lambda tree: ((tree / "link").unlink(), (tree / "link").symlink_to("sub/b")),
        ("changed: link",),
    ),
    "file became link": (
        lambda tree: ((tree / "a").rename(tree / "b"), (tree / "a").symlink_to("b")),
        ("changed: a", "added: b"),
    ),
    "file became a program": (lambda tree: (tree / "a").chmod(0o755), ("changed: a",)),
    "file became fifo": (lambda tree: ((tree / "a").unlink(), os.mkfifo(tree / "a")), ("changed: a",)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen_and_named(tree: Path, change: str) -> None:
    action, expected = CHANGES[change]
    before = digest(tree)
    action(tree)
    after = digest(tree)
    assert before.sha256 != after.sha256
    assert difference(before, after) == expected


def test_what_is_excluded_does_not_count(tree: Path) -> None:
    before = digest(tree)
    for name in (".git", "__pycache__"):
        (tree / "sub" / name).mkdir()
        (tree / "sub" / name / "x").write_text("x")
    (tree / "sub" / "run").mkdir()
    (tree / "sub" / "run" / "record").write_text("x")
    after = digest(tree, exclude=[tree / "sub" / "run"])
    assert (after.sha256, difference(before, after)) == (before.sha256, ())


def test_compiled_python_beside_its_source_counts(tree: Path) -> None:
    before = digest(tree)
    (tree / "sub" / "x.pyc").write_text("x")
    assert difference(before, digest(tree)) == ("added: sub/x.pyc",)


def test_what_links_lead_to_counts(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "grader").write_text("strict")
    (outside / "single").write_text("strict")
    (outside / "deep" / "further").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("strict")
    (tree / "folder").symlink_to(outside / "deep")
    (tree / "file").symlink_to(outside / "single")
    seen = []
    for path in (outside / "deep" / "grader", outside / "single", tmp_path / "elsewhere"):
        before = digest(tree)
        path.write_text("lenient")
        seen += difference(before, digest(tree))
    assert seen == [
        "changed: folder (target)/grader",
        "changed: file (target)",
        "changed: folder (target)/further (target)",
    ]
    by_text = digest(tree, follow_links=False)
    (outside / "single").write_text("other")
    assert digest(tree, follow_links=False) == by_text


def test_a_tree_that_is_reached_by_a_link_counts_by_its_content(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "by-link").symlink_to(tree)
    assert digest(tmp_path / "by-link") == digest(tree)
    before = digest(tmp_path / "by-link")
    (tree / "sub" / "b").write_text("other")
    assert difference(before, digest(tmp_path / "by-link")) == ("changed: sub/b",)


def test_loops_of_links_end_and_links_to_much_are_bounded(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "self").symlink_to("self")
    (tree / "sub" / "up").symlink_to("..")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "back").symlink_to(tree)
    (outside / "root").symlink_to(outside)
    (tree / "out").symlink_to(outside)
    assert "out (target)/back" in digest(tree).entries
    (tree / "all").symlink_to("/usr")
    monkeypatch.setattr("pytest_codereval.sandbox.digest.MOST_LINKED_ENTRIES", 100)
    monkeypatch.setattr("pytest_codereval.sandbox.digest.MOST_LINKED_BYTES", 10)
    assert len(digest(tree).entries) < 200
    before = digest(tree)
    assert digest(tree) == before


def test_the_digest_depends_on_the_contents_only(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "sub").mkdir(parents=True)
    (tmp_path / "other" / "sub" / "b").write_text("two")
    (tmp_path / "other" / "link").symlink_to("a")
    (tmp_path / "other" / "a").write_text("one")
    assert digest(tree).sha256 == digest(tmp_path / "other").sha256


def test_a_file_by_itself_and_a_missing_path(tree: Path) -> None:
    before = digest(tree / "a")
    missing = digest(tree / "nothing")
    assert before.sha256 != missing.sha256
    (tree / "a").unlink()
    assert difference(before, digest(tree / "a")) == ("changed: .",)


def test_a_settled_file_is_not_read_again_but_a_change_is_still_seen(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_codereval.clock.now", lambda: 4e9)
    before = digest(tree)
    assert digest(tree) == before
    rewrite_same_size_and_time(tree)
    assert difference(before, digest(tree)) == ("changed: a",)
