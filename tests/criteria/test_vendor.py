"""Criteria of vendors: typed questions to a service, which a fake stands for, and an evaluation by a vendor's tool."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.criteria import posting
from pytest_codereval.criteria.contract import Evidence, Judgement
from pytest_codereval.criteria.judges.desk import JudgeDesk
from pytest_codereval.criteria.posting import post_json
from pytest_codereval.criteria.vendor import SystemOneJudge, UipathEval, judge_by_system_one, judge_by_uipath
from pytest_codereval.errors import JudgingError
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.sandbox.protocol import ProcessResult
from pytest_codereval.sandbox.workspace import Workspace
from pytest_codereval.trajectory.model import Message, ToolCall, Trajectory
from pytest_codereval.trajectory.prices import PriceList

from ..task.samples import load, problems

KEY = "a-key-of-the-service"


# -- a fake of the service


@dataclasses.dataclass
class Service:
    """Answers requests in turn with (status, body); the last one again and again."""

    replies: list[tuple[int, Any]]
    requests: list[tuple[str, dict[str, str], Any]] = dataclasses.field(default_factory=list)
    url: str = ""

    def next(self) -> tuple[int, Any]:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    fake = Service([(200, {})])

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            fake.requests.append((self.path, headers, json.loads(data)))
            status, body = fake.next()
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(sent)))
            if status == 302:
                self.send_header("location", fake.url + "/elsewhere")
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("TYPESAFE_API_KEY", KEY)
    monkeypatch.setattr(posting, "PAUSES", (0.0, 0.0))
    yield fake
    server.shutdown()
    thread.join()
    server.server_close()


class FreeAccounts:
    prices = PriceList()
    patience = 0.0
    has_cap = False

    def __init__(self) -> None:
        self.told: list[Any] = []

    def admit(self) -> None:
        pass

    def tell(self, event: Any, provider: str | None) -> None:
        self.told.append(event)


def ask(service: Service, root: Path, answers: Any, accounts: FreeAccounts | None = None, **fields: Any) -> Judgement:
    if answers is not None:
        service.replies = [(200, {"answers": answers, "usage": {"input_tokens": 7, "output_tokens": 0}})]
    criterion = SystemOneJudge.model_validate({"description": "d", "base_url": service.url, **fields})
    events = (
        Message("user", "hi"),
        ToolCall("1", "Bash", {"command": "ls"}, "success", "a.txt"),
        Message("assistant", "done"),
    )
    desk = JudgeDesk(load().task, root.parent, accounts or FreeAccounts())
    workspace = Workspace(root)
    evidence = Evidence(workspace, Trajectory(events), InvocationLog(), shell=None, desk=desk)  # type: ignore[arg-type]
    return judge_by_system_one(criterion, evidence)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    (path / "a.txt").write_text("hello\n")
    return path.resolve()


NOUL = {"type": "noul", "instructions": "Is it right?"}
CHOICE = {"type": "choice", "instructions": "Which?", "criteria": ["good", "fair", "bad"], "expected": "good"}
VALUED = {**CHOICE, "expected": None, "values": {"good": 1.0, "fair": 0.5}}
SCORE = {"type": "score", "instructions": "How deep?", "criteria": ["none", "some", "full"]}


def probabilities(*shares: float) -> dict[str, float]:
    return dict(zip(("good", "fair", "bad"), shares, strict=False))


@pytest.mark.parametrize(
    ("question", "answer", "expected", "argmax"),
    [
        (NOUL, {"noul": 0.8}, 0.8, 1.0),
        (NOUL, {"noul": 0.5}, 0.5, 0.0),
        ({**NOUL, "expected": False}, {"noul": 0.8}, 0.2, 0.0),
        ({**NOUL, "expected": False}, {"noul": 0.5}, 0.5, 0.0),
        (CHOICE, {"choice": "good", "probabilities": probabilities(0.7, 0.2, 0.1)}, 0.7, 1.0),
        ({**CHOICE, "expected": ["good", "fair"]}, {"probabilities": probabilities(0.5, 0.2, 0.3)}, 0.7, 1.0),
        (VALUED, {"probabilities": probabilities(0.2, 0.5, 0.3)}, 0.45, 0.5),
        (VALUED, {"choice": "fair"}, 0.5, 0.5),
        (SCORE, {"score": 1.2, "probabilities": {"0": 0.1, "1": 0.6, "2": 0.3}}, 0.6, 0.5),
        (SCORE, {"score": 2.0}, 1.0, 1.0),
        ({**SCORE, "values": [1, 0.25, 0]}, {"score": 0, "probabilities": {"0": 1.0}}, 1.0, 1.0),
        *(
            (NOUL, {"noul": odd}, None, None)
            for odd in (float("nan"), float("inf"), -0.1, 1.1, True, "1", None, 10**400)
        ),
        (NOUL, {"choice": "good"}, None, None),
        (NOUL, "yes", None, None),
        (CHOICE, {"choice": "splendid"}, None, None),
        (CHOICE, {"choice": "good", "probabilities": probabilities(float("nan"), 0, 0)}, None, None),
        (CHOICE, {"choice": "good", "probabilities": {"good": 0.5, "splendid": 0.5}}, None, None),
        (CHOICE, {"choice": "good", "probabilities": probabilities(1, 1, 1)}, None, None),
        (CHOICE, {"choice": "good", "probabilities": probabilities(0, 0, 0)}, None, None),
        (CHOICE, {"choice": "good", "probabilities": {}}, None, None),
        (SCORE, {"score": float("nan")}, None, None),
        (SCORE, {"score": 7}, None, None),
    ],
)
def test_the_value_of_an_answer(
    service: Service, root: Path, question: Any, answer: Any, expected: float | None, argmax: float | None
) -> None:
    for scoring, value in (("expected", expected), ("argmax", argmax)):
        judged = ask(service, root, {"q": answer}, questions={"q": question}, scoring=scoring)
        assert judged.score == pytest.approx(value or 0.0)
        assert (judged.note == "not answered, counted 0: q") == (value is None)


def test_the_score_is_the_mean_by_weight_and_what_is_not_answered_counts_nothing(service: Service, root: Path) -> None:
    questions = {"a": {**NOUL, "weight": 2}, "b": NOUL, "c": CHOICE}
    accounts = FreeAccounts()
    judged = ask(service, root, {"a": {"noul": 1.0}, "c": {"noul": 1}, "x": {"noul": 1}}, accounts, questions=questions)
    assert judged.score == pytest.approx(0.5)
    assert judged.note == "not answered, counted 0: b, c"
    assert judged.details.splitlines() == [
        "a: 1.00 (weight 2)",
        "b: no answer, counts 0 (weight 1)",
        "c: malformed answer, counts 0 (weight 1)",
    ]
    (call,) = accounts.told
    assert (call.model, call.usage.input_tokens, call.usage.output_tokens) == ("jev-latest", 7, 0)


def test_what_is_sent(service: Service, root: Path) -> None:
    questions = {"n": {**NOUL, "weight": 3, "expected": False}, "c": CHOICE, "s": {**SCORE, "values": [0, 0, 1]}}
    ask(
        service,
        root,
        {},
        questions=questions,
        prompt="Look closely.",
        files=["a.txt", "absent.txt"],
        include_agent_output=True,
        include_tool_calls=True,
        include_dialog=True,
        model="other",
    )
    ((path, headers, body),) = service.requests
    assert (path, headers["authorization"]) == ("/v1/systemone", f"Bearer {KEY}")
    assert body["model"] == "other"
    assert body["questions"] == {
        "n": {"type": "noul", "instructions": "Is it right?"},
        "c": {"type": "choice", "instructions": "Which?", "criteria": {"good": None, "fair": None, "bad": None}},
        "s": {"type": "score", "instructions": "How deep?", "criteria": ["none", "some", "full"]},
    }
    state = body["state"]
    assert state["context"] == "Look closely."
    assert state["files"] == {"a.txt": "hello\n"}
    assert state["agent_output"] == "done"
    assert "Bash" in state["agent_tool_calls"]
    assert "done" in state["dialog"]


def test_the_state_is_cut_to_its_limit_and_that_is_said(service: Service, root: Path) -> None:
    (root / "long.txt").write_text("x" * 5000)
    judged = ask(service, root, {}, questions={"q": NOUL}, files=["a.txt", "long.txt"], max_state_chars=1006)
    files = service.requests[0][2]["state"]["files"]
    assert files["a.txt"] == "hello\n"
    assert files["long.txt"].count("x") == 1000
    assert "cut to 1000 characters each" in judged.details


@pytest.mark.parametrize(
    ("replies", "said", "requests"),
    [
        ([(500, "down")], "answered HTTP 500", 3),
        ([(429, "slow down")], "answered HTTP 429", 3),
        ([(401, "who are you")], "answered HTTP 401: ", 1),
        ([(302, "")], "answered HTTP 302", 1),
        ([(200, b"<html>")], "answered no JSON: '<html>'", 1),
        ([(200, b"[" * 100_000)], "answered no JSON", 1),
        ([(200, {"usage": {}})], "gave no answers", 1),
        ([(200, {"answers": ["x"]})], "gave no answers", 1),
        ([(200, [])], "gave no answers", 1),
    ],
)
def test_a_service_that_gives_no_answers_is_an_error(
    service: Service, root: Path, replies: list[tuple[int, Any]], said: str, requests: int
) -> None:
    service.replies = replies
    with pytest.raises(JudgingError, match=said):
        ask(service, root, None, questions={"q": NOUL})
    assert len(service.requests) == requests


def test_a_fault_that_passes_is_asked_again(service: Service, root: Path) -> None:
    service.replies = [(503, "busy"), (200, {"answers": {"q": {"noul": 1.0}}})]
    assert ask(service, root, None, questions={"q": NOUL}).score == 1.0


def test_no_key_and_nobody_there_are_errors(service: Service, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JudgingError, match="set OTHER_KEY where pytest runs"):
        ask(service, root, None, questions={"q": NOUL}, api_key_env="OTHER_KEY")
    assert service.requests == []
    with pytest.raises(JudgingError, match="expected a URL with http or https"):
        ask(service, root, None, questions={"q": NOUL}, base_url="file:///etc")
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as gone:
        port = gone.server_address[1]
    with pytest.raises(JudgingError, match="cannot be reached"):
        ask(service, root, None, questions={"q": NOUL}, base_url=f"http://127.0.0.1:{port}")


def test_a_service_that_never_ends_its_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 100.0])
    monkeypatch.setattr(posting.clock, "monotonic", lambda: next(times))

    class Trickle:
        length = None

        def read1(self, most: int) -> bytes:
            return b" "

    with pytest.raises(TimeoutError):
        posting._read(Trickle(), 60.0)  # type: ignore[arg-type]


def test_too_long_a_reply_is_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "LARGEST_REPLY", 10)
    service.replies = [(200, "x" * 100)]
    with pytest.raises(JudgingError, match="more than 10 bytes"):
        post_json(service.url, {}, {}, 5)


# -- uipath_eval


def evaluate(root: Path, uv: str, thresholds: dict[str, float] | None = None, **variables: str) -> Judgement:
    """Judge with a program `uv` of this text."""
    programs = root.parent / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "uv").write_text("#!/bin/sh\n" + uv)
    (programs / "uv").chmod(0o755)

    def shell(command: str, *, timeout: float, shims: bool = False) -> ProcessResult:
        environment = {"PATH": f"{programs}:/usr/bin:/bin", **variables}
        done = subprocess.run(["/bin/sh", "-c", command], cwd=root, env=environment, capture_output=True, timeout=60)
        return ProcessResult(done.returncode, done.stdout, done.stderr)

    fields = {"agent_name": "my agent", "eval_set": "sets/a b.json", "thresholds": thresholds or {"*": 0.5}}
    criterion = UipathEval.model_validate({"description": "d", **fields})
    evidence = Evidence(Workspace(root), None, InvocationLog(), shell=shell)
    return judge_by_uipath(criterion, evidence)


def results(**scores: list[Any]) -> dict[str, Any]:
    runs = [
        {"evaluatorId": f"id-{name}", "evaluatorName": name, "result": {"score": score}}
        for name, found in scores.items()
        for score in found
    ]
    return {"evaluationSetResults": [{"evaluationName": "one", "evaluationRunResults": runs}]}


def writing(content: Any, status: int = 0) -> str:
    text = content if isinstance(content, str) else json.dumps(content)
    return f"echo noise; printf '%s' \"$*\" > ../asked\ncat > \"$8\" <<'END'\n{text}\nEND\nexit {status}\n"


def test_the_evaluation_is_run_and_its_metrics_are_held_against_thresholds(root: Path) -> None:
    found = results(exact=[1.0, 0.0], close=[0.9, 0.7])
    thresholds = {"exact": 0.5, "id-close": 0.8, "*": 0.7, "other": 0.1}
    judged = evaluate(root, writing(found), thresholds)
    assert judged.score == 0.5
    assert judged.reason.startswith(
        "2 of 4 thresholds are met; *: 0.65, expected at least 0.7; other: there is no such"
    )
    asked = (root.parent / "asked").read_text()
    assert asked.startswith("run uipath eval my agent sets/a b.json --no-report --output-file /")
    assert sorted(path.name for path in root.iterdir()) == ["a.txt"]


def test_an_evaluation_set_beside_the_task_goes_before_one_of_the_agent(root: Path) -> None:
    folder = root.parent / "task"
    (folder / "sets").mkdir(parents=True)
    (folder / "sets" / "a b.json").write_text("{}")
    evaluate(root, writing(results(x=[1])), TASK_DIR=str(folder))
    assert f"my agent {folder}/sets/a b.json --no-report" in (root.parent / "asked").read_text()


@pytest.mark.parametrize(
    ("content", "score"),
    [
        (results(x=[1, None]), 1.0),
        (results(x=[1, "NaN", None]), 0.0),
        (results(x=[True]), 0.0),
        ('{"evaluationSetResults": [{"evaluationRunResults": [{"evaluatorId": "x", "result": {"score": NaN}}]}]}', 0.0),
        ({"*": 0.7}, 1.0),
        ({"*": True}, 0.0),
        ({"*": "0.9"}, 0.0),
        ('{"*": NaN}', 0.0),
        ('{"*": Infinity}', 0.0),
        ({"accuracy": 1.0}, 0.0),
    ],
)
def test_only_finite_numbers_meet_a_threshold(root: Path, content: Any, score: float) -> None:
    assert evaluate(root, writing(content)).score == score


def test_no_evaluator_hides_another_and_no_case_is_left_out(root: Path) -> None:
    alike = [{"evaluatorId": name, "evaluatorName": "same", "result": {"score": 1}} for name in ("a", "b")]
    alike[0]["result"] = {"score": 0}
    cases = [{"evaluationRunResults": found} for found in (alike, [], None)]
    judged = evaluate(root, writing({"evaluationSetResults": cases[:1]}), {"same": 0.5})
    assert (judged.score, "same: 0, expected" in judged.details) == (0.0, True)
    judged = evaluate(root, writing({"evaluationSetResults": cases}), {"b": 0.5})
    assert (judged.score, "b: 0.333333, expected" in judged.details) == (0.0, True)


def test_an_evaluation_that_fails_scores_nothing(root: Path) -> None:
    judged = evaluate(root, writing(results(x=[1.0]), status=1))
    assert (judged.score, judged.reason) == (0.0, "the evaluation ended with exit status 1")


@pytest.mark.parametrize(
    ("uv", "said"),
    [
        ("exit 127", "`uv run uipath` could not be run"),
        ("echo 'error: Failed to spawn: `uipath`' >&2; exit 2", "could not be run"),
        ("echo 'error: Failed to spawn: uipath' >&2; exit 2", "could not be run"),
        ("echo 'No module named uipath' >&2; exit 1", "could not be run"),
        ("exit 0", "the results of the evaluation are no JSON"),
        (writing("[]"), "are no JSON object"),
        (writing({"evaluationSetResults": []}), "hold no score"),
        (writing({"evaluationSetResults": [{"evaluationRunResults": [{"result": {"score": 1}}]}]}), "hold no score"),
    ],
)
def test_a_tool_that_is_not_there_or_says_nothing_is_an_error(root: Path, uv: str, said: str) -> None:
    with pytest.raises(JudgingError, match=said):
        evaluate(root, uv)


def test_no_thresholds_are_a_mistake_of_the_author() -> None:
    fields = {"type": "uipath_eval", "description": "d", "agent_name": "a", "eval_set": "e", "thresholds": {}}
    (problem,) = problems(success_criteria=[fields])
    assert (problem.key, problem.message) == ("success_criteria[0].thresholds", "expected at least one item")
