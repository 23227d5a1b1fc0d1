"""Tools that answer only the calls they know (`unmatched: fail`): a criterion of their own for each."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from ..criteria.contract import CriterionResult, Verdict
from ..recorder.invocation import Invocation, InvocationLog

TYPE = "record_cli"
SHOWN_CALLS = 5


def unmatched_calls(log: InvocationLog, tool: str) -> tuple[Invocation, ...]:
    """The calls of `tool` that no rule, handler or cassette answered before the agent ended."""
    return tuple(call for call in log.invocations if call.tool == tool and call.sequence in log.unmatched)


def listed(calls: Collection[Invocation]) -> str:
    """Some of the calls, one a line, as a shell would be given them."""
    lines = [f"  {shlex.join([call.tool, *call.argv])}" for call in calls]
    more = [f"  +{len(lines) - SHOWN_CALLS} more"] if len(lines) > SHOWN_CALLS else []
    return "\n".join([*lines[:SHOWN_CALLS], *more])


def strictness_results(log: InvocationLog, tools: Collection[str], first_index: int) -> tuple[CriterionResult, ...]:
    """One gating result for each of `tools`: a pass when every call of it was answered."""
    return tuple(_result(log, tool, first_index + number) for number, tool in enumerate(sorted(tools)))


def _result(log: InvocationLog, tool: str, index: int) -> CriterionResult:
    calls = unmatched_calls(log, tool)
    number = "1 call was" if len(calls) == 1 else f"{len(calls)} calls were"
    unanswered = f"{number} answered by no rule, handler or cassette before the agent ended"
    return CriterionResult(
        index=index,
        name=f"{TYPE}-unmatched-{tool}",
        type=TYPE,
        description=f"every call of {tool} is one that its rules know (unmatched: fail)",
        verdict=Verdict.FAIL if calls else Verdict.PASS,
        score=0.0 if calls else 1.0,
        weight=1.0,
        pass_threshold=1.0,
        gating=True,
        reason=unanswered if calls else "every call was answered",
        details=listed(calls),
    )
