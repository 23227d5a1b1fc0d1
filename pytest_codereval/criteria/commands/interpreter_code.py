"""The code that a command gives to an interpreter: what of it is code, and which programs it names by their path."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from ...trajectory.shell import SimpleCommand

MASK = "\ufffc"
"""Stands in a text where something was taken out."""

SHOWN_CODE = 500
"""Characters behind the path of a program that are taken for its arguments."""

_INTERPRETER = re.compile(
    r"(?:python|pypy|ipython)[\d.]*|node|nodejs|deno|bun|tsx|ts-node|perl|ruby|php|lua|Rscript|osascript|pwsh|powershell"
)
_AWK = re.compile(r"[gmn]?awk")
_AWK_RUNS = re.compile(r"\bsystem\s*\(|\bgetline\b|\|\s*\"")
_SLASHES = re.compile(r"node|nodejs|deno|bun|tsx|ts-node|php|osascript")
_DASHES = re.compile(r"lua|osascript")
_COMMENT_STARTS = {"slashes": "//", "dashes": "--", "hash": "#"}
_SUBSTITUTION = re.compile(r"\"?(?:\$\(|`|<\()")
_PUNCTUATION = re.compile(r"[\s\"'`,;()\[\]{}]+")
_CODE_OPTION = re.compile(r"-\w*[ceEmpr]|--(?:eval|print|execute|command)")


def runs_code(command: SimpleCommand) -> bool:
    """Whether the program is an interpreter; `awk` is one where its text runs programs."""
    if _INTERPRETER.fullmatch(command.program):
        return True
    return _AWK.fullmatch(command.program) is not None and any(map(_AWK_RUNS.search, command.words))


def code_of(command: SimpleCommand) -> tuple[str, ...]:
    """The data of an interpreter's command that are code, without comments."""
    values = {value for _, value in command.assignments}
    kind = _comments(command.program)
    parts = [word for word in command.words[1:] if _AWK_RUNS.search(word)] if _AWK.fullmatch(command.program) else []
    return tuple(
        _split(part, kind, strings=False)
        for part in dict.fromkeys((*command.data, *parts))
        if not _SUBSTITUTION.match(part)
        and part.strip("\"'") not in values
        and (part != command.stdin or _reads_code(command))
    )


def without_strings(command: SimpleCommand, code: str) -> str:
    """`code` with the contents of its quotes taken out."""
    return _split(code, _comments(command.program), strings=True)


def named_by_path(command: SimpleCommand, tools: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each path under which the code of an interpreter names one of `tools`, and what it may run there.

    That is the path and the text behind it in the same line, without quotes, commas and brackets.
    """
    if not tools or not runs_code(command):
        return
    names = "|".join(map(re.escape, sorted(tools, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w./+-])/(?:[\w.+-]+/)+(?:{names})(?![\w./+-])")
    for code in code_of(command):
        for match in pattern.finditer(code):
            line = code[match.start() : match.end() + SHOWN_CODE].partition("\n")[0]
            yield match.group(), _PUNCTUATION.sub(" ", line).strip()


def _reads_code(command: SimpleCommand) -> bool:
    """Whether the interpreter takes its code from standard input."""
    for word in command.words[1:]:
        if word in ("-", "/dev/stdin"):
            return True
        if _CODE_OPTION.fullmatch(word) or not word.startswith("-"):
            return False
    return True


def _comments(program: str) -> str:
    if _SLASHES.fullmatch(program):
        return "slashes"
    return "dashes" if _DASHES.fullmatch(program) else "hash"


_STRING_ENDS = {
    '"""': re.compile(r'[\s\S]*?"""'),
    "'''": re.compile(r"[\s\S]*?'''"),
    '"': re.compile(r'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL),
    "'": re.compile(r"[^'\\]*(?:\\.[^'\\]*)*'", re.DOTALL),
    "`": re.compile(r"[^`\\]*(?:\\.[^`\\]*)*`", re.DOTALL),
    "/*": re.compile(r"[\s\S]*?\*/"),
}


def _split(code: str, comments: str, *, strings: bool) -> str:
    """`code` without its comments and, when `strings`, without its strings. A string that nobody ends is none.

    Takes time in proportion to the length: a string that has no end is looked for once.
    """
    start = re.escape(_COMMENT_STARTS[comments])
    block = r"|/\*" if comments == "slashes" else ""
    tokens = re.compile(rf"\\.|(?P<line>{start}[^\n]*)|(?P<open>\"\"\"|'''|[\"'`]{block})", re.DOTALL)
    endless: set[str] = set()
    result: list[str] = []
    done = at = 0
    while (token := tokens.search(code, at)) is not None:
        at = token.end()
        opening = token["open"]
        if token["line"] is None and (opening is None or opening in endless):
            continue
        end = _STRING_ENDS[opening].match(code, at) if opening is not None else token
        if end is None:
            endless.add(opening)
            continue
        at = end.end()
        if strings or opening in (None, "/*"):
            result += [code[done : token.start()], MASK]
            done = at
    return "".join([*result, code[done:]])
