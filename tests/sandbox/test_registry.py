"""Where sandboxes lie, and what happens to what a killed harness left."""

from __future__ import annotations

import os
import stat
import subprocess
import textwrap
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox.registry import Registry, registry, release_all
from pytest_codereval.sandbox.withholding import Withheld

from .conftest import MakeSandbox
from .processes import REPOSITORY, alive, needs_linux, needs_root, new_tag, wait_until
from .test_supervision import start_owner


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


def test_roots_are_private_and_opaque(place: Path) -> None:
    one = Registry(place)
    root = one.new_root()
    assert root.parts[: len(place.parts) + 1] == (*place.parts, f"cev-{os.getuid()}")
    for folder in (root, root.parent, root.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert one.new_root() != root
    one.release()
    assert list((place / f"cev-{os.getuid()}").iterdir()) == []


def test_a_lock_is_held_before_anything_else_is_there(place: Path) -> None:
    owner = Registry(place)
    root = owner.new_root()
    (root / "kept").write_text("x")
    Registry(place).release()
    assert (root / "kept").exists()
    owner.release()
    assert not root.exists()


@needs_linux
def test_what_a_killed_harness_left_is_swept_at_the_next_start(tmp_path: Path) -> None:
    tag = new_tag()
    with start_owner(f"mkdir -p a/b; chmod 0 a/b a; touch ready; sleep {tag}", tmp_path) as owner:
        assert owner.stdout is not None
        root = Path(owner.stdout.readline().strip())
        wait_until((root / "workspace" / "ready").exists)
        owner.kill()
        owner.wait()
    wait_until(lambda: not alive(tag))
    assert root.exists()
    base = root.parent.parent
    stray = base / "0a0b0c0d.lock"
    stray.write_text("")
    with start_owner("true", tmp_path) as following:
        assert following.wait() == 0
    assert not root.exists()
    assert list(base.iterdir()) == []


def test_a_harness_that_ends_leaves_nothing(tmp_path: Path) -> None:
    with start_owner("touch a; mkdir b; chmod 0 b", tmp_path) as owner:
        assert owner.wait() == 0
    assert list((tmp_path / f"cev-{os.getuid()}").iterdir()) == []


def test_a_directory_that_somebody_else_made_is_refused(place: Path) -> None:
    (place / f"cev-{os.getuid()}").symlink_to(place)
    with pytest.raises(TrialError, match="belongs to somebody else") as caught:
        registry(place)
    assert caught.value.cause is Cause.SANDBOX


def test_a_parent_with_spaces_is_refused_and_a_tmpdir_with_spaces_is_left_aside(
    make_sandbox: MakeSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "with space"
    odd.mkdir()
    with pytest.raises(TrialError, match="unquoted") as caught:
        make_sandbox(root_parent=odd)
    assert caught.value.cause is Cause.CONFIGURATION
    monkeypatch.setattr("tempfile.tempdir", str(odd))
    assert " " not in str(make_sandbox().root)


def test_a_tmpdir_behind_a_link_is_resolved(make_sandbox: MakeSandbox, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    sandbox = make_sandbox(root_parent=tmp_path / "link")
    assert sandbox.workspace.is_relative_to(Path(os.path.realpath(tmp_path / "real")))
    sandbox.close()
    release_all()


def test_a_tmpdir_inside_the_checkout_is_left_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "checkout" / "tmp"
    inside.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(inside))
    assert not registry(avoid=Withheld([tmp_path / "checkout"])).home.is_relative_to(inside)


@needs_root
def test_a_whole_trial_as_another_user() -> None:
    become = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3"]
    probe = "import enum, sys; enum.StrEnum; sys.path.insert(0, sys.argv[1]); import pytest_codereval.errors"
    if subprocess.run([*become, "-c", probe, str(REPOSITORY)], cwd="/", capture_output=True).returncode:
        pytest.skip("another user cannot run this interpreter, or read the project")
    code = """
        import os, sys
        from pytest_codereval.sandbox.environment import EnvironmentPlan
        from pytest_codereval.sandbox.protocol import Phase
        from tests.sandbox.making import create
        sandbox = create(environments=EnvironmentPlan())
        script = "mkdir -p a/b; echo x >a/b/c; chmod 0 a/b a; setsid sleep 77 & id -u"
        print(sandbox.run(["sh", "-c", script], phase=Phase.AGENT, timeout=60).stdout_text, end="")
        sandbox.reap()
        sandbox.close()
        print(sandbox.leftovers, sandbox.root.exists())
    """
    result = subprocess.run(
        [*become, "-c", textwrap.dedent(code)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "TMPDIR": "/tmp"},
        cwd="/",
        capture_output=True,
        text=True,
    )
    assert (result.stdout, result.stderr) == ("65534\n() False\n", "")
