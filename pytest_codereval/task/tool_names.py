"""Which names a recorded tool may have. A name becomes a file on PATH, so it is told from a path with care."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_OURS = frozenset({"calls.jsonl", "calls.jsonl.error", "index", "ok", "argv_match.py"})
_WINDOWS_ENDINGS = (".cmd", ".bat", ".exe")


def refusal(name: str) -> str | None:
    """Return why `name` cannot be the name of a recorded tool, or None when it can."""
    folded = name.casefold()
    if not name:
        return "the name is empty"
    if "/" in name or "\\" in name:
        return "a tool is named as it is called, without a path"
    if not _NAME.fullmatch(name):
        return "a name starts with an ASCII letter or digit and has at most 64 of the characters A-Z a-z 0-9 . _ + -"
    if folded in _OURS:
        return "the recorder itself uses this name"
    if folded.endswith(_WINDOWS_ENDINGS):
        return "leave out the ending: Windows finds the tool without it"
    if folded == "sh":
        return "the recording shims are run by sh, so sh itself cannot be recorded"
    return None
