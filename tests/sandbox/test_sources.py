"""Repositories and npm packages that a workspace starts with."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.protocol import Phase
from pytest_codereval.sandbox.staging import stage_workspace

from .conftest import MakeTask

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "init.defaultBranch=trunk"]
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with three commits, a tag at the second, and a branch of its own."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "-q")
    for number in (1, 2, 3):
        (folder / "file.txt").write_text(f"version {number}\n", encoding="utf-8")
        (folder / f"only-{number}").write_text(f"secret of {number}\n", encoding="utf-8")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"commit {number}")
        (folder / f"only-{number}").unlink()
        if number == 2:
            git(folder, "tag", "v2")
            git(folder, "tag", "-a", "told", "-m", "secret of a tag")
            git(folder, "branch", "side")
    (folder / ".git" / "hooks").mkdir(exist_ok=True)
    return folder


def repo(url: Path | str, **more: object) -> str:
    return f"template_sources: {json.dumps([{'type': 'repo', 'url': str(url), **more}])}"


def staged(sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path, block: str) -> Path:
    stage_workspace(sandbox, make_task(block), task_dir)
    return sandbox.workspace / "repo"


@pytest.mark.parametrize(
    ("commit", "version"), [(None, 3), ("v2", 2), ("told", 2), ("side", 2), ("short", 1), ("full", 1)]
)
def test_one_commit_without_remotes(
    sandbox: DirectorySandbox,
    make_task: MakeTask,
    task_dir: Path,
    origin: Path,
    commit: str | None,
    version: int,
) -> None:
    first = git(origin, "rev-list", "--max-parents=0", "HEAD")
    named = {"short": first[:8], "full": first}.get(commit or "", commit)
    place = staged(sandbox, make_task, task_dir, repo(origin, **({"commit": named} if named else {})))
    assert (place / "file.txt").read_text() == f"version {version}\n"
    assert git(place, "rev-list", "--all").count("\n") == 0
    assert git(place, "log", "--format=%s") == f"commit {version}"
    assert git(place, "remote") == ""
    assert git(place, "status", "--porcelain") == ""
    assert str(origin) not in "".join(
        path.read_text(errors="replace") for path in (place / ".git").rglob("*") if path.is_file()
    )
    known = git(place, "cat-file", "--batch-all-objects", "--batch-check").split()[::3]
    texts = "\n".join(git(place, "cat-file", "-p", name) for name in known)
    assert {line for line in texts.splitlines() if line.startswith("secret of")} == {f"secret of {version}"}


def test_the_history_comes_where_it_is_asked_for(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path, origin: Path
) -> None:
    place = staged(sandbox, make_task, task_dir, repo(origin, commit="v2", history=True))
    assert git(place, "log", "--format=%s") == "commit 2\ncommit 1"
    assert "v2" in git(place, "tag")
    assert git(place, "remote") == ""
    assert "codereval" not in git(place, "for-each-ref")
    texts = (path.read_text(errors="replace") for path in (place / ".git").rglob("*") if path.is_file())
    assert str(origin) not in "".join(texts)


def test_variables_say_how_to_reach_a_repository_and_not_which_one_is_meant(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path, origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(task_dir / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(task_dir / "index"))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"sh -c 'exec git-upload-pack {origin}' --")
    monkeypatch.setenv("GIT_SSH_VARIANT", "simple")
    place = staged(sandbox, make_task, task_dir, repo("ssh://host.invalid/x.git"))
    assert (place / "file.txt").read_text() == "version 3\n"
    assert not list(task_dir.glob("[!t]*"))


def test_a_relative_path_starts_at_the_task(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path, origin: Path
) -> None:
    shutil.copytree(origin, task_dir / "data")
    assert (staged(sandbox, make_task, task_dir, repo("data")) / "file.txt").is_file()


@pytest.mark.parametrize(
    ("source", "cause", "said"),
    [
        ({"url": "--upload-pack=touch /tmp/x"}, Cause.SANDBOX, "fetch"),
        ({"url": "$NO_SUCH_VARIABLE/x"}, Cause.CONFIGURATION, "NO_SUCH_VARIABLE"),
        ({"url": "ext::sh -c touch% x"}, Cause.SANDBOX, "git fetch"),
        ({"url": "ORIGIN", "commit": "nowhere"}, Cause.CONFIGURATION, "nowhere"),
        ({"url": "ORIGIN", "commit": "--help"}, Cause.CONFIGURATION, "dash"),
        ({"url": "ORIGIN", "commit": "refs/heads/*:refs/heads/*"}, Cause.CONFIGURATION, "names no commit"),
        ({"url": "http://me:hunter2@hunter2@127.0.0.1:9/x.git"}, Cause.SANDBOX, "git fetch"),
        ({"url": "http://me:hunter2hunter2@127.0.0.1:9/x.git"}, Cause.SANDBOX, "git fetch"),
    ],
)
def test_what_cannot_be_had_is_an_error(
    sandbox: DirectorySandbox,
    make_task: MakeTask,
    task_dir: Path,
    origin: Path,
    source: dict[str, str],
    cause: Cause,
    said: str,
) -> None:
    given = {key: str(origin) if value == "ORIGIN" else value for key, value in source.items()}
    with pytest.raises(TrialError) as caught:
        staged(sandbox, make_task, task_dir, repo(**given))
    assert caught.value.cause is cause
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_hooks_and_filters_of_the_machine_do_not_run(
    sandbox: DirectorySandbox,
    make_task: MakeTask,
    task_dir: Path,
    origin: Path,
    tmp_path: Path,
    variables: Callable[..., None],
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n", encoding="utf-8")
    (hooks / "post-checkout").chmod(0o755)
    (tmp_path / ".gitconfig").write_text(f"[core]\n\thooksPath = {hooks}\n", encoding="utf-8")
    variables(HOME=str(tmp_path))
    staged(sandbox, make_task, task_dir, repo(origin))
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_packages_are_there_for_the_agent(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path, tmp_path: Path, variables: Callable[..., None]
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    described = {"name": "sample-tool", "version": "1.0.0", "bin": {"sample-tool": "tool.js"}}
    (package / "package.json").write_text(json.dumps(described), encoding="utf-8")
    (package / "tool.js").write_text("#!/usr/bin/env node\nconsole.log('forty-two')\n", encoding="utf-8")
    (package / "tool.js").chmod(0o755)
    archive = tmp_path / "sample-tool-1.0.0.tgz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(package, "package")
    variables(NPM_CONFIG_OFFLINE="true", NPM_CONFIG_UPDATE_NOTIFIER="false")
    stage_workspace(sandbox, make_task(f"node: {{env_packages: ['{archive}']}}"), task_dir)
    assert {entry.name for entry in sandbox.workspace.iterdir()} == {"node_modules"}
    assert sandbox.run(["sh", "-c", "sample-tool"], phase=Phase.AGENT, timeout=60).stdout_text == "forty-two\n"
    sandbox.end_preparation()
    sandbox.begin_grading()
    assert sandbox.run(["sh", "-c", "sample-tool"], phase=Phase.GRADE, timeout=60).exit_status == 127


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_packages_that_cannot_be_had_are_an_error(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path
) -> None:
    for block, said in (("['--global']", "is no package"), ("['./nowhere.tgz']", "npm install")):
        with pytest.raises(TrialError, match=said):
            stage_workspace(sandbox, make_task(f"node: {{env_packages: {block}}}"), task_dir)
