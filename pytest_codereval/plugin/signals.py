"""SIGTERM and SIGHUP end a session like Ctrl-C: agents dead, records written. Under xdist the workers are told too.

Nothing is installed before a session is known to run trials: an unrelated suite keeps its signals.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Collection, Sequence
from types import FrameType

import pytest

NAME = "codereval-signals"


class Signals:
    """The handlers of this process and, on a controller, the processes that must hear of an interrupt too."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._worker = hasattr(config, "workerinput")
        self._workers: list[int] = []
        self._previous: dict[int, object] = {}
        self._raised = False
        self._mask: Collection[int] = ()

    def install(self) -> None:
        """Take over the signals that nobody else has taken. Only the main thread can."""
        if self._previous or threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGHUP, *([signal.SIGINT] if self._worker else [])):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._previous[number] = signal.signal(number, self._interrupt)
        os.register_at_fork(before=self._hold, after_in_parent=self._let_go, after_in_child=self._leave_child_alone)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt once; what comes later must not break the teardown that has begun."""
        if not self._raised:
            self._raised = True
            raise KeyboardInterrupt(f"signal {signal.Signals(number).name}")

    def _hold(self) -> None:
        """No signal may fall between a fork and the moment at which the child has its own handlers back."""
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._previous)

    def _let_go(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _leave_child_alone(self) -> None:
        self._restore()
        self._let_go()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous.clear()

    def pytest_runtest_logstart(self) -> None:
        """A next test means that the last one has dealt with its interrupt."""
        self._raised = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self, node: object) -> None:
        pid = _process_of(node)
        if pid is not None:
            self._workers.append(pid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        from .collection import names_task

        if any(names_task(nodeid, self._config) for nodeid in ids):
            self.install()

    def pytest_keyboard_interrupt(self) -> None:
        for pid in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def pytest_unconfigure(self) -> None:
        self._restore()


def _process_of(node: object) -> int | None:
    """The process id of a worker on this machine. Its place is no public API; without it execnet ends the workers."""
    process = getattr(getattr(node.gateway, "_io", None), "popen", None)  # type: ignore[attr-defined]
    pid = getattr(process, "pid", None)
    return pid if isinstance(pid, int) else None


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Signals(config), NAME)


def install(config: pytest.Config) -> None:
    """Called when this process is about to run its first trial."""
    plugin = config.pluginmanager.get_plugin(NAME)
    if isinstance(plugin, Signals):
        plugin.install()
