"""Grading material where graders are another user and see only what is shown to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import TrialError
from pytest_codereval.sandbox.material import GradingMaterial

from .conftest import MakeTask

MakeMaterial = Callable[..., tuple[GradingMaterial, list[Path]]]


@pytest.fixture
def make_material(make_task: MakeTask, task_dir: Path, tmp_path: Path) -> MakeMaterial:
    """The material of a task with these criteria's commands, and what it had shown."""

    def make(
        rest: str = "", *commands: str, folder: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> tuple[GradingMaterial, list[Path]]:
        task: Any = make_task(rest=rest)
        if commands:
            given = [{"type": "run_command", "command": text, "description": "d"} for text in commands]
            task = type(task).model_validate({**task.model_dump(exclude_unset=True), "success_criteria": given})
        shown: list[Path] = []
        root = tmp_path / "root"
        root.mkdir()
        file = (folder or task_dir) / "task.yaml"
        material = GradingMaterial(task, file, root, variables=variables or {}, show=shown.append)
        return material, shown

    return make


def test_a_staged_reference_can_be_read_by_everybody(make_material: MakeMaterial, task_dir: Path) -> None:
    private = task_dir / "ref" / "private"
    private.mkdir(parents=True)
    (private / "answer").write_text("x")
    (private / "answer").chmod(0o400)
    (private / "run").write_text("x")
    (private / "run").chmod(0o700)
    private.chmod(0o700)
    material, shown = make_material("reference: {directory: ref}\n")
    material.hide()
    environment = material.reveal()
    staged = Path(environment["REFERENCE_DIR"])
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (staged, *staged.rglob("*"))}
    assert modes == {staged.name: "0o755", "private": "0o755", "answer": "0o444", "run": "0o755"}
    assert shown == [staged]
    material.verify()
    (staged / "private" / "answer").chmod(0o600)
    (staged / "private" / "answer").write_text("y")
    with pytest.raises(TrialError, match="staged reference changed"):
        material.verify()


def test_a_reference_given_as_text_is_shown(make_material: MakeMaterial) -> None:
    material, shown = make_material("reference: {code: secret}\n")
    material.hide()
    staged = Path(material.reveal()["REFERENCE_DIR"])
    assert shown == [staged]
    assert oct((staged / "reference.txt").stat().st_mode & 0o777) == "0o644"


def test_the_link_to_a_folder_with_spaces_is_shown_each_time_it_is_made(
    make_material: MakeMaterial, tmp_path: Path
) -> None:
    folder = tmp_path / "a task"
    folder.mkdir()
    material, shown = make_material(folder=folder)
    for_preparation = Path(material.task_environment()["TASK_DIR"])
    assert material.task_environment()["TASK_DIR"] == str(for_preparation)
    material.hide()
    for_grading = Path(material.reveal()["TASK_DIR"])
    assert shown == [for_preparation, for_grading]
    assert len({*shown}) == 2
    assert for_grading.resolve() == folder


def test_graders_that_variables_name_are_shown_with_what_lies_beside_them(
    make_material: MakeMaterial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graders, home = tmp_path / "graders", tmp_path / "home"
    for folder in (graders / "suite", home):
        folder.mkdir(parents=True)
        (folder / "check.py").touch()
    monkeypatch.setenv("HOME", str(home))
    variables = {"GRADERS": str(graders), "MINE": str(home), "EMPTY": ""}
    commands = ("python3 $GRADERS/suite/check.py", "sh ${GRADERS}/suite", "$MINE/check.py $EMPTY/x $GRADERS/none")
    material, shown = make_material("", *commands, variables=variables)
    material.hide()
    assert shown == []
    material.reveal()
    assert set(shown) == {graders / "suite", home / "check.py"}
    (graders / "suite" / "check.py").write_text("exit(0)")
    with pytest.raises(TrialError, match="changed after the agent had started"):
        material.verify()
