"""Criteria that need a vendor's service or tool. They are added as a plugin adds its own: a model and a checker each.

`system_one_judge` puts typed questions to the HTTP API of System One; `uipath_eval` runs the evaluation of UiPath's
command-line tool.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field as Bounds
from pydantic import PlainValidator, SerializeAsAny, ValidationInfo, model_validator

from .. import clock
from ..errors import JudgingError
from ..redaction import hide
from ..task.base import Finding, StrictModel, WholeModel, raise_findings
from ..task.criterion import Criterion
from ..task.fields import AtLeastOne, Fraction, NonBlank, Number, PositiveInt, PositiveNumber
from ..task.judge_models import JudgeMaterial
from ..task.sandbox_models import pick
from ..text import cut, shorten
from ..trajectory.model import UNKNOWN, ModelCall, Usage
from .contract import Evidence, Judgement
from .judges.bill import Bill
from .judges.desk import JudgeDesk, desk_of
from .judges.material import AUTHORS, FILE, REFERENCE, Material, gather
from .judges.ruling import key_of
from .judges.scrubbing import Scrubber
from .judges.transcript import write_transcript
from .posting import post_json
from .registry import CriterionKind

# -- system_one_judge: what an author may write

_MOST_OPTIONS = 255
_MOST_LEVELS = 10
_BASE_URL = "https://api.typesafe.ai"
_KEY_VARIABLE = "TYPESAFE_API_KEY"
_MODEL = "jev-latest"


class Question(WholeModel):
    """A question with a typed answer. Its value lies in 0..1; `weight` weighs it among the questions."""

    type: str
    instructions: NonBlank
    weight: Annotated[float, Bounds(gt=0, le=1e6, allow_inf_nan=False)] = 1.0


class YesNoQuestion(Question):
    """A question to answer with a probability of yes; `expected: false` turns it round."""

    type: Literal["noul"] = "noul"
    expected: bool = True
    criteria: str | dict[str, str] | tuple[str, ...] | None = None


class ChoiceQuestion(Question):
    """A question with options; either one is expected, or each has a value."""

    type: Literal["choice"] = "choice"
    criteria: tuple[str, ...] | dict[str, str | None]
    expected: str | tuple[str, ...] | None = None
    values: dict[str, Fraction] | None = None

    @model_validator(mode="after")
    def _check(self) -> ChoiceQuestion:
        raise_findings("ChoiceQuestion", self._findings())
        return self

    def _findings(self) -> list[Finding]:
        if not 2 <= len(self.criteria) <= _MOST_OPTIONS:
            return [Finding(("criteria",), f"expected 2 to {_MOST_OPTIONS} options, found {len(self.criteria)}")]
        if len(set(self.criteria)) < len(self.criteria):
            return [Finding(("criteria",), "an option stands here twice")]
        if (self.expected is None) == (self.values is None):
            return [Finding((), "expected exactly one of expected and values")]
        expected = (self.expected,) if isinstance(self.expected, str) else self.expected or ()
        unknown = [name for name in (*expected, *(self.values or {})) if name not in self.criteria]
        key = "expected" if self.expected is not None else "values"
        return [Finding((key,), f"{name!r} is none of the options: {', '.join(self.criteria)}") for name in unknown]

    def credit(self) -> dict[str, float]:
        """The value of each option."""
        if self.values is not None:
            return {option: self.values.get(option, 0.0) for option in self.criteria}
        expected = (self.expected,) if isinstance(self.expected, str) else self.expected or ()
        return {option: float(option in expected) for option in self.criteria}


class ScoreQuestion(Question):
    """A question answered by one of 2 to 10 levels, from worst to best. Values default to an even ramp."""

    type: Literal["score"] = "score"
    criteria: tuple[str, ...]
    values: tuple[Fraction, ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> ScoreQuestion:
        levels = len(self.criteria)
        found = []
        if not 2 <= levels <= _MOST_LEVELS:
            found.append(Finding(("criteria",), f"expected 2 to {_MOST_LEVELS} levels, found {levels}"))
        if self.values is not None and len(self.values) != levels:
            found.append(Finding(("values",), f"expected one value for each of the {levels} levels"))
        raise_findings("ScoreQuestion", found)
        return self

    def credit(self) -> dict[str, float]:
        """The value of each level, by its number as the service writes it: "0" is the first."""
        last = len(self.criteria) - 1
        values = self.values or tuple(level / last for level in range(last + 1))
        return {str(level): value for level, value in enumerate(values)}


QUESTIONS: Mapping[str, type[Question]] = {"noul": YesNoQuestion, "choice": ChoiceQuestion, "score": ScoreQuestion}


def parse_question(value: Any, info: ValidationInfo) -> StrictModel:
    """Return the question that `type` names."""
    if isinstance(value, Question):
        return value
    return pick(value, QUESTIONS, "question").model_validate(value, context=info.context)


AnyQuestion = Annotated[
    SerializeAsAny[Question],
    PlainValidator(parse_question, json_schema_input_type=YesNoQuestion | ChoiceQuestion | ScoreQuestion),
]


class SystemOneJudge(JudgeMaterial):
    """Typed questions put to a judging service; the score is the weighted mean of their values."""

    asks_model = True

    type: Literal["system_one_judge"] = "system_one_judge"
    prompt: str | None = None
    questions: Annotated[dict[str, AnyQuestion], AtLeastOne]
    scoring: Literal["expected", "argmax"] = "expected"
    max_state_chars: PositiveInt | None = None
    model: NonBlank | None = None
    base_url: NonBlank | None = None
    api_key_env: NonBlank | None = None
    timeout_seconds: PositiveNumber = 60


# -- system_one_judge: how it is judged


def judge_by_system_one(criterion: SystemOneJudge, evidence: Evidence) -> Judgement:
    """Ask all questions in one request; the score is computed here.

    Raises JudgingError for a service that is down, has no key or gives no answers, and NotJudged for want of money.
    """
    desk = desk_of(evidence)
    material = gather(criterion, evidence, desk)
    scrubber = Scrubber(material.answers)
    endpoint = _endpoint(criterion.base_url or _BASE_URL)
    state, notes = _state(criterion, material)
    request = {
        "model": criterion.model or _MODEL,
        "state": state,
        "questions": {name: _on_the_wire(question) for name, question in criterion.questions.items()},
    }
    bill = Bill(desk.accounts, None, None)
    with desk.held(key_of({"endpoint": endpoint, "request": request})) as place:
        kept = place.read() or {}
        answers = kept.get("answers")
        cached = isinstance(answers, dict)
        if not isinstance(answers, dict):
            answers = _answers(criterion, endpoint, request, bill, desk.accounts.patience)
            place.write({"answers": answers})
    judged = _judgement(criterion, answers, notes)
    record = {
        "model": request["model"],
        "scores": [judged.score],
        "samples": 1,
        "findings": judged.details.splitlines(),
        "usage": dataclasses.asdict(bill.spending),
        "missing_files": [scrubber.scrub(name) for name in material.missing],
        "left_out": [scrubber.scrub(note) for note in notes],
        "cached": cached,
        "transcript": _transcript(criterion, desk, request, answers, scrubber)
        if criterion.capture_transcript
        else None,
        "endpoint": endpoint,
    }
    return dataclasses.replace(judged, details=scrubber.scrub(judged.details), judge=record)


def _answers(
    criterion: SystemOneJudge, endpoint: str, request: Mapping[str, Any], bill: Bill, patience: float
) -> dict[str, Any]:
    """What the service answers to each question: the parts that are looked at."""
    bill.admit(request["model"])
    headers = {"authorization": f"Bearer {_key(criterion.api_key_env or _KEY_VARIABLE)}"}
    started = clock.now()
    reply = post_json(endpoint, request, headers, criterion.timeout_seconds, patience)
    found = reply.get("answers") if isinstance(reply, dict) else None
    usage = reply.get("usage") if isinstance(reply, dict) else None
    used = [
        _finite(usage.get(name)) if isinstance(usage, Mapping) else None for name in ("input_tokens", "output_tokens")
    ]
    tokens = [None if number is None else int(number) for number in used]
    known = Usage(tokens[0], 0, 0, tokens[1]) if None not in tokens else UNKNOWN
    bill.tell(ModelCall("1", request["model"], known, started=started, ended=clock.now()))
    if not isinstance(found, dict):
        raise JudgingError(f"the service at {endpoint} gave no answers: {shorten(json.dumps(reply), 300)}")
    looked_at = ("noul", "choice", "score", "probabilities")
    return {
        name: {key: answer[key] for key in looked_at if key in answer} if isinstance(answer, Mapping) else None
        for name, answer in found.items()
        if name in criterion.questions
    }


def _state(criterion: SystemOneJudge, material: Material) -> tuple[dict[str, Any], list[str]]:
    """What the service is shown, and what was left out. Texts are cut to one length to keep to `max_state_chars`."""
    notes = list(material.notes)
    texts = [block.text for block in material.blocks if block.text is not None]
    limit = max(map(len, texts), default=0)
    if criterion.max_state_chars is not None and sum(map(len, texts)) > criterion.max_state_chars:
        limit = _common_length([len(text) for text in texts], criterion.max_state_chars)
        notes.append(f"texts are cut to {limit} characters each, so that they have max_state_chars together")
    state: dict[str, Any] = {"context": criterion.prompt} if criterion.prompt else {}
    series: dict[str, list[dict[str, str]]] = {}
    for block in material.blocks:
        if block.text is None:
            continue
        shown = cut(block.text, limit)
        if block.kind in _SERIES:
            series.setdefault(_SERIES[block.kind], []).append({"part": block.name, "text": shown})
        elif block.name:
            state.setdefault(_PLACES[block.kind], {})[block.name] = shown
        else:
            state[_PLACES[block.kind]] = shown
    return state | {place: json.dumps(parts, ensure_ascii=False) for place, parts in series.items()}, notes


_PLACES = {FILE: "files", AUTHORS: "authors_files", REFERENCE: "reference", "agent output": "agent_output"}

_SERIES = {"tool call": "agent_tool_calls", "dialogue": "dialog"}
"""Parts in order, which the service gets as JSON in one text, so that no part can look like two."""


def _common_length(lengths: list[int], most: int) -> int:
    """The greatest length to which texts can be cut so that they have at most `most` characters together."""
    for left, length in zip(range(len(lengths), 0, -1), sorted(lengths), strict=True):
        if length > most // left:
            return most // left
        most -= length
    return max(lengths, default=0)


def _transcript(
    criterion: SystemOneJudge,
    desk: JudgeDesk,
    request: Mapping[str, Any],
    answers: Mapping[str, Any],
    scrubber: Scrubber,
) -> str | None:
    parts = (("system", request["questions"]), ("user", request["state"]), ("judge", answers))
    head = {"type": criterion.type, "criterion": criterion.description, "model": request["model"]}
    messages = [(who, json.dumps(part, ensure_ascii=False, indent=1)) for who, part in parts]
    return write_transcript(desk.folder, head, messages, scrubber, criterion.max_transcript_chars)


def _judgement(criterion: SystemOneJudge, answers: Mapping[str, Any], notes: list[str]) -> Judgement:
    """The mean of the questions' values by weight; what is not answered counts 0 at its full weight, and is told."""
    total = sum(question.weight for question in criterion.questions.values())
    score, lines, unanswered = 0.0, [], []
    for name, question in criterion.questions.items():
        value = _value_of(question, answers.get(name), criterion.scoring)
        if value is None:
            unanswered.append(name)
            wrong = "malformed answer" if name in answers else "no answer"
            lines.append(f"{name}: {wrong}, counts 0 (weight {question.weight:g})")
        else:
            score += question.weight * value
            lines.append(f"{name}: {value:.2f} (weight {question.weight:g})")
    score = min(1.0, max(0.0, score / total))
    note = f"not answered, counted 0: {', '.join(unanswered)}" if unanswered else ""
    reason = f"{score:.3g} over {len(criterion.questions)} questions ({criterion.scoring})"
    return Judgement(score, f"{reason}; {note}" if note else reason, "\n".join([*lines, *notes]), note)


def _value_of(question: Question, answer: Any, scoring: str) -> float | None:
    """The value of an answer in 0..1, None for one that is not there or has not the shape that the question asks for.

    `expected` is the mean over the probabilities that the service gives, `argmax` the value of its most likely answer.
    """
    if not isinstance(answer, Mapping):
        return None
    if isinstance(question, YesNoQuestion):
        yes = _fraction(answer.get("noul"))
        if yes is None:
            return None
        agreement = yes if question.expected else 1.0 - yes
        return agreement if scoring == "expected" else float(agreement > 0.5)
    assert isinstance(question, ChoiceQuestion | ScoreQuestion)
    credit = question.credit()
    if answer.get("probabilities") is None:
        return credit.get(_said(question, answer) or "")
    probabilities = _distribution(answer["probabilities"], credit)
    if probabilities is None:
        return None
    if scoring == "expected":
        return sum(credit[name] * share for name, share in probabilities.items())
    return credit[max(probabilities, key=lambda name: probabilities[name])]


def _said(question: ChoiceQuestion | ScoreQuestion, answer: Mapping[str, Any]) -> str | None:
    """The option, or the number of the level, that is the answer where no probabilities are given."""
    if isinstance(question, ChoiceQuestion):
        chosen = answer.get("choice")
        return chosen if isinstance(chosen, str) else None
    level = _finite(answer.get("score"))
    return str(round(level)) if level is not None else None


def _distribution(found: Any, options: Mapping[str, float]) -> dict[str, float] | None:
    """The probabilities of the options, scaled to a sum of 1; None unless they are probabilities of these options."""
    if not isinstance(found, Mapping) or not found or not set(found) <= set(options):
        return None
    shares = {name: _fraction(share) for name, share in found.items()}
    known = {name: share for name, share in shares.items() if share is not None}
    total = sum(known.values())
    if len(known) < len(shares) or not 0.9 <= total <= 1.1:
        return None
    return {name: share / total for name, share in known.items()}


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _fraction(value: Any) -> float | None:
    number = _finite(value)
    return number if number is not None and 0 <= number <= 1 else None


def _on_the_wire(question: Question) -> dict[str, Any]:
    """The question without what is ours alone: which answer is expected and what it weighs."""
    sent: dict[str, Any] = {"type": question.type, "instructions": question.instructions}
    if isinstance(question, ChoiceQuestion) and not isinstance(question.criteria, dict):
        return {**sent, "criteria": dict.fromkeys(question.criteria)}
    criteria = getattr(question, "criteria", None)
    return sent if criteria is None else {**sent, "criteria": criteria}


def _endpoint(base_url: str) -> str:
    base = base_url.rstrip("/")
    if base.endswith("/systemone"):
        return base
    return f"{base}/systemone" if base.endswith("/v1") else f"{base}/v1/systemone"


def _key(variable: str) -> str:
    key = os.environ.get(variable, "").strip()
    if not key:
        raise JudgingError(f"no key for system_one_judge: set {variable} where pytest runs")
    hide(key)
    return key


# -- uipath_eval


class UipathEval(Criterion):
    """Metrics of `uv run uipath eval` reach their thresholds; the score is the share that does."""

    type: Literal["uipath_eval"] = "uipath_eval"
    agent_name: NonBlank
    eval_set: NonBlank
    thresholds: Annotated[dict[str, Number], AtLeastOne]


EVAL_SECONDS = 300.0
"""Seconds that an evaluation may take."""

_NO_TOOL = (126, 127)
_MISSING = re.compile(r"(failed to spawn:|no module named) [`'\"]?uipath\b", re.IGNORECASE)


def judge_by_uipath(criterion: UipathEval, evidence: Evidence) -> Judgement:
    """Run the evaluation in the grading environment. Raises JudgingError when the tool is not there or says nothing.

    The evaluation set is a path relative to the task file's folder, else to the workspace.
    """
    result = evidence.shell(_eval_command(criterion.agent_name, criterion.eval_set), timeout=EVAL_SECONDS)
    said = f"exit status {result.exit_status}\n{shorten(result.stderr_text, 4000)}"
    if result.timed_out:
        return Judgement(0.0, f"the evaluation did not end within {EVAL_SECONDS:g} s", said)
    if result.exit_status in _NO_TOOL or _MISSING.search(result.stderr_text):
        raise JudgingError(
            "`uv run uipath` could not be run: give the sandbox uv, and the agent's project the package uipath; "
            + shorten(result.stderr_text.strip(), 300)
        )
    if result.exit_status != 0:
        return Judgement(0.0, f"the evaluation ended with exit status {result.exit_status}", said)
    if result.truncated:
        raise JudgingError("the evaluation wrote more than is kept of it, so its metrics are not known")
    return _against_thresholds(criterion.thresholds, _metrics(result.stdout))


def _eval_command(agent: str, eval_set: str) -> str:
    """The command. Its standard output is the file with the results; what the tool prints goes to standard error."""
    return (
        f"set -- {shlex.quote(agent)} {shlex.quote(eval_set)}; "
        '[ -z "$TASK_DIR" ] || [ ! -e "$TASK_DIR/$2" ] || set -- "$1" "$TASK_DIR/$2"; '
        "results=$(mktemp) || exit 125; "
        'uv run uipath eval "$1" "$2" --no-report --output-file "$results" >&2; '
        'status=$?; cat "$results"; rm -f "$results"; exit "$status"'
    )


def _metrics(output: bytes) -> dict[str, Any]:
    """The mean score of each evaluator, by its id and its name, and under `*` the mean of these means.

    A name that several evaluators have stands for the worst of them. A score that is missing or no finite number
    counts 0, and a case without any result counts 0 for each evaluator. Other results are taken as metrics by name.
    """
    try:
        results = json.loads(output)
    except ValueError as error:
        raise JudgingError(f"the results of the evaluation are no JSON: {error}") from None
    if not isinstance(results, dict):
        raise JudgingError("the results of the evaluation are no JSON object")
    if "evaluationSetResults" not in results:
        return results
    scores: dict[str, list[float]] = {}
    names: dict[str, set[str]] = {}
    cases = results["evaluationSetResults"]
    without = sum(1 for case in cases if not any(_evaluator_results([case]))) if isinstance(cases, list) else 0
    for result in _evaluator_results(cases):
        evaluator = str(result.get("evaluatorId") or result.get("evaluatorName") or "")
        if not evaluator:
            continue
        outcome = result.get("result")
        score = _finite(outcome.get("score")) if isinstance(outcome, Mapping) else None
        scores.setdefault(evaluator, []).append(score or 0.0)
        names.setdefault(str(result.get("evaluatorName") or evaluator), set()).add(evaluator)
    means = {evaluator: sum(found) / (len(found) + without) for evaluator, found in scores.items()}
    if not means:
        raise JudgingError("the results of the evaluation hold no score")
    by_name = {name: min(means[evaluator] for evaluator in alike) for name, alike in names.items()}
    return {**by_name, **means, "*": sum(means.values()) / len(means)}


def _evaluator_results(cases: Any) -> Iterator[Mapping[str, Any]]:
    for case in cases if isinstance(cases, list) else ():
        found = case.get("evaluationRunResults") if isinstance(case, Mapping) else None
        yield from (result for result in found or () if isinstance(result, Mapping))


def _against_thresholds(thresholds: Mapping[str, float], metrics: Mapping[str, Any]) -> Judgement:
    missed = []
    for name, least in thresholds.items():
        value = _finite(metrics.get(name))
        if name not in metrics:
            missed.append(f"{name}: there is no such metric (metrics: {', '.join(map(str, metrics)) or 'none'})")
        elif value is None:
            missed.append(f"{name}: {shorten(repr(metrics[name]), 80)} is no finite number")
        elif value < least:
            missed.append(f"{name}: {value:g}, expected at least {least:g}")
    met = len(thresholds) - len(missed)
    reason = f"{met} of {len(thresholds)} thresholds are met"
    return Judgement(met / len(thresholds), "; ".join([reason, *missed[:3]]), "\n".join(missed))


KINDS = (
    CriterionKind(SystemOneJudge, judge_by_system_one),
    CriterionKind(UipathEval, judge_by_uipath),
)
"""What the plugin gives to the hook `pytest_codereval_criteria`."""
