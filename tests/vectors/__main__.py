"""Command line: compare every vector of a directory, list the differences, count them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_codereval.errors import CoderEvalError
from pytest_codereval.judging.bounded import bounded

from .kinds import RUNNERS
from .outcome import Outcome, Vector, agrees
from .rules import justification

SHOWN_LENGTH = 300


class Tally:
    """Counts of compared vectors."""

    def __init__(self) -> None:
        self.total = 0
        self.agree = 0
        self.justified = 0

    @property
    def unexplained(self) -> int:
        return self.total - self.agree - self.justified


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when every difference is justified, 1 when one is not, 2 when there was nothing to compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.vectors", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="compare only this file; repeatable"
    )
    parser.add_argument("--skip", action="append", default=[], metavar="NAME", help="leave this file out; repeatable")
    options = parser.parse_args(arguments)
    files = {path.stem: path for path in sorted(options.directory.glob("*.jsonl"))}
    only = {name.removesuffix(".jsonl") for name in options.only}
    skip = {name.removesuffix(".jsonl") for name in options.skip}
    unknown = sorted((only - files.keys()) | (skip - files.keys() - RUNNERS.keys()))
    if not files or unknown:
        missing = ", ".join(unknown) or "*.jsonl"
        print(f"vectors: no file {missing} in {options.directory}", file=sys.stderr)
        return 2
    tally = Tally()
    for name, path in files.items():
        if name not in skip and (not only or name in only):
            _compare_file(name, path, tally)
    print(
        f"vectors: agree {tally.agree} of {tally.total}, justified {tally.justified}, unexplained {tally.unexplained}"
    )
    return 1 if tally.unexplained else 0


def _compare_file(name: str, path: Path, total: Tally) -> None:
    if name not in RUNNERS:
        print(f"{name}: left out, unknown kind of vectors")
        return
    tally = Tally()
    lines = list(_differences(name, path, tally))
    print(f"{name}: {tally.agree} of {tally.total} agree")
    print("".join(f"  {line}\n" for line in lines), end="")
    total.total += tally.total
    total.agree += tally.agree
    total.justified += tally.justified


def _differences(name: str, path: Path, tally: Tally) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        tally.total += 1
        try:
            vector = json.loads(line)
            outcome = _outcome(name, vector)
            if agrees(vector, outcome):
                tally.agree += 1
                continue
            rule = justification(name, vector, outcome)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            yield f"line {number}: {name}: no vector of this kind: {type(error).__name__}: {error}; UNEXPLAINED"
            continue
        if rule is not None:
            tally.justified += 1
        expected = json.dumps(vector["expected"])
        yield _line(f"{vector.get('id', f'line {number}')}: {name}: ours {outcome}, expected {expected}", rule)


def _line(text: str, rule: str | None) -> str:
    text = " ".join(text.split())
    if len(text) > SHOWN_LENGTH:
        text = f"{text[:SHOWN_LENGTH]}..."
    return f"{text}; {f'justified: {rule}' if rule else 'UNEXPLAINED'}"


def _outcome(name: str, vector: Vector) -> Outcome:
    try:
        return bounded(lambda: RUNNERS[name](vector))
    except CoderEvalError as error:
        return Outcome("unjudged", reason=str(error))


if __name__ == "__main__":
    sys.exit(main())
