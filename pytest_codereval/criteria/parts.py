"""Scores made of parts, shared by the criteria that look for several things in one file."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..task.file_models import FilePattern
from .contract import Judgement
from .patterns import search


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of a score: how many of its checks are met, and a line about each that is not."""

    met: int
    total: int
    unmet: tuple[str, ...]


def includes_part(text: str, includes: Sequence[str]) -> Part:
    """How many of `includes` the text contains."""
    unmet = tuple(f"does not contain {item!r}" for item in includes if item not in text)
    return Part(len(includes) - len(unmet), len(includes), unmet)


def excludes_part(text: str, excludes: Sequence[str]) -> Part:
    """How many of `excludes` the text does not contain."""
    unmet = tuple(f"contains {item!r}" for item in excludes if item in text)
    return Part(len(excludes) - len(unmet), len(excludes), unmet)


def patterns_part(text: str, patterns: Sequence[FilePattern]) -> Part:
    """How many of `patterns` are found, or are absent where `must_match` is false."""
    unmet = tuple(
        f"{'does not match' if item.must_match else 'matches'} {item.pattern!r}"
        for item in patterns
        if (search(item.pattern, text, item.flags) is not None) != item.must_match
    )
    return Part(len(patterns) - len(unmet), len(patterns), unmet)


def mean_of_parts(path: str, parts: Sequence[Part]) -> Judgement:
    """Score the mean of the parts' ratios, 1 when there is no part; the details list what is not met."""
    if not parts:
        return Judgement(1.0, f"{path} is there; nothing more is asked of it")
    score = sum(part.met / part.total for part in parts) / len(parts)
    met = sum(part.met for part in parts)
    total = sum(part.total for part in parts)
    unmet = [line for part in parts for line in part.unmet]
    reason = f"{path}: {met} of {total} checks met" + (f"; {unmet[0]}" if unmet else "")
    return Judgement(score, reason, "\n".join(unmet))
