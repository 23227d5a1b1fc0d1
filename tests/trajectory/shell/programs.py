"""Random shell programs over two programs that note how they were called: `c ID STATUS` and `upto ID N`."""

from __future__ import annotations

import dataclasses
import random
import shlex
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a statement stands."""

    depth: int
    loop: bool = False
    function: bool = False

    def inner(self, *, loop: bool | None = None, function: bool | None = None) -> Place:
        return Place(
            self.depth - 1,
            self.loop if loop is None else loop,
            self.function if function is None else function,
        )


class Programs:
    """Writes programs; the same seed gives the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._last = 0

    def program(self) -> str:
        """Return the text of one program, of one to five statements."""
        self._last = 0
        head = self._random.choice(["", "", "", "set -e\n", "set -o pipefail; ", "set -euo pipefail\n"])
        return head + self._block(Place(self._random.choice([1, 1, 2, 3])), self._random.randint(1, 4))

    def _number(self) -> int:
        self._last += 1
        return self._last

    def _block(self, place: Place, length: int) -> str:
        parts = [self._statement(place) for _ in range(length)]
        text = parts[0]
        for part in parts[1:]:
            ends = text.endswith(("&", "\n"))
            text += " " if ends else self._random.choice(["\n", "\n", "; ", "\n# c 900 0\n"])
            text += part
        return text

    def _statement(self, place: Place) -> str:
        if place.depth <= 0 or self._random.random() < 0.3:
            return self._simple(place)
        kinds: list[tuple[int, Callable[[Place], str]]] = [
            (8, self._and_or),
            (4, self._pipeline),
            (2, lambda here: f"! {self._simple(here)}"),
            (3, self._group),
            (3, self._if),
            (3, self._for),
            (2, self._while),
            (2, self._case),
            (2, self._function),
            (2, self._nested),
            (2, self._substitution),
            (4, lambda here: self._flat()),
            (1, lambda here: self._compound(here.inner(loop=False)) + " &"),
        ]
        weights = [weight for weight, _ in kinds]
        return self._random.choices([kind for _, kind in kinds], weights)[0](place)

    def _compound(self, place: Place) -> str:
        """A statement that may stand in a pipeline."""
        text = self._statement(place)
        return text if "\n" not in text and not text.endswith("&") and text.startswith(("c ", "(")) else self._call()

    def _call(self) -> str:
        return f"c {self._number()} {self._random.choice([0, 0, 1])}"

    def _simple(self, place: Place) -> str:
        choices = [(12, self._call), (6, self._written), (2, self._leaving(place)), (2, self._plain)]
        return self._random.choices([make for _, make in choices], [weight for weight, _ in choices])[0]()

    def _plain(self) -> str:
        return self._random.choice(
            [
                "true",
                "false",
                ":",
                "echo 'c 901 0'",
                "cat <<'E' >/dev/null\nc 902 0\nE\n",
                "set -e",
                "set +e",
                "set -o pipefail",
                "V=c",
                "[ -n x ]",
                "printf '%s' 'c 903 0' > /dev/null",
            ]
        )

    def _leaving(self, place: Place) -> Callable[[], str]:
        options = [
            "exit 0",
            "exit 3",
            f"{self._call()}; exit $?",
            f"{self._call()}; rc=$?; {self._call()}; exit $rc",
            f"{self._call()} || exit 1",
            f"exec {self._call()}",
        ]
        options += ["break", "continue", f"{self._call()} && break"] * 2 if place.loop else []
        options += ["return 0", "return 1", f"{self._call()}; return", "return $?"] * 2 if place.function else []
        return lambda: self._random.choice(options)

    def _written(self) -> str:
        number, status = self._number(), self._random.choice([0, 0, 1])
        return self._random.choice(
            [
                f"c \\\n  {number} {status}",
                f"'c' \"{number}\" {status} 'two words'",
                f"env A=1 c {number} {status}",
                f"timeout -k 5 50 c {number} {status}",
                f"nohup c {number} {status} 2>/dev/null",
                f"command c {number} {status}",
                f"A=1 c {number} {status} > /dev/null 2>&1",
                f"P=c; $P {number} {status}",
                f'N={number}; c $N ${{S:-{status}}} "$N"',
                f"c {number} {status} \"$UNKNOWN\" $'t\\tt' a\"b\"'c'",
                f"c {number} {status} {{x,y}}z",
                f"c {number} {status} <<< 'c 904 0'",
                f"c {number} {status} <<E\nc 905 0 $UNKNOWN\nE\n",
                f"stdbuf -oL nice -n 1 c {number} {status}",
                f"echo a | xargs c {number} {status}",
                f"echo 'a  b' | xargs -I% c {number} {status} '%;'",
                f'set -- {number} {status}; c "$@"',
                f'args=({number} {status}); c "${{args[@]}}"',
                f"find /dev/null -exec c {number} {status} {{}} \\;",
                f"find /dev/null /dev/zero -exec sh -c 'c {number} {status} \"$1\"' _ {{}} \\;",
                f"find /dev/null -name nothing -exec c {number} {status} {{}} +",
                f"seq 3 | xargs -n 1 c {number} {status}",
                f"printf 'a\\nb\\n' | xargs -I% c {number} {status} %",
                f"coproc c {number} {status}; wait",
                f"time {{ c {number} {status}; }}",
                f"flock /dev/null c {number} {status}",
                f"env -S 'c {number}' {status}",
                f"c {number} {status} x\\ y\\ ",
                f"for ((i = 0; i < {status + 1}; i++)); do c {number} 0; done",
                f"case a in a) c {number} {status} ;& b) {self._call()} ;; esac",
                f"{{ {self._call()}; }}; rc=$?; c {number} {status}; : $((rc = 0)); exit $rc",
            ]
        )

    def _and_or(self, place: Place) -> str:
        parts = [self._operand(place.inner()) for _ in range(self._random.randint(2, 4))]
        text = parts[0]
        for part in parts[1:]:
            text += self._random.choice([" && ", " || ", " &&\n"]) + part
        return text

    def _flat(self) -> str:
        """Calls with all operators between them, on several lines."""
        text = self._call()
        for _ in range(self._random.randint(2, 6)):
            text += self._random.choice(
                [
                    " && ",
                    " || ",
                    " | ",
                    " | ",
                    "\n",
                    " # c 906 0\n",
                    "; ",
                    " |\n",
                    "\n! ",
                    " >/dev/null | ",
                    " 2>&1 && ",
                ]
            )
            text += self._call()
        return text

    def _operand(self, place: Place) -> str:
        """A statement that may stand beside `&&`."""
        text = self._statement(place)
        one = not any(mark in text for mark in (";", "\n", "&", "|"))
        return text if one else f"{{ {text}\n}}" if not text.endswith("&") else self._call()

    def _pipeline(self, place: Place) -> str:
        parts = [self._operand(place.inner(loop=False, function=False)) for _ in range(self._random.randint(2, 3))]
        return " | ".join(part.removeprefix("! ") for part in parts)

    def _group(self, place: Place) -> str:
        if self._random.random() < 0.5:
            return f"( {self._block(place.inner(loop=False), 2)}\n)"
        return f"{{ {self._block(place.inner(), 2)}\n}}"

    def _if(self, place: Place) -> str:
        inner = place.inner()
        text = f"if {self._operand(inner)}\nthen {self._block(inner, 1)}\n"
        if self._random.random() < 0.3:
            text += f"elif {self._operand(inner)}\nthen {self._block(inner, 1)}\n"
        if self._random.random() < 0.6:
            text += f"else {self._block(inner, 1)}\n"
        return text + "fi"

    def _for(self, place: Place) -> str:
        words = self._random.choice(["1 2", "a", "$NOTHING", "$SOME", "a $SOME", "{1..3}", "$(seq 2)", '"$@"'])
        body = self._block(place.inner(loop=True), self._random.randint(1, 2))
        call = f"c {self._number()} {self._random.choice([0, 0, 1])} $i\n" if self._random.random() < 0.7 else ""
        return f"for i in {words}; do {call}{body}\ndone"

    def _while(self, place: Place) -> str:
        word = self._random.choice(["while", "until !", "while", "until"])
        count = self._random.randint(0, 2)
        condition = f"upto {self._number()} {count}"
        if word == "until":
            condition = f"{{ ! {condition}\n}}"
        return f"{word} {condition}; do {self._block(place.inner(loop=True), 1)}\ndone"

    def _case(self, place: Place) -> str:
        inner = place.inner()
        subject = self._random.choice(["a", "b", "$UNKNOWN", '"$SOME"'])
        text = f"case {subject} in\n a|x) {self._block(inner, 1)}\n;;\n"
        if self._random.random() < 0.7:
            text += f" *) {self._block(inner, 1)}\n;;\n"
        return text + "esac"

    def _function(self, place: Place) -> str:
        name = f"f{self._number()}"
        body = self._block(place.inner(loop=False, function=True), self._random.randint(1, 2))
        number = self._number()
        text = f"{name}() {{\nc {number} $1\n{body}\n}}\n"
        calls = self._random.randint(0, 2)
        ways = [f"{name} 0", f"{name} 1", f"{name} 0 && {self._call()}", f"{name} 1 || {self._call()}"]
        return text + "\n".join(self._random.choice(ways) for _ in range(calls)) if calls else text + ":"

    def _nested(self, place: Place) -> str:
        text = self._block(place.inner(loop=False, function=False), self._random.randint(1, 2))
        quoted = shlex.quote(text)
        return self._random.choice(
            [
                f"bash -c {quoted}",
                f"bash -ec {quoted}",
                f"env B=1 sh -c {shlex.quote(self._call())}",
                f"eval {shlex.quote(self._call())}",
                f"bash <<'INNER'\n{text}\nINNER\n",
                f"timeout 50 bash -o pipefail -c {quoted}",
                f"echo {shlex.quote(self._call())} | bash",
                f"bash -c 'c $1 $2' name {self._number()} 1",
            ]
        )

    def _substitution(self, place: Place) -> str:
        inner = self._block(place.inner(loop=False, function=False), 1)
        return self._random.choice(
            [
                f"x=$( {inner}\n)",
                f'c {self._number()} 0 "$( {inner}\n)"',
                f"export x=$( {inner}\n)",
                f"c {self._number()} 1 <({self._call()})",
                f"x=`{self._call()}` && {self._call()}",
                f'[ -z "$({self._call()})" ] && {self._call()}',
                f'c {self._number()} 1 <<< "$( {inner}\n)"',
                f"c {self._number()} 0 < <({self._call()})",
                f"mapfile -t lines < <({self._call()}) && {self._call()}",
                f'c {self._number()} 1 > "/dev/null$({self._call()})"',
            ]
        )
