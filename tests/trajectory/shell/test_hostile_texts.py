"""Texts that are long, deep, broken or no shell at all never raise and always end."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.trajectory.shell import Ran, understand

_PIECES = st.sampled_from(
    "a b ; & && || | ( ) { } $( ` \" ' \\ \n < > << <<< <<E E\n # if then fi for in do done case esac ;; $x ${x:-y} !"
    " = [ ]] function f() x=1 2>&1 <( $(( )) eval bash -c \t \r\n \0 é \ud800 set -e exit 1 * ~ { a,b }".split(" ")
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_PIECES, max_size=25).map(" ".join) | st.text(max_size=60))
def test_never_raises(text: str) -> None:
    program = understand(text, 0)
    assert program.parsed is (program.unparsed == ())
    for command in program.commands:
        assert len(command.words) == len(command.known) > 0
        if program.unparsed and "bash" not in text and "eval" not in text:
            assert (command.ran, command.succeeded) == (Ran.MAYBE, None)


_DEEP = 10_000
_HOSTILE = {
    "long": "uip run 'x y'\n" * 80_000,
    "many statements": "a;" * 50_000,
    "lines": "uip run --x 'y z'\n" * 4000,
    "and": " && ".join(["a b"] * 12_000),
    "pipes": " | ".join(["a b"] * 12_000),
    "parentheses": "(" * _DEEP + "a" + ")" * _DEEP,
    "substitutions": "$(" * _DEEP + "a" + ")" * _DEEP,
    "braces": "{ " * _DEEP + "a;" + " }" * _DEEP,
    "ifs": "if a; then " * 5000 + "b;" + " fi;" * 5000,
    "quotes": '"' * 99_999,
    "backticks": "`" * 99_999,
    "less": "<" * 99_999,
    "documents": "cat <<E\nx\nE\n" * 4000,
    "brace words": "echo " + "{a,b}" * 200,
    "brace openings": "echo " + "{a," * 30_000,
    "ranges": "echo " + "{1..1000} " * 9000,
    "rounds": "for i in {1..100}; do for j in {1..100}; do for k in {1..100}; do a $i $j $k; done; done; done",
    "functions": "".join(f"f{i}() {{ f{i + 1}; f{i + 1}; }}\n" for i in range(40)) + "f0",
    "itself": "f() { f; f; }; f",
    "doubling": "x=aaaaaaaaaa\n" + "x=$x$x\n" * 60 + "echo $x",
    "splitting": "x='" + "a " * 30_000 + "'\n" + "b $x\n" * 4000,
    "array": "x=(a)\n" + 'x+=("${x[@]}")\n' * 60 + 'echo "${x[@]}"',
    "doubling by eval": "x=aaaaaaaaaa\n" + 'eval "x=$x$x"\n' * 60 + "echo $x",
    "doubling of parameters": "set -- a b\n" + 'set -- "$@" "$@"\n' * 60 + 'a "$@"',
    "doubling by appending": "x=aaaaaaaaaa\n" + "x+=$x\n" * 60 + "echo $x",
    "doubling in a loop": "x=aaaa; for i in {1..90}; do x=$x$x$x; y=($x $x); y+=(${y[@]}); done; a $x ${y[@]}",
    "doubling by substitution": "x=aaaa\n" + "x=$(echo $x$x)\n" * 60 + "a $x",
    "echo of echo": "a " + "$(echo " * 40 + "b" + ")" * 40,
    "line ends": "a" + "\n" * 150_000 + "b",
    "quoted": "echo '" + "a b" * 400_000 + "'; c",
    "escaped in quotes": 'echo "' + r"\"" * 900_000 + '"; c',
    "documents without an end": "cat <<E\n" * 20_000,
    "found": "find . " + r"-exec a {} \; " * 5000,
    "found by found": "find . -exec " * 3000 + r" a \;",
    "launchers": "npx " * 20_000 + "a",
    "watched": "watch " * 5000 + "a",
    "options": "npx " + "-y " * 30_000 + "a",
    "patterns": "grep " + "-e " * 30_000 + "a",
    "awk": "awk '" + "print a " * 20_000 + "'",
    "times": "time " * 30_000,
    "branches": "case $x in " + "a) b;& " * 1000 + "c) d;; esac",
    "prefixes": "env " * 20_000 + "a",
    "evals": "eval " * 20_000 + "a",
    "shells": "bash -c " * 3000 + "a",
    "loop of a loop": "while while while a; do b; done; do c; done; do d; done; " * 900,
    "null": "a\0b",
    "surrogate": "a \ud800 'b\udfff'; c",
}


@pytest.mark.timeout(60)  # at most about 2 s on an idle machine
@pytest.mark.parametrize("name", _HOSTILE)
def test_ends(name: str) -> None:
    program = understand(_HOSTILE[name], 0)
    assert program.parsed is (program.unparsed == ())
    assert len(program.commands) <= 6000


@pytest.mark.parametrize(
    "text",
    [
        "cat > f.json <<'E'\n" + '{"a": 1}\n' * 40_000 + "E\nuip deploy",
        "echo '" + "QUJD" * 60_000 + "' | base64 -d > f && uip deploy",
        'echo "' + r"{\"abc\": \"defghijk\"}, " * 9000 + '" > f && uip deploy',
    ],
)
def test_what_is_long_by_its_data_is_understood(text: str) -> None:
    program = understand(text, 0)
    assert program.parsed
    assert [(command.text, command.succeeded) for command in program.commands][-1] == ("uip deploy", True)


def test_no_character_ends_the_process() -> None:
    program = (
        "from pytest_codereval.trajectory.shell import understand\n"
        "for code in range(0x80, 0x110000, 0x61): understand('{' + chr(code) + ' a{' + chr(code) + '; b', 0)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_importing_the_package_does_not_load_the_parser() -> None:
    program = "import sys, pytest_codereval.trajectory.shell; sys.exit('tree_sitter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
