"""Runs checks against a driver: makes the sandboxes that they ask for, and closes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from ..drivers import Driver, Order
from ..environment import EnvironmentPlan
from ..protocol import Sandbox
from .registration import CHECKS, NEEDED_FROM, SHARING


class Bench:
    """One driver under test. `image` is what a driver of containers uses, `config` lies below that of each check.

    Checks that can share a sandbox do. Use it as a context manager.
    """

    def __init__(self, driver: Driver, image: str | None = None, config: Mapping[str, Any] | None = None) -> None:
        self.driver = driver
        self._image = image
        self._config = dict(config or {})
        self._shared: Sandbox | None = None

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_shared()

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the checks that a driver of this isolation has to pass."""
        least = {name: NEEDED_FROM.get(name) for name in CHECKS}
        return tuple(name for name, level in least.items() if level is None or level <= self.driver.isolation)

    def run(self, name: str) -> None:
        """Run one check and close what it was given. Raises what the check raises."""
        if name in SHARING:
            try:
                CHECKS[name](self._make_shared)
            except BaseException:
                self._close_shared()
                raise
            return
        made: list[Sandbox] = []

        def make(withhold: Iterable[Path] = (), **config: Any) -> Sandbox:
            made.append(self.make(withhold, **config))
            return made[-1]

        try:
            CHECKS[name](make)
        finally:
            for sandbox in made:
                sandbox.close()

    def make(self, withhold: Iterable[Path] = (), **config: Any) -> Sandbox:
        """A fresh sandbox, which the caller closes."""
        from ...task.models import SandboxConfig

        order = Order(
            SandboxConfig.model_validate({**self._config, **config}),
            EnvironmentPlan(withhold=tuple(withhold)),
            image=self._image,
            session="conformance",
            trial="conformance",
        )
        return self.driver.create(order)

    def _make_shared(self) -> Sandbox:
        if self._shared is None:
            self._shared = self.make()
        return self._shared

    def _close_shared(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.close()
