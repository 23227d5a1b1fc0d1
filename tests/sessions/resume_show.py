"""A run killed at half by SIGKILL, a record torn by hand, resumed: `python -m tests.sessions.resume_show [TRIALS]`."""

from __future__ import annotations

import dataclasses
import re
import sys
import tempfile
from pathlib import Path

from .stored_runs import conversations, fake_model, read_records, record_paths, session, session_killed, write_tasks

TRIALS = 48
ROWS = 12


@dataclasses.dataclass(frozen=True)
class Shown:
    """What became of the trials. `before` are the trials whose records were whole when the session was killed."""

    trials: int
    before: frozenset[str]
    torn: str
    run_again: frozenset[str]
    run_twice: frozenset[str]
    in_records: frozenset[str]
    in_error: frozenset[str]
    kept: int
    said: bool
    again_kept: int
    output: str


def resume(folder: Path, trials: int = TRIALS, rows: int = ROWS, workers: int = 8) -> Shown:
    """Run, kill, tear a record, resume, and resume once more, in an empty folder."""
    write_tasks(folder, trials, rows)
    run = folder / "run"
    with fake_model() as fake:
        session_killed(folder, fake, run, trials // 2, f"-n{workers}", "--codereval-run-dir=run")
        whole = record_paths(run)
        before = frozenset(read_records(run))
        torn, name = whole[0], next(iter(read_records(run)))
        torn.write_bytes(torn.read_bytes()[:100])
        asked = conversations(fake)
        _, output = session(folder, fake, "--codereval-resume=run", f"-n{workers}")
        asked_later = conversations(fake)
        _, once_more = session(folder, fake, "--codereval-resume=run", f"-n{workers}")
        asked_last = conversations(fake)
    assert asked_last == asked_later, "the second resumption ran something"
    records = read_records(run)
    again = frozenset(
        trial for trial, record in records.items() if asked_later[record["prompt"]] > asked.get(record["prompt"], 0)
    )
    return Shown(
        trials=trials,
        before=before,
        torn=name,
        run_again=again,
        run_twice=frozenset(trial for trial in again & before if trial != name),
        in_records=frozenset(records),
        in_error=frozenset(trial for trial, record in records.items() if record["status"] == "error"),
        kept=_kept(output),
        said=f"{name}: re-run: record unreadable" in output,
        again_kept=_kept(once_more),
        output=output,
    )


def _kept(output: str) -> int:
    found = re.search(r"^codereval: (\d+) trials reported from their records", output, re.MULTILINE)
    return int(found[1]) if found else 0


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS
    with tempfile.TemporaryDirectory() as folder:
        shown = resume(Path(folder).resolve(), trials)
    print(shown.output)
    print(f"{shown.trials} trials; {len(shown.before)} had records when the session was killed (SIGKILL, 8 workers)")
    print(f"torn by hand: {shown.torn}; it ran again: {shown.torn in shown.run_again}; said so: {shown.said}")
    print(f"reported from their records: {shown.kept}; run: {len(shown.run_again)}")
    print(f"run twice although whole: {len(shown.run_twice)}; lost: {shown.trials - len(shown.in_records)}")
    print(f"in error: {len(shown.in_error)}; resumed once more: {shown.again_kept} reported from their records, 0 run")


if __name__ == "__main__":
    main()
