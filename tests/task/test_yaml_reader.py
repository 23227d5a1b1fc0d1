"""Reading YAML: any text gives data or one readable refusal, never a traceback, never a hang."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.errors import TaskFileError
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.yaml_reader import read

from .samples import PATH, problems, task_text

GOOD = task_text()


def _bomb(item: str) -> str:
    first = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" if item == "[{}]" else "a0: &a0 {}\n"
    levels = [f"a{i}: &a{i} {item.format(','.join([f'*a{i - 1}'] * 10))}\n" for i in range(1, 12)]
    return first + "".join(levels)


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("", 1, "empty"),
        ("# only a comment\n", 1, "empty"),
        ("- a\n- b\n", 1, "found a list"),
        ("hello", 1, "found 'hello'"),
        ("42", 1, "found 42"),
        (GOOD + "x:\n\ty: 1\n", 9, "tab"),
        (GOOD + "x: \0\n", 8, "U+0000"),
        (GOOD + "x: \x1b\n", 8, "U+001B"),
        (GOOD + "x: \ud800\n", 8, "surrogate"),
        (GOOD + "---\n" + GOOD, 8, "second document"),
        (GOOD + "x: !!python/object/apply:os.system [id]\n", 8, "'!!python/object/apply:os.system' is not allowed"),
        (GOOD + "x: !local y\n", 8, "'!local' is not allowed"),
        (GOOD + "x: !!binary aGk=\n", 8, "is not allowed"),
        (GOOD + "x: !!int ''\n", 8, "no int"),
        (GOOD + "x: 2024-99-99\n", 8, "no timestamp"),
        (GOOD + "x: .nan\n", 8, "finite"),
        (GOOD + "x: -.inf\n", 8, "finite"),
        (GOOD + "x: " + "9" * 5000 + "\n", 8, "no int"),
        (GOOD + "on: x\n", 8, "YAML reads the key 'on' as bool"),
        (GOOD + "1: x\n", 8, "YAML reads the key '1' as int"),
        (GOOD + "? [a]\n: b\n", 8, "found a list or mapping"),
        (GOOD + "x: *nobody\n", 8, "undefined alias"),
        (GOOD + "x: [" + "[" * 500 + "]" * 501 + "\n", 8, "nested"),
        ("[" * 100_000, 1, "nesting"),
        (GOOD + "x: &x [*x]\n", 8, "nested"),
        (GOOD + "x: &x {<<: *x}\n", 8, "nested"),
        (_bomb("[{}]"), 1, "too large"),
        (_bomb("{{<<: [{}]}}"), 1, "too large"),
        ("%YAML 9.9\n---\na: 1\n", 1, "incompatible"),
        ("a: [1, 2\nb: 3\n", 2, "expected"),
    ],
)
def test_a_text_that_is_no_task_is_refused_with_its_line(text: str, line: int, expected: str) -> None:
    with pytest.raises(TaskFileError) as caught:
        load_task(PATH, text)
    (problem,) = caught.value.problems
    assert expected in problem.message
    assert problem.line == line
    assert len(str(problem)) < 500


@pytest.mark.parametrize("text", ["\ufeff" + GOOD, GOOD.replace("\n", "\r\n"), GOOD.rstrip("\n"), GOOD + "...\n"])
def test_harmless_forms_are_accepted(text: str) -> None:
    assert load_task(PATH, text).task.initial_prompt == "hi"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (GOOD.encode("utf-16"), "1:1: the file is UTF-16"),
        (GOOD.encode("utf-16-le"), r"U\+0000"),
        (GOOD.replace("hi", "caf\u00e9").encode("latin-1"), "3:20: byte 0xe9 is not UTF-8"),
        (b"\xff", "1:1: byte 0xff is not UTF-8"),
    ],
)
def test_other_encodings_are_named(tmp_path: Path, data: bytes, expected: str) -> None:
    path = tmp_path / "task.yaml"
    path.write_bytes(data)
    with pytest.raises(TaskFileError, match=expected):
        load_task(path)


def test_utf8_is_read_whatever_the_locale(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("hi", "caf\u00e9 \U0001f600").replace("\n", "\r\n").encode())
    assert load_task(path).task.initial_prompt == "caf\u00e9 \U0001f600"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.yaml")
    for path, expected in (
        (tmp_path, "directory"),
        (tmp_path / "none.yaml", "No such file"),
        (tmp_path / "fifo.yaml", "not a regular file"),
        (Path("a\0b.yaml"), "null byte"),
    ):
        with pytest.raises(TaskFileError, match=expected):
            load_task(path)


def test_a_large_file_is_read_in_time() -> None:
    text = GOOD.replace("initial_prompt: hi", "initial_prompt: |\n" + "  some words to read\n" * 500_000)
    assert len(load_task(PATH, text).task.initial_prompt or "") > 9_000_000


def test_anchors_and_merges_work() -> None:
    text = "base: &b {a: 1, b: 2}\nuse: {<<: *b, b: 3}\nlist: {<<: [{a: 1}, {a: 2, c: 3}]}\nagain: *b\n"
    document = read(text)
    assert document.data["use"] == {"a": 1, "b": 3}
    assert document.data["list"] == {"a": 1, "c": 3}
    assert document.data["again"] == {"a": 1, "b": 2}
    assert document.duplicates == ()


def test_positions_are_those_of_the_last_duplicate_and_of_the_nearest_part() -> None:
    document = read("a: 1\nb:\n  - x: 1\n    y: 2\na: 3\n")
    assert document.data == {"a": 3, "b": [{"x": 1, "y": 2}]}
    assert document.position(("a",)) == (5, 1)
    assert document.position(("b", 0, "y")) == (4, 5)
    assert document.position(("b", 0, "missing")) == (3, 5)
    assert document.position(("b", 7)) == (2, 1)
    assert [(d.location, d.line, d.first_line) for d in document.duplicates] == [(("a",), 5, 1)]


_LINES = st.sampled_from(
    [*GOOD.splitlines(), "a: &a [*a]", "- ", "  ", "? x", "<<: {a: 1}", "skip: 'x", "run_limits: {max_turns: x}", "\t"]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(_LINES, max_size=12).map("\n".join)))
def test_any_text_loads_or_is_refused(text: str) -> None:
    found = problems(text)
    assert all(problem.line >= 1 and problem.column >= 1 for problem in found)
    "".join(map(str, found)).encode("utf-8")


_WORDS = st.text(
    st.characters(min_codepoint=32, max_codepoint=0xD7FF, exclude_categories=["Cc", "Zl", "Zp"]), max_size=8
)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | _WORDS,
        lambda c: st.lists(c, max_size=3) | st.dictionaries(_WORDS, c, max_size=3),
        max_leaves=20,
    )
)
def test_what_json_can_say_is_read_alike(value: object) -> None:
    assert read(json.dumps({"v": value}, ensure_ascii=False)).data == {"v": value}
