"""Which parts of a command are texts that it prints, searches or interprets, and no commands by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

PRINTERS = frozenset(
    "echo printf : true false which type whereis man help info apropos hash alias unalias trap logger say exit"
    " return".split()
)
"""Programs whose arguments are data together."""

TEXT_TOOLS = frozenset(
    "grep egrep fgrep zgrep rg ag ack sed awk gawk mawk git jq yq cat tac tee test [ [[ find fd mkdir rmdir touch rm"
    " cp mv ln ls head tail less more wc sort uniq cut tr diff cmp comm read export declare typeset local readonly"
    " unset set cd pushd stat file basename dirname realpath readlink chmod chown column fold nl xxd od base64 md5sum"
    " sha256sum tar zip unzip bat gh".split()
)
"""Programs whose arguments with blanks are data, each by itself."""

_FULL_READERS = frozenset("tee tail cat sort wc jq tr cut column uniq nl less more awk base64 xargs".split())
_EARLY_ENDS = re.compile(r"-\w*[qmlL]\w*|--quiet|--silent|--max-count.*|--files.*")

_CODE_OPTIONS = {
    "python": "c",
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
    "sqlite3": "",
    "psql": "c",
}
_LONG_CODE_OPTIONS = frozenset({"--eval", "--print", "--execute", "--command"})


def data_of(words: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of a command that are data: all of a printer's as one text, else one by one."""
    if not words:
        return
    program, arguments = words[0].rpartition("/")[2], words[1:]
    if program in PRINTERS or (program == "command" and arguments and re.fullmatch(r"-p?[vV]+", arguments[0])):
        if arguments:
            yield " ".join(arguments)
    elif program in TEXT_TOOLS:
        yield from (argument for argument in arguments if re.search(r"\s", argument))
    else:
        yield from _code(program, arguments)


def reads_all(words: Sequence[str]) -> bool:
    """Whether a program reads its input to the end, so that what writes to it does not break off."""
    program = words[0] if words else ""
    if program in ("grep", "egrep", "fgrep", "rg"):
        return not any(_EARLY_ENDS.fullmatch(word) for word in words[1:])
    return program in _FULL_READERS or (program == "sed" and not any("q" in word for word in words[1:]))


def _code(program: str, arguments: Sequence[str]) -> Iterator[str]:
    base = re.sub(r"[\d.]+$", "", program)
    letters = _CODE_OPTIONS.get(base)
    if letters is None:
        return
    for index, argument in enumerate(arguments[:-1]):
        cluster = re.fullmatch(r"-\w*(\w)", argument)
        if argument in _LONG_CODE_OPTIONS or (cluster and cluster[1] in letters):
            yield arguments[index + 1]
            return
        if not argument.startswith("-"):
            return
