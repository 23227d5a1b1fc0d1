"""Suites and repeats: what several trials come to together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.judging.checks import GateStatus
from pytest_codereval.judging.metrics import Classification, pass_all, pass_at, score_statistics, wilson
from pytest_codereval.judging.repeats import judge_group
from pytest_codereval.judging.suites import judge_suite
from pytest_codereval.reports.gates import group_headline, suite_headline, suite_table


def criterion(verdict: str = "pass", score: float | None = 1.0, **fields: Any) -> dict[str, Any]:
    """The result of a criterion as a summary has it."""
    return {
        "index": 0,
        "name": "label",
        "type": "classification_match",
        "verdict": verdict,
        "score": score,
        "weight": 1.0,
        "gating": True,
        "label": None,
        "expected_label": None,
        "suite_thresholds": {},
        **fields,
    }


def trial(status: str, *criteria: Mapping[str, Any], rows: int = 4, repeats: int = 1, **fields: Any) -> dict[str, Any]:
    """A summary."""
    return {"status": status, "criteria": criteria, "rows": rows, "repeats": repeats, "targets": {}, **fields}


def labelled(expected: str, observed: str, **minimums: float) -> dict[str, Any]:
    score = float(expected == observed)
    return trial(
        "passed" if score else "failed",
        criterion(
            "pass" if score else "fail", score, label=observed, expected_label=expected, suite_thresholds=minimums
        ),
    )


def broken(expected: str | None, **minimums: float) -> dict[str, Any]:
    result = criterion("not_evaluated", None, expected_label=expected, suite_thresholds=minimums)
    return trial("error", result)


def test_errors_stay_in_every_denominator() -> None:
    trials = [labelled("yes", "yes"), labelled("yes", "yes"), labelled("no", "no"), broken("yes")]
    (found,) = judge_suite(trials).criteria
    assert (found.judged, found.errors) == (3, 1)
    assert found.metrics["count"] == 3
    assert found.metrics["completion_rate"] == 0.75
    assert found.metrics["mean"] == found.metrics["accuracy"] == 0.75
    assert found.metrics["min"] == 0
    assert found.metrics["recall.yes"] == pytest.approx(2 / 3)
    assert found.classification is not None
    assert found.classification.confusion == {"no": {"no": 1}, "yes": {"(error)": 1, "yes": 2}}
    assert found.classification.support == {"(error)": 0, "no": 1, "yes": 3}


def test_an_error_is_no_class_of_its_own() -> None:
    """One error of a hundred is one miss, and not a further class with F1 of 0."""
    trials = [*[labelled("yes", "yes")] * 50, *[labelled("no", "no")] * 49, broken("no")]
    (found,) = judge_suite(trials).criteria
    assert found.metrics["macro_f1"] == pytest.approx((1 + 2 * 49 / 99) / 2)


def test_a_criterion_counts_as_error_in_a_trial_in_error_and_by_itself() -> None:
    judged_in_error = trial("error", criterion("pass", 1.0, label="yes", expected_label="yes"))
    cannot_judge = trial("passed", criterion("error", None, expected_label="yes", weight=0, gating=False))
    for case in (judged_in_error, cannot_judge):
        (found,) = judge_suite([labelled("yes", "yes"), case]).criteria
        assert (found.judged, found.errors, found.metrics["accuracy"]) == (1, 1, 0.5)


def test_an_error_whose_expected_label_is_unknown_is_still_a_miss() -> None:
    (found,) = judge_suite([labelled("yes", "yes"), broken(None)]).criteria
    assert found.metrics["accuracy"] == 0.5
    (plain,) = judge_suite([trial("passed", criterion()), broken(None)]).criteria
    assert plain.classification is None
    assert plain.metrics["mean"] == 0.5


def test_a_judged_criterion_that_names_no_label_does_not_leave_the_matrix() -> None:
    silent = trial("failed", criterion("fail", 0.0, expected_label="yes"))
    (found,) = judge_suite([labelled("yes", "yes"), silent]).criteria
    assert found.classification is not None
    assert found.classification.confusion == {"yes": {"(none)": 1, "yes": 1}}


@pytest.mark.parametrize(
    ("trials", "gate", "said"),
    [
        ([labelled("yes", "yes", accuracy=1.0)] * 4, "passed", "1 threshold met"),
        ([labelled("yes", "yes", accuracy=0.75)] * 3 + [broken("yes", accuracy=0.75)], "passed", "met"),
        ([labelled("yes", "yes", accuracy=0.8)] * 3 + [broken("yes", accuracy=0.8)], "missed", "accuracy 0.75 < 0.8"),
        ([labelled("yes", "yes", **{"recall.no": 0.1})] * 4, "missed", "no trial expects no"),
        ([labelled("yes", "yes", accuracy=1.0)] * 3, "not_judged", "3 of 4 trials ran"),
        ([labelled("yes", "yes", accuracy=1.0)] * 3 + [trial("skipped")], "not_judged", "1 were skipped"),
        ([trial("skipped")] * 4, None, ""),
        ([labelled("yes", "yes")] * 4, None, ""),
    ],
)
def test_the_gate(trials: list[dict[str, Any]], gate: str | None, said: str) -> None:
    result = judge_suite(trials)
    assert result.gate == gate
    assert said in suite_headline(result)
    assert "trials: " in suite_table(result)


def test_what_was_not_evaluated_counts_as_nothing_and_is_no_pass() -> None:
    unjudged = criterion("not_evaluated", None, expected_label="yes", suite_thresholds={"accuracy": 0.5})
    good = [labelled("yes", "yes", accuracy=0.5)] * 3
    for status in ("not_evaluated", "failed"):
        result = judge_suite([*good, trial(status, unjudged)])
        assert result.gate is GateStatus.NOT_EVALUATED
        assert result.criteria[0].metrics["accuracy"] == 1.0
        assert result.criteria[0].not_evaluated == 1


def test_a_criterion_that_is_switched_off_has_no_gate() -> None:
    off = criterion("not_evaluated", None, gating=False, suite_thresholds={"mean": 0.5})
    result = judge_suite([trial("passed", off)] * 4)
    assert result.gate is None
    assert result.criteria[0].off == 4


def test_statistics_of_nothing_are_0() -> None:
    assert set(score_statistics([]).values()) == {0.0}
    assert set(Classification({}).metrics().values()) == {0.0}


def repeats(statuses: str, count: int | None = None, **targets: float) -> list[dict[str, Any]]:
    words = {"p": "passed", "f": "failed", "e": "error", "n": "not_evaluated", "s": "skipped"}
    return [trial(words[letter], repeats=count or len(statuses), targets=targets) for letter in statuses]


@pytest.mark.parametrize(
    ("trials", "gate", "said"),
    [
        (repeats("ppppf", pass_rate=0.8), "passed", "4 of 5 passed (80.0%, 95 % interval 37.6% to 96.4%)"),
        (repeats("pppef", pass_rate=0.8), "missed", "pass_rate 0.6 < 0.8"),
        (repeats("pfff", **{"pass@2": 0.5}), "passed", "pass@2 0.5 >= 0.5"),
        (repeats("ppff", **{"pass^2": 0.2}), "missed", "pass^2 0.1667 < 0.2"),
        (repeats("pp", 5, pass_rate=0.1), "not_judged", "2 of 5 trials ran; 2 of 2 passed"),
        (repeats("ppn", pass_rate=0.1), "not_evaluated", "1 of 3 trials were not evaluated"),
        (repeats("nnn", pass_rate=0.1), "not_evaluated", "nothing measured"),
        (repeats("ssss", pass_rate=0.1), "not_judged", "all 4 trials were skipped"),
        (repeats("pf"), None, "1 of 2 passed"),
    ],
)
def test_a_group_of_repeats(trials: list[dict[str, Any]], gate: str | None, said: str) -> None:
    result = judge_group(trials)
    assert result.gate == gate
    assert said in group_headline(result)


@given(st.integers(1, 12), st.data())
def test_estimators_of_repeats_by_enumeration(n: int, data: st.DataObject) -> None:
    import itertools

    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert pass_all(n, c, k) == pytest.approx(sum(map(all, draws)) / len(draws))


@given(st.integers(1, 500), st.data())
def test_wilsons_interval_solves_its_equation(n: int, data: st.DataObject) -> None:
    passed = data.draw(st.integers(0, n))
    rate, z = passed / n, 1.959963984540054
    low, high = wilson(passed, n)
    assert 0 <= low <= rate + 1e-12
    assert rate - 1e-12 <= high <= 1
    for bound in (low, high):
        assert (rate - bound) ** 2 == pytest.approx(z * z * bound * (1 - bound) / n, abs=1e-9)
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.filterwarnings("ignore:A single label was found")
@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(*[st.sampled_from(["a", "b", "c d", "(error)", "(none)"])] * 2), min_size=1, max_size=40))
def test_label_metrics_are_those_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    expected, observed = zip(*pairs, strict=True)
    ours = Classification({pair: pairs.count(pair) for pair in pairs})
    metrics = ours.metrics()
    labels = sorted({*expected, *observed})
    assert ours.labels == labels
    matrix = sklearn.confusion_matrix(expected, observed, labels=labels).tolist()
    assert [[ours.confusion.get(e, {}).get(o, 0) for o in labels] for e in labels] == matrix
    table = sklearn.precision_recall_fscore_support(expected, observed, labels=labels, zero_division=0)
    for label, precision, recall, f1, support in zip(labels, *table, strict=True):
        found = [metrics[f"{name}.{label}"] for name in ("precision", "recall", "f1")]
        assert found == pytest.approx([precision, recall, f1])
        assert ours.support[label] == support
    assert metrics["accuracy"] == pytest.approx(sklearn.accuracy_score(expected, observed))
    for average in ("macro", "weighted", "micro"):
        among = [label for label in labels if average != "macro" or label != "(error)" or label in expected]
        theirs = sklearn.f1_score(expected, observed, labels=among, average=average, zero_division=0) if among else 0
        assert metrics[f"{average}_f1"] == pytest.approx(theirs)


def test_runs_that_were_stopped_early_are_told() -> None:
    trials = [labelled("yes", "yes", accuracy=0.5) | {"early_stop": early} for early in (None, {"message": "m"})]
    found = judge_suite([each | {"rows": 2} for each in trials])
    assert (found.stopped_early, found.as_record()["stopped_early"]) == (1, 1)
    assert found.reason.endswith("; 1 of 2 runs were stopped early")
    assert "1 stopped early" in suite_table(found).splitlines()[0]
