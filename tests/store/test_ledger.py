"""The ledger: exact over processes, and never silently less than what was spent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.errors import CoderEvalError
from pytest_codereval.store.ledger import KINDS, Ledger

from ..counting import calls_made

WRITER = """
import sys
from pathlib import Path
from pytest_codereval.store.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]), 1)
for number in range(int(sys.argv[3])):
    ledger.add(sys.argv[2], "agent", 0.0021, True)
    print(number + 1, flush=True)
"""


def writer(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), name, str(count)], stdout=subprocess.PIPE, text=True
    )


def test_what_is_entered_is_seen_at_once_by_another(tmp_path: Path) -> None:
    mine, other = Ledger(tmp_path, 1.0), Ledger(tmp_path, 1.0)
    mine.add("a", "agent", 0.1, True)
    mine.add("a", "judge", 0.2, True)
    other.add("b", "agent", 0.0, False)
    state = other.state()
    assert state == mine.state()
    assert (state.spent, state.trials, state.incomplete, state.torn) == (Decimal("0.3"), 2, 1, 0)
    assert state.by_kind == {"agent": Decimal("0.1"), "judge": Decimal("0.2")}


def test_the_budget_is_used_up_when_it_is_reached(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, 0.3)
    ledger.add("a", "agent", 0.1, True)
    ledger.add("b", "agent", 0.1, True)
    assert ledger.exhausted() is None
    ledger.add("b", "agent", 0.1, True)
    assert ledger.exhausted() == "the session's budget of $0.3 is used up: $0.3 spent by 2 trials"
    ledger.add("b", "agent", 0.0, False)
    assert ledger.exhausted() == (
        "the session's budget of $0.3 is used up: $0.3 spent by 2 trials (and what 1 incomplete entries do not tell)"
    )
    assert Ledger(tmp_path, None).exhausted() is None
    assert Ledger(tmp_path, 0.31).exhausted() is None


def test_a_budget_of_nothing_lets_nothing_begin(tmp_path: Path) -> None:
    assert Ledger(tmp_path, 0).exhausted() == "the session's budget of $0 is used up: $0 spent by 0 trials"


@pytest.mark.parametrize("cap", [-1.0, float("nan"), float("inf")])
def test_a_budget_that_is_none_is_refused(tmp_path: Path, cap: float) -> None:
    with pytest.raises(CoderEvalError, match="expected US dollars"):
        Ledger(tmp_path, cap)


@pytest.mark.parametrize("usd", [-0.1, float("nan"), float("inf")])
def test_an_amount_that_is_none_is_refused(tmp_path: Path, usd: float) -> None:
    ledger = Ledger(tmp_path)
    with pytest.raises(ValueError):
        ledger.add("a", "agent", usd, True)
    assert ledger.state().spent == 0


def test_eight_processes_write_and_nothing_is_lost(tmp_path: Path) -> None:
    writers = [writer(tmp_path, f"trial {number}", 200) for number in range(8)]
    for process in writers:
        process.communicate(timeout=60)
        assert process.returncode == 0
    state = Ledger(tmp_path, 1).state()
    assert (state.spent, state.trials, state.incomplete) == (Decimal("3.36"), 8, 0)


def test_threads_of_one_process_share_a_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    work = lambda: [ledger.add("a", "agent", 0.01, True) for _ in range(50)]  # noqa: E731
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ledger.state().spent == 2


def test_a_writer_killed_at_any_moment_leaves_a_sound_ledger(tmp_path: Path) -> None:
    told = 0
    for round_ in range(4):
        process = writer(tmp_path, f"trial {round_}", 100_000)
        assert process.stdout is not None
        last = ""
        for _ in range(20 + 7 * round_):
            last = process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().splitlines()
        process.wait(60)
        told += int(rest[-1] if rest else last)
    ledger = Ledger(tmp_path, 1)
    state = ledger.state()
    entered = state.spent / Decimal("0.0021")
    assert told <= entered <= told + 4
    assert state.torn == 0 or state.incomplete == state.torn
    ledger.add("after", "agent", 0.0021, True)
    assert ledger.state().spent == state.spent + Decimal("0.0021")


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_last_line_is_told(tmp_path: Path, cut: int) -> None:
    Ledger(tmp_path).add("a", "agent", 0.5, True)
    Ledger(tmp_path).add("b", "agent", 0.25, True)
    file = tmp_path / "ledger.jsonl"
    file.write_bytes(file.read_bytes()[:-cut])
    ledger = Ledger(tmp_path, 0.5)
    assert (ledger.state().spent, ledger.state().torn, ledger.state().incomplete) == (Decimal("0.5"), 1, 1)
    assert "1 incomplete" in str(ledger.exhausted())
    ledger.add("c", "judge", 0.125, True)
    whole = cut == 1
    expected = (Decimal("0.875"), 0, 3) if whole else (Decimal("0.625"), 1, 2)
    for reader in (ledger, Ledger(tmp_path)):
        state = reader.state()
        assert (state.spent, state.torn, state.trials) == expected
        assert state.incomplete == state.torn


def remove(file: Path) -> None:
    file.unlink()


def remove_folder(file: Path) -> None:
    file.unlink()
    file.parent.rmdir()


def put_an_empty_one_in_its_place(file: Path) -> None:
    other = file.with_name("other")
    other.touch()
    other.replace(file)


def put_a_copy_in_its_place(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(file.read_bytes())
    other.replace(file)


def cut_its_last_line(file: Path) -> None:
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))


def empty_it(file: Path) -> None:
    os.truncate(file, 0)


@pytest.mark.parametrize(
    "harm",
    [remove, remove_folder, put_an_empty_one_in_its_place, put_a_copy_in_its_place, cut_its_last_line, empty_it],
    ids=lambda harm: harm.__name__,
)
def test_a_ledger_that_was_taken_away_is_an_error(tmp_path: Path, harm: object) -> None:
    assert callable(harm)
    ledger = Ledger(tmp_path / "run", 1)
    ledger.add("a", "agent", 0.5, True)
    ledger.add("b", "agent", 0.25, True)
    harm(tmp_path / "run" / "ledger.jsonl")
    for use in (ledger.state, ledger.exhausted, lambda: ledger.add("c", "agent", 0.1, True), ledger.exhausted):
        with pytest.raises(CoderEvalError, match=r"ledger\.jsonl"):
            use()


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"0.5"', b'"0.1"'), (b'"entry": 1', b'"entry": 7'), (b'"agent"', b'"agenT"'), (b'{"entry": 2', b'{"enter": 2')],
)
def test_a_ledger_that_was_changed_is_an_error_for_who_reads_it_first(tmp_path: Path, old: bytes, new: bytes) -> None:
    ledger = Ledger(tmp_path)
    for trial in "abc":
        ledger.add(trial, "agent", 0.5, True)
    file = tmp_path / "ledger.jsonl"
    assert old in file.read_bytes()
    file.write_bytes(file.read_bytes().replace(old, new, 1))
    with pytest.raises(CoderEvalError, match="was changed by another program"):
        Ledger(tmp_path)


def test_a_folder_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CoderEvalError, match="cannot be made"):
        Ledger(tmp_path / "file" / "folder")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_categories=())),
            st.sampled_from(KINDS),
            st.floats(0, 1e9) | st.integers(0, 10**7).map(lambda cents: cents / 100),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_sums_are_those_of_decimals(entries: list[tuple[str, str, float, bool]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledgers = [Ledger(Path(folder)), Ledger(Path(folder))]
        for number, (trial, kind, usd, complete) in enumerate(entries):
            ledgers[number % 2].add(trial, kind, usd, complete)  # type: ignore[arg-type]
        states = [ledger.state() for ledger in (*ledgers, Ledger(Path(folder)))]
    assert states[0] == states[1] == states[2]
    total = Decimal(0)
    for _, _, usd, _ in entries:
        total += Decimal(str(usd))
    assert states[0].spent == total
    assert states[0].incomplete == sum(not complete for *_, complete in entries)
    assert states[0].trials == len({trial for trial, *_ in entries})


def test_an_entry_and_a_look_take_no_more_work_in_a_long_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, 1e6)

    def work() -> None:
        ledger.add("a", "agent", 0.01, True)
        ledger.exhausted()

    work()
    at_first = calls_made(work)
    for _ in range(500):
        work()
    assert calls_made(work) <= at_first + 10
