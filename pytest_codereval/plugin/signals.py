"""SIGTERM and SIGHUP end a session like Ctrl-C: agents dead, records written. Under xdist the workers are told too."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType

import pytest

from .options import is_worker


class _Interrupt:
    """Raises KeyboardInterrupt once; what comes later must not break the teardown that has begun."""

    def __init__(self) -> None:
        self.raised = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.raised:
            self.raised = True
            raise KeyboardInterrupt(f"signal {signal.Signals(number).name}")


class Signals:
    """The handlers of this process and, on a controller, the processes that must hear of an interrupt too."""

    def __init__(self, worker: bool) -> None:
        self._workers: list[int] = []
        self._previous: dict[int, object] = {}
        handler = _Interrupt()
        for number in (signal.SIGTERM, signal.SIGHUP, *([signal.SIGINT] if worker else [])):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._previous[number] = signal.signal(number, handler)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: object) -> None:
        pid = _process_of(node)
        if pid is not None:
            self._workers.append(pid)

    def pytest_keyboard_interrupt(self) -> None:
        for pid in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def pytest_unconfigure(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def _process_of(node: object) -> int | None:
    """The process id of a worker on this machine. Its place is no public API; without it execnet ends the workers."""
    process = getattr(getattr(node.gateway, "_io", None), "popen", None)  # type: ignore[attr-defined]
    pid = getattr(process, "pid", None)
    return pid if isinstance(pid, int) else None


def pytest_configure(config: pytest.Config) -> None:
    if threading.current_thread() is threading.main_thread():
        config.pluginmanager.register(Signals(is_worker(config)), "codereval-signals")
