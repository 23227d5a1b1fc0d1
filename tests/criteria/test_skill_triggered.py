"""skill_triggered: what counts as a use of a skill."""

import dataclasses
from pathlib import Path

import pytest

from pytest_codereval.criteria import skill_triggered
from pytest_codereval.criteria.contract import Evidence, Verdict
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.sandbox.workspace import Workspace
from pytest_codereval.trajectory.model import ToolCall, Trajectory

from .build import call, criterion

USES = [
    "cd ~/.codex/skills/p/skills && cat listed/SKILL.md",
    "(cd $HOME/skills; cat listed/SKILL.md)",
    "(cd skills/other && ls); cd skills && head -5 ./listed/SKILL.md",
    "pushd /a/skills >/dev/null; cat listed/SKILL.md; popd",
    "cd skills/other && cat ../listed/SKILL.md",
    "cd skills/listed && cd scripts && cat a.py",
    "cd skills/listed; ls; ./run.sh",
    "cd skills/listed && make",
    "cd skills/listed && ls | xargs cat",
    "ls && (cd skills && (cd listed && cat SKILL.md))",
    "cd skills/listed && ls && cat SKILL.md",
    "bash -lc 'cd skills && cat listed/SKILL.md'",
    "cat /x/skills/*/SKILL.md",
    "cat .claude/skills/li*/SKILL.md",
    "cat skills/l[ai]sted/SKILL.md",
    "cat skills/{other,listed}/SKILL.md",
    "cat */listed/SKILL.md",
    "cat skills//listed//SKILL.md",
    "cat skills/./listed/SKILL.md",
    "cat skills/other/../listed/SKILL.md",
    "for d in skills/*; do cat $d/SKILL.md; done",
    'for f in skills/*/SKILL.md; do head -3 "$f"; done',
    "find skills -name SKILL.md -exec cat {} +",
    "find ~/.claude/skills/listed -type f -exec head -5 {} \\;",
    "find skills -name SKILL.md | xargs head",
    "cat $(find skills/listed -name '*.md')",
    "find skills -name SKILL.md | while read f; do cat $f; done",
    "D=~/.codex/skills; for s in listed other; do cat $D/$s/SKILL.md; done",
    'while read f; do cat "$f"; done < <(find skills -name SKILL.md)',
    "cat $(pwd)/skills/listed/SKILL.md",
    "uv run python skills/listed/a.py",
    "curl -d @skills/listed/a.json http://127.0.0.1",
    "grep -n use skills/listed/SKILL.md",
    "grep -rn use skills/listed",
    "rg -g '*.md' use skills/listed/",
    "grep -e use -r skills/listed/",
    "git show HEAD:skills/listed/SKILL.md",
    "cp skills/listed/template.txt .",
    "cp -r skills/listed /tmp/x",
    "sed -n '1,200p' skills/listed/SKILL.md",
    "awk -f skills/listed/a.awk data.txt",
    "jq .name skills/listed/a.json",
    "less skills/listed/SKILL.md",
    "tail -n 3 skills/listed/SKILL.md | wc -l",
    "source skills/listed/env.sh",
    ". skills/listed/env.sh",
    "python skills/listed/scripts/a.py --all",
    "bash skills/listed/a.sh",
    "skills/listed/a.sh",
    "timeout 5 node --import=./skills/listed/a.mjs x.mjs",
    "cat < skills/listed/SKILL.md",
    "cat <skills/listed/SKILL.md >copy",
    "while read l; do echo $l; done < skills/listed/SKILL.md",
    "text=$(<skills/listed/SKILL.md)",
    "cat skills/listed/SKILL.md 2>/dev/null || true",
    "[ -f skills/listed/SKILL.md ] && cat skills/listed/SKILL.md",
    "python - <<'E'\nprint(open('skills/listed/SKILL.md').read())\nE",
]

NO_USES = [
    "grep 'skills/listed/SKILL.md' README.md",
    "grep -rn 'skills/listed/' .",
    "grep -rne skills/listed/ .",
    "grep -A 3 skills/listed/SKILL.md README.md",
    "rg 'skills/listed/' docs",
    "rg --glob 'skills/listed/*' use docs",
    "sed -i s#skills/listed/a#skills/listed/b# README.md",
    "git add -- skills/listed/SKILL.md",
    "git log -- skills/listed/SKILL.md",
    "git -C . rm skills/listed/SKILL.md",
    "git mv skills/listed/a skills/listed/b",
    "git grep skills/listed/SKILL.md",
    "test -f skills/listed/SKILL.md",
    "[ -f skills/listed/SKILL.md ]",
    "[[ -f skills/listed/SKILL.md ]] && echo there",
    "stat skills/listed/SKILL.md",
    "ls -la skills/listed/ skills/listed/SKILL.md",
    "rm -rf skills/listed/",
    "mkdir -p skills/listed/scripts",
    "touch skills/listed/SKILL.md",
    "chmod +x skills/listed/a.sh",
    "mv draft.md skills/listed/SKILL.md",
    "cp draft.md skills/listed/SKILL.md",
    "echo hi > skills/listed/SKILL.md",
    "cat > skills/listed/SKILL.md <<'E'\nsee skills/listed/x\nE",
    "cat draft.md | tee skills/listed/SKILL.md",
    "find . -path '*/skills/listed/*' -prune -o -print",
    "find skills/listed -name '*.md'",
    "find src -name '*.md' -exec cat {} +",
    "ls skills/listed/ | head -3",
    "ls skills; cat $X",
    "diff <(ls skills/listed/) <(ls b)",
    "curl -o skills/listed/x http://127.0.0.1",
    "tar xf a.tgz -C skills/listed/",
    "find skills/listed | xargs rm",
    "cd skills/listed && ls | head -3",
    "cd skills/listed && pwd && cat /etc/hosts",
    "cd skills/listed && git status",
    "cd skills/listed && ls | head -n 3 | cut -d , -f 1 | tr a b",
    "cd skills/listed && ls; cd ~ && make",
    "cat a.md # skills/listed/SKILL.md",
    "ls skills | xargs echo; printf '%s' skills/listed/SKILL.md",
    "(cd skills/listed && ls); cat SKILL.md",
    "(cd skills/listed && ls); (cd src && cat main.py)",
    "cd skills/listed; cd -; cat README.md",
    "pushd skills; popd; cat listed/SKILL.md",
    "cat skills/other/SKILL.md skills/listed-more/SKILL.md",
    "cat skills/listed/../other/SKILL.md",
    "cat skills/o*/SKILL.md",
    "cat */*/SKILL.md",
    "cat otherskills/listed/SKILL.md",
    "for f in docs/*; do cat $f; done; ls skills/listed/",
]


def used(*calls: ToolCall, skill: str = "listed") -> bool:
    """Whether the skill counts as used, after the end of the agent."""
    model = criterion(type="skill_triggered", skill_name=skill, expected_skill=skill)
    return skill_triggered.check(model, evidence(calls)).label == "yes"


def live(*calls: ToolCall) -> Verdict | None:
    model = criterion(type="skill_triggered", skill_name="listed", expected_skill="listed")
    return skill_triggered.live_verdict(model, evidence(calls))


def evidence(calls: tuple[ToolCall, ...]) -> Evidence:
    return Evidence(Workspace(Path("/")), Trajectory(calls), InvocationLog(), shell=None)


def bash(command: str, exit_status: int | None = 0, output: str = "") -> ToolCall:
    made = call("Bash", "error" if exit_status else "success", command=command)
    return dataclasses.replace(made, exit_status=exit_status, output=output)


@pytest.mark.parametrize("command", USES)
def test_command_that_reads_or_runs_a_file_of_the_skill(command):
    assert used(bash(command))
    assert live(bash(command)) is Verdict.PASS


@pytest.mark.parametrize("command", NO_USES)
def test_command_that_reads_nothing_of_the_skill(command):
    assert not used(bash(command))
    assert live(bash(command)) is None


@pytest.mark.parametrize(
    ("made", "is_use"),
    [
        (bash("cat skills/listed/SKILL.md", 1), False),
        (bash("cd skills/listed && cat SKILL.md", 1), False),
        (call("Bash", "error", command="cat skills/listed/SKILL.md"), False),
        (call("Bash", "unknown", command="cat skills/listed/SKILL.md"), True),
        (bash("cat skills/listed/SKILL.md; false", 1), True),
        (bash("cat missing skills/listed/SKILL.md", 1), True),
        (bash("cp -r skills/listed /tmp", 1), False),
        (bash("python skills/listed/check.py", 1, "2 mistakes"), True),
        (bash("python skills/listed/check.py", 2, "python: can't open file 'skills/listed/check.py'"), False),
        (bash("skills/listed/check.sh", 127), False),
        (bash(r"type C:\x\skills\listed\SKILL.md", 1), False),
        (call("Read", "error", file_path="skills/listed/SKILL.md"), False),
        (call("Read", file_path="/a/skills/other/..//listed/SKILL.md"), True),
        (call("Grep", pattern="skills/listed/x", path="docs"), False),
        (call("Grep", pattern="x", path="skills/listed/"), True),
        (call("Grep", pattern="x", path="docs", glob="skills/listed/*"), False),
        (call("Glob", pattern="skills/listed/*", path="skills/listed/"), False),
        (call("Write", file_path="skills/listed/SKILL.md", content="x"), False),
        (call("Skill", "error", skill="listed"), False),
    ],
)
def test_success_and_tool_decide(made, is_use):
    assert used(made) is is_use
    assert used(call("Bash", command="ls"), made) is is_use


@pytest.mark.parametrize(
    ("skill", "name", "is_use"),
    [
        ("a.b", "plug:a-b", True),
        ("a.b", "plug:a.b", True),
        ("a.b", "a.b", True),
        ("Foo Bar.v2", "plug:Foo-Bar-v2", True),
        ("Übung", "plug:-bung", True),
        ("Übung", "Übung", True),
        ("a:b", "a:b", True),
        ("listed", "/plug:listed", True),
        ("a.b", "plug:a_b", False),
        ("a.b", "a-b:other", False),
        ("日本", "中文", False),
        ("a-b", "a.b", False),
    ],
)
def test_name_of_the_skill_tool(skill, name, is_use):
    assert used(call("Skill", skill=name), skill=skill) is is_use


@pytest.mark.parametrize(
    "made",
    [
        call("Skill", "unknown", skill="listed"),
        call("Read", "unknown", file_path="skills/listed/SKILL.md"),
        call("Bash", "unknown", command="cat skills/listed/SKILL.md"),
    ],
)
def test_call_that_has_not_ended_counts_at_the_end_only(made):
    assert live(made) is None
    assert used(made)
    assert live(dataclasses.replace(made, ended=2.0)) is Verdict.PASS
    assert live(dataclasses.replace(made, status="success")) is Verdict.PASS
