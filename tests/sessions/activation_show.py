"""A large suite of skill_triggered criteria judged from generated trajectories:
`python -m tests.sessions.activation_show TASK.yaml [-n WORKERS] [--no-junit]`.

An agent that asks no model takes the right skill, a wrong one, both, none or crashes, each by the digest of the prompt.
The labels are then counted once more, from the dataset and the recorded trajectories, by scikit-learn where it is
installed, and held against suites.json.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

PLUGIN = '''
import hashlib
import json
import os
import resource
import time
from pathlib import Path

import pytest

from pytest_codereval import AgentError, AgentKind, Cause, Message, ToolCall

WANTED = json.loads(Path(os.environ["ACTIVATION_WANTED"]).read_text())
SKILLS = sorted(set(WANTED.values()) - {""})


def chosen(prompt):
    """The skills that are used for a prompt; None crashes."""
    number = int(hashlib.sha256(prompt.encode()).hexdigest()[:8], 16) % 100
    wanted, other = WANTED[prompt.strip()], SKILLS[number % len(SKILLS)]
    if number < 2:
        return None
    if number < 10:
        return []
    if number < 20:
        return [other]
    if number < 25:
        return [other, wanted] if wanted else [other]
    return [wanted] if wanted else []


class Activating:
    def start(self, job):
        pass

    def run(self, prompt, deadline):
        skills = chosen(prompt)
        if skills is None:
            raise AgentError(Cause.REFUSED, "generated crash")
        now = time.time()
        for number, skill in enumerate(skills):
            yield ToolCall(f"call-{number}", "Skill", {"skill": skill}, "success", "loaded", None, now, now)
        yield Message("assistant", "done")

    def stop(self):
        return ()


def pytest_codereval_agents(config):
    return [AgentKind("activating", Activating)]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session):
    started = time.monotonic()
    yield
    worker = os.environ.get("PYTEST_XDIST_WORKER", "controller")
    used = {
        "closing_seconds": time.monotonic() - started,
        "maxrss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "children_maxrss_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }
    Path(os.environ["ACTIVATION_USED"], f"{worker}.json").write_text(json.dumps(used))
'''


def rows_of(task: Path) -> dict[str, dict[str, Any]]:
    """The rows of the task's dataset by their ids."""
    content = yaml.safe_load(task.read_text(encoding="utf-8"))
    lines = [line for name in content["dataset"]["paths"] for line in (task.parent / name).read_text().splitlines()]
    rows = [json.loads(line) for line in lines if line.strip()]
    return {row["id"]: row for row in rows}


def run(folder: Path, task: Path, arguments: argparse.Namespace) -> tuple[int, float, str]:
    """Run the session on a copy of the suite: exit status, seconds, output."""
    shutil.copytree(task.parent, folder / "suite")
    (folder / "conftest.py").write_text(PLUGIN, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / "used").mkdir()
    wanted = {row["prompt"].strip(): row["expected_skill"] for row in rows_of(task).values()}
    (folder / "wanted.json").write_text(json.dumps(wanted), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "--show-capture=no", "-p", "no:cacheprovider"]
    command += [f"-n{arguments.workers}", "--codereval-run-dir=run", "--codereval-agent=activating", "-rN"]
    command += [] if arguments.no_junit else ["--junitxml=junit.xml"]
    started = time.monotonic()
    done = subprocess.run(
        [*command, f"suite/{task.name}"],
        cwd=folder,
        env=os.environ | {"ACTIVATION_WANTED": str(folder / "wanted.json"), "ACTIVATION_USED": str(folder / "used")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return done.returncode, time.monotonic() - started, done.stdout + done.stderr


def labels(folder: Path, task: Path) -> dict[str, list[tuple[str, str]]]:
    """Expected and observed label of every row for each skill, from the dataset and the recorded trajectories."""
    rows = rows_of(task)
    skills = [each["skill_name"] for each in yaml.safe_load(task.read_text(encoding="utf-8"))["success_criteria"]]
    found: dict[str, list[tuple[str, str]]] = {skill: [] for skill in skills}
    for path in sorted((folder / "run" / "trials").glob("*/*/record.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        wanted = rows[record["trial"]["row_id"]]["expected_skill"]
        events = record["trajectory"]["events"] if record["trajectory"] else []
        used = {event["parameters"]["skill"] for event in events if event["kind"] == "ToolCall"}
        for skill in skills:
            observed = "(error)" if record["status"] == "error" else ("yes" if skill in used else "no")
            found[skill].append(("yes" if wanted == skill else "no", observed))
    return found


def compare(pairs: Iterable[tuple[str, str]], aggregate: Mapping[str, Any]) -> list[str]:
    """In what the aggregate of a criterion differs from scikit-learn's count of the same labels."""
    import sklearn.metrics

    expected, observed = zip(*pairs, strict=True)
    names = sorted({*expected, *observed})
    matrix = sklearn.metrics.confusion_matrix(expected, observed, labels=names).tolist()
    ours = [[aggregate["confusion"].get(e, {}).get(o, 0) for o in names] for e in names]
    theirs = {"accuracy": sklearn.metrics.accuracy_score(expected, observed)}
    for average in ("macro", "weighted", "micro"):
        among = [name for name in names if average != "macro" or name != "(error)"]
        theirs[f"{average}_f1"] = sklearn.metrics.f1_score(
            expected, observed, labels=among, average=average, zero_division=0
        )
    table = sklearn.metrics.precision_recall_fscore_support(expected, observed, labels=names, zero_division=0)
    for name, precision, recall, f1, _ in zip(names, *table, strict=True):
        theirs |= {f"precision.{name}": precision, f"recall.{name}": recall, f"f1.{name}": f1}
    found = [] if ours == matrix else [f"confusion {ours}, scikit-learn {matrix}"]
    metrics = aggregate["metrics"]
    return found + [
        f"{name} {metrics[name]}, scikit-learn {value}"
        for name, value in theirs.items()
        if abs(metrics[name] - value) > 1e-12
    ]


def show(folder: Path, task: Path, arguments: argparse.Namespace) -> int:
    """Run, count again, print. The status is 1 when something differs."""
    status, seconds, output = run(folder, task, arguments)
    print("\n".join(output.splitlines()[-60:]))
    suites = json.loads((folder / "run" / "suites.json").read_text(encoding="utf-8"))["suites"]
    print(f"exit status {status}, {seconds:.1f} s, trials {suites[0]['trials']}")
    for path in sorted((folder / "used").glob("*.json")):
        print(f"{path.stem:12} { ({name: round(value, 2) for name, value in json.loads(path.read_text()).items()}) }")
    if not arguments.no_junit:
        junit = folder / "junit.xml"
        kinds: collections.Counter[str] = collections.Counter()
        for case in ET.parse(junit).getroot().iter("testcase"):
            kinds[next((child.tag for child in case if child.tag != "properties"), "passed")] += 1
        print(f"junit.xml: {junit.stat().st_size / 1e6:.1f} MB, testcases {dict(kinds)}")
    if importlib.util.find_spec("sklearn") is None:
        print("scikit-learn is not installed: nothing to compare with")
        return 0
    wrong = 0
    for (skill, pairs), aggregate in zip(labels(folder, task).items(), suites[0]["criteria"], strict=True):
        differing = compare(pairs, aggregate)
        wrong += len(differing)
        metrics = aggregate["metrics"]
        print(
            f"{skill:32} {aggregate['confusion']} recall.yes {metrics['recall.yes']:.4f} "
            f"macro_f1 {metrics['macro_f1']:.4f} {'; '.join(differing) or '= scikit-learn'}"
        )
    print(f"{wrong} differences")
    return 1 if wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", type=Path)
    parser.add_argument("-n", dest="workers", type=int, default=0)
    parser.add_argument("--no-junit", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        return show(Path(name).resolve(), arguments.task.resolve(), arguments)


if __name__ == "__main__":
    sys.exit(main())
