"""What a failed call of a model means: its cause, the API's message, and how long the API asks to wait."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any

from .. import clock
from ..errors import Cause
from ..text import clean, shorten

MESSAGE_LENGTH = 1000
"""Characters of an API's message that are kept."""


def _table(names: Mapping[Cause, str]) -> Mapping[str, Cause]:
    return MappingProxyType({name: cause for cause, text in names.items() for name in text.split()})


_TELLING = _table(
    {
        Cause.BILLING: "billing_error insufficient_quota billing_hard_limit_reached billing_not_active "
        "billing_disabled usage_limit_reached usage_not_included payment_required insufficient_credits",
        Cause.AUTHENTICATION: "authentication_error permission_error invalid_api_key api_key_invalid "
        "account_deactivated unauthenticated permission_denied",
        Cause.CONTEXT_FULL: "context_length_exceeded model_context_window_exceeded",
        Cause.REFUSED: "content_filter content_policy_violation cyber_policy",
        Cause.OVERLOADED: "overloaded_error server_is_overloaded slow_down engine_overloaded unavailable",
        Cause.RATE_LIMITED: "rate_limit_error rate_limit_exceeded resource_exhausted",
    }
)
"""Types and codes that say more than the status does."""

_GENERAL = _table(
    {
        Cause.BAD_REQUEST: "invalid_request_error not_found_error request_too_large model_not_found invalid_prompt "
        "invalid_argument not_found failed_precondition",
    }
)
"""Types that count only where no status tells, as in an event of a stream. All others are faults of the API."""

_FULL = ("invalid_request_error", "prompt is too long:")
"""Type and first words by which the Messages API says, with status 400 and no code, that a context is full."""


def fault_of_response(
    status: int, headers: Mapping[str, str], body: bytes | Mapping[str, Any]
) -> tuple[Cause, str, float | None]:
    """Cause, message and seconds to wait (None: not said) of a reply that is an error.

    `body` is what came, parsed or not; for an error event of a stream `status` is that of the stream, below 400. The
    cause follows from the status and from the types and codes that the API names, never from words of a message but
    for one that has no code (`_FULL`). The message is shortened and free of secrets and control characters.
    """
    parsed = body if isinstance(body, Mapping) else _parse(body)
    error = parsed.get("error") if parsed is not None else None
    details: Mapping[str, Any] = error if isinstance(error, Mapping) else parsed or {}
    said = _message(details, error)
    if said is None:
        said = f"HTTP status {status}" + ("" if parsed is not None else _kind(headers))
    return _cause(status, details), presentable(said), _retry_after(headers, details)


def presentable(message: str) -> str:
    """`message` as it may be shown and kept."""
    return shorten(clean(message), MESSAGE_LENGTH)


def _parse(body: bytes) -> Mapping[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and value:
        value = value[0]
    return value if isinstance(value, dict) else None


def _message(details: Mapping[str, Any], error: object) -> str | None:
    for value in (details.get("message"), error, details.get("detail")):
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def _kind(headers: Mapping[str, str]) -> str:
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    return f" with a body that is not JSON ({kind.partition(';')[0].strip() or 'no content type'})"


def _cause(status: int, details: Mapping[str, Any]) -> Cause:
    names = list(_names(details))
    for name in names:
        if name in _TELLING:
            return _TELLING[name]
    if status == 400 and (details.get("type"), str(details.get("message"))[: len(_FULL[1])]) == _FULL:
        return Cause.CONTEXT_FULL
    code = details.get("code")
    if status < 400 and isinstance(code, int) and 400 <= code < 600:
        status = code
    if status < 400:
        return next((_GENERAL[name] for name in names if name in _GENERAL), Cause.API_FAULT)
    return _cause_of_status(status)


def _cause_of_status(status: int) -> Cause:
    match status:
        case 401 | 403:
            return Cause.AUTHENTICATION
        case 402:
            return Cause.BILLING
        case 408:
            return Cause.CONNECTION
        case 429:
            return Cause.RATE_LIMITED
        case 503 | 529:
            return Cause.OVERLOADED
        case 409:
            return Cause.API_FAULT
    return Cause.API_FAULT if status >= 500 else Cause.BAD_REQUEST


def _names(details: Mapping[str, Any]) -> Iterator[str]:
    """The most special first."""
    inner = details.get("details")
    reasons = [item.get("reason") for item in inner if isinstance(item, Mapping)] if isinstance(inner, list) else []
    for value in (*reasons, details.get("code"), details.get("type"), details.get("status")):
        if isinstance(value, str):
            yield value.lower()


def _retry_after(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    if (milliseconds := _number(lowered.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if said := lowered.get("retry-after"):
        seconds = _number(said)
        return seconds if seconds is not None else _until(said)
    inner = details.get("details")
    for item in inner if isinstance(inner, list) else ():
        delay = item.get("retryDelay") if isinstance(item, Mapping) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _number(delay[:-1])
    return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - clock.now())
    except (ValueError, TypeError, OverflowError, OSError):
        return None
