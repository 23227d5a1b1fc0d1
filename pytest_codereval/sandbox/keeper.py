"""A keeper runs the commands of one sandbox at a time and leaves no process of it behind. See `supervisor`."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .channel import Channel
from .kernel import (
    MOST_AT_ONCE,
    Wakeup,
    children,
    descendants,
    ended_children,
    give_up_powers,
    kill,
    kill_confined,
)
from .landlock import SCOPES, Rules, abi, restrict
from .standing import changes, standing, thread_ids

WIPE_PATIENCE = 10.0
"""Seconds after which processes that SIGKILL does not end are reported as survivors."""

ONE_BY_ONE = 0.05
"""Seconds after which processes that outrun their being killed one by one are killed at once, where that is safe."""

MANY = 200
"""With so many children that is done at once, as looking at each of them takes longer than they need to fork."""

SWEEP_INTERVAL = 0.25
"""Seconds after which that is done again: its helper is a process too, which has to end before none is left."""

MOST_NAMED = 20
"""How many survivors are named at most."""

UNKNOWN = 0
"""Stands for survivors whose ids are not known, because they change faster than they can be read."""


class Run(NamedTuple):
    """A command that was started and has not ended."""

    identity: int
    reap: bool
    process: subprocess.Popen[bytes]


class Keeper:
    """Runs the commands of one sandbox at a time. `serve` is called in a thread that is not the main one."""

    def __init__(self, control: Channel, lifeline: int) -> None:
        self._control = control
        self._lifeline = lifeline
        self._wakeup = Wakeup()
        self._running: dict[int, Run] = {}
        self._started: list[int] = []
        self._drains: set[int] = set()
        self._kept_to: object = None
        self._confined = False
        self._renew = False
        self._standing = standing()
        self.finished = False

    def serve(self) -> None:
        """Answer requests until the harness or the supervisor is gone, then kill everything.

        Returns earlier, without having `finished`, when the next sandbox wants a thread that is not restricted.
        """
        more = False
        while True:
            poller = select.poll()
            for descriptor in (self._control.fileno(), self._lifeline, self._wakeup.reader, *self._drains):
                poller.register(descriptor, select.POLLIN)
            ready = {descriptor for descriptor, _ in poller.poll(0 if more else None)}
            for descriptor in ready & self._drains:
                self._drain(descriptor)
            if more or self._wakeup.reader in ready:
                self._wakeup.drain()
                more = self._collect()
            if self._lifeline in ready:
                break
            if self._control.fileno() in ready and not self._requests():
                break
            if self._renew:
                self._renew = self._confined = False
                self._kept_to = None
                return
        self.finished = True
        self._wipe()

    def _requests(self) -> bool:
        while True:
            message = self._control.receive()
            if message is None:
                return False
            if "run" in message:
                self._run(message)
            elif "drain" in message:
                self._drains.update(self._control.take_descriptors(message["drain"]))
            else:
                self._renew = self._kept_to is not None and message["renew"]
                answer = {"reap": message["reap"], "survivors": self._wipe(), "changed": self._changes()}
                self._control.send(answer)
            if not self._control.pending():
                return True

    def _drain(self, descriptor: int) -> None:
        with contextlib.suppress(BlockingIOError):
            if not os.read(descriptor, 1 << 16):
                os.close(descriptor)
                self._drains.discard(descriptor)

    def _run(self, message: dict[str, Any]) -> None:
        given = self._control.take_descriptors(3 + message["joins"])
        try:
            self._restrict(message["scoped"], message["rules"])
            started = launch(message, given[:3], given[3:])
        except OSError as error:
            self._control.send({"run": message["run"], "failure": f"cannot start a process: {error.strerror}"})
            return
        finally:
            for descriptor in given:
                os.close(descriptor)
        if isinstance(started, int):
            self._control.send({"run": message["run"], "status": started, "survivors": []})
        else:
            self._running[started.pid] = Run(message["run"], message["reap"], started)
            self._started.append(started.pid)

    def _restrict(self, scoped: bool, rules: list[Any] | None) -> None:
        """Restrict this thread before its first command that asks for it; the main thread stays outside.

        So the keeper as a process cannot be signalled by its commands where the kernel has scopes; among each other
        they can. Raises OSError.
        """
        if not scoped and rules is None:
            return
        if self._kept_to is not None:
            if self._kept_to != [scoped, rules]:
                raise OSError(errno.EPERM, "this environment has been restricted in another way")
            return
        self._wipe()
        asked = Rules(*rules) if rules is not None else Rules(scopes=("signals",) if abi() >= SCOPES else ())
        if asked != Rules():
            restrict(asked)
        if asked.readable is not None:
            give_up_powers()
        self._confined = "signals" in asked.scopes
        self._kept_to = [scoped, rules]

    def _collect(self) -> bool:
        """Reap zombies, report commands that ended; whether there may be more."""
        try:
            ended = ended_children()
        except ChildProcessError:
            return False
        for pid, status in ended:
            self._report(pid, status)
        return len(ended) == MOST_AT_ONCE

    def _report(self, pid: int, status: int) -> None:
        run = self._running.pop(pid, None)
        if run is None:
            return
        code = run.process.returncode = os.waitstatus_to_exitcode(status)
        if self.finished:
            return
        survivors = self._wipe() if run.reap else []
        with contextlib.suppress(OSError):
            self._control.send(
                {"run": run.identity, "status": code if code >= 0 else 128 - code, "survivors": survivors}
            )

    def _wipe(self) -> list[int]:
        """Kill all descendants until the kernel says that no child is left; the survivors otherwise."""
        begin = time.monotonic()
        sweep = begin + (ONE_BY_ONE if len(children(os.getpid())) < MANY else 0)
        gentle_until = sweep
        while True:
            try:
                for pid, status in ended_children():
                    self._report(pid, status)
            except ChildProcessError:
                self._kill_groups()
                while self._drains:
                    os.close(self._drains.pop())
                return []
            now = time.monotonic()
            if now > begin + WIPE_PATIENCE:
                return (descendants(os.getpid()) or [UNKNOWN])[:MOST_NAMED]
            if self._confined and now >= sweep:
                kill_confined(os.getpid(), os.getppid())
                sweep = now + SWEEP_INTERVAL
            if not self._confined or now < gentle_until:
                for pid in descendants(os.getpid()) or list(self._running):
                    kill(pid)
            time.sleep(0.0002)

    def _changes(self) -> list[str]:
        """What somebody changed of what the commands inherit, for instance a limit set by prlimit."""
        found = {name for thread in thread_ids() for name in changes(self._standing, standing(thread))}
        return [f"{name} of the keeper" for name in sorted(found)]

    def _kill_groups(self) -> None:
        """Where orphans do not come back to us, the process groups are all that can be killed."""
        if not sys.platform.startswith("linux"):
            for group in self._started:
                with contextlib.suppress(OSError):
                    os.killpg(group, signal.SIGKILL)
        self._started.clear()


def launch(
    message: Mapping[str, Any], standard: Sequence[int], joins: Sequence[int] = ()
) -> subprocess.Popen[bytes] | int:
    """Start the command of a run with its stdin, stdout and stderr; `joins` are open files of control groups.

    When it cannot be run: a message on its stderr and the status that a shell gives. Raises OSError when no process can
    be started.
    """
    argv = message["argv"]
    stderr = standard[2]
    try:
        try:
            return _spawn(argv, message, standard, joins)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            return _spawn(["/bin/sh", _which(argv[0], message["env"]), *argv[1:]], message, standard, joins)
    except subprocess.SubprocessError:
        raise OSError(errno.EPERM, "it cannot join its control group") from None
    except ValueError as error:
        os.write(stderr, os.fsencode(f"{argv[0]!r}: {error}\n"))
        return 126
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.ENOMEM):
            raise
        if error.filename == message["cwd"]:
            os.write(stderr, os.fsencode(f"{error.filename}: cannot enter the directory: {error.strerror}\n"))
            return 126
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        os.write(stderr, os.fsencode(f"{argv[0]}: {'not found' if missing else error.strerror}\n"))
        return 127 if missing else 126


def _spawn(
    argv: list[str], message: Mapping[str, Any], standard: Sequence[int], joins: Sequence[int]
) -> subprocess.Popen[bytes]:
    stdin, stdout, stderr = standard
    return subprocess.Popen(
        argv,
        cwd=message["cwd"],
        env=message["env"],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=functools.partial(_join, joins) if joins else None,
    )


def _join(groups: Sequence[int]) -> None:
    for descriptor in groups:
        os.write(descriptor, b"0")


def _which(program: str, environment: dict[str, str]) -> str:
    if "/" in program:
        return program
    folders = os.get_exec_path(environment)
    return next(path for folder in folders if os.access(path := f"{folder}/{program}", os.X_OK))
