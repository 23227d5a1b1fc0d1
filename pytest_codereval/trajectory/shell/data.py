"""Which parts of a command are texts that it prints, searches or interprets, and no commands by themselves."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from .expansion import Text

PRINTERS = frozenset(
    "echo printf : true false which type whereis man help info apropos hash alias unalias trap logger say exit"
    " return".split()
)
"""Programs whose arguments are data together."""

VALUES = frozenset("test [ [[ export read declare typeset local readonly unset pgrep pkill http https xh".split())
"""Programs whose arguments with blanks are data, each by itself."""

STATEMENTS = frozenset("sqlite3 psql mysql mariadb".split())
"""Programs whose arguments with blanks are statements, which are data unless they start a program."""


@dataclasses.dataclass(frozen=True)
class _Texts:
    """Where a program has texts among its arguments: in the values of `options`, and in its first operand where
    `operand` and none of `instead` is given. `values` are the letters and long options whose values are no texts.
    """

    options: str = ""
    values: str = ""
    operand: bool = False
    instead: str = ""
    two: str = ""
    """Options with two values, of which the second is a text."""


_GREP = _Texts("-e --regexp", "-A -B -C -m -f -d -D --file --include --exclude --exclude-dir", True, "-e -f --regexp")
_RIPGREP = _Texts(
    "-e --regexp -r --replace",
    "-A -B -C -m -f -g -t -T -j -M -E -d --glob --iglob --type --type-not --file --max-count --max-depth"
    " --context --sort",
    True,
    "-e -f --regexp --files --file",
)
_AWK = _Texts("-v --assign -e --source", "-F -f --field-separator --file", True, "-f --file -e --source")
_JQ = _Texts(
    "",
    "--indent -L -f --from-file -o -p --output-format --input-format",
    True,
    "-f --from-file",
    "--arg --argjson --slurpfile --rawfile",
)
_TEXTS = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep"), _GREP),
    "rg": _RIPGREP,
    "ag": _Texts("", "-A -B -C -G -m -p --ignore --ignore-dir", True),
    "ack": _Texts("--match", "-A -B -C -m --type --ignore-dir --ignore-file", True, "--match"),
    "sed": _Texts("-e --expression", "-f -l --file --line-length", True, "-e -f --expression --file"),
    "gsed": _Texts("-e --expression", "-f -l --file --line-length", True, "-e -f --expression --file"),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    **dict.fromkeys(("jq", "yq", "gojq"), _JQ),
    "git": _Texts(
        "-m --message --grep --author --committer --date --format --pretty --trailer -S -G",
        "-C -F --git-dir --work-tree",
    ),
    "gh": _Texts(
        "-t --title -b --body -n --notes -m --message --comment -q --jq -f --raw-field -F --field -H --header -d"
        " --description --search -S --template --subject",
        "-R --repo",
    ),
    "curl": _Texts(
        "-d --data --data-raw --data-binary --data-ascii --data-urlencode --json -H --header -F --form --form-string -A"
        " --user-agent -e --referer -u --user -b --cookie -w --write-out",
        "-o -X --output --request --url",
    ),
    "wget": _Texts("--post-data --body-data --header --user-agent -U --referer", "-O -P -o"),
    **dict.fromkeys(
        ("find", "gfind"),
        _Texts("-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -printf"),
    ),
}

_BLANK = re.compile(r"\s")
_AWK_RUNS = re.compile(
    r"\bsystem\s*\(|(?<!\|)\|&?\s*(?:getline\b|\")|\"\s*\|&?\s*getline|\bprintf?\b[^\n;}|]{0,200}\|&?\s*\w", re.DOTALL
)
_SED_RUNS = re.compile(
    r"(?:^|[;{\n])\s*(?:[\d$,]+|/[^/]*/)?\s*e(?:\s|$)|(?<=[/#|@!,])[gpiIm\d]*e[gpiIm\d]*\s*(?:$|[;}\n])"
)
_STATEMENT_RUNS = re.compile(r"\\!|^\s*\.(?:shell|system|sh)\b|\bsystem\s|\bto\s+program\b|\bfrom\s+program\b", re.I)

_FULL_READERS = frozenset("tee tail cat sort wc jq tr cut column uniq nl less more awk base64 xargs".split())
_EARLY_ENDS = re.compile(r"-\w*[qmlL]\w*|--quiet|--silent|--max-count.*|--files.*")

_CODE_OPTIONS = {
    "python": "c",
    "pypy": "c",
    "node": "ep",
    "bun": "e",
    "deno": "",
    "perl": "eE",
    "ruby": "e",
    "php": "r",
    "lua": "e",
    "Rscript": "e",
    "osascript": "e",
    "pwsh": "",
}
_LONG_CODE_OPTIONS = frozenset({"--eval", "--print", "--execute", "--command", "-Command"})


FINDERS = frozenset({"find", "gfind"})
"""Programs that run others by `-exec`."""
MOST_EXECUTED = 20
"""Commands of one `find` that are followed."""


def data_of(words: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of a command that are data: all of a printer's as one text, else one by one.

    Paths that a program acts on are none, also with blanks, and neither are texts of `awk`, `sed` and databases that
    start programs. The code of an interpreter is data of it.
    """
    if not words:
        return
    program, arguments = words[0].rpartition("/")[2], words[1:]
    if program in PRINTERS or (program == "command" and arguments and re.fullmatch(r"-p?[vV]+", arguments[0])):
        if arguments:
            yield " ".join(arguments)
    elif program == "set":
        yield from _positional(arguments)
    elif program in VALUES:
        yield from filter(_BLANK.search, arguments)
    elif program in STATEMENTS:
        yield from (text for text in arguments if _BLANK.search(text) and not _STATEMENT_RUNS.search(text))
    elif program in _TEXTS:
        yield from (text for text in _texts(program, arguments) if _BLANK.search(text) and not _runs(program, text))
        if program in FINDERS:
            yield from (" ".join(found) for found in executed_by_find(words))
    else:
        yield from _code(program, arguments)


_Word = TypeVar("_Word", bound="str | Text")


def executed_by_find(words: Sequence[_Word]) -> Iterator[tuple[_Word, ...]]:
    """Yield the words of the commands that `find` runs by `-exec` and its like."""
    texts = [word if isinstance(word, str) else word.text for word in words]
    at, followed = 1, 0
    while at < len(texts) and followed < MOST_EXECUTED:
        at += 1
        if texts[at - 1] not in ("-exec", "-execdir", "-ok", "-okdir"):
            continue
        ends = (i for i in range(at, len(texts)) if texts[i] == ";" or (texts[i] == "+" and texts[i - 1] == "{}"))
        end = next(ends, len(texts))
        if end > at:
            followed += 1
            yield tuple(words[at:end])
        at = end


def reads_all(words: Sequence[str]) -> bool:
    """Whether a program reads its input to the end, so that what writes to it does not break off."""
    program = words[0] if words else ""
    if program in ("grep", "egrep", "fgrep", "rg"):
        return not any(_EARLY_ENDS.fullmatch(word) for word in words[1:])
    return program in _FULL_READERS or (program == "sed" and not any("q" in word for word in words[1:]))


def _positional(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the words that `set` makes the positional parameters."""
    for index, word in enumerate(arguments):
        named = index > 0 and re.fullmatch(r"[-+]\w*o", arguments[index - 1])
        if word in ("--", "-") or not (word.startswith(("-", "+")) or named):
            rest = arguments[index + (word in ("--", "-")) :]
            if rest:
                yield " ".join(rest)
            return


def _runs(program: str, text: str) -> bool:
    if program.endswith("awk"):
        return _AWK_RUNS.search(text) is not None
    return program.endswith("sed") and _SED_RUNS.search(text) is not None


def _texts(program: str, arguments: Sequence[str]) -> Iterator[str]:
    spec = _TEXTS[program]
    arguments = list(arguments)
    if program == "git" and "grep" in arguments:
        yield from (argument for argument in arguments if _BLANK.search(argument))
        return
    options, values, instead, two = spec.options.split(), spec.values.split(), spec.instead.split(), spec.two.split()
    given = {name for argument in arguments for name in instead if _is_option(argument, name)}
    operand = spec.operand and not given
    at = 0
    while at < len(arguments):
        argument = arguments[at]
        at += 1
        if not argument.startswith("-") or argument in ("-", "--"):
            if operand and argument not in ("--", ""):
                yield argument
                operand = False
            continue
        if argument in two:
            yield from arguments[at + 1 : at + 2]
            at += 2
            continue
        name, attached = _option(argument, options + values)
        text = attached if attached is not None else arguments[at] if name is not None and at < len(arguments) else None
        at += name is not None and attached is None
        if name in options and text is not None:
            yield text


def _is_option(argument: str, name: str) -> bool:
    if name.startswith("--"):
        return argument == name or argument.startswith(f"{name}=")
    return re.match(rf"-\w*{name[1]}", argument) is not None and not argument.startswith("--")


def _option(argument: str, names: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the option with a value that an argument is, and the value if it is attached."""
    if argument in names:
        return argument, None
    if argument.startswith("--"):
        name, equals, value = argument.partition("=")
        return (name, value) if equals and name in names else (None, None)
    for index, letter in enumerate(argument[1:], start=1):
        if f"-{letter}" in names:
            return f"-{letter}", argument[index + 1 :] or None
        if not letter.isalnum():
            break
    return None, None


def _code(program: str, arguments: Sequence[str]) -> Iterator[str]:
    base = re.sub(r"[\d.]+$", "", program)
    letters = _CODE_OPTIONS.get(base)
    if letters is None:
        return
    if base == "deno" and arguments[:1] == ["eval"]:
        yield from arguments[1:]
    for index, argument in enumerate(arguments[:-1]):
        cluster = re.fullmatch(r"-\w*(\w)", argument)
        if argument in _LONG_CODE_OPTIONS or (cluster and cluster[1] in letters):
            yield arguments[index + 1]
            if letters != "e":
                return
        elif not argument.startswith("-") and not (index and arguments[index - 1] in ("-W", "-X", "-r", "-e")):
            return
