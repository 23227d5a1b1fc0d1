"""docs/agents.md holds against the code: its table of causes, its tasks, and the agent that it shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_codereval.agents.registry import BUILT_IN
from pytest_codereval.errors import Cause
from pytest_codereval.judging.outcomes import CAUSES, Consequence
from pytest_codereval.model_api.credentials import PROVIDERS
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.models import AGENT_MODELS

from .fakes import FakeOpenAI, call, fault, repeat, say

PAGE = (Path(__file__).parents[1] / "docs" / "agents.md").read_text(encoding="utf-8")
TASK: dict[str, Any] = {
    "task_id": "shown",
    "description": "a task of the page",
    "initial_prompt": "Write hello to hello.txt.",
    "success_criteria": [{"type": "file_exists", "description": "it is there", "path": "hello.txt"}],
}
YAML = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
PYTHON = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def row(cause: Cause, consequence: Consequence) -> str:
    """What the page says of a cause."""
    waits = [f"{consequence.first_wait * 2**n:g}" for n in range(consequence.further_tries)]
    again = f"{len(waits)} times, after {', '.join(waits)} s" if len(waits) > 1 else f"once, after {''.join(waits)} s"
    return f"| `{cause}` | {consequence.what} | {consequence.status} | {again if waits else 'no'} |"


def test_the_table_of_causes_is_the_one_that_retries_follow() -> None:
    shown = [line for line in PAGE.splitlines() if re.match(r"\| `[a-z_]+` \| .* \| (error|not_evaluated) \| ", line)]
    assert shown == [row(cause, consequence) for cause, consequence in CAUSES.items()]


def test_every_agent_has_its_row_and_every_variable_of_a_key_is_named() -> None:
    for name in BUILT_IN:
        assert f"| `{name}` |" in PAGE
    for provider in PROVIDERS.values():
        assert all(f"`{name}`" in PAGE for name in (*provider.keys, *provider.bearers, *provider.base_variables))


def test_every_key_of_a_runnable_agent_is_explained() -> None:
    named = set(re.findall(r"[a-z][a-z0-9_]*", PAGE))
    for name in BUILT_IN:
        assert AGENT_MODELS[name].model_fields.keys() - {"ignore_patterns"} <= named


@pytest.mark.parametrize("text", YAML)
def test_every_task_shown_can_be_loaded(text: str, tmp_path: Path) -> None:
    shown = yaml.safe_load(text)
    whole = {key: value for key, value in TASK.items() if key != "initial_prompt" or "simulation" not in shown}
    path = tmp_path / "shown.yaml"
    path.write_text(yaml.safe_dump({**whole, **shown}), encoding="utf-8")
    assert load_task(path).task.task_id == "shown"


def test_the_parser_shown_tells_what_a_program_printed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown,) = (text for text in PYTHON if "def events" in text)
    pytester.path.joinpath("told.py").write_text(shown, encoding="utf-8")
    agent = {"type": "command", "command": ["printf", "RAN touch hello\nSAID done\n"], "parser": "told.py:events"}
    ran = {"type": "command_executed", "description": "it ran", "command_pattern": "touch hello"}
    run(pytester, monkeypatch, {**TASK, "agent": agent, "success_criteria": [ran]}).assert_outcomes(passed=1)


def test_the_agent_shown_works_and_what_it_cannot_ask_is_an_error(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown,) = (text for text in PYTHON if "pytest_codereval_agents" in text)
    pytester.makeconftest(shown)
    task = {**TASK, "agent": {"type": "chat", "model": "gpt-5"}, "run_limits": {"max_turns": 3}}
    command = "echo hello > hello.txt"
    turns = [call("Bash", command=command), say("done")]
    limited = [*repeat(fault(429), 4), fault("cut", after=1), *repeat(call("Bash", command="true"), 3)]
    with FakeOpenAI([*turns, *limited], key="fake-key-of-the-chat") as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        monkeypatch.setenv("OPENAI_API_KEY", "fake-key-of-the-chat")
        run(pytester, monkeypatch, task).assert_outcomes(passed=1)
        assert len(fake.requests) == 2
        result = run(pytester, monkeypatch, task)
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines(["the model's provider limits the rate: HTTP 429"])
        assert len(fake.requests) == 6
        result = run(pytester, monkeypatch, task)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(["cost: * and what is not known of 1 trials"])
        assert len(fake.requests) == 10


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, task: dict[str, Any]) -> pytest.RunResult:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:benchmark -p no:anyio -p no:cacheprovider")
    pytester.path.joinpath("task.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    shutil.rmtree(pytester.path / "run", ignore_errors=True)
    arguments = ("task.yaml", "--codereval-run-dir=run", "-o", "codereval_patience=0")
    return pytester.runpytest_subprocess(*arguments)
