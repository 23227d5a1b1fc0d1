"""Recorders with real shims, and ways to call them as an agent would: by name, through PATH."""

from __future__ import annotations

import codecs
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.recorder.answering import Answer, Request, ShimPlan
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.recorder.recorder import Recorder
from pytest_codereval.sandbox.protocol import DEFAULT_OUTPUT_LIMIT, Phase, ProcessResult

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
INTERPRETERS = {"dash": "/bin/dash", "bash": "/bin/bash -p", "busybox": "/bin/busybox sh"}


class Answering:
    """Answers calls by a function of the request; keeps what was asked."""

    def __init__(self, function: Callable[[Request], Answer]) -> None:
        self._function = function
        self.requests: list[Request] = []
        self.resets = 0
        self.faults: tuple[str, ...] = ()
        self.at_work = ""

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        return self._function(request)

    def caller_left(self) -> None:
        pass

    def reset(self) -> None:
        self.resets += 1


def Tool(tool: str, exit_status: int = 1, stdout: str = "", stderr: str = "") -> ShimPlan:
    """The plan of a constant reply, whose texts may hold any character; surrogate escapes stand for raw bytes."""
    out, err = (text.encode("utf-8", "surrogateescape") for text in (stdout, stderr))
    return ShimPlan(tool, stdout=out, stderr=err, exit_status=exit_status)


class Shadowed:
    """Tools shadowed by one recorder."""

    def __init__(
        self,
        root: Path,
        plans: list[ShimPlan],
        interpreter: str | None,
        answer: Callable[[Request], Answer] | None = None,
        **options: Any,
    ) -> None:
        self.bin = root / "bin"
        self.spool = root / "spool"
        self.calls = self.spool / "calls"
        self.replies = self.spool / "replies"
        self.answerer = Answering(answer) if answer is not None else None
        self.recorder = Recorder(
            plans, self.bin, self.spool, answerer=self.answerer, interpreter=interpreter, **options
        )
        self.recorder.install()

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        return {"PATH": f"{self.bin}:{SYSTEM_PATH}", **(extra or {})}

    def call(self, *argv: str | bytes, env: Mapping[str, str] | None = None, **options: Any) -> Any:
        options = {"capture_output": True, "stdin": subprocess.DEVNULL, "timeout": 60} | options
        return subprocess.run(argv, env=self.environment(env), check=False, **options)

    def shell(self, script: str, **options: Any) -> Any:
        return self.call("/bin/sh", "-c", script, **options)

    def bash(self, script: str, **options: Any) -> Any:
        if not Path("/bin/bash").exists():
            pytest.skip("no bash here")
        return self.call("/bin/bash", "-c", script, **options)

    def drain(self) -> InvocationLog:
        return self.recorder.drain()

    def argvs(self) -> list[tuple[str, ...]]:
        log = self.drain()
        assert log.faults == ()
        return [call.argv for call in log.invocations]


Shadow = Callable[..., Shadowed]


class NonRoot:
    """A user who is not root, with a directory of their own: another user when the tests are run by root."""

    uid = 65534 if os.geteuid() == 0 else os.getuid()

    def __init__(self, home: Path) -> None:
        self.home = home
        self.options: dict[str, Any] = {}
        if os.geteuid() == 0:
            self.options = {"user": self.uid, "group": self.uid, "extra_groups": []}

    def own(self) -> None:
        """Make everything in the directory theirs."""
        if self.options:
            subprocess.run(["chown", "-R", f"{self.uid}:{self.uid}", self.home], check=True)

    def run(self, function: Callable[[], object]) -> None:
        """Run `function` as this user, who may not be able to import anything, in a process that must end well."""
        codecs.lookup("ascii")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                if self.options:
                    os.setgroups([])
                    os.setresgid(self.uid, self.uid, self.uid)
                    os.setresuid(self.uid, self.uid, self.uid)
                function()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


def record(*argv: str, tool: str = "uip", count: int | None = None, end: bool = True) -> bytes:
    count = len(argv) if count is None else count
    fields = ["2", tool, "/", "1", str(count), "0", *argv, *(["END"] if end else [])]
    return b"".join(field.encode() + b"\0" for field in fields)


class Box:
    """Runs programs as a sandbox does, with a PATH and a HOME of its own."""

    driver = "tempdir"

    def __init__(self, path: str, home: Path) -> None:
        self.env = {"PATH": path, "HOME": str(home)}
        self.phases: list[Phase] = []

    def environment(self, phase: Phase) -> dict[str, str]:
        return self.env

    def run(
        self,
        argv: Sequence[str],
        *,
        phase: Phase,
        timeout: float,
        env: Mapping[str, str] | None = None,
        output_limit: int = DEFAULT_OUTPUT_LIMIT,
    ) -> ProcessResult:
        self.phases.append(phase)
        done = subprocess.run(
            argv, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
        return ProcessResult(done.returncode, done.stdout, done.stderr)


def box(tools: Shadowed, tmp_path: Path, *, path: str | None = None, profile: str | None = None) -> Any:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / ".profile").write_text(f"PATH={tools.bin}:$PATH\n" if profile is None else profile)
    return Box(path or f"{tools.bin}:{SYSTEM_PATH}", home)
