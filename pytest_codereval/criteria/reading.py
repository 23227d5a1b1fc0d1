"""How criteria read files that belong to the agent: whatever is wrong with them is a fail, never an error."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TypeVar

from ..sandbox.workspace import Unreadable, Workspace
from .contract import Evidence, Judgement

_Criterion = TypeVar("_Criterion")


def fail_when_unreadable(
    check: Callable[[_Criterion, Evidence], Judgement],
) -> Callable[[_Criterion, Evidence], Judgement]:
    """Let a checker fail with the reason when a file that it reads from the workspace cannot be read.

    Reasons hold names and texts that the agent chose; here they become one line.
    """

    @functools.wraps(check)
    def judged(criterion: _Criterion, evidence: Evidence) -> Judgement:
        try:
            judgement = check(criterion, evidence)
        except Unreadable as error:
            judgement = Judgement(0.0, error.reason)
        return dataclasses.replace(judgement, reason=" ".join(judgement.reason.split()))

    return judged


def read_text(workspace: Workspace, path: str) -> str:
    """Return the text of the one file that `path` names, each end of line as a line feed.

    Raises Unreadable when there is none or more than one, or when it is no regular file, too large, or not UTF-8.
    """
    return universal_newlines(workspace.read_text(path))


def universal_newlines(text: str) -> str:
    """Return `text` with CR LF and CR as LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
