"""Criterion type llm_judge: a model reads what it is shown and must submit a verdict."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from ..errors import JudgingError, NotJudged
from ..task.judge_models import LlmJudge
from ..text import clean
from .contract import Evidence, Judgement
from .judges.asking import Asking, request_of
from .judges.bill import Bill
from .judges.desk import JudgeDesk, desk_of
from .judges.endpoints import Endpoint, endpoint_of
from .judges.material import Material, gather
from .judges.prompt import NO_FENCE, new_fence, question, rules
from .judges.ruling import Ruling, judgement_of, key_of, ruling_from, scrubbed
from .judges.scrubbing import Scrubber
from .judges.transcript import write_transcript
from .judges.verdict import Opinion


def check(criterion: LlmJudge, evidence: Evidence) -> Judgement:
    """Score the median of the judge's scores.

    Raises JudgingError for a judge that is down, has no key, refuses, is cut off, runs into its timeout or answers out
    of shape, and NotJudged when there is no money for it.
    """
    desk = desk_of(evidence)
    context = desk.task.checker_context
    endpoint = endpoint_of(criterion, context.api_route if context else None)
    material = gather(criterion, evidence, desk)
    scrubber = Scrubber(material.answers)
    bill = Bill(desk.accounts, criterion.max_usd, endpoint.provider)
    threshold = criterion.pass_threshold if criterion.confirm_on_fail else None
    key = key_of(
        {
            "endpoint": endpoint.identity,
            "request": request_of(criterion, endpoint, rules(NO_FENCE), criterion.prompt),
            "material": material.plain,
            "samples": criterion.samples,
            "confirmed_below": threshold,
        }
    )
    asking = Asking(criterion, endpoint, _request(criterion, endpoint, material, new_fence()), bill)
    with desk.accounts.turn(endpoint.provider, criterion.timeout), desk.held(key) as place:
        ruling = ruling_from(place.read())
        cached = ruling is not None
        if ruling is None:
            ruling = _asked(criterion, desk, asking, endpoint, scrubber)
            place.write(ruling.kept())
    said = [("judge", _said(opinion)) for opinion in ruling.opinions] if cached else asking.said
    return judgement_of(
        ruling,
        bill.spending,
        cached=cached,
        missing=[scrubber.scrub(name) for name in material.missing],
        notes=material.notes,
        transcript=_transcript(criterion, desk, asking.request, said, scrubber, cached),
        more={"endpoint": None if endpoint.base_url is None else clean(endpoint.base_url), "api": endpoint.api},
    )


def _asked(criterion: LlmJudge, desk: JudgeDesk, asking: Asking, endpoint: Endpoint, scrubber: Scrubber) -> Ruling:
    """The ruling of a judge that is asked now. What one said that cannot be used is kept in a transcript, too."""
    try:
        opinions = asking.opinions(desk.accounts.patience)
    except (JudgingError, NotJudged) as error:
        name = _transcript(criterion, desk, asking.request, asking.said, scrubber, False) if asking.said else None
        raise type(error)(f"{scrubber.scrub(str(error))}{f' ({name} has what it said)' if name else ''}") from None
    return Ruling(endpoint.model, scrubbed(opinions, scrubber), asking.request.get("temperature"))


def _request(criterion: LlmJudge, endpoint: Endpoint, material: Material, fence: str) -> dict[str, Any]:
    asked = question(criterion.prompt, material.blocks, fence)
    return request_of(criterion, endpoint, rules(fence), asked)


def _transcript(
    criterion: LlmJudge,
    desk: JudgeDesk,
    request: dict[str, Any],
    said: list[tuple[str, str]],
    scrubber: Scrubber,
    cached: bool,
) -> str | None:
    if not criterion.capture_transcript:
        return None
    messages = [("system", request["system"]), ("user", request["messages"][0]["content"]), *said]
    head = {"type": criterion.type, "criterion": criterion.description, "model": request["model"], "cached": cached}
    return write_transcript(desk.folder, head, messages, scrubber, criterion.max_transcript_chars)


def _said(opinion: Opinion) -> str:
    return json.dumps(dataclasses.asdict(opinion), ensure_ascii=False)
