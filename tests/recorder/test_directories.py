"""The directories of calls, as rules and the log name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_codereval.recorder.answering import Printed, ShimPlan
from pytest_codereval.recorder.directories import seen_from_workspace

from .engine import Engine
from .shadowing import Shadow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "workspace" / "sub" / "dir").mkdir(parents=True)
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "into").symlink_to(tmp_path / "workspace")
    (tmp_path / "workspace" / "out").symlink_to(tmp_path / "elsewhere" / "deep")
    return tmp_path


CASES = [
    ("workspace", "."),
    ("workspace/", "."),
    ("workspace//sub/./dir", "sub/dir"),
    ("workspace/sub/dir/..", "sub"),
    ("workspace/gone", "gone"),
    ("into/sub", "sub"),
    ("workspace/out", "out"),
    ("workspace/out/..", "/elsewhere"),
    ("workspace/../elsewhere/deep/", "/elsewhere/deep"),
    ("workspace2//x/", "/workspace2/x"),
]


@pytest.mark.parametrize(("cwd", "expected"), CASES)
def test_a_directory_has_one_name(root: Path, cwd: str, expected: str) -> None:
    expected = f"{root}{expected}" if expected.startswith("/") else expected
    assert seen_from_workspace(f"{root}/{cwd}", root / "workspace") == expected


def test_without_a_workspace_it_is_absolute(root: Path) -> None:
    assert seen_from_workspace(f"{root}//workspace/./sub", None) == f"{root}/workspace/sub"


def test_a_name_that_the_caller_chose_is_the_same_to_rules_and_in_the_log(shadow: Shadow, root: Path) -> None:
    workspace = root / "workspace"
    engine = Engine(root, {"template": True, "stdout": "{{ cwd }}"})
    tools = shadow(
        ShimPlan("uip", asks=True),
        workspace=workspace,
        answer=lambda request: Printed("rule 0", engine.answers.answer(request).stdout),
    )
    chosen = (workspace / "out" / "..", workspace / "sub" / ".." / "sub" / ".", workspace / "out")
    told = [tools.call("uip", cwd=cwd, env={"PWD": str(cwd)}).stdout.decode() for cwd in chosen]
    assert told == [call.cwd for call in tools.drain().invocations] == [str(root / "elsewhere"), "sub", "out"]
