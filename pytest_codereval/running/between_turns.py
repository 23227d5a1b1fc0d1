"""Judging between two turns of a dialogue: on a copy of the workspace, in a sandbox that the agent never sees."""

from __future__ import annotations

import contextlib

from ..judging.gate import Decision, decide
from ..judging.judge import judge
from ..recorder.invocation import InvocationLog
from ..sandbox.grading_copy import copy_for_grading
from ..sandbox.material import GradingMaterial
from ..sandbox.protocol import Phase
from ..trajectory.model import Trajectory
from .attempt import Attempt, Plan
from .evidence import evidence_in
from .judge_accounts import JudgeAccounts
from .judge_desk import desk_for


def judge_between_turns(plan: Plan, attempt: Attempt, trajectory: Trajectory | None, judges: JudgeAccounts) -> Decision:
    """How the trial would end if its agent stopped now. Every process that the agent left running is killed.

    HOME, TMPDIR and the virtual environment of `pre_run` are not there, so a criterion that needs them does not pass
    before the end. `judges` pay for judges. Raises TrialError when the agent tampered with anything.
    """
    task = plan.spec.task
    assert attempt.sandbox is not None, "stage() comes first"
    attempt.sandbox.reap()
    attempt.staged_material.verify()
    log = attempt.equipment.recorder.so_far() if attempt.equipment is not None else InvocationLog()
    with contextlib.closing(plan.make_sandbox(seeded=False)) as place:
        workspace = attempt.sandbox.workspace
        never = (plan.spec.path.parent, plan.rootdir, plan.run_directory)
        copy_for_grading(workspace, place.workspace, workspace, never, attempt.sandbox)
        material = GradingMaterial(
            task,
            plan.spec.path,
            place.root,
            plan.spec.dataset_paths,
            keep_out=attempt.own_places,
            variables=place.environment(Phase.PREPARE),
            show=place.show,
        )
        material.hide()
        place.begin_grading()
        environment = material.reveal()
        reference, desk = material.reference_workspace(), desk_for(plan, judges)
        evidence = evidence_in(place, task, trajectory, log, environment, reference, desk)
        return decide(judge(task.success_criteria, evidence, material.verify))
