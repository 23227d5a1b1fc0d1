"""Layers: which value holds, where it came from, and where a mistake in one is told."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_codereval.errors import TaskFileError
from pytest_codereval.task.dataset import Sampling
from pytest_codereval.task.layering.explanation import explained
from pytest_codereval.task.layering.settings import Setting, SettingError, settings_of
from pytest_codereval.task.layering.stack import CommandLine
from pytest_codereval.task.resolution import Asked, Resolved, resolve

TASK: dict[str, Any] = {
    "task_id": "one",
    "description": "a task",
    "initial_prompt": "Work.",
    "success_criteria": [{"type": "file_exists", "path": "a", "description": "there"}],
}


class Suite:
    """A folder `suite` with tasks in `suite/sub`, defaults and an experiment."""

    def __init__(self, root: Path) -> None:
        self.root = root / "suite"
        (self.root / "sub").mkdir(parents=True)
        self.experiment: Path | None = None

    def write(self, name: str, content: Any) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def with_experiment(self, *variants: dict[str, Any], **defaults: Any) -> None:
        named = [{"variant_id": f"v{number}", **variant} for number, variant in enumerate(variants or ({},), 1)]
        content = {"experiment_id": "exp", "defaults": defaults, "variants": named}
        self.experiment = self.write("exp.yaml", content)

    def resolve(self, sets: tuple[str, ...] = (), repeats: int | None = None, **given: Any) -> Resolved:
        sampling = given.pop("sampling", Sampling())
        task = self.write("sub/task.yaml", TASK | given.pop("task", {}))
        line = CommandLine(settings=settings_of(sets, {}), folder=self.root, **given)
        return resolve(task, Asked(repeats, self.experiment, line, sampling, self.root))

    def task(self, **given: Any) -> Any:
        return self.resolve(**given).trials[0].task

    def problems(self, **given: Any) -> list[str]:
        with pytest.raises(TaskFileError) as raised:
            self.resolve(**given)
        return [
            f"{Path(problem.path).name}:{problem.line} {problem.key}: {problem.message}"
            for problem in raised.value.problems
        ]


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.chdir(tmp_path)
    return Suite(tmp_path)


def test_a_higher_layer_goes_before_a_lower_one_key_by_key(suite: Suite) -> None:
    names = ("max_turns", "max_input_tokens", "max_output_tokens", "max_total_tokens", "expected_turns")
    suite.with_experiment({"run_limits": {names[3]: 4}}, run_limits=dict.fromkeys(names, 1))
    suite.write("codereval.yaml", {"run_limits": dict.fromkeys(names[1:], 2)})
    suite.write("sub/codereval.yaml", {"run_limits": {names[1]: 3}})
    found = suite.resolve(("run_limits.expected_turns=5",), task={"run_limits": {names[2]: 9}}).trials[0]
    limits = found.task.run_limits
    assert limits is not None
    assert [getattr(limits, name) for name in names] == [1, 3, 9, 4, 5]
    told = {key.partition(".")[2]: value for key, value in found.lineage.items()}
    assert told == {
        "max_turns": "suite/exp.yaml:4 defaults",
        "max_input_tokens": "suite/sub/codereval.yaml:2",
        "max_total_tokens": "variant v1 (suite/exp.yaml:12)",
        "expected_turns": "--codereval-set",
    }
    assert (found.variant, found.experiment) == ("v1", "exp")


def test_without_layers_nothing_is_said(suite: Suite) -> None:
    (trial,) = suite.resolve().trials
    assert (trial.lineage, trial.variant, trial.experiment, trial.label) == ({}, None, None, "")


def test_lists_that_grow_and_their_order(suite: Suite) -> None:
    def hook(name: str) -> list[dict[str, str]]:
        return [{"command": name}]

    def files(name: str) -> list[dict[str, Any]]:
        return [{"type": "starter_files", "files": [{"path": name, "content": ""}]}]

    suite.with_experiment(
        {"template_sources": files("variant")},
        pre_run=hook("exp"),
        post_run=hook("exp"),
        template_sources=files("exp"),
        sandbox={"docker": {"env_passthrough_extra": ["E"]}},
    )
    suite.write(
        "codereval.yaml",
        {"pre_run": hook("folder"), "post_run": hook("folder"), "template_sources": files("folder")},
    )
    own = {
        "pre_run": hook("task"),
        "post_run": hook("task"),
        "sandbox": {"template_sources": files("task"), "docker": {"env_passthrough_extra": ["T"]}},
    }
    more = ("sandbox.docker.env_passthrough_extra=[C]",)
    found = suite.resolve(more, task=own).trials[0]
    task = found.task
    assert [each.command for each in task.pre_run] == ["exp", "folder", "task"]
    assert [each.command for each in task.post_run] == ["task", "folder", "exp"]
    sources: Any = task.sandbox.template_sources
    assert [each.files[0].path for each in sources] == ["folder", "task", "exp", "variant"]
    assert task.sandbox.docker.env_passthrough_extra == ("E", "T", "C")
    assert found.lineage["post_run[2]"].startswith("suite/exp.yaml:")
    assert "post_run[0]" not in found.lineage


def test_record_cli_is_replaced_by_the_higher_layer(suite: Suite) -> None:
    def recorded(*sets: str) -> list[list[str]]:
        own = {"sandbox": {"record_cli": [{"tool": "git"}, {"tool": "gh"}]}}
        found = (trial.task.sandbox.record_cli or () for trial in suite.resolve(sets, task=own).trials)
        return [[entry.tool for entry in entries] for entries in found]

    suite.write("codereval.yaml", {"sandbox": {"record_cli": [{"tool": "az"}]}})
    assert recorded() == [["git", "gh"]]
    suite.with_experiment({}, {"sandbox": {"record_cli": [{"tool": "kubectl"}]}})
    assert recorded() == [["git", "gh"], ["kubectl"]]
    assert recorded("sandbox.record_cli=[{tool: helm}]") == [["helm"], ["helm"]]


def test_criteria_are_checked_against_what_each_variant_records(suite: Suite) -> None:
    suite.with_experiment({}, {"sandbox": {"record_cli": [{"tool": "kubectl"}]}})
    called = {"type": "cli_called", "tool": "git", "description": "d"}
    own = {"sandbox": {"record_cli": [{"tool": "git"}]}, "success_criteria": [called]}
    (problem,) = suite.problems(task=own)
    assert "nobody records 'git'" in problem


def test_of_an_exclusive_group_the_highest_layer_holds(suite: Suite) -> None:
    suite.with_experiment({"agent": {"system_prompt_file": "v.md"}}, agent={"system_prompt": "defaults"})
    agent = suite.task(task={"agent": {"type": "codex", "system_prompt": "task"}}).agent
    assert (agent.system_prompt, agent.system_prompt_file) == (None, "../v.md")


def test_null_is_a_value_inside_a_block_and_says_nothing_in_place_of_one(suite: Suite) -> None:
    suite.write("codereval.yaml", {"run_limits": {"max_turns": 3}, "sandbox": {"python": {"env_packages": ["x"]}}})
    task = suite.task(task={"run_limits": None, "sandbox": {"python": None}})
    assert task.run_limits.max_turns == 3
    assert task.sandbox.python is None


def test_the_short_driver_goes_before_the_block_of_the_same_layer(suite: Suite) -> None:
    suite.with_experiment({"driver": "bubblewrap"}, driver="docker", sandbox={"driver": "tempdir"})
    assert suite.task().sandbox.driver == "bubblewrap"
    assert suite.task(task={"sandbox": {"driver": "tempdir"}}).sandbox.driver == "bubblewrap"
    assert suite.task(driver="tempdir").sandbox.driver == "tempdir"


def test_simulation_and_checker_context_merge_key_by_key(suite: Suite) -> None:
    route = {"route": "litellm", "model": "m", "params": {"a": 1}}
    suite.with_experiment(
        {"simulation": {"max_turns": 3}, "checker_context": {"api_route": {"model": "n"}}},
        simulation={"persona": "p", "goal": "g"},
        checker_context={"api_route": route},
    )
    task = suite.task(task={"simulation": {"enabled": True}})
    assert (task.simulation.persona, task.simulation.max_turns, task.simulation.enabled) == ("p", 3, True)
    assert (task.checker_context.api_route.model, task.checker_context.api_route.params) == ("n", {"a": 1})


def test_paths_are_relative_to_the_file_in_which_they_stand(suite: Suite) -> None:
    source = {"type": "template_dir", "path": "shared"}
    reply = {"tool": "git", "stdout_file": "reply.txt"}
    suite.write("reply.txt", "x")
    suite.write(
        "codereval.yaml",
        {
            "template_sources": [source],
            "sandbox": {"record_cli": [reply], "docker": {"extra_mounts": ["data:/data:ro", "$X/y:/y", "~/z:/z"]}},
            "agent": {"plugins": [{"path": "./skills"}, {"path": "/abs"}, {"path": "$SKILLS"}]},
        },
    )
    task = suite.task()
    assert task.sandbox.template_sources[0].path == "../shared"
    assert task.sandbox.record_cli[0].stdout_file == "../reply.txt"
    assert task.sandbox.docker.extra_mounts == ("../data:/data:ro", "$X/y:/y", "~/z:/z")
    assert [each.path for each in task.agent.plugins] == ["../skills", "/abs", "$SKILLS"]


# -- agents


def test_settings_that_the_chosen_agent_lacks_are_left_out_and_said(suite: Suite) -> None:
    suite.with_experiment(agent={"claude_settings": {"a": 1}, "effort": "high", "permission_mode": "plan"})
    found = suite.resolve(agent="codex", task={"agent": {"model": "m"}}).trials[0]
    agent: Any = found.task.agent
    assert (agent.type, agent.effort, agent.permission_mode, agent.model) == ("codex", "high", "plan", "m")
    assert found.lineage["agent.claude_settings"].startswith("left out (suite/exp.yaml:4 defaults): codex")
    assert suite.task(agent="claude-code").agent.claude_settings == {"a": 1}


def test_another_type_in_a_higher_layer_takes_only_what_all_agents_have(suite: Suite) -> None:
    suite.with_experiment(
        {},
        {"agent": {"type": "codex"}},
        agent={"type": "claude-code", "model": "opus", "claude_settings": {"a": 1}, "system_prompt": "s"},
    )
    first, second = suite.resolve().trials
    assert first.task.agent is not None
    assert first.task.agent.model == "opus"
    assert second.task.agent is not None
    assert (second.task.agent.type, second.task.agent.model, second.task.agent.system_prompt) == ("codex", None, "s")
    assert "left out" in second.lineage["agent.model"]
    (_, by_option) = suite.resolve(agent="anthropic", model="m").trials
    assert by_option.task.agent is not None
    assert (by_option.task.agent.type, by_option.task.agent.model) == ("anthropic", "m")
    assert by_option.lineage["agent.type"] == "--codereval-agent, in place of codex"


def test_a_key_that_the_task_wrote_beside_its_type_is_still_an_error(suite: Suite) -> None:
    suite.with_experiment()
    (problem,) = suite.problems(task={"agent": {"type": "codex", "claude_settings": {}}})
    assert problem.startswith("task.yaml:10 agent.claude_settings: unknown key")


def test_an_agent_none_keeps_its_place_and_reads_no_prompt(suite: Suite) -> None:
    suite.with_experiment({"initial_prompt": "Other."}, agent={"context_window": 100_000})
    task = suite.write(
        "sub/task.yaml", {key: TASK[key] for key in TASK if key != "initial_prompt"} | {"agent": {"type": "none"}}
    )
    line = CommandLine(agent="codex", model="m")
    (trial,) = resolve(task, Asked(experiment=suite.experiment, command_line=line)).trials
    assert trial.task.agent is not None
    assert (trial.task.agent.type, trial.task.agent.model, trial.task.initial_prompt) == ("none", None, None)


# -- prompts


def test_changes_of_the_prompt_come_in_order_and_fill_in_the_row(suite: Suite) -> None:
    suite.with_experiment(
        {"prompt_mutations": [{"type": "suffix", "content": "${row.id}", "separator": "/"}]},
        {"initial_prompt": "Only ${row.id}."},
        {"prompt_mutations": [{"type": "replace", "pattern": "(b)e", "replacement": "\\1E", "regex": True}]},
        prompt_mutations=[
            {"type": "prefix", "content": "Pre {who}", "separator": " "},
            {"type": "template", "variables": {"who": "be"}},
        ],
    )
    own = {"initial_prompt": "Do ${row.id} {x}.", "dataset": {"rows": [{"id": "r"}]}}
    found = suite.resolve(task=own).trials
    assert [trial.task.initial_prompt for trial in found] == ["Pre be Do r {x}./r", "Only r.", "Pre bE Do r {x}."]
    assert [trial.label for trial in found] == ["v1", "v2", "v3"]


def test_a_prompt_file_is_read_for_changes_and_a_variants_is_beside_the_experiment(suite: Suite) -> None:
    suite.with_experiment({"prompt_mutations": [{"type": "suffix", "content": "!"}]}, {"initial_prompt_file": "p.md"})
    suite.write("sub/own.md", "Own.\n")
    without = {key: TASK[key] for key in TASK if key != "initial_prompt"}
    task = suite.write("sub/task.yaml", without | {"initial_prompt_file": "own.md"})
    first, second = resolve(task, Asked(experiment=suite.experiment)).trials
    assert (first.task.initial_prompt, first.task.initial_prompt_file) == ("Own.\n\n!", None)
    assert (second.task.initial_prompt, second.task.initial_prompt_file) == (None, "../p.md")


def test_a_change_that_gives_the_reference_away_or_asks_for_no_field_is_refused(suite: Suite) -> None:
    suite.with_experiment({"prompt_mutations": [{"type": "suffix", "content": "See $REFERENCE_DIR"}]})
    assert "would give the reference away" in suite.problems()[0]
    suite.with_experiment({"prompt_mutations": [{"type": "suffix", "content": "${row.who}"}]})
    assert "no 'who'" in suite.problems(task={"dataset": {"rows": [{"id": "r"}]}})[0]


# -- trials


def test_rows_then_variants_then_repeats(suite: Suite) -> None:
    suite.with_experiment({}, {"repeats": 2}, repeats=5)
    suite.write("codereval.yaml", {"repeats": 1})
    rows = {"dataset": {"rows": [{"id": "a"}, {"id": "b"}]}}
    assert [t.label for t in suite.resolve(task=rows).trials] == [
        *("a-v1", "a-v2-r1", "a-v2-r2"),
        *("b-v1", "b-v2-r1", "b-v2-r2"),
    ]
    assert len(suite.resolve(task=rows | {"repeats": 3}).trials) == 12
    assert len(suite.resolve(task=rows | {"repeats": 3}, repeats=1).trials) == 4
    suite.experiment = None
    suite.write("codereval.yaml", {"repeats": 4})
    assert len(suite.resolve().trials) == 4


def test_two_trials_of_one_name_are_refused(suite: Suite) -> None:
    suite.write("exp.yaml", {"experiment_id": "e", "variants": [{"variant_id": "c"}, {"variant_id": "b-c"}]})
    suite.experiment = suite.root / "exp.yaml"
    (problem,) = suite.problems(task={"dataset": {"rows": [{"id": "a-b"}, {"id": "a"}]}})
    assert "two trials would be called one[a-b-c]" in problem


def test_samples_are_always_the_same_and_counted(suite: Suite) -> None:
    rows = [{"id": f"r{number}", "kind": "xyz"[number % 3]} for number in range(30)]
    own = {"dataset": {"rows": rows, "stratify_field": "kind", "sample_per_stratum": 2}}

    def drawn(*sampling: int | None) -> list[str | None]:
        trials = suite.resolve(task=own, sampling=Sampling(*sampling)).trials
        assert {trial.rows for trial in trials} == {len(trials)}
        return [trial.row_id for trial in trials]

    assert len(drawn()) == 6
    assert len(drawn(None, 3)) == 9
    assert len(drawn(5, 3)) == 5
    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(5, None, 1)
    assert drawn(5) == sorted(drawn(5), key=lambda name: int(str(name)[1:]))
    assert len(drawn(99)) == 30


def test_what_an_author_wrote_survives_rows_and_layers(suite: Suite) -> None:
    suite.with_experiment({}, {}, run_limits={"max_turns": 3})
    check = {"type": "run_command", "command": "echo ${row.id}", "description": "d", "read_only": True, "weight": 0.5}
    own = {"success_criteria": [check], "dataset": {"rows": [{"id": "a"}, {"id": "b"}]}}
    for trial in suite.resolve(task=own).trials:
        criterion: Any = trial.task.success_criteria[0]
        assert (criterion.command, criterion.read_only, criterion.weight) == (f"echo {trial.row_id}", True, 0.5)


# -- mistakes


def test_a_mistake_is_told_at_its_place_in_its_layer(suite: Suite) -> None:
    suite.with_experiment({"agent": {"context_window": 10}}, {"agent": {"context_window": 11}})
    found = suite.problems(task={"agent": {"type": "claude-code"}})
    assert [problem.partition(": ")[0] for problem in found] == [
        "exp.yaml:6 variants[0].agent.context_window",
        "exp.yaml:9 variants[1].agent.context_window",
    ]
    suite.experiment = None
    suite.write("codereval.yaml", "run_limits:\n  max_turn: 3\n")
    assert suite.problems() == [
        "codereval.yaml:2 run_limits.max_turn: unknown key 'max_turn'; did you mean 'max_turns'?"
    ]
    suite.write("codereval.yaml", "success_criteria: []\n")
    assert suite.problems()[0].startswith("codereval.yaml:1 success_criteria: unknown key")


def test_a_mistake_in_an_item_of_a_joined_list_is_told_where_the_item_stands(suite: Suite) -> None:
    suite.write("codereval.yaml", "pre_run:\n- command: a\n- command: b\n")
    (problem,) = suite.problems(task={"pre_run": [{"command": "c"}, {"command": "d", "timeout": 0}]})
    assert problem.startswith("task.yaml:11 pre_run[1].timeout: ")


def test_a_mistake_of_the_task_is_told_once_under_several_variants(suite: Suite) -> None:
    suite.with_experiment({}, {}, {})
    assert len(suite.problems(task={"tags": ["Not Kebab"]})) == 1
    rows = {"dataset": {"rows": [{"id": "a"}]}, "initial_prompt": "${row.who}"}
    assert len(suite.problems(task=rows)) == 1


def test_a_key_that_stands_twice_in_a_layer_is_an_error(suite: Suite) -> None:
    suite.write("codereval.yaml", "run_limits:\n  max_turns: 3\n  max_turns: 4\n")
    assert suite.problems() == ["codereval.yaml:3 run_limits.max_turns: the key 'max_turns' stands here twice"]


def test_a_layer_that_changes_is_read_again(suite: Suite) -> None:
    suite.write("codereval.yaml", "run_limits: {max_turns: 3}\n")
    assert suite.task().run_limits.max_turns == 3
    suite.write("codereval.yaml", "run_limits: {max_turns: 14}\n")
    assert suite.task().run_limits.max_turns == 14


# -- settings of the command line


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("run_limits.max_turns=3", ("run_limits", "max_turns"), 3),
        ("sandbox.env={A: on, B: [no, true]}", ("sandbox", "env"), None),
        ("sandbox.env.A=yes", ("sandbox", "env", "A"), "yes"),
        ("sandbox.env.A=a=b", ("sandbox", "env", "A"), "a=b"),
        ("agent.system_prompt=", ("agent", "system_prompt"), None),
        ("agent.additional_ignore_patterns=[x]", ("agent", "ignore_patterns"), ["x"]),
        ("run_limits.count_cached_input=true", ("run_limits", "count_cached_input"), True),
        ("agent.sdk_options.effort=high", ("agent", "sdk_options", "effort"), "high"),
    ],
)
def test_settings_are_read_as_yaml(text: str, path: tuple[str, ...], value: Any) -> None:
    if text.startswith("sandbox.env={"):
        with pytest.raises(SettingError, match=r"sandbox\.env\.B"):
            settings_of([text], {})
        return
    assert settings_of([text], {}) == (Setting(path, value),)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["run_limits"], "expected path=value"),
        (["limits.max_turns=3"], "did you mean 'run_limits'"),
        (["run_limits.max_turn=3"], "did you mean 'max_turns'"),
        (["run_limits.max_turns.x=3"], "is a single value"),
        (["sandbox.record_cli.0.tool=x"], "has no key '0'|is a single value|is a list"),
        (["run_limits={}"], "expected the path of one setting"),
        (["run_limits.max_turns=many"], "expected a whole number, found 'many'"),
        (["run_limits.task_timeout=5"], "expected at least 30"),
        (["agent.permission_mode=plann"], "did you mean 'plan'"),
        (["agent.effort=big"], "effort"),
        (["agent.model=a", "agent.model=b"], "given twice"),
        (["agent.additional_ignore_patterns=[a]", "agent.ignore_patterns=[b]"], "given twice"),
        (["agent.model=a"], "--codereval-model say the same"),
        (["run_limits.max_turns=[1"], "is not YAML"),
        (["simulation.max_turns=101"], "at most 100"),
        (["checker_context.api_route.route=magic"], "expected 'direct'"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(texts: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        settings_of(texts, {"--codereval-model": "m" if len(texts) == 1 else None})


# -- explain


def test_what_is_explained_is_the_task_with_its_sources_as_comments(suite: Suite) -> None:
    suite.with_experiment(run_limits={"max_turns": 3}, post_run=[{"command": "clean"}], agent={"thinking_level": "low"})
    arm = suite.resolve(agent="codex", task={"agent": {"model": "m"}, "post_run": [{"command": "own"}]}).arms[0]
    text = explained(arm.data, arm.lineage)
    assert yaml.safe_load(text) == arm.data
    assert "  max_turns: 3  # suite/exp.yaml:4 defaults" in text.splitlines()
    assert "- command: clean  # suite/exp.yaml:6 defaults" in text.splitlines()
    assert "- command: own" in text.splitlines()
    assert text.splitlines()[-1].startswith("# agent.t")
    for told in arm.lineage.values():
        assert told in text
