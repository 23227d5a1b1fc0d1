"""The environment is explicit; what would tell the agent where the answers lie is withheld from it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.protocol import Phase

from .conftest import MakeSandbox

Variables = Callable[..., None]


def make_tool(folder: Path, name: str, says: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho {says}\n")
    (folder / name).chmod(0o755)


def out(sandbox: DirectorySandbox, script: str, phase: Phase, shell: tuple[str, ...] = ("sh", "-c")) -> str:
    if phase is Phase.GRADE:
        sandbox.begin_grading()
    return sandbox.run([*shell, script], phase=phase, timeout=60).stdout_text.strip()


def test_only_what_is_allowed_gets_through(make_sandbox: MakeSandbox, variables: Variables) -> None:
    variables(
        SECRET="s", PYTHONPATH="/x", PYTEST_CURRENT_TEST="t", LD_LIBRARY_PATH="/y", USER="u", LOGNAME="u", TZ="UTC"
    )
    sandbox = make_sandbox()
    base = {"PATH", "HOME", "TMPDIR", "LANG", "TZ", "USER", "LOGNAME"}
    assert set(sandbox.environment(Phase.AGENT)) == base
    assert set(sandbox.environment(Phase.PREPARE)) == base | {"CODEREVAL_PHASE"}
    shown = out(sandbox, "env", Phase.AGENT).splitlines()
    assert {line.partition("=")[0] for line in shown} - base <= {"PWD", "_", "SHLVL", "OLDPWD"}
    sandbox.begin_grading()
    graders = {"CODEREVAL_PHASE", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX"}
    assert set(sandbox.environment(Phase.RUN)) == base | graders
    git = {f"GIT_CONFIG_{name}" for name in ("COUNT", "KEY_0", "VALUE_0", "KEY_1", "VALUE_1")}
    assert set(sandbox.environment(Phase.GRADE)) == base | graders | git


def test_home_and_tmpdir_are_the_trials_own_and_outside_the_workspace(sandbox: DirectorySandbox) -> None:
    environment = sandbox.environment(Phase.AGENT)
    for name in ("HOME", "TMPDIR"):
        folder = Path(environment[name])
        assert folder.is_dir()
        assert folder.is_relative_to(sandbox.root)
        assert not folder.is_relative_to(sandbox.workspace)
    assert environment["LANG"] == "C.UTF-8"


def test_names_and_globs_are_let_through_but_never_pytests_own(make_sandbox: MakeSandbox, variables: Variables) -> None:
    variables(API_KEY="k", UIP_ONE="1", UIP_TWO="2", PYTEST_ADDOPTS="-x", OTHER="o")
    sandbox = make_sandbox(EnvironmentPlan(passthrough=("API_KEY", "PYTEST_*", "HOME")), env_passthrough=("UIP_*",))
    environment = sandbox.environment(Phase.AGENT)
    assert (environment["API_KEY"], environment["UIP_ONE"], environment["UIP_TWO"]) == ("k", "1", "2")
    assert not {"OTHER", "PYTEST_ADDOPTS"} & set(environment)
    assert environment["HOME"] == str(sandbox.home)


def test_authors_variables_beat_everything_else(make_sandbox: MakeSandbox, variables: Variables) -> None:
    variables(A="host")
    plan = EnvironmentPlan(passthrough=("A",), extra={"B": "ini"})
    sandbox = make_sandbox(plan, env={"A": "task", "LANG": "de_DE.UTF-8"})
    for phase in Phase:
        assert out(sandbox, "echo $A $B $LANG", phase) == "task ini de_DE.UTF-8"


@pytest.mark.parametrize(
    "shape",
    [
        "{}",
        "{}/",
        "{}/sub/file",
        "/nowhere:{}/bin",
        "-I{}/include",
        "file://{}/x",
        '{{"path": "{}/a"}}',
        "{}/../{name}/x",
    ],
)
def test_variables_that_name_a_withheld_place_are_kept_from_the_agent(
    make_sandbox: MakeSandbox, variables: Variables, tmp_path: Path, shape: str
) -> None:
    place = tmp_path / "checkout"
    place.mkdir()
    value = shape.format(place, name=place.name)
    variables(REPO=value, FINE="/elsewhere")
    sandbox = make_sandbox(EnvironmentPlan(passthrough=("REPO", "FINE"), withhold=(place,)))
    assert sandbox.withheld_names == ("REPO",)
    assert "REPO" not in sandbox.environment(Phase.AGENT)
    assert out(sandbox, "echo $REPO$FINE", Phase.PREPARE) == f"{value}/elsewhere"
    assert out(sandbox, "echo $REPO", Phase.GRADE) == value


def test_names_beside_and_above_a_withheld_place_are_let_through(
    make_sandbox: MakeSandbox, variables: Variables, tmp_path: Path
) -> None:
    place = tmp_path / "checkout"
    place.mkdir()
    variables(BESIDE=f"{place}2/x", ABOVE=str(tmp_path), WORD="checkout", DOTTED=f"{place}.bak")
    sandbox = make_sandbox(EnvironmentPlan(passthrough=("BESIDE", "ABOVE", "WORD", "DOTTED"), withhold=(place,)))
    assert sandbox.withheld_names == ()


def test_links_and_spaces_do_not_hide_a_withheld_place(
    make_sandbox: MakeSandbox, variables: Variables, tmp_path: Path
) -> None:
    place = tmp_path / "my checkout"
    place.mkdir()
    (tmp_path / "alias").symlink_to(place)
    variables(LINKED=f"{tmp_path}/alias/x", SPACED=f"a={place}/x b", WHOLE=str(place))
    passthrough = ("LINKED", "SPACED", "WHOLE")
    given_by_link = EnvironmentPlan(passthrough=passthrough, withhold=(tmp_path / "alias",))
    for plan in (given_by_link, EnvironmentPlan(passthrough=passthrough, withhold=(place,))):
        assert make_sandbox(plan).withheld_names == ("LINKED", "SPACED", "WHOLE")


def test_an_authors_variable_that_names_a_withheld_place_is_a_mistake(
    make_sandbox: MakeSandbox, tmp_path: Path
) -> None:
    with pytest.raises(TrialError, match=r"sandbox\.env\.WHERE") as caught:
        make_sandbox(EnvironmentPlan(withhold=(tmp_path,)), env={"WHERE": f"{tmp_path}/reference"})
    assert caught.value.cause is Cause.CONFIGURATION


def test_an_authors_variable_cannot_replace_the_sandboxs_own(make_sandbox: MakeSandbox) -> None:
    with pytest.raises(TrialError, match="PATH"):
        make_sandbox(EnvironmentPlan(extra={"PATH": "/bin"}))


def test_programs_in_a_withheld_checkout_work_without_naming_it(
    make_sandbox: MakeSandbox, variables: Variables, tmp_path: Path
) -> None:
    make_tool(tmp_path / "checkout" / ".venv" / "bin", "own-tool", "ran")
    folder = f"{tmp_path}/checkout/.venv/bin"
    variables(PATH=f"{folder}:{os.environ['PATH']}")
    sandbox = make_sandbox(EnvironmentPlan(withhold=(tmp_path / "checkout",)))
    assert str(tmp_path / "checkout") not in "\n".join(sandbox.environment(Phase.AGENT).values())
    assert out(sandbox, "own-tool", Phase.AGENT) == "ran"
    sandbox.begin_grading()
    own, interpreters, *others = sandbox.environment(Phase.GRADE)["PATH"].split(":")
    assert (own, others[0]) == (str(sandbox.launcher_dir / "bin"), folder)
    assert "interpreters" in interpreters


def test_a_virtual_environment_in_the_checkout_stays_one_for_the_agent(
    make_sandbox: MakeSandbox, variables: Variables, tmp_path: Path
) -> None:
    venv = tmp_path / "checkout" / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    (venv / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    variables(PATH=f"{venv}/bin:{os.environ['PATH']}")
    sandbox = make_sandbox(EnvironmentPlan(withhold=(tmp_path / "checkout",)))
    script = "python -c 'import sys; print(sys.prefix != sys.base_prefix)'"
    assert out(sandbox, script, Phase.AGENT) == "True"


def test_the_path_is_the_harnesss_made_absolute(
    make_sandbox: MakeSandbox, variables: Variables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    variables(PATH=f".::here:/no/such/dir:{tmp_path}/here/:/usr/bin:/bin:/usr/bin")
    path = make_sandbox().environment(Phase.PREPARE)["PATH"].split(":")
    assert path[:3] == [f"{tmp_path}/here", "/usr/bin", "/bin"]
    assert len(set(path)) == len(path)


@pytest.mark.parametrize("present", [(), ("python",), ("python3",), ("python", "python3")])
def test_python_and_python3_are_both_there(
    make_sandbox: MakeSandbox, variables: Variables, tmp_path: Path, present: tuple[str, ...]
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "env"):
        (folder / name).symlink_to(shutil.which(name) or "")
    for name in present:
        make_tool(folder, name, "found")
    variables(PATH=str(folder))
    sandbox = make_sandbox()
    for phase in Phase:
        for name in ("python", "python3"):
            expected = "found" if present else str(sys.version_info[0])
            assert out(sandbox, f"{name} -c 'import sys; print(sys.version_info[0])'", phase) == expected
    if len(present) == 2:
        assert sandbox.environment(Phase.RUN)["PATH"] == str(folder)


def test_shims_come_first_then_mocks_for_the_agent_only(sandbox: DirectorySandbox) -> None:
    make_tool(sandbox.workspace / "mocks", "tool", "mock")
    make_tool(sandbox.workspace / "mocks", "other", "mock")
    make_tool(sandbox.bin_dir, "tool", "shim")
    sandbox.agent_path_dirs = [sandbox.workspace / "mocks"]
    assert out(sandbox, "tool; other", Phase.AGENT) == "shim\nmock"
    for phase in (Phase.PREPARE, Phase.GRADE):
        assert out(sandbox, "tool 2>/dev/null || echo none", phase) == "none"
    shown = sandbox.run(["sh", "-c", "tool; other"], phase=Phase.GRADE, timeout=60, env=sandbox.env_with_shims())
    assert shown.stdout == b"shim\nmock\n"


LOGIN_SHELLS = [
    pytest.param((shell, option), marks=pytest.mark.skipif(shutil.which(shell) is None, reason=f"no {shell}"))
    for shell in ("bash", "sh", "dash", "zsh")
    for option in ("-lc",)
]


@pytest.mark.parametrize("shell", LOGIN_SHELLS)
def test_login_shells_keep_the_order(sandbox: DirectorySandbox, shell: tuple[str, ...]) -> None:
    make_tool(sandbox.workspace / "mocks", "true-tool", "mock")
    make_tool(sandbox.bin_dir, "cat", "shim")
    sandbox.agent_path_dirs = [sandbox.workspace / "mocks"]
    assert out(sandbox, "echo x | cat; command -v python3", Phase.PREPARE, shell).startswith("x\n/")
    assert out(sandbox, "cat /dev/null; true-tool", Phase.AGENT, shell) == "shim\nmock"
    wrapped = ["env", "-i", f"HOME={sandbox.home}", *shell, "cat /dev/null"]
    assert sandbox.run(wrapped, phase=Phase.AGENT, timeout=60).stdout == b"shim\n"
    assert out(sandbox, "echo x | cat; true-tool || echo none", Phase.GRADE, shell) == "x\nnone"
    shown = sandbox.run([*shell, "cat"], phase=Phase.GRADE, timeout=60, env=sandbox.env_with_shims())
    assert shown.stdout == b"shim\n"


def test_what_the_agent_plants_for_python_is_not_imported_by_graders(sandbox: DirectorySandbox) -> None:
    plant = (
        "d=$(python3 -m site --user-site) && mkdir -p $d && echo 'print(\"planted\")' >$d/usercustomize.py"
        " && python3 -c 'print(1)'"
    )
    sandbox.run(["sh", "-c", plant], phase=Phase.AGENT, timeout=60)
    assert out(sandbox, "python3 -c 'print(1)'", Phase.GRADE) == "1"


def test_no_path_that_is_handed_out_needs_quotes(sandbox: DirectorySandbox) -> None:
    for path in (sandbox.root, sandbox.workspace, sandbox.home, sandbox.tmp, sandbox.bin_dir):
        assert set(str(path)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+=@-")
        assert os.path.realpath(path) == str(path)
