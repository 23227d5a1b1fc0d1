"""Records of calls as shims write them, and what becomes known of a call while it goes on."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping

from ..answering import CapturedRun
from ..shims.shim import RECORD_VERSION

UNANSWERED = "unanswered"
"""Who answered a call that waited in vain."""


class MalformedRecord(Exception):
    """The bytes of a record that is no complete one."""


@dataclasses.dataclass(eq=False)
class SpooledCall:
    """One call. Times are in seconds since the epoch; `ended` and `exit_status` are None until its shim told its end.

    `environment` has the variables of the tool's plan that were set. `expected_status` is the status that its shim was
    told to end with, None when it is not known beforehand. `waits` while it must not ask: it did, or has its answer.
    """

    tool: str
    cwd: str
    argv: tuple[str, ...]
    time: float
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ended: float | None = None
    exit_status: int | None = None
    answered_by: str = UNANSWERED
    unmatched: bool = False
    stdin: bytes | None = None
    run: CapturedRun | None = None
    expected_status: int | None = None
    waits: bool = False


def parse_record(data: bytes, time: float) -> SpooledCall:
    """Read the fields version, tool, cwd, parent's pid, counts of arguments and variables, both, END.

    A variable is `NAME=value`, or empty when it was not set. Raises MalformedRecord.
    """
    fields = data.split(b"\0")
    if len(fields) < 8 or fields[-2:] != [b"END", b""] or fields[0] != RECORD_VERSION.encode():
        raise MalformedRecord
    if not all(count.isdigit() and len(count) < 10 for count in fields[4:6]):
        raise MalformedRecord
    arguments, variables = int(fields[4]), int(fields[5])
    if arguments + variables != len(fields) - 8:
        raise MalformedRecord
    pairs = (os.fsdecode(field).partition("=") for field in fields[6 + arguments : -2] if field)
    return SpooledCall(
        tool=os.fsdecode(fields[1]),
        cwd=os.fsdecode(fields[2]),
        argv=tuple(map(os.fsdecode, fields[6 : 6 + arguments])),
        time=time,
        environment={name: value for name, _, value in pairs},
    )
