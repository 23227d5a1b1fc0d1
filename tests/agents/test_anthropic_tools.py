"""The tools of the agent `anthropic`: what they do in the sandbox, and how they take nonsense."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval import clock
from pytest_codereval.agents.anthropic_loop.outcome import Outcome
from pytest_codereval.agents.anthropic_loop.permissions import permitted
from pytest_codereval.agents.anthropic_loop.shell import OUTPUT_LIMIT, SHOWN
from pytest_codereval.agents.anthropic_loop.skill_tool import Skills
from pytest_codereval.agents.anthropic_loop.tools import Toolbox, common_call
from pytest_codereval.agents.skills.projected import ProjectedPlugin, Skill
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.task.models import SandboxConfig
from tests.fakes import FakeAnthropic, call, say
from tests.sandbox.making import create

from .anthropic_run import loops

EDITOR = "str_replace_based_edit_tool"
Use = Callable[..., Outcome]


@pytest.fixture
def sandbox() -> Iterator[DirectorySandbox]:
    made = create(SandboxConfig(), environments=EnvironmentPlan())
    yield made
    made.close()


@pytest.fixture
def workspace(sandbox: DirectorySandbox) -> Path:
    return sandbox.workspace


@pytest.fixture
def bash(sandbox: DirectorySandbox) -> Use:
    toolbox = Toolbox(sandbox, Skills(sandbox, ()), permitted(None, None))
    return lambda seconds=20.0, **parameters: toolbox.run("bash", parameters, clock.monotonic() + seconds)


@pytest.fixture
def edit(sandbox: DirectorySandbox) -> Use:
    toolbox = Toolbox(sandbox, Skills(sandbox, ()), permitted(None, None))
    return lambda **parameters: toolbox.run(EDITOR, parameters, clock.monotonic() + 20)


def test_the_directory_is_kept_and_the_variables_are_not(bash: Use, workspace: Path) -> None:
    assert bash(command="mkdir 'a b' && cd 'a b'; A=1; false").exit_status == 1
    assert bash(command="pwd; echo $A").output == f"{workspace}/a b\n\n"
    assert bash(command='rmdir "$PWD"; cd /').status == "success"
    assert bash(command="pwd").output == "/\n"
    assert bash(restart=True).status == "success"
    assert bash(command="pwd").output == f"{workspace}\n"


def test_a_directory_that_is_gone_is_left(bash: Use, workspace: Path) -> None:
    bash(command="mkdir d; cd d")
    (workspace / "d").rmdir()
    assert bash(command="pwd").output == f"{workspace}\n"


@pytest.mark.parametrize(
    ("command", "output", "status"),
    [
        ('echo $#; echo \'$(x)\' "\\""', '0\n$(x) "\n', 0),
        ("cat <<'EOF'\n$x `y`\nEOF", "$x `y`\n", 0),
        ("cat; echo end", "end\n", 0),
        ("[[ a == a ]] && echo bash", "bash\n", 0),
        ("set -C; set -e; false; echo never", "", 1),
        ("exit 7", "", 7),
        ("kill -9 $$", "", 137),
        ("printf '\\303\\244'", "ä", 0),
        ("", "", 0),
        ("# only a comment", "", 0),
        ("sleep 60 & echo started", "started\n", 0),
    ],
)
def test_commands_are_run_as_they_stand(bash: Use, command: str, output: str, status: int) -> None:
    outcome = bash(command=command)
    assert (outcome.output, outcome.exit_status) == (output, status)
    assert outcome.status == ("success" if status == 0 else "error")
    assert outcome.result


def test_a_long_command_is_no_problem(bash: Use) -> None:
    text = "x" * 300_000
    outcome = bash(command=f"cat <<'EOF' | wc -c\n{text}\nEOF")
    assert outcome.output.strip() == "300001"


def test_the_record_keeps_more_than_the_model_sees(bash: Use) -> None:
    outcome = bash(command="seq 1 20000")
    assert outcome.output == "".join(f"{number}\n" for number in range(1, 20001))
    assert len(outcome.result) < SHOWN + 200
    assert outcome.result.startswith("1\n2\n")
    assert outcome.result.endswith("19999\n20000\n")


def test_endless_output_is_bounded(bash: Use) -> None:
    outcome = bash(seconds=3, command="yes")
    assert OUTPUT_LIMIT <= len(outcome.output) < OUTPUT_LIMIT + 500
    assert outcome.exit_status == 137


def test_a_command_that_takes_too_long_is_killed(bash: Use) -> None:
    outcome = bash(seconds=2, command="echo begun; sleep 60")
    assert (outcome.status, outcome.exit_status) == ("error", 137)
    assert outcome.output.startswith("begun\n")
    assert "killed" in outcome.result


@pytest.mark.parametrize(
    "parameters", [{}, {"command": 7}, {"command": None}, {"restart": False}, {"restart": "yes"}, {"command": "a\0b"}]
)
def test_nonsense_for_bash_is_an_error_of_the_call(bash: Use, parameters: dict[str, Any]) -> None:
    assert bash(**parameters).status == "error"


@pytest.mark.parametrize(
    "name", ["a.txt", "new folder/b c.txt", "-n", "ü \n'\"$x`y`\\.txt", "a" * 200, "deep/" * 20 + "x"]
)
def test_files_of_any_name(edit: Use, workspace: Path, name: str) -> None:
    assert edit(command="create", path=name, file_text="eins\nzwei\n").status == "success"
    assert (workspace / name).read_text() == "eins\nzwei\n"
    assert edit(command="view", path=name).output == "     1\teins\n     2\tzwei\n"
    assert edit(command="str_replace", path=name, old_str="zwei\n", new_str="drei").status == "success"
    assert edit(command="insert", path=name, insert_line=2, insert_text="vier").status == "success"
    assert (workspace / name).read_text() == "eins\ndrei\nvier\n"


def test_absolute_and_home_paths(edit: Use, sandbox: DirectorySandbox) -> None:
    edit(command="create", path=str(sandbox.tmp / "x"), file_text="1")
    edit(command="create", path="~/x", file_text="2")
    assert (sandbox.tmp / "x").read_text() == "1"
    assert (sandbox.home / "x").read_text() == "2"


def test_links_are_followed_with_the_rights_of_the_agent_only(
    edit: Use, workspace: Path, sandbox: DirectorySandbox
) -> None:
    outside = sandbox.tmp / "outside"
    outside.write_text("there")
    (workspace / "link").symlink_to(outside)
    assert "there" in edit(command="view", path="link").output
    assert edit(command="str_replace", path="link", old_str="there", new_str="here").status == "success"
    assert (workspace / "link").is_symlink()
    assert outside.read_text() == "here"


def test_the_mode_of_a_file_stays(edit: Use, workspace: Path) -> None:
    (workspace / "run").write_text("#!/bin/sh\necho 1\n")
    (workspace / "run").chmod(0o755)
    edit(command="str_replace", path="run", old_str="1", new_str="2")
    assert (workspace / "run").stat().st_mode & 0o777 == 0o755


def test_bytes_that_are_no_text_survive_an_edit(edit: Use, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"\xff\xfe one\r\ntwo")
    assert edit(command="str_replace", path="f", old_str="one", new_str="1").status == "success"
    assert edit(command="insert", path="f", insert_line=2, insert_text="three").status == "success"
    assert (workspace / "f").read_bytes() == b"\xff\xfe 1\r\ntwo\nthree\n"


def test_a_directory_is_listed(edit: Use, workspace: Path) -> None:
    assert "empty" in edit(command="view", path=".").output
    for name in ("b/c/d", "b/.hidden", ".git/x", "a"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).touch()
    assert edit(command="view", path=str(workspace)).output.splitlines()[1:] == ["./a", "./b", "./b/c"]


@pytest.mark.parametrize(
    ("lines", "shown"),
    [([2, 3], "     2\tb\n     3\tc\n"), ([3, -1], "     3\tc\n     4\td\n"), ([4, 900], "     4\td\n")],
)
def test_a_range_of_lines(edit: Use, workspace: Path, lines: list[int], shown: str) -> None:
    (workspace / "f").write_text("a\nb\nc\nd")
    assert edit(command="view", path="f", view_range=lines).output == shown


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"command": "undo_edit", "path": "f"},
        {"command": ["view"], "path": "f"},
        {"command": "view"},
        {"command": "view", "path": 5},
        {"command": "view", "path": ""},
        {"command": "view", "path": "a\0b"},
        {"command": "view", "path": "x" * 200_000},
        {"command": "view", "path": "absent"},
        {"command": "view", "path": "dangling"},
        {"command": "view", "path": "fifo"},
        {"command": "view", "path": "/dev/zero"},
        {"command": "view", "path": "binary"},
        {"command": "view", "path": "f/x"},
        *(
            {"command": "view", "path": "f", "view_range": one}
            for one in (3, [1], ["1", 2], [0, 1], [2, 1], [9, -1], [1, None])
        ),
        {"command": "create", "path": "f"},
        {"command": "create", "path": "fifo", "file_text": ""},
        {"command": "create", "path": "folder", "file_text": ""},
        {"command": "create", "path": "f/x", "file_text": ""},
        {"command": "create", "path": "/proc/x", "file_text": ""},
        {"command": "str_replace", "path": "f", "old_str": "", "new_str": "x"},
        {"command": "str_replace", "path": "f", "old_str": "absent", "new_str": "x"},
        {"command": "str_replace", "path": "f", "old_str": "twice", "new_str": "x"},
        {"command": "str_replace", "path": "f", "old_str": "once", "new_str": 5},
        {"command": "str_replace", "path": "f"},
        {"command": "str_replace", "path": "folder", "old_str": "a", "new_str": "b"},
        *(
            {"command": "insert", "path": "f", "insert_line": one, "insert_text": "x"}
            for one in (None, "1", True, -1, 99)
        ),
        {"command": "insert", "path": "f", "insert_line": 1},
    ],
    ids=lambda parameters: str(parameters)[:60],
)
def test_nonsense_for_the_editor_is_an_error_of_the_call(
    edit: Use, workspace: Path, parameters: dict[str, Any]
) -> None:
    (workspace / "f").write_text("once\ntwice\ntwice\n")
    (workspace / "folder").mkdir()
    (workspace / "binary").write_bytes(b"a\0b")
    (workspace / "dangling").symlink_to("nowhere")
    os.mkfifo(workspace / "fifo")
    outcome = edit(**parameters)
    assert outcome.status == "error"
    assert outcome.result
    assert (workspace / "f").read_text() == "once\ntwice\ntwice\n"
    name, told = common_call(EDITOR, parameters)
    assert name in (EDITOR, "Read", "Write", "Edit")
    assert None not in told.values()


@pytest.mark.parametrize(
    ("allowed", "disallowed", "tools", "commands"),
    [
        (None, None, ["bash", EDITOR], ["view", "create", "str_replace", "insert"]),
        (["Bash", "Glob", "AskUserQuestion", "mcp__a__b"], None, ["bash"], []),
        (["Read", "Grep"], None, [EDITOR], ["view"]),
        (["Read", "Write", "Edit"], ["Write", "Task"], [EDITOR], ["view", "str_replace", "insert"]),
        (None, ["Bash", "Read", "Write", "Edit"], [], []),
        ([], None, [], []),
    ],
)
def test_only_permitted_tools_are_offered_and_work(
    sandbox: DirectorySandbox,
    allowed: list[str] | None,
    disallowed: list[str] | None,
    tools: list[str],
    commands: list[str],
) -> None:
    toolbox = Toolbox(sandbox, Skills(sandbox, ()), permitted(allowed, disallowed))
    assert [tool["name"] for tool in toolbox.definitions] == tools
    assert toolbox.editor_commands == commands
    written = toolbox.run(EDITOR, {"command": "create", "path": "x", "file_text": ""}, clock.monotonic() + 20)
    assert (written.status == "success") is ("create" in commands)
    assert (sandbox.workspace / "x").exists() is ("create" in commands)
    ran = toolbox.run("bash", {"command": "touch y"}, clock.monotonic() + 20)
    assert (ran.status == "success") is ("bash" in tools)


def test_skills_are_listed_and_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "skills" / "baking"
    source.mkdir(parents=True)
    (source / "SKILL.md").write_text("---\nname: baking\ndescription: Bread.\n---\n# Baking\n\n---\nKnead.\n")
    script = [call("Skill", skill="bakery:baking"), call("Skill", skill="brewing"), say("ok")]
    with loops(monkeypatch) as make, FakeAnthropic(script) as fake:
        loop = make()
        folder = loop.sandbox.provide(source, "baking")
        skill = Skill("baking", "How to\nbake bread.", folder, "bakery")
        loop.plugins = (ProjectedPlugin("bakery", folder, (skill,)),)
        loop.start(fake).run()
        body = fake.requests[0].body
    assert "- bakery:baking: How to bake bread." in body["system"][0]["text"]
    assert [tool["name"] for tool in body["tools"]][-1] == "Skill"
    loaded = f"Base directory for this skill: {folder}\n\n# Baking\n\n---\nKnead.\n"
    assert [(one.name, one.status) for one in loop.calls()] == [("Skill", "success"), ("Skill", "error")]
    assert loop.calls()[0].output == loaded
    assert "bakery:baking" in loop.calls()[-1].output
    assert loop.calls()[0].parameters == {"skill": "bakery:baking"}


def test_a_short_name_is_enough_where_no_other_skill_has_it(sandbox: DirectorySandbox, tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("Knead.")
    folder = sandbox.provide(tmp_path, "skill")
    both = (Skill("baking", "", folder, "a"), Skill("baking", "", folder, "b"), Skill("brewing", "", folder, "b"))
    skills = Skills(sandbox, both)
    names = ("brewing", "/b:brewing", "a:baking", "baking", "a:brewing", "..", "")
    done = [skills.run({"skill": name}, clock.monotonic() + 20).status for name in names]
    assert done == ["success"] * 3 + ["error"] * 4


def test_tools_that_are_not_there_are_an_error_of_the_call(sandbox: DirectorySandbox) -> None:
    toolbox = Toolbox(sandbox, Skills(sandbox, ()), permitted(None, None))
    for name in ("Bash", "Skill", "", "x" * 1000):
        assert toolbox.run(name, {"command": "touch x", "skill": 5}, clock.monotonic() + 20).status == "error"
    assert list(sandbox.workspace.iterdir()) == []
