"""What one tool can answer, made ready before any call, and the counters of its calls."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ...errors import Cause, TrialError
from ..answering import ShimPlan
from ..argv import ArgvPattern
from ..options import Option, OptionTable, option_table
from .call import Call
from .cassette import Replay, load
from .replies import HandlerStep, PassthroughStep, PrintStep, Steps, fallback_of, steps_of
from .rules import Facts, Match, match_of

if TYPE_CHECKING:
    from ...task.reply_models import RecordedTool
    from ...task.reply_tables import ToolTable

_UNDECLARED: OptionTable = (Option(("output",), 1),)
"""How the calls of a tool without `options` are read, as in `value_flags` of a rule."""


@dataclasses.dataclass(frozen=True)
class Rule:
    """One rule: the calls that it matches, and its replies. `origin` names it as its author knows it."""

    index: int
    origin: str
    match: Match
    steps: Steps


class ToolAnswers:
    """The answers of one tool. `calls` counts its calls, `turns` how often each rule, by its key, has answered.

    Raises TrialError(CONFIGURATION) for files that cannot be used.
    """

    def __init__(self, table: ToolTable, trial: str) -> None:
        tool = table.tool
        self.name = tool.tool
        self.handler = None if tool.handler is None else HandlerStep(tool.handler, table.folder)
        self.options: OptionTable = option_table(tool.option_names())
        self.reading = ArgvPattern(options=self.options or _UNDECLARED)
        self.rules = tuple(
            Rule(
                index,
                located.origin,
                match_of(located.response.when, self.options),
                steps_of(located.response, located.folder, f"{self.name}: {located.origin}"),
            )
            for index, located in enumerate(table.rules)
        )
        self.fallback = fallback_of(tool, table.folder)
        self.record_to = table.record_to
        self.replay = self._replay(table, trial)
        self.extends_cassette = self.replay is not None and table.replay_from == table.record_to
        self.variables = tuple(table.variables)
        self.calls = 0
        self.turns: Counter[str] = Counter()
        self._matching: Counter[int] = Counter()
        self._is_constant = self._constant(tool)

    @property
    def matches_something(self) -> bool:
        """Whether there is more than the fallback."""
        return bool(self.rules) or self.handler is not None or self.replay is not None

    @property
    def fallback_name(self) -> str:
        """What is said of a call that the fallback answered by a reply of its own."""
        return "constant" if self._is_constant else "fallback"

    def handlers(self) -> Iterator[tuple[HandlerStep, str]]:
        """The handlers that it may need, each with where it is named."""
        if self.handler is not None:
            yield self.handler, "handler"
        for origin, steps in (*((rule.origin, rule.steps) for rule in self.rules), ("sequence", self.fallback)):
            for step in steps:
                if isinstance(step, HandlerStep):
                    yield step, origin

    def applies(self, rule: Rule, facts: Facts, counted: set[int]) -> bool:
        """Whether the rule, to which it is the turn now, matches a call. Raises StdinNeeded.

        `counted` are the rules with `nth` that the call counts for. One with `stdin` is added when its turn comes.
        """
        if rule.match.nth is None:
            return rule.match.holds(facts)
        if rule.match.stdin is not None and rule.match.holds(facts):
            counted.add(rule.index)
        return rule.index in counted and self._matching[rule.index] + 1 == rule.match.nth

    def count(self, counted: Collection[int], used: Collection[str]) -> None:
        """Count a call that was answered: for these rules with `nth`, and for these replies."""
        self.calls += 1
        self._matching.update(counted)
        self.turns.update(used)

    def reset(self) -> None:
        """Forget all calls."""
        self.calls = 0
        self.turns.clear()
        self._matching.clear()
        if self.replay is not None:
            self.replay.reset()

    def plan(self) -> ShimPlan:
        """How its shim works."""
        step = self.fallback[0]
        if self._is_constant and isinstance(step, PrintStep):
            call = Call(self.name)
            stdout, stderr = step.stdout.produce(call), step.stderr.produce(call)
            return ShimPlan(self.name, stdout=stdout, stderr=stderr, exit_status=step.exit_status)
        if not self.matches_something and self.fallback == (PassthroughStep(),) and self.record_to is None:
            return ShimPlan(self.name, passthrough=True)
        return ShimPlan(self.name, asks=True, may_run_real=self._may_run_real, variables=self.variables)

    @property
    def _may_run_real(self) -> bool:
        """Whether an answer may be to run the real program: handlers decide that when they are called."""
        steps = (*self.fallback, *(step for rule in self.rules for step in rule.steps))
        return (
            self.record_to is not None
            or self.handler is not None
            or any(isinstance(step, PassthroughStep | HandlerStep) for step in steps)
        )

    def _replay(self, table: ToolTable, trial: str) -> Replay | None:
        path = table.replay_from
        if self.record_to is not None and self.record_to.exists() and path != self.record_to:
            load(self.record_to)
        if path is None:
            return None
        entries = () if path == self.record_to and not path.exists() else load(path)
        if path != self.record_to and not any(entry.tool == self.name for entry in entries):
            what = f"replay_from: no call of {self.name} is recorded in {path}"
            raise TrialError(Cause.CONFIGURATION, f"sandbox.record_cli: {self.name}: {what}")
        return Replay(entries, self.name, trial, self.options or _UNDECLARED)

    def _constant(self, tool: RecordedTool) -> bool:
        """Whether every call gets the same text, which may stand in the shim; what is read from files must not."""
        step = self.fallback[0]
        return (
            not self.matches_something
            and len(self.fallback) == 1
            and isinstance(step, PrintStep)
            and step.is_fixed
            and not (step.delay or tool.sequence or tool.template)
            and not (tool.stdout_file or tool.stderr_file or tool.json_file)
            and self.record_to is None
        )
