"""Grading runs with what preparation left, never with what the agent made of it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.protocol import Phase, ProcessResult

from .conftest import MakeSandbox

Variables = Callable[..., None]


def run(sandbox: DirectorySandbox, script: str, phase: Phase, shell: tuple[str, ...] = ("sh", "-c")) -> ProcessResult:
    return sandbox.run([*shell, script], phase=phase, timeout=60)


def out(sandbox: DirectorySandbox, script: str, phase: Phase, shell: tuple[str, ...] = ("sh", "-c")) -> str:
    result = run(sandbox, script, phase, shell)
    assert result.exit_status == 0, result.stderr_text
    return result.stdout_text.strip()


def refusal(sandbox: DirectorySandbox) -> str:
    with pytest.raises(TrialError) as caught:
        sandbox.begin_grading()
    assert caught.value.cause is Cause.TAMPERED
    return str(caught.value)


@pytest.fixture
def path_without_python(variables: Variables, tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "env", "grep", "ls", "rm", "mkdir", "cat", "dirname", "chmod"):
        (folder / name).symlink_to(shutil.which(name) or "")
    variables(PATH=str(folder))
    return folder


def test_a_run_in_grade_before_grading_has_begun_is_a_fault_of_ours(sandbox: DirectorySandbox) -> None:
    shutil.rmtree(sandbox.workspace)
    with pytest.raises(TrialError, match="grading has not begun") as caught:
        run(sandbox, "true", Phase.GRADE)
    assert caught.value.cause is Cause.UNEXPECTED


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.AGENT])
def test_nothing_of_the_agent_runs_after_grading_has_begun(sandbox: DirectorySandbox, phase: Phase) -> None:
    sandbox.begin_grading()
    sandbox.begin_grading()
    with pytest.raises(TrialError, match="after grading has begun"):
        run(sandbox, "true", phase)


def test_agent_and_graders_find_what_preparation_left_in_home_and_tmpdir(sandbox: DirectorySandbox) -> None:
    prepare = (
        "umask 022; mkdir -p $HOME/.config/deep $TMPDIR/empty; echo token >$HOME/.config/deep/login; "
        "printf '#!/bin/sh\necho ran\n' >$TMPDIR/tool; chmod 755 $TMPDIR/tool; ln -s $HOME/.config $TMPDIR/config; "
        "ln -s tool $TMPDIR/other; mkfifo $TMPDIR/fifo; echo 'MINE=yes; export MINE' >>~/.profile; "
        "mkdir $HOME/sealed; touch $HOME/sealed/x; chmod 555 $HOME/sealed"
    )
    out(sandbox, prepare, Phase.PREPARE)
    sandbox.end_preparation()
    look = "cat $HOME/.config/deep/login $TMPDIR/config/deep/login; $TMPDIR/other; ls -d $TMPDIR/empty $HOME/sealed/x"
    agent = out(sandbox, look, Phase.AGENT)
    out(sandbox, "echo worse >$HOME/.config/deep/login; rm -rf $TMPDIR/*; chmod 700 $HOME/sealed", Phase.AGENT)
    sandbox.reap()
    sandbox.begin_grading()
    graded = out(sandbox, look, Phase.GRADE)
    assert agent.split()[:3] == graded.split()[:3] == ["token", "token", "ran"]
    assert out(sandbox, "echo $MINE", Phase.GRADE, ("sh", "-lc")) == "yes"
    assert str(sandbox.home) not in graded
    assert out(sandbox, "stat -c %a $HOME/sealed $TMPDIR/tool", Phase.GRADE) == "555\n755"


@pytest.mark.usefixtures("without_landlock")
def test_graders_get_nothing_that_the_agent_left_in_home_and_tmpdir(sandbox: DirectorySandbox) -> None:
    attack = (
        "mkdir ~/evil; printf '#!/bin/sh\nexit 0\n' >~/evil/grep; chmod +x ~/evil/grep; echo x >$TMPDIR/planted;"
        "for f in .profile .bash_profile .zprofile .bashrc; do echo 'PATH=$HOME/evil:$PATH; touch ran' >>~/$f; done;"
        "echo 'def length: 42;' >~/.jq; printf '[diff]\n\texternal = true\n' >~/.gitconfig; echo exit 0 >../login.sh"
    )
    out(sandbox, attack, Phase.AGENT)
    sandbox.reap()
    sandbox.begin_grading()
    for shell in (("sh", "-c"), ("sh", "-lc"), ("bash", "-lc")):
        assert run(sandbox, "echo x | grep -q y", Phase.GRADE, shell).exit_status == 1
    assert out(sandbox, "ls -A $TMPDIR; ls $HOME/.jq $HOME/.gitconfig || true", Phase.GRADE) == ""
    assert not (sandbox.workspace / "ran").exists()


def test_shims_in_grading_do_not_bring_back_the_agents_home(sandbox: DirectorySandbox) -> None:
    out(sandbox, "echo bad >$HOME/x; echo 'echo planted' >>~/.profile", Phase.AGENT)
    sandbox.reap()
    sandbox.begin_grading()
    tool = sandbox.bin_dir / "tool"
    tool.write_text("#!/bin/sh\necho shim\n")
    tool.chmod(0o755)
    for option in ("-c", "-lc"):
        shown = sandbox.run(
            ["sh", option, "tool; ls $HOME"], phase=Phase.GRADE, timeout=60, env=sandbox.env_with_shims()
        )
        assert shown.stdout == b"shim\n"


def kept_files(sandbox: DirectorySandbox) -> Iterator[Path]:
    own = {sandbox.workspace, sandbox.home, sandbox.tmp, sandbox.bin_dir}
    for folder in sandbox.root.iterdir():
        if folder.is_dir() and folder not in own:
            yield from (path for path in folder.rglob("*") if path.is_file())


ATTACKS_ON_THE_COPY: dict[str, Callable[[Path], object]] = {
    "rewritten": lambda file: file.write_text("worse"),
    "removed": lambda file: file.unlink(),
    "added": lambda file: (file.parent / "sitecustomize.py").write_text(""),
    "hidden away": lambda file: (file.parent / "__pycache__").mkdir(),
    "link": lambda file: (file.unlink(), file.symlink_to("/etc/passwd")),
    "whole": lambda file: shutil.rmtree(file.parent),
}


@pytest.mark.parametrize("attack", ATTACKS_ON_THE_COPY)
def test_what_was_kept_for_grading_is_verified(sandbox: DirectorySandbox, attack: str) -> None:
    out(sandbox, "echo token >$HOME/login; echo x >$TMPDIR/x", Phase.PREPARE)
    sandbox.end_preparation()
    out(sandbox, "true", Phase.AGENT)
    ATTACKS_ON_THE_COPY[attack](next(path for path in kept_files(sandbox) if path.name == "login"))
    sandbox.reap()
    assert "HOME" in refusal(sandbox)
    assert "HOME" in refusal(sandbox)
    assert out(sandbox, "ls $HOME; cat $TMPDIR/x", Phase.GRADE) == "x"


@pytest.mark.usefixtures("without_landlock")
def test_a_root_that_the_agent_removed_is_tampering(sandbox: DirectorySandbox) -> None:
    out(sandbox, 'rm -rf "$(dirname "$PWD")"', Phase.AGENT)
    with pytest.raises(TrialError, match="removed") as caught:
        sandbox.reap()
    assert caught.value.cause is Cause.TAMPERED
    assert "no place for grading" in refusal(sandbox)


@pytest.mark.usefixtures("without_landlock")
def test_trojans_in_place_of_our_python_reach_neither_graders_nor_later_trials(
    make_sandbox: MakeSandbox, path_without_python: Path
) -> None:
    first = make_sandbox()
    attack = 'w=$(command -v python); printf "#!/bin/sh\necho trojan\n" >$w; python'
    assert out(first, attack, Phase.AGENT) == "trojan"
    first.reap()
    first.begin_grading()
    ask = "python -c 'print(1)'"
    assert out(first, ask, Phase.GRADE) == "1"
    shown = first.run(["sh", "-c", ask], phase=Phase.GRADE, timeout=60, env=first.env_with_shims())
    assert shown.stdout == b"1\n"
    second = make_sandbox()
    assert [out(second, ask, phase) for phase in (Phase.PREPARE, Phase.AGENT)] == ["1", "1"]


@pytest.fixture
def with_venv(sandbox: DirectorySandbox) -> DirectorySandbox:
    venv = sandbox.root / "venv"
    packages = venv / "lib" / "python3" / "site-packages"
    (packages / "pkg").mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    (venv / "bin" / "tool").write_text("#!/bin/sh\necho staged\n")
    (venv / "bin" / "tool").chmod(0o755)
    (packages / "pkg" / "__init__.py").write_text("")
    (packages / "single.py").write_text("")
    sandbox.venv = venv
    return sandbox


PACKAGES = "cd $VIRTUAL_ENV/lib/python3/site-packages"


@pytest.mark.parametrize(
    ("attack", "named"),
    [
        ("printf x >$VIRTUAL_ENV/bin/grep", "added: bin/grep"),
        ("ln -s /bin/true $VIRTUAL_ENV/bin/test", "added: bin/test"),
        ("echo '#!/bin/sh' >$VIRTUAL_ENV/bin/tool", "changed: bin/tool"),
        ("ln -sf /bin/true $VIRTUAL_ENV/bin/python", "changed: bin/python"),
        ("rm $VIRTUAL_ENV/bin/tool", "removed: bin/tool"),
        (f"{PACKAGES}; touch sitecustomize.py", "sitecustomize.py"),
        (f"{PACKAGES}; mkdir usercustomize; touch usercustomize/__init__.py", "usercustomize"),
        (f"{PACKAGES}; echo 'import os' >x.pth", "x.pth"),
        (f"{PACKAGES}; echo 1 >>pkg/__init__.py", "changed: lib/python3/site-packages/pkg/__init__.py"),
        (f"{PACKAGES}; touch single.cpython-311-x86_64-linux-gnu.so", "single.cpython"),
        (f"{PACKAGES}; mkdir single; touch single/__init__.py", "single/__init__.py"),
        ("rm -rf $VIRTUAL_ENV", "removed: "),
        ("mv $VIRTUAL_ENV ../v; ln -s v ../venv; echo >../v/bin/tool", "changed: bin/tool"),
    ],
)
@pytest.mark.usefixtures("without_landlock")
def test_a_venv_that_no_longer_runs_what_was_staged_is_tampering(
    with_venv: DirectorySandbox, attack: str, named: str
) -> None:
    out(with_venv, attack, Phase.AGENT)
    with_venv.reap()
    assert named in refusal(with_venv)
    assert "VIRTUAL_ENV" not in with_venv.environment(Phase.GRADE)
    assert out(with_venv, "echo x | grep -c x", Phase.GRADE) == "1"


def test_an_agent_may_install_more_packages(with_venv: DirectorySandbox) -> None:
    install = (
        f"{PACKAGES}; mkdir -p new/__pycache__ new-1.0.dist-info pkg/__pycache__; touch new/__init__.py new/x.so "
        "new-1.0.dist-info/RECORD pkg/more.py pkg/__pycache__/more.pyc; touch $VIRTUAL_ENV/bin/new-tool"
    )
    out(with_venv, install, Phase.AGENT)
    with_venv.reap()
    with_venv.begin_grading()
    assert out(with_venv, "tool", Phase.GRADE) == "staged"


def test_what_preparation_does_to_the_venv_is_the_authors(with_venv: DirectorySandbox) -> None:
    out(with_venv, "echo '#!/bin/sh' >$VIRTUAL_ENV/bin/tool; touch $VIRTUAL_ENV/bin/grep2", Phase.PREPARE)
    with_venv.end_preparation()
    out(with_venv, "true", Phase.AGENT)
    with_venv.begin_grading()


def test_compiled_python_that_the_agent_planted_is_not_read(sandbox: DirectorySandbox) -> None:
    plant = (
        "echo 'print(\"planted\")' >mod.py; python3 -m py_compile mod.py; "
        'python3 -c \'import py_compile as p; p.compile("mod.py", '
        "invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)'; echo 'print(\"source\")' >mod.py"
    )
    out(sandbox, plant, Phase.AGENT)
    assert out(sandbox, "python3 -c 'import mod'", Phase.AGENT) == "planted"
    before = {path.name for path in sandbox.workspace.rglob("*")}
    sandbox.reap()
    sandbox.begin_grading()
    assert out(sandbox, "python3 -c 'import mod'", Phase.GRADE) == "source"
    poison = "echo 'print(\"poison\")' >mod2.py; python3 -c 'import mod2'; find $PYTHONPYCACHEPREFIX -name 'mod2*'"
    cache = out(sandbox, poison, Phase.GRADE).splitlines()[-1]
    assert str(sandbox.workspace) in cache.removeprefix(str(sandbox.root))
    assert out(sandbox, "ls $PYTHONPYCACHEPREFIX 2>/dev/null || echo none", Phase.GRADE) == "none"
    assert {path.name for path in sandbox.workspace.rglob("*")} == {*before, "mod2.py"}


def test_the_agent_is_not_told_where_grading_will_be(sandbox: DirectorySandbox) -> None:
    out(sandbox, "echo x >$HOME/x", Phase.PREPARE)
    sandbox.end_preparation()
    told = out(sandbox, "env; cat ../login.sh ~/.profile", Phase.AGENT)
    names = {path.name for path in sandbox.root.iterdir()}
    sandbox.begin_grading()
    fresh = {path.name for path in sandbox.root.iterdir()} - names
    assert len(fresh) == 1
    assert fresh.pop() not in told


def test_an_empty_trial_has_next_to_nothing_made_for_it(sandbox: DirectorySandbox) -> None:
    before = {*sandbox.root.rglob("*")}
    sandbox.end_preparation()
    sandbox.begin_grading()
    made = {*sandbox.root.rglob("*")} - before
    assert len(made) < 40, "HOME, TMPDIR and the like are not copied where preparation left nothing in them"
