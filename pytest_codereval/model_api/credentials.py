"""Where each provider is reached and with what key, from the harness's own environment."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from types import MappingProxyType

from ..errors import AgentError, Cause
from ..redaction import hide


@dataclasses.dataclass(frozen=True)
class Provider:
    """Names of variables that are looked at, the first that is set counts; `bearers` go into `Authorization`."""

    keys: tuple[str, ...]
    header: str
    bearers: tuple[str, ...]
    base_variables: tuple[str, ...]
    base_url: str


PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        "anthropic": Provider(
            keys=("ANTHROPIC_API_KEY",),
            header="x-api-key",
            bearers=("ANTHROPIC_AUTH_TOKEN",),
            base_variables=("ANTHROPIC_BASE_URL",),
            base_url="https://api.anthropic.com",
        ),
        "openai": Provider(
            keys=(),
            header="",
            bearers=("OPENAI_API_KEY", "CODEX_API_KEY"),
            base_variables=("OPENAI_BASE_URL",),
            base_url="https://api.openai.com/v1",
        ),
        "gemini": Provider(
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            header="x-goog-api-key",
            bearers=(),
            base_variables=("GOOGLE_GEMINI_BASE_URL",),
            base_url="https://generativelanguage.googleapis.com",
        ),
    }
)


@dataclasses.dataclass(frozen=True)
class Credentials:
    """`base_url` without a final slash; `key` as it was found, `headers` what carries it."""

    base_url: str
    key: str = dataclasses.field(repr=False)
    headers: Mapping[str, str] = dataclasses.field(repr=False)


def credentials(provider: str, base_url: str | None = None) -> Credentials:
    """The credentials of a provider, one of `PROVIDERS`; `base_url` goes before the environment's.

    Raises AgentError(NO_CREDENTIALS) naming the variables that were looked at.
    """
    known = PROVIDERS[provider]
    base = base_url or _first(known.base_variables) or known.base_url
    if key := _first(known.keys):
        hide(key)
        return Credentials(base.rstrip("/"), key, {known.header: key})
    if token := _first(known.bearers):
        hide(token)
        return Credentials(base.rstrip("/"), token, {"authorization": f"Bearer {token}"})
    names = " or ".join([*known.keys, *known.bearers])
    raise AgentError(Cause.NO_CREDENTIALS, f"no key for {provider}: set {names} where pytest runs")


def _first(names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)
