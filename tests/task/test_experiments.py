"""Experiment files load, and their mistakes are told like those of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_codereval.errors import TaskFileError
from pytest_codereval.task.experiment_models import Experiment, read_experiment

VARIANTS = [{"variant_id": "main"}]


def _load(folder: Path, **content: Any) -> Experiment:
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump({"experiment_id": "e", "description": "d", "variants": VARIANTS, **content}))
    return read_experiment(path).content


@pytest.mark.parametrize(
    ("content", "key", "expected"),
    [
        ({"experiment_id": "A b"}, "experiment_id", "lowercase"),
        ({"variants": []}, "variants", "at least one"),
        ({"variants": [*VARIANTS, *VARIANTS]}, "variants[1].variant_id", "twice"),
        ({"variants": [{"variant_id": "a", "pre_run": []}]}, "variants[0].pre_run", "belongs under defaults"),
        ({"variants": [{"variant_id": "a", "initial_prompt": "x", "initial_prompt_file": "y"}]},
         "variants[0].initial_prompt_file", "exclude"),
        ({"defaults": {"repeats": 0}}, "defaults.repeats", "more than 0"),
        ({"defaults": {"repeats": 100}}, "defaults.repeats", "at most 99"),
        ({"defaults": {"driver": "vm"}}, "defaults.driver", "expected one of tempdir"),
        ({"defaults": {"agent": {"modle": "x"}}}, "defaults.agent.modle", "did you mean 'model'"),
        ({"defaults": {"agent": {"type": "claud-code"}}}, "defaults.agent.type", "did you mean 'claude-code'"),
        ({"defaults": {"simulation": {"gaol": "x"}}}, "defaults.simulation.gaol", "did you mean 'goal'"),
        ({"defaults": {"prompt_mutations": [{"type": "prefixx", "content": "x"}]}}, "defaults.prompt_mutations[0]",
         "did you mean 'prefix'"),
        ({"defaults": {"prompt_mutations": [{"type": "replace", "pattern": "(", "replacement": "", "regex": True}]}},
         "defaults.prompt_mutations[0].pattern", "regular"),
        ({"success_criteria": []}, "success_criteria", "unknown key"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_problem_at_its_key(tmp_path: Path, content: dict[str, Any], key: str, expected: str) -> None:
    with pytest.raises(TaskFileError) as caught:
        _load(tmp_path, **content)
    (problem,) = caught.value.problems
    assert problem.key == key
    assert expected in problem.message


def test_layers_may_say_a_part_only(tmp_path: Path) -> None:
    layer = {
        "repeats": 2,
        "agent": {"permission_mode": "plan"},
        "simulation": {"max_turns": 3},
        "run_limits": {"max_turns": 5},
        "driver": "docker",
        "template_sources": [{"type": "template_dir", "path": "x"}],
        "prompt_mutations": [
            {"type": "prefix", "content": "a"},
            {"type": "replace", "pattern": "(", "replacement": ""},
            {"type": "template", "variables": {"a": "b"}},
        ],
    }
    defaults = {**layer, "sandbox": {"python": {}}, "pre_run": [{"command": "x"}], "post_run": [{"command": "y"}]}
    found = _load(tmp_path, defaults=defaults, variants=[{"variant_id": "a", **layer}, {"variant_id": "b"}])
    assert [variant.variant_id for variant in found.variants] == ["a", "b"]
    assert found.variants[0].agent == {"permission_mode": "plan"}


def test_what_is_no_experiment_is_refused(tmp_path: Path) -> None:
    for text in ("", "- a", "{", "experiment_id: !!python/name:os.system x"):
        (tmp_path / "e.yaml").write_text(text)
        with pytest.raises(TaskFileError):
            read_experiment(tmp_path / "e.yaml")
