"""Which model judges and where it is asked: the criterion says, then the task's route; never the agent's settings."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ...dialog.simulated_user import direct_name
from ...errors import AgentError, JudgingError
from ...model_api.credentials import PROVIDERS, Credentials, credentials
from ...redaction import hide, hide_secrets_of

if TYPE_CHECKING:
    from ...model_api.messages import MessagesApi
    from ...task.judge_models import LlmJudge
    from ...task.setting_models import ApiRoute

JUDGE_MODEL = "anthropic.claude-sonnet-4-6"
"""The model of a judge where neither criterion nor route name one."""

_OWN_KEYS = ("api_key", "api_base", "base_url")
"""What `params` and `env_params` say of the endpoint itself; all else goes into each request."""

_PROXIES = ("openai/", "litellm_proxy/")
"""First parts of a model's name that only tell which kind of endpoint has it."""


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """`params` are laid over each request. `key` is None where the environment's own variables have it."""

    api: Literal["anthropic", "openai", "bedrock"]
    model: str
    base_url: str | None = None
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    key: str | None = dataclasses.field(default=None, repr=False)

    @property
    def provider(self) -> str | None:
        """Whose limits of rate it shares with agents."""
        return self.api if self.api in PROVIDERS else None

    @property
    def identity(self) -> dict[str, object]:
        """What tells it from others, without its key."""
        return {"api": self.api, "model": self.model, "base_url": self.base_url, "params": dict(self.params)}

    def open(self, patience: float) -> MessagesApi:
        """Raises JudgingError when it cannot be used, such as for want of a key."""
        try:
            return self._open(patience)
        except AgentError as error:
            raise JudgingError(f"the judge cannot be asked: {error}") from None

    def _open(self, patience: float) -> MessagesApi:
        if self.api == "bedrock":
            from ...model_api.bedrock import BedrockApi

            return BedrockApi(self.base_url, first_wait=patience)
        if self.api == "openai":
            from ...model_api.chat import ChatApi

            return ChatApi(self._credentials("openai"), first_wait=patience)
        from ...model_api.messages import MessagesApi

        return MessagesApi(first_wait=patience, own=self._credentials("anthropic"))

    def _credentials(self, provider: str) -> Credentials:
        if self.key is None:
            return credentials(provider, self.base_url)
        known = PROVIDERS[provider]
        base = self.base_url or next(filter(None, map(os.environ.get, known.base_variables)), None) or known.base_url
        name, prefix = (known.header, "") if known.keys else ("authorization", "Bearer ")
        return Credentials(base.rstrip("/"), self.key, {name: prefix + self.key})


def endpoint_of(criterion: LlmJudge, route: ApiRoute | None) -> Endpoint:
    """The endpoint of a judge. Raises JudgingError when a variable is named that is not set."""
    model = named_model(criterion, route)
    key = None if criterion.api_key_env is None else _variable(criterion.api_key_env, "api_key_env")
    _hide_password(criterion.base_url)
    if criterion.api is not None or criterion.base_url is not None:
        api = criterion.api or "anthropic"
        return Endpoint(api, direct_name(model) if api == "anthropic" else model, criterion.base_url, key=key)
    match route.route if route else "direct":
        case "litellm":
            assert route is not None
            return _compatible(model, route, key)
        case "bedrock":
            return Endpoint("bedrock", model)
    return Endpoint("anthropic", direct_name(model), key=key)


def named_model(criterion: LlmJudge, route: ApiRoute | None) -> str:
    """The model that the criterion names, else its route, else `JUDGE_MODEL`."""
    return criterion.model or (route.model if route else None) or JUDGE_MODEL


def _compatible(model: str, route: ApiRoute, key: str | None) -> Endpoint:
    given = dict(route.params or {})
    given |= {name: _variable(variable, f"env_params.{name}") for name, variable in (route.env_params or {}).items()}
    base = given.get("api_base") or given.get("base_url")
    key = key or given.get("api_key")
    _hide_password(base)
    hide_secrets_of({name.upper(): str(value) for name, value in given.items()})
    if key is not None:
        hide(str(key))
    params = {name: value for name, value in given.items() if name not in _OWN_KEYS}
    prefix, slash, rest = model.partition("/")
    if slash and prefix == "anthropic" and base is None:
        return Endpoint("anthropic", rest, params=params, key=key)
    if slash and base is None and f"{prefix}/" not in _PROXIES:
        raise JudgingError(
            f"the judge's model {model!r}: litellm itself is not used; give the address of an OpenAI-compatible "
            "endpoint, such as that of a LiteLLM proxy, in checker_context.api_route.params.api_base"
        )
    bare = rest if slash and f"{prefix}/" in _PROXIES else model
    return Endpoint("openai", bare, None if base is None else str(base), params, None if key is None else str(key))


def _hide_password(url: object) -> None:
    """The part of an address before the `@`, also where it is the environment's."""
    for each in filter(
        None, [url, *(os.environ.get(name) for one in PROVIDERS.values() for name in one.base_variables)]
    ):
        user, at, _ = str(each).partition("://")[2].partition("/")[0].rpartition("@")
        if at:
            hide(user, user.partition(":")[2])


def _variable(name: str, where: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise JudgingError(f"the judge cannot be asked: {where} names {name}, which is not set where pytest runs")
    if where.endswith(("api_key_env", "api_key")):
        hide(value)
    return value
