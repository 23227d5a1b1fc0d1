"""One run of an agent that judges, in a room of its own, under the limits of its criterion."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ... import clock
from ...agents import registry
from ...agents.limits import Meter, Stop
from ...agents.protocol import Job
from ...agents.skills.projected import Projection
from ...errors import AgentError, JudgingError, NotJudged, TrialError
from ...text import clean
from ...trajectory.checking import checked
from ...trajectory.model import Event, Message, ModelCall, ModelFault, ToolCall
from .agents import Box
from .bill import Bill
from .verdict import Opinion

if TYPE_CHECKING:
    from ...sandbox.protocol import Sandbox
    from ...task.agent_models import AgentConfig
    from ...task.judge_models import AgentJudge
    from .desk import JudgeDesk


class AgentRun:
    """Used once. `events` is what the agent told, in order."""

    def __init__(
        self, criterion: AgentJudge, desk: JudgeDesk, config: AgentConfig, sandbox: Sandbox, bill: Bill
    ) -> None:
        from ...task.models import RunLimits

        self.events: list[Event] = []
        self._criterion = criterion
        self._desk = desk
        self._sandbox = sandbox
        self._bill = bill
        limits = RunLimits(max_turns=criterion.max_turns, max_usd=criterion.max_usd)
        self._meter = Meter(limits, desk.accounts.prices, desk.accounts.has_cap)
        task = desk.task.model_copy(update={"agent": config, "run_limits": limits, "simulation": None})
        self._name = config.type or ""
        self._config = registry.config_of(self._name, task, desk.task_folder)
        self._task = task

    def verdict(self, prompt: str, box: Box) -> Opinion:
        """Let the agent work on `prompt` until it hands in its verdict.

        Raises JudgingError for an agent that fails, runs into a limit or hands in none, and NotJudged at `max_usd`.
        """
        if self._name not in registry.names():
            raise JudgingError(f"the judge's agent {self._name!r} is not available: {', '.join(registry.names())} are")
        try:
            self._work(prompt, box)
        except AgentError as error:
            raise JudgingError(f"the judge's agent failed ({error.cause}): {error}") from None
        except TrialError as error:
            raise JudgingError(f"the judge's agent could not work ({error.cause}): {error}") from None
        if self._meter.stop is Stop.COST and not box.closed:
            raise NotJudged(f"max_usd of this judge (${self._criterion.max_usd:g}) was used up before its verdict")
        last = next((e.text for e in reversed(self.events) if isinstance(e, Message) and e.role == "assistant"), "")
        try:
            return box.verdict(last)
        except JudgingError as error:
            stopped = f" (it was stopped at {self._meter.stop})" if self._meter.stop is not None else ""
            raise JudgingError(f"{error}{stopped}") from None

    def _work(self, prompt: str, box: Box) -> None:
        agent = registry.create(self._name, self._config)
        deadline = clock.monotonic() + self._criterion.turn_timeout
        try:
            agent.start(self._job(box))
            self._meter.begin_run()
            with contextlib.closing(_generated(agent.run(prompt, deadline))) as events:
                for event in events:
                    self._take(event)
                    if self._meter.overrun:
                        break
        finally:
            self._sandbox.reap()
            for event in agent.stop():
                self._take(event)

    def _job(self, box: Box) -> Job:
        return Job(
            task=self._task,
            config=self._config,
            sandbox=self._sandbox,
            artifacts=self._sandbox.root / "judge",
            skills=Projection(),
            model=self._config.model,
            max_turns=self._meter.max_turns,
            task_folder=self._desk.task_folder,
            admit=lambda main: not box.closed and self._meter.admit(main),
            patience=self._desk.accounts.patience,
            own_tools=box.tools,
        )

    def _take(self, event: Event) -> None:
        try:
            told = checked(event)
        except ValueError as error:
            raise JudgingError(f"the judge's agent {self._name!r}: {error}") from None
        if isinstance(told, ToolCall):
            self.events = [e for e in self.events if not (isinstance(e, ToolCall) and e.id == told.id)]
        self.events.append(told)
        if isinstance(told, ModelCall | ModelFault):
            self._bill.tell(told)
        self._meter.take(told)

    def messages(self) -> Iterator[tuple[str, str]]:
        """What was said and done, as (who, text)."""
        for event in self.events:
            if isinstance(event, Message) and event.role == "assistant":
                yield "judge", event.text
            elif isinstance(event, ToolCall):
                parameters = json.dumps(dict(event.parameters), default=str, ensure_ascii=False)
                yield "tool", f"{clean(event.name)} {parameters} [{event.status}]\n{event.output}"


def _generated(events: Iterator[Event]) -> Any:
    """As a generator, so that it can be closed."""
    yield from events


def plain_config(config: AgentConfig) -> dict[str, Any]:
    """The block as plain data, for the key of a judgement: without the fence, which is drawn anew each time."""
    return config.model_dump(mode="json", exclude={"system_prompt"})
