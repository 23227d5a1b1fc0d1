"""The loop: ask the model, carry out the tools it calls, tell what happened, until it is done."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from ... import clock
from ...errors import AgentError, Cause
from ...model_api.assembly import without_surrogates
from ...model_api.messages import MessagesApi, Reply
from ...model_api.stop_reasons import broken_off
from ...trajectory.model import Event, Message, ModelCall, ModelFault, ToolCall
from ..protocol import time_is_up
from .messages import Block, Messages
from .permissions import permitted
from .prompt import system_prompt
from .skill_tool import Skills
from .tools import Toolbox, common_call

if TYPE_CHECKING:
    from ..protocol import Job

MAX_TOKENS = 32_000
"""Tokens of one reply unless agent.max_tokens says otherwise."""

_ENDS = ("end_turn", "stop_sequence", "tool_use", "pause_turn")


class TheAgent:
    """The harness holds key and conversation; the sandbox needs neither network nor a program of ours."""

    def __init__(self, *, first_wait: float = 1.0) -> None:
        """`first_wait`: seconds before a failed call of the model is tried again."""
        self._first_wait = first_wait
        self._api: MessagesApi | None = None
        self._told_ids: set[str] = set()

    def start(self, job: Job) -> None:
        """See `protocol.Agent.start`. Raises AgentError: CONFIGURATION or NO_CREDENTIALS."""
        config: Any = job.config
        _refuse_unknown(config)
        if not job.model:
            raise AgentError(Cause.CONFIGURATION, "the agent anthropic needs a model: agent.model or --codereval-model")
        usable = permitted(config.allowed_tools, config.disallowed_tools)
        skills = Skills(job.sandbox, job.skills.skills)
        self._tools = Toolbox(job.sandbox, skills, usable)
        for tool in job.own_tools:
            self._tools.add_own(tool)
        self._job = job
        self._request = _settings(config) | {
            "model": job.model,
            "system": system_prompt(str(job.sandbox.workspace), self._tools, skills, config.system_prompt),
            "tools": self._tools.definitions,
        }
        self._messages = Messages()
        self._api = MessagesApi(getattr(config, "base_url", None), first_wait=self._first_wait * job.patience)

    def run(self, prompt: str, deadline: float) -> Iterator[Event]:
        """See `protocol.Agent.run`."""
        prompt = without_surrogates(prompt)
        self._messages.prompt(prompt)
        while self._may_ask(deadline):
            reply, calls = yield from self._ask(deadline)
            if reply.text.strip():
                yield Message("assistant", reply.text, clock.now())
            if (broken := self._broken_off(reply, calls)) is not None:
                yield ModelFault(reply.id, broken.cause, str(broken), status=200, time=clock.now())
                raise broken
            for call in calls:
                yield from self._carry_out(call, deadline)
            if not calls and reply.stop_reason != "pause_turn":
                return

    def stop(self) -> tuple[Event, ...]:
        """See `protocol.Agent.stop`."""
        if self._api is not None:
            self._api.close()
        return ()

    def _may_ask(self, deadline: float) -> bool:
        if clock.monotonic() >= deadline:
            raise time_is_up("the agent")
        return self._job.admit(True)

    def _ask(self, deadline: float) -> Generator[Event, None, tuple[Reply, list[Block]]]:
        """Ask the model; its reply, which is part of the conversation then, and the calls of tools to carry out."""
        assert self._api is not None, "start() comes first"
        told: list[ModelCall | ModelFault] = []

        def tell(event: ModelCall | ModelFault) -> None:
            told.append(event)
            if isinstance(event, ModelFault) and event.cause is Cause.RATE_LIMITED:
                self._job.limited(event.retry_after)

        request = {**self._request, "messages": self._messages.messages()}
        try:
            reply = self._api.ask(request, deadline, tell)
        except Exception:
            yield from told
            raise
        except BaseException as interrupt:
            try:
                yield from told
            except GeneratorExit:
                raise interrupt from None
            raise
        calls = self._messages.reply(reply) if reply.stop_reason in _ENDS else []
        yield from told
        return reply, calls

    def _broken_off(self, reply: Reply, calls: list[Block]) -> AgentError | None:
        """Why a whole reply is none to go on from."""
        reason = reply.stop_reason
        if (fault := broken_off(reason)) is not None:
            cause, message = fault
            limit = f"; agent.max_tokens, now {self._request['max_tokens']}, raises the limit"
            return AgentError(cause, message + (limit if cause is Cause.OUTPUT_CUT else ""))
        if reason not in _ENDS:
            return AgentError(Cause.API_FAULT, f"the model stopped for a reason that is not known: {reason[:80]!r}")
        if reason == "tool_use" and not calls:
            return AgentError(Cause.API_FAULT, "the model stopped to call a tool and called none")
        return None

    def _carry_out(self, call: Block, deadline: float) -> Iterator[Event]:
        name, parameters = common_call(call["name"], call["input"])
        event = ToolCall(self._new_id(call["id"]), name, parameters, "unknown", started=clock.now())
        yield event
        outcome = self._tools.run(call["name"], call["input"], deadline)
        self._messages.answer(call["id"], outcome.result, is_error=outcome.status == "error")
        yield dataclasses.replace(
            event,
            status=outcome.status,
            output=outcome.output,
            exit_status=outcome.exit_status,
            ended=clock.now(),
        )

    def _new_id(self, given: str) -> str:
        """The id of a call; an API that uses one twice must not replace what was told before."""
        names = itertools.chain([given], (f"{given}-{number}" for number in itertools.count(2)))
        new = next(name for name in names if name not in self._told_ids)
        self._told_ids.add(new)
        return new


def _refuse_unknown(config: Any) -> None:
    """Refuse what the loop cannot do. Raises AgentError(CONFIGURATION)."""
    if config.permission_mode == "plan":
        raise AgentError(Cause.CONFIGURATION, "agent.permission_mode: the agent anthropic has no plan mode")


def _settings(config: Any) -> dict[str, Any]:
    """What the task says of the replies, as the API takes it."""
    thinking = getattr(config, "thinking", None)
    beside_text = getattr(thinking, "budget_tokens", 0)
    settings: dict[str, Any] = {"max_tokens": getattr(config, "max_tokens", None) or MAX_TOKENS + beside_text}
    if isinstance(thinking, str):
        settings["thinking"] = {"type": thinking}
    elif thinking is not None:
        settings["thinking"] = {"type": "enabled", "budget_tokens": thinking.budget_tokens}
    if effort := getattr(config, "effort", None):
        settings["output_config"] = {"effort": effort}
    return settings
