"""The copy that graders work on: true to what an honest agent left, harmless whatever another one left."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox import directory, grading_copy
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.exposure import HostPrograms
from pytest_codereval.sandbox.grading_copy import copy_for_grading, make_grading_copy
from pytest_codereval.sandbox.links import system_links
from pytest_codereval.sandbox.protocol import Phase
from pytest_codereval.sandbox.snapshot import Limits, Skipped

from .conftest import MakeSandbox


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "root" / "workspace"
    folder.mkdir(parents=True)
    return folder


def graded(workspace: Path, *never: Path) -> dict[str, str]:
    """What was left out, with the reasons, of a copy that was made in place."""
    manifest = make_grading_copy(workspace, workspace.parent / "sealed", never)
    return {each.path: each.reason for each in manifest.skipped}


def test_permissions_times_and_names_are_kept(workspace: Path) -> None:
    (workspace / "sub" / "empty").mkdir(parents=True)
    for name, mode in (("key", 0o600), ("run", 0o6755), ("open", 0o666), ("closed", 0), ("a\nb", 0o640)):
        (workspace / "sub" / name).write_text(name)
        (workspace / "sub" / name).chmod(mode)
        os.utime(workspace / "sub" / name, (1, 2))
    (workspace / "sub" / os.fsdecode(b"\xff-")).touch()
    (workspace / "link").symlink_to("sub/key")
    os.utime(workspace / "link", (3, 4), follow_symlinks=False)
    (workspace / "sub").chmod(0o2751)
    for folder in ("sub/empty", "sub", "."):
        os.utime(workspace / folder, (5, 6))
    assert graded(workspace) == {}
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in (workspace / "sub").iterdir()}
    assert {name: modes[name] for name in ("key", "run", "open", "closed", "a\nb")} == {
        "key": "0o600",
        "run": "0o755",
        "open": "0o666",
        "closed": "0o400",
        "a\nb": "0o640",
    }
    assert oct((workspace / "sub").stat().st_mode & 0o7777) == "0o751"
    assert (workspace / "sub" / "key").stat().st_mtime == 2
    assert (workspace / "link").lstat().st_mtime == 4
    assert [(workspace / name).stat().st_mtime for name in ("sub/empty", "sub", ".")] == [6, 6, 6]
    assert os.fsdecode(b"\xff-") in modes


def test_a_virtual_environment_in_the_workspace_still_runs(workspace: Path) -> None:
    venv.create(workspace / ".venv", with_pip=False, symlinks=True)
    (workspace / ".venv" / "bin" / "own").symlink_to(workspace / ".venv" / "bin" / "python3")
    assert graded(workspace) == {}
    for name in ("python", "python3", "own"):
        ask = [workspace / ".venv" / "bin" / name, "-c", "import sys; print(sys.prefix)"]
        done = subprocess.run(ask, capture_output=True, check=True)
        assert done.stdout.decode().strip() == str(workspace / ".venv")


def test_links_inside_are_kept_as_they_are(workspace: Path) -> None:
    (workspace / "releases" / "2").mkdir(parents=True)
    (workspace / "releases" / "2" / "file").write_text("x")
    texts = {"current": f"{workspace}/releases/2", "file": "current/file", "later": "build/out", "top": "."}
    for name, text in texts.items():
        (workspace / name).symlink_to(text)
    assert graded(workspace) == {}
    assert {name: str((workspace / name).readlink()) for name in texts} == texts
    assert (workspace / "file").read_text() == "x"


def test_absolute_links_inside_lead_inside_a_copy_elsewhere(workspace: Path, tmp_path: Path) -> None:
    (workspace / "sub").mkdir()
    (workspace / "sub" / "file").write_text("x")
    (workspace / "sub" / "absolute").symlink_to(workspace / "sub" / "file")
    (workspace / "top").symlink_to(workspace)
    other = tmp_path / "other" / "workspace"
    manifest = copy_for_grading(workspace, other, workspace)
    assert set(manifest.links) == {"sub/absolute", "top"}
    assert (other / "sub" / "absolute").readlink() == Path("file")
    assert os.path.realpath(other / "top") == str(other)


def test_no_link_leads_to_what_only_graders_may_see(workspace: Path, tmp_path: Path) -> None:
    task = tmp_path / "task"
    task.mkdir()
    (task / "answer").write_text("s")
    links = {
        "task": str(task),
        "answer": str(task / "answer"),
        "relative": "../../task/answer",
        "chain": "relative",
        "through": "task/answer",
        "root": "..",
        "sealed": f"{workspace.parent}/sealed/x",
        "slash": "/",
        "home": str(Path.home()),
        "proc": "/proc/self/environ",
        "etc": "/etc/passwd",
        "dots": f"/usr/..{task}/answer",
        "around": f"/usr/bin/../..{task}",
        "tmp": "/tmp",
        "device": "/dev/zero",
    }
    for name, text in links.items():
        (workspace / name).symlink_to(text)
    skipped = graded(workspace, task)
    assert set(skipped) == set(links)
    assert all("link to" in reason for reason in skipped.values())
    assert list(workspace.iterdir()) == []


def test_withheld_places_within_the_system_are_withheld(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "usr").symlink_to("/usr")
    monkeypatch.setenv("HOME", "/opt/home")
    monkeypatch.setattr("sys.base_prefix", str(tmp_path / "py"))
    (tmp_path / "py" / "bin").mkdir(parents=True)
    allowed = system_links([Path("/opt/checkout"), tmp_path / "usr" / "share" / "x"], HostPrograms().holds)
    for path in ("/usr/bin/python3", "/opt/other", f"{tmp_path}/py/bin/python", "/dev/null", "/bin", "/nix/store/x"):
        assert allowed(path), path
    for path in ("/opt/checkout", "/opt/checkout/a", "/opt", "/usr/share/x/y", "/usr/share", "/opt/home/a", "/usrx"):
        assert not allowed(path), path


def test_what_is_dangerous_is_left_out_and_told(workspace: Path) -> None:
    os.mkfifo(workspace / "fifo")
    (workspace / "giant").touch()
    os.truncate(workspace / "giant", 1 << 40)
    deep = workspace
    for _ in range(210):
        deep = deep / "d"
        deep.mkdir()
    (workspace / "good").write_text("x")
    skipped = graded(workspace)
    assert skipped.pop("fifo") == "fifo"
    assert "larger than" in skipped.pop("giant")
    assert [reason for path, reason in skipped.items()] == ["more than 200 levels deep"]
    assert (workspace / "good").read_text() == "x"


def test_a_link_at_a_path_that_is_too_long_stops_nothing(workspace: Path) -> None:
    dig = f"for i in $(seq 30); do mkdir {'x' * 200} && cd -P {'x' * 200} || exit 1; done; ln -s . link"
    subprocess.run(["bash", "-c", dig], cwd=workspace, check=True)
    (workspace / "good").write_text("x")
    assert list(graded(workspace).values()) == ["its path is too long"]
    assert (workspace / "good").read_text() == "x"
    subprocess.run(["rm", "-rf", workspace, workspace.parent / "sealed"], check=True)


def test_holes_stay_holes_and_count_by_what_they_take(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(workspace / "sparse", "wb") as file:
        for at in (0, 50 << 20, 90 << 20):
            file.seek(at)
            file.write(b"data" * 1000)
        file.truncate(100 << 20)
    if (workspace / "sparse").stat().st_blocks * 512 > 10 << 20:
        pytest.skip("no sparse files here")
    monkeypatch.setattr(grading_copy, "GRADING_LIMITS", Limits(total_bytes=1 << 20))
    assert graded(workspace) == {}
    copy, original = workspace / "sparse", workspace.parent / "sealed" / "sparse"
    assert copy.stat().st_size == 100 << 20
    assert copy.stat().st_blocks * 512 < 1 << 20
    assert subprocess.run(["cmp", copy, original], check=False).returncode == 0


@pytest.mark.parametrize("kernel", [True, False], ids=["in the kernel", "through the process"])
def test_large_files_are_copied_exactly(workspace: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
    (workspace / "large").write_bytes(os.urandom(3 << 20) + b"end")
    (workspace / "other").hardlink_to(workspace / "large")
    if not kernel:
        monkeypatch.delattr(os, "copy_file_range")
    content = (workspace / "large").read_bytes()
    assert graded(workspace) == {}
    assert (workspace / "large").read_bytes() == (workspace / "other").read_bytes() == content
    assert (workspace / "large").stat().st_nlink == 1


def test_a_workspace_that_is_too_large_as_a_whole_is_an_error(
    sandbox: DirectorySandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was beyond the limit would count as absent, also for a criterion that wants it absent."""
    limits = Limits(entries=5)
    monkeypatch.setattr(grading_copy, "GRADING_LIMITS", limits)
    monkeypatch.setattr(directory, "GRADING_LIMITS", limits)
    sandbox.run(["sh", "-c", "touch 1 2 3 4 5 6"], phase=Phase.AGENT, timeout=60)
    sandbox.reap()
    with pytest.raises(TrialError, match="more than can be graded") as caught:
        sandbox.begin_grading()
    assert caught.value.cause is Cause.TAMPERED
    assert sandbox.graded is not None
    assert sandbox.graded.truncated


def test_what_was_left_out_is_known(sandbox: DirectorySandbox) -> None:
    assert sandbox.graded is None
    sandbox.run(["sh", "-c", "mkfifo fifo; echo x >a; ln -s a b"], phase=Phase.AGENT, timeout=60)
    sandbox.reap()
    sandbox.begin_grading()
    assert sandbox.graded is not None
    assert sandbox.graded.skipped == (Skipped("fifo", "fifo"),)
    assert ([file.path for file in sandbox.graded.files], sandbox.graded.links) == (["a"], ("b",))


def grader(sandbox: DirectorySandbox, command: str, material: Path) -> str:
    result = sandbox.run(["/bin/sh", "-c", command], phase=Phase.GRADE, timeout=60, env={"TASK_DIR": str(material)})
    return result.stdout_text + result.stderr_text


@pytest.fixture
def booby_trapped(make_sandbox: MakeSandbox, tmp_path: Path) -> tuple[DirectorySandbox, Path]:
    """A workspace where every file says its name when it is executed, and the folder of a task with graders."""
    task = tmp_path / "task"
    task.mkdir()
    (task / "helper.py").write_text("print('helper of the task')\n")
    (task / "check.py").write_text("import helper, json, textwrap; print(json.dumps(1))\n")
    sandbox = make_sandbox(EnvironmentPlan(withhold=(task,)))
    for name in ("json", "textwrap", "sitecustomize", "usercustomize", "conftest", "helper", "solution"):
        (sandbox.workspace / f"{name}.py").write_text(f"print('agent: {name}')\n")
    for name in (".bashrc", ".profile", ".pythonrc"):
        (sandbox.workspace / name).write_text(f"echo 'agent: {name}'\n")
    for name in ("ls", "python3", "grep"):
        (sandbox.workspace / name).write_text(f"#!/bin/sh\necho 'agent: {name}'\n")
        (sandbox.workspace / name).chmod(0o755)
    (sandbox.workspace / "x.pth").write_text("import sitecustomize\n")
    sandbox.reap()
    sandbox.begin_grading()
    return sandbox, task


@pytest.mark.parametrize(
    "command",
    [
        'python3 "$TASK_DIR/check.py"',
        "python3 -I -c 'import json'",
        "python3 -P -c 'import json'",
        "python3 -c 'import json, textwrap'",
        "python3 -m json.tool <json.py || true; echo 'import json' | python3; python3 - <<E\nimport textwrap\nE",
        "ls; grep -c x json.py",
        "bash -lc true; sh -lc true",
        "cd / && python3 -c 'import json'",
    ],
)
def test_graders_of_the_task_execute_nothing_of_the_agents(
    booby_trapped: tuple[DirectorySandbox, Path], command: str
) -> None:
    assert "agent:" not in grader(booby_trapped[0], command, booby_trapped[1])


@pytest.mark.parametrize(
    ("command", "ran"),
    [
        ("python3 -c 'import solution'", "agent: solution\n"),
        ("python3 solution.py", "agent: solution\n"),
        ('PYTHONPATH=. python3 "$TASK_DIR/check.py"', "agent: sitecustomize\n"),
    ],
)
def test_python_in_the_workspace_imports_what_lies_there(
    booby_trapped: tuple[DirectorySandbox, Path], command: str, ran: str
) -> None:
    """Graders that import the agent's module rely on it."""
    assert ran in grader(booby_trapped[0], command, booby_trapped[1])


@pytest.mark.skipif(not shutil.which("git"), reason="no git here")
def test_git_runs_neither_hooks_nor_monitors_of_the_agents_repository(sandbox: DirectorySandbox) -> None:
    agent = """
        git init -q . && git config user.email a@b && git config user.name n && touch file && git add file
        git commit -q -m one
        printf '#!/bin/sh\\ntouch %s/ran; exit 1\\n' "$PWD" >trap && chmod 755 trap
        mkdir -p .git/hooks && cp trap .git/hooks/pre-commit && git config core.fsmonitor "$PWD/trap"
    """
    assert sandbox.run(["sh", "-ec", agent], phase=Phase.AGENT, timeout=60).exit_status == 0
    (sandbox.workspace / "ran").unlink(missing_ok=True)
    sandbox.reap()
    sandbox.begin_grading()
    commit = "git status --porcelain && git add trap && git commit -q -m two && git log --format=%s"
    shown = sandbox.run(["sh", "-c", commit], phase=Phase.GRADE, timeout=60)
    assert (shown.exit_status, shown.stdout) == (0, b"?? trap\ntwo\none\n"), shown.stderr
    assert not (sandbox.workspace / "ran").exists()
    wanted = "echo x >more && git add more && git -c core.hooksPath=.git/hooks commit -q -m three"
    assert sandbox.run(["sh", "-c", wanted], phase=Phase.GRADE, timeout=60).exit_status == 1
    assert (sandbox.workspace / "ran").exists()
    assert "GIT_CONFIG_COUNT" not in sandbox.environment(Phase.RUN)


@pytest.mark.skipif(not shutil.which("git"), reason="no git here")
def test_an_authors_settings_of_git_come_behind_and_win(make_sandbox: MakeSandbox) -> None:
    given = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath", "GIT_CONFIG_VALUE_0": "/mine"}
    for env, path in ((given, "/mine"), ({"GIT_CONFIG_GLOBAL": "/dev/null"}, "/dev/null")):
        sandbox = make_sandbox(env=env)
        sandbox.begin_grading()
        ask = "git config core.hooksPath; git config core.fsmonitor"
        assert sandbox.run(["sh", "-c", ask], phase=Phase.GRADE, timeout=60).stdout_text == f"{path}\nfalse\n"


def test_programs_that_graders_run_have_places_of_their_own(make_sandbox: MakeSandbox, tmp_path: Path) -> None:
    """Else they could plant what later graders would execute: start-up files, compiled Python, packages."""
    sandbox = make_sandbox(EnvironmentPlan(passthrough=("KEY_FILE",), withhold=(tmp_path / "task",)))
    sandbox.run(
        ["sh", "-c", "echo tool >~/tool; echo 'echo mine' >>~/.profile; ln -s ~/tool $TMPDIR/t"],
        phase=Phase.PREPARE,
        timeout=60,
    )
    sandbox.reap()
    sandbox.begin_grading()
    grade, run = sandbox.environment(Phase.GRADE), sandbox.environment(Phase.RUN)
    for name in ("HOME", "TMPDIR", "PYTHONPYCACHEPREFIX"):
        assert grade[name] != run[name]
    plant = 'cat ~/tool $TMPDIR/t; echo "echo planted" >>~/.profile; touch $TMPDIR/planted; ls -A ~'
    shown = sandbox.run(["sh", "-lc", plant], phase=Phase.RUN, timeout=60)
    assert shown.stdout.startswith(b"mine\ntool\ntool\n"), shown
    after = sandbox.run(["sh", "-lc", "cat ~/tool; ls $TMPDIR"], phase=Phase.GRADE, timeout=60)
    assert after.stdout == b"mine\ntool\nt\n"


def test_the_interpreter_of_this_process_may_be_linked_to(workspace: Path) -> None:
    (workspace / "python").symlink_to(os.path.realpath(sys.executable))
    (workspace / "null").symlink_to("/dev/null")
    (workspace / "sh").symlink_to("../" * 40 + "bin/sh")
    assert graded(workspace) == {}
