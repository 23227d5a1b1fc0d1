"""Types of criteria that a plugin or a conftest.py brings are as good as built-in ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NoReturn

import pytest
from pydantic import ConfigDict, field_validator

from pytest_codereval import Criterion, CriterionKind, Evidence, Finding, Judgement, JudgingError, NotJudged, StopEarly
from pytest_codereval.criteria.contract import CriterionResult, Verdict
from pytest_codereval.criteria.registry import kind_of, types, use_kinds
from pytest_codereval.criteria.vendor import KINDS
from pytest_codereval.errors import CoderEvalError, TaskFileError
from pytest_codereval.judging.judge import judge
from pytest_codereval.plugin.criteria import _listed
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.sandbox.workspace import Workspace
from pytest_codereval.task.fields import Count, WorkspacePath
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.trials import expand

from ..plugin.conftest import Repo, repo
from ..task.samples import PATH, problems, task_text

__all__ = ["repo"]


class LineCount(Criterion):
    """A file has few lines."""

    type: Literal["line_count"] = "line_count"
    path: WorkspacePath
    at_most: Count = 10
    word: str = ""

    def labels(self) -> frozenset[str]:
        return frozenset(("short", "long"))

    def findings(self) -> tuple[Finding, ...]:
        if self.word == "crash":
            raise KeyError("crash")
        return (Finding(("word",), "this word is not allowed"),) if self.word == "bad" else ()

    @field_validator("word")
    @classmethod
    def _plain(cls, word: str) -> str:
        if word == "worse":
            raise ValueError("a plain error")
        return word


def count_lines(criterion: LineCount, evidence: Evidence) -> Judgement:
    found = len(evidence.workspace.read_text(criterion.path).splitlines())
    label = "short" if found <= criterion.at_most else "long"
    return Judgement(float(label == "short"), f"{found} lines", label=label)


OWN = CriterionKind(LineCount, count_lines, origin="a test")


@pytest.fixture
def own() -> Iterator[None]:
    undo = use_kinds([*KINDS, OWN])
    yield
    undo()


def line_count(**fields: Any) -> dict[str, Any]:
    return {"type": "line_count", "description": "d", "path": "a.txt", **fields}


# -- what may be registered


def named(name: str, **more: Any) -> Any:
    annotations = {"type": Literal[name], **dict.fromkeys(more, Any)}  # type: ignore[valid-type]
    return type("Model", (Criterion,), {"__annotations__": annotations, "type": name, "__module__": __name__, **more})


class Loose(Criterion):
    model_config = ConfigDict(extra="allow")
    type: Literal["loose"] = "loose"


class Typeless(Criterion):
    """Says no type."""


class Live(Criterion):
    type: Literal["live"] = "live"
    stop_early: StopEarly | None = None


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ([OWN, CriterionKind(named("line_count"), count_lines, origin="other")], r"'line_count'.*a test.*other"),
        ([CriterionKind(named("file_exists"), count_lines)], r"'file_exists' of .*Model.*has one of that name"),
        ([*KINDS, CriterionKind(named("uipath_eval"), count_lines)], r"'uipath_eval' is given by both .*UipathEval"),
        ([CriterionKind(named("command_not_executed"), count_lines)], "has one of that name"),
        ([CriterionKind(named("code_lints"), count_lines)], "has one of that name"),
        ([CriterionKind(named("Spaced name"), count_lines)], "lower-case letters"),
        ([CriterionKind(Typeless, count_lines)], r"Typeless: expected a field such as type: Literal"),
        ([CriterionKind(Loose, count_lines)], r"Loose: its model_config must keep extra='forbid'"),
        ([CriterionKind(dict, count_lines)], "expected a class based on Criterion"),  # type: ignore[arg-type]
        ([CriterionKind(Criterion, count_lines)], "expected a field such as"),
        ([CriterionKind(LineCount, None)], "its check is None, expected a function"),  # type: ignore[arg-type]
        ([CriterionKind(LineCount, count_lines, live_verdict=lambda *_: None)], "needs a field stop_early"),
        ([CriterionKind(Live, count_lines)], "does nothing without a live_verdict"),
    ],
)
def test_what_is_no_complete_type_is_an_error_that_names_it(kinds: list[CriterionKind], said: str) -> None:
    before = types()
    with pytest.raises(CoderEvalError, match=said):
        use_kinds(kinds)
    assert types() == before


def test_one_kind_given_twice_is_one_and_all_can_be_taken_back() -> None:
    before = types()
    undo = use_kinds([*KINDS, OWN, OWN])
    assert types() == (*before, "line_count")
    assert kind_of("line_count") is OWN
    undo()
    assert types() == before
    (problem,) = problems(success_criteria=[line_count()])
    assert "no criterion has the type 'line_count'" in problem.message


# -- what an author is told


@pytest.mark.parametrize(
    ("fields", "key", "said"),
    [
        ({"at_mots": 1}, "at_mots", "did you mean 'at_most'"),
        ({"at_most": True}, "at_most", "expected a number"),
        ({"at_most": "x"}, "at_most", "expected a whole number, found 'x'"),
        ({"path": "../a"}, "path", "leaves the workspace"),
        ({"path": None}, "path", "expected text"),
        ({"word": "bad"}, "word", "this word is not allowed"),
        ({"word": "worse"}, "word", "a plain error"),
        ({"word": "crash"}, "", "the model of line_count raised KeyError: 'crash'"),
        ({"weight": -1}, "weight", "at least 0"),
        ({"includes": ["x"]}, "includes", "only file_contains, file_check can have it"),
        ({"suite_thresholds": {"mean": 1}}, "suite_thresholds", "need a dataset"),
    ],
)
@pytest.mark.usefixtures("own")
def test_a_mistake_is_told_with_its_key_and_line(fields: dict[str, Any], key: str, said: str) -> None:
    text = task_text(success_criteria=[line_count(**fields)])
    (problem,) = problems(text)
    assert problem.key == f"success_criteria[0].{key}".rstrip(".")
    assert said in problem.message
    lines = text.splitlines()
    assert 1 < problem.line <= len(lines)
    assert key in lines[problem.line - 1]


@pytest.mark.usefixtures("own")
def test_names_of_own_types_and_keys_are_hints_as_those_of_built_in_ones() -> None:
    (problem,) = problems(success_criteria=[{**line_count(), "type": "line_cuont"}])
    assert "did you mean 'line_count'" in problem.message
    (problem,) = problems(success_criteria=[{"type": "file_exists", "description": "d", "path": "a", "at_most": 1}])
    assert "only line_count can have it" in problem.message
    labels = {"suite_thresholds": {"recall.medium": 0.5}}
    (problem,) = problems(success_criteria=[line_count(**labels)], dataset={"rows": [{"id": "r"}]})
    assert "expected long or short" in problem.message


@pytest.mark.usefixtures("own")
def test_rows_are_put_into_own_types_and_checked_with_their_values() -> None:
    rows = [{"id": "a", "p": "a.txt"}, {"id": "b", "p": "b.txt"}]
    text = task_text(success_criteria=[line_count(path="${row.p}", enabled=False)], dataset={"rows": rows})
    specs = expand(load_task(PATH, text))
    assert [(c.path, c.enabled) for spec in specs for c in spec.task.success_criteria] == [
        ("a.txt", False),
        ("b.txt", False),
    ]
    with pytest.raises(TaskFileError, match="leaves the workspace"):
        expand(load_task(PATH, text.replace("b.txt", "../b.txt")))


# -- what a checker may return


def judged(check: Any, workspace: Path, criterion: Criterion | None = None) -> CriterionResult:
    undo = use_kinds([dataclasses.replace(OWN, check=check)])
    try:
        evidence = Evidence(Workspace(workspace), None, InvocationLog(), shell=_no_shell)
        (result,) = judge([criterion or LineCount(description="d", path="a.txt")], evidence)
    finally:
        undo()
    return result


def _no_shell(command: str, *, timeout: float, shims: bool = False) -> NoReturn:
    raise AssertionError("no command is run here")


def test_a_judgement_is_held_against_the_threshold(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n")
    passed = judged(count_lines, tmp_path)
    assert (passed.verdict, passed.score, passed.label, passed.reason) == (Verdict.PASS, 1.0, "short", "2 lines")
    failed = judged(count_lines, tmp_path, LineCount(description="d", path="a.txt", at_most=1))
    assert (failed.verdict, failed.score, failed.label) == (Verdict.FAIL, 0.0, "long")
    assert type(judged(lambda *_: Judgement(1), tmp_path).score) is float


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


def raising(error: BaseException) -> Any:
    def check(*_: object) -> NoReturn:
        raise error

    return check


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (raising(ValueError("boom")), "the checker of line_count raised ValueError: boom"),
        (raising(JudgingError("cannot be known")), "cannot be known"),
        (raising(SystemExit(0)), "raised SystemExit: 0"),
        (raising(pytest.skip.Exception("later")), "raised Skipped: later"),
        (raising(pytest.xfail.Exception("known")), "raised XFailed: known"),
        (raising(Unprintable()), "raised Unprintable"),
        (lambda *_: None, "returned None, expected a Judgement"),
        (lambda *_: True, "returned True, expected a Judgement"),
        (lambda *_: 1.0, "returned 1.0, expected a Judgement"),
        (lambda *_: Odd(), "returned an object of Odd"),
        (lambda *_: Judgement(float("nan")), "score nan"),
        (lambda *_: Judgement(float("inf")), "score inf"),
        (lambda *_: Judgement(1.01), "score 1.01, expected a number from 0 to 1"),
        (lambda *_: Judgement(-0.01), "score -0.01, expected"),
        (lambda *_: Judgement(10**400), "expected a number from 0 to 1"),
        (lambda *_: Judgement("1"), "score '1', expected a number"),  # type: ignore[arg-type]
        (lambda *_: Judgement(True), "score True, expected a number"),
        (lambda *_: Judgement(None), "score None, expected a number"),  # type: ignore[arg-type]
        (lambda *_: Judgement(1.0, reason=None), "gave as reason None, expected text"),  # type: ignore[arg-type]
        (lambda *_: Judgement(1.0, details=b"x"), "gave as details b'x', expected text"),  # type: ignore[arg-type]
        (lambda *_: Judgement(1.0, label=3), "gave as label 3, expected text"),  # type: ignore[arg-type]
        (lambda *_: Judgement(1.0, label="medium"), "gave as label 'medium', which is none of the criterion's labels"),
        (lambda *_: Judgement(1.0, judge=[1]), "gave as judge [1], expected a mapping"),  # type: ignore[arg-type]
        (lambda: Judgement(1.0), "raised TypeError"),
    ],
)
def test_whatever_else_a_checker_does_is_an_error_and_never_a_pass(tmp_path: Path, check: Any, said: str) -> None:
    result = judged(check, tmp_path)
    assert (result.verdict, result.score) == (Verdict.ERROR, None)
    assert said in result.reason


def test_a_checker_may_leave_a_criterion_unjudged(tmp_path: Path) -> None:
    result = judged(raising(NotJudged("no money left")), tmp_path)
    assert (result.verdict, result.score, result.reason) == (Verdict.NOT_EVALUATED, None, "no money left")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), pytest.fail.Exception("Timeout")])
def test_an_interrupt_and_the_timeout_of_a_test_are_let_through(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)):
        judged(raising(error), tmp_path)


def test_a_class_of_labels_that_breaks_is_an_error(tmp_path: Path) -> None:
    class Broken(LineCount):
        def expected(self) -> str | None:
            raise RuntimeError("broken")

    result = judged(lambda *_: Judgement(1.0), tmp_path, Broken(description="d", path="a.txt"))
    assert result.verdict is Verdict.ERROR
    assert "broken" in result.reason


# -- whole sessions

CONFTEST = """
    from typing import Literal
    from pytest_codereval import Criterion, CriterionKind, Judgement, fail_when_unreadable

    class LineCount(Criterion):
        '''A file has few lines.'''
        type: Literal["line_count"] = "line_count"
        path: str
        at_most: int

    @fail_when_unreadable
    def check(criterion, evidence):
        if criterion.path == "boom":
            raise ValueError("boom")
        found = len(evidence.workspace.read_text(criterion.path).splitlines())
        return Judgement(float(found <= criterion.at_most), f"{found} lines")

    def pytest_codereval_criteria(config):
        return [CriterionKind(LineCount, check)]
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_own_type_passes_fails_and_errors_in_a_session(repo: Repo, workers: str) -> None:
    repo.file("conftest.py", CONFTEST)
    for name, path, most in (
        ("met", "a.txt", 1),
        ("missed", "a.txt", 0),
        ("absent", "b.txt", 1),
        ("broken", "boom", 1),
    ):
        repo.task(name, success_criteria=[line_count(path=path, at_most=most)])
    result = repo.run("-n", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    expected = {"met": "passed", "missed": "failure", "absent": "failure", "broken": "error"}
    assert expected.items() <= repo.cases().items()
    (criterion,) = repo.record("missed")["criteria"]
    assert (criterion["type"], criterion["verdict"], criterion["reason"]) == ("line_count", "fail", "1 lines")
    assert "the checker of line_count raised ValueError: boom" in result.stdout.str()


OTHER = """
    from typing import Literal
    from pytest_codereval import Criterion, CriterionKind, Judgement

    class Mine(Criterion):
        type: Literal["line_count"] = "line_count"

    def check(criterion, evidence):
        return Judgement(1.0)

    def pytest_codereval_criteria(config):
        return [CriterionKind(Mine, check)]
"""


def test_two_types_of_one_name_end_the_session_before_anything_runs(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.file("conftest.py", CONFTEST)
    repo.file("other.py", OTHER)
    repo.task()
    monkeypatch.setenv("PYTHONPATH", str(repo.path))
    result = repo.run("-p", "other")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'line_count'*other.Mine (other)*conftest.LineCount (*conftest.py)*"])
    assert not (repo.path / "run").exists()


def test_a_conftest_that_is_found_after_a_task_was_loaded_is_an_error(repo: Repo) -> None:
    repo.task("first")
    repo.file("tasks/zoo/conftest.py", CONFTEST)
    repo.file("tasks/zoo/second.yaml", task_text(task_id="second", success_criteria=[line_count()]))
    result = repo.run("--collect-only")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*zoo/conftest.py: pytest_codereval_criteria comes too late here*"])


@pytest.mark.parametrize("fault", ["raise RuntimeError('not today')", "pytest.skip('not today')"])
def test_a_hook_that_raises_is_a_mistake_of_its_plugin(repo: Repo, fault: str) -> None:
    repo.file(
        "conftest.py", f"import pytest\n\ndef pytest_codereval_criteria(config):\n    yield from ()\n    {fault}\n"
    )
    repo.task()
    result = repo.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: pytest_codereval_criteria of *conftest.py raised *: not today"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("found", [OWN, [OWN, LineCount], 5])
def test_the_hook_gives_a_list_of_kinds(found: object) -> None:
    with pytest.raises(pytest.UsageError, match="pytest_codereval_criteria of a plugin: expected a list of Crit"):
        _listed(found, "a plugin")
