"""A run, or a comparison, as Markdown: for a pull request, a job's summary, an e-mail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..judging.outcomes import CAUSES, Status
from ..text import clean, shorten
from .comparison import Comparison, Pair
from .run_report import Figures, RunReport, TrialReport, figures

REASON_LENGTH = 240
MOST_LISTED = 50


def run_page(run: RunReport) -> str:
    """The whole run: figures by variant, gates, what did not pass, all trials by task."""
    lines = [f"# Run {cell(run.path.name)}", "", *_warnings(run.warnings), *_table(FIGURE_HEADS, figure_rows(run)), ""]
    if run.gates:
        lines += ["## Gates", "", *_table(("gate", "outcome", "what it came to"), map(_gate_row, run.gates)), ""]
    if unmet := [trial for trial in run.trials if trial.status not in (Status.PASSED, Status.SKIPPED)]:
        lines += ["## Not passed", "", *(line for trial in unmet[:MOST_LISTED] for line in _unmet(trial))]
        lines += [f"- and {len(unmet) - MOST_LISTED} more", ""] if len(unmet) > MOST_LISTED else [""]
    lines += ["## Tasks", "", *_table(("task", *FIGURE_HEADS[1:]), _task_rows(run)), ""]
    return clean("\n".join(lines))


def comparison_page(found: Comparison, before: str, after: str, warnings: Iterable[str] = ()) -> str:
    """Figures of both sides, the test of their difference, and each trial that came out otherwise."""
    rows = [figure_row(before, found.before), figure_row(after, found.after)]
    lines = [f"# {cell(before)} against {cell(after)}", "", *_warnings(warnings), *_table(FIGURE_HEADS, rows), ""]
    lines += [said_of(found), ""]
    for title, pairs in (("Worse", found.worse), ("Better", found.better)):
        if pairs:
            lines += [f"## {title}", "", *map(_pair_line, pairs), ""]
    if found.lost:
        lines += ["## Passed before, not measured after", "", *(f"- {cell(name)}" for name in found.lost), ""]
    for title, names in ((before, found.only_before), (after, found.only_after)):
        if names:
            lines += [f"Only in {cell(title)}: {', '.join(map(cell, names))}", ""]
    return clean("\n".join(lines))


def said_of(found: Comparison) -> str:
    """The comparison in one paragraph."""
    if found.difference is None:
        return "No trial was measured on both sides."
    text = (
        f"{len(found.pairs)} trials were measured on both sides: {len(found.better)} better, {len(found.worse)} worse; "
        f"pass rate {found.difference:+.1%}"
    )
    if found.interval is not None:
        text += f" (95 % interval over tasks {found.interval[0]:+.1%} to {found.interval[1]:+.1%})"
    if found.p_value is not None:
        text += f"; McNemar's exact test p = {found.p_value:.3g}"
    return text + "."


FIGURE_HEADS = ("", "trials", "pass rate", "95 % interval", "score", "cost", "duration", "turns", "tokens")


def figure_row(name: str, found: Figures) -> tuple[str, ...]:
    """One row under `FIGURE_HEADS`."""
    low, high = found.interval
    counts = ", ".join(f"{number} {status}" for status in Status if (number := found.statuses.get(status, 0)))
    return (
        name,
        counts,
        _shown(found.pass_rate, "{:.1%}"),
        f"{low:.1%} to {high:.1%}" if found.pass_rate is not None else "-",
        _shown(found.mean_score, "{:.2f}"),
        f"${found.cost_usd:.4f}" + ("" if found.cost_complete else " or more"),
        _shown(found.mean_duration, "{:.1f} s"),
        _shown(found.mean_turns, "{:.1f}"),
        _shown(found.mean_tokens, "{:.0f}"),
    )


def cell(text: object) -> str:
    """A text that neither ends a cell of a table nor begins other Markdown or HTML, and calls nobody by `@name`."""
    flat = " ".join(str(text).split())
    return "".join(f"\\{char}" if char in "\\`*_[]|~" else _ENTITIES.get(char, char) for char in flat)


_ENTITIES = {"<": "&lt;", "&": "&amp;", "@": "@&#8203;"}
"""The last is an `@` and a space of no width: GitHub looks for names in the text that the page shows."""


def figure_rows(run: RunReport) -> list[tuple[str, ...]]:
    """A row for each variant, and where there are several one for all."""
    rows = [figure_row(variant or "all", figures(run.of_variant(variant))) for variant in run.variants]
    return rows if len(rows) == 1 else [*rows, figure_row("all", figures(run.trials))]


def _task_rows(run: RunReport) -> Iterable[tuple[str, ...]]:
    by_task: dict[str, list[TrialReport]] = {}
    for trial in run.trials:
        name = trial.summary["task_id"] + (f" ({trial.variant})" if trial.variant else "")
        by_task.setdefault(name, []).append(trial)
    return (figure_row(name, figures(trials)) for name, trials in sorted(by_task.items()))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return lines + [f"| {' | '.join(map(cell, row))} |" for row in rows]


def _gate_row(gate: Mapping[str, Any]) -> tuple[str, ...]:
    return str(gate["id"]), str(gate["gate"]), shorten(str(gate["reason"]), REASON_LENGTH)


def _warnings(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in (f"**{cell(text)}**", "")]


def _unmet(trial: TrialReport) -> list[str]:
    summary = trial.summary
    what = f"{CAUSES[summary['cause']].what}: " if summary["cause"] else ""
    lines = [f"- {cell(trial.summary['trial'])}: **{trial.status}**, {_short(what + summary['message'])}"]
    for criterion in summary["criteria"]:
        if criterion["verdict"] in ("fail", "error") and criterion["gating"]:
            said = _short(criterion["reason"] or criterion["description"])
            lines.append(f"  - {criterion['verdict']}: {cell(criterion['name'])}: {said}")
    seen = [each for each in summary["post_failure"] if each["verdict"] != "not_evaluated"]
    return lines + [f"  - diagnostic {each['verdict']}: {cell(each['name'])}" for each in seen]


def _pair_line(pair: Pair) -> str:
    after = pair.after.summary
    return f"- {cell(pair.name)}: {pair.before.status} -> {pair.after.status}: {_short(after['message'])}"


def _short(text: str) -> str:
    return cell(shorten(text, REASON_LENGTH))


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
