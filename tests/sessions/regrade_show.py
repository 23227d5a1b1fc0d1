"""Two hundred stored trials judged again: `python -m tests.sessions.regrade_show [TRIALS]` prints what it took."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import time
from pathlib import Path

from .stored_runs import Asked, fake_model, read_records, session, verdicts, write_tasks

TRIALS = 200
ROWS = 20


@dataclasses.dataclass(frozen=True)
class Shown:
    """What running and judging again gave. Times are in seconds."""

    trials: int
    judged_again: int
    equal: int
    passed: int
    exit_statuses: tuple[int, int]
    seconds_to_run: float
    seconds_to_judge: float
    calls_to_run: int
    calls_to_judge: int
    output: str


def regrade(folder: Path, trials: int = TRIALS, rows: int = ROWS, *options: str) -> Shown:
    """Run the trials in an empty folder, then judge them from their records."""
    write_tasks(folder, trials, rows)
    with fake_model() as fake:
        begun = time.monotonic()
        first, _ = session(folder, fake, "--codereval-run-dir=run", *options)
        between, asked = time.monotonic(), Asked.of(fake)
        second, output = session(folder, fake, "--codereval-regrade=run", "--codereval-run-dir=again", *options)
        ended, asked_later = time.monotonic(), Asked.of(fake)
    before, after = verdicts(read_records(folder / "run")), verdicts(read_records(folder / "again"))
    return Shown(
        trials=len(before),
        judged_again=len(after),
        equal=sum(after.get(trial) == told for trial, told in before.items()),
        passed=sum(status == "passed" for status, _ in after.values()),
        exit_statuses=(first, second),
        seconds_to_run=between - begun,
        seconds_to_judge=ended - between,
        calls_to_run=asked.calls,
        calls_to_judge=asked_later.calls - asked.calls,
        output=output,
    )


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS
    with tempfile.TemporaryDirectory() as folder:
        shown = regrade(Path(folder).resolve(), trials, ROWS, "-n2")
    print(shown.output)
    print(f"{shown.trials} trials ran in {shown.seconds_to_run:.1f} s, with {shown.calls_to_run} calls of the model")
    print(
        f"{shown.judged_again} judged from their records in {shown.seconds_to_judge:.1f} s, "
        f"with {shown.calls_to_judge} calls of the model; {shown.passed} passed"
    )
    print(f"equal in status, verdicts, scores, reasons and details: {shown.equal} of {shown.trials}")


if __name__ == "__main__":
    main()
