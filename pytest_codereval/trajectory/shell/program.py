"""What a piece of shell text ran: its simple commands, whether each was run, and whether it succeeded."""

from __future__ import annotations

import dataclasses
import enum


class Ran(enum.StrEnum):
    """Whether a simple command of a shell text was run."""

    YES = "yes"
    NO = "no"
    MAYBE = "maybe"


@dataclasses.dataclass(frozen=True)
class SimpleCommand:
    """One simple command, once for each time that the text runs it.

    `raw` is its source text with its redirections, without here-documents. `words` are its words without quotes, with
    the values of variables that the same text sets; what cannot be known stands as it was written. Prefixes that run
    another program (`env X=1`, `timeout 5`, `sudo`, `bash -lc`) are not in `words`; `prefixed` has them. `known` tells
    for each word whether it is known in full. `data` are parts that are never commands by themselves: what `echo`
    prints, texts that `grep` searches, the code of an interpreter, here-documents.
    """

    raw: str
    words: tuple[str, ...]
    known: tuple[bool, ...]
    prefixed: tuple[str, ...]
    ran: Ran
    succeeded: bool | None
    """None when the status of the whole does not tell."""
    why_unknown: str = ""
    """Why `succeeded` is None: `pipe`, `;`, `||`, `&`, `not the last`, ..."""
    data: tuple[str, ...] = ()
    stdin: str | None = None
    """The here-document or here-string, where it is known."""
    bypass: bool = False
    """Whether it goes past PATH: an absolute path, `env -i`, `command -p`, or a PATH of its own."""
    repeated: bool = False
    """Whether it may have run more often than once for this entry: a loop of unknown length, `xargs`, `find -exec`."""
    assignments: tuple[tuple[str, str], ...] = ()

    @property
    def program(self) -> str:
        """The name of the program without its folder, or an empty text."""
        return self.words[0].rpartition("/")[2] if self.words else ""

    @property
    def text(self) -> str:
        """The words joined by single spaces."""
        return " ".join(self.words)


@dataclasses.dataclass(frozen=True)
class ShellProgram:
    """All simple commands of a text in the order in which they would run. `parsed` is False where the text could not be
    understood as a whole; then `commands` holds what could, and `unparsed` the rest as it was written.
    """

    commands: tuple[SimpleCommand, ...]
    parsed: bool = True
    unparsed: tuple[str, ...] = ()
