"""The fixtures in Python tests, and pytest's own machinery on items of task files."""

from __future__ import annotations

from .conftest import FAIL, PASS, Repo


def test_a_python_test_runs_a_task_and_looks_at_the_evidence(repo: Repo) -> None:
    repo.script(
        "cli",
        {"bash": "mytool login && mytool push"},
        {"say": "pushed"},
        sandbox={"record_cli": [{"tool": "mytool", "exit_code": 0}]},
        success_criteria=[{"type": "cli_called", "description": "pushed", "tool": "mytool", "verb": "push"}],
    )
    repo.file(
        "test_cli.py",
        """
        import pytest

        @pytest.mark.codereval(task="tasks/cli.yaml")
        def test_order(codereval_run):
            assert [call.argv for call in codereval_run.invocations.invocations] == [("login",), ("push",)]
            assert codereval_run.final_answer == "pushed"
            assert codereval_run.judge().status == "passed"
            codereval_run.assert_passed()

        def test_any(codereval_run_task):
            run = codereval_run_task("tasks/cli.yaml")
            assert [call.name for call in run.trajectory.tool_calls] == ["Bash"]
        """,
    )
    result = repo.run("--strict-markers", "test_cli.py")
    result.assert_outcomes(passed=2)
    assert repo.record("cli")["status"] == "passed"


def test_a_row_is_chosen_by_name(repo: Repo) -> None:
    repo.task(
        "rows",
        dataset={"rows": [{"id": "one", "f": "a.txt"}, {"id": "two", "f": "no"}]},
        success_criteria=[{**PASS, "path": "${row.f}"}],
    )
    repo.file(
        "test_rows.py",
        """
        import pytest

        @pytest.mark.codereval(task="tasks/rows.yaml", row="two")
        def test_two(codereval_run):
            assert codereval_run.judge().status == "failed"

        @pytest.mark.codereval(task="tasks/rows.yaml", row="three")
        def test_three(codereval_run):
            pass
        """,
    )
    result = repo.run("test_rows.py")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*no row 'three'; the rows are one, two*"])
    result.stdout.no_fnmatch_line("*pytest_codereval/*.py*")


def test_without_a_mark_the_fixture_says_what_it_needs(repo: Repo) -> None:
    repo.file("test_bare.py", "def test_bare(codereval_run): pass\n")
    result = repo.run("test_bare.py")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*@pytest.mark.codereval(task=*"])


def test_fixtures_of_conftest_act_on_task_items(repo: Repo) -> None:
    repo.task("hello")
    repo.file(
        "tasks/conftest.py",
        """
        import pytest

        @pytest.fixture(autouse=True, scope="module")
        def around(request):
            print("AROUND", request.module.__name__)

        @pytest.fixture
        def codereval_run(codereval_run):
            print("MINE", codereval_run.workspace.read_text("a.txt"))
            return codereval_run
        """,
    )
    result = repo.run("-rP")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*AROUND codereval_hello*", "*MINE hello*"])


def test_a_parametrized_fixture_multiplies_the_items(repo: Repo) -> None:
    repo.task("hello")
    repo.file(
        "conftest.py",
        """
        import pytest

        @pytest.fixture(params=["en", "de"], autouse=True)
        def language(request):
            return request.param
        """,
    )
    assert len(repo.collect()) == 2
    repo.run().assert_outcomes(passed=2)


def test_a_task_can_be_changed_by_a_fixture(repo: Repo) -> None:
    repo.task("hello", success_criteria=[FAIL])
    repo.file(
        "conftest.py",
        """
        import dataclasses, pytest

        @pytest.fixture
        def codereval_trial(codereval_trial):
            task = codereval_trial.task
            changed = task.model_copy(update={"success_criteria": ()})
            return dataclasses.replace(codereval_trial, task=changed)
        """,
    )
    repo.run("--codereval-allow-unevaluated").assert_outcomes(skipped=1)


def test_the_fixtures_and_options_are_documented(repo: Repo) -> None:
    result = repo.pytester.runpytest("--fixtures")
    for name in ("codereval_trial", "codereval_run", "codereval_run_task"):
        result.stdout.fnmatch_lines([f"{name}*"])
    text = repo.pytester.runpytest("--help").stdout.str()
    for option in ("agent", "repeat", "tags", "run-dir", "allow-unevaluated"):
        assert f"--codereval-{option}" in text
    for setting in ("files", "agent", "env_passthrough", "junit"):
        assert f"codereval_{setting}" in text


def test_the_hook_hears_of_every_trial(repo: Repo) -> None:
    repo.task("hello")
    repo.task("fails", success_criteria=[FAIL])
    repo.file(
        "conftest.py",
        """
        def pytest_codereval_trial_finished(summary, folder):
            with open("heard.txt", "a") as heard:
                heard.write(f"{summary['trial']} {summary['status']} {(folder / 'record.json').exists()}\\n")
        """,
    )
    repo.run()
    assert sorted((repo.path / "heard.txt").read_text().splitlines()) == ["fails failed True", "hello passed True"]
