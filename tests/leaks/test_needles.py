"""What is collected from grading material, and what is not grading material."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_codereval.leaks.needles import Kind, planted
from pytest_codereval.leaks.reading import Budget

from .material import CANARY, GRADER, GUID, ROWS, Suite


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path / "suite")


def test_canaries_come_from_all_grading_material(suite: Suite) -> None:
    tokens = {name: f"codereval-canary-{name[0] * 32}" for name in ("a.py", "b.jsonl", "c.json", "d/solution.py")}
    for name, token in tokens.items():
        suite.file(name, f"x {token}\n")
    suite.fields["reference"] = {"directory": "d"}
    found = suite.needles(dataset_files=[suite.folder / "b.jsonl"], answer_files=[suite.folder / "c.json"])
    assert set(found.tokens) == {CANARY, *tokens.values()}
    assert found.answer_tokens == {tokens["c.json"]}
    assert found.tokens[CANARY] == "the task file task.yaml"
    assert found.tokens[tokens["b.jsonl"]] == "the dataset b.jsonl"


def test_a_reference_given_as_text_may_hold_a_canary_of_the_field(suite: Suite) -> None:
    suite.fields["reference"] = {"code": f"# BENCHMARK DATA. canary GUID {GUID}\nx = 1\n"}
    assert GUID in suite.needles().tokens


def test_what_is_staged_is_no_grading_material(suite: Suite) -> None:
    for name in ("template/a.py", "prompts/p.md", "plugin/skills/s/SKILL.md", "kept/a.py"):
        suite.file(name, f"{GRADER}{name} codereval-canary-{name[0].encode().hex() * 16}\n")
    suite.file("plugin/.claude-plugin/plugin.json", '{"name": "plugin"}')
    suite.fields |= {
        "sandbox": {"template_sources": [{"type": "template_dir", "path": "template"}]},
        "initial_prompt_file": "prompts/p.md",
    }
    del suite.fields["initial_prompt"]
    suite.fields["agent"] = {"type": "claude-code", "plugins": [{"type": "local", "path": "plugin"}]}
    found = suite.needles()
    assert {file.path.name for file in found.files.values()} == {"task.yaml", "check.py", "a.py"}
    assert set(found.tokens) == {CANARY, "codereval-canary-" + "6b" * 16}


def test_files_are_told_apart_by_what_they_are_for(suite: Suite) -> None:
    suite.file("expected.json", "[1, 4, 9]" * 200)
    suite.file("other.yaml", suite.task_file().read_text().replace("squares", "cubes"))
    rows = suite.file("rows.jsonl", ROWS)
    kinds = {file.path.name: file.kind for file in suite.needles(dataset_files=[rows]).files.values()}
    assert kinds == {
        "task.yaml": Kind.TASK,
        "other.yaml": Kind.TASK,
        "rows.jsonl": Kind.DATASET,
        "check.py": Kind.GRADER,
        "expected.json": Kind.OTHER,
    }


def test_small_files_are_not_told_by_their_content(suite: Suite) -> None:
    suite.file("graders/check.py", "assert True\n")
    suite.file("empty", "")
    suite.file("LICENSE", "x" * 1000)
    assert {file.path.name for file in suite.needles().files.values()} == {"task.yaml"}


def test_material_above_the_budget_is_told(suite: Suite) -> None:
    suite.file("giant.bin", "x" * 5000)
    assert not suite.needles().short
    assert suite.needles(budget=Budget(largest=4000)).short


def test_links_and_fifos_of_the_folder_do_no_harm(suite: Suite, tmp_path: Path) -> None:
    import os

    os.mkfifo(suite.folder / "fifo")
    (suite.folder / "loop").symlink_to(".")
    (suite.folder / "out").symlink_to(tmp_path)
    assert set(suite.needles().tokens) == {CANARY}


def test_the_canary_of_a_session_is_one_for_all_its_processes(tmp_path: Path) -> None:
    first = planted(tmp_path / "shared")
    assert planted(tmp_path / "shared") == first
    assert planted(tmp_path / "other") != first
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["canary"]
