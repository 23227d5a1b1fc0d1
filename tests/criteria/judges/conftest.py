"""A desk for judges over a real directory, whose models are fakes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.criteria.contract import CriterionResult, Evidence
from pytest_codereval.judging.judge import judge
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.running.judge_accounts import JudgeAccounts
from pytest_codereval.running.judge_desk import make_desk
from pytest_codereval.running.session import Session
from pytest_codereval.sandbox.workspace import Workspace
from pytest_codereval.task.models import Task
from pytest_codereval.trajectory.model import Event, Trajectory
from pytest_codereval.trajectory.prices import PriceList
from tests.fakes import FakeAnthropic, call
from tests.fakes.turns import Turn

from ..conftest import Shell

MODEL = "claude-sonnet-4-6"
BASE: dict[str, Any] = {"type": "llm_judge", "description": "it is good", "prompt": "Is the greeting polite?"}


def verdict(score: Any, rationale: Any = "as it should be", **more: Any) -> Turn:
    """A reply of a judge."""
    return call("submit_verdict", rationale=rationale, **{"findings": [], "score": score, **more})


@dataclasses.dataclass
class Bench:
    """Judges criteria as a trial does. `folder` is the trial's, `shared` that of its session."""

    workspace: Path
    reference: Path
    task_folder: Path
    folder: Path
    shared: Path
    session: Session
    accounts: JudgeAccounts
    make_sandbox: Any = None

    def judge(
        self, events: tuple[Event, ...] | None = (), task: Any = (), below: Any = (), **criterion: Any
    ) -> CriterionResult:
        """The result of one criterion. `task` has more of the task, `below` values that no author may give."""
        fields: dict[str, Any] = {"task_id": "t", "description": "d", "initial_prompt": "p", **dict(task)}
        has_reference = self.reference.exists()
        if has_reference:
            fields["reference"] = {"directory": "reference"}
        made = Task.model_validate({**fields, "success_criteria": [{**BASE, **criterion}]})
        desk = make_desk(
            made,
            self.task_folder,
            self.accounts,
            folder=self.folder,
            shared=self.shared,
            make_sandbox=self.make_sandbox,
        )
        evidence = Evidence(
            workspace=Workspace(self.workspace),
            trajectory=None if events is None else Trajectory(events),
            invocations=InvocationLog(),
            shell=Shell(self.workspace),
            reference=Workspace(self.reference) if has_reference else None,
            desk=desk,
        )
        return judge([made.success_criteria[0].model_copy(update=dict(below))], evidence)[0]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for name in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("workspace", "task", "trial", "shared"):
        (tmp_path / name).mkdir()
    (tmp_path / "workspace/hello.txt").write_text("Good morning, dear world\n")
    return with_session(tmp_path, Session(tmp_path / "shared", patience=0))


def with_session(tmp_path: Path, session: Session) -> Bench:
    return Bench(
        tmp_path / "workspace",
        tmp_path / "task" / "reference",
        tmp_path / "task",
        tmp_path / "trial",
        tmp_path / "shared",
        session,
        JudgeAccounts("trial-1", session),
    )


@contextlib.contextmanager
def anthropic(monkeypatch: pytest.MonkeyPatch, *turns: Any, **options: Any) -> Iterator[FakeAnthropic]:
    """A fake that judges ask by default."""
    with FakeAnthropic(list(turns), **options) as fake:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-key-of-the-judge")
        yield fake


def priced(**budget: float) -> dict[str, Any]:
    """Arguments of a session in which a call of the judge has a price."""
    return {"prices": PriceList([f"{MODEL} 1000 0 0 0"]), "patience": 0, **budget}
