"""Which commands a text ran, and which of them succeeded, by the status of the whole."""

from __future__ import annotations

import pytest

from pytest_codereval.trajectory.shell import SimpleCommand, understand

_SUCCESS = {True: "ok", False: "bad", None: "?"}


def told(command: SimpleCommand) -> str:
    """`yes ok words`, `no ? words`, `maybe bad words`."""
    return f"{command.ran.value} {_SUCCESS[command.succeeded]} {command.text}"


def all_told(text: str, status: int | None, **more: bool) -> list[str]:
    program = understand(text, status, **more)
    assert program.parsed, program.unparsed
    return [told(command) for command in program.commands]


LISTS = [
    ("a", 0, ["yes ok a"]),
    ("a", 3, ["yes bad a"]),
    ("a b \\\n", 0, ["yes ok a b"]),
    ("a; b \\\r\n", 0, ["yes ? a", "yes ok b"]),
    ("a && b", 0, ["yes ok a", "yes ok b"]),
    ("a && b", 1, ["yes ? a", "maybe bad b"]),
    ("a || b", 0, ["yes ? a", "maybe ok b"]),
    ("a || b", 1, ["yes bad a", "yes bad b"]),
    ("a; b", 0, ["yes ? a", "yes ok b"]),
    ("a\nb", 1, ["yes ? a", "yes bad b"]),
    ("a && b || c", 0, ["yes ? a", "maybe ? b", "maybe ok c"]),
    ("a && b || c", 1, ["yes ? a", "maybe bad b", "yes bad c"]),
    ("a || exit 1", 0, ["yes ok a", "no ? exit 1"]),
    ("a || exit 1; b", 0, ["yes ok a", "no ? exit 1", "yes ok b"]),
    ("a || { echo no >&2; exit 1; }\nb", 0, ["yes ok a", "no ? echo no", "no ? exit 1", "yes ok b"]),
    ("a || true", 0, ["yes ? a", "maybe ok true"]),
    ("true || a", 0, ["yes ok true", "no ? a"]),
    ("false && a; b", 0, ["yes bad false", "no ? a", "yes ok b"]),
    ("a; true", 0, ["yes ? a", "yes ok true"]),
    ("a; exit $?", 0, ["yes ok a", "yes ok exit $?"]),
    ("a; rc=$?; b; exit $rc", 4, ["yes bad a", "yes ? b", "yes bad exit $rc"]),
    ("a; exit 0; b", 0, ["yes ? a", "yes ok exit 0", "no ? b"]),
    ("a & b", 0, ["yes ? a", "yes ok b"]),
    ("! a", 0, ["yes bad a"]),
    ("a | b", 0, ["yes ? a", "yes ok b"]),
    ("a | b || exit 1", 0, ["yes ? a", "yes ok b", "no ? exit 1"]),
    ("! a | b", 0, ["yes ? a", "yes bad b"]),
    ("(a; exit 3) && b", 3, ["yes ? a", "yes bad exit 3", "no ? b"]),
    ("{ a && b; } > log", 0, ["yes ok a", "yes ok b"]),
    ("a && b > log", 0, ["yes ok a", "yes ok b"]),
    ("cd x && a 2>&1 | tail -5", 0, ["yes ok cd x", "yes ? a", "yes ok tail -5"]),
    ("a | b | c && d", 0, ["yes ? a", "yes ? b", "yes ok c", "yes ok d"]),
    ("a | b | c\nd || e", 0, ["yes ? a", "yes ? b", "yes ? c", "yes ? d", "maybe ok e"]),
    ("a && b > f | c && d > g", 0, ["yes ok a", "yes ? b", "yes ok c", "yes ok d"]),
    ("a | b | c && exit 0; d", 0, ["yes ? a", "yes ? b", "yes ? c", "maybe ok exit 0", "maybe ok d"]),
    ("if a | b | c  # note\nthen\n  d && e\nfi", 0, ["yes ? a", "yes ? b", "yes ? c", "maybe ok d", "maybe ok e"]),
    ("exec a", 0, ["yes ok a"]),
    ("exec a; b", 0, ["yes ok a", "no ? b"]),
]

OPTIONS = [
    ("set -e; a; b", 0, ["yes ok set -e", "yes ok a", "yes ok b"]),
    ("set -e; a; b", 1, ["yes ok set -e", "yes ? a", "maybe bad b"]),
    ("set -e\na || b\nc", 0, ["yes ok set -e", "yes ? a", "maybe ok b", "yes ok c"]),
    ("set -e; if a; then b; fi; c", 0, ["yes ok set -e", "yes ? a", "maybe ok b", "yes ok c"]),
    ("set -e; f() { a; b; }; f || c", 0, ["yes ok set -e", "yes ? a", "yes ? b", "maybe ok c"]),
    ("set -e; set +e; a; b", 0, ["yes ok set -e", "yes ok set +e", "yes ? a", "yes ok b"]),
    ("x && set -e; a; b", 0, ["yes ? x", "maybe ok set -e", "yes ? a", "yes ok b"]),
    ("set -o pipefail; a | b", 0, ["yes ok set -o pipefail", "yes ok a", "yes ok b"]),
    ("set -o pipefail; a | b", 1, ["yes ok set -o pipefail", "yes ? a", "yes ? b"]),
    ("set -euo pipefail\na | b\nc", 0, ["yes ok set -euo pipefail", "yes ok a", "yes ok b", "yes ok c"]),
    ("bash -ec 'a; b'", 0, ["yes ok a", "yes ok b"]),
    ("bash -o pipefail -c 'a | b'", 0, ["yes ok a", "yes ok b"]),
    ("set -e; (a; b)", 0, ["yes ok set -e", "yes ok a", "yes ok b"]),
]

COMPOUNDS = [
    ("if a; then b; else exit 2; fi", 0, ["yes ok a", "yes ok b", "no ? exit 2"]),
    ("if ! a; then exit 1; fi; b", 0, ["yes ok a", "no ? exit 1", "yes ok b"]),
    ("if a; then b; elif c; then d; fi", 1, ["yes ? a", "maybe bad b", "maybe ok c", "maybe bad d"]),
    ("for i in 1 2; do a $i; done", 0, ["yes ? a 1", "yes ok a 2"]),
    ("for i in 1 2; do a $i || exit 1; done", 0, ["yes ok a 1", "no ? exit 1", "yes ok a 2", "no ? exit 1"]),
    (
        "for i in {1..2}; do for j in x y; do a $i$j; done; done",
        0,
        ["yes ? a 1x", "yes ? a 1y", "yes ? a 2x", "yes ok a 2y"],
    ),
    ("for i in $(seq 2); do a $i; done", 0, ["yes ? seq 2", "yes ? a 1", "yes ok a 2"]),
    ("for f in *.json; do a $f; done", 0, ["yes ok a $f", "maybe ? a $f"]),
    ("for f in $list; do a $f; done", 0, ["maybe ok a $f", "maybe ? a $f"]),
    ("for f in $list; do a $f; done", 1, ["yes bad a $f", "maybe ? a $f"]),
    ("for i in 1 2; do break; a; done", 0, ["yes ok break", "no ? a", "no ? break", "no ? a"]),
    ("until a; do sleep 1; done", 0, ["yes ok a", "maybe ? a", "maybe ok sleep 1", "maybe ? sleep 1"]),
    ("while a; do b; done", 1, ["yes bad a", "maybe ? a", "yes bad b", "maybe ? b"]),
    (
        "while true; do a && break; done",
        0,
        ["yes ok true", "maybe ? true", "yes ok a", "maybe ? a", "yes ok break", "maybe ? break"],
    ),
    ("case a in a|b) x;; *) y;; esac", 0, ["no ? y", "yes ok x"]),
    ("case $1 in a) x;; *) y;; esac", 0, ["maybe ok x", "maybe ok y"]),
    ("f() { a $1; }; f x && b", 0, ["yes ok a x", "yes ok b"]),
    ("f() { a; }; b", 0, ["yes ok b", "no ? a"]),
    ("f() { return 1; a; }; f", 1, ["yes bad return 1", "no ? a"]),
    ("f() { a; return 0; }; f", 0, ["yes ? a", "yes ok return 0"]),
    ("uip() { echo fine; }; uip solution deploy", 0, ["yes ok echo fine"]),
    ('uip() { command uip --json "$@"; }; uip a b', 0, ["yes ok uip --json a b"]),
]

NESTED = [
    ("bash -lc 'a && b'", 0, ["yes ok a", "yes ok b"]),
    ('/bin/bash -lc "a --x \\"y z\\""', 0, ["yes ok a --x y z"]),
    ("sh -c 'a \"$1\"' name x", 0, ["yes ok a x"]),
    ("bash <<'E'\na\nb\nE\n", 0, ["yes ? a", "yes ok b"]),
    ("bash -s x <<'E'\na $1\nE\n", 0, ["yes ok a x"]),
    ("echo 'a b' | sh", 0, ["yes ? echo a b", "yes ok a b"]),
    ("cat <<E | bash\na\nE\n", 0, ["yes ? cat", "yes ok a"]),
    ("eval 'X=a'; $X b", 0, ["yes ok a b"]),
    (". <(echo a)", 0, ["yes ok echo a", "yes ok a"]),
    ("x=$(a b)", 0, ["yes ok a b"]),
    ("x=$(a b)", 1, ["yes bad a b"]),
    ("export x=$(a)", 0, ["yes ? a", "yes ok export x=$(a)"]),
    ('c "$(a; b)"', 0, ["yes ? a", "yes ? b", "yes ok c $(a; b)"]),
    ("diff <(a) <(b)", 0, ["yes ? a", "yes ? b", "yes ok diff <(a) <(b)"]),
    ("c `a`", 0, ["yes ? a", "yes ok c `a`"]),
    ("bash -n -c 'a'", 0, ["no ? a", "yes ok bash -n -c a"]),
    ("bash -o noexec -c 'a'", 0, ["no ? a", "yes ok bash -o noexec -c a"]),
    ("bash script.sh", 0, ["yes ok bash script.sh"]),
    ("trap 'a' EXIT; b", 0, ["yes ? trap a EXIT", "yes ok b", "maybe ? a"]),
    ("cat ids | xargs -n1 a", 0, ["yes ? cat ids", "maybe ok a", "maybe ? a"]),
    ("echo 1 2 | xargs a", 0, ["yes ok echo 1 2", "yes ok a 1 2"]),
    ("printf '%s' x | xargs -I{} a --id {}", 0, ["yes ok printf %s x", "yes ok a --id x"]),
    ('b <<< "$(a)"', 0, ["yes ? a", "yes ok b"]),
    ("b < <(a)", 0, ["yes ? a", "yes ok b"]),
    ('b > "$(a)"', 0, ["yes ? a", "yes ok b"]),
    ("coproc a; b", 0, ["yes ? a", "yes ok b"]),
    ("coproc a > log; b", 0, ["yes ? a", "yes ok b"]),
    ("time { a; b; }", 0, ["yes ? a", "yes ok b"]),
    ("x; time -p for i in 1; do a $i; done", 0, ["yes ? x", "yes ok a 1"]),
    ("case x in x) a;& y) b;; esac", 0, ["maybe ? a", "maybe ok b"]),
    ("case x in x) a;;& *) b;; esac", 1, ["maybe ? a", "maybe bad b"]),
]

LAUNCHED = [
    (r"find . -exec a {} \;", 0, ["yes ok find . -exec a {} ;", "maybe ? a {}"]),
    (
        r"find . -exec a {} + -o -ok env X=1 b \;",
        0,
        ["yes ok find . -exec a {} + -o -ok env X=1 b ;", "maybe ? a {}", "maybe ? b"],
    ),
    (
        r"""find . -execdir sh -c 'a "$1" && b' _ {} \;""",
        0,
        ['yes ok find . -execdir sh -c a "$1" && b _ {} ;', "maybe ? a $1", "maybe ? b"],
    ),
    (r"false && find . -exec a \;", 1, ["yes bad false", "no ? find . -exec a ;", "no ? a"]),
    ("flock f -c 'a; b'", 0, ["yes ? a", "yes ok b"]),
    ("flock -n f a", 1, ["maybe bad a"]),
    ("flock -n f a", 0, ["yes ok a"]),
    ("flock 9", 0, ["yes ok flock 9"]),
    ("npx -c 'a && b'", 0, ["yes ok a", "yes ok b"]),
    ("script -qec 'a' /dev/null", 1, ["yes bad a"]),
    ("script -c 'a' log", 0, ["yes ? a"]),
    ("script log a", 0, ["yes ok script log a"]),
    ("su -c 'a; b' bob", 0, ["yes ? a", "yes ok b"]),
    ("su - bob -c a", 1, ["yes bad a"]),
    ("watch -n 2 'a | b'", 0, ["yes ? a", "maybe ? a", "yes ? b", "maybe ? b"]),
    ("x | entr -r a", 0, ["yes ? x", "maybe ? a"]),
    ("parallel -j 4 a ::: b c", 0, ["maybe ? a"]),
    ("screen -dmS name a b", 0, ["yes ? a b", "maybe ? a b"]),
    ("systemd-run --user -p X=1 a", 0, ["yes ? a", "maybe ? a"]),
    ("watch() { :; }; watch a", 0, ["yes ok :"]),
]

KEPT_STATUSES = [
    ("a; rc=$?; printf '%s' \"$rc\"; b; exit $rc", True),
    ("f() { b; }; a; rc=$?; exit $rc", True),
    ("a; rc=$?; exit $rc", True),
    ("trap 'b' EXIT; a; rc=$?; c; exit $rc", True),
    ("f() { rc=0; }; a; rc=$?; f; exit $rc", None),
    ("a; rc=$?; . b; exit $rc", None),
    ("a; rc=$?; source b; exit $rc", None),
    ('a; rc=$?; eval "$x"; exit $rc', None),
    ('a; rc=$?; command eval "$x"; exit $rc', None),
    ("a; rc=$?; $x; exit $rc", None),
    ("a; rc=$?; b $((rc=0)); exit $rc", None),
    ("a; rc=$?; ((rc=0)); exit $rc", None),
    ("a; rc=$?; let rc=0; exit $rc", None),
    ("a; rc=$?; b ${rc:=0}; exit $rc", None),
    ("a; rc=$?; read rc; exit $rc", None),
    ("a; rc=$?; printf -v rc 0; exit $rc", None),
    ("a; rc=$?; export rc=0; exit $rc", None),
    ("a; rc=$?; wait; printf; b; exit $rc", True),
    ("a; rc=$?; export $(b); exit $rc", None),
    ("a; rc=$?; declare -n q=rc; q=0; exit $rc", None),
    ("a; rc=$?; trap 'rc=0' DEBUG; b; exit $rc", None),
    ("trap 'rc=0' DEBUG; a; rc=$?; b; exit $rc", None),
    ("a; rc=$?; for rc in 0; do b; done; exit $rc", None),
    ("readonly rc=0; a; rc=$?; exit $rc", None),
    ("a; SECONDS=$?; b; exit $SECONDS", None),
]


@pytest.mark.parametrize(("text", "status", "expected"), [*LISTS, *OPTIONS, *COMPOUNDS, *NESTED, *LAUNCHED])
def test_what_ran_and_succeeded(text: str, status: int, expected: list[str]) -> None:
    assert all_told(text, status) == expected


@pytest.mark.parametrize(("text", "succeeded"), KEPT_STATUSES)
def test_a_status_that_is_handed_on_by_a_variable(text: str, succeeded: bool | None) -> None:
    found = [command for command in understand(text, 0).commands if command.program == "a"]
    assert [command.succeeded for command in found] == [succeeded]


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ("a", [False]),
        ("until a; do :; done", [False, True]),
        ("while a; do :; done", [False, True]),
        ("for ((;;)); do a; done", [False, True]),
        ("for f in *; do a; done", [False, True]),
        ("for f in 1 2; do a; done", [False, False]),
        ("while b; do a & done", [True]),
        ("x | xargs -n1 a", [False, True]),
        ("echo 1 | xargs a", [False]),
        (r"find . -exec a \;", [True]),
        (r"true || find . -exec a \;", [False]),
        ("watch a", [False, True]),
        ("parallel a ::: 1", [True]),
        ("script -c a f", [False]),
    ],
)
def test_what_may_have_run_more_often(text: str, repeated: list[bool]) -> None:
    found = [command for command in understand(text, 0).commands if command.program == "a"]
    assert [command.repeated for command in found] == repeated
    assert all(command.ran == "maybe" for command in found if command.repeated)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a | tail", "pipe"),
        ("a; b", ";"),
        ("a || b", "||"),
        ("a & b", "&"),
        ("echo $(a)", "$( )"),
        ("if a; then b; else c; fi", "if"),
        ("(a && b) | tail", "pipe"),
    ],
)
def test_the_reason_why_success_is_unknown(text: str, why: str) -> None:
    first = understand(text, 0).commands[0]
    assert (first.succeeded, first.why_unknown) == (None, why)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo 'python app.py'", []),
        ("# python app.py", []),
        ("true || python app.py", []),
        ("python app.py 2>&1 | tail -n 5", [None]),
        ("python app.py; true", [None]),
        ("python app.py", [True]),
        ("cat > run.sh <<'E'\npython app.py\nE\n", []),
        ("git commit -m 'python app.py'", []),
        ("f() { python app.py; }", []),
        ("grep -r 'python app.py' .", []),
    ],
)
def test_what_is_only_mentioned_did_not_run(text: str, expected: list[bool | None]) -> None:
    commands = understand(text, 0).commands
    assert [
        command.succeeded for command in commands if command.ran == "yes" and command.program == "python"
    ] == expected


@pytest.mark.parametrize("status", [137, 143, -9, 124])
def test_a_status_of_a_signal_may_mean_that_the_shell_was_ended(status: int) -> None:
    assert all_told("a; b", status) == ["yes ? a", "maybe bad b"]
    assert all_told("a", status) == ["yes bad a"]


def test_without_a_number_success_is_what_was_reported() -> None:
    assert all_told("a && b", None, succeeded=True) == ["yes ok a", "yes ok b"]
    assert all_told("a; b", None, succeeded=False) == ["yes ? a", "maybe bad b"]
    assert all_told("a && b", None) == ["yes ? a", "maybe ? b"]
    assert understand("a").commands[0].why_unknown == "no status"


def test_a_status_that_does_not_fit_proves_nothing() -> None:
    assert all_told("true", 1) == ["maybe ? true"]
    assert all_told("while true; do a; done", 0)[0].startswith("maybe ?")


def test_a_trap_that_exits_hides_the_status() -> None:
    assert all_told("trap 'exit 0' EXIT; a", 0)[1] == "yes ? a"
    assert all_told("trap -- 'exit 0' EXIT; a", 0)[1] == "yes ? a"
    assert all_told('trap "$x" EXIT; a', 0)[1] == "yes ? a"
    assert all_told("trap 'b' EXIT; a", 0)[1] == "yes ok a"


def test_the_reader_of_a_pipe_may_end_before_its_writer() -> None:
    assert all_told("{ echo x; a; } | head -1", 0) == ["yes ? echo x", "maybe ? a", "yes ok head -1"]
    assert all_told("{ echo x; a; } | tee log", 0) == ["yes ok echo x", "yes ? a", "yes ok tee log"]


def test_what_is_not_understood_is_kept_and_proves_nothing() -> None:
    program = understand("a\nb 'x", 0)
    assert not program.parsed
    assert [told(command) for command in program.commands] == ["maybe ? a"]
    assert program.unparsed == ("b 'x",)


def test_what_follows_in_a_text_that_is_not_understood_may_have_run() -> None:
    program = understand("f() { d; }\na || (b; 'x\nexit 1\nc", 0)
    assert not program.parsed
    assert {command.ran for command in program.commands} <= {"maybe"}


def test_a_nested_text_that_is_not_understood_leaves_the_rest() -> None:
    program = understand("a && bash -c 'b; (' && c", 0)
    assert not program.parsed
    assert [told(command) for command in program.commands if command.program in "ac"] == ["yes ok a", "yes ok c"]


def test_the_function_stays_the_function_after_its_first_call() -> None:
    understand("a", 0)
    from pytest_codereval.trajectory import shell

    assert shell.understand("a b", 0).commands[0].words == ("a", "b")
