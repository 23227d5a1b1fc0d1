"""What of a plugin reaches the agent, and what never does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.agents.skills import plugin_copy
from pytest_codereval.agents.skills.plugin_copy import KeptOut
from pytest_codereval.agents.skills.projection import make_projection, project
from pytest_codereval.agents.skills.skill_files import front_matter
from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.protocol import Phase
from pytest_codereval.task.agent_models import Plugin
from pytest_codereval.task.models import SandboxConfig, Task
from tests.sandbox.making import create

SKILL = "---\nname: {name}\ndescription: About {name}\n---\nDo it well.\n"


def put(root: Path, files: dict[str, str]) -> Path:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")
    return root


def skill(name: str) -> str:
    return SKILL.format(name=name)


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


@pytest.fixture
def task_folder(tmp_path: Path) -> Path:
    return put(tmp_path / "tasks", {"task.yaml": "task_id: t\n"})


class Copies:
    """Projects plugins below `tmp_path`."""

    def __init__(self, tmp_path: Path, task_folder: Path) -> None:
        self._target = tmp_path / "target"
        self._task_folder = task_folder
        self.notes: list[str] = []

    def __call__(self, *paths: Path, keep_out: tuple[Path, ...] = ()) -> list[tuple[str, Path]]:
        self._target.mkdir()
        plugins = [Plugin(path=str(path)) for path in paths]
        return project(plugins, self._task_folder, self._target, KeptOut(self._task_folder, keep_out), self.notes)

    def one(self, path: Path, **options: Any) -> tuple[str, set[str]]:
        ((name, folder),) = self(path, **options)
        return name, tree(folder)


@pytest.fixture
def copies(tmp_path: Path, task_folder: Path) -> Copies:
    return Copies(tmp_path, task_folder)


MANIFEST = ".claude-plugin/plugin.json"


def test_only_the_declared_parts_of_a_plugin_are_copied(tmp_path: Path, copies: Copies) -> None:
    root = put(
        tmp_path / "repo",
        {
            MANIFEST: json.dumps({"name": "rules", "commands": "./more/special.md", "skills": ["./extra"]}),
            "skills/a/SKILL.md": skill("a"),
            "skills/a/scripts/run.sh": "echo",
            "skills/a/tests/expected.txt": "answer",
            "skills/a/evals/evals.json": "answer",
            "skills/a/sample.yaml": "task_id: x\nsuccess_criteria:\n  - x\n",
            "skills/tests/SKILL.md": skill("tests"),
            "extra/b/SKILL.md": skill("b"),
            "commands/c.md": "c",
            "agents/d.md": "d",
            "hooks/hooks.json": '{"command": "${CLAUDE_PLUGIN_ROOT}/scripts/hook.sh"}',
            "scripts/hook.sh": ". $(dirname $0)/lib.sh",
            "scripts/lib.sh": "lib",
            "more/special.md": "special",
            "more/other.md": "other",
            ".mcp.json": "{}",
            "tests/check.py": "answer",
            ".git/config": "x",
            "README.md": "readme",
        },
    )
    name, found = copies.one(root)
    assert name == "rules"
    assert found == {
        *(MANIFEST, "skills/a/SKILL.md", "skills/a/scripts/run.sh", "skills/tests/SKILL.md", "skills/b/SKILL.md"),
        *("commands/c.md", "agents/d.md", "hooks/hooks.json", ".mcp.json"),
        *("scripts/hook.sh", "scripts/lib.sh", "more/special.md"),
    }
    assert any("skills/a/sample.yaml is left out: a task" in note for note in copies.notes)
    assert any("skills/a/tests is left out" in note for note in copies.notes)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"SKILL.md": skill("x"), "agents/x.yaml": "x", "notes.md": "n"},
         {"skills/house/SKILL.md", "skills/house/agents/x.yaml", "skills/house/notes.md"}),
        ({"a/SKILL.md": skill("a"), "b/SKILL.md": skill("b"), "README.md": "r", "other/x": "x"},
         {"skills/a/SKILL.md", "skills/b/SKILL.md"}),
        ({"skills/a/SKILL.md": skill("a"), "skills/shared/x.md": "x", "src/x": "x"},
         {"skills/a/SKILL.md", "skills/shared/x.md"}),
    ],
    ids=["one skill", "folder of skills", "no manifest"],
)  # fmt: skip
def test_what_has_no_manifest_becomes_a_plugin_of_the_folders_name(
    tmp_path: Path, copies: Copies, files: dict[str, str], expected: set[str]
) -> None:
    name, found = copies.one(put(tmp_path / "house", files))
    assert name == "house"
    assert found == {MANIFEST, *expected}


def test_links_are_copied_as_what_they_lead_to_and_never_lead_out(tmp_path: Path, copies: Copies) -> None:
    secret = put(tmp_path / "elsewhere", {"secret.txt": "s"})
    root = put(
        tmp_path / "repo",
        {"skills/a/SKILL.md": skill("a"), "shared/style.md": "style", "tests/answer.txt": "answer", "x/y/z.md": "z"},
    )
    links = {
        "skills/a/style.md": "../../shared/style.md",
        "skills/a/folder": "../../x",
        "skills/a/out.txt": str(secret / "secret.txt"),
        "skills/out": str(secret),
        "skills/a/answer.txt": "../../tests/answer.txt",
        "skills/a/loop": "..",
        "skills/a/whole": "../..",
        "skills/a/nothing": "nowhere",
    }
    for path, target in links.items():
        (root / path).symlink_to(target)
    os.mkfifo(root / "skills/a/pipe")
    _, found = copies.one(root)
    assert found == {MANIFEST, "skills/a/SKILL.md", "skills/a/style.md", "skills/a/folder/y/z.md"}
    left_out = "\n".join(copies.notes)
    for path in ("skills/a/out.txt", "skills/out", "skills/a/answer.txt", "skills/a/whole", "skills/a/pipe"):
        assert f"{path} is left out" in left_out
    assert "skills/a/loop is left out: a link that leads into itself" in left_out
    assert "skills/a/nothing is left out: a link to nothing" in left_out


def test_scripts_stay_executable(tmp_path: Path, copies: Copies) -> None:
    root = put(tmp_path / "repo", {"skills/a/SKILL.md": skill("a"), "skills/a/run.sh": "echo"})
    (root / "skills/a/run.sh").chmod(0o755)
    ((_, folder),) = copies(root)
    assert (folder / "skills/a/run.sh").stat().st_mode & 0o111 == 0o111
    assert not (folder / "skills/a/SKILL.md").stat().st_mode & 0o111


def test_answer_keys_and_the_tasks_folder_are_kept_out_also_through_links(tmp_path: Path) -> None:
    root = put(
        tmp_path / "repo",
        {
            "skills/a/SKILL.md": skill("a"),
            "skills/a/rows.jsonl": "{}",
            "skills/a/reference/solution.py": "answer",
            "skills/a/cases/task.yaml": "task_id: x\n",
            "skills/a/cases/grader.py": "answer",
            "other/real.jsonl": "{}",
        },
    )
    (root / "skills/a/link.jsonl").symlink_to("../../other/real.jsonl")
    copies = Copies(tmp_path, root / "skills/a/cases")
    keys = (root / "skills/a/rows.jsonl", root / "skills/a/reference", root / "other")
    _, found = copies.one(root, keep_out=keys)
    assert found == {MANIFEST, "skills/a/SKILL.md"}
    assert len(copies.notes) == 4


def test_hard_links_to_answer_keys_are_kept_out(tmp_path: Path, copies: Copies) -> None:
    files = {"skills/a/SKILL.md": skill("a"), "skills/a/same.py": "answer"}
    root = put(tmp_path / "repo", files)
    keys = put(tmp_path / "keys", {"reference/deep/solution.py": "answer", "rows.jsonl": "{}"})
    (root / "skills/a/help.py").hardlink_to(keys / "reference/deep/solution.py")
    (root / "skills/a/rows.txt").hardlink_to(keys / "rows.jsonl")
    _, found = copies.one(root, keep_out=(keys / "reference", keys / "rows.jsonl"))
    assert found == {MANIFEST, *files}
    assert [note.partition(": ")[2] for note in copies.notes] == [
        "skills/a/help.py is left out: an answer key",
        "skills/a/rows.txt is left out: an answer key",
    ]


def test_a_plugin_may_lie_in_the_tasks_folder(copies: Copies, task_folder: Path) -> None:
    root = put(task_folder / "plugin", {"skills/a/SKILL.md": skill("a")})
    assert copies.one(root)[1] == {MANIFEST, "skills/a/SKILL.md"}


@pytest.mark.parametrize(
    ("files", "path", "message"),
    [
        ({}, "nowhere", "there is no directory"),
        ({"x/README.md": "r"}, "x", "nothing that an agent can use"),
        ({"x/skills/tests/expected": "r"}, "x", "nothing that an agent can use"),
        ({f"x/{MANIFEST}": "{"}, "x", "is not JSON"),
        ({f"x/{MANIFEST}": "{}"}, "x", "expected a mapping with the plugin's name"),
        ({f"x/{MANIFEST}": '{"name": "../x"}'}, "x", "expected a mapping with the plugin's name"),
        ({"key/SKILL.md": skill("a")}, "key", "is an answer key"),
        ({"tasks/SKILL.md": skill("a")}, "tasks", "is the folder of the task itself"),
        ({"tasks/SKILL.md": skill("a")}, ".", "lies in the task's folder"),
        ({"x/SKILL.md": skill("a")}, "$NO_SUCH_VARIABLE/x", "NO_SUCH_VARIABLE"),
    ],
)  # fmt: skip
def test_what_cannot_be_copied_is_told_with_its_key(
    tmp_path: Path, copies: Copies, files: dict[str, str], path: str, message: str
) -> None:
    put(tmp_path, files)
    place = Path(path) if path.startswith("$") else tmp_path / path
    with pytest.raises(TrialError, match=r"agent\.plugins\[0\]\.path: ") as caught:
        copies(place, keep_out=(tmp_path / "key",))
    assert caught.value.cause is Cause.CONFIGURATION
    assert message in str(caught.value)


def test_giants_are_refused(tmp_path: Path, copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    root = put(tmp_path / "repo", {"skills/a/SKILL.md": skill("a")})
    with (root / "skills/a/giant.bin").open("wb") as file:
        file.truncate(plugin_copy.MOST_BYTES + 1)
    with pytest.raises(TrialError, match=r"skills/a/giant\.bin the plugins have more than 200 MB"):
        copies(root)


def test_plugins_have_names_of_their_own(tmp_path: Path, copies: Copies) -> None:
    one = put(tmp_path / "1" / "skills", {"a/SKILL.md": skill("a")})
    two = put(tmp_path / "2" / "skills", {"b/SKILL.md": skill("b")})
    assert [name for name, _ in copies(one, two, one)] == ["skills", "skills-2"]


def test_two_manifests_of_one_name_are_a_mistake(tmp_path: Path, copies: Copies) -> None:
    roots = [
        put(tmp_path / name, {MANIFEST: '{"name": "p"}', "skills/a/SKILL.md": skill("a")}) for name in ("one", "two")
    ]
    with pytest.raises(TrialError, match=r"plugins\[1\].path: a plugin of the name 'p' stands in agent.plugins\[0\]"):
        copies(*roots)


@pytest.mark.parametrize(
    ("text", "fields", "doubt"),
    [
        (skill("a"), {"name": "a", "description": "About a"}, None),
        ("---\nname: a\ndescription: >\n  two\n  lines\n---\n", {"name": "a", "description": "two lines"}, None),
        (
            "---\nname: a\ndescription: Use when: always\n---\n",
            {"name": "a", "description": "Use when: always"},
            "YAML",
        ),
        ("---\n- a\n---\n", {}, "no mapping"),
        ("no front matter\n", {}, "does not begin"),
    ],
)
def test_front_matter(text: str, fields: dict[str, str], doubt: str | None) -> None:
    found, said = front_matter(text)
    assert found == fields
    assert (doubt in said) if doubt and said else said == doubt


def test_the_sandbox_gets_the_copy_outside_of_the_workspace(tmp_path: Path) -> None:
    put(
        tmp_path / "plugin",
        {"skills/a/SKILL.md": skill("other"), "skills/b/SKILL.md": "no front matter", "tests/x": "x"},
    )
    task = Task.model_validate(
        {
            "task_id": "t",
            "description": "d",
            "initial_prompt": "p",
            "agent": {"plugins": [{"path": "../plugin"}]},
            "success_criteria": [{"type": "file_exists", "path": "a", "description": "d"}],
        }
    )
    (tmp_path / "tasks").mkdir()
    sandbox = create(SandboxConfig(), environments=EnvironmentPlan())
    try:
        projection = make_projection(task, tmp_path / "tasks", sandbox)
        (plugin,) = projection.plugins
        assert [(one.name, one.description, one.plugin) for one in projection.skills] == [
            ("a", "About other", "plugin"),
            ("b", "", "plugin"),
        ]
        assert not plugin.folder.is_relative_to(sandbox.workspace)
        seen = sandbox.run(["cat", str(projection.skills[0].folder / "SKILL.md")], phase=Phase.AGENT, timeout=60)
        assert seen.stdout_text == skill("other")
        assert str(projection.skills[0].folder).endswith("/skills/a")
        assert any("skill a: its front matter calls it 'other'" in note for note in projection.notes)
        assert any("skill b: its SKILL.md does not begin" in note for note in projection.notes)
    finally:
        sandbox.close()
