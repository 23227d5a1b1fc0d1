"""`compare`: two runs, or two variants of one run, trial by trial."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CoderEvalError
from .report import write

if TYPE_CHECKING:
    from ..reports.run_report import RunReport, TrialReport
    from . import Commands

WORSE = 1


def add(commands: Commands) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "compare",
        help="two runs, or two variants of one",
        description="Pairs trials by task, row and repeat, and says which came out better and worse, with an interval "
        "and a test of the difference. With one run, its two variants are compared, or those that --variants names.",
    )
    command.add_argument("before", metavar="RUN", type=Path, help="run directory")
    command.add_argument("after", metavar="OTHER", type=Path, nargs="?", help="another one (default: the same)")
    command.add_argument(
        "--variants", nargs=2, metavar=("BEFORE", "AFTER"), help="which variant of each side ('' where there is none)"
    )
    command.add_argument("-o", "--output", metavar="FILE", type=Path, help="default: standard output")
    command.add_argument(
        "--fail-on-worse", action="store_true", help="exit status 1 when a trial passed before and not after"
    )
    command.set_defaults(carry_out=carry_out)


def carry_out(arguments: argparse.Namespace) -> int:
    """Write the comparison. Raises CoderEvalError for what cannot be compared."""
    from ..reports.comparison import compare
    from ..reports.markdown import comparison_page
    from ..reports.run_report import read_run

    before = read_run(arguments.before)
    after = read_run(arguments.after) if arguments.after else before
    variants = arguments.variants or _two_variants(before, is_one=arguments.after is None)
    sides = [_side(run, variant) for run, variant in zip((before, after), variants, strict=True)]
    names = [_name(run, variant, before is after) for run, variant in zip((before, after), variants, strict=True)]
    found = compare(*sides)
    runs = {run.path: run for run in (before, after)}
    warnings = [f"{run.path.name}: {warning}" for run in runs.values() for warning in run.warnings]
    write(comparison_page(found, names[0], names[1], warnings) + "\n", arguments.output)
    return WORSE if arguments.fail_on_worse and (found.worse or found.lost) else 0


def _two_variants(run: RunReport, *, is_one: bool) -> Sequence[str | None]:
    if not is_one:
        return None, None
    if len(run.variants) != 2:
        raise CoderEvalError(
            f"{run.path}: its variants are {', '.join(filter(None, run.variants)) or 'none'}; expected two of them, "
            "--variants BEFORE AFTER, or a second run"
        )
    return run.variants


def _side(run: RunReport, variant: str | None) -> tuple[TrialReport, ...]:
    """The trials of one side. Two runs of several variants pair by variant, so each has to name one."""
    if variant is None:
        if len(run.variants) > 1:
            raise CoderEvalError(f"{run.path}: several variants ({', '.join(run.variants)}); name them by --variants")
        return run.trials
    if variant not in run.variants:
        raise CoderEvalError(f"{run.path}: no variant {variant!r}; it has {', '.join(run.variants)}")
    return run.of_variant(variant)


def _name(run: RunReport, variant: str | None, same: bool) -> str:
    if same:
        return variant or run.path.name
    return f"{run.path.name} ({variant})" if variant else run.path.name
