"""Words that run another program: `env`, `timeout`, `sudo` and their like, and shells with their text."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Container, Sequence

from .expansion import Text
from .launchers import LAUNCHERS, Launched, Launcher, launched, switched_user

SHELLS = frozenset("sh bash dash ash zsh ksh mksh".split())

MOST_PREFIXES = 20
"""Prefixes of one command that are taken off."""

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class _Options:
    """The options of a prefix: letters and long names that take a value, and those with which nothing is run."""

    values: str = ""
    long_values: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    operands: int = 0
    """Words before the program."""
    assignments: bool = False
    functions: bool = False
    """Whether a function may be meant."""


_PREFIXES = {
    "env": _Options("uCS", ("--unset", "--chdir", "--split-string"), assignments=True),
    "time": _Options("fo", ("--format", "--output"), functions=True),
    "nohup": _Options(),
    "timeout": _Options("ks", ("--kill-after", "--signal"), operands=1),
    "gtimeout": _Options("ks", ("--kill-after", "--signal"), operands=1),
    "nice": _Options("n", ("--adjustment",)),
    "ionice": _Options("cnpPu", ("--class", "--classdata"), none=("-p", "-P", "-u")),
    "stdbuf": _Options("ioe", ("--input", "--output", "--error")),
    "setsid": _Options(),
    "winpty": _Options(),
    "noglob": _Options(functions=True),
    "nocorrect": _Options(functions=True),
    "sudo": _Options(
        "ugpCrtThDRU",
        ("--user", "--group", "--chdir"),
        none=("-l", "-v", "-k", "-K", "-e", "-V", "--list"),
        assignments=True,
    ),
    "doas": _Options("uC"),
    "command": _Options(none=("-v", "-V")),
    "builtin": _Options(),
    "exec": _Options("a"),
    "xargs": _Options("IEdLnPsa", ("--max-args", "--max-procs", "--max-lines", "--arg-file", "--delimiter")),
}


@dataclasses.dataclass(frozen=True)
class Xargs:
    """How `xargs` runs a command: once with all words of its input when `plain`, or with each line for `replaced`."""

    plain: bool = True
    replaced: str = ""


@dataclasses.dataclass(frozen=True)
class Stripped:
    """What remains of a command behind its prefixes."""

    words: tuple[Text, ...]
    prefixed: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    bypass: bool = False
    functions: bool = True
    replaces_shell: bool = False
    """Whether the shell ends with it (`exec`)."""
    xargs: Xargs | None = None
    """When it runs as its input says."""
    text: Text | None = None
    """The shell text that a launcher runs; then `words` are the launcher's."""
    untold: str = ""
    """The launcher whose status does not tell how the command ended."""
    once: bool = True
    """Whether no launcher may run it several times."""
    some: bool = False
    """Whether that launcher may run it not at all."""
    refused: bool = False
    """Whether a launcher may fail without running it."""


def strip(words: Sequence[Text], functions: Container[str] = ()) -> Stripped:
    """Return the command that `words` run in the end. A name of `functions` is no prefix."""
    result = Stripped(tuple(words))
    while result.words and result.words[0].known and len(result.prefixed) < MOST_PREFIXES and result.text is None:
        written = result.words[0].text
        if result.functions and written in functions:
            break
        after = _next(result, written.rpartition("/")[2])
        if after is None:
            break
        result = after
    return result


def _next(before: Stripped, name: str) -> Stripped | None:
    """Return what stands behind the prefix `name`, or None where it is none."""
    if name == "su":
        return _launched(before, name, Launcher(), switched_user(before.words))
    if name in LAUNCHERS:
        return _launched(before, name, LAUNCHERS[name], launched(before.words, LAUNCHERS[name]))
    options = _PREFIXES.get(name)
    return _after(before, name, options) if options is not None else None


def _launched(before: Stripped, name: str, launcher: Launcher, found: Launched | None) -> Stripped | None:
    if found is None:
        return None
    untold = launcher.untold and not found.options.intersection(launcher.told_by)
    own = launcher.many and not _runs_others(found.words)
    return dataclasses.replace(
        before,
        words=found.words if found.text is None else before.words,
        text=found.text,
        prefixed=(*before.prefixed, " ".join(word.text for word in before.words[: found.behind])),
        bypass=before.bypass or found.bypass or own,
        functions=False,
        untold=before.untold or name * untold,
        once=before.once and (launcher.once or not untold),
        some=before.some or launcher.some,
        refused=before.refused or bool(found.options.intersection(launcher.refuses)),
    )


def _runs_others(words: Sequence[Text]) -> bool:
    """Whether the program is one that looks for another one by itself."""
    name = words[0].text.rpartition("/")[2] if words and words[0].known else ""
    return name in SHELLS or name == "su" or name in LAUNCHERS or name in _PREFIXES


def _after(before: Stripped, name: str, options: _Options) -> Stripped | None:
    """Return what stands behind one prefix, or None where it runs nothing else."""
    words = before.words
    at, bypass = 1, False
    xargs = before.xargs
    while at < len(words) and re.match(r"-.|-$", words[at].text):
        word = words[at].text
        at += 1
        if word == "--":
            break
        if word in options.none or (name in ("command",) and re.fullmatch(r"-p?[vV]+", word)):
            return None
        if name == "env" and (split := _split_string(words, at)) is not None:
            return dataclasses.replace(before, words=split, prefixed=(*before.prefixed, "env -S"))
        bypass = bypass or _leaves_path(name, word)
        if name == "xargs":
            xargs = _xargs(xargs, word, words[at : at + 1])
        if _takes_value(word, options):
            if name == "env" and word.startswith(("-S", "--split")):
                return None
            bypass = bypass or (name == "env" and words[at : at + 1] == (Text("PATH"),))
            at += 1
    at += options.operands
    variables: list[tuple[str, str]] = []
    while options.assignments and at < len(words) and (found := _ASSIGNMENT.fullmatch(words[at].text)):
        variables.append((found[1], found[2]))
        at += 1
    if at >= len(words):
        return None
    own_path = bypass or name in ("sudo", "doas") or any(replaces_path(*variable) for variable in variables)
    return dataclasses.replace(
        before,
        words=words[at:],
        prefixed=(*before.prefixed, " ".join(word.text for word in words[:at])),
        variables=before.variables + tuple(variables),
        bypass=before.bypass or own_path,
        functions=before.functions and options.functions,
        replaces_shell=before.replaces_shell or name == "exec",
        xargs=xargs or (Xargs() if name == "xargs" else None),
    )


def _leaves_path(name: str, option: str) -> bool:
    """Whether an option of a prefix makes that the program is not looked for on PATH as it is."""
    if name == "env":
        return re.match(r"-$|-[a-zA-Z0-9]*i|--ignore|--unset=PATH$|-uPATH$", option) is not None
    return (name == "command" and option == "-p") or (name == "exec" and re.match(r"-\w*c", option) is not None)


def _split_string(words: Sequence[Text], at: int) -> tuple[Text, ...] | None:
    """Return the words that `env -S text` stands for, whose option stands before `at`."""
    found = re.fullmatch(r"(-[v0i]*)S(.*)|--split-string(?:=(.*))?", words[at - 1].text, re.DOTALL)
    if found is None:
        return None
    given = found[2] or found[3]
    text = Text(given) if given else words[at] if at < len(words) else None
    if text is None or not text.known or re.search(r"[\\$]", text.text):
        return None
    try:
        split = tuple(Text(word) for word in shlex.split(text.text))
    except ValueError:
        return None
    more = (Text(found[1]),) if found[1] and len(found[1]) > 1 else ()
    return (words[0], *more, *split, *words[at if given else at + 1 :])


def _xargs(before: Xargs | None, word: str, following: Sequence[Text]) -> Xargs:
    """Return how `xargs` runs its command by one option more."""
    found = re.fullmatch(r"-I(.*)|-i(.*)|--replace(?:=(.*))?", word, re.DOTALL)
    if found is None:
        harmless = word in ("-r", "-t", "--no-run-if-empty", "--verbose")
        return before or Xargs() if harmless else Xargs(plain=False)
    if before is not None and not before.plain:
        return before
    replaced = found[1] or found[2] or found[3] or (following[0].text if word == "-I" and following else "{}")
    return Xargs(replaced=replaced)


def _takes_value(word: str, options: _Options) -> bool:
    if word.startswith("--"):
        return word in options.long_values
    letter = next((letter for letter in word[1:] if letter in options.values), None)
    return letter is not None and word.endswith(letter) and word.index(letter) == len(word) - 1


def replaces_path(name: str, value: str) -> bool:
    """Whether an assignment, as written, makes a PATH that does not begin with the one before."""
    return name == "PATH" and not re.match(r'"?(?:\$PATH(?!\w)|\$\{PATH(?:\}|:\+))', value)


@dataclasses.dataclass(frozen=True)
class ShellCall:
    """A shell that is started: with a text, with a script's file, or reading its standard input when both are None."""

    text: Text | None
    file: Text | None
    arguments: tuple[Text, ...]
    errexit: bool
    pipefail: bool
    runs: bool
    """False for `-n`, which only parses."""
    head: str
    """The words before the text."""


def shell_call(words: Sequence[Text]) -> ShellCall | None:
    """Return how `words` start a shell, or None when they do not."""
    if not words or not words[0].known or words[0].text.rpartition("/")[2] not in SHELLS:
        return None
    at, letters, names = 1, "", []
    while at < len(words) and re.match(r"[-+].", words[at].text):
        word = words[at].text
        at += 1
        if word == "--":
            break
        if word.startswith("--"):
            at += word in ("--rcfile", "--init-file")
            continue
        letters += word[1:] if word[0] == "-" else ""
        if re.search(r"[oO]$", word):
            names += [words[at].text] if at < len(words) and word[0] == "-" else []
            at += 1
    rest = tuple(words[at:])
    head = " ".join(word.text for word in words[:at])
    errexit, pipefail, runs = (
        "e" in letters or "errexit" in names,
        "pipefail" in names,
        "n" not in letters and "noexec" not in names,
    )
    if "c" in letters:
        text = rest[0] if rest else Text("")
        return ShellCall(text, None, rest[2:], errexit, pipefail, runs, head)
    if "s" in letters or not rest or rest[0].text in ("/dev/stdin", "-"):
        return ShellCall(None, None, rest if "s" in letters else rest[1:], errexit, pipefail, runs, head)
    return ShellCall(None, rest[0], rest[1:], errexit, pipefail, runs, head)
