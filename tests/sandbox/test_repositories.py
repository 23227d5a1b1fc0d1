"""In the copy that is graded, repositories of git run nothing of the agent's, and are otherwise what they were."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_codereval.sandbox.git_settings import BROKEN, cut
from pytest_codereval.sandbox.grading_copy import make_grading_copy

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="no git here")

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
}
START = """
git init -q -b main . && git config user.name a && git config user.email a@example.test
printf '#!/bin/sh\\ntouch "%s/ran"\\ncat\\n' "$PWD" >evil && chmod +x evil && echo one >tracked
git add . && git commit -q -m one && echo two >tracked
"""
LOOK = "git status; git diff; git add -n .; git log -p -2; git show HEAD; git blame HEAD -- tracked; git branch -vv"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / "workspace"
    folder.mkdir(parents=True)
    return folder


def sh(folder: Path, script: str) -> str:
    done = subprocess.run(["sh", "-c", script], cwd=folder, env=ENVIRONMENT, capture_output=True, timeout=60)
    return done.stdout.decode() + done.stderr.decode()


def graded(workspace: Path) -> dict[str, str]:
    manifest = make_grading_copy(workspace, workspace.parent / "sealed")
    return {each.path: each.reason for each in manifest.skipped}


ARM = """
git config diff.external "$PWD/evil"; git config diff.x.textconv "$PWD/evil"; git config core.fsmonitor "$PWD/evil"
git config filter.x.clean "$PWD/evil"; git config filter.x.smudge "$PWD/evil"; git config core.pager "$PWD/evil"
echo '* diff=x filter=x' >.gitattributes; rm -f ran
"""
HIDDEN = {
    "plainly": "true",
    "in a file that is included": """mv .git/config cfg; printf '[include]\\npath = ../cfg\\n' >.git/config""",
    "behind a link": "mv .git/config cfg; ln -s ../cfg .git/config",
    "in another folder": "mv .git store; echo 'gitdir: store' >.git",
    "behind a linked folder": "mv .git store; ln -s store .git",
    "in a worktree": """
        git worktree add -q -f tree; git config extensions.worktreeConfig true; mv .git/config cfg
        git config -f .git/config core.repositoryformatversion 1
        git config -f .git/config extensions.worktreeConfig true; cp cfg .git/config.worktree
        cp cfg .git/worktrees/tree/config.worktree; cp .gitattributes tree; echo two >tree/tracked""",
    "in odd spelling": "printf '\\357\\273\\277' | cat - .git/config >c; mv c .git/config",
}


@pytest.mark.parametrize("script", HIDDEN.values(), ids=HIDDEN.keys())
def test_programs_that_a_repository_names_do_not_run(workspace: Path, script: str) -> None:
    sh(workspace, START + ARM + script + "\nrm -f ran")
    look = f"{LOOK}; cd tree 2>&- && {{ {LOOK}; }}"
    sh(workspace, look)
    (workspace / "ran").unlink()
    told = graded(workspace)
    sh(workspace, look)
    assert not (workspace / "ran").exists()
    assert "settings of git" in "".join(told.values())


@pytest.mark.parametrize(
    "script",
    [
        "true",
        "echo '*.bin filter=lfs diff=lfs merge=lfs -text' >.gitattributes; echo x >a.bin; git add .; git commit -qm l",
        "git remote add origin ../other; git config branch.main.remote origin; git config core.quotePath off; echo >ü",
        "printf '[user]\\n\\tname = \"b c\" ; why\\n' >>.git/config; git worktree add -q tree; git stash -q",
        "git clone -q . inner; git clone -q --bare . b.git; git -c protocol.file.allow=always submodule add -q ./ sub",
    ],
)
def test_an_honest_repository_is_what_it_was(workspace: Path, script: str) -> None:
    sh(workspace, START + script)
    ask = f"{LOOK}; git config -l | sort; for d in inner sub tree b.git; do (cd $d 2>&- && git log --all); done"
    before = sh(workspace, ask)
    assert "one" in before
    told = graded(workspace)
    assert sh(workspace, ask) == before
    assert all("written anew" in reason for reason in told.values())


def test_a_configuration_is_kept_to_the_byte_or_beside(workspace: Path) -> None:
    sh(workspace, START + "git init -q other; git -C other config alias.x status; cp -a .git/config before")
    whole = (workspace / "other/.git/config").read_bytes()
    times = [(workspace / name).stat().st_mtime_ns for name in (".git", "other/.git")]
    told = graded(workspace)
    assert told == {"other/.git/config": "settings of git that graders must not follow: alias.x"}
    assert (workspace / ".git/config").read_bytes() == (workspace / "before").read_bytes()
    assert (workspace / "other/.git/config.agent").read_bytes() == whole
    assert [(workspace / name).stat().st_mtime_ns for name in (".git", "other/.git")] == times
    assert sh(workspace / "other", "git config -f .git/config.agent alias.x") == "status\n"
    assert sh(workspace / "other", 'git -c include.path="$PWD/.git/config.agent" config alias.x') == "status\n"


def test_what_leads_out_of_the_workspace_is_removed(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "outer").mkdir()
    sh(tmp_path / "outer", START + ARM)
    script = f"""
        mkdir a b c; echo 'gitdir: {tmp_path}/outer/.git' >a/.git; echo 'gitdir: ../../../outer/.git' >b/.git
        git init -q c; rm -rf c/.git/objects c/.git/refs; echo ../../../../outer/.git >c/.git/commondir
        git config core.worktree ../../../outer
    """
    sh(workspace, START + script)
    told = graded(workspace)
    assert {"a/.git", "b/.git", "c/.git/commondir", ".git/config"} == set(told)
    for folder in "abc":
        sh(workspace / folder, f"export GIT_CEILING_DIRECTORIES='{workspace}'; {LOOK}")
    assert not (tmp_path / "outer" / "ran").exists()
    assert sh(workspace, "git rev-parse --show-toplevel") == f"{workspace}\n"


def test_strange_configurations_stop_nothing(workspace: Path) -> None:
    sh(workspace, START)
    for name in ("big", "folder", "loop", "gone", "fake"):
        sh(workspace, f"git init -q {name}")
    config = {name: workspace / name / ".git" / "config" for name in ("big", "folder", "loop", "gone", "fake")}
    config["big"].write_bytes(b"#" * (2 << 20))
    for name in ("folder", "loop", "gone"):
        config[name].unlink()
    config["folder"].mkdir()
    config["loop"].symlink_to("config")
    config["gone"].symlink_to("nowhere")
    config["fake"].with_name("config.agent").write_text("[alias]\nx = status\n")
    told = graded(workspace)
    assert told["big/.git/config"] == "cannot be read by git"
    assert "made for graders" in told["fake/.git/config.agent"]
    assert not config["fake"].with_name("config.agent").exists()


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
def test_a_repository_at_a_path_that_is_too_long_stops_nothing(workspace: Path) -> None:
    name = "x" * 200
    dig = f"for i in $(seq 30); do mkdir {name} && cd -P {name} || exit 1; done; mkdir objects refs; echo x >config"
    subprocess.run(["bash", "-c", dig], cwd=workspace, check=True)
    assert list(graded(workspace).values()) == ["not looked into: its path is too long"]
    subprocess.run(["rm", "-rf", workspace, workspace.parent / "sealed"], check=True)


@pytest.mark.parametrize(
    "text",
    [b"[core\n", b"x y\n", b'[core]\nbare = "a\n', b"[core]\n_x\n", b'[a "b]\n', b"[]\n", b"[core]\nbare = a\\q\n"],
)
def test_what_git_refuses_it_refuses_after(tmp_path: Path, text: bytes) -> None:
    done = cut(b"[user]\n\tname = a\n" + text, lambda value: True)
    assert done.broken
    assert done.text.endswith(BROKEN)
    for content in (text, done.text):
        (tmp_path / "config").write_bytes(content)
        assert "bad config" in sh(tmp_path, "git config -f config -l")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (b'[CORE]BARE\nfsmonitor = "x"', {"core.bare": None}),
        (b'[remote "a\\"b\\\\ \xff"] url = " x\\t\\\n y" z # c\n', {'remote.a"b\\ \xff.url': " x\t y z"}),
        (
            b"[remote.Old]\nUrl=1\n[core.x]\nbare=1\n[user]name= a  b ;c\r\n",
            {"remote.old.url": "1", "user.name": "a  b"},
        ),
        (b'[core]\nworktree = ..\nhooksPath = x\nbare = "" \n', {"core.bare": ""}),
    ],
)
def test_what_is_kept_means_the_same(tmp_path: Path, text: bytes, left: dict[str, str | None]) -> None:
    (tmp_path / "config").write_bytes(cut(text, lambda value: False).text)
    shown = subprocess.run(["git", "config", "-f", tmp_path / "config", "-lz"], capture_output=True, env=ENVIRONMENT)
    pairs = [entry.decode("latin-1").partition("\n") for entry in shown.stdout.split(b"\0")[:-1]]
    assert {name: value if sep else None for name, sep, value in pairs} == left
