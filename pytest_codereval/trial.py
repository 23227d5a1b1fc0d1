"""The life of one trial, top to bottom: stage, agent, seal, grade, record."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import clock
from .agents import registry as agents
from .agents.protocol import AgentEnd
from .criteria.contract import CriterionResult, Evidence
from .errors import Cause, CoderEvalError, TrialError
from .judging.gate import Decision, decide
from .judging.judge import judge
from .judging.outcomes import Status
from .judging.strictness import listed, nothing_evaluated, strict_tools, strictness_results, unmatched_calls
from .recorder.answers.handler_files import FindByName, no_names
from .recorder.equipment import Equipment
from .recorder.invocation import InvocationLog
from .recorder.shims.names import generated_names
from .recorder.spool.spool import cause_of, describe
from .sandbox import tempdir
from .sandbox.environment import EnvironmentPlan
from .sandbox.host_path import host_path
from .sandbox.material import GradingMaterial
from .sandbox.protocol import Phase, ProcessResult
from .sandbox.snapshot import Manifest, snapshot
from .sandbox.staging import prepare_mock_dirs, stage_workspace
from .store import record as records
from .store.run_directory import RunDirectory, write_json
from .task.not_yet import refuse_unavailable
from .task.prompt_file import prompt_from_file
from .trajectory.model import Message, ToolCall, Trajectory, Usage

if TYPE_CHECKING:
    from .task.models import RecordedTool
    from .task.trials import TrialSpec

TURN_TIMEOUT = 300.0
TASK_TIMEOUT = 600.0
"""Seconds for the agent's work where `run_limits` says nothing."""


@dataclasses.dataclass(frozen=True)
class TrialSettings:
    """What the session decides for all its trials."""

    run_directory: RunDirectory
    rootdir: Path
    agent_override: str | None = None
    agent_default: str | None = None
    env_passthrough: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class HookRun:
    """One pre_run or post_run command and what came of it."""

    command: str
    result: ProcessResult | None
    fault: str = ""


class Trial:
    """Used once: `stage`, `run_agent`, `seal`, then `grade`, and `finish` on every path.

    Each of the first four raises TrialError when it fails; `finish` then still records and cleans up.
    """

    def __init__(self, spec: TrialSpec, settings: TrialSettings, handler_by_name: FindByName = no_names) -> None:
        self.spec = spec
        self.task = spec.task
        self.settings = settings
        self.agent_name: str | None = None
        self.results: tuple[CriterionResult, ...] = ()
        self.decision: Decision | None = None
        self.fault: TrialError | None = None
        self.folder: Path | None = None
        self._marks: dict[str, float] = {"started": clock.now()}
        self._events: list[ToolCall | Message] = []
        self._end: AgentEnd | None = None
        self._text = ""
        self._log = InvocationLog()
        self._pre_runs: list[HookRun] = []
        self._post_runs: list[HookRun] = []
        self._manifest: Manifest | None = None
        self._stack = contextlib.ExitStack()
        self._sandbox: tempdir.TempdirSandbox | None = None
        self._handler_by_name = handler_by_name
        self._equipment: Equipment | None = None
        self._material: GradingMaterial | None = None
        self._active: Path | None = None
        self._agent_is_dead = False
        self._sealed = False

    # -- stage

    def stage(self) -> None:
        """Make the workspace, the shims and the environment; run `pre_run` and see it dead before the agent starts."""
        with self._guarded():
            self._begin_record()
            self.agent_name = agents.choose(
                self.task, override=self.settings.agent_override, default=self.settings.agent_default
            )
            refuse_unavailable(self.task)
            self._text = self._prompt()
            self._sandbox = self._make_sandbox()
            self._stack.callback(self._sandbox.close)
            self._equipment = self._make_equipment(self._sandbox)
            self._material = GradingMaterial(
                self.task,
                self.spec.path,
                self._sandbox.root,
                self.spec.dataset_paths,
                keep_out=[self.settings.run_directory.path, *(self._equipment.cassettes if self._equipment else ())],
                variables=self._sandbox.environment(Phase.PREPARE),
            )
            stage_workspace(
                self._sandbox,
                self.task,
                self.spec.path.parent,
                generated_names=self._generated_names,
                answer_keys=[
                    self.settings.run_directory.path,
                    *self._material.dataset_files,
                    *(self._equipment.answer_keys if self._equipment else ()),
                ],
            )
            if self._equipment is not None:
                self._equipment.recorder.install()
            for hook in self.task.pre_run:
                self._pre_run(hook)
            if self.task.pre_run:
                prepare_mock_dirs(self._sandbox, self.task.sandbox, generated_names=self._generated_names)
            self._material.hide()
            self._sandbox.end_preparation()
            if self._equipment is not None:
                self._equipment.recorder.prove_reachable(self._sandbox)
            self._mark("staged")

    def _begin_record(self) -> None:
        directory = self.settings.run_directory
        self.folder = directory.new_trial(self.task.task_id, self.spec.label)
        standing = self._description | {
            "status": Status.ERROR,
            "cause": Cause.INTERRUPTED,
            "message": "the process that ran this trial died",
        }
        self._active = directory.mark_active(self.folder, standing)

    def _make_sandbox(self) -> tempdir.TempdirSandbox:
        task_folder = self.spec.path.parent
        plan = EnvironmentPlan(
            passthrough=self.settings.env_passthrough,
            withhold=(task_folder, self.settings.rootdir),
        )
        return tempdir.create(self.task.sandbox, environments=plan)

    def _make_equipment(self, sandbox: tempdir.TempdirSandbox) -> Equipment | None:
        if not self._tools:
            return None
        equipment = Equipment(self.task, self.spec.path.parent, sandbox, self._handler_by_name, self.spec.trial_id)
        self._stack.callback(equipment.recorder.close)
        return equipment

    @property
    def _tools(self) -> tuple[RecordedTool, ...]:
        return tuple(self.task.sandbox.record_cli or ())

    @property
    def _generated_names(self) -> list[str]:
        return [name for tool in self._tools for name in generated_names(tool.tool)]

    def _pre_run(self, hook: Any) -> None:
        result = self._shell(hook.command, Phase.PREPARE, hook.timeout, self.material.task_environment())
        self._pre_runs.append(HookRun(hook.command, result))
        if hook.fail_on_error and (result.timed_out or result.exit_status != 0):
            how = f"was killed after {hook.timeout} s" if result.timed_out else f"exited {result.exit_status}"
            said = (result.stderr_text or result.stdout_text).strip()[-1000:]
            raise TrialError(Cause.PRE_RUN, f"`{hook.command.strip()}` {how}: {said}")

    # -- agent

    def run_agent(self) -> None:
        """Let the agent work on the prompt within its time. Its crash or timeout is raised by `seal`."""
        with self._guarded():
            assert self.agent_name is not None
            limits = self.task.run_limits
            turn = (limits and limits.turn_timeout) or TURN_TIMEOUT
            whole = (limits and limits.task_timeout) or TASK_TIMEOUT
            agent = agents.create(self.agent_name)
            deadline = clock.monotonic() + min(turn, whole)
            self._mark("agent_started")
            self._end = agent.run(self.task, self._text, self.sandbox, self._events.append, deadline)
            if self._end.cause is Cause.TURN_TIMEOUT and whole < turn:
                self._end = dataclasses.replace(self._end, cause=Cause.TASK_TIMEOUT)
            self._mark("agent_ended")

    def _prompt(self) -> str:
        task = self.task
        if task.initial_prompt is not None or task.initial_prompt_file is None:
            return task.initial_prompt or ""
        path = host_path(task.initial_prompt_file, self.spec.path.parent, "initial_prompt_file")
        return prompt_from_file(path, self.spec.row)

    # -- seal

    def seal(self) -> None:
        """Kill what the agent left, prove it dead, drain the recorder, keep the workspace as it is now."""
        if self._sealed or self._sandbox is None:
            return
        with self._guarded():
            attack = self._reaped(self._sandbox)
            self._agent_is_dead = True
            try:
                self._take_evidence(self._sandbox)
            except OSError:
                if attack is None:
                    raise
            self._sealed = True
            self._mark("sealed")
            if attack is not None:
                raise attack
            if self._log.faults:
                raise TrialError(cause_of(self._log.faults), describe(self._log.faults))
            if self._end is not None and self._end.cause is not None:
                raise TrialError(self._end.cause, self._end.message)
            if self._equipment is not None:
                self._equipment.save()
            self._refuse_unmatched()

    def _reaped(self, sandbox: tempdir.TempdirSandbox) -> TrialError | None:
        """Kill everything; an attack on the supervisor is returned, for the rest of the evidence is wanted too."""
        try:
            sandbox.reap()
        except TrialError as error:
            return error
        return None

    def _take_evidence(self, sandbox: tempdir.TempdirSandbox) -> None:
        if self._equipment is not None:
            self._log = self._equipment.drain()
        if self.folder is not None:
            self._manifest = snapshot(sandbox.workspace, self.folder / "workspace")

    def _refuse_unmatched(self) -> None:
        for tool in strict_tools(self.task, "error"):
            if calls := unmatched_calls(self._log, tool):
                what = f"calls of {tool} that no rule, handler or cassette answered before the agent ended"
                raise TrialError(Cause.UNMATCHED_CALL, f"{what} (unmatched: error):\n{listed(calls)}")

    # -- grade

    def grade(self) -> Decision:
        """Judge every criterion on the sealed evidence and apply the gate."""
        with self._guarded():
            self.sandbox.begin_grading()
            environment = self.material.reveal()
            shell = functools.partial(self._grading_shell, environment)
            evidence = dataclasses.replace(self.evidence, shell=shell, reference=self.material.reference_workspace())
            self.results = judge(self.task.success_criteria, evidence, self.material.verify)
            if self._equipment is not None:
                self._equipment.refuse_faults()
            self.results += strictness_results(self._log, strict_tools(self.task, "fail"), len(self.results))
            self.decision = decide(self.results)
            self._mark("graded")
            return self.decision

    @property
    def evidence(self) -> Evidence:
        """What the criteria look at. Its shell works in the grading environment."""
        return Evidence(
            workspace=self.sandbox.files,
            trajectory=self.trajectory,
            invocations=self._log,
            shell=functools.partial(self._grading_shell, {}),
            cli_patterns={c.name: c for c in self.task.success_criteria if c.type == "cli_called" and c.name},
        )

    @property
    def trajectory(self) -> Trajectory | None:
        """What the agent did, None before it has begun and for the agent `none`."""
        if self.agent_name in (None, "none") or "agent_started" not in self._marks:
            return None
        end = self._end or AgentEnd(turns=0)
        return Trajectory(events=tuple(self._events), usage=end.usage, turns=end.turns)

    def _grading_shell(
        self, environment: dict[str, str], command: str, *, timeout: float, shims: bool = False
    ) -> ProcessResult:
        extra = environment | (self.sandbox.env_with_shims() if shims else {})
        return self._shell(command, Phase.GRADE, timeout, extra)

    # -- record

    def finish(self) -> None:
        """Run `post_run`, write the record, remove the sandbox. Safe on every path and when called twice."""
        if self._active is None:
            self._stack.close()
            return
        active, self._active = self._active, None
        try:
            with contextlib.suppress(Exception):
                self.seal()
            self._mark("finished")
            self._write_record()
            if self.task.post_run and self._agent_is_dead:
                self._run_post_hooks()
                self._write_record()
            active.unlink(missing_ok=True)
        finally:
            self._clean_up()

    def _clean_up(self) -> None:
        """Remove the sandbox; a fault that shows only now is in the record too."""
        try:
            with self._guarded():
                self._stack.close()
        except CoderEvalError:
            self._write_record()
            raise

    def _run_post_hooks(self) -> None:
        if self._sandbox is None or self._material is None:
            return
        with contextlib.suppress(TrialError):
            self._sandbox.end_preparation()
            self._sandbox.begin_grading()
        for hook in self.task.post_run:
            try:
                result = self._shell(hook.command, Phase.GRADE, hook.timeout, self._material.task_environment())
                self._post_runs.append(HookRun(hook.command, result))
            except CoderEvalError as error:
                self._post_runs.append(HookRun(hook.command, None, str(error)))

    def _write_record(self) -> None:
        assert self.folder is not None
        try:
            write_json(self.folder / "record.json", self._record())
        except (OSError, TypeError, ValueError) as error:
            raise TrialError(Cause.EVIDENCE_LOST, f"the record could not be written: {error}") from None

    @functools.cached_property
    def _description(self) -> dict[str, Any]:
        return records.describe_trial(self.spec)

    def _record(self) -> dict[str, object]:
        digests = self._material.digests if self._material else {}
        digests |= self._equipment.digests if self._equipment else {}
        return self._description | {
            "fingerprint": records.fingerprint(self._description, self.agent_name, digests),
            "environment": records.versions()
            | {"driver": self._sandbox.driver if self._sandbox else None, "withheld": self.withheld},
            "agent": self.agent_name,
            "prompt": self._text,
            "status": self.status,
            "cause": self.fault.cause if self.fault else None,
            "message": self.message,
            "score": self.decision.score if self.decision else None,
            "criteria": records.describe_results(self.criteria),
            "trajectory": records.describe_trajectory(self.trajectory),
            "invocations": records.describe_invocations(self._log),
            "workspace": dataclasses.asdict(self._manifest) if self._manifest else None,
            "pre_run": [_describe_hook(hook) for hook in self._pre_runs],
            "post_run": [_describe_hook(hook) for hook in self._post_runs],
            "material": digests,
            "times": self._marks,
        }

    @property
    def status(self) -> Status:
        """How the trial stands now; before its seal it counts as interrupted."""
        if self.fault is not None:
            return Status.ERROR
        if self.decision is not None:
            return self.decision.status
        return Status.NOT_EVALUATED if self._sealed else Status.ERROR

    @property
    def message(self) -> str:
        """The reason of the status in one line or a few."""
        if self.fault is not None:
            return str(self.fault)
        if self.decision is not None:
            return self.decision.reason
        return "the trial was not judged" if self._sealed else "interrupted"

    @property
    def criteria(self) -> tuple[CriterionResult, ...]:
        """The criteria's results; `not_evaluated` throughout when the trial did not come to be judged."""
        if self.results and self.fault is None:
            return self.results
        reason = f"the trial ended in error: {self.message}" if self.fault else self.message
        return nothing_evaluated(self.task, reason)

    @property
    def leftovers(self) -> tuple[str, ...]:
        """What could not be removed from the disk after the trial."""
        return self._sandbox.leftovers if self._sandbox else ()

    @property
    def withheld(self) -> list[str]:
        """Names of variables that were let through to hooks and criteria but kept from the agent."""
        return sorted(self._sandbox.withheld_names) if self._sandbox else []

    def note_failure(self, message: str) -> None:
        """Something around the trial failed before it could be judged: it is an error, not an open question."""
        if self.fault is None and self.decision is None:
            self.fault = TrialError(Cause.UNEXPECTED, message)

    def summary(self) -> dict[str, object]:
        """What reports say of the trial, as plain data."""
        usage = self._end.usage if self._end else Usage()
        return {
            "trial": self.spec.trial_id,
            "status": self.status,
            "cause": self.fault.cause if self.fault else None,
            "message": self.message,
            "score": self.decision.score if self.decision else None,
            "tokens": usage.total_tokens,
            "cost_usd": usage.cost_usd,
            "record": str(self.folder / "record.json") if self.folder else None,
            "script_left_out": agents.leaves_script_out(self.task, self.settings.agent_override),
            "criteria": records.describe_results(self.criteria),
        }

    # -- helpers

    @property
    def sandbox(self) -> tempdir.TempdirSandbox:
        """The staged sandbox."""
        assert self._sandbox is not None, "stage() comes first"
        return self._sandbox

    @property
    def material(self) -> GradingMaterial:
        """What only preparation and grading may see."""
        assert self._material is not None, "stage() comes first"
        return self._material

    def _shell(self, command: str, phase: Phase, timeout: float, env: dict[str, str]) -> ProcessResult:
        return self.sandbox.run(["/bin/sh", "-c", command], phase=phase, timeout=timeout, env=env)

    def _mark(self, name: str) -> None:
        self._marks[name] = clock.now()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Keep the first fault; an unknown one becomes a fault too, never a result."""
        try:
            yield
        except TrialError as error:
            self.fault = self.fault or error
            raise
        except CoderEvalError as error:
            self.fault = self.fault or TrialError(Cause.CONFIGURATION, str(error))
            raise self.fault from error
        except OSError as error:
            self.fault = self.fault or TrialError(Cause.SANDBOX, f"{type(error).__name__}: {error}")
            raise self.fault from error
        except Exception as error:
            self.fault = self.fault or TrialError(Cause.UNEXPECTED, f"{type(error).__name__}: {error}")
            raise self.fault from error
        except BaseException as error:
            self.fault = self.fault or TrialError(Cause.INTERRUPTED, f"interrupted: {error}".rstrip(": "))
            raise


def execute(trial: Trial) -> None:
    """Stage, run the agent and seal. The seal holds on every path, and what ended the agent's work, such as Ctrl-C, is
    what is raised. Raises TrialError, kept in `trial.fault`.
    """
    trial.stage()
    try:
        trial.run_agent()
    except BaseException:
        with contextlib.suppress(CoderEvalError):
            trial.seal()
        raise
    trial.seal()


def _describe_hook(hook: HookRun) -> dict[str, object]:
    described: dict[str, object] = {"command": hook.command, "fault": hook.fault}
    if hook.result is not None:
        described |= {
            "exit_status": hook.result.exit_status,
            "timed_out": hook.result.timed_out,
            "stdout": hook.result.stdout_text,
            "stderr": hook.result.stderr_text,
            "duration": hook.result.duration,
        }
    return described
