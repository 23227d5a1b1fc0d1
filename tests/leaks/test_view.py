"""Grading material in what the agent is given is an error before it starts; all else is not."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.leaks.needles import Needles
from pytest_codereval.leaks.reading import Budget
from pytest_codereval.leaks.view import LARGEST_IN_IMAGE, Given, Index, Tree, index_of_image, look

from .material import CANARY, GRADER, GUID, ROWS, Suite


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path / "suite")


@pytest.fixture
def trees(tmp_path: Path) -> list[Tree]:
    made = [Tree("workspace", tmp_path / "workspace", is_workspace=True), Tree("HOME", tmp_path / "home")]
    for tree in made:
        (tree.path / "sub").mkdir(parents=True)
        (tree.path / "sub" / "plain.txt").write_text("nothing\n")
    return made


def refused(needles: Needles, trees: list[Tree], *indexes: Index) -> str:
    with pytest.raises(TrialError) as caught:
        look(needles, trees, indexes)
    assert caught.value.cause is Cause.CONFIGURATION
    assert "Take it out of" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("tree", [0, 1])
def test_a_canary_is_refused_wherever_it_lies(suite: Suite, trees: list[Tree], tree: int) -> None:
    needles = suite.needles()
    assert look(needles, trees).contents
    (trees[tree].path / "sub" / "notes.md").write_text(f"see {CANARY}")
    message = refused(needles, trees)
    assert f"{trees[tree].name}: sub/notes.md" in message
    assert "task file task.yaml" in message
    assert CANARY not in message


def test_a_canary_of_another_suite_is_refused_too(suite: Suite, trees: list[Tree]) -> None:
    (trees[0].path / "x").write_text("codereval-canary-" + "a" * 32)
    assert "grading material" in refused(suite.needles(), trees)


def test_a_benchmarks_guid_in_the_template_warns_and_shows_nothing(suite: Suite, trees: list[Tree]) -> None:
    suite.file("solution.sh", f"# canary GUID {GUID}\n")
    (trees[0].path / "Dockerfile").write_text(f"# canary GUID {GUID}\n")
    found = look(suite.needles(), trees)
    assert found.tokens == {GUID}
    assert "26b5c67b..." in found.warnings[0]


@pytest.mark.parametrize("name", ["task.yaml", "rows.jsonl"])
def test_a_copy_of_an_answer_key_is_refused_whatever_its_name(suite: Suite, trees: list[Tree], name: str) -> None:
    suite.file("rows.jsonl", ROWS)
    needles = suite.needles(dataset_files=[suite.folder / "rows.jsonl"])
    text = (suite.folder / name).read_text().replace(CANARY, "")
    (suite.folder / name).write_text(text)
    (trees[0].path / "data.bin").write_text(text)
    look(needles, trees) if name == "task.yaml" else refused(needles, trees)


def test_a_grader_is_refused_unless_it_was_put_into_the_workspace(suite: Suite, trees: list[Tree]) -> None:
    (trees[0].path / "tests.py").write_text(GRADER)
    assert look(suite.needles(), trees).contents
    (trees[1].path / "tests.py").write_text(GRADER)
    assert "the same as the grader check.py" in refused(suite.needles(), trees)


def test_a_part_of_the_reference_may_be_given_but_not_all_of_it(suite: Suite, trees: list[Tree]) -> None:
    suite.fields["reference"] = {"directory": "solved"}
    suite.file("solved/library.py", "x = 1\n" * 400)
    suite.file("solved/fix.py", "y = 2\n")
    (trees[0].path / "library.py").write_text("x = 1\n" * 400)
    assert look(suite.needles(), trees).contents
    (trees[0].path / "fix.py").write_text("y = 2\n")
    assert "all of the reference" in refused(suite.needles(), trees)


def test_small_and_common_files_are_no_leak(suite: Suite, trees: list[Tree]) -> None:
    licence = "Permission is hereby granted, free of charge, " * 40
    for name, text in (("LICENSE", licence), ("__init__.py", ""), ("x.txt", "1\n")):
        suite.file(name, text)
        for tree in trees:
            (tree.path / name).write_text(text)
    assert look(suite.needles(), trees).workspace.keys() == {"LICENSE", "__init__.py", "x.txt", "sub/plain.txt"}


def test_a_withheld_path_in_what_is_given_warns(suite: Suite, trees: list[Tree]) -> None:
    (trees[1].path / "config").write_text(f"seed={suite.folder}/x\n")
    found = look(suite.needles(), trees)
    assert found.places == {"task's folder"}
    assert "HOME: config" in found.warnings[0]


def test_links_out_are_not_followed_and_too_much_is_told(suite: Suite, trees: list[Tree]) -> None:
    needles = suite.needles()
    (trees[0].path / "link").symlink_to(suite.folder)
    assert not look(needles, trees).short
    assert look(needles, trees, budget=Budget(files=1)).short


def test_an_image_is_read_once_and_searched_for_each_task(suite: Suite, trees: list[Tree], tmp_path: Path) -> None:
    readings = []

    def files() -> list[tuple[str, int, io.BytesIO]]:
        readings.append(1)
        giant = ("/giant", LARGEST_IN_IMAGE + 1, io.BytesIO(CANARY.encode()))
        return [("/opt/check.py", len(GRADER), io.BytesIO(GRADER.encode())), giant]

    index = index_of_image("sha256:1", tmp_path, files, "app:1")
    assert index_of_image("sha256:1", tmp_path, files).files == index.files
    assert len(readings) == 1
    assert "image app:1: /opt/check.py" in refused(suite.needles(), trees, index)
    assert look(Needles(), trees, [index]) != Given()
    baked = index_of_image("sha256:2", tmp_path, lambda: [("/a/b", 60, io.BytesIO(CANARY.encode()))])
    assert "/a/b" in refused(Needles(), trees, baked)
