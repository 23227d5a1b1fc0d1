"""From a task to its trials: rows, their values, repeats and labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import TaskFileError
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.substitution import substitute
from pytest_codereval.task.trials import TrialSpec, expand

from .samples import EXISTS, criterion, load, task_text

ROWS = [{"id": "a", "word": "x"}, {"id": "b", "word": "y"}]


def _trials(rows: list[dict[str, Any]] | None = None, repeats: int = 1, **changes: Any) -> tuple[TrialSpec, ...]:
    dataset = {"dataset": {"rows": rows}} if rows is not None else {}
    return expand(load(**dataset, **changes), repeats)


def _problems(**changes: Any) -> list[tuple[str, str]]:
    loaded = load(**changes)
    with pytest.raises(TaskFileError) as caught:
        expand(loaded)
    return [(problem.key, problem.message) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("rows", "repeats", "labels"),
    [
        (None, 1, [""]),
        (None, 2, ["r1", "r2"]),
        (ROWS[:1], 1, [""]),
        (ROWS[:1], 2, ["r1", "r2"]),
        (ROWS, 1, ["a", "b"]),
        (ROWS, 2, ["a-r1", "a-r2", "b-r1", "b-r2"]),
    ],
)
def test_a_label_has_a_part_for_what_there_is_more_than_one_of(
    rows: list[dict[str, Any]] | None, repeats: int, labels: list[str]
) -> None:
    trials = _trials(rows, repeats)
    assert [trial.label for trial in trials] == labels
    assert [trial.trial_id for trial in trials] == [f"t[{label}]" if label else "t" for label in labels]
    assert len({trial.trial_id for trial in trials}) == len(trials)
    assert {trial.repeats for trial in trials} == {repeats}


def test_a_row_stands_in_prompt_and_criteria_and_nowhere_else() -> None:
    trials = _trials(
        ROWS,
        initial_prompt="say ${row.word} ${row.word}",
        description="about ${row.word}",
        success_criteria=[
            EXISTS,
            criterion("file_contains", path="${row.id}.txt", includes=["${row.word}", "z"]),
            criterion("cli_called", log="l", flags={"f": {"any_of": ["${row.word}"]}}),
        ],
    )
    task = trials[1].task
    contains, called = task.success_criteria[1:]
    assert task.initial_prompt == "say y y"
    assert task.description == "about ${row.word}"
    assert (contains.path, contains.includes) == ("b.txt", ("y", "z"))  # type: ignore[attr-defined]
    assert called.flags["f"].any_of == ("y",)  # type: ignore[attr-defined]
    assert task.success_criteria[0] is trials[0].task.success_criteria[0]
    assert (task.dataset, task.suite_id, task.row_id, trials[1].row_id) == (None, "t", "b", "b")
    assert trials[1].row == ROWS[1]


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (True, "true"), (False, "false"), (3, "3"), (1.5, "1.5"), ("a b", "a b")]
)
def test_scalars_become_text(value: object, text: str) -> None:
    assert substitute("<${row.x}>", {"x": value}) == f"<{text}>"


def test_what_is_put_in_is_not_looked_at_again() -> None:
    assert substitute("${row.a}", {"a": "${row.b}", "b": "no"}) == "${row.b}"


@pytest.mark.parametrize(
    ("changes", "key", "expected"),
    [
        ({"initial_prompt": "${row.wrod}"}, "initial_prompt", "no 'wrod'; did you mean 'word'?"),
        ({"initial_prompt": "${row.list}"}, "initial_prompt", "list or mapping"),
        ({"initial_prompt": "${row.none}"}, "initial_prompt", "empty"),
        ({"initial_prompt": "${row.leak}"}, "initial_prompt", "REFERENCE_DIR"),
        ({"success_criteria": [EXISTS, criterion("file_exists", path="${row.no}")]}, "success_criteria[1].path",
         "no 'no'"),
        ({"success_criteria": [criterion("file_exists", path="${row.up}")]}, "success_criteria[0].path", "leaves"),
        ({"success_criteria": [criterion("file_exists", path="${row.none}")]}, "success_criteria[0].path", "empty"),
        ({"success_criteria": [criterion("file_matches_regex", path="a", pattern="${row.regex}")]},
         "success_criteria[0].pattern", "regular expression"),
        ({"success_criteria": [
            criterion("json_check", path="a", assertions=[{"expression": "${row.regex}", "expected": 1}])]},
         "success_criteria[0].assertions[0].expression", "JMESPath"),
        ({"success_criteria": [criterion("run_command", command="x ${row.leak}")]}, "success_criteria[0].command",
         "no reference"),
        ({"success_criteria": [criterion("cli_called", tool="${row.word}")],
          "sandbox": {"record_cli": [{"tool": "uip"}]}}, "success_criteria[0].tool", "nobody records 'x'"),
    ],
)  # fmt: skip
def test_what_a_row_makes_wrong_is_found(changes: dict[str, Any], key: str, expected: str) -> None:
    rows = [{"id": "a", "word": "x", "list": [1], "none": None, "leak": "$REFERENCE_DIR", "up": "../x", "regex": "(("}]
    ((found, message),) = _problems(dataset={"rows": rows}, **changes)
    assert found == key
    assert expected in message


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"x": 1}], "'id' is missing"),
        ([{"id": ""}], "expected letters"),
        ([{"id": "a/b"}], "expected letters"),
        ([{"id": "-a"}], "expected letters"),
        ([{"id": ["a"]}], "expected letters"),
        ([{"id": True}], "expected letters"),
        ([{"id": "a"}, {"id": "a"}], "used twice (first in rows[0])"),
    ],
)
def test_ids_of_rows_are_checked(rows: list[dict[str, Any]], expected: str) -> None:
    ((key, message),) = _problems(dataset={"rows": rows})
    assert key == f"dataset.rows[{len(rows) - 1}]"
    assert expected in message


def test_the_id_may_be_another_field_and_a_number() -> None:
    trials = expand(load(dataset={"rows": [{"n": 1}, {"n": 2}], "id_field": "n"}))
    assert [trial.row_id for trial in trials] == ["1", "2"]


def _suite(folder: Path, *lines: str, paths: list[str] | None = None) -> Path:
    (folder / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    path = folder / "suite.yaml"
    path.write_text(task_text(dataset={"paths": paths or ["rows.jsonl"]}, initial_prompt="${row.p}"), encoding="utf-8")
    return path


def test_json_lines_are_read_beside_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWS_DIR", str(tmp_path))
    first = _suite(
        tmp_path,
        '\ufeff{"id": "a", "p": "caf\u00e9\u2028x"}\r',
        "",
        '{"id": "b", "p": "2"}',
        paths=["${ROWS_DIR}/rows.jsonl"],
    )
    monkeypatch.chdir("/")
    assert [trial.task.initial_prompt for trial in expand(load_task(first))] == ["caf\u00e9\u2028x", "2"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", "not a row in JSON"),
        ("[1]", "found a list"),
        ('{"id": NaN}', "NaN is not JSON"),
        ('{"id": "x", "p": "\\ud800"}', "surrogates"),
        ('{"p": "no id"}', "'id' is missing"),
        ('{"id": "a", "p": "again"}', "used twice"),
        ("[" * 100_000, "not a row in JSON"),
    ],
)
def test_a_bad_line_is_told_with_file_and_line(tmp_path: Path, line: str, expected: str) -> None:
    loaded = load_task(_suite(tmp_path, '{"id": "a", "p": "x"}', "", line))
    with pytest.raises(TaskFileError) as caught:
        expand(loaded)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == (str(tmp_path / "rows.jsonl"), 3)
    assert expected in problem.message


@pytest.mark.parametrize(
    ("path", "expected"),
    [("none.jsonl", "No such file"), ("$NOT_SET/x.jsonl", "NOT_SET is not set"), (".", "directory")],
)
def test_a_file_that_cannot_be_read_is_told_at_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, expected: str
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    loaded = load_task(_suite(tmp_path, paths=[path]))
    with pytest.raises(TaskFileError) as caught:
        expand(loaded)
    (problem,) = caught.value.problems
    assert problem.key == "dataset.paths[0]"
    assert expected in problem.message


def test_an_empty_dataset_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TaskFileError, match="no rows"):
        expand(load_task(_suite(tmp_path, "", "  ")))


def test_a_stratified_sample_is_the_same_every_time() -> None:
    rows = [{"id": f"{skill}{n}", "expected_skill": skill} for n in range(10) for skill in ("x", "y")]
    rows += [{"id": "lonely"}]

    def ids(**sampling: Any) -> list[str | None]:
        return [trial.row_id for trial in expand(load(dataset={"rows": rows, **sampling}))]

    chosen = ids(sample_per_stratum=3)
    assert chosen == ids(sample_per_stratum=3) == ids(sample_per_stratum=3, sample_seed=0)
    assert len(chosen) == 7
    assert sum(name.startswith("x") for name in chosen if name) == 3
    assert [row["id"] for row in rows if row["id"] in chosen] == chosen
    assert ids(sample_per_stratum=3, sample_seed=1) != chosen
    assert ids(sample_per_stratum=99) == [row["id"] for row in rows]


def test_many_rows_and_criteria_expand_in_time(tmp_path: Path) -> None:
    skills = [f"skill-{n}" for n in range(25)]
    lines = [json.dumps({"id": f"r{n}", "p": "do", "s": skills[n % 25]}) for n in range(1400)]
    path = _suite(tmp_path, *lines)
    criteria = [criterion("skill_triggered", skill_name=s, expected_skill="${row.s}") for s in skills]
    path.write_text(task_text(dataset={"paths": ["rows.jsonl"]}, success_criteria=criteria))
    loaded = load_task(path)
    assert len(expand(loaded)) == 1400
