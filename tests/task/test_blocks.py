"""The blocks about the agent and the sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_codereval.task.agent_models import AGENT_MODELS, AgentConfig

from .samples import EXISTS, load, problems

NEEDED: dict[str, dict[str, Any]] = {
    "script": {"steps": []},
    "command": {"command": ["my-agent", "--go"]},
    "replay": {"record": "run/trial.json"},
}


@pytest.mark.parametrize("kind", sorted(AGENT_MODELS))
def test_every_agent_loads_with_what_all_have_in_common(kind: str) -> None:
    common = {
        "model": "m",
        "permission_mode": "plan",
        "allowed_tools": ["Bash"],
        "additional_ignore_patterns": ["x", "!y"],
    }
    prompt = None if kind == "none" else "hi"
    agent = load(agent={"type": kind, **common, **NEEDED.get(kind, {})}, initial_prompt=prompt).task.agent
    assert type(agent) is AGENT_MODELS[kind]
    assert agent.ignore_patterns == ("x", "!y")


def test_an_agent_without_a_type_is_what_all_have_in_common() -> None:
    assert type(load(agent={"model": "m"}).task.agent) is AgentConfig


@pytest.mark.parametrize(
    ("agent", "key", "expected"),
    [
        ("claude-code", "", "expected a mapping"),
        ({"type": "claude"}, "type", "did you mean 'claude-code'"),
        ({"type": 5}, "type", "no agent is called 5"),
        ({"type": "codex", "sdk_options": {}}, "sdk_options", "only claude-code, delegate can have it"),
        ({"type": "codex", "context_window": 32767}, "context_window", "at least 32768"),
        ({"type": "claude-code", "context_window": 99_999}, "context_window", "100000 to 1000000"),
        ({"type": "claude-code", "context_window": 1_000_001}, "context_window", "100000 to 1000000"),
        ({"type": "pi", "context_window": 50_000}, "context_window", "cannot limit"),
        ({"context_window": 0}, "context_window", "more than 0"),
        ({"type": "claude-code", "context_window": 200_000, "claude_settings": {"autoCompactWindow": 1}},
         "context_window", "autoCompactWindow"),
        ({"system_prompt": "a", "system_prompt_file": "b"}, "system_prompt_file", "exclude"),
        ({"type": "claude-code", "system_prompt_mode": "replace", "system_prompt": " "}, "system_prompt_mode", "needs"),
        ({"type": "claude-code", "sdk_options": {"cwd": "/", "effort": "high"}}, "sdk_options", "cwd"),
        ({"type": "claude-code", "claude_settings": 5}, "claude_settings", "path or a mapping"),
        ({"type": "claude-code", "setting_sources": ["global"]}, "setting_sources[0]", "'user', 'project' or 'local'"),
        ({"type": "delegate", "sdk_options": {"effort": "x", "model": "y"}}, "sdk_options.model", "unknown key"),
        ({"type": "antigravity", "thinking_level": "max"}, "thinking_level", "'minimal', 'low', 'medium' or 'high'"),
        ({"permission_mode": "acceptedits"}, "permission_mode", "did you mean 'acceptEdits'"),
        ({"ignore_patterns": ["!"]}, "ignore_patterns", "names nothing"),
        ({"plugins": [{"type": "git", "path": "x"}]}, "plugins[0].type", "'local'"),
        ({"type": "script"}, "steps", "missing"),
        ({"type": "script", "steps": [{}]}, "steps[0]", "found none"),
        ({"type": "script", "steps": [{"say": "a", "bash": "b"}]}, "steps[0]", "found bash and say"),
        ({"type": "script", "steps": [{"say": "a", "timeout": 2}]}, "steps[0].timeout", "bash"),
        ({"type": "script", "steps": [{"bsh": "a"}]}, "steps[0].bsh", "did you mean 'bash'"),
        ({"type": "script", "steps": [{"write": {"path": "a"}}]}, "steps[0].write.content", "missing"),
        ({"type": "script", "steps": [{"sleep": -1}]}, "steps[0].sleep", "at least 0"),
        ({"type": "script", "steps": [{"tool": {"name": "x", "status": "ok"}}]}, "steps[0].tool.status", "'success'"),
        ({"type": "command", "command": []}, "command", "at least one"),
        ({"type": "command", "command": "my-agent"}, "command", "expected a list"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_agent_is_one_problem_at_its_key(agent: Any, key: str, expected: str) -> None:
    (problem,) = problems(agent=agent)
    assert problem.key == f"agent.{key}".rstrip(".")
    assert expected in problem.message


def test_every_step_of_a_script_has_its_kind() -> None:
    steps: list[dict[str, Any]] = [
        {"bash": "uip login", "timeout": 3},
        {"write": {"path": "a.txt", "content": "x"}},
        {"tool": {"name": "Skill", "parameters": {"skill": "s"}, "status": "success", "output": ""}},
        {"say": ""},
        {"sleep": 0},
        {"crash": "why"},
    ]
    agent: Any = load(agent={"type": "script", "steps": steps}).task.agent
    assert [step.kind for step in agent.steps] == ["bash", "write", "tool", "say", "sleep", "crash"]


def test_a_blank_system_prompt_is_none() -> None:
    assert load(agent={"system_prompt": " \n"}).task.agent.system_prompt is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sandbox", "key", "expected"),
    [
        ({"driver": "podman"}, "driver", "expected one of tempdir, bubblewrap, docker"),
        ({"template_sources": [{"path": "x"}]}, "template_sources[0]", "'type' is missing"),
        ({"template_sources": [{"type": "template", "path": "x"}]}, "template_sources[0]", "mean 'template_dir'"),
        ({"template_sources": [{"type": "template_dir", "path": ""}]}, "template_sources[0].path", "found none"),
        ({"template_sources": [{"type": "template_dir", "path": "x", "mount_point": "../y"}]},
         "template_sources[0].mount_point", "leaves"),
        ({"template_sources": [{"type": "template_dir", "path": "x", "mount_point": ""}]},
         "template_sources[0].mount_point", "empty"),
        ({"template_sources": [{"type": "template_dir", "path": "x", "include_patterns": ["/etc/*"]}]},
         "template_sources[0].include_patterns", "absolute"),
        ({"template_sources": [{"type": "starter_files", "files": [{"path": "/etc/x", "content": ""}]}]},
         "template_sources[0].files[0].path", "absolute"),
        ({"template_sources": [{"type": "starter_files", "files": [{"path": "x"}]}]},
         "template_sources[0].files[0].content", "missing"),
        ({"template_sources": [{"type": "template_dir", "path": "x"}, {"type": "repo", "url": "u"}]},
         "template_sources[1]", "must be the first"),
        ({"mock_path_dirs": ["../m"]}, "mock_path_dirs[0]", "leaves"),
        ({"mock_path_dirs": "m"}, "mock_path_dirs", "expected a list"),
        ({"env": {"A-B": "x"}}, "env", "'A-B'"),
        ({"env": {"A": 8080}}, "env.A", "quotes"),
        ({"env": {"A": "x\0"}}, "env.A", "NUL"),
        ({"env": {"PATH": "/x"}}, "env", "set by the harness"),
        ({"env_passthrough": ["A=b"]}, "env_passthrough", "'A=b'"),
        ({"docker": {"working_dir": "/work/x"}}, "docker.working_dir", "taken"),
        ({"docker": {"working_dir": "app"}}, "docker.working_dir", "absolute"),
        ({"docker": {"network": "host"}}, "docker.network", "expected none, bridge"),
        ({"docker": {"working_dir": "/usr"}}, "docker.working_dir", "folder of the system"),
        ({"docker": {"extra_mounts": ["/a:/b:rwx"]}}, "docker.extra_mounts[0]", "rwx"),
        ({"docker": {"extra_mounts": ["/a:/x", "/a"]}}, "docker.extra_mounts[1]", "source:destination"),
        ({"docker": {"extra_mounts": ["/a:b"]}}, "docker.extra_mounts[0]", "absolute destination"),
        ({"docker": {"extra_mounts": ["/a:/b:ro:rw"]}}, "docker.extra_mounts[0]", "source:destination"),
        ({"docker": {"extra_mounts": ["/a:/b/../etc"]}}, "docker.extra_mounts[0]", "without '..'"),
        ({"docker": {"extra_mounts": ["/a://proc/./self"]}}, "docker.extra_mounts[0]", "/proc/self"),
        ({"docker": {"extra_mounts": [7]}}, "docker.extra_mounts[0]", "or a mapping"),
        ({"docker": {"extra_mounts": [{"source": "/a"}]}}, "docker.extra_mounts[0].target", "missing"),
        ({"docker": {"extra_mounts": [{"source": "/a", "target": "/etc"}]}}, "docker.extra_mounts[0].target", "/etc"),
        ({"docker": {"extra_mounts": [{"source": "/a", "target": "/b", "mode": "w"}]}},
         "docker.extra_mounts[0].mode", "'ro' or 'rw'"),
        ({"docker": {"extra_mounts": [{"source": "/a", "target": "/b", "share": True}]}},
         "docker.extra_mounts[0].share", "did you mean 'shared'"),
        ({"docker": {"extra_mounts": [{"source": "/a", "target": "/b", "shared": True}]}},
         "docker.extra_mounts[0].shared", "mode: rw"),
        ({"docker": {"env_passthrough_extra": ["A=b"]}}, "docker.env_passthrough_extra", "'A=b'"),
        ({"limits": {"max_cpus": 0}}, "limits.max_cpus", "more than 0"),
        ({"node": {"packages": ["x"]}}, "node.packages", "unknown key"),
        ({"ignore_patterns": [""]}, "ignore_patterns", "names nothing"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_sandbox_is_one_problem_at_its_key(sandbox: Any, key: str, expected: str) -> None:
    (problem,) = problems(sandbox=sandbox)
    assert problem.key == f"sandbox.{key}".rstrip(".")
    assert expected in problem.message


@pytest.mark.parametrize(
    "sandbox",
    [
        {"python": None},
        {"python": {"env_packages": ["requests"]}, "node": {}},
        {"template_sources": [{"type": "repo", "url": "u"}, {"type": "template_dir", "path": "../../shared"}]},
        {"env": {"A": "x"}, "env_passthrough": ["UIPATH_*", "HOME_OF_X"]},
        {"docker": {"working_dir": "auto", "extra_mounts": ["~/.x:/x:rw", "${A}:$B", "C:\\x:/y:ro"]}},
        {"docker": {"extra_mounts": [{"source": "$A", "target": "~/x", "mode": "rw", "shared": True}]}},
        {"docker": {"env_passthrough": None, "env_passthrough_extra": ["UIPATH_*"]}},
        {"docker": {"working_dir": "/usr/src/app"}},
        {"docker": {"build": {"args": {"A": "b"}, "buildkit": True}}, "driver": "docker"},
        {"limits": {"max_memory_mb": 10, "max_cpus": 0.5, "max_pids": 5, "max_disk_mb": 1, "timeout": 3}},
    ],
)
def test_what_an_author_may_write_loads(sandbox: Any) -> None:
    assert problems(sandbox=sandbox) == ()


def test_a_key_of_the_sandbox_at_the_top_level_is_sent_there() -> None:
    misplaced: dict[str, Any] = {"record_cli": [], "mock_path_dirs": []}
    assert all("it belongs under sandbox" in problem.message for problem in problems(**misplaced))
    assert len(problems(**misplaced)) == 2


def test_the_model_survives_being_dumped_and_read_again() -> None:
    from pytest_codereval.task.models import Task

    task = load(
        agent={"type": "script", "steps": [{"say": "x"}]},
        sandbox={"template_sources": [{"type": "starter_files", "files": [{"path": "a", "content": "b"}]}],
                 "record_cli": [{"tool": "x", "responses": [{"when": {"flags": {"a": "b"}}}]}]},
        success_criteria=[EXISTS, {"type": "cli_called", "description": "d", "tool": "x", "flags": {"f": "v"}}],
    ).task  # fmt: skip
    assert Task.model_validate(task.model_dump(mode="json")) == task
    assert Task.model_validate(task.model_dump(mode="json", exclude_unset=True)) == task


def test_mounts_have_one_form_however_they_are_written() -> None:
    written = ["/a:/b", "C:\\x:/y:rw", {"source": "/a", "target": "/b"}]
    docker = load(sandbox={"docker": {"extra_mounts": written}}).task.sandbox.docker
    assert [(mount.source, mount.target, mount.mode, mount.shared) for mount in docker.mounts] == [
        ("/a", "/b", "ro", False),
        ("C:\\x", "/y", "rw", False),
        ("/a", "/b", "ro", False),
    ]
    assert docker.extra_mounts[:2] == ("/a:/b", "C:\\x:/y:rw")


def test_home_and_path_are_never_let_through() -> None:
    passed = {"env_passthrough": ["HOME", "A", "PATH"], "env_passthrough_extra": ["B", "A"]}
    assert load(sandbox={"docker": passed}).task.sandbox.docker.passed_names == ("A", "B")
    assert load(sandbox={"docker": {"env_passthrough": None}}).task.sandbox.docker.passed_names == ()
