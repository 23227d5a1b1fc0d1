"""Experiments, defaults of folders and settings of the command line in a session."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Repo

EXPERIMENT = """
experiment_id: compare
defaults:
  run_limits: {max_turns: 5}
  repeats: 2
variants:
  - variant_id: plain
  - variant_id: careful
    repeats: 1
    prompt_mutations:
      - {type: suffix, content: Be careful.}
"""
DEFAULTS = """
template_sources:
  - {type: template_dir, path: shared}
post_run:
  - command: echo done
"""


def _records(repo: Repo) -> dict[str, dict[str, Any]]:
    found = (json.loads(path.read_text()) for path in repo.pytester.path.glob("run/**/record.json"))
    return {record["trial"]["id"]: record for record in found}


@pytest.fixture
def suite(repo: Repo) -> Repo:
    repo.file("experiments/compare.yaml", EXPERIMENT)
    repo.file("tasks/codereval.yaml", DEFAULTS)
    repo.file("tasks/shared/given.txt", "given")
    repo.script(
        "hello",
        {"bash": "cp given.txt out.txt"},
        success_criteria=[{"type": "file_contains", "path": "out.txt", "includes": ["given"], "description": "copied"}],
    )
    return repo


def test_every_variant_runs_with_its_settings_and_the_record_says_where_they_came_from(suite: Repo) -> None:
    pytest.importorskip("xdist")
    options = ["--codereval-experiment=experiments/compare.yaml", "--codereval-set=run_limits.max_turns=7"]
    result = suite.run(*options, "--codereval-set=agent.model=m", "-n2")
    result.assert_outcomes(passed=3)
    records = _records(suite)
    assert sorted(records) == ["hello[careful]", "hello[plain-r1]", "hello[plain-r2]"]
    careful = records["hello[careful]"]
    assert (careful["trial"]["variant"], careful["trial"]["experiment"]) == ("careful", "compare")
    assert careful["prompt"].endswith("\n\nBe careful.")
    assert not records["hello[plain-r1]"]["prompt"].endswith("Be careful.")
    lineage = careful["task"]["lineage"]
    assert lineage["run_limits.max_turns"] == "--codereval-set"
    assert lineage["sandbox.template_sources[0]"] == "tasks/codereval.yaml:3"
    assert lineage["repeats"].startswith("variant careful (experiments/compare.yaml:")
    assert careful["post_run"][0]["command"] == "echo done"


def test_what_is_collected_is_what_runs(suite: Repo) -> None:
    suite.pytester.makeini("[pytest]\ncodereval_experiment = experiments/compare.yaml\n")
    rows = [{"id": name} for name in "abc"]
    suite.task("rows", dataset={"rows": rows})
    assert suite.collect("--codereval-sample=2", "--codereval-repeat=1") == [
        *("tasks/hello.yaml::hello[plain]", "tasks/hello.yaml::hello[careful]"),
        *("tasks/rows.yaml::rows[b-plain]", "tasks/rows.yaml::rows[b-careful]"),
        *("tasks/rows.yaml::rows[c-plain]", "tasks/rows.yaml::rows[c-careful]"),
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--codereval-experiment=none.yaml"], "*--codereval-experiment: none.yaml:1:1: cannot read the file*"),
        (["--codereval-experiment=experiments/bad.yaml"], "*experiments/bad.yaml:2:1: variant: *did you mean*"),
        (["--codereval-set=run_limits.max_turn=3"], "*did you mean 'max_turns'*"),
        (["--codereval-set=agent.type=scrpt"], "*did you mean 'script'*"),
        (["--codereval-sample=0"], "*--codereval-sample 0: expected 1 or more*"),
        (["-o", "codereval_experiment=gone.yaml"], "*ini codereval_experiment: *gone.yaml*"),
    ],
)
def test_a_wrong_option_ends_the_session_before_anything_is_spent(
    suite: Repo, options: list[str], message: str
) -> None:
    suite.file("experiments/bad.yaml", "experiment_id: x\nvariant: []\n")
    result = suite.pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert not list(suite.pytester.path.glob("**/record.json"))


def test_explain_prints_the_task_with_its_sources(suite: Repo) -> None:
    result = suite.pytester.run(
        *("python", "-m", "pytest_codereval", "explain", "tasks/hello.yaml"),
        *("--experiment", "experiments/compare.yaml", "--variant", "plain", "--set", "run_limits.max_usd=1"),
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "# tasks/hello.yaml, variant plain",
            "  # tasks/codereval.yaml:3",
            "    path: shared",
            "  max_turns: 5  # experiments/compare.yaml:4 defaults",
            "  max_usd: 1  # --codereval-set",
            "# repeats: experiments/compare.yaml:5 defaults",
            "#   hello[[]plain-r2]",
        ]
    )
    assert not (suite.pytester.path / "run").exists()


def test_defaults_that_are_wrong_fail_the_tasks_below_them_and_are_no_task(suite: Repo) -> None:
    suite.file("tasks/codereval.yaml", "task_id: x\n")
    suite.task("other")
    suite.pytester.path.joinpath("tasks/other.yaml").rename(suite.pytester.path / "other.yaml")
    result = suite.pytester.runpytest_inprocess("-p", "no:cacheprovider", "--collect-only", "-q")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["other.yaml::other", "tasks/codereval.yaml:1:1: task_id: unknown key 'task_id'*"])
    result.stdout.fnmatch_lines(["1 test collected, 1 error*"])
