"""Asking a model for its opinions: one forced call of a tool each, and what is made of those that go wrong."""

from __future__ import annotations

import dataclasses
import itertools
import json
import statistics
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ... import clock
from ...errors import AgentError, Cause, JudgingError
from ...model_api.patience import TRIES
from ...model_api.stop_reasons import broken_off
from ...trajectory.model import ModelCall, ModelFault
from .bill import Bill
from .endpoints import Endpoint
from .verdict import SUBMIT, TOOL, Opinion, submitted_in

if TYPE_CHECKING:
    from ...model_api.messages import MessagesApi, Reply
    from ...task.judge_models import LlmJudge


def request_of(criterion: LlmJudge, endpoint: Endpoint, system: str, question: str) -> dict[str, Any]:
    """The request for one opinion, in the terms of the Messages API."""
    return {
        "model": endpoint.model,
        "max_tokens": criterion.max_tokens,
        "temperature": criterion.temperature,
        "system": system,
        "messages": [{"role": "user", "content": question}],
        "tools": [dict(SUBMIT)],
        "tool_choice": {"type": "tool", "name": TOOL},
        **endpoint.params,
    }


def enough(opinions: Sequence[Opinion], criterion: LlmJudge) -> bool:
    """Whether there are as many opinions as were asked for: thrice as many where a failure is to be confirmed."""
    if len(opinions) < criterion.samples:
        return False
    if not criterion.confirm_on_fail:
        return True
    first = statistics.median(opinion.score for opinion in opinions[: criterion.samples])
    return first >= criterion.pass_threshold or len(opinions) >= 3 * criterion.samples


class Asking:
    """Asks one endpoint the same question until there are enough opinions.

    `request` is what was taken in the end, `said` all that was answered, as (who, text).
    """

    def __init__(self, criterion: LlmJudge, endpoint: Endpoint, request: dict[str, Any], bill: Bill) -> None:
        self.request = request
        self.said: list[tuple[str, str]] = []
        self._criterion = criterion
        self._endpoint = endpoint
        self._bill = bill
        self._plain = False
        self._tries = itertools.count(1)

    def opinions(self, patience: float) -> list[Opinion]:
        """Raises JudgingError when one of them cannot be had, and NotJudged when there is no money for it."""
        found: list[Opinion] = []
        self._bill.admit(self._endpoint.model)
        with closing(self._endpoint.open(patience)) as api:
            while not enough(found, self._criterion):
                if found:
                    self._bill.admit(self._endpoint.model)
                found.append(self._opinion(api))
        self._bill.refuse_unpriced(self._endpoint.model)
        return found

    def _opinion(self, api: MessagesApi) -> Opinion:
        reply = self._reply(api)
        self.said.append(("judge", json.dumps([dict(block) for block in reply.content], ensure_ascii=False)))
        if (broken := broken_off(reply.stop_reason)) is not None:
            hint = f"; max_tokens, now {self._criterion.max_tokens}, raises the limit"
            raise JudgingError(f"the judge: {broken[1]}{hint if broken[0] is Cause.OUTPUT_CUT else ''}")
        return submitted_in(reply.content)

    def _reply(self, api: MessagesApi) -> Reply:
        deadline = clock.monotonic() + self._criterion.timeout
        try:
            try:
                return api.ask(self.request, deadline, self._tell)
            except AgentError as error:
                if error.cause is not Cause.BAD_REQUEST or self._plain or self._criterion.temperature:
                    raise
            self._make_plain()
            return api.ask(self.request, deadline, self._tell)
        except AgentError as error:
            raise JudgingError(f"the judge could not be asked ({error.cause}): {error}") from None

    def _tell(self, event: ModelCall | ModelFault) -> None:
        """Each is another call, also where an endpoint gives all of them one id. None is tried again without money."""
        self._bill.tell(dataclasses.replace(event, id=f"{next(self._tries)}-{event.id}"))
        if isinstance(event, ModelFault) and event.cause in TRIES:
            self._bill.admit(self._endpoint.model)

    def _make_plain(self) -> None:
        """Some models refuse a temperature, and some endpoints call the limit of a reply by another name."""
        self._plain = True
        self.request = {key: value for key, value in self.request.items() if key != "temperature"}
        if self._endpoint.api == "openai" and "max_tokens" in self.request:
            self.request["max_completion_tokens"] = self.request.pop("max_tokens")
