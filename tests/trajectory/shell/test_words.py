"""The words, the data and the prefixes of the commands of a text."""

from __future__ import annotations

import pytest

from pytest_codereval.trajectory.shell import SimpleCommand, understand


def last(text: str) -> SimpleCommand:
    program = understand(text, 0)
    assert program.parsed, program.unparsed
    return program.commands[-1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a 'b c' \"d e\" f\\ g", ["a", "b c", "d e", "f g"]),
        ("a b\"c\"'d'$'\\te'", ["a", "bcd\te"]),
        ("a \\\n  --x y", ["a", "--x", "y"]),
        ("a b\\\nc", ["a", "bc"]),
        ('a "x\\\ny" "\\$z \\" \\\\ \\q"', ["a", "xy", '$z " \\ \\q']),
        ("A=b; B=c; x $A/$B/d $A-$B-$A/e$", ["x", "b/c/d", "b-c-b/e"]),
        ("A=b; B=c; C=$A/$B/d; x $C", ["x", "b/c/d"]),
        ("A=b; B=c; export C=$A/$B/d; x $C", ["x", "b/c/d"]),
        ("A=b; B=c; C=$A/$B/d x -y", ["x", "-y"]),
        ("A=1 B='c d'; x $A ${A} \"$B\" $B", ["x", "1", "1", "c d", "c", "d"]),
        ("UIP=uip; $UIP solution deploy", ["uip", "solution", "deploy"]),
        ('UIP=$(which uip); "$UIP" run', ["uip", "run"]),
        ("UIP=$(command -v uip || echo uip); $UIP run", ["uip", "run"]),
        ("export A=b; bash -c 'x $A'", ["x", "b"]),
        ("A=b; bash -c 'x $A'", ["x", "$A"]),
        ("A=b x $A", ["x", "$A"]),
        ("A=b bash -c 'x $A'", ["x", "b"]),
        ("A=x; A+=y; a $A", ["a", "xy"]),
        ("A=x; unset A; a $A", ["a", "$A"]),
        ("A=x; read A; a $A", ["a", "$A"]),
        ("A=x; b && A=y; a $A", ["a", "$A"]),
        ("b && A=y && a $A", ["a", "y"]),
        ("A=x; (A=y); a $A", ["a", "x"]),
        ("A=x; for i in $list; do A=y; done; a $A", ["a", "$A"]),
        ("f() { local A=y; }; A=x; f; a $A", ["a", "x"]),
        ("f() { A=y; }; A=x; f; a $A", ["a", "y"]),
        ("A=; a ${A:-d} ${A:+e} x$A", ["a", "d", "x"]),
        ("set -- p 'q r'; a \"$@\" $# $2 ${3:-z}", ["a", "p", "q r", "2", "q", "r", "z"]),
        ("set -- p q; shift; a $1", ["a", "q"]),
        ("args=(b 'c d'); args+=(e); a \"${args[@]}\"", ["a", "b", "c d", "e"]),
        ("a {b,c}d x{1..3} '{y,z}'", ["a", "bd", "cd", "x1", "x2", "x3", "{y,z}"]),
        ("a *.py ~/x", ["a", "*.py", "~/x"]),
        ("a \"$(cat <<'E'\nsome text\nE\n)\"", ["a", "some text"]),
        ("a $(echo b c) \"$(printf '%s' 'd e')\"", ["a", "b", "c", "d e"]),
        ("a > f b 2>&1 c", ["a", "b", "c"]),
        ("> f a b", ["a", "b"]),
        ("a <<E b\nbody\nE\n", ["a", "b"]),
        ("[[ -f 'x y' && $a == b* ]]", ["[[", "-f", "x y", "&&", "$a", "==", "b*", "]]"]),
        ("a #b c#d", ["a"]),
        ("a\r\n", ["a"]),
        ("a 'é ü' ß\u00a0x \U00031860", ["a", "é ü", "ß\u00a0x", "\U00031860"]),
        ("ä() { a é $1; }; ä 'ö'", ["a", "é", "ö"]),
        ("X=é; a $X ${Y:-ü} <<E\nß\nE\n", ["a", "é", "${Y:-ü}"]),
        ("a \\ --b", ["a", " --b"]),
        ("a b\\ ", ["a", "b "]),
        ("a \\ \n", ["a", " "]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert list(last(text).words) == words


def test_words_that_are_not_known_stay_as_written() -> None:
    command = last("$UIP run \"x-$ID\" $(date) ${X%y} known '$lit'")
    assert command.words == ("$UIP", "run", "x-$ID", "$(date)", "${X%y}", "known", "$lit")
    assert command.known == (False, True, False, False, False, True, True)


def test_variables_of_the_environment() -> None:
    assert understand("$UIP run", 0, variables={"UIP": "uip"}).commands[0].words == ("uip", "run")


@pytest.mark.parametrize(
    ("text", "words", "prefixed"),
    [
        ("env -u X A=1 a b", "a b", ["env -u X A=1"]),
        ("time -p a", "a", ["time -p"]),
        (
            "nohup timeout -k 3 --signal=KILL 10s nice -n 5 a",
            "a",
            ["nohup", "timeout -k 3 --signal=KILL 10s", "nice -n 5"],
        ),
        ("stdbuf -oL ionice -c 3 setsid a", "a", ["stdbuf -oL", "ionice -c 3", "setsid"]),
        ("sudo -u bob -E X=1 a -u y", "a -u y", ["sudo -u bob -E X=1"]),
        ("command a; builtin b; exec c", "c", ["exec"]),
        ("xargs -0 -n 2 a b", "a b", ["xargs -0 -n 2"]),
        ("env A=1 bash -lc 'timeout 5 a'", "a", ["env A=1", "bash -lc", "timeout 5"]),
        ("env", "env", []),
        ("command -v a", "command -v a", []),
        ("sudo -l", "sudo -l", []),
        ("time", "time", []),
        ("npx -y --package x a b", "a b", ["npx -y --package x"]),
        ("npx a@latest b", "a b", ["npx"]),
        ("npx --strange a b", "npx --strange a b", []),
        ("bunx --bun a", "a", ["bunx --bun"]),
        ("pnpm --filter x exec a b", "a b", ["pnpm --filter x exec"]),
        ("pnpm dlx a", "a", ["pnpm dlx"]),
        ("pnpm run a", "pnpm run a", []),
        ("yarn -s run a b", "a b", ["yarn -s run"]),
        ("npm exec --yes -- a b", "a b", ["npm exec --yes --"]),
        ("npm exec a -- b", "npm exec a -- b", []),
        ("npm run a", "npm run a", []),
        ("uv --directory d run --with x -p 3.12 a b -p", "a b -p", ["uv --directory d run --with x -p 3.12"]),
        ("uv run app.py", "uv run app.py", []),
        ("uv run -m a", "uv run -m a", []),
        ("uv pip install a", "uv pip install a", []),
        ("uvx --from x a", "a", ["uvx --from x"]),
        ("poetry -C d run a b", "a b", ["poetry -C d run"]),
        ("pipenv run a", "a", ["pipenv run"]),
        ("pdm run a", "a", ["pdm run"]),
        ("hatch -e x run a", "a", ["hatch -e x run"]),
        ("hatch run x:a", "hatch run x:a", []),
        ("rye run a", "a", ["rye run"]),
        ("conda run -n X --no-capture-output a b", "a b", ["conda run -n X --no-capture-output"]),
        ("mise exec node@20 -- a b", "a b", ["mise exec node@20 --"]),
        ("mise exec node@20", "mise exec node@20", []),
        ("bundle exec a", "a", ["bundle exec"]),
        ("dotenv -f e run -- a", "a", ["dotenv -f e run --"]),
        ("dotenv -- a", "a", ["dotenv --"]),
        ("direnv exec . a b", "a b", ["direnv exec ."]),
        ("strace -f -o log -e trace=file a -b", "a -b", ["strace -f -o log -e trace=file"]),
        ("strace -p 12", "strace -p 12", []),
        ("ltrace -S a", "a", ["ltrace -S"]),
        ("xvfb-run -a --server-args='-x y' a", "a", ["xvfb-run -a --server-args=-x y"]),
        ("flock -w 5 f a b", "a b", ["flock -w 5 f"]),
        ("chrt -f 10 a", "a", ["chrt -f 10"]),
        ("taskset -c 0-3 a", "a", ["taskset -c 0-3"]),
        ("taskset -p 12", "taskset -p 12", []),
        ("unbuffer a", "a", ["unbuffer"]),
        ("setpriv --reuid 1 --clear-groups a", "a", ["setpriv --reuid 1 --clear-groups"]),
        ("env -S 'a b' c", "a b c", ["env -S", "env"]),
        ("env -S'X=1 a b'", "a b", ["env -S", "env X=1"]),
        ("env --split-string='a $b'", "env --split-string=a $b", []),
        ("python -m a b", "python -m a b", []),
        ("uv run bash -c 'timeout 5 npx a'", "a", ["uv run", "bash -c", "timeout 5", "npx"]),
        ("timeout 5", "timeout 5", []),
        ("busybox a b", "a b", ["busybox"]),
        ("/bin/busybox timeout 5 a", "a", ["/bin/busybox", "timeout 5"]),
        ("toybox busybox sh -c 'a b'", "a b", ["toybox", "busybox", "sh -c"]),
        ("busybox", "busybox", []),
        ("busybox --install -s a", "busybox --install -s a", []),
    ],
)
def test_prefixes(text: str, words: str, prefixed: list[str]) -> None:
    command = last(text)
    assert (command.text, list(command.prefixed)) == (words, prefixed)


@pytest.mark.parametrize(
    ("text", "bypass"),
    [
        ("a", False),
        ("/usr/bin/a", True),
        ("./a", True),
        ("env -i a", True),
        ("env - a", True),
        ("/usr/bin/env a", False),
        ("command -p a", True),
        ("PATH=/x a", True),
        ("env PATH=/x a", True),
        ("PATH=/x:$PATH a", True),
        ('export PATH="$HOME/bin:$PATH"; a', True),
        ("PATH=$PATH:/x a", False),
        ('export PATH="${PATH}:/x"; a', False),
        ("PATH+=:/x; a", False),
        ("PATH='$PATH:/x'; a", True),
        ("PATH=$PATHS; a", True),
        ("declare -x PATH=/x; a", True),
        ("f() { a; }; PATH=/x f", True),
        ("unset PATH; a", True),
        ("env -u PATH a", True),
        ("read PATH; a", True),
        ("hash -p /x/a a; a", True),
        ("sudo a", True),
        ("sudo -u bob env X=1 a", True),
        ("exec -c a", True),
        ("su - -c a", True),
        ("su -c a", False),
        ("uv run a", False),
        ("npx a", False),
        ("npx a@2", True),
        ("busybox a", True),
        ("toybox a", True),
        ("busybox sh -c a", False),
        ("busybox timeout 5 a", False),
        ("busybox env -i a", True),
        ("busybox timeout 5 busybox a", True),
        ("npx @b/a", True),
        (r"PATH=/x find . -exec a \;", True),
        ("export PATH=/x; a", True),
        ("env -i bash -c a", True),
        ("(PATH=/x); a", False),
    ],
)
def test_going_past_the_path(text: str, bypass: bool) -> None:
    assert last(text).bypass is bypass


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("echo uip 'solution deploy'", ["uip solution deploy"]),
        ("which uip", ["uip"]),
        ("command -v uip", ["-v uip"]),
        ("grep -n 'a b' f", ["a b"]),
        ("git commit -m 'run a b'", ["run a b"]),
        ("python3 -c 'import os' x", ["import os"]),
        ("node --eval 'f( )'", ["f( )"]),
        ("uip run 'x y'", []),
        ("cat > f <<'E'\nuip run\nE\n", ["uip run\n"]),
        ("python - <<< 'x y'", ["x y\n", "<<< 'x y'"]),
        ('uip run < <(b c) > "$(d e)"', ["<(b c)", "$(d e)"]),
        ('uip run <<< "$(b c)"', ["$(b c)\n", '<<< "$(b c)"', "$(b c)"]),
        ("find 'a b' -name 'c d'", ["c d"]),
        ("set -e -- a b", ["a b"]),
        ("set -o pipefail", []),
        ("bash -n -c 'a b'", ["a b"]),
        ("rm -rf '/a b'", []),
        ("cat 'a b/SKILL.md' | head 'c d'", []),
        ("cd 'a b'", []),
        ("ls 'a b'", []),
        ("cp 'a b' 'c d'", []),
        ("grep -A 3 -n 'a b' 'c d'", ["a b"]),
        ("grep -e 'a b' -e'c d' 'e f'", ["a b", "c d"]),
        ("grep -f 'a b' 'c d'", []),
        ("rg -g '*.x y' 'a b' 'c d'", ["a b"]),
        ("sed -i 's/a b/c/' 'e f'", ["s/a b/c/"]),
        ("sed -n -e '1 p' 'e f'", ["1 p"]),
        ("sed 's/a b/c d/e' f", []),
        ("sed '1e a b' f", []),
        ("awk -F ' ' '{print $1, $2}' 'a b'", ["{print $1, $2}"]),
        ("awk '/a b/ || /c/' f", ["/a b/ || /c/"]),
        ("awk 'BEGIN { system(\"a b\") }'", []),
        ("awk '{ print $1 | \"a b\" }'", []),
        ("awk '{ \"a b\" | getline x }'", []),
        ("jq --arg x 'a b' '.c | .d' 'e f'", ["a b", ".c | .d"]),
        ("yq -i '.a = \"b c\"' f", ['.a = "b c"']),
        ("git commit -am 'a b' -- 'c d'", ["a b"]),
        ("git log --grep='a b' --format '%h %s'", ["a b", "%h %s"]),
        ("git add 'a b'", []),
        ("git rebase -x 'a b' main", []),
        ("gh pr create --title 'a b' --body='c d'", ["a b", "c d"]),
        ("pkill -f 'a b'", ["a b"]),
        ("test 'a b' = x", ["a b"]),
        ("psql -c 'select a b'", ["select a b"]),
        ("sqlite3 f '.shell a b'", []),
        ("mysql -e '\\! a b'", []),
        ("curl -sSd 'a b' -H 'c: d' -o 'e f' http://x", ["a b", "c: d"]),
        ("wget --post-data='a b' -O 'c d' http://x", ["a b"]),
        ("perl -pi -e 's/a b/c/' f", ["s/a b/c/"]),
        ("ruby -e 'x y' -e 'z w'", ["x y", "z w"]),
        ("python3 -W ignore -c 'x y'", ["x y"]),
        ("A='x y' uip run", ["'x y'"]),
        ("export A='x y'", ["A=x y"]),
        ('uip run "$(b c)"', ["$(b c)"]),
    ],
)
def test_data(text: str, data: list[str]) -> None:
    assert list(last(text).data) == data


def test_what_find_runs_is_a_command_of_its_own() -> None:
    find, run = understand(r"find . -exec env X=1 uip run {} --x \; > log", 0).commands
    assert find.data == ("env X=1 uip run {} --x",)
    assert (run.raw, run.words, run.prefixed) == (
        "env X=1 uip run {} --x",
        ("uip", "run", "{}", "--x"),
        ("env X=1",),
    )
    assert run.known == (True, True, False, True)


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ('x; $UIP run \\\n  --a "b" > f 2>&1; y', '$UIP run \\\n  --a "b" > f 2>&1'),
        ("x && uip run > f | y", "uip run > f"),
        ("x; uip run <<'E' > f && y\nbody\nE\n", "uip run <<'E' > f"),
        ('uip run <<< "b c"; y', 'uip run <<< "b c"'),
        ("A=1 uip run; y", "A=1 uip run"),
        ("bash -c 'uip run \"x\"'; y", 'uip run "x"'),
    ],
)
def test_raw_is_the_source_of_the_command_alone(text: str, raw: str) -> None:
    found = [command.raw for command in understand(text, 0).commands]
    assert raw in found


def test_stdin_and_assignments() -> None:
    assert last('A=x; B=$A uip run <<E\n$A "q" \\$A\nE\n').stdin == 'x "q" $A\n'
    assert last("A=x; B=$A env C=3 uip run").assignments == (("B", "x"), ("C", "3"))
    assert last("uip run < file").stdin is None


def test_several_here_documents_of_one_line() -> None:
    commands = understand("a <<'X' && b <<-Y | c\none\nX\n\ttwo\n\tY\nd", 0).commands
    assert [(command.text, command.stdin) for command in commands] == [
        ("a", "one\n"),
        ("b", "two\n"),
        ("c", None),
        ("d", None),
    ]


def test_shifts_and_comments_are_no_here_documents() -> None:
    text = "a $((1 << 2)) '<<E' \"<<E\" # <<E\nb"
    assert [command.words[0] for command in understand(text, 0).commands] == ["a", "b"]
