"""Prompts that are kept in a file of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import Problem, TaskFileError
from .problems import shown_path
from .substitution import FieldError, substitute
from .task_rules import reference_leaks
from .yaml_reader import ReadError, read_text


def prompt_from_file(path: Path, row: Mapping[str, Any] | None) -> str:
    """Return the text of the file without surrounding blanks, the row's values in it.

    Raises TaskFileError when it cannot be read, names the reference, or asks for what the row does not have.
    """
    shown = shown_path(path)
    try:
        text = read_text(path).strip()
        text = substitute(text, row) if row is not None else text
    except ReadError as error:
        raise TaskFileError((Problem(shown, error.line, error.column, "", error.message),)) from None
    except FieldError as error:
        raise TaskFileError((Problem(shown, 1, 1, "", str(error)),)) from None
    problems = tuple(Problem(shown, 1, 1, "", leak.message) for leak in reference_leaks(text, ()))
    if problems:
        raise TaskFileError(problems)
    return text
