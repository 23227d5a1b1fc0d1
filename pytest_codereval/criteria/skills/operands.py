"""Which words of a simple command are paths that it reads."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from ...trajectory.shell import SimpleCommand

PASSIVE = frozenset(
    ": [ [[ alias basename cd chgrp chmod chown command declare dir dirname du echo exit export false fd fdfind file"
    " gfind find hash kill ln local locate ls mkdir mv popd printf pushd pwd read readlink readonly realpath return rm"
    " rmdir set stat tee test touch trap tree true type typeset unlink unset vdir whereis which".split()
)
"""Programs that list, test, move, write or delete, and show nothing of what a file holds."""

FILTERS = frozenset(
    "awk base64 bat batcat cat column cut diff egrep fgrep gawk grep head jq less mawk md5sum more nl nawk od perl rg"
    " sed sha256sum sort strings tac tail tr uniq wc xxd yq zcat".split()
)
"""Programs that read their input when they are given no file."""

WHOLE_FOLDERS = frozenset("ack ag cp egrep fgrep grep rg rsync scp tar zip".split())
"""Programs that read all of a folder."""

_COPIERS = frozenset("cp install rsync scp".split())
_GIT_READS = frozenset("blame cat-file grep show".split())

_GREP = "-A -B -C -m -d -D -e --regexp --include --exclude --exclude-dir --max-count"
_RIPGREP = "-A -B -C -m -g -t -T -j -M -E -d -r -e --regexp --replace --glob --iglob --type --type-not --max-count"
_AWK = "-v -F --assign --field-separator -e --source"
_VALUES = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep"), _GREP),
    **dict.fromkeys(("rg", "ag", "ack"), _RIPGREP),
    **dict.fromkeys(("sed", "gsed"), "-e --expression -l --line-length"),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _AWK),
    **dict.fromkeys(("jq", "yq", "gojq"), "--indent"),
}
"""Programs whose first operand is no path, with their options whose values are none."""

_WRITTEN = {
    "curl": ("-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar"),
    "wget": ("-O", "--output-document", "-P", "--directory-prefix", "-o"),
    "tar": ("-C", "--directory"),
    "unzip": ("-d",),
}
"""Options whose values are files or folders that are written."""

_GIVEN = re.compile(r"-\w*[ef]|--(?:regexp|file|expression|source|files|from-file)(?:=.*)?")
_TEXT_OPTION = re.compile(r"-\w*e")
_IS_PATH = re.compile(r"[^\W\d]|/")
"""Numbers and signs are values of options."""

_SUBSTITUTED = re.compile(r"[<>$]\([^()]*\)|`[^`]*`")
"""A command within a word, which is one of its own."""

_INPUT = re.compile(r"(?<![<>&])<\s*([^\s<>&()|;]+)")


def read_operands(command: SimpleCommand) -> tuple[str, ...]:
    """The words of a command that may be paths that it reads, with options, and its redirected input.

    The program is one where it is called by a path.
    """
    words = (_SUBSTITUTED.sub("", word) for word in _words_read(command))
    return (*(word for word in words if _IS_PATH.search(word)), *_redirected(command))


def _words_read(command: SimpleCommand) -> tuple[str, ...]:
    program, words = command.program, command.words
    if program == "git":
        return _read_by_git(words)
    if program in PASSIVE:
        return ()
    if program in _VALUES:
        return tuple(_without_texts(words[1:], frozenset(_VALUES[program].split())))
    if program in _COPIERS and not any(word.startswith(("-t", "--target")) for word in words):
        return words[1:-1]
    if program == "tr":
        return ()
    written = _WRITTEN.get(program, ())
    pairs = itertools.pairwise(words)
    arguments = tuple(word for before, word in pairs if before not in written and word not in command.data)
    return (words[0], *arguments) if "/" in words[0] else arguments


def _read_by_git(words: Sequence[str]) -> tuple[str, ...]:
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c") else 1
    if at >= len(words) or words[at] not in _GIT_READS:
        return ()
    rest = words[at + 1 :]
    return tuple(_without_texts(rest, frozenset(_GREP.split()))) if words[at] == "grep" else tuple(rest)


def _without_texts(arguments: Sequence[str], values: frozenset[str]) -> Iterator[str]:
    """Leave out the pattern or script, and the values of options that are no paths."""
    script_comes = not any(map(_GIVEN.fullmatch, arguments))
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word.startswith("-") and word != "-":
            skip = word in values or ("-e" in values and _TEXT_OPTION.fullmatch(word) is not None)
        elif script_comes:
            script_comes = False
        else:
            yield word


def _redirected(command: SimpleCommand) -> Iterator[str]:
    raw = command.raw
    if "<" not in raw:
        return
    for text in sorted((*command.data, *(word for word in command.words if "<" in word)), key=len, reverse=True):
        raw = raw.replace(text, " ") if text else raw
    yield from (match[1].strip("\"'") for match in _INPUT.finditer(raw))
