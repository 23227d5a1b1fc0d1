"""Which rules of a recorded tool can never answer, because earlier ones answer all of their calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from .cli_models import CliMatch
from .option_models import DeclaredFlags
from .predicates import FlagPredicate, TextPredicate

_NOTHING_DECLARED = DeclaredFlags()
_ByChain = dict[tuple[str, ...], list[tuple[int, CliMatch]]]


def covered(matches: Iterable[CliMatch | None], declared: DeclaredFlags = _NOTHING_DECLARED) -> list[tuple[int, int]]:
    """Return pairs (rule, earlier rule) where the earlier ones answer every call that the rule could.

    None stands for a rule that may leave its calls to later ones.
    """
    found = []
    same: dict[str, int] = {}
    earlier: _ByChain = {}
    for index, match in enumerate(matches):
        if match is None:
            continue
        whole = same.setdefault(match.model_dump_json(), index)
        if whole != index:
            found.append((index, whole))
            continue
        blocking = [_first_covering(part, earlier, declared) for part in _alternatives(match)]
        if all(position is not None for position in blocking):
            found.append((index, max(position for position in blocking if position is not None)))
        for chain in () if match.nth is not None else match.chains():
            earlier.setdefault(chain, []).append((index, match))
    return found


def _alternatives(match: CliMatch) -> list[CliMatch]:
    """The match, as one for each of its verbs."""
    if match.verb_any_of is None:
        return [match]
    return [match.model_copy(update={"verb": verb, "verb_any_of": None}) for verb in match.verb_any_of]


def _first_covering(match: CliMatch, earlier: _ByChain, declared: DeclaredFlags) -> int | None:
    (chain,) = match.chains()
    candidates = [item for length in range(len(chain) + 1) for item in earlier.get(chain[:length], ())]
    return min((position for position, other in candidates if covers(other, match, declared)), default=None)


def covers(earlier: CliMatch, later: CliMatch, declared: DeclaredFlags = _NOTHING_DECLARED) -> bool:
    """Whether `earlier` certainly matches every call that `later` matches.

    What asks for one call of many (`nth`) covers nothing; what is covered may ask for it, for it counts calls that
    `earlier` answers.
    """
    return (
        earlier.nth is None
        and all(_circumstances_covered(earlier, later))
        and _flags_covered(earlier, later, declared)
        and all(_begins(chain, earlier.chains()) for chain in later.chains())
        and earlier.parsing(declared.names) == later.parsing(declared.names)
    )


def _begins(chain: tuple[str, ...], prefixes: Iterable[tuple[str, ...]]) -> bool:
    return any(chain[: len(prefix)] == prefix for prefix in prefixes)


def _circumstances_covered(earlier: CliMatch, later: CliMatch) -> Iterator[bool]:
    yield earlier.stdin is None or _implies(later.stdin, earlier.stdin)
    yield earlier.cwd is None or _implies(later.cwd, earlier.cwd)
    for wanted, given in ((earlier.env, later.env), (earlier.state, later.state)):
        yield all(_implies((given or {}).get(name), test) for name, test in (wanted or {}).items())


def _flags_covered(earlier: CliMatch, later: CliMatch, declared: DeclaredFlags) -> bool:
    own, asked = earlier.flags or {}, later.flags or {}
    given = list(_tests(asked, declared))
    for name, test in _tests(own, declared):
        if not any(other == name and _implies_flag(there, test) for other, there in given):
            return False
    read_alike = bool(declared) and all(name in declared.names for name in (*own, *asked))
    return read_alike or own == asked or not any(test.absent for test in own.values())


def _tests(flags: Mapping[str, FlagPredicate], declared: DeclaredFlags) -> Iterator[tuple[str, FlagPredicate]]:
    """The tests of flags, each under the first name that is declared for its flag."""
    return ((declared.first_name(name), test) for name, test in flags.items())


def _implies_flag(given: FlagPredicate, wanted: FlagPredicate) -> bool:
    return set(given.aliases) <= set(wanted.aliases) and _implies(given, wanted)


def _implies(given: TextPredicate | None, wanted: TextPredicate) -> bool:
    """Whether texts that satisfy `given`, None for any text, certainly satisfy `wanted`."""
    if given is None:
        return False
    if given.condition == wanted.condition:
        return True
    if wanted.present:
        return given.absent is None
    texts = _texts(given)
    if wanted.contains is not None:
        known = (given.contains,) if given.contains is not None else texts
        return bool(known) and all(wanted.contains in text for text in known)
    return bool(texts) and set(texts) <= set(_texts(wanted))


def _texts(predicate: TextPredicate) -> tuple[str, ...]:
    """The only texts that satisfy the predicate; empty when they cannot be listed."""
    return (predicate.equals,) if predicate.equals is not None else predicate.any_of or ()
