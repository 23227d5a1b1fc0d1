"""A server on the loopback device between an agent's program and the API of its model."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator

from ...model_api.credentials import credentials
from ...sandbox.serving import Serve, serve_on_host
from ...trajectory.model import ModelCall, ModelFault

SETTLING = 2.0
"""Seconds for the calls under way when the program is dead, and once more for those that had to be broken off."""


class Gateway:
    """One attempt's way to its model. `url` has no path; `token` is what the program gives as its key, good only here.

    `wake` is readable when events wait. `refused` tells that `admit` said no to a call; then `wake` stays readable.
    """

    url: str
    token: str

    def __init__(
        self,
        provider: str,
        admit: Callable[[bool], bool],
        one_at_a_time: bool = False,
        serve: Serve = serve_on_host,
    ) -> None:
        """`provider` is a name of `credentials.PROVIDERS`. Raises AgentError(NO_CREDENTIALS).

        `serve` makes it reachable for the program, see `Sandbox.serve`.

        `admit` is called from other threads, one call at a time; what it raises is raised by `events`.
        With `one_at_a_time` no call of the main thread is admitted while another one is under way, so that caps are
        kept exactly.
        """
        known = credentials(provider)
        from .connections import Connections
        from .forwarding import Route
        from .hang_up import HangUps
        from .outbox import Outbox
        from .upstream import Client

        with contextlib.ExitStack() as made:
            self._outbox = Outbox(admit, one_at_a_time)
            made.callback(self._outbox.close)
            client = Client()
            made.callback(client.close)
            hang_ups = HangUps()
            made.callback(hang_ups.close)
            self.token = f"codereval-{secrets.token_hex(20)}"
            self._connections = Connections(Route(provider, known, client, self._outbox, hang_ups), self.token)
            made.callback(self._connections.end, SETTLING)
            served = serve(self._connections.take)
            made.callback(served.close)
            self._made = made.pop_all()
        self.url = f"http://127.0.0.1:{served.port}"

    @property
    def wake(self) -> int:
        return self._outbox.wake

    @property
    def refused(self) -> bool:
        return self._outbox.refused

    def events(self) -> Iterator[ModelCall | ModelFault]:
        """What has happened since the last time. The next call is admitted only when all of it was taken."""
        return self._outbox.take()

    def settle(self) -> None:
        """Wait, bounded, for the calls under way once the program is dead, so that what they used is known."""
        self._connections.settle(SETTLING)

    def close(self) -> None:
        """Close the server and all connections. May be called twice."""
        self._made.close()
