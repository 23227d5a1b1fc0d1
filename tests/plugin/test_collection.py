"""Which files become tasks, what their items are called, and how a mistake in one is told."""

from __future__ import annotations

import sys

import pytest

from .conftest import PASS, Repo


def test_a_task_is_an_item_named_by_its_id(repo: Repo) -> None:
    repo.task("hello")
    assert repo.collect() == ["tasks/hello.yaml::hello"]


def test_rows_and_repeats_are_labelled_only_when_there_are_several(repo: Repo) -> None:
    rows = {"rows": [{"id": "one", "word": "a"}, {"id": "two", "word": "b"}]}
    repo.task("many", dataset=rows)
    repo.task("single", dataset={"rows": [{"id": "only", "word": "a"}]})
    assert repo.collect() == ["tasks/many.yaml::many[one]", "tasks/many.yaml::many[two]", "tasks/single.yaml::single"]
    assert repo.collect("--codereval-repeat=2") == [
        "tasks/many.yaml::many[one-r1]",
        "tasks/many.yaml::many[one-r2]",
        "tasks/many.yaml::many[two-r1]",
        "tasks/many.yaml::many[two-r2]",
        "tasks/single.yaml::single[r1]",
        "tasks/single.yaml::single[r2]",
    ]


def test_other_yaml_is_left_alone_and_unparsed(repo: Repo) -> None:
    repo.task("hello")
    repo.file("docker-compose.yaml", "services: {web: {image: nginx}}\n")
    repo.file("values.yml", "broken: [\n")
    repo.file("tasks/notes.yaml", "nested:\n  task_id: not at the start of a line\n")
    assert repo.collect() == ["tasks/hello.yaml::hello"]


def test_a_file_given_on_the_command_line_or_in_the_ini_is_claimed(repo: Repo) -> None:
    text = repo.task("hello").read_text()
    for key in ("task_id", "success_criteria"):
        text = text.replace(f"{key}:", f'"{key}":')
    (repo.path / "tasks" / "hello.yaml").unlink()
    repo.file("odd.yaml", text)
    assert repo.collect("odd.yaml") == ["odd.yaml::hello"]
    repo.pytester.makeini("[pytest]\ncodereval_files = odd.yaml\n")
    assert repo.collect() == ["odd.yaml::hello"]


def test_a_claimed_file_that_is_no_task_is_an_error(repo: Repo) -> None:
    repo.file("compose.yaml", "services: {web: {image: nginx}}\n")
    result = repo.pytester.runpytest_subprocess("compose.yaml")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*compose.yaml:1:1:*task_id*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_one_bad_file_is_one_error_and_the_others_run(repo: Repo) -> None:
    repo.task("good")
    repo.task("bad", success_criteria=[{**PASS, "paht": "x"}])
    repo.file("tasks/worse.yaml", "task_id: [\n")
    result = repo.run("--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*bad.yaml:*paht*path*"])
    result.stdout.no_fnmatch_line("*pytest_codereval/*.py*")


def test_criteria_without_a_task_id_are_an_error(repo: Repo) -> None:
    repo.task("nameless", task_id=None)
    result = repo.pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*nameless.yaml:*task_id*"])


def test_a_task_id_used_twice_is_an_error_that_names_the_first_file(repo: Repo) -> None:
    repo.task("a", task_id="twin")
    repo.task("b", task_id="twin")
    result = repo.run("--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*b.yaml:1:1: task_id: 'twin' is used by *a.yaml*"])


def test_stale_keys_warn_with_file_and_line(repo: Repo) -> None:
    path = repo.task("stale", max_iterations=3)
    line = path.read_text().splitlines().index("max_iterations: 3") + 1
    result = repo.run()
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines([f"*stale.yaml:{line}: CoderEvalWarning: *max_iterations*"])


def test_python_tests_of_the_repository_are_neither_hidden_nor_broken(repo: Repo) -> None:
    repo.task("hello")
    repo.file("tasks/test_mine.py", "def test_mine(): pass\n")
    repo.file("tasks/test_broken.py", "import no_such_module\n")
    result = repo.run("--continue-on-collection-errors")
    result.assert_outcomes(passed=2, errors=1)


@pytest.mark.parametrize("name", ["build", "dist"])
def test_task_files_in_folders_that_pytest_skips_are_found(repo: Repo, name: str) -> None:
    path = repo.task("hello")
    folder = repo.path / "tasks" / name / "deep"
    folder.mkdir(parents=True)
    path.rename(folder / "hello.yaml")
    repo.file(f"tasks/{name}/test_product.py", "def test_product(): pass\n")
    repo.file("other/build/test_product.py", "def test_product(): pass\n")
    assert repo.collect() == [f"tasks/{name}/deep/hello.yaml::hello"]
    repo.pytester.makeini(f"[pytest]\nnorecursedirs = {name}\n")
    assert repo.collect() == ([] if name == "build" else ["other/build/test_product.py::test_product"])


@pytest.mark.parametrize("strict", [False, True])
def test_tags_select_by_mark_without_warnings(repo: Repo, strict: bool) -> None:
    repo.task("one", tags=["smoke", "mode:build"])
    repo.task("two", tags=["smoke", "windows"])
    options = ["--strict-markers"] if strict else []
    assert repo.collect("-m", "smoke and not windows", *options) == ["tasks/one.yaml::one"]
    result = repo.pytester.runpytest_subprocess("--co", "-q", "-m", "smoke", "-W", "error", *options)
    result.stdout.no_fnmatch_line("*arning*")
    assert result.ret == 0


def test_a_tag_with_a_colon_selects_by_mark(repo: Repo) -> None:
    repo.task("one", tags=["mode:build"])
    repo.task("two", tags=["mode:test"])
    assert repo.collect("-m", "mode:build") == ["tasks/one.yaml::one"]


@pytest.mark.parametrize("strict", [False, True])
def test_codereval_tags_take_the_same_expressions_everywhere(repo: Repo, strict: bool) -> None:
    repo.task("one", tags=["mode:build", "skip"])
    repo.task("two", tags=["mode:test"])
    repo.file("test_python.py", "def test_it(): pass\n")
    options = ["--strict-markers"] if strict else []
    assert repo.collect("--codereval-tags", "mode:build", *options) == ["tasks/one.yaml::one"]
    assert repo.collect("--codereval-tags", "skip or mode:test", *options) == [
        "tasks/one.yaml::one",
        "tasks/two.yaml::two",
    ]


def test_a_wrong_tag_expression_is_a_usage_error(repo: Repo) -> None:
    repo.task("one")
    result = repo.pytester.runpytest_subprocess("--codereval-tags", "smoke and")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--codereval-tags*column*"])


def test_a_tag_named_like_a_mark_that_acts_does_not_act(repo: Repo) -> None:
    tags = ["asyncio", "flaky", "parametrize", "skip", "timeout", "usefixtures", "xfail"]
    for tag in tags:
        repo.task(f"of-{tag}", tags=[tag])
    repo.run().assert_outcomes(passed=len(tags))
    assert repo.collect("-m", " or ".join(tags)) == []
    assert repo.collect("--codereval-tags", " or ".join(tags)) == [f"tasks/of-{tag}.yaml::of-{tag}" for tag in tags]


def test_skip_with_and_without_a_reason(repo: Repo) -> None:
    repo.task("plain", skip=True)
    repo.task("why", skip="the tool is being rebuilt")
    repo.task("no", skip=False)
    result = repo.run("-rs")
    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(["*why.yaml:1: the tool is being rebuilt*"])
    assert result.ret == 0


def test_keyword_last_failed_and_listing_work_as_always(repo: Repo) -> None:
    repo.task("good")
    repo.task("bad", success_criteria=[{**PASS, "path": "missing"}])
    assert repo.collect("-k", "bad") == ["tasks/bad.yaml::bad"]
    first = repo.pytester.runpytest_subprocess()
    first.assert_outcomes(passed=1, failed=1)
    again = repo.pytester.runpytest_subprocess("--lf")
    again.assert_outcomes(failed=1)
    repo.pytester.runpytest_subprocess("--sw").assert_outcomes(failed=1)


def test_a_row_can_be_selected_and_its_failure_is_remembered(repo: Repo) -> None:
    rows = {"rows": [{"id": "one", "file": "a.txt"}, {"id": "two", "file": "missing"}]}
    repo.task("rows", dataset=rows, success_criteria=[{**PASS, "path": "${row.file}"}])
    repo.pytester.runpytest_subprocess("tasks/rows.yaml::rows[one]").assert_outcomes(passed=1)
    repo.pytester.runpytest_subprocess().assert_outcomes(passed=1, failed=1)
    repo.pytester.runpytest_subprocess("--lf").assert_outcomes(failed=1)


def test_no_task_selected_is_exit_status_5(repo: Repo) -> None:
    repo.task("hello")
    assert repo.run("-k", "nothing-like-it").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_location_is_the_yaml_line(repo: Repo) -> None:
    path = repo.task("bad", success_criteria=[{**PASS, "path": "missing"}])
    path.write_text("# a comment\n\n" + path.read_text())
    repo.run("-o", "junit_family=xunit1")
    case = next(repo.suite().iter("testcase"))
    assert (case.get("file"), case.get("line")) == ("tasks/bad.yaml", "2")


def test_nothing_heavy_is_imported_until_a_task_file_is_met(repo: Repo) -> None:
    repo.file("test_python.py", "def test_it(): pass\n")
    code = (
        "import sys, pytest; status = pytest.main(['--co', '-q', '-p', 'no:xdist']);"
        "heavy = ('yaml', 'pydantic', 'jmespath', 'jsonschema', 'pytest_codereval.trial');"
        "print([name for name in heavy if name in sys.modules]);"
        "sys.exit(status)"
    )
    result = repo.pytester.run(sys.executable, "-c", code)
    assert result.ret == 0
    assert result.outlines[-1] == "[]"


def test_disabled_by_name(repo: Repo) -> None:
    repo.task("hello")
    result = repo.pytester.runpytest_subprocess("-p", "no:codereval")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
