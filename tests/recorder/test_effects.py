"""Effects: what replies write and copy into the workspace, and every way out of it that an agent may prepare."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.errors import TrialError
from pytest_codereval.recorder.answering import Printed
from pytest_codereval.recorder.answers import effects
from pytest_codereval.recorder.answers.effects import EffectRefused, Place, SourceProblem, Tree, read_tree
from pytest_codereval.sandbox.writing import make_folder_beneath, write_beneath

from .engine import Engine


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A task's folder with a project to copy."""
    project = tmp_path / "task" / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "main.py").write_text("{{ argv }}\n")
    (project / ".hidden").write_text("h")
    (tmp_path / "task" / "one.txt").write_text("one {{ nth }}")
    return tmp_path


def with_effects(root: Path, *effects: dict[str, str], **reply: Any) -> Engine:
    return Engine(root, {"responses": [{"when": {"verb": "go"}, "stdout": "done", "effects": list(effects), **reply}]})


def test_files_are_written_and_copied_in_order(task: Path) -> None:
    made = with_effects(
        task,
        {"copy": "project", "to": "a/b"},
        {"copy": "one.txt", "to": "a/one"},
        {"write": "a/b/.hidden", "content": "later wins"},
        {"write": "deep/er/file", "content_file": "one.txt"},
        {"copy": "project", "to": "."},
    )
    assert made.out("go", cwd="a") == "done"
    assert made.files() == {
        ".hidden": "h",
        "src/main.py": "{{ argv }}\n",
        "a/b/src/main.py": "{{ argv }}\n",
        "a/b/.hidden": "later wins",
        "a/one": "one {{ nth }}",
        "deep/er/file": "one {{ nth }}",
    }


def test_what_can_be_run_still_can_be_as_a_copy(task: Path) -> None:
    (task / "task" / "project" / "src" / "main.py").chmod(0o755)
    made = with_effects(task, {"copy": "project", "to": "."}, {"copy": "project/src/main.py", "to": "alone"})
    made.out("go")
    modes = {name: (made.workspace / name).stat().st_mode & 0o111 for name in ("src/main.py", "alone", ".hidden")}
    assert [name for name, mode in modes.items() if mode] == ["src/main.py", "alone"]


def test_empty_folders_are_copied_too(task: Path) -> None:
    for name in ("project/logs/old", "project/src/.cache", "nothing"):
        (task / "task" / name).mkdir(parents=True)
    made = with_effects(task, {"copy": "project", "to": "a"}, {"copy": "nothing", "to": "b/c"})
    assert [made.out("go"), made.out("go")] == ["done", "done"]
    assert {str(path.relative_to(made.workspace)) for path in made.workspace.rglob("*") if path.is_dir()} == {
        *("a", "a/logs", "a/logs/old", "a/src", "a/src/.cache", "b", "b/c")
    }
    (made.workspace / "b" / "c").rmdir()
    (made.workspace / "b" / "c").symlink_to(task)
    refused = made.call("go")
    assert (refused.exit_status, refused.stdout) == (1, b"")
    assert refused.stderr.startswith(b"uip: b/c: ")


def test_templates_are_filled_but_copies_are_not(task: Path) -> None:
    made = with_effects(
        task,
        {"write": "{{ positional[0] }}.txt", "content": "{{ positional[0] }}"},
        {"write": "{{ positional[0] }}.nth", "content_file": "one.txt"},
        {"copy": "project/src", "to": "{{ flags.to }}"},
        template=True,
    )
    assert made.out("go", "x", "--to", "here", cwd="sub") == "done"
    assert made.files() == {"sub/x.txt": "x", "sub/x.nth": "one 1", "sub/here/main.py": "{{ argv }}\n"}


@pytest.mark.parametrize("cwd", ["/", "/tmp", "../elsewhere", "gone/../.."])
def test_a_caller_outside_of_the_workspace_writes_into_its_root(task: Path, cwd: str) -> None:
    made = with_effects(task, {"write": "{{ positional[0] }}", "content": "x"}, template=True)
    assert made.out("go", "file", cwd=cwd) == "done"
    assert made.files() == {"file": "x"}


@pytest.mark.parametrize(
    "path",
    [
        "../out",
        "a/../../out",
        "..",
        ".",
        "",
        "/",
        "/etc/codereval-out",
        "//etc/codereval-out",
        "./../workspace2/x",
        "x\0y",
        "n" * 300,
        "sub/" * 2000 + "x",
        "\udcff\udcfe/../../x",
    ],
)
def test_a_path_of_the_agent_never_leaves_the_workspace(task: Path, path: str) -> None:
    before = sorted(task.rglob("*"))
    made = with_effects(task, {"write": "{{ argv[1] }}", "content": "x"}, template=True, set_state={"a": "b"})
    printed = made.call("go", path)
    assert (printed.exit_status, printed.stdout, printed.answered_by) == (1, b"", "rule 0")
    assert printed.stderr.startswith(b"uip: ")
    assert printed.stderr.count(b"\n") == 1
    assert made.answers.faults == ()
    assert sorted(task.rglob("*")) == sorted({*before, task / "workspace"})


def test_absolute_paths_inside_of_the_workspace_are_taken(task: Path) -> None:
    made = with_effects(task, {"write": "{{ argv[1] }}", "content": "x"}, template=True)
    (task / "link").symlink_to(made.workspace)
    for path in (made.workspace / "a", made.workspace / "b" / ".." / "c", task / "link" / "d"):
        assert made.out("go", str(path), cwd="/") == "done"
    assert made.files() == {"a": "x", "c": "x", "d": "x"}
    assert made.call("go", str(task / "workspace2" / "x")).exit_status == 1


def test_links_that_an_agent_planted_lead_nowhere(task: Path) -> None:
    outside = task / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    made = with_effects(
        task, {"write": "{{ argv[1] }}", "content": "x"}, {"copy": "project", "to": "dir"}, template=True
    )
    plant = made.workspace
    (plant / "folder").symlink_to(outside)
    (plant / "file").symlink_to(outside / "kept")
    (plant / "dangling").symlink_to(outside / "new")
    (plant / "up").symlink_to("..")
    (plant / "loop").symlink_to("loop")
    (plant / "proc").symlink_to(f"/proc/{os.getpid()}/cwd")
    os.mkfifo(plant / "fifo")
    (plant / "dir").symlink_to(outside)
    for path in (
        "folder/x",
        "file",
        "dangling",
        "up/outside/kept",
        "loop",
        "loop/x",
        "proc/x",
        "fifo",
        "fifo/x",
        "new",
    ):
        printed = made.call("go", path)
        assert (path, printed.exit_status, printed.stdout) == (path, 1, b"")
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"kept": "kept"}
    assert made.answers.faults == ()


def test_a_link_inside_the_workspace_is_followed(task: Path) -> None:
    made = with_effects(task, {"write": "link/x", "content": "x"})
    (made.workspace / "real").mkdir()
    (made.workspace / "link").symlink_to("real")
    assert made.out("go") == "done"
    assert made.files() == {"real/x": "x"}


def test_a_failing_effect_changes_no_state_and_stops_what_follows(task: Path) -> None:
    made = Engine(
        task,
        {
            "responses": [
                {
                    "when": {"verb": "go"},
                    "template": True,
                    "stdout": "done",
                    "set_state": {"done": "yes"},
                    "effects": [
                        {"write": "first", "content": "1"},
                        {"write": "{{ flags.to }}", "content": "2"},
                        {"write": "third", "content": "3"},
                    ],
                },
                {"when": {"state": {"done": "yes"}}, "stdout": "yes"},
            ]
        },
    )
    assert made.call("go", "--to", "/x") == Printed(
        "rule 0", stderr=b"uip: /x: outside of the workspace\n", exit_status=1
    )
    assert made.call("ask").answered_by == "fallback"
    assert made.files() == {"first": "1"}


def test_sources_are_read_before_any_call(task: Path) -> None:
    made = with_effects(task, {"copy": "project", "to": "p"})
    (task / "task" / "project" / ".hidden").write_text("changed")
    (task / "task" / "project" / "new").write_text("new")
    made.call("go")
    assert made.files() == {"p/.hidden": "h", "p/src/main.py": "{{ argv }}\n"}


@pytest.mark.parametrize("planted", ["link", "fifo"])
def test_a_source_with_links_or_devices_is_refused(task: Path, planted: str) -> None:
    place = task / "task" / "project" / "src" / planted
    if planted == "link":
        place.symlink_to("/etc/passwd")
    else:
        os.mkfifo(place)
    with pytest.raises(TrialError, match=rf"uip: responses\[0\]: .*src/{planted}: (a link|neither)"):
        with_effects(task, {"copy": "project", "to": "p"})


def test_what_is_copied_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "MAX_FILES", 3)
    monkeypatch.setattr(effects, "MAX_BYTES", 10)
    for number in range(3):
        (tmp_path / str(number)).write_text("abc")
    assert len(read_tree(tmp_path).files) == 3
    (tmp_path / "3").write_text("abc")
    with pytest.raises(SourceProblem, match="more than 10 bytes"):
        read_tree(tmp_path)
    (tmp_path / "3").write_text("")
    with pytest.raises(SourceProblem, match="more than 3 files"):
        read_tree(tmp_path)
    with pytest.raises(SourceProblem, match="gone: No such file"):
        read_tree(tmp_path / "gone")


@pytest.mark.parametrize(
    ("directory", "path"),
    [
        *(
            (".", path)
            for path in ("..", "../x", "a/../../x", "/x", "/", "//x", "", "../workspace2", "../../workspace/x")
        ),
        *(("a", path) for path in ("../..", "../../x", "../a/../../x", "/", "../../workspace2/x")),
    ],
)
def test_a_path_outside_is_refused_before_anything_is_written(tmp_path: Path, directory: str, path: str) -> None:
    written: list[str] = []
    place = Place(
        tmp_path / "workspace", lambda name, content, executable: written.append(name), written.append, directory
    )
    with pytest.raises(EffectRefused):
        place.write(path, b"")
    assert written == []


@pytest.mark.parametrize(
    ("path", "name"), [("x", "a/x"), ("./b/../x", "a/x"), ("../x", "x"), ("../../workspace/a/x", "a/x"), ("..", ".")]
)
def test_a_path_inside_is_told_from_the_workspace(tmp_path: Path, path: str, name: str) -> None:
    written: list[str] = []
    place = Place(tmp_path / "workspace", lambda name, content, executable: written.append(name), written.append, "a")
    place.write(path, b"")
    assert written == [name]


parts = st.sampled_from(["..", ".", "", "a", "in", "out", "up", "file", "\udcff"])


@given(st.lists(parts, max_size=6), st.booleans(), st.lists(parts, max_size=3))
def test_no_path_writes_outside(
    tmp_path_factory: pytest.TempPathFactory, path: list[str], absolute: bool, cwd: list[str]
) -> None:
    root = tmp_path_factory.mktemp("random")
    workspace = root / "workspace"
    (workspace / "in").mkdir(parents=True)
    (root / "out").mkdir()
    for name, target in {"out": root / "out", "up": "..", "file": root / "out" / "file"}.items():
        (workspace / name).symlink_to(target)
    directory = os.path.relpath(os.path.normpath(workspace / "/".join(cwd).strip("/")), workspace)
    where = directory if not directory.startswith("..") else "."
    place = Place(
        workspace,
        lambda name, content, executable: write_beneath(workspace, name, content),
        lambda name: make_folder_beneath(workspace, name),
        where,
    )
    text = "/".join([*([str(workspace)] if absolute else []), *path])
    with contextlib.suppress(EffectRefused):
        place.write(text, b"x")
    with contextlib.suppress(EffectRefused):
        place.copy(Tree(empty_folders=("", "new/folder")), text)
    assert [child.name for child in root.iterdir() if child.name not in ("workspace", "out")] == []
    assert list((root / "out").iterdir()) == []
