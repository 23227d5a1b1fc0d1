"""How the plugin lives with everything else in a session: other tests, other handlers, other folders, lost reports."""

from __future__ import annotations

import pytest

from .conftest import FAIL, OFF, PASS, Repo


def test_a_lost_python_test_fails_a_session_with_trials(repo: Repo) -> None:
    repo.task("hello")
    repo.file(
        "test_lost.py",
        """
        import pytest

        @pytest.fixture
        def unserialisable(request):
            yield
            request.node.user_properties.append(("x", "\\udc80"))

        def test_lost(unserialisable):
            assert 0
        """,
    )
    for workers in ("-n0", "-n1", "-n2"):
        assert repo.run(workers).ret not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def test_odd_properties_of_a_test_with_a_trial_are_cleaned(repo: Repo) -> None:
    repo.task("hello")
    repo.file(
        "test_odd.py",
        """
        import pytest

        @pytest.mark.codereval(task="tasks/hello.yaml")
        def test_odd(codereval_run, record_property):
            record_property("x", "\\udc80")
        """,
    )
    repo.run("-n1").assert_outcomes(passed=2)


def test_not_evaluated_in_a_python_test_is_no_silent_success(repo: Repo) -> None:
    repo.task("open", success_criteria=[OFF])
    repo.file(
        "test_open.py",
        """
        import pytest

        @pytest.mark.codereval(task="tasks/open.yaml")
        def test_open(codereval_run):
            codereval_run.assert_passed()
        """,
    )
    for workers in ("-n0", "-n1"):
        assert repo.run("test_open.py", workers).ret == pytest.ExitCode.TESTS_FAILED
    assert repo.run("test_open.py", "--codereval-allow-unevaluated").ret == pytest.ExitCode.OK


def test_codereval_trial_can_be_parametrized(repo: Repo) -> None:
    repo.task("one")
    repo.task("rows", dataset={"rows": [{"id": "a"}, {"id": "b"}]})
    repo.file(
        "tasks/conftest.py",
        """
        import pytest

        @pytest.fixture(params=["haiku", "sonnet"])
        def codereval_trial(request, codereval_trial):
            assert request.param in ("haiku", "sonnet")
            return codereval_trial
        """,
    )
    assert len(repo.collect("--codereval-agent=script")) == 6
    repo.run().assert_outcomes(passed=6)


def test_an_unrelated_suite_keeps_its_signals(repo: Repo) -> None:
    repo.file(
        "test_signals.py",
        """
        import os, signal, pytest

        def test_default():
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

        @pytest.mark.parametrize("number", [1, 2, 3])
        def test_interrupt(number):
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                signal.pause()

        def test_child():
            child = os.fork()
            if not child:
                signal.pause()
            os.kill(child, signal.SIGTERM)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        """,
    )
    for workers in ("-n0", "-n1"):
        repo.run(workers).assert_outcomes(passed=5)


def test_a_child_forked_beside_trials_dies_by_its_signals(repo: Repo) -> None:
    repo.task("hello")
    repo.file(
        "test_child.py",
        """
        import os, signal

        def test_child(codereval_run_task):
            codereval_run_task("tasks/hello.yaml")
            child = os.fork()
            if not child:
                signal.pause()
            os.kill(child, signal.SIGTERM)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        """,
    )
    repo.run("test_child.py").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("conftest", "statuses"),
    [
        ("@pytest.fixture\ndef codereval_run(codereval_run): raise RuntimeError('mine')", "trials: 1 error"),
        ("@pytest.fixture(autouse=True)\ndef after():\n    yield\n    raise RuntimeError('mine')", "trials: 1 error"),
        ("@pytest.fixture(autouse=True)\ndef before(): raise RuntimeError('mine')", "trials: 1 error"),
    ],
)
def test_a_fixture_that_fails_makes_one_error(repo: Repo, conftest: str, statuses: str) -> None:
    repo.task("hello")
    repo.file("conftest.py", f"import pytest\n\n{conftest}\n")
    result = repo.run()
    result.stdout.fnmatch_lines([statuses, "pass rate: 0.0%"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(
    ("strict", "statuses", "status"), [(False, "trials: 1 passed", 0), (True, "trials: 1 failed", 1)]
)
def test_an_unexpected_pass(repo: Repo, strict: bool, statuses: str, status: int) -> None:
    repo.task("hello")
    repo.file(
        "conftest.py",
        f"""
        import pytest
        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.xfail(strict={strict}))
        """,
    )
    result = repo.run()
    result.stdout.fnmatch_lines([statuses])
    assert result.ret == status


def test_a_python_test_shows_its_own_error(repo: Repo) -> None:
    repo.task("hello")
    repo.file(
        "test_mine.py",
        """
        def test_mine(codereval_run_task):
            run = codereval_run_task("tasks/hello.yaml")
            run.workspace.read_text("report.md")
        """,
    )
    result = repo.run("test_mine.py")
    result.stdout.fnmatch_lines(["*run.workspace.read_text*", "*report.md*missing*"])


def test_a_python_test_whose_task_fails_shows_the_criteria(repo: Repo) -> None:
    repo.task("fails", success_criteria=[PASS, FAIL])
    repo.file(
        "test_mine.py",
        """
        def test_mine(codereval_run_task):
            codereval_run_task("tasks/fails.yaml").assert_passed()
        """,
    )
    result = repo.run("test_mine.py")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert_passed()*", "*FAIL*file_exists-it-is-missing*"])


def test_a_run_directory_is_never_searched_for_tests(repo: Repo) -> None:
    repo.script(
        "planter",
        {"bash": "echo 'def test_planted(): pass' > test_planted.py; echo 1/0 > conftest.py"},
        success_criteria=[{**PASS, "path": "test_planted.py"}],
    )
    for _ in range(2):
        repo.run().assert_outcomes(passed=1)
    assert repo.collect() == ["tasks/planter.yaml::planter"]


def test_a_foreign_directory_is_no_run_directory(repo: Repo) -> None:
    repo.task("hello")
    repo.file("run/trials/mine.txt", "mine")
    repo.file("run/notes.txt", "mine")
    result = repo.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*run is not empty and holds no run*"])
    assert (repo.path / "run" / "trials" / "mine.txt").exists()


@pytest.mark.parametrize("folder", ["d[1]", "a b", "ü"])
def test_criteria_are_named_well_in_odd_folders(repo: Repo, folder: str) -> None:
    if "[" in folder and pytest.version_tuple < (9, 2):
        pytest.skip("this pytest names no testcase well below such a folder")
    path = repo.task("hello")
    (repo.path / folder).mkdir()
    path.rename(repo.path / folder / "hello.yaml")
    repo.run().assert_outcomes(passed=1)
    assert set(repo.cases()) == {"hello", "file_exists-greeting-is-there"}


def test_a_built_package_is_not_searched(repo: Repo) -> None:
    repo.task("hello")
    repo.file("pyproject.toml", "[project]\nname = 'x'\n")
    copy = repo.path / "build" / "lib" / "tasks"
    copy.mkdir(parents=True)
    (copy / "hello.yaml").write_text((repo.path / "tasks" / "hello.yaml").read_text())
    assert repo.collect() == ["tasks/hello.yaml::hello"]


def test_a_task_file_in_a_wide_encoding_is_told(repo: Repo) -> None:
    path = repo.task("hello")
    path.write_bytes(path.read_text().encode("utf-16"))
    result = repo.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*hello.yaml:1:1: *UTF-16*"])


def test_showing_fixtures_is_no_lost_trial(repo: Repo) -> None:
    repo.task("hello")
    for option in ("--fixtures", "--fixtures-per-test"):
        result = repo.pytester.runpytest_subprocess(option)
        assert result.ret == 0
        result.stdout.no_fnmatch_line("*never reported*")


def test_warnings_as_errors_show_no_code_of_ours(repo: Repo) -> None:
    repo.task("stale", max_iterations=1)
    result = repo.run("-W", "error")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*stale.yaml:*max_iterations*"])
    result.stdout.no_fnmatch_line("*collection.py*")


def test_pytest_timeout_in_a_trial_is_an_error_without_code_of_ours(repo: Repo) -> None:
    repo.script("slow", {"sleep": 60})
    result = repo.run("--timeout=1")
    result.assert_outcomes(errors=1)
    result.stdout.no_fnmatch_line("*pytest_codereval/*.py*")
    assert repo.record("slow")["status"] == "error"


def test_the_plugin_leaves_no_files_behind(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = repo.pytester.mkdir("scratch")
    monkeypatch.setenv("TMPDIR", str(scratch))
    repo.task("hello")
    repo.script("crash", {"crash": "x"})
    repo.run("-n2").assert_outcomes(passed=1, errors=1)
    assert [path.name for path in scratch.iterdir() if not path.name.startswith("pytest-of-")] == []


def test_a_misspelt_argument_of_the_mark_is_told(repo: Repo) -> None:
    repo.task("hello")
    repo.file(
        "test_mine.py",
        """
        import pytest

        @pytest.mark.codereval(task="tasks/hello.yaml", rows="x")
        def test_mine(codereval_run):
            pass
        """,
    )
    result = repo.run("test_mine.py")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*takes task= and row=, not rows*"])
