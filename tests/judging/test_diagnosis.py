"""Evidence after a failure: who takes part, in how much time, and that it decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import pytest

from pytest_codereval import clock
from pytest_codereval.criteria.contract import CriterionResult, Evidence, Verdict
from pytest_codereval.criteria.vendor import KINDS
from pytest_codereval.errors import Cause, JudgingError, TrialError
from pytest_codereval.judging.diagnosis import NOT_READING, OUT_OF_TIME, READ_ONLY_HINT, Diagnosis
from pytest_codereval.judging.outcomes import CAUSES
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.running.diagnosis import AfterFailure
from pytest_codereval.sandbox.protocol import ProcessResult
from pytest_codereval.sandbox.workspace import Workspace
from pytest_codereval.task.criteria_models import CRITERION_MODELS
from pytest_codereval.task.criterion import Criterion
from pytest_codereval.task.models import Task
from pytest_codereval.trajectory.model import NOTHING_USED, Trajectory

LONG = 1000.0

MODELS = {**CRITERION_MODELS, **{kind.type_name: kind.model for kind in KINDS}}

READING = {
    "file_exists",
    "file_contains",
    "file_matches_regex",
    "file_check",
    "json_check",
    "reference_comparison",
    "classification_match",
}

FILE = {"type": "file_exists", "description": "it is there", "path": "a.txt"}
MISSING = {"type": "file_exists", "description": "it is missing", "path": "missing.txt"}
MARKED = {"type": "run_command", "description": "reads", "command": "true", "read_only": True}
UNMARKED = {"type": "run_command", "description": "may write", "command": "true"}


class Judge(Criterion):
    """Claims what no judge may."""

    type: Literal["third_party_judge"] = "third_party_judge"
    asks_model: ClassVar[bool] = True

    @property
    def evaluable_after_failure(self) -> bool:
        return True


class Follower(Criterion):
    """Claims what none about the trajectory may."""

    type: Literal["third_party_follower"] = "third_party_follower"
    needs_trajectory = True

    @property
    def evaluable_after_failure(self) -> bool:
        return True


class Broken(Criterion):
    """Does not answer."""

    type: Literal["third_party_broken"] = "third_party_broken"

    @property
    def evaluable_after_failure(self) -> bool:
        raise LookupError("nobody knows")


class Skipping(Criterion):
    """Ends the test instead of an answer."""

    type: Literal["third_party_skipping"] = "third_party_skipping"

    @property
    def evaluable_after_failure(self) -> bool:
        pytest.skip("nobody knows")


def _task(*criteria: Any) -> Task:
    return Task.model_validate(
        {
            "task_id": "t",
            "description": "d",
            "initial_prompt": "p",
            "sandbox": {"record_cli": [{"tool": "uip", "responses": [{"when": {"verb": "x"}}], "unmatched": "fail"}]},
            "success_criteria": list(criteria),
        }
    )


Ran = tuple[str, float]


class Shell:
    """Notes what it is asked to run and in how much time; `answers` are what it gives, or raises, for a command."""

    def __init__(self, **answers: ProcessResult | BaseException) -> None:
        self.ran: list[Ran] = []
        self._answers = answers

    def __call__(self, command: str, *, timeout: float, shims: bool = False) -> ProcessResult:
        self.ran.append((command, timeout))
        answer = self._answers.get(command, ProcessResult(0))
        if isinstance(answer, BaseException):
            raise answer
        return answer


KILLED = ProcessResult(137, timed_out=True)


@pytest.fixture
def evidence(tmp_path: Path) -> Callable[..., Evidence]:
    (tmp_path / "a.txt").write_text("hello\n")
    trajectory = Trajectory((), NOTHING_USED, 0, 1)

    def make(shell: Shell | None = None) -> Evidence:
        return Evidence(Workspace(tmp_path), trajectory, InvocationLog(), shell or Shell())

    return make


def _nothing() -> None:
    pass


def _seen(diagnosis: Diagnosis) -> list[tuple[str, float | None]]:
    return [(result.verdict.value, result.score) for result in diagnosis.results]


@pytest.mark.parametrize("name", MODELS)
def test_of_all_types_those_that_read_files_and_a_marked_command_take_part(name: str) -> None:
    model = MODELS[name]
    by_default = model.model_construct(type=name)
    assert by_default.evaluable_after_failure is (name in READING)
    changed = [other for other in model.model_fields if _claims(model, other)]
    assert changed == (["read_only"] if name == "run_command" else [])
    if model.asks_model:
        assert not by_default.evaluable_after_failure


def _claims(model: type[Criterion], field: str) -> bool:
    """Whether an author could change the answer by a key of the task."""
    answers = {model.model_construct(None, **{field: value}).evaluable_after_failure for value in (True, False)}
    return len(answers) > 1


def test_what_a_third_party_claims_is_not_believed_of_judges_and_trajectories(
    evidence: Callable[..., Evidence],
) -> None:
    task = _task(FILE)
    third = (
        *(Judge(type="third_party_judge", description="j"), Follower(description="f"), Broken(description="b")),
        Skipping(description="s"),
    )
    task = task.model_copy(update={"success_criteria": (*task.success_criteria, *third)})
    diagnosis = Diagnosis(task, clock.monotonic() + LONG)
    diagnosis.evaluate(evidence(), _nothing)
    found, judge, follower, broken, skipping, strict = diagnosis.results
    assert found.verdict is Verdict.PASS
    assert judge.reason == follower.reason == strict.reason == NOT_READING
    assert broken.reason == "third_party_broken does not tell whether it only reads: LookupError: nobody knows"
    assert skipping.reason == "third_party_skipping does not tell whether it only reads: Skipped: nobody knows"
    assert strict.type == "record_cli"


def test_the_results_are_those_of_all_criteria_in_the_order_of_the_task(evidence: Callable[..., Evidence]) -> None:
    fails = {**MARKED, "description": "fails", "command": "false"}
    raises = {**MARKED, "description": "raises", "command": "raises"}
    breaks = {**MARKED, "description": "breaks", "command": "breaks"}
    off = {**FILE, "description": "off", "enabled": False}
    informs = {**FILE, "description": "informs", "weight": 0}
    judge = {"type": "llm_judge", "description": "judge", "prompt": "good?"}
    task = _task(MARKED, FILE, MISSING, fails, UNMARKED, raises, breaks, off, informs, judge, FILE)
    shell = Shell(false=ProcessResult(1), raises=JudgingError("disturbed"), breaks=ZeroDivisionError("by zero"))
    diagnosis = Diagnosis(task, clock.monotonic() + LONG)
    before = diagnosis.results
    diagnosis.evaluate(evidence(shell), _nothing)
    assert [(r.index, r.name, r.type, r.weight, r.gating) for r in diagnosis.results] == [
        (r.index, r.name, r.type, r.weight, r.gating) for r in before
    ]
    assert {result.verdict for result in before} == {Verdict.NOT_EVALUATED}
    none = ("not_evaluated", None)
    error = ("error", None)
    expected = [("pass", 1.0), ("pass", 1.0), ("fail", 0.0), ("fail", 0.0), none, error, error, none, ("pass", 1.0)]
    assert _seen(diagnosis) == [*expected, none, ("pass", 1.0), none]
    reasons = [result.reason for result in diagnosis.results]
    assert (reasons[4], reasons[7], reasons[9]) == (READ_ONLY_HINT, "switched off (enabled: false)", NOT_READING)
    assert [reasons.count(READ_ONLY_HINT), len(shell.ran)] == [1, 4]
    assert [timeout for _, timeout in shell.ran] == [30.0] * 4
    assert diagnosis.results[10].name == "file_exists-it-is-there-2"


def test_a_command_cut_short_is_not_evaluated_and_one_that_was_too_slow_fails(
    evidence: Callable[..., Evidence],
) -> None:
    slow = {**MARKED, "description": "slow", "command": "slow", "timeout": 1}
    long = {**MARKED, "description": "long", "command": "long", "timeout": 900}
    shell = Shell(slow=KILLED, long=KILLED)
    diagnosis = Diagnosis(_task(long, slow, FILE), clock.monotonic() + 500)
    diagnosis.evaluate(evidence(shell), _nothing)
    cut, failed, found, _ = diagnosis.results
    assert (cut.verdict, cut.score) == (Verdict.NOT_EVALUATED, None)
    assert cut.reason.startswith("time: the command was killed after ")
    assert (failed.verdict, failed.score, found.verdict) == (Verdict.FAIL, 0.0, Verdict.PASS)
    (_, first), (_, second) = shell.ran
    assert 1 < first <= 500
    assert second == 1


def test_without_time_nothing_is_begun(evidence: Callable[..., Evidence]) -> None:
    shell = Shell()
    diagnosis = Diagnosis(_task(MARKED, FILE), clock.monotonic())
    diagnosis.evaluate(evidence(shell), _nothing)
    assert [result.reason for result in diagnosis.results] == [OUT_OF_TIME, OUT_OF_TIME, NOT_READING]
    assert shell.ran == []


def test_only_failures_of_the_agent_are_diagnosed() -> None:
    made = {cause for cause in Cause if CAUSES[cause].diagnosis == "made"}
    assert {cause for cause in Cause if CAUSES[cause].diagnosis == "no_time"} == {Cause.TASK_TIMEOUT}
    assert {Cause.AGENT_CRASH, Cause.TURN_TIMEOUT, Cause.OVERLOADED, Cause.BILLING} <= made
    harness = {Cause.SANDBOX, Cause.PRE_RUN, Cause.SHIM_UNREACHABLE, Cause.TAMPERED, Cause.EVIDENCE_LOST}
    others = harness | {Cause.INTERRUPTED, Cause.UNEXPECTED, Cause.BUDGET_SPENT, Cause.USAGE_UNKNOWN, Cause.UNPRICED}
    assert not others & made


class Material:
    """Grading material that is tampered with after `intact` looks."""

    def __init__(self, intact: int = 1000) -> None:
        self._intact = intact

    def reveal(self) -> dict[str, str]:
        return {}

    def reference_workspace(self) -> None:
        return None

    def verify(self) -> None:
        self._intact -= 1
        if self._intact < 0:
            raise TrialError(Cause.TAMPERED, "the reference changed")


def _attempt(
    *, begin: Callable[[], None] = _nothing, intact: int = 1000, dead: bool = True, sealed: bool = True
) -> Any:
    return SimpleNamespace(
        sealed=sealed,
        agent_is_dead=dead,
        sandbox=SimpleNamespace(begin_grading=begin),
        staged_material=Material(intact),
        equipment=None,
    )


def _raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


def _look(evidence_of: Any, attempt: Any, cause: Cause = Cause.AGENT_CRASH) -> tuple[CriterionResult, ...]:
    found = AfterFailure(_task(MISSING, FILE, MARKED), attempt, cause, None)
    found.look(evidence_of)
    return found.results


@pytest.mark.parametrize(
    "error", [TrialError(Cause.TAMPERED, "gone"), OSError("gone"), ValueError("gone"), SystemExit("gone")], ids=repr
)
def test_whatever_goes_wrong_is_told_and_not_raised(error: BaseException, evidence: Callable[..., Evidence]) -> None:
    def evidence_of(*_: object) -> Evidence:
        return evidence()

    for results in (_look(evidence_of, _attempt(begin=_raising(error))), _look(_raising(error), _attempt())):
        assert {result.verdict for result in results} == {Verdict.NOT_EVALUATED}
        assert all(result.reason.startswith("the diagnosis failed: ") for result in results[:3])
        assert all(result.reason.endswith("gone") for result in results[:3])


def test_verdicts_before_something_went_wrong_stay_unless_they_cannot_be_believed(
    evidence: Callable[..., Evidence],
) -> None:
    class Ended(BaseException):
        """As what a limit on the time of a test raises."""

    def ends(*_: object) -> Evidence:
        return evidence(Shell(true=Ended()))

    assert [r.verdict.value for r in _look(ends, _attempt())][:3] == ["fail", "pass", "not_evaluated"]
    tampered = _look(lambda *_: evidence(), _attempt(intact=3))
    assert [r.reason for r in tampered][:3] == ["the diagnosis failed: the reference changed"] * 3
    assert {r.verdict for r in tampered} == {Verdict.NOT_EVALUATED}


def test_an_interrupt_is_let_through_and_what_was_seen_is_kept(evidence: Callable[..., Evidence]) -> None:
    found = AfterFailure(_task(MISSING, MARKED, FILE), _attempt(), Cause.TURN_TIMEOUT, None)
    with pytest.raises(KeyboardInterrupt):
        found.look(lambda *_: evidence(Shell(true=KeyboardInterrupt())))
    assert [result.verdict.value for result in found.results][:3] == ["fail", "not_evaluated", "pass"]
    assert found.results[1].reason == "the diagnosis was interrupted"


def test_a_trial_that_is_not_sealed_or_not_the_agents_failure_has_no_diagnosis() -> None:
    never = _raising(AssertionError("looked at"))
    assert _look(never, _attempt(sealed=False)) == ()
    assert _look(never, _attempt(dead=False)) == ()
    assert _look(never, _attempt(), Cause.PRE_RUN) == ()
    used_up = _look(never, _attempt(), Cause.TASK_TIMEOUT)
    assert {result.reason for result in used_up} == {
        "time: the task used up its task_timeout, so that none was left for a diagnosis"
    }
    assert len(used_up) == 4
