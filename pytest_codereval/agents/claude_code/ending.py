"""How a run ended: as it should, or as a typed failure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ...errors import AgentError, Cause
from ...model_api.stop_reasons import BROKEN_OFF
from ...sandbox.protocol import ProcessResult
from ...text import shorten
from .calls import ModelCalls

SHOWN = 2000
"""Characters of the program's own words in a message."""

_BY_STOP: Mapping[str, Cause] = MappingProxyType(
    {stop: cause for stop, (cause, _) in BROKEN_OFF.items()} | {"pause_turn": Cause.API_FAULT}
)
_BY_FAULT: Mapping[str, Cause] = MappingProxyType(
    {
        "authentication_failed": Cause.AUTHENTICATION,
        "billing_error": Cause.BILLING,
        "rate_limit": Cause.RATE_LIMITED,
        "overloaded": Cause.OVERLOADED,
        "model_not_found": Cause.BAD_REQUEST,
        "invalid_request": Cause.BAD_REQUEST,
        "server_error": Cause.API_FAULT,
    }
)
_BY_STATUS: Mapping[int, Cause] = MappingProxyType(
    {429: Cause.RATE_LIMITED, 503: Cause.OVERLOADED, 529: Cause.OVERLOADED}
)


class Ending:
    """What the lines say of the end. `final` is the last `result`; `at_rest` tells that nothing came behind it.

    `fault` is the kind of the error that the program showed in place of an answer.
    """

    def __init__(self) -> None:
        self.final: dict[str, Any] | None = None
        self.at_rest = False
        self.fault = ""

    @property
    def out_of_turns(self) -> bool:
        """The program has made as many turns as it was allowed."""
        return self.final is not None and self.final.get("subtype") == "error_max_turns"

    def close(self, result: dict[str, Any]) -> None:
        self.final = result
        self.at_rest = True

    def go_on(self) -> None:
        """The model has said something: what came before was not the end."""
        self.at_rest = False
        self.fault = ""


def check_end(result: ProcessResult, ending: Ending, calls: ModelCalls) -> None:
    """Return when the agent has done its work or used up its turns. Raises AgentError for every other end."""
    final = ending.final
    if final is None:
        raise _without_result(result, calls)
    if ending.out_of_turns and calls.open_fault is None:
        return
    if final.get("is_error") is not False:
        raise _failure(final, ending.fault, calls)
    if result.exit_status != 0:
        raise AgentError(Cause.AGENT_CRASH, f"Claude Code gave a result and ended with {_how(result)}")
    if final.get("stop_reason") in _BY_STOP or calls.open_fault is not None:
        raise _failure(final, ending.fault, calls)
    if not calls.replies:
        raise AgentError(
            Cause.CONFIGURATION,
            f"the prompt reached no model; Claude Code answered it by itself: {_words(final)}",
        )


def _without_result(result: ProcessResult, calls: ModelCalls) -> AgentError:
    fault = calls.open_fault
    if fault is not None:
        return AgentError(fault.cause, fault.message, fault.retry_after)
    too_old = result.stderr_text.lstrip().startswith("error: unknown option")
    cause = Cause.CONFIGURATION if too_old else Cause.AGENT_CRASH
    return AgentError(cause, f"Claude Code ended without a result, with {_how(result)}")


def _how(result: ProcessResult) -> str:
    said = shorten(result.stderr_text.strip(), SHOWN)
    return f"exit status {result.exit_status}" + (f": {said}" if said else "")


def _failure(final: Mapping[str, Any], shown_fault: str, calls: ModelCalls) -> AgentError:
    """By what is certain: why the reply stopped, then what the gateway saw, then what the program calls it."""
    stop = final.get("stop_reason")
    if isinstance(stop, str) and stop in _BY_STOP:
        return AgentError(_BY_STOP[stop], f"the model's last reply ended with {stop}: {_words(final)}")
    fault = calls.open_fault
    if final.get("terminal_reason") == "prompt_too_long" or (fault and fault.cause is Cause.CONTEXT_FULL):
        return AgentError(Cause.CONTEXT_FULL, _words(final))
    if shown_fault == "max_output_tokens":
        return AgentError(Cause.OUTPUT_CUT, _words(final))
    if fault is not None:
        return AgentError(fault.cause, fault.message, fault.retry_after)
    status = final.get("api_error_status")
    if isinstance(status, int) and status in _BY_STATUS:
        return AgentError(_BY_STATUS[status], _words(final))
    if shown_fault in _BY_FAULT:
        return AgentError(_BY_FAULT[shown_fault], _words(final))
    cause = Cause.API_FAULT if final.get("terminal_reason") == "api_error" else Cause.AGENT_CRASH
    return AgentError(cause, f"Claude Code ended with {final.get('subtype')}: {_words(final)}")


def _words(final: Mapping[str, Any]) -> str:
    errors = final.get("errors")
    said = final.get("result") or (", ".join(map(str, errors)) if isinstance(errors, list) else "")
    return shorten(str(said), SHOWN) or "(it said nothing)"
