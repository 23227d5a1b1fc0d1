"""The workspace is one place under two names where a task sets `working_dir`: calls, programs and links know both."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.recorder.answering import ShimPlan
from pytest_codereval.recorder.recorder import Recorder
from pytest_codereval.running import launcher
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.docker.containers import Container
from pytest_codereval.sandbox.docker.driver import DockerDriver
from pytest_codereval.sandbox.docker.mounting import mounts_of
from pytest_codereval.sandbox.drivers import Order
from pytest_codereval.sandbox.enclosure import Mount, View
from pytest_codereval.sandbox.grading_copy import copy_for_grading
from pytest_codereval.sandbox.protocol import ProcessResult
from pytest_codereval.task.models import SandboxConfig

from .making import create, sh

LINKS = {
    "python": "/conda/envs/agent/bin/python",
    "uv": "/root/.local/share/uv/python/bin/python3",
    "absolute": "/srv/app/sub/../sub/file",
    "plain": "/srv/app/sub/file",
}
DROPPED = {"kernel": "/proc/self/environ", "temporary": "/tmp/x", "accounts": "/etc/passwd"}


def test_calls_programs_and_links_by_the_second_name_are_of_the_workspace(base_image: str, tmp_path: Path) -> None:
    task = tmp_path / "task"
    task.mkdir()
    (task / "answer").touch()
    with contextlib.closing(create(base_image, withhold=(task,), docker={"working_dir": "/srv/app"})) as sandbox:
        recorder = Recorder(
            [ShimPlan("tool")],
            sandbox.bin_dir,
            sandbox.spool_dir,
            workspace=sandbox.workspace,
            interpreter=sandbox.shim_shell,
            foreign_system=True,
            foreign_user=sandbox.foreign_user,
            host_path_of=sandbox.host_path_of,
        )
        with contextlib.closing(recorder):
            recorder.install()
            tool = sandbox.run_tool(["sh", "-c", "pwd; ls /srv/app"], cwd=task, timeout=30)
            assert tool.stdout_text == f"{task}\n"
            texts = {**LINKS, **DROPPED, "task": f"{task}/answer", "home": f"{sandbox.home}/x"}
            links = "".join(f"ln -s {text} {name}; " for name, text in texts.items())
            done = sh(sandbox, f"mkdir sub; echo x >sub/file; {links} tool; cd sub; tool; cd /srv; tool")
            assert done.stderr == b""
            sandbox.reap()
            assert [call.cwd for call in recorder.drain().invocations] == [".", "sub", "/srv"]
        sandbox.begin_grading()
        kept = {path.name: str(path.readlink()) for path in sandbox.workspace.iterdir() if path.is_symlink()}
        assert kept == LINKS | {"plain": "sub/file"}
        command = "cd sub && codereval-run sh -c 'pwd; cat file ../plain' && cd / && codereval-run pwd"
        result = launcher.grade(sandbox, command, timeout=30, env={})
        assert result.stdout_text == "/srv/app/sub\nx\nx\n/srv/app\n"


@pytest.mark.parametrize("other", ["/srv/app", "/srv", "/srv/app/data"])
def test_nothing_else_can_lie_where_the_workspace_does(other: str, tmp_path: Path) -> None:
    view = View(tmp_path, (Mount(tmp_path, tmp_path, writable=True), Mount(Path("/srv"), Path(other))))
    with pytest.raises(TrialError, match=r"sandbox\.docker\.working_dir: /srv/app") as caught:
        mounts_of(view, {}, alias=Mount(tmp_path, Path("/srv/app"), writable=True))
    assert caught.value.cause is Cause.CONFIGURATION


def test_a_checkout_where_the_workspace_is_to_lie_is_told_before_anything_runs(base_image: str) -> None:
    with pytest.raises(TrialError, match=r"sandbox\.docker\.working_dir: /srv/app: .* /srv/app/checkout"):
        create(base_image, withhold=(Path("/srv/app/checkout"),), docker={"working_dir": "/srv/app"})


def test_a_sandbox_that_is_not_seeded_takes_a_copy_of_one_that_is(base_image: str) -> None:
    config = SandboxConfig.model_validate({"driver": "docker", "docker": {"working_dir": "/usr/share/git-core"}})
    order = Order(config, image=base_image, session="test", trial="test")
    with (
        contextlib.closing(DockerDriver().create(order)) as worked_in,
        contextlib.closing(DockerDriver().create(dataclasses.replace(order, seeded=False))) as judged_in,
    ):
        names = {path.name for path in worked_in.workspace.iterdir()}
        assert names
        copy_for_grading(worked_in.workspace, judged_in.workspace, worked_in.workspace, (), worked_in)
        assert {path.name for path in judged_in.workspace.iterdir()} == names


def test_no_start_of_a_container_counts_for_the_timeout_of_a_grader(
    base_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Container] = []
    at_start: list[int] = []
    start, run = Container.start, DirectorySandbox.run

    def noted_start(self: Container) -> None:
        started.append(self)
        start(self)

    def noted_run(self: DirectorySandbox, *arguments: Any, **options: Any) -> ProcessResult:
        at_start.append(len(started))
        return run(self, *arguments, **options)

    monkeypatch.setattr(Container, "start", noted_start)
    monkeypatch.setattr(DirectorySandbox, "run", noted_run)
    with contextlib.closing(create(base_image)) as sandbox:
        sandbox.begin_grading()
        launcher.grade(sandbox, "codereval-run true", timeout=30, env={})
        assert (at_start, len(started)) == ([2], 2)
