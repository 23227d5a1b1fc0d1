"""A trial that is judged from its record: no agent works and no model is asked for it, save by its judges."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import clock
from ..criteria.contract import Evidence
from ..errors import Cause, CoderEvalError, TrialError
from ..judging.gate import Decision, decide, marked
from ..judging.judge import judge
from ..judging.strictness import strict_tools, strictness_results
from ..recorder.answers.handler_files import FindByName, no_names
from ..recorder.invocation import InvocationLog
from ..running.account import isolation_of
from ..running.evidence import evidence_in
from ..running.judge_accounts import JudgeAccounts
from ..running.session import Session
from ..running.standing import Standing
from ..sandbox.choice import Choice
from ..sandbox.workspace import Workspace
from ..store import record as records
from ..store.reader import StoredRecord
from ..store.run_directory import RunDirectory, write_json
from ..store.summary import summary_of
from ..trajectory.model import Trajectory
from .drift import changed_deciders, differing_settings
from .evidence import known_log, known_trajectory, with_gaps
from .place import Place
from .workspace import StoredFiles, gaps_of, missing_of

if TYPE_CHECKING:
    from ..task.trials import TrialSpec


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a session decides for the trials that it judges from records. `run` is the run that they are read from."""

    run: Path
    run_directory: RunDirectory
    rootdir: Path
    env_passthrough: tuple[str, ...] = ()
    choice: Choice = dataclasses.field(default_factory=Choice)
    session: Session = dataclasses.field(default_factory=Session)
    in_place: bool = False
    """The run is continued: records are completed where they lie."""


class StoredTrial(Standing):
    """As `trial.Trial`, used once: `execute`, then `grade`, and `finish` on every path."""

    agent_name: str | None = None

    def __init__(
        self,
        spec: TrialSpec,
        settings: Settings,
        stored: StoredRecord | TrialError,
        handler_by_name: FindByName = no_names,
        *,
        keep: bool = False,
    ) -> None:
        """`keep`: the stored outcome is reported as it is. `stored` is a TrialError when there is nothing to judge."""
        super().__init__(spec)
        self.settings = settings
        self._stored = stored if isinstance(stored, StoredRecord) else None
        self._refusal = None if isinstance(stored, StoredRecord) else stored
        self._keep = keep
        self._handler_by_name = handler_by_name
        self._place: Place | None = None
        self._active: Path | None = None
        self._marks = {"started": clock.now()}
        self._judges = JudgeAccounts(spec.trial_id, settings.session)
        self._is_ready = False
        self._leftovers: tuple[str, ...] = ()
        self._without: list[str] = []
        if self._stored is not None and (keep or settings.in_place):
            self.folder = self._stored.folder

    # -- in place of the agent's work

    def execute(self) -> None:
        """Read the record and put its workspace into a fresh sandbox. Raises TrialError, kept in `fault`.

        A trial that ended in error before it could be judged stays that error.
        """
        with self._guarded():
            if self._refusal is not None:
                raise self._refusal
            stored = self._record_read
            self.agent_name = stored.content.get("agent")
            self.post_failure = stored.post_failure if stored.cause is not None else ()
            if self._keep:
                self._take_outcome(stored)
                return
            self._begin_record()
            self._refuse_unjudgeable(stored)
            self._place = Place(self.spec, self.settings, stored, self._handler_by_name)
            self._place.stage()
            self._without = self._place.without
            self._is_ready = True
            self._marks["staged"] = clock.now()

    @property
    def _record_read(self) -> StoredRecord:
        assert self._stored is not None
        return self._stored

    def _take_outcome(self, stored: StoredRecord) -> None:
        self.results, self.decision = stored.results, stored.decision
        self._is_ready = True

    def _refuse_unjudgeable(self, stored: StoredRecord) -> None:
        """Raise TrialError for a trial that no criteria can make anything else of than an error."""
        if stored.content.get("stored") and not stored.content.get("workspace"):
            where = stored.content["stored"].get("record")
            raise TrialError(Cause.EVIDENCE_LOST, f"{stored.path} was judged from {where}: give the run of that one")
        if stored.cause is not None:
            raise TrialError(stored.cause, stored.message)
        if stored.manifest is None:
            raise TrialError(Cause.EVIDENCE_LOST, f"{stored.path}: the trial was not sealed: {stored.message}")
        _ = stored.trajectory, stored.log, stored.stopped
        if stored.early_stop is not None and (others := changed_deciders(stored.content, self.task)):
            raise TrialError(
                Cause.CONFIGURATION,
                f"the run was stopped early by criteria that are others today ({', '.join(others)}), so nobody knows "
                "what the agent would have done; run it again",
            )

    def _begin_record(self) -> None:
        if self.settings.in_place:
            return
        directory = self.settings.run_directory
        self.folder = directory.new_trial(self.task.task_id, self.spec.label)
        standing = self._description | {
            "status": "error",
            "cause": Cause.INTERRUPTED,
            "message": "the process that judged this trial died",
            "stored": self._origin,
        }
        self._active = directory.mark_active(self.folder, standing)

    # -- grade

    def grade(self) -> Decision:
        """Judge every criterion on the stored evidence and apply the gate, as `Trial.grade` does."""
        if self._keep:
            return self.decision or self._leave_unjudged()
        with self._guarded():
            assert self._place is not None, "execute() comes first"
            place, stored = self._place, self._record_read
            environment, reference = place.begin_grading()
            evidence = self._evidence(environment, reference)
            self.results = judge(self.task.success_criteria, evidence, place.material.verify)
            place.refuse_faults()
            self.results += strictness_results(known_log(stored), strict_tools(self.task, "fail"), len(self.results))
            self.results = marked(self.results, stored.early_stop)
            self.decision = decide(self.results, stored.stopped, stored.early_stop)
            self._marks["graded"] = clock.now()
            return self.decision

    @property
    def evidence(self) -> Evidence:
        """What the criteria look at; of a trial that keeps its outcome without a shell."""
        return self._evidence({}, None)

    def _evidence(self, environment: dict[str, str], reference: Workspace | None) -> Evidence:
        stored = self._record_read
        gaps = gaps_of(stored.manifest) if stored.manifest else ()
        if self._place is None:
            files = StoredFiles(stored.folder / "workspace", self.task.sandbox.ignore_patterns, gaps)
            return Evidence(files, self.trajectory, self._log, _no_shell, known_as=stored.workspace_root)
        desk = self._place.desk(self._judges, self.folder)
        made = evidence_in(self._place.sandbox, self.task, self.trajectory, self._log, environment, reference, desk)
        files = StoredFiles(made.workspace.root, self.task.sandbox.ignore_patterns, gaps)
        return with_gaps(dataclasses.replace(made, workspace=files, known_as=stored.workspace_root), gaps)

    @property
    def trajectory(self) -> Trajectory | None:
        """What the agent did."""
        return known_trajectory(self._stored) if self._stored is not None and self._is_ready else None

    @property
    def _log(self) -> InvocationLog:
        return known_log(self._record_read)

    @property
    def _sealed(self) -> bool:
        return self._is_ready

    # -- record

    def finish(self) -> None:
        """Write the record and remove the sandbox. Safe on every path and when called twice."""
        active, self._active = self._active, None
        place, self._place = self._place, None
        self._marks["finished"] = clock.now()
        try:
            if active is not None or (place is not None and self.settings.in_place and self.judged):
                self._write_record()
            if active is not None:
                active.unlink(missing_ok=True)
        finally:
            if place is not None:
                with self._guarded():
                    place.close()
                self._leftovers = place.leftovers

    @property
    def leftovers(self) -> tuple[str, ...]:
        """What could not be removed from the disk after the trial."""
        return self._leftovers

    def _write_record(self) -> None:
        assert self.folder is not None
        try:
            write_json(self.folder / "record.json", self._record())
        except (OSError, TypeError, ValueError, RecursionError) as error:
            raise TrialError(Cause.EVIDENCE_LOST, f"the record could not be written: {error}") from None

    def _record(self) -> dict[str, Any]:
        content = dict(self._record_read.content)
        if not self.settings.in_place:
            content["workspace"] = None
        facts = self._facts()
        if self.settings.in_place:
            del facts["stored"]
            return content | facts | {"judged_later": {"environment": facts["environment"], "times": self._marks}}
        return content | facts | {"times": self._marks}

    @property
    def _description(self) -> dict[str, Any]:
        return records.describe_trial(self.spec, self.item) | {"canary": self.settings.run_directory.canary}

    @property
    def _origin(self) -> dict[str, Any]:
        """Where the trial is stored, what it had cost, and what was not there when it was judged again."""
        if self._stored is None:
            return {"record": None, "run": str(self.settings.run)}
        content = self._stored.content
        spent = [content.get(key) or {} for key in ("spending", "simulated_user_spending", "judge_spending")]
        costs = [(each.get("usage") or {}).get("cost_usd") for each in spent]
        return {
            "record": str(self._stored.path),
            "run": str(self.settings.run),
            "fingerprint": content.get("fingerprint"),
            "kept": self._keep,
            "cost_usd": sum(cost for cost in costs if cost is not None),
            "cost_complete": all(each.get("cost_complete", True) for each in spent),
            "without": self._without,
            "differs": differing_settings(content, self.task),
            "not_in_record": missing_of(gaps_of(self._stored.manifest) if self._stored.manifest else ()),
        }

    def _facts(self) -> dict[str, Any]:
        """The part of the record that summaries are made of."""
        content = self._stored.content if self._stored is not None else {}
        place = self._place
        environment = isolation_of(place.sandbox) if place is not None and place.is_made else content.get("environment")
        carried = (
            *("agent", "model", "stopped", "early_stop", "spending", "simulated_user_spending", "earlier_attempts"),
            *("leaks", "fingerprint", "fingerprint_parts", "material"),
        )
        own = {} if self._keep else self._description
        return (
            {key: content.get(key) for key in carried}
            | (own or {"trial": content["trial"]})
            | {
                "environment": environment,
                "status": self.status,
                "judged": self.judged,
                "cause": self.fault.cause if self.fault else None,
                "message": self.message,
                "score": self.decision.score if self.decision else None,
                "criteria": records.describe_results(self.criteria),
                "post_failure_criteria": records.describe_results(self.post_failure),
                "judge_spending": None if self._keep else self._judges.as_record(),
                "stored": self._origin,
            }
        )

    def summary(self) -> dict[str, object]:
        """What reports say of the trial, as plain data."""
        return summary_of(self._facts(), folder=self.folder)


def _no_shell(command: str, *, timeout: float, shims: bool = False) -> Any:
    raise CoderEvalError("a trial that keeps its outcome runs no commands")
