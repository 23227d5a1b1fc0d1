"""Claude on Amazon Bedrock, by the client of the SDK, which signs requests or sends a bearer token."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import AgentError, Cause
from ..redaction import hide
from .assembly import Assembly
from .credentials import Credentials
from .json_parts import mapping, mappings
from .messages import MessagesApi
from .stream import Connection, Exchange, WholeExchange

if TYPE_CHECKING:
    import anthropic
    import httpx2

BEARER = "AWS_BEARER_TOKEN_BEDROCK"


class BedrockApi(MessagesApi):
    """See `MessagesApi`. Region and credentials are those of AWS in the harness's own environment."""

    def __init__(self, base_url: str | None = None, *, first_wait: float = 1.0) -> None:
        """Raises AgentError(NO_CREDENTIALS) that says what is missing."""
        token = os.environ.get(BEARER, "").strip()
        if not token and importlib.util.find_spec("boto3") is None:
            message = f"set {BEARER} where pytest runs, or install anthropic[bedrock] for other credentials of AWS"
            raise AgentError(Cause.NO_CREDENTIALS, f"no credentials for Bedrock: {message}")
        if not (os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")) and base_url is None:
            raise AgentError(Cause.NO_CREDENTIALS, "no region for Bedrock: set AWS_REGION where pytest runs")
        hide(token)
        super().__init__(first_wait=first_wait, own=Credentials(base_url or "", token, {}))

    def _connect(self) -> Connection:
        return _BedrockConnection(self._credentials)

    def _exchange(self, connection: Connection, request: Mapping[str, Any], deadline: float) -> Exchange:
        return WholeExchange(connection, request, deadline)

    def _assembly(self) -> Assembly:
        return _WholeMessage()


class _BedrockConnection(Connection):
    def _client_over(self, client: httpx2.Client) -> anthropic.AnthropicBedrock:
        import anthropic

        return anthropic.AnthropicBedrock(
            api_key=self._credentials.key or None,
            aws_region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
            base_url=self._credentials.base_url or None,
            max_retries=0,
            open_telemetry=False,
            http_client=client,
        )

    def post(self, request: Mapping[str, Any], timeout: float) -> httpx2.Response:
        """Not as a stream, which the SDK can read from Bedrock with botocore only."""
        import httpx2

        options: Any = {"timeout": httpx2.Timeout(timeout)}
        reply: httpx2.Response = self._client.post(
            self.path, cast_to=httpx2.Response, body=dict(request), options=options
        )
        return reply

    def _prepare(self, request: httpx2.Request) -> None:
        """The request is signed by now, so its headers stay."""
        request.extensions = {**request.extensions, "trace": self._trace}


class _WholeMessage(Assembly):
    """Takes the one object that a whole message is, as the events of its stream."""

    def add(self, event: Mapping[str, Any]) -> None:
        super().add({"type": "message_start", "message": event})
        for index, block in enumerate(mappings(event.get("content"))):
            super().add({"type": "content_block_start", "index": index, "content_block": block})
        stop = {"stop_reason": mapping(event).get("stop_reason")}
        super().add({"type": "message_delta", "delta": stop, "usage": event.get("usage")})
        super().add({"type": "message_stop"})
