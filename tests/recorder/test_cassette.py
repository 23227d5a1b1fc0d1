"""Cassettes: what real programs answered is kept and answered again, whatever the order of flags."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.errors import TrialError
from pytest_codereval.recorder.answering import CapturedRun, Printed, RunReal
from pytest_codereval.recorder.answers import cassette
from pytest_codereval.recorder.answers.cassette import Entry, canonical, load, save
from pytest_codereval.recorder.argv import split_argv
from pytest_codereval.recorder.options import Option

from .engine import Engine

ROOT = Path(__file__).parents[2]
OPTIONS = (Option(("output", "o"), 1), Option(("yes", "y"), 0), Option(("pair",), 2))
RECORDING = {"passthrough": True, "record_to": "uip.jsonl", "options": {"output": {"aliases": ["o"]}, "yes": 0}}
GOOD = {"tool": "uip", "argv": ["a"], "exit": 0, "stdout": "", "stderr": "", "trial": "t"}
REPLAYING = {"replay_from": "uip.jsonl", "options": RECORDING["options"], "stderr": "offline\n"}


def record(engine: Engine, *argv: str, stdout: bytes = b"", stderr: bytes = b"", status: int = 0) -> None:
    assert engine.ask(*argv) == RunReal(capture=True)
    run = CapturedRun(stdout, stderr, status)
    assert engine.ask(*argv, run=run) == Printed("passthrough", stdout, stderr, status)


def entry(*argv: str, trial: str = "t", tool: str = "uip", stdout: bytes = b"") -> Entry:
    return Entry(tool, argv, 0, stdout, b"", trial)


def test_what_was_recorded_is_replayed_byte_by_byte(tmp_path: Path) -> None:
    recording = Engine(tmp_path, RECORDING)
    record(recording, "list", "--output", "json", stdout=b"[]\n")
    record(recording, "raw", "caf\udce9", "\u2028 two\nlines", stdout=b"\xff\0\x1b", stderr="é\n".encode(), status=3)
    recording.answers.save()
    replaying = Engine(tmp_path, REPLAYING)
    assert replaying.call("list", "--output", "json") == Printed("cassette", b"[]\n")
    raw = Printed("cassette", b"\xff\0\x1b", "é\n".encode(), 3)
    assert replaying.call("raw", "caf\udce9", "\u2028 two\nlines") == raw
    assert replaying.call("other") == Printed("fallback", stderr=b"offline\n", exit_status=1, unmatched=True)


def test_a_cassette_is_plain_json_lines(tmp_path: Path) -> None:
    recording = Engine(tmp_path, RECORDING)
    record(recording, "a", "é", stdout=b"\xff", stderr=b"e")
    recording.answers.save()
    assert (tmp_path / "task" / "uip.jsonl").read_text(encoding="utf-8") == (
        '{"tool": "uip", "argv": ["a", "é"], "exit": 0, "stdout": {"base64": "/w=="}, "stderr": "e", "trial": "t"}\n'
    )
    assert [path.name for path in (tmp_path / "task").iterdir()] == ["uip.jsonl"]


def test_the_same_call_gives_its_answers_in_order_and_the_last_again(tmp_path: Path) -> None:
    recording = Engine(tmp_path, RECORDING)
    for stdout in (b"1", b"2"):
        record(recording, "poll", "--yes", "--output", "x", stdout=stdout)
    recording.answers.save()
    replaying = Engine(tmp_path, REPLAYING)
    calls = [["poll", "-o", "x", "--yes"], ["--yes", "poll", "--output=x"], ["poll", "--output", "x", "--yes"]]
    assert [replaying.out(*argv) for argv in calls] == ["1", "2", "2"]
    replaying.answers.reset()
    assert replaying.out(*calls[0]) == "1"


def test_entries_of_this_trial_come_first_then_those_of_one_other(tmp_path: Path) -> None:
    path = tmp_path / "task" / "uip.jsonl"
    save(path, "x", [entry("a", trial="x", stdout=b"x1"), entry("b", trial="x", stdout=b"x2")], ())
    save(path, "y", [entry("b", trial="y", stdout=b"y1"), entry("b", tool="other", trial="y", stdout=b"no")], ())
    save(path, "z", [entry("a", trial="z", stdout=b"z1")], ())
    replaying = Engine(tmp_path, REPLAYING, trial="z")
    assert [replaying.out("a"), replaying.out("a"), replaying.out("b"), replaying.out("b")] == ["z1", "z1", "x2", "x2"]


def test_recording_anew_replaces_this_trials_entries_of_this_tool_alone(tmp_path: Path) -> None:
    path = tmp_path / "task" / "uip.jsonl"
    others = [entry("a", trial="other", stdout=b"o"), entry("a", tool="git", stdout=b"g")]
    save(path, "t", [entry("a", stdout=b"old"), *others], ())
    before = path.read_bytes().splitlines(keepends=True)
    recording = Engine(tmp_path, RECORDING)
    recording.answers.save()
    assert path.read_bytes() == b"".join(before)
    record(recording, "b", stdout=b"new")
    recording.answers.save()
    assert path.read_bytes().splitlines(keepends=True)[:2] == before[1:]
    assert load(path) == (*others, entry("b", stdout=b"new"))
    recording.answers.save()
    assert len(load(path)) == 3


def test_replaying_and_recording_one_file_runs_only_what_is_missing(tmp_path: Path) -> None:
    both = {**RECORDING, "replay_from": "uip.jsonl"}
    first = Engine(tmp_path, both)
    assert first.ask("a") == RunReal(capture=True, unmatched=True)
    first.ask("a", run=CapturedRun(b"a", b"", 0))
    first.answers.save()
    second = Engine(tmp_path, both)
    assert second.call("a") == Printed("cassette", b"a")
    assert second.ask("b") == RunReal(capture=True, unmatched=True)
    second.ask("b", run=CapturedRun(b"b", b"", 0))
    second.answers.save()
    third = Engine(tmp_path, both)
    assert [third.out("b"), third.out("a")] == ["b", "a"]


def test_only_runs_that_the_engine_asked_for_are_kept(tmp_path: Path) -> None:
    recording = Engine(tmp_path, RECORDING)
    recording.ask("forged", run=CapturedRun(b"forged", b"", 0))
    record(recording, "a")
    recording.ask("a", run=CapturedRun(b"again", b"", 0))
    assert recording.ask("killed") == RunReal(capture=True)
    recording.answers.save()
    assert load(tmp_path / "task" / "uip.jsonl") == (entry("a"),)


@pytest.mark.parametrize("status", [129, 130, 137, 139, 143, 192])
def test_a_run_that_a_signal_ended_is_no_answer(tmp_path: Path, status: int) -> None:
    recording = Engine(tmp_path, RECORDING)
    record(recording, "killed", stdout=b"half", status=status)
    for kept in (128, 193, 255):
        record(recording, "kept", stdout=b"k", status=kept)
    recording.answers.save()
    assert [saved.exit_status for saved in load(tmp_path / "task" / "uip.jsonl")] == [128, 193, 255]


def test_calls_with_other_input_are_others_where_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "task" / "uip.jsonl"
    recording = Engine(tmp_path, RECORDING)
    for stdin, stdout in ((b"a", b"A1"), (b"\xff", b"B"), (b"a", b"A2"), (None, b"?")):
        assert recording.ask("load", stdin=stdin) == RunReal(capture=True)
        recording.ask("load", stdin=stdin, run=CapturedRun(stdout, b"", 0))
    recording.answers.save()
    assert [json.loads(line).get("stdin") for line in path.read_text().splitlines()] == [
        "a",
        {"base64": "/w=="},
        "a",
        None,
    ]
    assert [saved.stdin for saved in load(path)] == [b"a", b"\xff", b"a", None]
    replaying = Engine(tmp_path, REPLAYING)

    def said(stdin: bytes | None) -> str:
        answer = replaying.ask("load", stdin=stdin)
        assert isinstance(answer, Printed)
        return answer.stdout.decode()

    assert [said(b"\xff"), said(b"a"), said(b"a"), said(b"a"), said(b"other")] == ["B", "A1", "A2", "?", "?"]
    assert [said(None), said(None), said(None)] == ["A1", "B", "A2"]


def test_other_input_than_was_recorded_is_no_recorded_call(tmp_path: Path) -> None:
    path = tmp_path / "task" / "uip.jsonl"
    save(path, "x", [Entry("uip", ("load",), 0, b"x", b"", "x", b"other")], ())
    save(path, "t", [Entry("uip", ("load",), 0, b"own", b"", "t", b"in")], ())
    replaying = Engine(tmp_path, REPLAYING)
    assert [replaying.ask("load", stdin=stdin).stdout for stdin in (b"in", b"other", b"none", None)] == [
        *(b"own", b"x", b"", b"own")
    ]


@pytest.mark.parametrize("content", ["", "\n", json.dumps({**GOOD, "tool": "other"})])
def test_a_cassette_without_a_call_of_the_tool_is_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "task" / "uip.jsonl"
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(TrialError) as error:
        Engine(tmp_path, REPLAYING)
    assert str(error.value) == f"sandbox.record_cli: uip: replay_from: no call of uip is recorded in {path}"
    assert error.value.cause == "configuration"
    Engine(tmp_path, {**RECORDING, "replay_from": "uip.jsonl"})


def test_calls_that_were_not_the_agents_are_not_kept(tmp_path: Path) -> None:
    recording = Engine(tmp_path, RECORDING)
    record(recording, "setup")
    recording.answers.reset()
    recording.answers.save()
    assert not (tmp_path / "task" / "uip.jsonl").exists()


def test_rules_that_pass_on_are_recorded_too(tmp_path: Path) -> None:
    tool = {**RECORDING, "passthrough": False, "responses": [{"when": {"verb": "docs"}, "passthrough": True}]}
    recording = Engine(tmp_path, tool)
    record(recording, "docs", stdout=b"d")
    recording.answers.save()
    assert load(tmp_path / "task" / "uip.jsonl") == (entry("docs", stdout=b"d"),)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a --yes b", "a b -y", True),
        ("a --output x b", "a b -o x", True),
        ("a -ox b", "a b --output=x", True),
        ("a --pair 1 2 --yes", "--yes a --pair 1 2", True),
        ("a --pair 1 2", "a --pair 2 1", False),
        ("a b", "b a", False),
        ("--output x --output y", "--output y --output x", False),
        ("a --output x", "a --output y", False),
        ("a --yes", "a", False),
        ("--from a b", "a --from b", False),
        ("--from=a b", "b --from=a", True),
        ("a --quiet", "--quiet=1 a", False),
        ("a --verbose --output x", "a -o x --verbose", True),
        ("-- --yes", "--yes", False),
    ],
)
def test_calls_are_compared_by_what_is_sure_to_mean_the_same(one: str, other: str, same: bool) -> None:
    assert (canonical(one.split(), OPTIONS) == canonical(other.split(), OPTIONS)) is same


word = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
plain = word.filter(lambda text: not text.startswith("-"))
flag = st.one_of(
    st.builds(lambda name, value: (name, value), st.sampled_from(["--output", "-o"]), word),
    st.builds(lambda value: (f"--output={value}",), word),
    st.sampled_from([("--yes",), ("-y",)]),
    st.builds(lambda one, two: ("--pair", one, two), word, word),
)


@given(st.lists(plain, max_size=4), st.lists(flag, max_size=4), st.data())
def test_the_order_of_flags_never_matters(words: list[str], flags: list[tuple[str, ...]], data: Any) -> None:
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for given_flag in flags:
        by_name.setdefault(given_flag[0].lstrip("-")[0], []).append(given_flag)

    def arranged() -> list[str]:
        order = data.draw(st.permutations([*[""] * len(words), *(each[0].lstrip("-")[0] for each in flags)]))
        left = {"": [(text,) for text in words], **{name: list(each) for name, each in by_name.items()}}
        return [token for name in order for token in left[name].pop(0)]

    assert canonical(arranged(), OPTIONS) == canonical(arranged(), OPTIONS)


@given(st.lists(word, max_size=6), st.lists(word, max_size=6))
def test_calls_that_are_the_same_have_the_same_arguments(one: list[str], other: list[str]) -> None:
    if canonical(one, OPTIONS) == canonical(other, OPTIONS):
        assert split_argv(one, (), (), (), OPTIONS) == split_argv(other, (), (), (), OPTIONS)


argument = st.one_of(word, st.sampled_from(["\udcff", "a\nb", "\u2028", '"}']))
entries = st.builds(
    Entry,
    st.just("uip"),
    st.lists(argument, max_size=3).map(tuple),
    st.integers(0, 255),
    st.binary(max_size=40),
    st.one_of(st.binary(max_size=9), word.map(str.encode)),
    st.sampled_from(["t", "file.yaml::a[é]-r2"]),
    st.one_of(st.none(), st.binary(max_size=9)),
)


@settings(max_examples=40)
@given(st.lists(entries, min_size=1, max_size=10))
def test_entries_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, kept: list[Entry]) -> None:
    path = tmp_path_factory.mktemp("kept") / "uip.jsonl"
    save(path, "t", kept, ())
    assert load(path) == tuple(kept)
    assert path.read_bytes().count(b"\n") == len(kept)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "Expecting property name"),
        ("[]", "expected a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        (json.dumps({**GOOD, "stdou": ""}), "unknown key 'stdou'; did you mean 'stdout'?"),
        (json.dumps({key: value for key, value in GOOD.items() if key != "exit"}), "the key 'exit' is missing"),
        (json.dumps({**GOOD, "exit": True}), "exit: expected 0 to 255, found True"),
        (json.dumps({**GOOD, "exit": 256}), "exit: expected 0 to 255, found 256"),
        (json.dumps({**GOOD, "argv": "a"}), "argv: expected a list of texts"),
        (json.dumps({**GOOD, "argv": [1]}), "argv: expected a list of texts"),
        (json.dumps({**GOOD, "tool": None}), "tool and trial: expected texts"),
        (json.dumps({**GOOD, "stdout": {"base64": "*"}}), "stdout: base64: "),
        (json.dumps({**GOOD, "stdin": None}), 'stdin: expected a text or {"base64": "..."}'),
        (json.dumps({**GOOD, "stderr": 1}), 'stderr: expected a text or {"base64": "..."}'),
        (json.dumps({**GOOD, "stdout": "\ud800"}), "stdout: half of a surrogate pair"),
    ],
)
@pytest.mark.parametrize("tool", [REPLAYING, RECORDING], ids=["replay", "record"])
def test_bad_lines_are_told_with_their_place(tmp_path: Path, tool: Any, line: str, told: str) -> None:
    path = tmp_path / "task" / "uip.jsonl"
    path.parent.mkdir()
    path.write_text(f"{json.dumps(GOOD)}\n\n{line}\n", encoding="utf-8")
    with pytest.raises(TrialError) as error:
        Engine(tmp_path, tool)
    assert str(error.value).startswith(f"{path}:3: ")
    assert told in str(error.value)
    assert error.value.cause == "configuration"


def test_a_cassette_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    path = tmp_path / "task" / "uip.jsonl"
    path.parent.mkdir()
    path.write_bytes(b'{"tool": "\xff"}\n')
    with pytest.raises(TrialError, match=r"uip\.jsonl:1: "):
        Engine(tmp_path, REPLAYING)


SAVER = """
import sys
from pathlib import Path
from pytest_codereval.recorder.argv import split_argv
from pytest_codereval.recorder.answers.cassette import Entry, save
path, trial, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(rounds):
    save(path, trial, [Entry("uip", (str(n),), 0, b"x" * 2000, b"", trial) for n in range(number + 1)], ["uip"])
"""


def test_processes_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "uip.jsonl"
    command = [sys.executable, "-c", SAVER, str(path)]
    savers = [subprocess.Popen([*command, f"trial-{number}", "25"], cwd=ROOT) for number in range(3)]
    assert [saver.wait(timeout=60) for saver in savers] == [0, 0, 0]
    kept = [(saved.trial, saved.argv) for saved in load(path)]
    assert sorted(kept) == sorted((f"trial-{number}", (str(n),)) for number in range(3) for n in range(25))
    assert [found.name for found in path.parent.iterdir()] == ["uip.jsonl"]


def test_saving_keeps_links_modes_and_what_it_cannot_read(tmp_path: Path) -> None:
    real = tmp_path / "real.jsonl"
    real.write_text("not json\n" + json.dumps(GOOD))
    real.chmod(0o640)
    link = tmp_path / "uip.jsonl"
    link.symlink_to(real)
    save(link, "t", [entry("b")], ["uip"])
    assert link.is_symlink()
    lines = real.read_text().splitlines()
    assert (lines[0], json.loads(lines[1])["argv"], len(lines)) == ("not json", ["b"], 2)
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_cassette_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrialError, match=r"record_to: .*file/uip\.jsonl: "):
        save(tmp_path / "file" / "uip.jsonl", "t", [entry("a")], ())


def test_a_lock_file_that_was_removed_by_its_holder_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cassette, "LOCK_SECONDS", 0.2)
    name = tmp_path / ".uip.jsonl.lock"
    flock = fcntl.flock
    with open(tmp_path / "held", "w") as held:
        flock(held, fcntl.LOCK_EX)

        def overtaken(descriptor: int, operation: int) -> None:
            flock(descriptor, operation)
            Path(held.name).replace(name)

        monkeypatch.setattr(fcntl, "flock", overtaken)
        with pytest.raises(TrialError, match="another process has held"):
            save(tmp_path / "uip.jsonl", "t", [entry("a")], ())


def test_a_lock_that_is_never_let_go_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cassette, "LOCK_SECONDS", 0.2)
    path = tmp_path / "uip.jsonl"
    with open(tmp_path / ".uip.jsonl.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TrialError, match="another process has held"):
            save(path, "t", [entry("a")], ())
    save(path, "t", [entry("a")], ())
    assert load(path) == (entry("a"),)
