"""Runs random shell programs in a real bash, and compares what ran with what `understand` says.

`python -m tests.trajectory.shell.traced [programs] [seed]` prints the share of what is known.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pytest_codereval.trajectory.shell import Ran, ShellProgram, SimpleCommand, understand

from .programs import Programs

_C = """#!/bin/sh
line=$2
for word in "$@"; do line=$line$(printf '\\037')$word; done
printf '%s\\036' "$line" >> "$CALLS"
exit "$2"
"""
_UPTO = """#!/bin/sh
printf x >> "$CALLS.$1"
read -r seen < "$CALLS.$1"
status=0
[ "${#seen}" -le "$2" ] || status=1
printf '%s\\037%s\\037%s\\036' "$status" "$1" "$2" >> "$CALLS"
exit "$status"
"""
_DRIVER = """
for program in "$1"/*.sh; do
  CALLS=$program.calls; export CALLS
  : > "$CALLS"
  IFS= read -r -d '' text < "$program"
  bash -c "$text" 9>&1 >/dev/null 2>&1 </dev/null | cat
  echo "${PIPESTATUS[0]}" > "$program.status"
done
"""


@dataclasses.dataclass(frozen=True)
class Run:
    """A program, its exit status, and the calls of the noting programs as (status, arguments)."""

    text: str
    status: int
    calls: tuple[tuple[int, tuple[str, ...]], ...]


def run_all(texts: Sequence[str], folder: Path) -> list[Run]:
    """Run each text by a bash of its own."""
    programs = folder / "bin"
    programs.mkdir()
    for name, body in (("c", _C), ("upto", _UPTO)):
        (programs / name).write_text(body)
        (programs / name).chmod(0o755)
    work = folder / "programs"
    work.mkdir()
    for index, text in enumerate(texts):
        (work / f"{index:05}.sh").write_text(text)
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "UNKNOWN": "a",
        "SOME": "p q",
        "NOTHING": "",
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
    }
    subprocess.run(["bash", "-c", _DRIVER, "driver", str(work)], env=environment, cwd=folder, check=True, timeout=300)
    runs = []
    for index, text in enumerate(texts):
        path = work / f"{index:05}.sh"
        lines = path.with_name(path.name + ".calls").read_text().split("\x1e")[:-1]
        calls = tuple((int(line.split("\x1f")[0]), tuple(line.split("\x1f")[1:])) for line in lines)
        runs.append(Run(text, int(path.with_name(path.name + ".status").read_text()), calls))
    return runs


@dataclasses.dataclass
class Tally:
    """How much was known about the commands of all programs."""

    programs: int = 0
    unparsed: int = 0
    commands: int = 0
    decided: int = 0
    """Commands that are said to have run or not."""
    ran: int = 0
    judged: int = 0
    """Commands that are said to have run, and to have succeeded or failed."""

    def add(self, program: ShellProgram) -> None:
        self.programs += 1
        self.unparsed += not program.parsed
        for command in noting(program):
            self.commands += 1
            self.decided += command.ran is not Ran.MAYBE
            self.ran += command.ran is Ran.YES
            self.judged += command.ran is Ran.YES and command.succeeded is not None

    def __str__(self) -> str:
        return (
            f"{self.programs} programs, {self.unparsed} not understood as a whole; {self.commands} commands, "
            f"{self.decided / self.commands:.0%} known to have run or not; {self.ran} ran, "
            f"the success of {self.judged / self.ran:.0%} of them is known"
        )


def noting(program: ShellProgram) -> list[SimpleCommand]:
    """Return the commands that note their calls."""
    return [command for command in program.commands if command.program in ("c", "upto")]


def disagreements(run: Run, program: ShellProgram) -> list[str]:
    """Return what `program` says wrongly about a run."""
    problems: list[str] = []
    calls: dict[str, list[tuple[int, tuple[str, ...]]]] = collections.defaultdict(list)
    said: dict[str, list[SimpleCommand]] = collections.defaultdict(list)
    for status, arguments in run.calls:
        calls[arguments[0]].append((status, arguments))
    for command in noting(program):
        said[command.words[1]].append(command)
    if program.parsed and not any(not command.known[1] for command in noting(program)):
        problems += [f"{number}: ran, and nothing is said" for number in calls if number not in said]
    for number, commands in said.items():
        problems += [f"{number}: {problem}" for problem in _about(commands, calls.get(number, []))]
    return problems


def _about(commands: list[SimpleCommand], calls: list[tuple[int, tuple[str, ...]]]) -> list[str]:
    sure = [command for command in commands if command.ran is Ran.YES]
    perhaps = [command for command in commands if command.ran is Ran.MAYBE]
    problems = []
    if len(calls) < len(sure) or (not perhaps and len(calls) != len(sure)):
        problems.append(f"ran {len(calls)} times, said {len(sure)} and perhaps {len(perhaps)}")
    good = sum(status == 0 for status, _ in calls)
    for value, count in ((True, good), (False, len(calls) - good)):
        claims = sum(command.succeeded is value for command in sure)
        if claims > count:
            problems.append(f"succeeded is {value} {count} times, said {claims}")
    if len(commands) == len(perhaps) == len(calls) == 1 and perhaps[0].succeeded not in (None, good == 1):
        problems.append("perhaps run, and its success is wrong")
    for command in sure:
        given = any(prefix.startswith("xargs -n") for prefix in command.prefixed)
        if (
            all(command.known)
            and command.program == "c"
            and not given
            and command.words[1:] not in [words for _, words in calls]
        ):
            problems.append(f"no such words: {command.words}, but {calls}")
    return problems


def main(count: int, seed: int) -> int:
    """Run `count` programs and print what is known about them, and every disagreement."""
    programs = Programs(seed)
    texts = [programs.program() for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        runs = run_all(texts, Path(folder))
    tally, wrong = Tally(), 0
    for run in runs:
        program = understand(run.text, run.status)
        tally.add(program)
        problems = disagreements(run, program)
        wrong += bool(problems)
        if problems:
            print(f"---- status {run.status}", run.text, *problems, sep=os.linesep)
    print(tally, f"{wrong} programs judged wrongly", sep=os.linesep)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300, int(sys.argv[2]) if len(sys.argv) > 2 else 0))
