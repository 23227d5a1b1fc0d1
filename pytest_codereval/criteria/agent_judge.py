"""Criterion type agent_judge: an agent looks around in a copy of the workspace and must submit a verdict."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..agents import registry
from ..errors import JudgingError
from ..sandbox.digest import digest
from ..task.judge_models import AgentJudge
from ..text import clean
from .contract import Evidence, Judgement
from .judges.agent_run import AgentRun, plain_config
from .judges.agents import Box, agent_of, how_to_answer, name_of
from .judges.bill import Bill
from .judges.desk import JudgeDesk, desk_of
from .judges.material import Block, Material, gather, reference_blocks
from .judges.prompt import NO_FENCE, new_fence, question, rules
from .judges.ruling import Ruling, judgement_of, key_of, ruling_from, scrubbed
from .judges.scrubbing import Scrubber
from .judges.transcript import write_transcript

if TYPE_CHECKING:
    from ..sandbox.protocol import Sandbox

MOST_NAMED = 50
"""Names of what a copy lacks that a judge is told."""

_PLACE = "your working directory is a copy of the agent's workspace; nothing that you do there changes the original"
_WITH_REFERENCE = "; the reference lies in its folder _reference, which the agent has not seen"


def check(criterion: AgentJudge, evidence: Evidence) -> Judgement:
    """The agent's score. Nothing that it does touches the evidence.

    Raises JudgingError for an agent that crashes, runs into a limit or hands in no verdict in shape, and NotJudged when
    there is no money for it.
    """
    desk = desk_of(evidence)
    if desk.make_room is None:
        raise JudgingError("no sandbox can be made here for an agent that judges")
    if criterion.include_reference and desk.task.reference is not None and evidence.reference is None:
        raise JudgingError("the task's reference is not at hand for its judge")
    shown = evidence if criterion.include_reference else dataclasses.replace(evidence, reference=None)
    material = _material(criterion, evidence, shown, desk)
    with desk.make_room(shown) as room:
        if room.left_out:
            material = dataclasses.replace(material, blocks=(*material.blocks, _lacks(room.left_out)))
        return _judged(criterion, desk, material, room.sandbox)


def _material(criterion: AgentJudge, evidence: Evidence, shown: Evidence, desk: JudgeDesk) -> Material:
    found = gather(criterion.model_copy(update={"include_reference": False}), evidence, desk)
    answers = list(found.answers)
    if shown.reference is not None:
        list(reference_blocks(shown.reference, answers))
    place = Block("workspace", "", None, _PLACE + (_WITH_REFERENCE if shown.reference is not None else ""))
    return Material((place, *found.blocks), found.missing, tuple(answers))


def _lacks(left_out: Sequence[str]) -> Block:
    """The agent chose these names: they are data like all that it wrote."""
    rest = f", and {len(left_out) - MOST_NAMED} more" if len(left_out) > MOST_NAMED else ""
    names = "\n".join(" ".join(clean(name).split()) for name in left_out[:MOST_NAMED])
    return Block("names", "", names, f"the copy lacks what is named there{rest}")


def _looked_at(workspace: Path) -> list[tuple[str, str, bool]]:
    """All of the copy: its paths, their contents, and which files can be executed."""
    entries = digest(workspace, excluded_names=()).entries
    return [(name, value, os.access(workspace / name, os.X_OK)) for name, value in entries.items()]


def _judged(criterion: AgentJudge, desk: JudgeDesk, material: Material, sandbox: Sandbox) -> Judgement:
    fence = new_fence()
    name = name_of(criterion)
    config = agent_of(criterion, rules(fence, how_to_answer(name, fence)))
    provider = registry.provider_of(name, config)
    bill = Bill(desk.accounts, criterion.max_usd, provider)
    scrubber = Scrubber(material.answers)
    key = key_of(
        {
            "agent": plain_config(config),
            "rules": rules(NO_FENCE, how_to_answer(name, NO_FENCE)),
            "prompt": criterion.prompt,
            "material": material.plain,
            "workspace": _looked_at(sandbox.workspace),
            "sandbox": desk.task.sandbox.model_dump(mode="json"),
            "system_prompt": criterion.agent.system_prompt if criterion.agent is not None else None,
            "max_turns": criterion.max_turns,
        }
    )
    prompt = question(criterion.prompt, material.blocks, fence)
    asked = [("system", config.system_prompt or ""), ("user", prompt)]
    keep = functools.partial(_transcript, criterion, desk, scrubber, name)
    with desk.accounts.turn(provider, criterion.turn_timeout), desk.held(key) as place:
        ruling = ruling_from(place.read())
        cached = ruling is not None
        if ruling is None:
            bill.admit(config.model)
            run = AgentRun(criterion, desk, config, sandbox, bill)
            try:
                opinion = run.verdict(prompt, Box(name, fence))
            except JudgingError as error:
                kept = keep([*asked, *run.messages()]) if run.events else None
                where = f" ({kept} has what it did)" if kept else ""
                raise JudgingError(f"{scrubber.scrub(str(error))}{where}") from None
            asked += run.messages()
            ruling = Ruling(f"{name} ({config.model})" if config.model else name, scrubbed([opinion], scrubber))
            place.write(ruling.kept())
    return judgement_of(
        ruling,
        bill.spending,
        cached=cached,
        missing=[scrubber.scrub(path) for path in material.missing],
        notes=[note for note in material.notes if _PLACE not in note],
        transcript=keep([*asked, ("verdict", f"{ruling.score:g}: {ruling.telling.rationale}")], cached),
        more={"agent": name},
    )


def _transcript(
    criterion: AgentJudge,
    desk: JudgeDesk,
    scrubber: Scrubber,
    name: str,
    messages: list[tuple[str, str]],
    cached: bool = False,
) -> str | None:
    if not criterion.capture_transcript:
        return None
    head = {"type": criterion.type, "criterion": criterion.description, "agent": name, "cached": cached}
    return write_transcript(desk.folder, head, messages, scrubber, criterion.max_transcript_chars)
