"""Gates and tolerance by workers, `-x` and JUnit XML: `python -m tests.sessions.gate_matrix` prints every session and
holds it against the table in docs/suites.md."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from .gated import GATE_NAMES, repeated, suite, write

TABLE = Path(__file__).parents[2] / "docs" / "suites.md"
LEFT_OUT = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:benchmark")
RATE = {"pass_rate": 0.5}

SESSIONS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "suite: all rows pass, gate met": (suite("t", "pppp", 1.0), ()),
    "suite: all rows pass, gate missed": (suite("t", "ppff", 0.9, pass_threshold=0.0), ()),
    "suite: a row fails, gate met": (suite("t", "fppppppp", 0.8), ()),
    "suite: a row fails, gate missed": (suite("t", "fppppppp", 0.9), ()),
    "suite: a row in error, gate met": (suite("t", "eppppppp", 0.8), ()),
    "suite: a row in error, gate missed": (suite("t", "eppppppp", 0.9), ()),
    "suite: rows deselected": (suite("t", "pppp", 1.0), ("-k", "not first")),
    "suite: a row skipped": (suite("t", "pp", 1.0, row="skip"), ()),
    "repeats: all pass": (repeated("t", "pppp", RATE), ()),
    "repeats: some fail, targets met": (repeated("t", "fppp", RATE), ()),
    "repeats: some fail, targets missed": (repeated("t", "ffpp", {"pass^2": 0.5}), ()),
    "repeats: one in error, targets met": (repeated("t", "eppppppp", RATE), ()),
    "repeats: deselected, those that ran pass": (repeated("t", "fppp", RATE), ("-k", "r2 or r3")),
    "repeats: deselected, one that ran fails": (repeated("t", "fppp", RATE), ("-k", "r1 or r3")),
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One session. `junit` is both, tasks or off."""

    session: str
    workers: int
    stop: bool
    junit: str


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What it came to. `kinds` counts the testcases by what became of them, `attributes` is what the XML says."""

    exit_status: int
    gate: str | None
    kinds: dict[str, int] | None
    attributes: dict[str, int] | None
    output: str


def run(cell: Cell) -> Outcome:
    """Run the session in an empty folder."""
    task, options = SESSIONS[cell.session]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        write(folder, [task])
        arguments = [*LEFT_OUT, f"-n{cell.workers}", "--codereval-run-dir=run", *options]
        arguments += ["-x"] if cell.stop else []
        if cell.junit != "off":
            arguments += ["--junitxml=junit.xml", "-o", f"codereval_junit={cell.junit}"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
        )
        gate, kinds, attributes = _read(folder / "junit.xml") if cell.junit != "off" else (None, None, None)
    return Outcome(done.returncode, gate, kinds, attributes, done.stdout + done.stderr)


def _read(path: Path) -> tuple[str | None, dict[str, int], dict[str, int]]:
    gate = None
    kinds: collections.Counter[str] = collections.Counter()
    root = ET.parse(path).getroot().find("testsuite")
    assert root is not None
    for case in root.iter("testcase"):
        kind = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        kinds[kind] += 1
        if str(case.get("name")).partition("[")[0] in GATE_NAMES:
            gate = kind
    names = {"failure": "failures", "error": "errors", "skipped": "skipped"}
    attributes = {kind: int(str(root.get(name))) for kind, name in names.items()}
    attributes["tests"] = int(str(root.get("tests")))
    return gate, dict(kinds), attributes


def expected() -> dict[str, list[str]]:
    """The table of the documentation: what stands behind each session's name."""
    rows = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in SESSIONS:
            rows[cells[0]] = cells[1:]
    return rows


def differences(cell: Cell, outcome: Outcome, row: list[str]) -> list[str]:
    """In what an outcome differs from the table."""
    plain, with_x, with_x_n2, gate, *counts = row
    status = int((with_x_n2 if cell.workers else with_x) if cell.stop else plain)
    found = [] if outcome.exit_status == status else [f"exit status {outcome.exit_status}, not {status}"]
    if outcome.kinds is None or outcome.attributes is None:
        return found
    if outcome.attributes["tests"] != sum(outcome.kinds.values()):
        found.append(f"tests={outcome.attributes['tests']} for {sum(outcome.kinds.values())} testcases")
    for kind in ("failure", "error", "skipped"):
        if outcome.attributes[kind] != outcome.kinds.get(kind, 0):
            found.append(f"{kind}: {outcome.attributes[kind]} said, {outcome.kinds.get(kind, 0)} there")
    stopped = cell.stop and plain != "0" and with_x_n2 == "2"
    if stopped:
        if outcome.gate == "passed":
            found.append("the gate of a session that was stopped is passed")
    elif outcome.gate != gate:
        found.append(f"the gate is {outcome.gate}, not {gate}")
    if cell.junit == "tasks" and not stopped:
        seen = [str(outcome.kinds.get(kind, 0)) for kind in ("failure", "error", "skipped")]
        found += [f"failures, errors, skipped are {seen}, not {counts}"] if seen != counts else []
    return found


def main() -> int:
    table = expected()
    missing = sorted(set(SESSIONS) - set(table))
    if missing:
        print(f"not in {TABLE}: {missing}")
        return 1
    cells = [
        Cell(session, workers, stop, junit)
        for junit in ("tasks", "both", "off")
        for session in SESSIONS
        for workers in (0, 2)
        for stop in (False, True)
    ]
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for cell, outcome in zip(cells, pool.map(run, cells), strict=True):
            found = differences(cell, outcome, table[cell.session])
            wrong += bool(found)
            print(
                f"{cell.session:42} -n{cell.workers} {'-x' if cell.stop else '  '} junit {cell.junit:5}  "
                f"exit {outcome.exit_status}  gate {outcome.gate or '-':8} {outcome.kinds or ''}"
                + "".join(f"\n    WRONG: {each}" for each in found),
                flush=True,
            )
            if found:
                print(outcome.output)
    print(f"{len(cells)} sessions, {wrong} not as the table says")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
