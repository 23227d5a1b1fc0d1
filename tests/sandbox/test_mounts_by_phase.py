"""What the task mounts, by phase: graders see what preparation left there, not what the agent made of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox import drivers
from pytest_codereval.sandbox.drivers import Order
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.protocol import Phase, Sandbox
from pytest_codereval.task.models import SandboxConfig

_HERE = drivers.driver("bubblewrap").availability()

pytestmark = pytest.mark.skipif(not _HERE.usable, reason=f"no bubblewrap: {_HERE.reason}")


def create(task_dir: Path, *mounts: object) -> Sandbox:
    config = SandboxConfig.model_validate({"driver": "bubblewrap", "docker": {"extra_mounts": mounts}})
    return drivers.driver("bubblewrap").create(Order(config, EnvironmentPlan(), task_dir=task_dir))


@pytest.fixture
def task_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    for name in ("cache", "kept", "single", "shared"):
        (folder / name).mkdir(parents=True)
        (folder / name / "wheel").write_text("original\n")
    for path in (folder / "shared", folder / "shared/wheel"):
        path.chmod(0o777)
    return folder


@pytest.fixture
def sandbox(task_dir: Path) -> Iterator[Sandbox]:
    shared = {"source": "shared", "target": "/given/shared", "mode": "rw", "shared": True}
    made = create(task_dir, "cache:/given/cache:rw", "single/wheel:/given/single:rw", "kept:/given/kept", shared)
    yield made
    made.close()


def said(sandbox: Sandbox, text: str, phase: Phase) -> str:
    result = sandbox.run(["/bin/sh", "-c", text], phase=phase, timeout=60)
    return (result.stdout + result.stderr).decode()


def test_graders_see_a_writable_mount_as_preparation_left_it(sandbox: Sandbox, task_dir: Path) -> None:
    prepare = "cd /given/cache && echo prepared > wheel && mkdir -m 700 own && echo x > own/x && ln -s own/x link"
    assert said(sandbox, prepare, Phase.PREPARE) == ""
    poison = (
        "cd /given && for file in cache/wheel cache/own/x cache/new single shared/wheel; do echo poison > $file; done"
    )
    assert said(sandbox, poison, Phase.AGENT) == ""
    sandbox.begin_grading()
    show = "cd /given && cat cache/wheel cache/link single kept/wheel shared/wheel; ls cache"
    assert said(sandbox, show, Phase.GRADE).split() == [
        *("prepared", "x", "original", "original", "poison"),
        *("link", "own", "wheel"),
    ]
    assert said(sandbox, show, Phase.RUN).split() == [
        *("poison", "poison", "poison", "original", "poison"),
        *("link", "new", "own", "wheel"),
    ]
    assert said(sandbox, "echo graded | tee /given/cache/wheel /given/single >/dev/null", Phase.GRADE) == ""
    assert said(sandbox, "cat /given/cache/wheel /given/single", Phase.RUN).split() == ["poison", "poison"]
    assert [(task_dir / name / "wheel").read_text() for name in ("cache", "single")] == ["original\n"] * 2


@pytest.mark.parametrize("target", ["/usr/local/bin/tool", "/usr/bin/x/y", "/usr/local/sbin", "/bin/a"])
@pytest.mark.parametrize("shared", [False, True])
def test_nothing_writable_is_mounted_where_programs_are_found(task_dir: Path, target: str, shared: bool) -> None:
    mount = {"source": "cache", "target": target, "mode": "rw", "shared": shared}
    with pytest.raises(TrialError, match=rf"extra_mounts\[1\]: '{target}': .* a folder of PATH") as raised:
        create(task_dir, "kept:/given/kept", mount)
    assert raised.value.cause is Cause.CONFIGURATION


def test_what_was_mounted_is_told(sandbox: Sandbox, task_dir: Path) -> None:
    cache, single, kept, shared = sandbox.mounted
    assert [str(mount.target) for mount in sandbox.mounted] == [
        "/given/cache",
        "/given/single",
        "/given/kept",
        "/given/shared",
    ]
    assert (kept.source, shared.source) == (task_dir / "kept", task_dir / "shared")
    assert all(mount.source.is_relative_to(sandbox.root) for mount in (cache, single))
