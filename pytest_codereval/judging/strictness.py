"""Tools that answer only the calls they know (`unmatched: fail`): a criterion of their own for each."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ..criteria.contract import CriterionResult, Verdict
from ..recorder.invocation import Invocation, InvocationLog
from ..text import clean
from .judge import not_evaluated

if TYPE_CHECKING:
    from ..task.models import Task

TYPE = "record_cli"
SHOWN_CALLS = 5


def strict_tools(task: Task, strictness: str) -> list[str]:
    """The recorded tools of a task whose `unmatched` is `strictness`, by name."""
    return sorted(tool.tool for tool in task.sandbox.record_cli or () if tool.unmatched == strictness)


def unmatched_calls(log: InvocationLog, tool: str) -> tuple[Invocation, ...]:
    """The calls of `tool` that no rule, handler or cassette answered before the agent ended."""
    unmatched = frozenset(log.unmatched)
    return tuple(call for call in log.invocations if call.tool == tool and call.sequence in unmatched)


def listed(calls: Collection[Invocation]) -> str:
    """Some of the calls, one a line, as a shell would be given them."""
    lines = [f"  {shlex.join([call.tool, *call.argv])}" for call in calls]
    more = [f"  +{len(lines) - SHOWN_CALLS} more"] if len(lines) > SHOWN_CALLS else []
    return "\n".join([*lines[:SHOWN_CALLS], *more])


def strictness_results(log: InvocationLog, tools: Iterable[str], first_index: int) -> tuple[CriterionResult, ...]:
    """One gating result for each of `tools`: a pass when every call of it was answered."""
    return tuple(_judged(log, tool, first_index + number) for number, tool in enumerate(tools))


def nothing_evaluated(task: Task, reason: str) -> tuple[CriterionResult, ...]:
    """All results of a trial that did not come to be judged: those of its criteria and those of strict tools."""
    results = not_evaluated(task.success_criteria, reason)
    strict = enumerate(strict_tools(task, "fail"), start=len(results))
    return results + tuple(_result(tool, index, Verdict.NOT_EVALUATED, None, reason) for index, tool in strict)


def _judged(log: InvocationLog, tool: str, index: int) -> CriterionResult:
    calls = unmatched_calls(log, tool)
    if not calls:
        return _result(tool, index, Verdict.PASS, 1.0, "every call was answered")
    number = "1 call was" if len(calls) == 1 else f"{len(calls)} calls were"
    reason = f"{number} answered by no rule, handler or cassette before the agent ended"
    return _result(tool, index, Verdict.FAIL, 0.0, reason, listed(calls))


def _result(
    tool: str, index: int, verdict: Verdict, score: float | None, reason: str, details: str = ""
) -> CriterionResult:
    return CriterionResult(
        index=index,
        name=f"{TYPE}-unmatched-{tool}",
        type=TYPE,
        description=f"every call of {tool} is one that its rules know (unmatched: fail)",
        verdict=verdict,
        score=score,
        weight=1.0,
        pass_threshold=1.0,
        gating=True,
        reason=clean(reason),
        details=clean(details),
    )
