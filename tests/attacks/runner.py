"""Runs attacks against one driver, in a process of their own, and judges what came of each."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import bypassing, escalating, odd_files, reaching, reading, records, resources, trojans, waiting, writing
from .availability import image_for
from .judging import Result, Trial, judge
from .model import Attack, State
from .world import Host

THEMES = {
    "read": reading.ATTACKS,
    "reach": reaching.ATTACKS,
    "escalate": escalating.ATTACKS,
    "wait it out": waiting.ATTACKS,
    "write": writing.ATTACKS,
    "odd files": odd_files.ATTACKS,
    "trojans": trojans.ATTACKS,
    "records": records.ATTACKS,
    "bypass shims": bypassing.ATTACKS,
    "resources": resources.ATTACKS,
}
DRIVERS = ("open", "tempdir", "bubblewrap", "docker")
REPOSITORY = Path(__file__).parents[2]
MOST_SECONDS = 300


@dataclasses.dataclass(frozen=True)
class Report:
    """What came of attacks under one driver.

    `changed` are paths of the operator that are no longer what they were, but for those that only an attack changes
    which is known to have its way; `left` are folders of trials on the disk, but for those that an attack is judged by.
    """

    results: tuple[Result, ...] = ()
    changed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def __add__(self, other: Report) -> Report:
        return Report(self.results + other.results, self.changed + other.changed, self.left + other.left)


def all_attacks() -> list[tuple[str, Attack]]:
    """Each attack with its theme."""
    return [(theme, attack) for theme, attacks in THEMES.items() for attack in attacks]


@functools.cache
def groups(driver: str) -> dict[str, tuple[tuple[str, Attack], ...]]:
    """The attacks of each trial with their themes, by the name of the trial."""
    found: dict[str, list[tuple[str, Attack]]] = {}
    for theme, attack in all_attacks():
        name = attack.name if attack.setting.is_alone(driver) else attack.setting.name
        found.setdefault(name, []).append((theme, attack))
    return {name: tuple(attacks) for name, attacks in found.items()}


def run_driver(driver: str, chosen: Iterable[str] | None = None) -> Report:
    """Try all attacks, or those of the trials `chosen`, against a driver."""
    trials = groups(driver)
    wanted = [name for name in trials if chosen is None or name in chosen]
    kills = [name for name in wanted if driver == "open" and any(attack.kills for _, attack in trials[name])]
    batches = [[name for name in wanted if name not in kills], *([name] for name in kills)]
    return sum((_run_batch(driver, batch) for batch in batches if batch), Report())


def _run_batch(driver: str, names: Sequence[str]) -> Report:
    host = Host()
    try:
        orders = {
            "driver": driver,
            "image": image_for(driver),
            "groups": names,
            "world": dataclasses.asdict(host.world),
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.attacks.harness"],
            input=json.dumps(orders).encode(),
            env={**host.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(REPOSITORY), *sys.path)))},
            cwd=REPOSITORY,
            capture_output=True,
            check=False,
            timeout=MOST_SECONDS,
        )
        end = f"the harness ended with {done.returncode}: {done.stderr.decode('utf-8', 'replace')[-300:]}"
        return _report(driver, names, [json.loads(line) for line in done.stdout.splitlines()], end, host)
    finally:
        host.close()


def _report(driver: str, names: Sequence[str], told: Sequence[Mapping[str, Any]], end: str, host: Host) -> Report:
    facts = {each["group"]: each for each in told}
    results = [
        judge(theme, attack, number, Trial(driver, facts.get(name), end, tuple(host.services.seen), host.world))
        for name in names
        for number, (theme, attack) in enumerate(groups(driver)[name], start=1)
    ]
    known = [
        host.place(path) for each in results if each.expected is not State.PREVENTED for path in each.attack.changes
    ]
    changed = {path for each in told for path in each["changed"]}
    judged = {each["left"] for each in told}
    return Report(
        tuple(results),
        tuple(sorted(path for path in changed if not any(Path(path).is_relative_to(place) for place in known))),
        tuple(str(path) for path in Path(host.world.tmp).glob("cev-*/*/t*") if str(path) not in judged),
    )
