"""`python3` in grading imports what lies in the workspace, but never in the place of what is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_codereval.sandbox.interpreters import make_interpreters
from pytest_codereval.sandbox.protocol import Phase, Sandbox
from tests.sandbox import isolated

SAFE = sys.version_info >= (3, 11)
needs_safe_path = pytest.mark.skipif(not SAFE, reason="Python before 3.11 looks in the working directory first")
TRAP = "import os; os.write(1, b'agent'); os._exit(0)\n"
TRAPS = ("json", "pytest", "sitecustomize", "usercustomize", "textwrap")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "package").mkdir(parents=True)
    for name in TRAPS:
        (folder / f"{name}.py").write_text(TRAP)
    (folder / "solution.py").write_text("print('solution')\n")
    (folder / "package" / "__main__.py").write_text("import json; print('package')\n")
    return folder


def run(workspace: Path, command: str, **env: str) -> str:
    """Standard output of a command with the interpreters first on PATH."""
    programs = make_interpreters(workspace.parent / "own 'x'", ["python", "python3"])
    path = f"{programs}:{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=workspace, capture_output=True, env={"PATH": path, **env})
    return done.stdout.decode() + done.stderr.decode()


@needs_safe_path
@pytest.mark.parametrize(
    "arguments",
    [
        "-c 'import json, solution'",
        "-Bu -W ignore -X utf8 -c 'import json, solution'",
        "-uBcimport\\ json,solution",
        "-Wignore -Xutf8 -m solution",
        "-m package",
        "--check-hash-based-pycs never -m solution",
        "-m pytest --version && python3 -m solution",
        "<<E\nimport json, solution\nE",
        "- x <<E\nimport json, solution\nE",
    ],
)
def test_the_workspace_is_looked_into_last(workspace: Path, arguments: str) -> None:
    shown = run(workspace, f"python3 {arguments}")
    assert shown.endswith(("solution\n", "package\n")), shown
    assert "agent" not in shown


@pytest.mark.parametrize("arguments", ["-I -c", "-P -c"] if SAFE else ["-I -c"])
def test_an_isolated_interpreter_stays_one(workspace: Path, arguments: str) -> None:
    assert "No module named 'solution'" in run(workspace, f"python3 {arguments} 'import json, solution'")


def test_a_script_finds_what_lies_beside_it_and_its_children_are_as_ever(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("print('helper')\n")
    (tmp_path / "check.py").write_text("import helper, json; print(json.dumps(1))\n")
    assert run(workspace, "python3 -u ../check.py; python ../check.py") == "helper\n1\n" * 2
    shown = "import os; print(os.environ.get('PYTHONPATH'), os.environ.get('PYTHONSAFEPATH'))"
    assert run(workspace, f'python3 -c "{shown}"') == "None None\n"
    assert run(workspace, f'python3 -c "{shown}"', PYTHONPATH="/a:/b") == "/a:/b None\n"
    inner = "python3 -c \"import os; os.system('python3 ../check.py')\""
    assert run(workspace, inner) == "helper\n1\n"


@needs_safe_path
def test_what_an_author_asks_for_goes_first(workspace: Path) -> None:
    assert run(workspace, "python3 -c 'import json'", PYTHONPATH=".") == "agent"
    assert "No module" in run(workspace, "python3 -c 'import solution'", PYTHONSAFEPATH="1")


def test_the_sitecustomize_that_is_installed_runs(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("print('installed')\n")
    shown = run(workspace, "python3 -c 'import sitecustomize; print(sitecustomize.__file__)'", PYTHONPATH="../site")
    assert shown.startswith("installed\n")
    assert shown.endswith("site/sitecustomize.py\n")


def test_the_exit_status_and_the_real_interpreter_are_kept(workspace: Path) -> None:
    assert run(workspace, "python3 -c 'raise SystemExit(7)'; echo $?") == "7\n"
    assert run(workspace, "python3 -c 'import sys; print(sys.prefix)'") == f"{sys.prefix}\n"
    programs = workspace.parent / "own 'x'" / "bin"
    assert "not found" in run(workspace, "python -c 1", PATH=f"{programs}:/nowhere")


PYTEST = (
    'PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python3 -m pytest -c /dev/null --rootdir="$TASK_DIR" '
    '--confcutdir="$TASK_DIR" -p no:cacheprovider "$TASK_DIR/test_answer.py"'
)
"""As docs/graders.md has it."""


@needs_safe_path
def test_the_documented_call_of_pytest_runs_nothing_that_it_does_not_import(workspace: Path, tmp_path: Path) -> None:
    task = tmp_path / "task"
    task.mkdir()
    (task / "test_answer.py").write_text("import json, solution\ndef test_wrong(): assert False\n")
    for name in ("evil", "conftest"):
        (workspace / f"{name}.py").write_text(TRAP)
    for name in ("pytest.ini", "tox.ini", "setup.cfg"):
        (workspace / name).write_text("[pytest]\naddopts = -p evil\n[tool:pytest]\naddopts = -p evil\n")
    (workspace / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '-p evil'\n")
    (workspace / "evil-1.dist-info").mkdir()
    (workspace / "evil-1.dist-info" / "METADATA").write_text("Name: evil\nVersion: 1\n")
    (workspace / "evil-1.dist-info" / "entry_points.txt").write_text("[pytest11]\nevil = evil\n")
    shown = run(workspace, f"{PYTEST}; echo $?", TASK_DIR=str(task))
    assert "1 failed" in shown
    assert shown.endswith("1\n")
    assert PYTEST in Path(__file__).parents[2].joinpath("docs", "graders.md").read_text()
    assert run(workspace, f"{PYTEST.partition(' ')[2]}; echo $?", TASK_DIR=str(task)) == "agent0\n"


@pytest.fixture(scope="module", params=["tempdir", *isolated.ISOLATING])
def grading(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A sandbox in which grading has begun, under each driver that can be had here."""
    sandbox = isolated.create(request.param)
    try:
        sandbox.write_file("json.py", TRAP.encode())
        sandbox.write_file("solution.py", b"print('solution')\n")
        sandbox.reap()
        sandbox.begin_grading()
        yield sandbox
    finally:
        sandbox.close()


def test_in_every_sandbox(grading: Sandbox) -> None:
    code = "import json, solution, sys; print(sys.flags)"
    ask = f"command -v python3 >/dev/null || {{ echo none; exit; }}; python3 -c '{code}'"
    shown = grading.run(["/bin/sh", "-c", ask], phase=Phase.GRADE, timeout=60).stdout_text
    if shown == "none\n":
        assert not any("interpreters" in part for part in grading.environment(Phase.GRADE)["PATH"].split(os.pathsep))
    elif "safe_path=True" not in shown:
        pytest.skip("its Python is older than 3.11")
    else:
        assert shown.startswith("solution\n")
    own = grading.run(["/bin/sh", "-c", "command -v python3"], phase=Phase.RUN, timeout=60).stdout_text
    assert "interpreters" not in own
