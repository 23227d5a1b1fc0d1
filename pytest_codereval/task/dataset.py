"""The rows of a dataset: reading, checking and sampling them."""

from __future__ import annotations

import dataclasses
import datetime
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import Problem
from .base import Location
from .problems import describe, shown_path
from .setting_models import Dataset
from .task_ids import ROW_ID
from .variables import UndefinedVariable, host_path
from .yaml_reader import ReadError, read_text


@dataclasses.dataclass(frozen=True)
class Row:
    """One row, where it stands (a place in the task file, or a JSON Lines file and line), and its id."""

    id: str
    values: Mapping[str, Any]
    location: Location
    file: str | None = None
    line: int = 1


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Which rows a session takes of each dataset: `flat` many of all, or `per_stratum` many of each stratum.

    `flat` goes before `per_stratum`, that before the dataset's own. `seed` goes before the dataset's; 0 without both,
    so that a draw is always the same.
    """

    flat: int | None = None
    per_stratum: int | None = None
    seed: int | None = None


ALL_ROWS = Sampling()


class RowError(Exception):
    """Something wrong with the dataset, at a place in the task file or in a JSON Lines file."""

    def __init__(self, message: str, location: Location, file: str | None = None, line: int = 1) -> None:
        super().__init__(message)
        self.message, self.location, self.file, self.line = message, location, file, line

    def in_file(self) -> Problem | None:
        """The problem, when it is one of a JSON Lines file."""
        return Problem(self.file, self.line, 1, "", self.message) if self.file is not None else None


def scalar_text(value: Any) -> str | None:
    """Return what stands in a text for a row's value, or None for a list or mapping. null is an empty text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    return None


def rows_of(dataset: Dataset, folder: Path, sampling: Sampling = ALL_ROWS) -> list[Row]:
    """Return the rows in their order, sampled when the session or the dataset says so.

    Raises RowError at the first wrong one, taken or not.
    """
    rows = list(_checked(dataset, _raw(dataset, folder)))
    if not rows:
        raise RowError("the dataset has no rows", ("dataset",))
    return _sampled(dataset, rows, sampling)


def _raw(dataset: Dataset, folder: Path) -> Iterator[Row]:
    for index, values in enumerate(dataset.rows or ()):
        yield Row("", values, ("dataset", "rows", index))
    for index, name in enumerate(dataset.paths or ()):
        place: Location = ("dataset", "paths", index)
        try:
            path = host_path(name, folder)
        except UndefinedVariable as error:
            raise RowError(str(error), place) from None
        yield from _lines(path, place)


def _lines(path: Path, place: Location) -> Iterator[Row]:
    shown = shown_path(path)
    try:
        text = read_text(path)
    except ReadError as error:
        if path.is_file():
            raise RowError(error.message, place, shown, error.line) from None
        raise RowError(f"{shown}: {error.message}", place) from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield Row("", _parsed(line, place, shown, number), place, shown, number)


def _parsed(line: str, place: Location, shown: str, number: int) -> Mapping[str, Any]:
    try:
        values = json.loads(line, parse_constant=_no_constant)
        line.encode("utf-8")
        json.dumps(values, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise RowError(f"not a row in JSON: {error}", place, shown, number) from None
    if not isinstance(values, dict):
        raise RowError(f"a row is a JSON object; found {describe(values)}", place, shown, number)
    return values


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _checked(dataset: Dataset, rows: Iterator[Row]) -> Iterator[Row]:
    seen: dict[str, Row] = {}
    for row in rows:
        if dataset.id_field not in row.values:
            raise _row_error(row, f"the row has no id: the key {dataset.id_field!r} is missing")
        value = row.values[dataset.id_field]
        name = scalar_text(value) if not isinstance(value, bool) else None
        if name is None or not ROW_ID.fullmatch(name):
            shown = describe(value)
            raise _row_error(row, f"the id {shown}: expected letters, digits, '_', '.', '-', none of '.-' first")
        if name in seen:
            raise _row_error(row, f"the id {name!r} is used twice (first {_where(seen[name])})")
        seen[name] = row
        yield dataclasses.replace(row, id=name)


def _where(row: Row) -> str:
    return f"at {row.file}:{row.line}" if row.file else f"in rows[{row.location[-1]}]"


def _row_error(row: Row, message: str) -> RowError:
    return RowError(message, row.location, row.file, row.line)


def _sampled(dataset: Dataset, rows: list[Row], sampling: Sampling) -> list[Row]:
    seed = sampling.seed if sampling.seed is not None else dataset.sample_seed or 0
    generator = random.Random(seed)
    if sampling.flat is not None:
        strata, size = [list(range(len(rows)))], sampling.flat
    else:
        asked = sampling.per_stratum or dataset.sample_per_stratum
        if asked is None:
            return rows
        strata, size = _strata(dataset, rows), asked
    chosen: set[int] = set()
    for members in strata:
        chosen.update(members if len(members) <= size else generator.sample(members, size))
    return [row for index, row in enumerate(rows) if index in chosen]


def _strata(dataset: Dataset, rows: list[Row]) -> list[list[int]]:
    """The numbers of the rows that have one value of the field, by the order of the values; without it it is ""."""
    strata: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        strata.setdefault(str(row.values.get(dataset.stratify_field, "")), []).append(index)
    return [strata[name] for name in sorted(strata)]
