"""The Anthropic Messages API: one streamed reply, checked to its end, or a typed fault."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from .. import clock
from ..errors import AgentError, Cause
from ..trajectory.model import ModelCall, ModelFault
from .assembly import Assembly, Reply
from .credentials import Credentials, credentials
from .faults import presentable
from .patience import tried_again, wait_after
from .stream import Connection, DeadlineError, Exchange, Fault

__all__ = ["MessagesApi", "Reply", "Tell"]

Tell = Callable[[ModelCall | ModelFault], None]
"""Takes what is told of each try."""


class MessagesApi:
    """The API as one trial uses it. One call at a time."""

    def __init__(self, base_url: str | None = None, *, first_wait: float = 1.0, own: Credentials | None = None) -> None:
        """`first_wait`: seconds before the second try of a call; `own` are other credentials than the environment's.

        Raises AgentError: NO_CREDENTIALS, or CONFIGURATION for a base URL that cannot be used.
        """
        self._credentials = own or credentials("anthropic", base_url)
        self._first_wait = first_wait
        try:
            self._connection: Connection | None = self._connect()
        except Fault as fault:
            raise AgentError(fault.cause, presentable(str(fault))) from None

    def _connect(self) -> Connection:
        return Connection(self._credentials)

    def _exchange(self, connection: Connection, request: Mapping[str, Any], deadline: float) -> Exchange:
        return Exchange(connection, request, deadline)

    def _assembly(self) -> Assembly:
        return Assembly()

    def ask(self, request: Mapping[str, Any], deadline: float, tell: Tell) -> Reply:
        """Send `request` (the body of POST /v1/messages without `stream`) and return the whole reply.

        Rate limits, overload, faults of server and connection, and replies that break off or make no sense are tried
        again, as long as the provider asks, while `deadline` (of `clock.monotonic`) permits. Each fault and each call,
        also a broken one's usage, is told. Raises AgentError.
        """
        for tries in itertools.count(1):
            try:
                return self._try(request, deadline, tell)
            except Fault as fault:
                wait = wait_after(tries, fault.retry_after, self._first_wait)
                if not tried_again(fault.cause, tries) or wait >= deadline - clock.monotonic():
                    raise AgentError(fault.cause, presentable(str(fault)), fault.retry_after) from None
            time.sleep(wait)
        raise AssertionError("unreachable")

    def _try(self, request: Mapping[str, Any], deadline: float, tell: Tell) -> Reply:
        if deadline <= clock.monotonic():
            raise AgentError(Cause.TURN_TIMEOUT, "no time is left to ask the model")
        if self._connection is None:
            self._connection = self._connect()
        exchange = self._exchange(self._connection, request, deadline)
        report = _Report(tell, request, self._assembly())
        reusable = False
        try:
            for event in exchange.events():
                report.assembly.add(event)
                if report.assembly.whole:
                    break
            reply = report.assembly.reply()
            report.done()
            reusable = exchange.finish()
            return reply
        except Fault as fault:
            report.failed(fault)
            raise
        except DeadlineError:
            message = "the model's reply was not whole at the deadline"
            report.failed(Fault(Cause.TURN_TIMEOUT, message, asked=True))
            raise AgentError(Cause.TURN_TIMEOUT, message) from None
        except BaseException:
            report.interrupted()
            raise
        finally:
            if not reusable:
                self._connection = None
                exchange.abandon()

    def close(self) -> None:
        """Let go of all connections."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _Report:
    """What is told of one try, exactly once."""

    def __init__(self, tell: Tell, request: Mapping[str, Any], assembly: Assembly) -> None:
        self.assembly = assembly
        self._tell = tell
        self._model = request.get("model")
        self._started = clock.now()
        self._own_id = f"call-{uuid.uuid4().hex}"
        self._told = False

    def done(self) -> None:
        self._tell_call(complete=True)

    def failed(self, fault: Fault) -> None:
        if fault.asked:
            self._tell_call(complete=self.assembly.whole)
        self._tell(
            ModelFault(
                id=self._id,
                cause=fault.cause,
                message=presentable(str(fault)),
                status=fault.status,
                retry_after=fault.retry_after,
                time=clock.now(),
            )
        )

    def interrupted(self) -> None:
        if not self._told:
            self._tell_call(complete=False)

    @property
    def _id(self) -> str:
        return self.assembly.id or self._own_id

    def _tell_call(self, *, complete: bool) -> None:
        self._told = True
        model = self.assembly.model or self._model
        self._tell(ModelCall(self._id, model, self.assembly.usage, complete, self._started, clock.now()))
