"""Whether a command line matches a pattern of arguments when some of its words are not known."""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Mapping, Sequence

from ...recorder.argv import ArgvPattern, FlagTest, compare
from .interpreter_code import MASK

_FLAG_WITH_VALUE = re.compile(r"--?[\w.-]+=")


class Known(enum.Enum):
    """What is known of a match. `OPEN`: it depends on words that are not known."""

    MATCH = "match"
    OPEN = "open"
    NO = "no"


def known_match(pattern: ArgvPattern, words: Sequence[str], known: Sequence[bool]) -> Known:
    """Hold arguments against `pattern`. A word that is not known may be any number of arguments, whatever they are;
    one behind a flag that takes a value is taken for that value.
    """
    if all(known):
        return Known.MATCH if compare(pattern, words).matched else Known.NO
    if _matches_anyway(pattern, [word if sure else _marked(word) for word, sure in zip(words, known, strict=True)]):
        return Known.MATCH
    return Known.OPEN if may_match(pattern, words[: list(known).index(False)]) else Known.NO


def may_match(pattern: ArgvPattern, begin: Sequence[str]) -> bool:
    """Whether a command line that begins so, and goes on in any way, can match."""
    positional, flags = pattern.split(begin)
    wanted = [(*verb, *pattern.positional) for verb in pattern.verbs or ((),)]
    banned = (name for test in pattern.flags if test.predicate == "absent" for name in test.names)
    agrees = any(all(a == b for a, b in zip(words, positional, strict=False)) for words in wanted)
    return agrees and flags.keys().isdisjoint(banned)


def _marked(word: str) -> str:
    flag = _FLAG_WITH_VALUE.match(word)
    return f"{flag.group() if flag else ''}{MASK}"


def _matches_anyway(pattern: ArgvPattern, words: Sequence[str]) -> bool:
    """Whether the words that are known satisfy every facet by themselves."""
    positional, flags = pattern.split(words)
    sure = tuple(itertools.takewhile(lambda word: MASK not in word, positional))
    wanted = [(*verb, *pattern.positional) for verb in pattern.verbs or ((),)]
    if not any(sure[: len(chain)] == chain for chain in wanted):
        return False
    return all(_holds_anyway(test, flags) for test in pattern.flags)


def _holds_anyway(test: FlagTest, flags: Mapping[str, Sequence[str]]) -> bool:
    given = [value for name in test.names for value in flags.get(name, ())]
    if test.predicate == "present":
        return bool(given)
    values = [value for value in given if MASK not in value]
    return test.predicate != "absent" and bool(values) and test.holds(values)
