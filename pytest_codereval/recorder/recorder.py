"""The recorder of one trial: shims for the tools that the task names, and the log of their calls."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Cause, TrialError
from ..sandbox.protocol import Phase
from ..task.tool_names import refusal
from .answering import Answerer, ShimPlan
from .directories import seen_from_workspace
from .invocation import Invocation, InvocationLog
from .options import OptionTable
from .shims import windows
from .shims.names import written_names
from .shims.probe import Found, login_shell, probe_script, read_probe
from .shims.reply_text import Runner
from .shims.shim import NEEDED_BY_SHIMS, find_interpreter, render, runner
from .spool.desk import TAMPERED, Desk
from .spool.identity import state
from .spool.modes import FOREIGN, OWN
from .spool.spool import Spool, fresh_directory
from .spool.spooled import UNANSWERED, SpooledCall

if TYPE_CHECKING:
    from ..sandbox.protocol import Sandbox

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

PROBE_TIMEOUT = 30.0
"""Seconds for the proof that every shim is reachable."""


@dataclasses.dataclass(frozen=True)
class _Written:
    """A shim as it was written, to be found unchanged at the end. `state` is renewed when the agent's work begins."""

    content: bytes
    mode: int
    state: tuple[int, ...]


class Recorder:
    """Shadows tools by shims in `bin_dir` and takes in their calls through `spool_dir`.

    Both directories are the recorder's own and lie outside the workspace; what lay there before is removed. `install`
    comes first, `drain` once when every process of the agent is dead, `close` last. `answerer` is asked by the plans
    that ask; `workspace` makes the directories of calls relative; `options` go with the log.

    `interpreter` is the shebang of the shims, found on the harness's disk when it is None. With `foreign_system` they
    run where nothing on that disk tells what there is. With `foreign_user` they run as another user than the harness.
    `host_path_of` is the path on that disk of a directory that calls come from.
    """

    def __init__(
        self,
        plans: Sequence[ShimPlan],
        bin_dir: Path,
        spool_dir: Path,
        *,
        answerer: Answerer | None = None,
        workspace: Path | None = None,
        options: Mapping[str, OptionTable] | None = None,
        interpreter: str | None = None,
        foreign_system: bool = False,
        foreign_user: bool = False,
        host_path_of: Callable[[str], str] = str,
    ) -> None:
        self._plans = {plan.tool: plan for plan in plans}
        _refuse(plans, answerer)
        self._bin_dir = bin_dir
        self._spool_dir = spool_dir
        self._workspace = workspace
        self._options = dict(options or {})
        self._interpreter = interpreter
        self._foreign_system = foreign_system
        self._probe = (f"codereval-probe-{secrets.token_hex(8)}",)
        asks = any(plan.asks for plan in plans)
        needs_desk = any(plan.asks or plan.read_stdin or plan.passthrough for plan in plans)
        modes = FOREIGN if foreign_user else OWN
        desk = Desk(spool_dir, answerer if asks else None, self._runner, self._probe, modes) if needs_desk else None
        self._spool = Spool(spool_dir, desk=desk, modes=modes, host_path_of=host_path_of)
        self._written: dict[str, _Written] = {}
        self._bin_state: tuple[int, ...] = ()
        self._found = Found()
        self._log: InvocationLog | None = None

    @property
    def recorded_tools(self) -> frozenset[str]:
        """The names of the tools that are shadowed."""
        return frozenset(self._plans)

    def install(self) -> None:
        """Write the shims and start to take in calls. Raises TrialError(SANDBOX) when that is not possible."""
        try:
            fresh_directory(self._bin_dir, 0o755)
            for plan in self._plans.values():
                for name, content in self._shim_files(plan).items():
                    self._written[name] = _write(self._bin_dir / name, content)
            self._bin_state = state(self._bin_dir)
            self._spool.open()
        except OSError as error:
            raise TrialError(Cause.SANDBOX, f"the recorder could not be set up: {error}") from error

    def cover(self, sandbox: Sandbox) -> None:
        """Have calls by an absolute path meet the shims too, where no shim needs the real program itself.

        Comes after `install`, before anything runs in AGENT.
        """
        needed = NEEDED_BY_SHIMS | {"sh", Path(self._shell.split()[0]).name}
        for plan in self._plans.values():
            if not (plan.passthrough or plan.may_run_real or plan.tool in needed):
                sandbox.cover(plan.tool, self._bin_dir / plan.tool)

    def probe_script(self) -> str:
        """POSIX sh text that prints what each tool resolves to, in `sh` and in a login bash; see `check_probe`.

        It also calls one shim once, by its path, with an argument that is this recorder's own.
        """
        names = sorted(self._plans)
        return probe_script(names, self._bin_dir / names[0], self._probe)

    def check_probe(self, output: bytes, search_path: str) -> Found:
        """Understand the probe's output; `search_path` is the PATH it ran with."""
        return read_probe({name: self._bin_dir / name for name in sorted(self._plans)}, search_path, output)

    def prove_reachable(self, sandbox: Sandbox) -> None:
        """See in the agent's own environment that each tool's name leads to its shim, then forget earlier calls.

        Shells are asked once for each kind of environment and system; for later trials of that kind a look along PATH
        is enough.
        Raises TrialError(SHIM_UNREACHABLE), also when a shim is no longer what was written.
        """
        changed = [name for name, written in self._written.items() if not self._as_written(name, written)]
        if changed:
            what = f"the shim of {', '.join(changed)} was changed, replaced or removed before the agent started"
            raise TrialError(Cause.SHIM_UNREACHABLE, what)
        environment = sandbox.environment(Phase.AGENT)
        shell = login_shell(sorted(self._plans), environment, self._bin_dir.parent, self._system(sandbox))
        found = shell.found
        if found is None or not self._first_on(environment["PATH"]):
            found = self._ask_shells(sandbox, environment["PATH"])
            shell.remember(found)
        self._found = found
        self.discard_calls_so_far()

    def _system(self, sandbox: Sandbox) -> str | None:
        """What tells systems apart that shims run in, None when that is not known."""
        if not self._foreign_system:
            return sandbox.driver
        image = sandbox.described.get("image")
        number = image.get("id") if isinstance(image, Mapping) else None
        return f"{sandbox.driver} {self._interpreter} {number}" if number else None

    def _first_on(self, search_path: str) -> bool:
        return all(shutil.which(name, path=search_path) == str(self._bin_dir / name) for name in self._plans)

    def _ask_shells(self, sandbox: Sandbox, search_path: str) -> Found:
        result = sandbox.run(["/bin/sh", "-c", self.probe_script()], phase=Phase.AGENT, timeout=PROBE_TIMEOUT)
        found = self.check_probe(result.stdout, search_path)
        problems = found.problems
        if not problems and not any(call.argv == self._probe for call in self._spool.discard()):
            problems = (f"a shim in {self._bin_dir} could not be run, or its call was not recorded",)
        if problems:
            raise TrialError(Cause.SHIM_UNREACHABLE, "; ".join(problems))
        return found

    def discard_calls_so_far(self) -> None:
        """Never count the calls made until now: they are not the agent's. Their processes must have ended.

        What they did to shims and spool, and left as it was, is no tampering either.
        """
        self._spool.discard()
        with contextlib.suppress(OSError):
            self._bin_state = state(self._bin_dir)
            for name, written in self._written.items():
                if self._as_written(name, written):
                    self._written[name] = dataclasses.replace(written, state=state(self._bin_dir / name))

    def drain(self) -> InvocationLog:
        """Return the log of all calls; to be called when the processes are dead. Later calls are answered, not counted.

        A second call returns the same log.
        """
        if self._log is None:
            self._log = self._log_of(self._spool.take())
        return self._log

    def so_far(self) -> InvocationLog:
        """As `drain`, but the calls that come later are counted too."""
        return self._log_of(self._spool.so_far())

    def seen(self) -> InvocationLog:
        """As `so_far`, while the agent works: the calls that it has told of, without waiting for any other."""
        return self._log_of(self._spool.seen())

    def _log_of(self, calls: Sequence[SpooledCall]) -> InvocationLog:
        faults = [*self._shim_faults(), *self._spool.check()]
        ours = [call for call in calls if call.tool in self._plans]
        if len(ours) < len(calls):
            faults.append(TAMPERED + "the spool holds calls of tools that are not recorded")
        if any(self._ended_otherwise(call) for call in ours):
            faults.append(TAMPERED + "a call ended with another status than its shim was told to give")
        return InvocationLog(
            invocations=tuple(self._invocation(number, call) for number, call in enumerate(ours, start=1)),
            recorded_tools=self.recorded_tools,
            builtin_tools=self._found.builtins,
            faults=tuple(faults),
            options=self._options,
            unmatched=tuple(number for number, call in enumerate(ours, start=1) if self._is_unmatched(call)),
            shim_dir=os.fspath(self._bin_dir),
            uncovered_tools=self._found.uncovered,
        )

    def _invocation(self, number: int, call: SpooledCall) -> Invocation:
        plan = self._plans[call.tool]
        return Invocation(
            sequence=number,
            tool=call.tool,
            argv=call.argv,
            cwd=seen_from_workspace(call.cwd, self._workspace),
            time=call.time,
            ended=call.ended,
            exit_status=call.exit_status,
            answered_by=call.answered_by if plan.asks else "passthrough" if plan.passthrough else "constant",
            stdin=None if call.stdin is None else call.stdin.decode("utf-8", "surrogateescape"),
        )

    def _is_unmatched(self, call: SpooledCall) -> bool:
        return call.unmatched or (self._plans[call.tool].asks and call.answered_by == UNANSWERED)

    def _ended_otherwise(self, call: SpooledCall) -> bool:
        plan = self._plans[call.tool]
        expected = call.expected_status if plan.asks else None if plan.passthrough else plan.exit_status
        return None not in (expected, call.exit_status) and expected != call.exit_status

    def close(self) -> None:
        """Stop taking in calls, when no process is left that could make one. May be called twice."""
        self._spool.close()

    def _shim_files(self, plan: ShimPlan) -> dict[str, bytes]:
        if os.name == "nt":
            contents: tuple[bytes, ...] = (
                windows.render_script(plan, self._spool_dir),
                windows.render_command_file(plan.tool, Path(sys.executable)),
            )
        else:
            contents = (render(plan, self._spool_dir, self._shell, self._runner(plan.tool)),)
        return dict(zip(written_names(plan.tool), contents, strict=True))

    @property
    def _shell(self) -> str:
        return self._interpreter or find_interpreter()

    def _runner(self, tool: str) -> Runner:
        return runner(tool, self._bin_dir / tool, self._shell, foreign_system=self._foreign_system)

    def _as_written(self, name: str, written: _Written) -> bool:
        path = self._bin_dir / name
        try:
            return path.lstat().st_mode == written.mode and path.read_bytes() == written.content
        except OSError:
            return False

    def _shim_faults(self) -> list[str]:
        faults = [
            f"{TAMPERED}the shim of {name} was changed, replaced or removed"
            for name, written in self._written.items()
            if _state_or_none(self._bin_dir / name) != written.state or not self._as_written(name, written)
        ]
        if not faults and _state_or_none(self._bin_dir) != self._bin_state:
            faults.append(f"{TAMPERED}the directory of the shims was moved or changed")
        return faults


def _refuse(plans: Sequence[ShimPlan], answerer: Answerer | None) -> None:
    """Raise TrialError(CONFIGURATION) for what cannot be recorded, or not in this way."""
    seen: set[str] = set()
    for plan in plans:
        reason = "it is there twice" if plan.tool.casefold() in seen else refusal(plan.tool)
        if plan.asks and answerer is None:
            reason = reason or "its shim asks, but nobody answers"
        for name in plan.variables:
            if not _VARIABLE.fullmatch(name):
                reason = reason or f"{name!r} is no name of a variable"
        if reason:
            raise TrialError(Cause.CONFIGURATION, f"sandbox.record_cli: tool {plan.tool!r}: {reason}")
        seen.add(plan.tool.casefold())


def _write(path: Path, content: bytes) -> _Written:
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o755)
    try:
        with open(handle, "wb") as file:
            file.write(content)
        path.chmod(0o755)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return _Written(content, path.lstat().st_mode, state(path))


def _state_or_none(path: Path) -> tuple[int, ...] | None:
    try:
        return state(path)
    except OSError:
        return None
