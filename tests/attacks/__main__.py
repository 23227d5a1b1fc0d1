"""`python -m tests.attacks [DRIVER ...]` prints what comes of each attack under each driver, as a table in Markdown."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from .availability import why_not
from .judging import Result
from .runner import DRIVERS, all_attacks, run_driver


def main(asked: Sequence[str]) -> int:
    """The exit status is 1 when something came otherwise than expected."""
    drivers = [name for name in DRIVERS if not asked or name in asked]
    reasons = {name: why_not(name) for name in drivers}
    with ThreadPoolExecutor() as pool:
        running = {name: pool.submit(run_driver, name) for name in drivers if not reasons[name]}
    found = {name: {result.attack.name: result for result in each.result().results} for name, each in running.items()}
    print(_table(drivers, found))
    for name, reason in reasons.items():
        if reason:
            print(f"\n{name} cannot be had here: {reason}")
    wrong = [result for results in found.values() for result in results.values() if not result.right]
    for result in wrong:
        print(f"\n{result}")
    return 1 if wrong else 0


def _table(drivers: Sequence[str], found: Mapping[str, Mapping[str, Result]]) -> str:
    heads = ["", "attack", "it tries to", "success means", *drivers]
    rows = [heads, ["---"] * len(heads)]
    for theme, attack in all_attacks():
        cells = [_cell(found.get(name, {}).get(attack.name)) for name in drivers]
        rows.append([theme, attack.name, attack.tries, attack.success, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(result: Result | None) -> str:
    if result is None:
        return "-"
    return result.state if result.right else f"**{result.state}** (expected {result.expected})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
