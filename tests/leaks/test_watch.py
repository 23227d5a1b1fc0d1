"""What a watch looks through: the mounts as the agent sees them, and where the reference really lies."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_codereval.errors import TrialError
from pytest_codereval.leaks.scan import Taint
from pytest_codereval.leaks.watch import Watch, watch
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.sandbox.enclosure import Mount
from pytest_codereval.sandbox.protocol import Sandbox
from pytest_codereval.sandbox.snapshot import snapshot
from pytest_codereval.trajectory.model import Message

from .material import CANARY, Suite


@dataclasses.dataclass
class Place:
    """What a watch asks of a sandbox."""

    root: Path
    mounted: tuple[Mount, ...] = ()
    driver: str = "bubblewrap"
    described: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def home(self) -> Path:
        return self.root / "home"


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path / "checkout" / "tasks")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "sandbox" / "t1")
    for folder in (made.workspace, made.home, made.root / "tmp"):
        folder.mkdir(parents=True)
    return made


def watching(suite: Suite, place: Place) -> Watch:
    checkout, runs = suite.folder / "elsewhere", suite.folder / "runs"
    sandbox = cast("Sandbox", place)
    return watch(suite.task, suite.folder / "task.yaml", sandbox, checkout=checkout, run_directory=runs)


def test_what_was_left_out_of_a_mount_is_no_mistake(suite: Suite, place: Place, tmp_path: Path) -> None:
    suite.fields["sandbox"] = {"driver": "bubblewrap", "docker": {"extra_mounts": ["lib:/lib/x:rw"]}}
    suite.file("lib/code.py", "x = 1\n")
    suite.file("lib/answer.py", f"# {CANARY}\n")
    copy = tmp_path / "sandbox" / "t1" / "copy"
    copy.mkdir()
    (copy / "code.py").write_text("x = 1\n")
    place.mounted = (Mount(copy, Path("/lib/x"), writable=True),)
    watching(suite, place).look()
    (copy / "by_pre_run.py").write_text(f"# {CANARY}\n")
    with pytest.raises(TrialError, match=r"mount /lib/x: by_pre_run\.py"):
        watching(suite, place).look()


def test_a_reference_elsewhere_is_a_withheld_place(suite: Suite, place: Place, tmp_path: Path) -> None:
    suite.file("../../answers/solved/fix.py", "y = 2\n")
    suite.fields["reference"] = {"directory": "../../answers/solved"}
    made = watching(suite, place)
    made.look()

    def scanned(text: str) -> Taint:
        copy = tmp_path / f"sealed-{len(text)}"
        return made.scan([Message("assistant", text)], InvocationLog(), snapshot(place.workspace, copy), copy, False)

    assert scanned("nothing").state == "clean"
    found = scanned(f"let me read {tmp_path}/answers/solved/fix.py")
    assert found.state == "inconclusive"
    assert "reference" in str(found.findings[0])
