"""What lands in the workspace, and what never does."""

from __future__ import annotations

import os
import stat
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.protocol import Phase
from pytest_codereval.sandbox.staging import prepare_mock_dirs, stage_workspace

from .conftest import MakeTask

TEMPLATE = "template_sources:\n  - {type: template_dir, path: data%s}"


def put(folder: Path, **files: str) -> None:
    """Write files; `__` in a name is a `/` and `_dot_` a dot."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def staged(sandbox: DirectorySandbox) -> set[str]:
    """Relative names of all files and links in the workspace."""
    found = set()
    for folder, names, files in os.walk(sandbox.workspace):
        links = [name for name in names if Path(folder, name).is_symlink()]
        found |= {os.path.relpath(Path(folder, name), sandbox.workspace) for name in (*files, *links)}
    return found


def refusal(sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path, block: str, rest: str = "") -> str:
    with pytest.raises(TrialError) as caught:
        stage_workspace(sandbox, make_task(block, rest), task_dir)
    assert caught.value.cause is Cause.CONFIGURATION
    return str(caught.value)


def test_a_template_lands_with_its_modes_and_its_empty_folders(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path
) -> None:
    put(task_dir, data__run_dot_sh="#!/bin/sh\n", data__sub__a="x", data__locked="y")
    (task_dir / "data" / "empty").mkdir()
    (task_dir / "data" / "run.sh").chmod(0o4755)
    (task_dir / "data" / "locked").chmod(0o440)
    stage_workspace(sandbox, make_task(TEMPLATE % ""), task_dir)
    assert staged(sandbox) == {"run.sh", "sub/a", "locked"}
    assert (sandbox.workspace / "empty").is_dir()
    assert stat.S_IMODE((sandbox.workspace / "run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((sandbox.workspace / "locked").stat().st_mode) == 0o440


def test_variables_in_the_path_are_expanded_when_staged(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path, variables: Callable[..., None]
) -> None:
    put(task_dir.parent / "shared", a="x")
    variables(SHARED_PLACE=str(task_dir.parent))
    task = make_task("template_sources:\n  - {type: template_dir, path: '${SHARED_PLACE}/shared'}")
    stage_workspace(sandbox, task, task_dir)
    assert staged(sandbox) == {"a"}


def test_an_undefined_variable_and_a_missing_folder_are_named(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path
) -> None:
    block = "template_sources:\n  - {type: template_dir, path: $NO_SUCH_VARIABLE/x}"
    assert "NO_SUCH_VARIABLE" in refusal(sandbox, make_task, task_dir, block)
    assert str(task_dir / "data") in refusal(sandbox, make_task, task_dir, TEMPLATE % "")


def test_the_default_ignore_list_can_be_extended_and_undone(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path
) -> None:
    put(task_dir, data__build__a="x", data__node_modules__m__i="x", data__lib_dot_so="x", data__keep_dot_so="x")
    put(task_dir, data__src__x_dot_pyc="x", data__src__notes_dot_tmp="x", data__src__a="x")
    task = make_task("ignore_patterns: ['!build', '!keep.so', '*.tmp']\n" + TEMPLATE % "")
    stage_workspace(sandbox, task, task_dir)
    assert staged(sandbox) == {"build/a", "keep.so", "src/a"}


def test_ignored_names_above_the_template_do_not_matter(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path
) -> None:
    put(task_dir, build__dist__a="x")
    task = make_task("template_sources:\n  - {type: template_dir, path: build/dist}")
    stage_workspace(sandbox, task, task_dir)
    assert staged(sandbox) == {"a"}


def test_include_patterns_bring_back_what_is_ignored(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path
) -> None:
    put(task_dir, data___dot_git__HEAD="x", data___dot_git__build__b="x", data__dist__keep_dot_js="x")
    put(task_dir, data__dist__drop_dot_js="x", data__a="x")
    task = make_task(TEMPLATE % ", include_patterns: ['.git', 'dist/keep*']")
    stage_workspace(sandbox, task, task_dir)
    assert staged(sandbox) == {".git/HEAD", ".git/build/b", "dist/keep.js", "a"}


def test_later_sources_win_whatever_was_there(sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path) -> None:
    put(task_dir, one__a="1", one__both__x="1", one__file="1", two__a="2", two__both="2", two__file__y="2")
    block = """
template_sources:
  - {type: template_dir, path: one}
  - {type: template_dir, path: two}
  - {type: starter_files, files: [{path: a, content: "3"}, {path: new/b, content: "é\\r\\n"}]}
"""
    stage_workspace(sandbox, make_task(block), task_dir)
    assert staged(sandbox) == {"a", "both", "file/y", "new/b"}
    assert (sandbox.workspace / "a").read_text() == "3"
    assert (sandbox.workspace / "new/b").read_bytes() == "é\r\n".encode()


def test_a_mount_point_and_mock_directories(sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path) -> None:
    put(task_dir, data__tool="#!/bin/sh\necho mock\n", data__sub__data="x")
    (task_dir / "data" / "tool").chmod(0o644)
    task = make_task("mock_path_dirs: [m]\n" + TEMPLATE % ", mount_point: m")
    stage_workspace(sandbox, task, task_dir)
    assert sandbox.run(["tool"], phase=Phase.AGENT, timeout=60).stdout == b"mock\n"
    sandbox.begin_grading()
    assert sandbox.run(["tool"], phase=Phase.GRADE, timeout=60).exit_status == 127
    assert not (sandbox.workspace / "m/sub/data").stat().st_mode & 0o111
    (sandbox.workspace / "m" / "late").write_text("#!/bin/sh\n")
    prepare_mock_dirs(sandbox, task.sandbox)
    assert (sandbox.workspace / "m/late").stat().st_mode & 0o111


def test_a_missing_mock_directory_is_a_mistake(sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path) -> None:
    assert "'nowhere'" in refusal(sandbox, make_task, task_dir, "mock_path_dirs: [nowhere]")


@pytest.mark.parametrize("name", ["uip", "UIP", "uip.cmd", "Uip.EXE", "uip.bat"])
def test_a_mock_named_like_a_recorded_tool_is_a_mistake(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path, name: str
) -> None:
    (task_dir / "data" / "m").mkdir(parents=True)
    (task_dir / "data" / "m" / name).write_text("x")
    block = "mock_path_dirs: [m]\nrecord_cli: [{tool: uip}]\n" + TEMPLATE % ""
    assert name in refusal(sandbox, make_task, task_dir, block)


@pytest.mark.parametrize(
    "source",
    [
        "{type: template_dir, path: data}",
        "{type: template_dir, path: data/cli_mocks, mount_point: cli_mocks}",
        "{type: template_dir, path: data/cli_mocks, mount_point: CLI_mocks/x}",
        "{type: starter_files, files: [{path: cli_mocks/calls.jsonl, content: x}]}",
        "{type: starter_files, files: [{path: ./cli_mocks, content: x}]}",
    ],
)
def test_nobody_else_may_bring_recorded_calls(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path, source: str
) -> None:
    put(task_dir, data__cli_mocks__calls_dot_jsonl="x")
    block = f"record_cli: [{{tool: uip}}]\ntemplate_sources:\n  - {source}"
    assert "cli_mocks" in refusal(sandbox, make_task, task_dir, block)


def test_task_reference_and_dataset_are_never_staged(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path
) -> None:
    put(task_dir, check_dot_py="secret", solution__s="secret", rows_dot_jsonl='{"id": "1"}\n', data__a="x")
    put(
        task_dir.parent,
        other__b="x",
        other__more_dot_yaml="task_id: t\nsuccess_criteria: []\n",
        other__c_dot_yaml="a: 1",
    )
    put(task_dir.parent, answers__key="secret")
    block = (
        "template_sources:\n  - {type: template_dir, path: ..}\n  - {type: template_dir, path: data, mount_point: d}"
    )
    rest = "reference: {directory: ../answers}\n"
    pruned = stage_workspace(sandbox, make_task(block, rest), task_dir, answer_keys=[task_dir.parent / "other" / "b"])
    assert staged(sandbox) == {"other/c.yaml", "d/a"}
    assert set(pruned) == {"task", "answers", "other/more.yaml", "other/b"}


@pytest.mark.parametrize("path", [".", "./data/..", "../task", "link"])
def test_the_tasks_own_folder_cannot_be_a_template(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path, path: str
) -> None:
    (task_dir / "link").symlink_to(".")
    put(task_dir, data__a="x")
    block = f"template_sources:\n  - {{type: template_dir, path: {path}}}"
    assert "the folder of the task itself" in refusal(sandbox, make_task, task_dir, block)


@pytest.mark.parametrize("path", ["answers", "answers/deep", "alias"])
def test_the_reference_cannot_be_a_template(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path, path: str
) -> None:
    put(task_dir, answers__deep__key="secret")
    (task_dir / "alias").symlink_to("answers/deep")
    block = f"template_sources:\n  - {{type: template_dir, path: {path}}}"
    message = refusal(sandbox, make_task, task_dir, block, "reference: {directory: answers}\n")
    assert "answer key" in message


def test_a_reference_file_inside_a_template_is_left_out_and_a_link_to_it_too(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path
) -> None:
    put(task_dir, data__a="x", data__answer="secret")
    (task_dir / "data" / "alias").symlink_to("answer")
    stage_workspace(sandbox, make_task(TEMPLATE % "", "reference: {file: data/answer}\n"), task_dir)
    assert staged(sandbox) == {"a"}


def test_hard_links_to_answer_keys_are_left_out_but_not_equal_files(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path
) -> None:
    put(task_dir, data__sub__a="secret", answers__deep__key="secret", rows="secret", further="secret", run__record="x")
    for name, source in {"key": "answers/deep/key", "rows": "rows", "more": "further", "old": "run/record"}.items():
        (task_dir / "data" / "sub" / name).hardlink_to(task_dir / source)
    (task_dir / "data" / "alias").symlink_to("sub/key")
    rest = "reference: {directory: answers}\ndataset: {paths: [rows]}\n"
    further = [task_dir / "further", task_dir / "run"]
    pruned = stage_workspace(sandbox, make_task(TEMPLATE % "", rest), task_dir, answer_keys=further)
    assert staged(sandbox) == {"sub/a", "sub/old"}
    assert set(pruned) == {"alias", "sub/key", "sub/rows", "sub/more"}


def test_links_inside_are_kept_and_links_out_are_refused(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path
) -> None:
    put(task_dir, data__sub__a="x", outside="secret")
    (task_dir / "data" / "up").symlink_to("sub/a")
    (task_dir / "data" / "sub" / "loop").symlink_to("..")
    (task_dir / "data" / "gone").symlink_to("nothing")
    stage_workspace(sandbox, make_task(TEMPLATE % ""), task_dir)
    assert staged(sandbox) == {"sub/a", "up", "sub/loop", "gone"}
    assert (sandbox.workspace / "up").read_text() == "x"
    for text in ("../outside", str(task_dir / "data" / "sub"), "/etc/passwd", "sub/../../outside"):
        (task_dir / "data" / "bad").unlink(missing_ok=True)
        (task_dir / "data" / "bad").symlink_to(text)
        assert "leads out of" in refusal(sandbox, make_task, task_dir, TEMPLATE % "")


def test_no_file_is_written_through_a_staged_link(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path
) -> None:
    put(task_dir, data__real__a="1", two__alias__a="2")
    (task_dir / "data" / "alias").symlink_to("real")
    (task_dir / "data" / "file").symlink_to("real/a")
    block = TEMPLATE % "" + (
        "\n  - {type: template_dir, path: two}\n  - {type: starter_files, files: [{path: file, content: '3'}]}"
    )
    stage_workspace(sandbox, make_task(block), task_dir)
    assert (sandbox.workspace / "real" / "a").read_text() == "1"
    assert (sandbox.workspace / "alias" / "a").read_text() == "2"
    assert (sandbox.workspace / "file").read_text() == "3"


def test_a_fifo_in_a_template_is_a_mistake(sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path) -> None:
    (task_dir / "data").mkdir()
    os.mkfifo(task_dir / "data" / "pipe")
    assert "pipe" in refusal(sandbox, make_task, task_dir, TEMPLATE % "")


def test_empty_blocks_make_nothing(sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path) -> None:
    stage_workspace(sandbox, make_task("python: {}\nnode: {}"), task_dir)
    assert staged(sandbox) == set()
    assert sandbox.venv is None


def make_wheel(folder: Path) -> str:
    name = "sample_pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        wheel.writestr("sample_pkg.py", "value = 42\n")
        info = "sample_pkg-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: sample-pkg\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name


def test_packages_are_installed_for_all_phases(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path, variables: Callable[..., None]
) -> None:
    variables(PIP_NO_INDEX="1", UV_OFFLINE="1")
    stage_workspace(sandbox, make_task(f"python: {{env_packages: [./{make_wheel(task_dir)}]}}"), task_dir)
    assert sandbox.venv is not None
    for phase in (Phase.PREPARE, Phase.AGENT, Phase.GRADE):
        if phase is Phase.GRADE:
            sandbox.begin_grading()
        result = sandbox.run(["python3", "-c", "import sample_pkg; print(sample_pkg.value)"], phase=phase, timeout=60)
        assert result.stdout == b"42\n"
        prefix = sandbox.run(["sh", "-lc", "python -c 'import sys; print(sys.prefix)'"], phase=phase, timeout=60)
        assert prefix.stdout_text.strip() == str(sandbox.venv)
    assert staged(sandbox) == set()
    assert sys.executable


def test_a_package_that_cannot_be_installed_is_an_error_with_the_reason(
    sandbox: DirectorySandbox, make_task: MakeTask, task_dir: Path
) -> None:
    assert "-r" in refusal(sandbox, make_task, task_dir, "python: {env_packages: ['-r/etc/passwd']}")
    with pytest.raises(TrialError, match=r"(?s)env_packages.*missing\.whl") as caught:
        stage_workspace(sandbox, make_task("python: {env_packages: [./missing.whl]}"), task_dir)
    assert caught.value.cause is Cause.SANDBOX
