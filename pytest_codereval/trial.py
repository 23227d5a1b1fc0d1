"""The life of one trial, top to bottom: attempts, each staged, worked on and sealed, then grade and record."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import clock
from .agents import registry as agents
from .agents.limits import TASK_TIMEOUT, Stop
from .criteria.contract import Evidence
from .dialog.simulated_user import direct_name
from .errors import AgentError, Cause, CoderEvalError, TrialError
from .judging.gate import Decision, decide, marked
from .judging.judge import judge
from .judging.outcomes import CAUSES, Status
from .judging.strictness import strict_tools, strictness_results
from .recorder.answers.handler_files import FindByName, no_names
from .recorder.invocation import InvocationLog
from .running.account import isolation_of, notes_of
from .running.attempt import Attempt, HookRun, Plan
from .running.books import Books
from .running.conversation import Conversation
from .running.diagnosis import AfterFailure
from .running.early_stop import EarlyStopWatch, make_watch
from .running.evidence import evidence_in
from .running.identity import Asked, identity
from .running.judge_accounts import refuse_unpriced_judges
from .running.judge_desk import desk_for
from .running.session import Session
from .running.standing import Standing
from .sandbox.choice import Choice
from .sandbox.host_path import host_path
from .sandbox.protocol import Phase, Sandbox
from .sandbox.workspace import Workspace
from .store import record as records
from .store.run_directory import RunDirectory, write_json
from .store.summary import summary_of
from .task.prompt_file import prompt_from_file
from .trajectory.model import Trajectory

if TYPE_CHECKING:
    from .task.trials import TrialSpec


@dataclasses.dataclass(frozen=True)
class TrialSettings:
    """What the session decides for all its trials."""

    run_directory: RunDirectory
    rootdir: Path
    agent_override: str | None = None
    agent_default: str | None = None
    model_override: str | None = None
    env_passthrough: tuple[str, ...] = ()
    choice: Choice = dataclasses.field(default_factory=Choice)
    session: Session = dataclasses.field(default_factory=Session)
    execute_only: bool = False

    @property
    def asked(self) -> Asked:
        """The part of the settings that results depend on."""
        own = (self.run_directory.path,)
        return Asked(self.choice, self.agent_override, self.agent_default, self.model_override, keep_out=own)


class Trial(Standing):
    """Used once: `execute`, then `grade`, and `finish` on every path.

    `execute` and `grade` raise TrialError when they fail; `finish` then still records and cleans up.
    """

    def __init__(self, spec: TrialSpec, settings: TrialSettings, handler_by_name: FindByName = no_names) -> None:
        super().__init__(spec)
        self.settings = settings
        self.agent_name: str | None = None
        self._marks: dict[str, float] = {"started": clock.now()}
        self._books = Books(spec.task, spec.trial_id, settings.session)
        self._meter = self._books.meter
        self._text = ""
        self._conversation: Conversation | None = None
        self._plan: Plan | None = None
        self._attempt: Attempt | None = None
        self._earlier: list[dict[str, object]] = []
        self._post_runs: list[HookRun] = []
        self._deadline: float | None = None
        self._handler_by_name = handler_by_name
        self._identity: dict[str, str] = {}
        self._active: Path | None = None

    # -- attempts

    def execute(self) -> None:
        """Stage, let the agent work and seal; again, in a fresh sandbox, where the cause of a failure permits it.

        The seal holds on every path, and what ended the agent's work, such as Ctrl-C, is what is raised. Raises
        TrialError, kept in `fault`; then `post_failure` is what could still be seen.
        """
        try:
            self._attempts()
        except TrialError as error:
            self._look_after_failure(error)
            raise

    def _attempts(self) -> None:
        while True:
            try:
                self._stage()
                try:
                    self._run_agent()
                except BaseException:
                    with contextlib.suppress(CoderEvalError):
                        self.seal()
                    raise
                self.seal()
                with self._guarded():
                    self._meter.refuse_unknown(cut=self._early_stop is not None)
                    self._refuse_cap_of_retries()
            except TrialError as error:
                if not self._may_try_again(error):
                    raise
            else:
                return

    def _stage(self) -> None:
        with self._guarded():
            if self._plan is None:
                self._begin_record()
                self._plan = self._make_plan()
                self._text = self._prompt()
            self._attempt = Attempt(self._plan, len(self._earlier) + 1, self._books.tell)
            self._attempt.stage()
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

    def _make_plan(self) -> Plan:
        settings = self.settings
        name = agents.choose(self.task, override=settings.agent_override, default=settings.agent_default)
        self.agent_name = name
        config = agents.config_of(name, self.task, self.spec.path.parent)
        self._identity = identity(self.spec, settings.asked, self._handler_by_name)
        self._books.provider = agents.provider_of(name, config)
        model = settings.model_override or config.model
        if name not in agents.SCRIPTED:
            self._meter.check_price(model)
        self._refuse_before_spending()
        if not settings.execute_only:
            refuse_unpriced_judges(self.task, settings.session)
        assert self.folder is not None
        return Plan(
            spec=self.spec,
            agent_name=name,
            config=config,
            model=model,
            folder=self.folder,
            run_directory=settings.run_directory.path,
            rootdir=settings.rootdir,
            env_passthrough=settings.env_passthrough,
            handler_by_name=self._handler_by_name,
            admit=self._meter.admit,
            max_turns=self._meter.max_turns,
            patience=settings.session.patience,
            limited=self._books.limited,
            choice=settings.choice,
            execute_only=settings.execute_only,
        )

    def _refuse_before_spending(self) -> None:
        """Raise TrialError when the session's budget is used up, or cannot be kept for want of a price."""
        simulation = self.task.simulation
        simulated = simulation is not None and simulation.enabled
        if simulation is not None and simulated and self.settings.session.has_budget:
            self._meter.check_price(direct_name(simulation.model), "simulation.model")
        if simulated or self.agent_name not in agents.SCRIPTED:
            self.settings.session.refuse_when_spent()

    def _prompt(self) -> str:
        task = self.task
        if task.initial_prompt is not None or task.initial_prompt_file is None:
            return task.initial_prompt or ""
        path = host_path(task.initial_prompt_file, self.spec.path.parent, "initial_prompt_file")
        return prompt_from_file(path, self.spec.row)

    def _run_agent(self) -> None:
        """Let the agent answer its user, until the dialogue is over, a limit is reached or it fails."""
        with self._guarded():
            assert self._attempt is not None
            assert self._plan is not None
            self._mark("agent_started")
            patience = self._task_timeout if self._deadline is None else self._deadline - clock.monotonic()
            with self.settings.session.turn(self._books.provider, patience):
                if self._deadline is None:
                    self._refuse_before_spending()
                    self._deadline = clock.monotonic() + self._task_timeout
                try:
                    watch = None if self.settings.execute_only else make_watch(self._plan, self._attempt, self._books)
                    self._conversation = Conversation(
                        self._plan, self._attempt, self._books, self._text, self.settings.session.prices, watch
                    )
                    self._conversation.hold(self._deadline)
                except AgentError as error:
                    self._attempt.fail(error)
            if self._attempt.failure is None:
                self.settings.session.unlimited(self._books.provider)
            self._mark("agent_ended")

    @property
    def _task_timeout(self) -> float:
        limits = self.task.run_limits
        return (limits and limits.task_timeout) or TASK_TIMEOUT

    def seal(self) -> None:
        """Kill what the agent left, prove it dead, drain the recorder, keep the workspace as it is now."""
        if self._attempt is None or self._attempt.sealed:
            return
        with self._guarded():
            try:
                self._attempt.seal()
            finally:
                if self._attempt.sealed:
                    self._mark("sealed")

    def _refuse_cap_of_retries(self) -> None:
        """A cap that only the retries used up says nothing of the agent: the trial ends as its earlier attempt did."""
        stop, number = self._stop, self._last.number
        if stop is None or not stop.forces_fail or not self._earlier or self._meter.exceeded_alone(number):
            return
        earlier = self._earlier[-1]
        raise TrialError(
            Cause(str(earlier["cause"])),
            f"attempt {number} went over {stop}, together with what was used before it; the attempt before it ended "
            f"with: {earlier['message']}",
        )

    def _may_try_again(self, error: TrialError) -> bool:
        """Whether the cause permits a further attempt and there is time for it; then it is made ready.

        What a script does it would do again.
        """
        if self.agent_name in agents.SCRIPTED or self._early_stop is not None:
            return False
        consequence = CAUSES[error.cause]
        tries = sum(1 for each in self._earlier if each["cause"] == error.cause)
        attempt = self._attempt
        if tries >= consequence.further_tries or attempt is None or self._deadline is None or self._meter.stop:
            return False
        asked = error.retry_after if isinstance(error, AgentError) else None
        wait = max(consequence.first_wait * self.settings.session.patience * 2**tries, asked or 0.0)
        if clock.monotonic() + wait >= self._deadline:
            return False
        self.fault = None
        with self._guarded():
            time.sleep(wait)
            try:
                self._refuse_before_spending()
            except TrialError as reason:
                raise TrialError(error.cause, f"{error} (not tried again: {reason})") from None
            self._run_post_hooks()
            described = attempt.describe(error, wait) | {"post_run": [hook.described() for hook in self._post_runs]}
            self._earlier.append(described)
            self._post_runs.clear()
            attempt.close()
            attempt.put_aside()
        return True

    def _look_after_failure(self, error: TrialError) -> None:
        """Gather evidence for diagnosis, which changes nothing of how the trial ended."""
        if self._attempt is None or self._deadline is None or self.settings.execute_only:
            return
        limits = self.task.run_limits
        deadline = self._deadline if limits and limits.task_timeout else None
        view = AfterFailure(self.task, self._attempt, error.cause, deadline)
        try:
            view.look(self._evidence)
        finally:
            self.post_failure = view.results

    # -- grade

    def grade(self) -> Decision:
        """Judge every criterion on the sealed evidence and apply the gate."""
        if self.settings.execute_only:
            return self._leave_unjudged()
        with self._guarded():
            attempt = self._last
            self.sandbox.begin_grading()
            material = attempt.staged_material
            environment = material.reveal()
            evidence = self._evidence(environment, material.reference_workspace())
            self.results = judge(self.task.success_criteria, evidence, material.verify)
            if attempt.equipment is not None:
                attempt.equipment.refuse_faults()
            self.results += strictness_results(attempt.log, strict_tools(self.task, "fail"), len(self.results))
            self.results = marked(self.results, self._early_stop)
            self.decision = decide(self.results, self._stop, self._early_stop)
            self._mark("graded")
            return self.decision

    @property
    def evidence(self) -> Evidence:
        """What the criteria look at. Its shell works in the grading environment."""
        return self._evidence({}, None)

    def _evidence(self, environment: dict[str, str], reference: Workspace | None) -> Evidence:
        desk = desk_for(self._plan, self._books.judges) if self._plan else None
        return evidence_in(self.sandbox, self.task, self.trajectory, self._log, environment, reference, desk)

    @property
    def trajectory(self) -> Trajectory | None:
        """What the agent did, None before it has begun and for the agent `none`."""
        if self.agent_name in (None, "none") or "agent_started" not in self._marks:
            return None
        return self._books.trajectory(self._last.number)

    # -- record

    def finish(self) -> None:
        """Run `post_run`, write the record, remove the sandbox. Safe on every path and when called twice."""
        if self._active is None:
            return
        active, self._active = self._active, None
        try:
            with contextlib.suppress(Exception):
                self.seal()
            self._mark("finished")
            self._write_record()
            if self.task.post_run:
                self._run_post_hooks()
                self._write_record()
            active.unlink(missing_ok=True)
        finally:
            self._clean_up()

    def _clean_up(self) -> None:
        """Remove the sandbox; a fault that shows only now is in the record too."""
        try:
            with self._guarded():
                if self._attempt is not None:
                    self._attempt.close()
        except CoderEvalError:
            self._write_record()
            raise

    def _run_post_hooks(self) -> None:
        attempt = self._attempt
        if attempt is None or not attempt.agent_is_dead or attempt.sandbox is None or attempt.material is None:
            return
        with contextlib.suppress(TrialError):
            attempt.sandbox.end_preparation()
            attempt.sandbox.begin_grading()
        for hook in self.task.post_run:
            try:
                result = attempt.shell(hook.command, Phase.GRADE, hook.timeout, attempt.material.task_environment())
                self._post_runs.append(HookRun(hook.command, result))
            except CoderEvalError as error:
                self._post_runs.append(HookRun(hook.command, None, str(error)))

    def _write_record(self) -> None:
        assert self.folder is not None
        try:
            write_json(self.folder / "record.json", self._record())
        except (OSError, TypeError, ValueError, RecursionError) as error:
            raise TrialError(Cause.EVIDENCE_LOST, f"the record could not be written: {error}") from None

    @functools.cached_property
    def _description(self) -> dict[str, Any]:
        return records.describe_trial(self.spec, self.item) | {"canary": self.settings.run_directory.canary}

    def _record(self) -> dict[str, object]:
        return self._facts() | {
            "environment": records.versions() | isolation_of(self._made_sandbox),
            "prompt": self._text,
            "dialogue": self._conversation.record if self._conversation else None,
            "trajectory": records.describe_trajectory(self.trajectory),
            "invocations": records.describe_invocations(self._log),
            "redacted": records.redacted(self.trajectory, self._log),
            "post_run": [hook.described() for hook in self._post_runs],
            **notes_of(self._attempt),
            "times": self._marks,
        }

    def _facts(self) -> dict[str, Any]:
        """The part of the record that summaries are made of."""
        sandbox = self._made_sandbox
        digests = self._attempt.digests if self._attempt else {}
        return self._description | {
            "fingerprint": records.fingerprint(self._identity),
            "fingerprint_parts": self._identity,
            "environment": isolation_of(sandbox),
            "agent": self.agent_name,
            "model": self._model,
            "status": self.status,
            "judged": self.judged,
            "cause": self.fault.cause if self.fault else None,
            "message": self.message,
            "score": self.decision.score if self.decision else None,
            "stopped": self._stop,
            "early_stop": self._early_stop,
            "early_stop_fault": (self._watch and self._watch.fault) or None,
            "criteria": records.describe_results(self.criteria),
            "post_failure_criteria": records.describe_results(self.post_failure),
            "spending": dataclasses.asdict(self._meter.spending),
            "simulated_user_spending": dataclasses.asdict(self._books.simulated_spending),
            "judge_spending": self._books.judges.as_record(),
            "earlier_attempts": self._earlier,
            "rerun_of": self.rerun_of,
            "material": digests,
            "leaks": self._attempt.taint.as_record() if self._attempt else None,
        }

    @property
    def leftovers(self) -> tuple[str, ...]:
        """What could not be removed from the disk after the trial."""
        return tuple(self._made_sandbox.leftovers) if self._made_sandbox else ()

    def summary(self) -> dict[str, object]:
        """What reports say of the trial, as plain data."""
        return summary_of(
            self._facts(),
            folder=self.folder,
            script_left_out=agents.leaves_script_out(self.task, self.settings.agent_override),
        )

    # -- helpers

    @property
    def _last(self) -> Attempt:
        assert self._attempt is not None, "execute() comes first"
        return self._attempt

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of the last attempt."""
        assert self._last.sandbox is not None, "execute() comes first"
        return self._last.sandbox

    @property
    def _made_sandbox(self) -> Sandbox | None:
        return self._attempt.sandbox if self._attempt else None

    @property
    def _log(self) -> InvocationLog:
        return self._attempt.log if self._attempt else InvocationLog()

    @property
    def _sealed(self) -> bool:
        return self._attempt is not None and self._attempt.sealed

    @property
    def _stop(self) -> Stop | None:
        return self._meter.stop

    @property
    def _watch(self) -> EarlyStopWatch | None:
        return self._conversation.watch if self._conversation else None

    @property
    def _early_stop(self) -> dict[str, Any] | None:
        return self._watch.stop.as_record() if self._watch is not None and self._watch.stop is not None else None

    @property
    def _model(self) -> str | None:
        return self._plan.model if self._plan else None

    def _mark(self, name: str) -> None:
        self._marks[name] = clock.now()
