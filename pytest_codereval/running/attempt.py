"""One attempt at a trial: a sandbox, a recorder and an agent of its own, from the empty workspace to the seal."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import clock
from ..agents import registry as agents
from ..agents.limits import TURN_TIMEOUT
from ..agents.protocol import Agent, Job
from ..agents.skills.projection import make_projection
from ..errors import AgentError, Cause, TrialError
from ..judging.strictness import listed, strict_tools, unmatched_calls
from ..leaks.needles import planted
from ..leaks.scan import Taint
from ..leaks.watch import NOT_LOOKED, Watch, watch
from ..recorder.answers.handler_files import FindByName
from ..recorder.equipment import Equipment
from ..recorder.invocation import InvocationLog
from ..recorder.shims.names import generated_names
from ..recorder.spool.spool import cause_of, describe
from ..sandbox import drivers
from ..sandbox.answer_keys import named_answer_keys
from ..sandbox.choice import Choice
from ..sandbox.environment import EnvironmentPlan
from ..sandbox.host_path import host_path
from ..sandbox.material import GradingMaterial
from ..sandbox.protocol import Phase, ProcessResult, Sandbox
from ..sandbox.snapshot import Manifest, snapshot
from ..sandbox.staging import prepare_mock_dirs, stage_workspace
from ..store import record as records
from ..text import tail
from ..trajectory.checking import checked
from ..trajectory.model import Event, Message, ModelCall, ToolCall

if TYPE_CHECKING:
    from ..task.models import AgentConfig, RecordedTool
    from ..task.trials import TrialSpec


@dataclasses.dataclass(frozen=True)
class Plan:
    """What all attempts at a trial have in common. `folder` is the trial's in the run directory."""

    spec: TrialSpec
    agent_name: str
    config: AgentConfig
    model: str | None
    folder: Path
    run_directory: Path
    rootdir: Path
    env_passthrough: tuple[str, ...]
    handler_by_name: FindByName
    admit: Callable[[bool], bool]
    max_turns: int | None
    patience: float
    limited: Callable[[float | None], None]
    choice: Choice = dataclasses.field(default_factory=Choice)
    execute_only: bool = False

    @property
    def answer_keys(self) -> tuple[Path, ...]:
        """The task's reference and datasets. Raises TrialError(CONFIGURATION)."""
        folder = self.spec.path.parent
        datasets = (host_path(path, folder, "dataset.paths") for path in self.spec.dataset_paths)
        return (*named_answer_keys(self.spec.task, folder), *datasets)

    def make_sandbox(self, *, seeded: bool = True) -> Sandbox:
        """A fresh sandbox by the driver that session or task ask for; see `Order.seeded`. Raises TrialError."""
        order = drivers.Order(
            config=self.spec.task.sandbox,
            environments=EnvironmentPlan(self.env_passthrough, withhold=(self.spec.path.parent, self.rootdir)),
            task_dir=self.spec.path.parent,
            hidden=(self.run_directory,),
            image=self.choice.image,
            answer_keys=self.answer_keys,
            readable=self.choice.readable,
            session=self.run_directory.name,
            trial=self.spec.trial_id,
            seeded=seeded,
        )
        return self.choice.create(order)


@dataclasses.dataclass(frozen=True)
class HookRun:
    """One pre_run or post_run command and what came of it."""

    command: str
    result: ProcessResult | None
    fault: str = ""

    def described(self) -> dict[str, object]:
        """As plain data."""
        found: dict[str, object] = {"command": self.command, "fault": self.fault}
        if self.result is not None:
            found |= {
                "exit_status": self.result.exit_status,
                "timed_out": self.result.timed_out,
                "stdout": self.result.stdout_text,
                "stderr": self.result.stderr_text,
                "duration": self.result.duration,
            }
        return found


class Attempt:
    """Used once: `stage`, `run` for each prompt, `seal`, and `close` on every path. Each raises TrialError."""

    def __init__(self, plan: Plan, number: int, tell: Callable[[Event], None]) -> None:
        """`tell` takes each event of the agent as it happens, stamped with the attempt's number."""
        self.number = number
        self.log = InvocationLog()
        self.pre_runs: list[HookRun] = []
        self.manifest: Manifest | None = None
        self.left_out_of_templates: tuple[str, ...] = ()
        self.plugin_notes: tuple[str, ...] = ()
        self.failure: AgentError | None = None
        self.agent_is_dead = False
        self.sealed = False
        self.sandbox: Sandbox | None = None
        self.equipment: Equipment | None = None
        self.material: GradingMaterial | None = None
        self.taint: Taint = NOT_LOOKED
        self._watch: Watch | None = None
        self._told: dict[tuple[object, ...], Event] = {}
        self._planted: dict[str, str] = {}
        self._plan = plan
        self._task = plan.spec.task
        self._tell = tell
        self._agent: Agent | None = None
        self._stack = contextlib.ExitStack()

    # -- stage

    def stage(self) -> None:
        """Make the workspace, the shims and the environment; run `pre_run` and see it dead before the agent starts."""
        plan, task_folder = self._plan, self._plan.spec.path.parent
        self.sandbox = sandbox = plan.make_sandbox()
        self._stack.callback(sandbox.close)
        if self._tools:
            self.equipment = Equipment(self._task, task_folder, sandbox, plan.handler_by_name, plan.spec.trial_id)
            self._stack.callback(self.equipment.recorder.close)
        self.material = material = GradingMaterial(
            self._task,
            plan.spec.path,
            sandbox.root,
            plan.spec.dataset_paths,
            keep_out=self.own_places,
            variables=sandbox.environment(Phase.PREPARE),
            show=sandbox.show,
        )
        answer_keys = [
            plan.run_directory,
            *material.dataset_files,
            *(self.equipment.answer_keys if self.equipment else ()),
        ]
        self.left_out_of_templates = stage_workspace(
            sandbox, self._task, task_folder, generated_names=self._generated_names, answer_keys=answer_keys
        )
        if self.equipment is not None:
            self.equipment.install()
        for hook in self._task.pre_run:
            self._pre_run(hook, material.task_environment())
        if self._task.pre_run:
            prepare_mock_dirs(sandbox, self._task.sandbox, generated_names=self._generated_names)
        material.hide()
        sandbox.end_preparation()
        self._start_agent(sandbox, answer_keys)
        if self.equipment is not None:
            self.equipment.recorder.prove_reachable(sandbox)
        self._watch = self._look_for_leaks(sandbox, material)

    def _look_for_leaks(self, sandbox: Sandbox, material: GradingMaterial) -> Watch:
        """Look through what the agent is given. Raises TrialError(CONFIGURATION) for grading material in it."""
        plan, shared = self._plan, self._plan.run_directory / "shared"
        made = watch(
            self._task,
            plan.spec.path,
            sandbox,
            checkout=plan.rootdir,
            run_directory=plan.run_directory,
            dataset_files=material.dataset_files,
            answer_files=self.equipment.answer_keys if self.equipment else (),
            planted={planted(shared): "the run directory", **self._planted},
        )
        made.look()
        return made

    @property
    def own_places(self) -> list[Path]:
        """What the harness itself writes to while the trial runs."""
        return [self._plan.run_directory, *(self.equipment.cassettes if self.equipment else ())]

    @property
    def _tools(self) -> tuple[RecordedTool, ...]:
        return tuple(self._task.sandbox.record_cli or ())

    @property
    def _generated_names(self) -> list[str]:
        return [name for tool in self._tools for name in generated_names(tool.tool)]

    def _pre_run(self, hook: Any, environment: dict[str, str]) -> None:
        link = Path(environment["TASK_DIR"])
        if self.sandbox is not None and link.parent == self.sandbox.root:
            self._planted[link.name] = "a link to the task's folder that only pre_run may see"
        result = self.shell(hook.command, Phase.PREPARE, hook.timeout, environment)
        self.pre_runs.append(HookRun(hook.command, result))
        if hook.fail_on_error and (result.timed_out or result.exit_status != 0):
            how = f"was killed after {hook.timeout} s" if result.timed_out else f"exited {result.exit_status}"
            said = tail((result.stderr_text or result.stdout_text).strip(), 1000)
            raise TrialError(Cause.PRE_RUN, f"`{hook.command.strip()}` {how}: {said}")

    def _start_agent(self, sandbox: Sandbox, keep_out: Collection[Path]) -> None:
        plan = self._plan
        skills = make_projection(self._task, plan.spec.path.parent, sandbox, keep_out)
        self.plugin_notes = skills.notes
        self._agent = agents.create(plan.agent_name, plan.config)
        self._agent.start(
            Job(
                task=self._task,
                config=plan.config,
                sandbox=sandbox,
                artifacts=plan.folder / "agent",
                skills=skills,
                model=plan.model,
                max_turns=plan.max_turns,
                task_folder=plan.spec.path.parent,
                admit=plan.admit,
                patience=plan.patience,
                limited=plan.limited,
            )
        )

    # -- agent

    def run(self, prompt: str, deadline: float, keep_on: Callable[[Event], bool]) -> None:
        """Let the agent work on `prompt`, until `deadline` at most, as long as `keep_on`. Its failure is kept.

        `keep_on` is asked after each event was told. Raises TrialError when the sandbox failed.
        """
        limits = self._task.run_limits
        turn = clock.monotonic() + ((limits and limits.turn_timeout) or TURN_TIMEOUT)
        assert self._agent is not None, "stage() comes first"
        self._take(Message("user", prompt, clock.now()))
        events = self._agent.run(prompt, min(turn, deadline))
        try:
            for event in events:
                self._take(event)
                if not keep_on(event):
                    break
        except AgentError as error:
            if error.cause is Cause.TURN_TIMEOUT and deadline <= turn:
                error = AgentError(Cause.TASK_TIMEOUT, str(error))
            self.fail(error)
        finally:
            if (close := getattr(events, "close", None)) is not None:
                close()

    def fail(self, error: AgentError) -> None:
        """Keep the first failure of the agent, to be raised by `seal`."""
        self.failure = self.failure or error

    def _take(self, event: Event) -> None:
        """Raises AgentError(AGENT_CRASH) for what is no event. What a senseless call of a model used is unknown."""
        try:
            told = checked(event)
        except ValueError as error:
            if isinstance(event, ModelCall):
                self._tell(ModelCall("senseless", None, complete=False, ended=clock.now(), attempt=self.number))
            raise AgentError(Cause.AGENT_CRASH, f"the agent {self._plan.agent_name!r}: {error}") from None
        if isinstance(told, Message | ToolCall):
            self._told[type(told), getattr(told, "id", len(self._told))] = told
        self._tell(dataclasses.replace(told, attempt=self.number))

    # -- seal

    def seal(self) -> None:
        """Kill what the agent left, prove it dead, drain the recorder, keep the workspace as it is now."""
        if self.sealed or self.sandbox is None:
            return
        attack = self._reaped(self.sandbox)
        self.agent_is_dead = attack is None or attack.cause is not Cause.SANDBOX
        self._stop_agent()
        try:
            self._take_evidence(self.sandbox)
        except OSError:
            if attack is None:
                raise
        self.sealed = True
        self._scan_for_leaks()
        if attack is not None:
            raise attack
        if self.log.faults:
            raise TrialError(cause_of(self.log.faults), describe(self.log.faults))
        if self.failure is not None:
            raise self.failure
        if self.equipment is not None:
            self.equipment.save()
        self._refuse_unmatched()

    def _reaped(self, sandbox: Sandbox) -> TrialError | None:
        """Kill everything; an attack on the supervisor is returned, for the rest of the evidence is wanted too."""
        try:
            sandbox.reap()
        except TrialError as error:
            return error
        return None

    def _stop_agent(self) -> None:
        """What the agent still has to tell, such as the usage of a call that was cut, counts too: all of it."""
        agent, self._agent = self._agent, None
        if agent is None:
            return
        try:
            for event in agent.stop():
                try:
                    self._take(event)
                except AgentError as error:
                    self.fail(error)
        except AgentError as error:
            self.fail(error)

    def _take_evidence(self, sandbox: Sandbox) -> None:
        if self.equipment is not None:
            self.log = self.equipment.drain()
        self.manifest = snapshot(sandbox.workspace, self._plan.folder / "workspace", keep_secrets=False)

    def _scan_for_leaks(self) -> None:
        if self._watch is not None:
            tells = self._plan.agent_name != "none"
            events, copy = list(self._told.values()), self._plan.folder / "workspace"
            self.taint = self._watch.scan(events, self.log, self.manifest, copy, tells)

    def _refuse_unmatched(self) -> None:
        for tool in strict_tools(self._task, "error"):
            if calls := unmatched_calls(self.log, tool):
                what = f"calls of {tool} that no rule, handler or cassette answered before the agent ended"
                raise TrialError(Cause.UNMATCHED_CALL, f"{what} (unmatched: error):\n{listed(calls)}")

    # -- end

    def close(self) -> None:
        """Stop the agent, remove the sandbox. May be called twice."""
        try:
            self._stop_agent()
        finally:
            self._stack.close()

    def put_aside(self) -> None:
        """Leave the trial's folder to the next attempt: what this one left lies in `attempts/N` from now on."""
        aside = self._plan.folder / "attempts" / str(self.number)
        aside.mkdir(parents=True, exist_ok=True)
        for name in ("workspace", "agent"):
            if (path := self._plan.folder / name).exists():
                path.rename(aside / name)

    def describe(self, error: TrialError, wait: float) -> dict[str, object]:
        """The attempt as plain data, once it ended with `error`; `wait` is in seconds, before the next."""
        return {
            "attempt": self.number,
            "cause": error.cause,
            "message": str(error),
            "wait": wait,
            "invocations": records.describe_invocations(self.log),
            "workspace": dataclasses.asdict(self.manifest) if self.manifest else None,
            "leaks": self.taint.as_record(),
            "pre_run": [hook.described() for hook in self.pre_runs],
        }

    @property
    def staged_material(self) -> GradingMaterial:
        """What only preparation and grading may see."""
        assert self.material is not None, "stage() comes first"
        return self.material

    def shell(self, command: str, phase: Phase, timeout: float, env: dict[str, str]) -> ProcessResult:
        """Run a shell command in the sandbox."""
        assert self.sandbox is not None, "stage() comes first"
        return self.sandbox.run(["/bin/sh", "-c", command], phase=phase, timeout=timeout, env=env)

    @property
    def digests(self) -> dict[str, str]:
        """SHA-256 of each part of the grading material and of the answers, by name."""
        found = dict(self.material.digests) if self.material else {}
        return found | dict(self.equipment.digests if self.equipment else {})
