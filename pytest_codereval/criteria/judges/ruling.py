"""What comes of the opinions of a judge, as it is kept and as it is told."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import JudgingError
from ...text import clean, shorten
from ...trajectory.spending import Spending
from ..contract import Judgement
from .scrubbing import Scrubber
from .verdict import Opinion, opinion_of

REASON_LENGTH = 300


def key_of(parts: Mapping[str, object]) -> str:
    """SHA-256 over all that a judgement depends on. Texts of others stand by themselves in `parts`, never joined."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode("utf-8", "replace")).hexdigest()


@dataclasses.dataclass(frozen=True)
class Ruling:
    """The opinions of one judgement, without the reference's text. `temperature` is None where the model takes none."""

    model: str
    opinions: tuple[Opinion, ...]
    temperature: float | None = None

    def kept(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)

    @property
    def scores(self) -> list[float]:
        return [opinion.score for opinion in self.opinions]

    @property
    def score(self) -> float:
        """The median."""
        return float(statistics.median(self.scores))

    @property
    def spread(self) -> float:
        """The largest score less the smallest."""
        return round(max(self.scores) - min(self.scores), 9)

    @property
    def telling(self) -> Opinion:
        """The first opinion whose score is nearest to the median."""
        return min(self.opinions, key=lambda opinion: abs(opinion.score - self.score))


def ruling_from(kept: Mapping[str, Any] | None) -> Ruling | None:
    """The ruling that was kept, None for anything else."""
    try:
        assert kept is not None
        opinions = tuple(map(opinion_of, kept["opinions"]))
        return Ruling(str(kept["model"]), opinions, kept["temperature"]) if opinions else None
    except (AssertionError, AttributeError, JudgingError, LookupError, TypeError, ValueError):
        return None


def scrubbed(opinions: Sequence[Opinion], scrubber: Scrubber) -> tuple[Opinion, ...]:
    """The opinions without what they quote of the reference."""
    return tuple(
        dataclasses.replace(
            opinion,
            rationale=scrubber.scrub(opinion.rationale),
            findings=tuple(map(scrubber.scrub, opinion.findings)),
        )
        for opinion in opinions
    )


def judgement_of(
    ruling: Ruling,
    spent: Spending,
    *,
    cached: bool,
    missing: Sequence[str] = (),
    notes: Sequence[str] = (),
    transcript: str | None = None,
    more: Mapping[str, object] | None = None,
) -> Judgement:
    """The criterion's judgement, with a record of how the judge came to it."""
    several = f" (median of {len(ruling.scores)}, spread {ruling.spread:.2g})" if len(ruling.scores) > 1 else ""
    first = shorten(" ".join(ruling.telling.rationale.split()), REASON_LENGTH).replace("\n", " ")
    return Judgement(
        ruling.score,
        f"{ruling.model} scored {ruling.score:.3g}{several}: {first}",
        _details(ruling, missing, notes),
        judge={
            "model": clean(ruling.model),
            "temperature": ruling.temperature,
            "samples": len(ruling.scores),
            "scores": ruling.scores,
            "spread": ruling.spread,
            "rationale": ruling.telling.rationale,
            "findings": list(ruling.telling.findings),
            "usage": dataclasses.asdict(spent),
            "missing_files": list(missing),
            "left_out": list(notes),
            "transcript": transcript,
            "cached": cached,
            **(more or {}),
        },
    )


def _details(ruling: Ruling, missing: Sequence[str], notes: Sequence[str]) -> str:
    lines = [f"scores: {', '.join(f'{score:.3g}' for score in ruling.scores)}"] if len(ruling.scores) > 1 else []
    lines += [f"rationale: {ruling.telling.rationale}"]
    lines += [f"- {finding}" for finding in ruling.telling.findings]
    if missing:
        lines.append(f"files that the judge was not shown: {', '.join(missing)}")
    lines += [note for note in notes if "not shown:" not in note]
    return "\n".join(lines)
