"""Real agents in sandboxes that isolate: they work as everywhere, and the key of their model is out of their reach."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_codereval.agents import installed
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.sandbox import drivers, landlock
from pytest_codereval.sandbox.environment import EnvironmentPlan
from tests.fakes import Fake, FakeAnthropic, FakeOpenAI, Request, call, say
from tests.fakes.turns import Entry
from tests.sandbox import isolated
from tests.sandbox.making import create

from ..plugin.conftest import Repo
from . import claude_run, codex_run
from .live_run import CLIENT, PROGRAMS
from .test_kills import alive, until

KEY = "sk-test-SECRET-0123456789-abcdefghij"
SKILL = Path(__file__).resolve().parents[2] / "example_tasks" / "agents" / "skill_plugin"

NETWORKS: Mapping[str, Any] = {"codex": "none", "anthropic": {"allow": ["localhost:9"]}}

LOOK = """
import glob, os, socket
key = {reversed!r}[::-1].encode()
parts = (key, key[:24], key[-24:])

def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(2_000_000)
    except OSError:
        return b""

processes = [path for name in ("environ", "cmdline") for path in glob.glob(f"/proc/[0-9]*/{{name}}")]
home = os.environ["HOME"]
places = ("/tmp", "/etc", "/run", "/var/tmp", "/dev/shm", os.path.dirname(home), home, os.environ["TMPDIR"])
files = [os.path.join(folder, name) for place in places for folder, _, names in os.walk(place) for name in names]
hits = [path for path in (*processes, *files) if os.path.isfile(path) and any(part in read(path) for part in parts)]
harness = any(b"--codereval-run-dir" in read(path) for path in processes)
print("hits:", hits, "files:", len(files) > 3, "harness:", harness)
"""


class Models:
    """Plays the model of each task by its name."""

    def __init__(self, scripts: Mapping[str, list[Any]]) -> None:
        self._left = {name: [*script] for name, script in scripts.items()}

    def __call__(self, request: Request) -> Entry:
        left = self._left[request.body["model"]]
        entry: Entry = left.pop(0) if left else say("the script is used up")
        return entry


def work(agent: str) -> list[Any]:
    """What a model has its agent do: read its skill, call a tool that is recorded, go out, write, look around."""
    reads = [] if agent == "command" else [call("Skill", skill="changelog")]
    writes = call("Write", file_path="NOTES.md", content="# 1.4.0\n")
    if agent == "command":
        writes = call("Bash", command="echo '# 1.4.0' > NOTES.md")
    goes = call("Bash", command="relctl publish 1.4.0; : 3<>/dev/tcp/localhost/9")
    look = call("Bash", command="python3 look.py > seen.txt 2>&1; id -u >> seen.txt; cat seen.txt")
    return [*reads, goes, writes, look, say("Published as pub-77.")]


@pytest.fixture
def repo(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Repo:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:benchmark -p no:anyio -o codereval_patience=0")
    for name in ("ANTHROPIC_AUTH_TOKEN", "CODEX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Repo(pytester)


def options_for(driver: str) -> list[str]:
    """What has pytest use a driver."""
    image = ["-o", f"codereval_image={isolated.image_of('docker')}"] if driver == "docker" else []
    found = drivers.driver(driver).availability()
    if not found.usable:
        pytest.skip(f"no {driver}: {found.reason}")
    return [f"--codereval-driver={driver}", *image]


def write_tasks(repo: Repo, agents: list[str]) -> None:
    """A task for each agent, whose model has the name of the task."""
    client = repo.file("client.py", CLIENT)
    for agent in agents:
        block = {**PROGRAMS[agent].block, "model": agent}
        if agent == "command":
            block |= {"command": ["python3", str(client)], "env": {**block["env"], "MODEL": "{model}"}}
        else:
            block["plugins"] = [{"type": "local", "path": str(SKILL)}]
        starter = {"path": "look.py", "content": LOOK.format(reversed=KEY[::-1])}
        tool = {"tool": "relctl", "stdout": '{"id": "pub-77"}\n'}
        criteria: list[dict[str, Any]] = [
            {"type": "file_contains", "path": "NOTES.md", "includes": ["1.4.0"]},
            {"type": "cli_called", "tool": "relctl", "verb": "publish", "positional": ["1.4.0"], "max_count": 1},
            {"type": "file_contains", "path": "seen.txt", "includes": ["hits: [] files: True"]},
        ]
        if agent != "command":
            criteria.append({"type": "skill_triggered", "skill_name": "changelog", "expected_skill": "changelog"})
        repo.task(
            agent,
            agent=block,
            sandbox={
                "template_sources": [{"type": "starter_files", "files": [starter]}],
                "record_cli": [tool],
                **({"network": NETWORKS[agent]} if agent in NETWORKS else {}),
            },
            success_criteria=[{**each, "description": str(number)} for number, each in enumerate(criteria)],
        )


def usage_of(record: Mapping[str, Any]) -> list[int]:
    return [record["spending"]["usage"][f"{kind}_tokens"] for kind in ("input", "cache_read", "output")]


def charged(fake: Fake, model: str) -> list[int]:
    ledger = [one for one in fake.ledger if one.model == model]
    return [sum(getattr(one, f"{kind}_tokens") or 0 for one in ledger) for kind in ("input", "cache_read", "output")]


@contextlib.contextmanager
def fakes(scripts: Mapping[str, list[Any]], **more: Any) -> Iterator[dict[str, Any]]:
    """Both APIs, and what the harness needs to reach them."""
    with (
        FakeAnthropic([Models(scripts)], loop=True, key=KEY, **more) as anthropic,
        FakeOpenAI([Models(scripts)], loop=True, key=KEY) as openai,
    ):
        yield {"anthropic": anthropic, "openai": openai}


def reach(made: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, fake in made.items():
        monkeypatch.setenv(f"{name.upper()}_BASE_URL", fake.url)
        monkeypatch.setenv(f"{name.upper()}_API_KEY", KEY)


def run_work(repo: Repo, agents: list[str], options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a session with a task for each agent, and check what came of it."""
    write_tasks(repo, agents)
    with fakes({name: work(name) for name in agents}) as made:
        reach(made, monkeypatch)
        done = repo.run(*options, "-rA")
    done.assert_outcomes(passed=len(agents))
    for name in agents:
        record = repo.record(name)
        assert usage_of(record) == charged(made["openai" if name == "codex" else "anthropic"], name)
        assert record["trajectory"]["final_answer"].strip().endswith("Published as pub-77.")
        (kept,) = (file for file in record["workspace"]["files"] if file["path"] == "seen.txt")
        assert not kept["redacted"]


def is_there(agent: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    try:
        PROGRAMS[agent].need(monkeypatch)
    except pytest.skip.Exception:
        return False
    return True


@pytest.mark.parametrize(
    ("driver", "names"),
    [("bubblewrap", ["anthropic", "codex", "command"]), ("docker", ["claude-code"])],
    ids=["bubblewrap", "docker"],
)
def test_agents_work_and_find_no_key(
    repo: Repo, driver: str, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever files the harness makes, its umask keeps them private."""
    options = options_for(driver)
    agents = [name for name in names if is_there(name, monkeypatch)]
    mask = os.umask(0o077)
    try:
        run_work(repo, agents, options, monkeypatch)
    finally:
        os.umask(mask)
    if driver == "bubblewrap":
        assert repo.record("codex")["connections"] is None
        log = repo.record("anthropic")["connections"]
        assert log["unlogged"] == 0
        (went,) = log["made"]
        assert (went["host"], went["port"], went["error"][:17]) == ("localhost", 9, "cannot be reached")
    for name in agents:
        seen = repo.path / f"run/trials/{name}/trial/workspace/seen.txt"
        assert "harness: False" in seen.read_text(encoding="utf-8")


@pytest.mark.skipif(landlock.abi() < landlock.FILES, reason="the kernel's Landlock does not restrict files")
def test_landlock_keeps_the_key_from_an_agent_in_a_temporary_directory(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_work(repo, ["command"], ["--codereval-driver=tempdir"], monkeypatch)


@pytest.mark.parametrize(("agent", "driver"), [("claude-code", "bubblewrap"), ("codex", "docker")])
def test_a_conversation_goes_on_when_all_processes_were_killed_between_two_turns(
    tmp_path: Path, agent: str, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are when a dialogue is judged between its turns."""
    program, module = PROGRAMS[agent], codex_run if agent == "codex" else claude_run
    program.need(monkeypatch)
    first = call("Bash", command="(setsid tail -f /dev/null >/dev/null 2>&1 &); echo > first.txt")
    look = "ls first.txt; cat /proc/[0-9]*/comm | grep -qx tail || echo > second.txt"
    script = [first, say("One is there."), call("Bash", command=look), say("Two are there.")]
    with program.fake(script, key=module.KEY) as fake:
        stage = module.Stage(tmp_path, fake, monkeypatch)
        with contextlib.closing(stage):
            stage.sandbox = isolated.create(driver)
            stage.start()
            assert stage.ask("one").failure is None
            stage.sandbox.reap()
            assert (stage.sandbox.workspace / "first.txt").exists()
            assert stage.ask("two").failure is None
            assert (stage.sandbox.workspace / "second.txt").exists()
    assert [len(said) for said in (fake.requests, fake.unfinished)] == [4, 0]
    assert "One is there." in str(fake.requests[-1].body)


@pytest.mark.parametrize(("agent", "driver"), [("command", "bubblewrap"), ("codex", "docker")])
def test_nothing_is_left_when_pytest_is_killed(
    repo: Repo, agent: str, driver: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    PROGRAMS[agent].need(monkeypatch)
    options = options_for(driver)
    places = tmp_path_factory.mktemp("places")
    monkeypatch.setenv("TMPDIR", str(places))
    write_tasks(repo, [agent])
    endless = "tail -f /dev/null"
    script = [call("Bash", command=f"setsid {endless} >/dev/null 2>&1 &"), call("Bash", command=endless)]
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--codereval-run-dir=run", *options, "tasks"]
    with fakes({agent: script}) as made:
        reach(made, monkeypatch)
        process = subprocess.Popen(argv, cwd=repo.path, stdout=subprocess.DEVNULL, start_new_session=True)
        fake = made["openai" if agent == "codex" else "anthropic"]
        until(lambda: len(fake.requests) == 2, "the second call of the model")
        assert len(alive(f"{places}/cev")) > 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        until(lambda: not alive(f"{places}/cev"), "the end of all processes")
    (repo.path / "tasks" / f"{agent}.yaml").unlink()
    repo.task("next")
    repo.run(*options).assert_outcomes(passed=1)
    assert [str(path) for path in places.glob("cev-*/*/t*")] == []


def program(folder: Path, text: str) -> Path:
    made = folder / "some-agent"
    folder.mkdir()
    made.write_text(text, encoding="utf-8")
    made.chmod(0o755)
    return made


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path | None], installed.Installed]]:
    """Which program of a sandbox, whose PATH has one, is taken when the harness has this one, or none."""
    inside = program(tmp_path / "inside", "#!/bin/sh\necho inside 2\n")
    monkeypatch.setenv("PATH", f"{inside.parent}{os.pathsep}{os.environ['PATH']}")
    sandbox = create(environments=EnvironmentPlan())
    job: Any = SimpleNamespace(sandbox=sandbox)

    def find(own: Path | None) -> installed.Installed:
        def look() -> Path:
            if own is None:
                raise AgentError(Cause.AGENT_UNAVAILABLE, "install it")
            return own

        return installed.find_installed(job, "some-agent", look, Path, {})

    with contextlib.closing(sandbox):
        yield find


def test_the_harness_has_the_program(found: Callable[..., installed.Installed], tmp_path: Path) -> None:
    own = program(tmp_path / "own", "#!/bin/sh\necho own 1\n")
    assert found(own) == installed.Installed(str(own), "own 1")


@pytest.mark.parametrize("text", [None, "#!/nonexistent/interpreter\n"], ids=["missing", "cannot start"])
def test_only_the_sandbox_has_the_program(
    found: Callable[..., installed.Installed], tmp_path: Path, text: str | None
) -> None:
    own = program(tmp_path / "own", text) if text is not None else None
    assert found(own) == installed.Installed(f"{tmp_path}/inside/some-agent", "inside 2")


def test_nobody_has_the_program_or_it_fails(found: Callable[..., installed.Installed], tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="exited 3 in the sandbox: broken") as caught:
        found(program(tmp_path / "own", "#!/bin/sh\necho broken >&2; exit 3\n"))
    assert caught.value.cause is Cause.AGENT_UNAVAILABLE
    (tmp_path / "inside" / "some-agent").unlink()
    with pytest.raises(AgentError, match="install it"):
        found(None)
