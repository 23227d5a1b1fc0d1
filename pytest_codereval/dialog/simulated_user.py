"""A model that plays the user."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import clock
from ..errors import AgentError, Cause
from ..model_api.messages import MessagesApi, Reply
from ..text import clean, shorten
from ..trajectory.model import ModelCall, ModelFault
from ..trajectory.prices import SETTING, PriceList
from ..trajectory.spending import spending
from .prompt_text import BEGIN, instructions
from .talk import Tell
from .transcript import Ending, Transcript

if TYPE_CHECKING:
    from ..task.models import Simulation

REPLY_TIMEOUT = 300.0
"""Seconds for one message of the simulated user, its retries included."""

MOST_TOKENS = 4096
"""Tokens of one message of the simulated user; one that is longer is cut off, which is a fault."""

MOST_CHARACTERS = 100_000
"""Characters of one reply of the agent that the simulated user gets to see: its head and its tail."""

_GATEWAY = re.compile(r"(?:[\w-]+[./])*anthropic[./](?P<name>.+?)(?:-v\d+(?::\d+)?)?")
_CACHED = {"type": "ephemeral"}


def direct_name(model: str) -> str:
    """The model as the provider itself calls it: `eu.anthropic.claude-x-v1:0` is `claude-x`."""
    match = _GATEWAY.fullmatch(model)
    return match["name"] if match else model


class SimulatedUser:
    """Asks the model after each reply of the agent, with the whole conversation and nothing else. A `Talk`."""

    def __init__(
        self,
        description: str,
        simulation: Simulation,
        prompt: str,
        tell_cost: Tell,
        spent_by_agent: Callable[[], int | None],
        prices: PriceList | None,
        patience: float = 1.0,
    ) -> None:
        """Raises AgentError(NO_CREDENTIALS or UNPRICED)."""
        self._simulation = simulation
        self._prompt = prompt
        self._tell_cost = tell_cost
        self._spent_by_agent = spent_by_agent
        self._model = direct_name(simulation.model)
        self._stop_token = simulation.stop_token.strip()
        self._instructions = clean(instructions(simulation, description))
        self._transcript = Transcript()
        self._calls: dict[tuple[type, str], ModelCall | ModelFault] = {}
        self._last_words: str | None = None
        self._prices = prices or PriceList()
        if simulation.max_usd is not None and not self._prices.knows(self._model):
            raise self._unpriced(self._model)
        self._api = MessagesApi(first_wait=patience)

    def opening(self, deadline: float) -> str | None:
        if self._prompt.strip():
            return self._transcript.ask(self._prompt)
        text = self._say(deadline)
        if self._stop_token in text:
            raise self._fault("it ended the conversation before it had begun")
        return self._transcript.ask(text)

    def answer(self, said: str, deadline: float) -> str | None:
        self._transcript.reply(said)
        if self._transcript.ending is None and (ending := self._ending(said)):
            self._transcript.end(ending)
        if self._transcript.ending is not None:
            return None
        text = self._say(deadline)
        before, token, _ = text.partition(self._stop_token)
        if token:
            self._last_words = before.strip() or None
            self._transcript.end(Ending.STOP_TOKEN)
            return None
        return self._transcript.ask(text)

    def end(self, ending: Ending, said: str | None = None) -> None:
        if said is not None:
            self._transcript.reply(said)
        self._transcript.end(ending)

    def close(self) -> None:
        self._api.close()

    @property
    def record(self) -> dict[str, object]:
        return {
            "model": self._model,
            "opening": "given" if self._prompt.strip() else "generated",
            "instructions": self._instructions,
            **self._transcript.describe(),
            "last_words": self._last_words,
        }

    # -- when it is over

    def _ending(self, said: str) -> Ending | None:
        """Why nothing more is said to this reply, None when the user is to be asked."""
        if len(self._transcript.exchanges) >= self._simulation.max_turns:
            return Ending.MAX_TURNS
        if self._tokens_are_used_up():
            return Ending.TOKEN_BUDGET
        if self._money_is_used_up():
            return Ending.COST_BUDGET
        return None if said.strip() else Ending.EMPTY_REPLY

    def _money_is_used_up(self) -> bool:
        most = self._simulation.max_usd
        if most is None:
            return False
        for call in self._replies:
            if call.complete and self._prices.cost(call.model, call.usage) is None:
                raise self._unpriced(call.model)
        return spending(self._replies, self._prices).cost_usd > most

    def _unpriced(self, model: str | None) -> AgentError:
        self._transcript.end(Ending.FAULT)
        message = (
            f"simulation.max_usd cannot be kept: what the model {model!r} (simulation.model) costs is not known; give "
            f"its price in the ini setting {SETTING}"
        )
        return AgentError(Cause.UNPRICED, message)

    def _tokens_are_used_up(self) -> bool:
        most = self._simulation.max_total_tokens
        if most is None:
            return False
        agent = self._spent_by_agent()
        if agent is None:
            message = "simulation.max_total_tokens cannot be held: the agent does not tell how many tokens it used"
            raise AgentError(Cause.CONFIGURATION, message)
        return agent + self._spent() > most

    def _spent(self) -> int:
        for call in self._replies:
            if call.complete and None in (call.usage.input_tokens, call.usage.output_tokens):
                raise self._fault("its model does not tell how many tokens it used: max_total_tokens needs that")
        spent = spending(self._replies, self._prices)
        return spent.input_tokens + spent.output_tokens

    @property
    def _replies(self) -> list[ModelCall]:
        return [call for call in self._calls.values() if isinstance(call, ModelCall)]

    # -- asking the model

    def _say(self, deadline: float) -> str:
        """The next message of the user. Raises AgentError(SIMULATED_USER, or TASK_TIMEOUT when no time is left)."""
        if deadline <= clock.monotonic():
            self._transcript.end(Ending.FAULT)
            raise AgentError(Cause.TASK_TIMEOUT, "the time was up when the simulated user was to speak")
        try:
            reply = self._api.ask(self._request(), min(deadline, clock.monotonic() + REPLY_TIMEOUT), self._tell)
        except AgentError as error:
            raise self._fault(f"{error.cause}: {error}", error.retry_after) from error
        return self._text(reply)

    def _text(self, reply: Reply) -> str:
        if reply.stop_reason not in ("end_turn", "stop_sequence"):
            raise self._fault(f"its reply stopped for {clean(reply.stop_reason)[:100]}")
        text = clean(reply.text).strip()
        if not text:
            raise self._fault("its reply is empty")
        return text

    def _request(self) -> dict[str, Any]:
        """The conversation seen from the user's side: what the agent said comes in, what the user said went out."""
        turns = [("user", BEGIN)]
        for exchange in self._transcript.exchanges:
            said = shorten(clean(exchange.agent or ""), MOST_CHARACTERS)
            turns += [("assistant", clean(exchange.user).strip()), ("user", said)]
        messages: list[dict[str, Any]] = [{"role": role, "content": [_block(text)]} for role, text in turns]
        messages[-1]["content"] = [_block(turns[-1][1], cache_control=_CACHED)]
        return {
            "model": self._model,
            "max_tokens": MOST_TOKENS,
            "system": [_block(self._instructions, cache_control=_CACHED)],
            "messages": messages,
        }

    def _tell(self, call: ModelCall | ModelFault) -> None:
        self._calls[type(call), call.id] = call
        self._tell_cost(call)

    def _fault(self, why: str, retry_after: float | None = None) -> AgentError:
        self._transcript.end(Ending.FAULT)
        number = len(self._transcript.exchanges) + 1
        return AgentError(Cause.SIMULATED_USER, f"message {number} of the simulated user: {why}", retry_after)


def _block(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}
