"""The texts in which patterns about commands are searched."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.criteria.commands.command_text import (
    OVERLAP,
    PARAMETERS_LIMIT,
    WINDOW,
    command_haystacks,
    normalise,
    parameter_haystacks,
    windows,
)


@pytest.mark.parametrize(
    ("command", "normal"),
    [
        ("ls   -la", "ls -la"),
        ("git commit -m 'a b'", "git commit -m a b"),
        ("bash -lc 'echo hi'", "echo hi"),
        ("/usr/bin/zsh -ic \"echo 'a b'\"", "echo a b"),
        ("bash -c echo hi", "echo hi"),
        ("bash -l -c 'echo hi'", "echo hi"),
        ("bash script.sh -c x", "bash script.sh -c x"),
        ("bash --norc -c 'x y'", "x y"),
        ("bash -c", None),
        ("", None),
        ("  \n ", None),
        ("echo 'open", None),
        ('sh -c "echo \'open"', None),
        ("git -c a=b push", "git -c a=b push"),
    ],
)
def test_normalise(command, normal):
    assert normalise(command) == normal


@given(st.lists(st.text(min_size=1).filter(lambda word: not word.endswith("sh")), min_size=1))
def test_normalise_gives_the_words_of_a_quoted_command(words):
    assert normalise(shlex.join(words)) == " ".join(words)


@given(st.text())
def test_any_text_is_normalised_or_not(text):
    result = normalise(text)
    assert result is None or result


@given(st.lists(st.sampled_from(["a", "x" * 700, "y" * 2500, "\n", "\\\n", "z" * 6000]), max_size=30).map("".join))
def test_windows_lose_nothing(command):
    cut = windows(command)
    assert all(len(window) <= WINDOW for window in cut)
    assert cut[0] == command[:WINDOW]
    for start in range(0, max(len(command) - OVERLAP, 1), 97):
        line = command[start : start + 50]
        if "\n" not in line:
            assert any(line in window for window in cut)


def test_call_after_a_long_heredoc_is_seen():
    body = "\n".join(f"line {n} " + "x" * 60 for n in range(100))
    command = f"cat > f <<'EOF'\n{body}\nEOF\ncd .. && uip agent validate"
    assert any("uip agent validate" in text for text in command_haystacks(command))


def test_continued_lines_stay_together():
    command = "#" * 1990 + "\nuip is \\\n  create \\\n  --body x\n" + "#" * 1990
    assert any("uip is \\\n  create \\\n  --body x" in window for window in windows(command))


def test_parameters_are_searched_as_json_in_windows():
    texts = parameter_haystacks("Write", {"file_path": "a.py", "content": "x" * 5000 + "the end"})
    assert texts[0].startswith('{"file_path": "a.py", "content": "xx')
    assert all(len(text) <= WINDOW for text in texts)
    assert any("the end" in text for text in texts)
    assert parameter_haystacks("Read", {"path": "\u00e9"}) == ('{"path": "\\u00e9"}', '{"path": "\u00e9"}')
    huge = parameter_haystacks("Write", {"content": "x" * 10 * PARAMETERS_LIMIT})
    assert sum(map(len, huge)) < 2 * PARAMETERS_LIMIT
