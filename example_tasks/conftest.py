"""The example tasks use pytest as any suite does: this file marks one of them as an expected failure.

It also adds a type of criteria of its own, `csv_table`, which `own_criterion.yaml` uses.
"""

import csv
import io
from typing import Literal

import pytest
from pytest_codereval import Criterion, CriterionKind, Finding, Judgement, fail_when_unreadable
from pytest_codereval.task.fields import Count, WorkspacePath

EXPECTED_FAILURES = {"claims-without-doing": "the agent only claims to have deployed"}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in EXPECTED_FAILURES:
            item.add_marker(pytest.mark.xfail(reason=EXPECTED_FAILURES[item.name], strict=True))


class CsvTable(Criterion):
    """A CSV file has these columns, and at least `min_rows` rows below them."""

    type: Literal["csv_table"] = "csv_table"
    path: WorkspacePath
    columns: tuple[str, ...]
    min_rows: Count = 1

    @property
    def evaluable_after_failure(self):
        return True

    def findings(self):
        twice = sorted({name for name in self.columns if self.columns.count(name) > 1})
        return [Finding(("columns",), f"{name!r} stands here twice") for name in twice]


@fail_when_unreadable
def check_csv_table(criterion, evidence):
    """Score the share of columns that are there; 0 when there are too few rows."""
    header, *rows = [*csv.reader(io.StringIO(evidence.workspace.read_text(criterion.path)))] or [[]]
    missing = [name for name in criterion.columns if name not in header]
    if len(rows) < criterion.min_rows:
        return Judgement(0.0, f"{len(rows)} rows, expected at least {criterion.min_rows}")
    score = 1 - len(missing) / max(len(criterion.columns), 1)
    return Judgement(score, f"columns that are missing: {', '.join(missing) or 'none'}")


def pytest_codereval_criteria(config):
    return [CriterionKind(CsvTable, check_csv_table)]
