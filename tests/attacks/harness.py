"""The process that attacks are aimed at: it runs trials in the fake host and prints what it finds, a line for each.

`python -m tests.attacks.harness` reads its orders as JSON from standard input.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from pytest_codereval.errors import CoderEvalError
from pytest_codereval.sandbox import drivers
from pytest_codereval.sandbox.choice import Choice
from pytest_codereval.sandbox.drivers import Order
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.protocol import Phase, Sandbox
from pytest_codereval.store.run_directory import RunDirectory
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.models import SandboxConfig
from pytest_codereval.task.trials import expand
from pytest_codereval.trial import Trial, TrialSettings

from .messages import LEAVE
from .model import Attack, World
from .open_driver import OpenDriver, take_off_guards
from .runner import groups
from .world import digest, restore

_PLACE = re.compile(r"@(\w+)@")


@dataclasses.dataclass(frozen=True)
class Orders:
    """What the harness is to do: which groups of attacks to try, against which driver, in which world."""

    driver: str
    image: str | None
    groups: tuple[str, ...]
    world: World


def main() -> int:
    """Run each group's trial."""
    given = json.load(sys.stdin)
    orders = Orders(given["driver"], given["image"], tuple(given["groups"]), World(**given["world"]))
    drivers.add_drivers([OpenDriver()], "the attacks")
    if orders.driver == "open":
        take_off_guards()
    os.chdir(orders.world.checkout)
    directory = RunDirectory(Path(orders.world.run))
    held = _hold_descriptor(orders.world)
    trials = groups(orders.driver)
    with _neighbour(orders) as neighbour:
        places = {**dataclasses.asdict(orders.world), "neighbour": str(neighbour), "harness": str(os.getpid())}
        for name in orders.groups:
            _write_task(name, [attack for _, attack in trials[name]], places)
        for name in orders.groups:
            print(json.dumps({"group": name, **_facts(name, orders, directory)}), flush=True)
    os.close(held)
    return 0


def _hold_descriptor(world: World) -> int:
    """A descriptor of a file that has no name, as something that only the harness can read."""
    path = Path(world.base, "descriptor")
    path.write_text(world.tokens["descriptor"])
    held = os.open(path, os.O_RDONLY)
    path.unlink()
    return held


@contextlib.contextmanager
def _neighbour(orders: Orders) -> Iterator[Path]:
    """The workspace of another trial, which runs meanwhile as the same user."""
    order = Order(SandboxConfig(), EnvironmentPlan(), image=orders.image, trial="neighbour", session="attacks")
    sandbox: Sandbox = Choice(driver=orders.driver, image=orders.image).create(order)
    try:
        token, mark = orders.world.tokens["neighbour"], orders.world.mark
        sandbox.write_file("neighbour.txt", token.encode())
        loop = f"setsid sh -c 'while :; do sleep 1; done' {mark}-neighbour"
        script = f"NEIGHBOUR={token} {loop} >/dev/null 2>&1 & sleep 0.05"
        sandbox.run(["/bin/sh", "-c", script], phase=Phase.AGENT, timeout=60)
        notes = (PRELUDE + LEAVE).replace("@mark@", mark).replace("@tmp@", orders.world.tmp)
        sandbox.run(["/bin/bash", "-c", notes], phase=Phase.AGENT, timeout=60)
        yield sandbox.workspace
    finally:
        with contextlib.suppress(CoderEvalError):
            sandbox.close()


def _write_task(name: str, attacks: Sequence[Attack], places: dict[str, Any]) -> None:
    def fill(text: str) -> str:
        return _PLACE.sub(lambda found: str(_value(found[1], places)), text)

    criteria = [
        {"description": attack.name, **criterion}
        for attack in attacks
        for criterion in json.loads(fill(json.dumps(list(attack.criteria))))
    ]
    world = places["tokens"]
    content = {
        "task_id": name,
        "description": f"the task {world['task']}",
        "initial_prompt": "attack",
        "agent": {
            "type": "script",
            "steps": [{"bash": fill(PRELUDE + attack.script), "timeout": attack.timeout} for attack in attacks],
        },
        "reference": {"directory": "reference"},
        "success_criteria": [
            {"type": "file_contains", "path": "answer.txt", "includes": [world["answer"]], "description": "answered"},
            *criteria,
        ],
        **json.loads(fill(json.dumps(attacks[0].setting.fields))),
    }
    content.setdefault("sandbox", {}).setdefault("python", None)
    path = Path(places["task_dir"], f"{name}.yaml")
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


PRELUDE = """\
exec 2>&1
py() { local p=/usr/bin/python3; [ -x $p ] || p=python3; "$p" "$@"; }
need() { command -v "$1" >/dev/null || { echo "CANNOT: no $1 here"; exit; }; }
root=${HOME%/*}
case $root in @tmp@/cev-*) ;; *) echo "CANNOT: this is no sandbox"; exit ;; esac
"""


def _value(name: str, places: dict[str, Any]) -> object:
    """A place of the world; a name of `tokens` is refused, since no script may know what it is to find."""
    if name == "tokens" or name not in places:
        raise KeyError(f"no place @{name}@")
    return places[name]


def _facts(name: str, orders: Orders, directory: RunDirectory) -> dict[str, Any]:
    """Run one trial as a session would, and tell what can be seen of it from outside."""
    world = orders.world
    spec = expand(load_task(Path(world.task_dir, f"{name}.yaml")))[0]
    choice = Choice(driver=orders.driver, image=orders.image)
    trial = Trial(spec, TrialSettings(directory, Path(world.checkout), choice=choice))
    restore(world)
    before, began, raised = digest(world), time.monotonic(), ""
    alive: list[str] = []
    try:
        try:
            trial.execute()
            alive = _marked(world)
            trial.grade()
        finally:
            alive = alive or _marked(world)
            trial.finish()
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
    after = digest(world)
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    return {
        "folder": str(trial.folder),
        "raised": raised,
        "alive": alive,
        "seconds": time.monotonic() - began,
        "leftovers": list(trial.leftovers),
        "left": _left(trial),
        "changed": sorted(changed),
    }


def _left(trial: Trial) -> str:
    """The folder of the trial's sandbox, if it is still there."""
    try:
        root = trial.sandbox.root
    except AssertionError:
        return ""
    return str(root) if root.exists() else ""


def _marked(world: World) -> list[str]:
    """The marks of processes on this machine that attacks have left behind; those that go on in new ones too."""
    found = set()
    for _ in range(3):
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) != os.getpid():
                with contextlib.suppress(OSError):
                    text = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
                    found |= set(re.findall(rf"{world.mark}-[\w-]+", text))
        time.sleep(0.01)
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main())
