"""What tasks mount from the host: copies where something could be spoilt or given away, and nothing dangerous."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox import extra_mounts as module
from pytest_codereval.sandbox.enclosure import Mount, Owner
from pytest_codereval.sandbox.extra_mounts import extra_mounts
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.models import SandboxConfig

TASK = (
    "task_id: t\ndescription: d\ninitial_prompt: p\n"
    "success_criteria:\n  - {type: file_exists, path: a, description: d}\n"
)
MakeMounts = Callable[..., tuple[Mount, ...]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The operator's HOME."""
    folder = tmp_path / "operator"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def task_dir(tmp_path: Path) -> Path:
    """A task with a reference, in a checkout with a second task."""
    folder = tmp_path / "checkout" / "tasks" / "one"
    write(folder / "task.yaml", TASK + "reference: {directory: reference}\n")
    write(folder / "reference" / "answer.txt")
    write(folder / "grade.py")
    write(folder / "data" / "in.txt")
    write(folder.parent / "two" / "task.yaml", TASK)
    write(folder.parent / "two" / "grade.py")
    write(folder.parents[1] / "lib" / "code.py")
    write(folder.parents[1] / ".git" / "config")
    return folder


@pytest.fixture
def mounts(home: Path, task_dir: Path, tmp_path: Path) -> MakeMounts:
    """The mounts of the written entries, below `tmp_path`/root."""
    (tmp_path / "root").mkdir()

    def make(*written: Any, owner: Owner | None = None, keys: tuple[Path, ...] = ()) -> tuple[Mount, ...]:
        task = load_task(task_dir / "task.yaml").task
        config = SandboxConfig(docker={"extra_mounts": written})  # type: ignore[arg-type]
        return extra_mounts(config, task, task_dir, tmp_path / "root", keys, owner=owner)

    return make


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def refusal(mounts: MakeMounts, *written: Any, **further: Any) -> str:
    with pytest.raises(TrialError) as raised:
        mounts(*written, **further)
    assert raised.value.cause is Cause.CONFIGURATION
    return str(raised.value)


def test_what_is_read_only_is_mounted_as_it_is(mounts: MakeMounts, task_dir: Path, home: Path) -> None:
    write(home / "tools" / "a")
    found = mounts("data:/data", "~/tools/a:/opt/a:ro", {"source": "$HOME/tools", "target": "/tools/"})
    assert found == (
        Mount(task_dir / "data", Path("/data")),
        Mount(home / "tools" / "a", Path("/opt/a")),
        Mount(home / "tools", Path("/tools")),
    )


def test_what_is_writable_is_a_copy_unless_it_is_shared(mounts: MakeMounts, home: Path, tmp_path: Path) -> None:
    write(home / ".uipath" / "deep" / "auth", "secret").chmod(0o640)
    write(home / "single").chmod(0o755)
    (home / ".uipath" / "link").symlink_to("deep/auth")
    shared = {"source": "~/.uipath", "target": "/s", "mode": "rw", "shared": True}
    copied, single, same = mounts("~/.uipath:/u:rw", "~/single:/x:rw", shared)
    assert same == Mount(home / ".uipath", Path("/s"), writable=True)
    assert copied.writable
    assert single.writable
    assert copied.source.is_relative_to(tmp_path / "root")
    assert files(copied.source) == ["deep/auth", "link"]
    assert stat.S_IMODE((copied.source / "deep" / "auth").stat().st_mode) == 0o640
    (copied.source / "deep" / "auth").write_text("spoilt")
    assert (home / ".uipath" / "deep" / "auth").read_text() == "secret"
    assert os.access(single.source, os.X_OK)
    assert not single.source.samefile(home / "single")


def test_home_in_a_target_is_that_of_the_agent(mounts: MakeMounts, tmp_path: Path, home: Path) -> None:
    write(home / "a")
    agent = tmp_path / "root" / "home"
    found = mounts("~/a:~/a", "~/a:$HOME/b", "~/a:${HOME}/c")
    assert [mount.target for mount in found] == [agent / "a", agent / "b", agent / "c"]


def test_variables_are_expanded_on_both_sides(mounts: MakeMounts, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(home / "a")
    monkeypatch.setenv("CODEREVAL_SOURCE", str(source))
    monkeypatch.setenv("CODEREVAL_TARGET", "/opt/x")
    assert mounts("${CODEREVAL_SOURCE}:$CODEREVAL_TARGET") == (Mount(source, Path("/opt/x")),)
    monkeypatch.setenv("CODEREVAL_TARGET", "/etc")
    assert "/etc" in refusal(mounts, "${CODEREVAL_SOURCE}:$CODEREVAL_TARGET")
    assert "CODEREVAL_UNSET" in refusal(mounts, "data:/a", "$CODEREVAL_UNSET/x:/b")
    assert "extra_mounts[1]" in refusal(mounts, "data:/a", "data:$CODEREVAL_UNSET")


def test_a_source_that_is_not_there_is_named(mounts: MakeMounts, task_dir: Path) -> None:
    assert str(task_dir / "nowhere") in refusal(mounts, "nowhere:/x")


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_answer_keys_are_left_out_of_what_holds_them(
    mounts: MakeMounts, task_dir: Path, tmp_path: Path, mode: str
) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "lib" / "same").hardlink_to(task_dir / "reference" / "answer.txt")
    (checkout / "lib" / "linked").symlink_to(task_dir / "reference")
    (checkout / "lib" / "fine").symlink_to("code.py")
    write(checkout / "runs" / "record.json")
    (found,) = mounts(f"../..:/checkout:{mode}", keys=(checkout / "runs",))
    assert found.source.is_relative_to(tmp_path / "root")
    assert found.writable == (mode == "rw")
    assert files(found.source) == ["lib/code.py", "lib/fine"]


@pytest.mark.parametrize("source", ["reference", "reference/answer.txt", "task.yaml", ".", "..", "linked", "same"])
def test_answer_keys_themselves_are_refused(mounts: MakeMounts, task_dir: Path, source: str) -> None:
    (task_dir / "linked").symlink_to("reference")
    (task_dir / "same").hardlink_to(task_dir / "reference" / "answer.txt")
    write(task_dir.parent / "other.yaml", TASK)
    assert "cannot be mounted" in refusal(mounts, f"{source}:/x")


def test_a_shared_mount_of_answer_keys_is_refused(mounts: MakeMounts) -> None:
    shared = {"source": "../..", "target": "/x", "mode": "rw", "shared": True}
    assert "answer keys" in refusal(mounts, shared)


@pytest.mark.parametrize(
    "source", ["/", "/proc", "/sys/kernel", "/dev/null", "/etc/shadow", "/etc", "~", "~/..", "~/.ssh", "~/.config"]
)
def test_what_is_dangerous_is_refused(mounts: MakeMounts, home: Path, source: str) -> None:
    write(home / ".ssh" / "id")
    write(home / ".config" / "gh" / "hosts.yml")
    assert "cannot be mounted" in refusal(mounts, f"{source}:/x")


def test_links_to_what_is_dangerous_are_refused(mounts: MakeMounts, home: Path, task_dir: Path) -> None:
    write(home / ".aws" / "credentials")
    (task_dir / "innocent").symlink_to(home / ".aws" / "credentials")
    assert ".aws" in refusal(mounts, "innocent:/x")


def test_sockets_are_refused_and_left_out(
    mounts: MakeMounts, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / "run" / "file")
    monkeypatch.chdir(home / "run")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s")
        monkeypatch.chdir(tmp_path)
        assert "neither a file nor a folder" in refusal(mounts, "~/run/s:/x")
        (found,) = mounts("~/run:/x")
        assert files(found.source) == ["file"]
        monkeypatch.setenv("DOCKER_HOST", f"unix://{home}/run/s")
        assert "rules the host" in refusal(mounts, "~/run:/x")


def test_what_is_too_large_to_be_copied_is_refused(
    mounts: MakeMounts, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / "big" / "a", "x" * 3000)
    monkeypatch.setattr(module, "LARGEST_COPY", 2000)
    assert "copied" in refusal(mounts, "~/big:/x:rw")
    assert mounts("~/big:/x")[0].source == home / "big"
    monkeypatch.setattr(module, "MOST_ENTRIES", 0)
    assert "more than 0 files" in refusal(mounts, "~/big:/x")


@pytest.mark.skipif(os.getuid() != 0, reason="only root runs sandboxes as another user")
def test_what_the_user_of_the_sandbox_could_not_read_is_copied_for_him(
    mounts: MakeMounts, home: Path, tmp_path: Path
) -> None:
    write(home / "private" / "a").chmod(0o600)
    write(home / "public" / "a").chmod(0o644)
    (home / "public").chmod(0o755)
    private, public = mounts("~/private:/x", "~/public:/y", owner=Owner(61000, 61000))
    assert public.source == home / "public"
    assert not private.writable
    assert {path.stat().st_uid for path in (private.source, private.source / "a")} == {61000}
    assert stat.S_IMODE((tmp_path / "root" / "mounts").stat().st_mode) == 0o755
    assert (home / "private" / "a").stat().st_uid == 0
