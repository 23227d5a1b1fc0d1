"""The example task for every agent, in whole sessions against the fakes: one task means the same on each of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_codereval.trajectory.model import Usage
from pytest_codereval.trajectory.prices import PriceList
from tests.fakes import Fake, FakeAnthropic, FakeOpenAI, call, say, turn
from tests.fakes.__main__ import played

from .claude_run import need_claude
from .codex_run import put_codex_on_path
from .fault_table import AGENTS, BUCKETS, KEY, RATES

HERE = Path(__file__).resolve().parents[2]
TASK = HERE / "example_tasks" / "real" / "release.yaml"
SCRIPT = HERE / "tests" / "fakes" / "release.json"
PRICED = "claude-sonnet-5"
"""A model that the built-in price list has."""

NOTES = "# 1.4.0\n\n- Fixed: the clock runs backwards\n- Added: a second clock\n"
VOCABULARY = {"Bash", "Read", "Write", "Edit", "Glob", "Grep", "Skill"}
LIMITS: Mapping[str, Mapping[str, Any]] = {
    "two-turns": {"max_turns": 2},
    "few-tokens": {"max_output_tokens": 40},
    "small-budget": {"max_usd": 0.000001},
    "unknown-price": {"max_usd": 1.0},
}

Session = Callable[..., pytest.RunResult]


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each agent whose program is there."""
    if request.param == "claude-code":
        need_claude()
    elif request.param == "codex":
        put_codex_on_path(monkeypatch)
    return str(request.param)


@pytest.fixture
def session(agent: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Runs pytest in a process of its own, in a copy of the example folders that the task needs."""
    for name in ("agents", "real"):
        shutil.copytree(HERE / "example_tasks" / name, pytester.path / "example_tasks" / name)
    rates = " ".join(str(RATES[name]) for name in ("input_tokens", "output_tokens", *BUCKETS[1:3]))
    pytester.makeini(f"[pytest]\ncodereval_patience = 0\ncodereval_prices = known-* {rates}\n")
    for name in ("ANTHROPIC_AUTH_TOKEN", "CODEX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:benchmark -p no:anyio -p no:cacheprovider")

    def run(fake: Fake, *arguments: str) -> pytest.RunResult:
        variables = (
            ("OPENAI_BASE_URL", "OPENAI_API_KEY") if agent == "codex" else ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")
        )
        for name, value in zip(variables, (fake.url, KEY), strict=True):
            monkeypatch.setenv(name, value)
        return pytester.runpytest_subprocess("--codereval-run-dir=run", *arguments)

    return run


def fake_of(agent: str) -> Fake:
    """A fake that plays the release once for each model."""
    made = FakeOpenAI if agent == "codex" else FakeAnthropic
    return made(**played(SCRIPT), key=KEY, script_per_conversation=lambda request: request.body["model"])


def record(path: Path, task: str) -> dict[str, Any]:
    return json.loads((path / "run" / "trials" / task / "trial" / "record.json").read_text(encoding="utf-8"))


def verdicts(record: Mapping[str, Any]) -> list[str]:
    return [criterion["verdict"] for criterion in record["criteria"]]


def check_books(record: Mapping[str, Any], fake: Fake, model: str) -> int:
    """Hold the record's usage and turns to what the fake charged for the model's calls; their number."""
    ledger = [charged for charged in fake.ledger if charged.model == model]
    spent = record["spending"]
    assert {name: spent["usage"][name] for name in BUCKETS} == {
        name: sum(getattr(charged, name) for charged in ledger) for name in BUCKETS
    }
    assert (spent["tokens_complete"], spent["cost_complete"]) == (True, True)
    assert spent["calls"] == record["trajectory"]["turns"] == len(ledger)
    return len(ledger)


def test_one_task_means_the_same(agent: str, session: Session, pytester: pytest.Pytester) -> None:
    with fake_of(agent) as fake:
        done = session(fake, "example_tasks", "-k", "real", f"--codereval-agent={agent}", f"--codereval-model={PRICED}")
    done.assert_outcomes(passed=1)
    told = record(pytester.path, "real-release")
    assert (told["agent"], told["model"], told["status"]) == (agent, PRICED, "passed")
    assert verdicts(told) == ["pass"] * 4
    assert check_books(told, fake, PRICED) == 5
    assert not fake.exhausted
    costs = [PriceList().cost(PRICED, Usage(**{b: getattr(charged, b) for b in BUCKETS})) for charged in fake.ledger]
    assert told["spending"]["usage"]["cost_usd"] == pytest.approx(sum(cost or 0 for cost in costs), abs=1e-12)
    calls = [event for event in told["trajectory"]["events"] if event["kind"] == "ToolCall"]
    check_vocabulary(agent, calls)
    assert told["trajectory"]["final_answer"] == "Published as pub-77."


def check_vocabulary(agent: str, calls: list[dict[str, Any]]) -> None:
    """Four calls in one vocabulary. Codex has no tool for skills and reads their files in the shell."""
    skill, *others = calls
    assert {call["name"] for call in calls} <= VOCABULARY
    assert [call["name"] for call in others] == ["Bash", "Write", "Bash"]
    assert [call["status"] for call in calls] == ["success"] * 4
    if agent == "codex":
        assert skill["name"] == "Bash"
        assert skill["parameters"]["command"].endswith("/changelog/SKILL.md")
    else:
        assert (skill["name"], skill["parameters"]) == ("Skill", {"skill": "house-rules:changelog"})
    read, written, published = others
    assert read["parameters"]["command"] == "cat commits.txt"
    assert published["parameters"]["command"] == "relctl publish 1.4.0 --channel stable"
    assert (read["exit_status"], published["exit_status"]) == (0, 0)
    assert "a1f3 fix: the clock runs backwards" in read["output"]
    assert '"id": "pub-77"' in published["output"]
    assert written["parameters"]["content"] == NOTES
    assert Path(written["parameters"]["file_path"]).name == "NOTES.md"


def test_limits_mean_the_same(agent: str, session: Session, pytester: pytest.Pytester) -> None:
    task = yaml.safe_load(TASK.read_text(encoding="utf-8"))
    for name, limits in LIMITS.items():
        model = f"unheard-of-{name}" if name == "unknown-price" else f"known-{name}"
        mine = {key: value for key, value in task["agent"].items() if key != "steps"} | {"type": agent, "model": model}
        limited = {**task, "task_id": name, "agent": mine, "run_limits": dict(limits)}
        path = pytester.path / "example_tasks" / "real" / f"{name}.yaml"
        path.write_text(yaml.safe_dump(limited, sort_keys=False), encoding="utf-8")
    with fake_of(agent) as fake:
        done = session(fake, "example_tasks", "-k", " or ".join(LIMITS))
    done.assert_outcomes(failed=3, errors=1)
    told = {name: record(pytester.path, name) for name in LIMITS}

    two = told["two-turns"]
    assert (two["status"], two["stopped"]) == ("failed", "max_turns")
    assert verdicts(two) == ["pass", "fail", "fail", "pass"]
    assert check_books(two, fake, "known-two-turns") == 2

    tokens = told["few-tokens"]
    assert (tokens["status"], tokens["stopped"]) == ("failed", "max_output_tokens")
    assert "max_output_tokens" in tokens["message"]
    assert verdicts(tokens) == ["pass"] * 4
    assert check_books(tokens, fake, "known-few-tokens") == 5

    budget = told["small-budget"]
    assert (budget["status"], budget["stopped"]) == ("failed", "max_usd")
    assert check_books(budget, fake, "known-small-budget") == 1

    unpriced = told["unknown-price"]
    assert (unpriced["status"], unpriced["cause"]) == ("error", "unpriced")
    assert not [request for request in fake.requests if request.body["model"].startswith("unheard-of")]
    assert fake.unfinished == []


def test_what_the_last_reply_asked_for_is_done_and_told(
    agent: str, session: Session, pytester: pytest.Pytester
) -> None:
    """The call that is not admitted ends the run only when all that came before it is in the record."""
    commands = [f"echo {word} >> said.txt" for word in ("one", "two", "three")]
    criteria = [
        {"type": "command_executed", "description": text, "command_pattern": text, "require_success": True}
        for text in ("echo one", "echo two", "echo three")
    ]
    names = ["last-a", "last-b", "last-c"]
    for name in names:
        task = {
            "task_id": name,
            "description": name,
            "initial_prompt": name,
            "agent": {"type": agent, "model": f"known-{name}", "permission_mode": "bypassPermissions"},
            "run_limits": {"max_turns": 1},
            "success_criteria": criteria,
        }
        (pytester.path / f"{name}.yaml").write_text(yaml.safe_dump(task, sort_keys=False), encoding="utf-8")
    made = FakeOpenAI if agent == "codex" else FakeAnthropic
    script = [turn(*(call("Bash", command=command) for command in commands)), say("more")]
    with made(script, key=KEY, script_per_conversation=lambda request: request.body["model"]) as fake:
        session(fake, *(f"{name}.yaml" for name in names)).assert_outcomes(passed=3)
    for name in names:
        told = record(pytester.path, name)
        assert told["stopped"] == "max_turns"
        assert check_books(told, fake, f"known-{name}") == 1
