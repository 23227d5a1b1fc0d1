"""Criterion type run_command: what a command says about the workspace, by its exit status and its output."""

from __future__ import annotations

import math
import re

from ..sandbox.protocol import DEFAULT_OUTPUT_LIMIT, ProcessResult
from ..task.command_models import RunCommand
from ..text import shorten
from .contract import Evidence, Judgement
from .patterns import search
from .reading import universal_newlines

SHOWN_LENGTH = 4000
"""Characters of each output stream that the details carry."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def check(criterion: RunCommand, evidence: Evidence) -> Judgement:
    """Run the command in the grading environment; score 1 or 0, or what its first line of output says."""
    result = evidence.shell(criterion.command, timeout=criterion.timeout, shims=criterion.shims)
    score, reason = _judge(criterion, result)
    return Judgement(score, reason, _details(criterion.command, result))


def _judge(criterion: RunCommand, result: ProcessResult) -> tuple[float, str]:
    if result.timed_out:
        return 0.0, f"did not end within its timeout of {criterion.timeout:g} s"
    if result.exit_status != criterion.expected_exit_code:
        return 0.0, f"exit status {result.exit_status}, expected {criterion.expected_exit_code}"
    if criterion.score_from_stdout:
        return _score_of(result)
    if criterion.expected_stdout is None:
        return 1.0, f"exit status {result.exit_status} as expected"
    return _compare(criterion.expected_stdout, criterion.stdout_match, result)


def _text(result: ProcessResult) -> str:
    """Standard output with bytes that are not UTF-8 as lone surrogates, which no text of a task file can equal."""
    return universal_newlines(result.stdout.decode("utf-8", "surrogateescape"))


def _is_cut(result: ProcessResult) -> bool:
    return result.truncated and len(result.stdout) >= DEFAULT_OUTPUT_LIMIT


def _compare(expected: str, how: str, result: ProcessResult) -> tuple[float, str]:
    text = _text(result)
    if how == "contains":
        if expected.strip() in text.strip():
            return 1.0, "standard output contains the expected text"
        where = f"the first {len(result.stdout)} bytes of " if _is_cut(result) else ""
        return 0.0, f"{where}standard output does not contain {_quoted(expected)}"
    if _is_cut(result):
        return 0.0, f"standard output was cut at {len(result.stdout)} bytes, so a match of all of it is unproven"
    matched = search(expected, text) is not None if how == "regex" else text.strip() == expected.strip()
    if matched:
        return 1.0, f"standard output is as expected ({how})"
    relation = "match" if how == "regex" else "equal"
    return 0.0, f"standard output does not {relation} {_quoted(expected)}: got {_quoted(text)}{_encoding_note(result)}"


def _quoted(text: str) -> str:
    return repr(shorten(text.strip(), 100))


def _encoding_note(result: ProcessResult) -> str:
    try:
        result.stdout.decode("utf-8")
    except UnicodeDecodeError:
        return "; it is not UTF-8"
    return ""


def _score_of(result: ProcessResult) -> tuple[float, str]:
    first, newline, _ = _text(result).lstrip().partition("\n")
    first = first.strip()
    if not first:
        return 0.0, "standard output is empty, expected a score in its first line"
    if not newline and _is_cut(result):
        return 0.0, f"standard output was cut at {len(result.stdout)} bytes inside its first line"
    number = float(first) if _NUMBER.fullmatch(first) else math.nan
    if not math.isfinite(number):
        return 0.0, f"the first line of standard output is no finite number: {shorten(first, 100)!r}"
    score = min(1.0, max(0.0, number))
    note = "" if score == number else f", {number:g} clamped"
    return score, f"score {score:g} from standard output{note}"


def _details(command: str, result: ProcessResult) -> str:
    lines = [f"command: {command}", f"exit status: {result.exit_status}{' (timed out)' if result.timed_out else ''}"]
    if result.truncated:
        lines.append(f"output: more than {DEFAULT_OUTPUT_LIMIT} bytes of a stream; the rest was not kept")
    for name, text in (("stdout", result.stdout_text), ("stderr", result.stderr_text)):
        lines.append(f"{name}:\n{shorten(text, SHOWN_LENGTH)}" if text else f"{name}: (empty)")
    return "\n".join(lines)
