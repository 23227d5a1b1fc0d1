"""Recorded tools with answers, from outside: where handlers are found, strictness, what stays out of reach."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from .conftest import Repo

CALLED = {"type": "cli_called", "description": "it was called", "tool": "uip"}


def recording(repo: Repo, name: str, tool: dict[str, Any], *commands: str, **fields: Any) -> None:
    """Write a task whose agent runs these commands with `uip` recorded as `tool` says."""
    sandbox = {"record_cli": [{"tool": "uip", **tool}], **fields.pop("sandbox", {})}
    fields.setdefault("success_criteria", [CALLED])
    repo.script(name, *({"bash": command} for command in commands), sandbox=sandbox, **fields)


def contains(text: str) -> list[dict[str, Any]]:
    """One criterion: out.txt holds this text."""
    return [{"type": "file_contains", "description": f"it printed {text}", "path": "out.txt", "includes": [text]}]


def test_a_handler_is_a_function_of_conftest_a_fixture_or_a_function_in_a_file(repo: Repo) -> None:
    repo.file(
        "conftest.py",
        """
        import pytest
        from pytest_codereval import Reply

        def plain(call):
            return Reply(stdout=f"plain {call.verb} {call.flag('name')}")

        @pytest.fixture
        def tenant():
            return "acme"

        @pytest.fixture
        def fixed(tenant):
            def answer(call):
                call.state["calls"] = call.state.get("calls", 0) + 1
                return {"tenant": tenant, "calls": call.state["calls"]}
            return answer
        """,
    )
    repo.file("tasks/sub/conftest.py", "def plain(call):\n    return 'nearest'\n")
    repo.file("tasks/answers.py", "def answer(call):\n    return 'from a file: ' + call.stdin.upper()\n")
    options = {"name": 1}
    recording(
        repo,
        "conftest",
        {"handler": "plain", "options": options},
        "uip users add --name x > out.txt",
        success_criteria=contains("plain users add x"),
    )
    recording(repo, "fixture", {"handler": "fixed"}, "uip a; uip b > out.txt", success_criteria=contains('"calls": 2'))
    recording(
        repo,
        "file",
        {"handler": "answers.py:answer"},
        "echo body | uip a > out.txt",
        success_criteria=contains("from a file: BODY"),
    )
    recording(repo, "nearest", {"handler": "plain"}, "uip a > out.txt", success_criteria=contains("nearest"))
    (repo.path / "tasks" / "nearest.yaml").rename(repo.path / "tasks" / "sub" / "nearest.yaml")
    result = repo.run("tasks", "-n2")
    result.assert_outcomes(passed=4)


def test_what_is_wrong_with_a_handler_makes_the_trial_an_error_that_says_so(repo: Repo) -> None:
    repo.file(
        "conftest.py",
        """
        import pytest

        def uip_service(call):
            raise ValueError("the secret answer is 42")

        @pytest.fixture
        def text():
            return "no function"

        @pytest.fixture
        def needy(gone):
            return uip_service

        @pytest.fixture
        def fails():
            pytest.fail("no service today")

        @pytest.fixture(params=[1, 2])
        def many(request):
            return uip_service

        @pytest.fixture
        def skips():
            pytest.skip("not on this machine")

        @pytest.fixture(name="renamed")
        def original():
            return uip_service
        """,
    )
    fixtures = ("needy", "fails", "many", "skips", "original")
    for name in fixtures:
        recording(repo, name, {"handler": name}, "uip a")
    recording(repo, "misspelt", {"handler": "uip_servce"}, "uip a")
    recording(repo, "value", {"handler": "text"}, "uip a")
    recording(repo, "raises", {"handler": "uip_service"}, "uip a > out.txt 2>&1; grep -q 42 out.txt && uip leaked")
    result = repo.run("tasks")
    result.assert_outcomes(errors=3 + len(fixtures))
    result.stdout.fnmatch_lines(["*handler 'needy': the fixture needs 'gone': there is no such fixture*"])
    result.stdout.fnmatch_lines(["*handler 'fails': the fixture failed: no service today*"])
    result.stdout.fnmatch_lines(["*handler 'many': the fixture failed: *no parameter defined*"])
    result.stdout.fnmatch_lines(["*handler 'skips': the fixture skipped: not on this machine*"])
    result.stdout.fnmatch_lines(["*handler 'original': no fixture and no function of a conftest.py is called so*"])
    result.stdout.fnmatch_lines(["*'uip_servce'*did you mean 'uip_service'*"])
    result.stdout.fnmatch_lines(["*the fixture's value is no function, but str*"])
    result.stdout.fnmatch_lines(["*uip: handler 'uip_service': ValueError: the secret answer is 42*"])
    records = [json.loads(path.read_text()) for path in repo.path.glob("run/**/record.json")]
    raised = next(record for record in records if record["trial"]["task_id"] == "raises")
    assert [call["argv"] for call in raised["invocations"]["calls"]] == [["a"]]
    assert raised["cause"] == "answers_failed"
    assert {record["cause"] for record in records if record is not raised} == {"configuration"}


def test_a_call_that_nothing_foresees_fails_or_errs_as_the_author_wants(repo: Repo) -> None:
    rules = [{"when": {"verb": "list"}, "stdout": "[]"}]
    recording(repo, "reply", {"responses": rules}, "uip list; uip other")
    recording(repo, "fail", {"responses": rules, "unmatched": "fail"}, "uip list; uip other")
    recording(repo, "fail-known", {"responses": rules, "unmatched": "fail"}, "uip list")
    recording(repo, "error", {"responses": rules, "unmatched": "error"}, "uip list; uip other --x 1")
    result = repo.run("tasks", "-n2", "-v")
    result.assert_outcomes(passed=2, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*calls of uip that no rule, handler or cassette answered*", "*uip other --x 1*"])
    cases = [
        (case.get("classname"), [child.tag for child in case if child.tag != "properties"])
        for case in repo.suite().iter("testcase")
        if case.get("name") == "record_cli-unmatched-uip"
    ]
    assert sorted(cases) == [("tasks.fail-known.yaml.fail-known", []), ("tasks.fail.yaml.fail", ["failure"])]
    assert repo.cases()["error"] == "error"


def test_replies_and_tables_are_never_staged_but_what_an_effect_copies_may_be(repo: Repo) -> None:
    repo.file("tasks/shared/reply.json", '{"answer": "moonbeam"}')
    repo.file("tasks/shared/rules.yaml", "- when: {verb: ask}\n  json_file: reply.json\n")
    repo.file("tasks/shared/project/main.txt", "a project\n")
    repo.file("tasks/shared/staged_answers.py", "def other(call):\n    return 'other'  # moonbeam\n")
    repo.file("conftest.py", "import sys\nsys.path.insert(0, 'tasks/shared')\nfrom staged_answers import other\n")
    recording(
        repo,
        "staged",
        {
            "responses_from": "shared/rules.yaml",
            "responses": [
                {"when": {"verb": "pull"}, "effects": [{"copy": "shared/project", "to": "pulled"}]},
                {"when": {"verb": "named"}, "handler": "other"},
                {"when": {"verb": "imported"}, "handler": "staged_answers:other"},
            ],
        },
        'grep -rl moonbeam . "$HOME" "$TMPDIR" > found.txt; uip ask > out.txt; uip pull; test -s found.txt && exit 1',
        sandbox={"template_sources": [{"type": "template_dir", "path": "shared"}]},
        success_criteria=[
            *contains("moonbeam"),
            {"type": "run_command", "description": "nothing found", "command": "test ! -s found.txt"},
            {"type": "file_exists", "description": "staged", "path": "project/main.txt"},
            {"type": "file_exists", "description": "pulled", "path": "pulled/main.txt"},
            {"type": "run_command", "description": "no rules staged", "command": "test ! -e rules.yaml"},
            {"type": "run_command", "description": "no reply staged", "command": "test ! -e reply.json"},
        ],
    )
    repo.run("tasks").assert_outcomes(passed=1)
    (record,) = repo.path.glob("run/**/record.json")
    assert f"handler: {repo.path}/tasks/shared/staged_answers.py" in json.loads(record.read_text())["material"]


def test_mistakes_in_answers_are_found_before_anything_runs(repo: Repo) -> None:
    repo.file("tasks/rules.yaml", "- when: {verb: list}\n  stdot: typo\n")
    repo.file("tasks/broken.json", "EXIT=0\n{}")
    recording(repo, "table", {"responses_from": "rules.yaml"}, "uip a")
    recording(repo, "missing", {"responses": [{"when": {"verb": "a"}, "stdout_file": "gone.txt"}]}, "uip a")
    recording(repo, "polluted", {"responses": [{"when": {"verb": "a"}, "json_file": "broken.json"}]}, "uip a")
    recording(
        repo,
        "unreachable",
        {"responses": [{"when": {"verb": "a"}}, {"when": {"verb": "a b"}, "stdout": "never"}]},
        "uip a",
    )
    result = repo.run("tasks")
    result.assert_outcomes(errors=4)
    result.stdout.fnmatch_lines(["*rules.yaml:2:*stdot*did you mean 'stdout'*"])
    result.stdout.fnmatch_lines(["*missing.yaml:*gone.txt*there is no such file*"])
    result.stdout.fnmatch_lines(["*polluted.yaml:*broken.json*"])
    result.stdout.fnmatch_lines(["*unreachable.yaml:*never reached*"])


@pytest.mark.usefixtures("without_landlock")
def test_a_suite_recorded_once_from_a_live_tool_runs_offline(repo: Repo, pytester: pytest.Pytester) -> None:
    live = repo.file("live/uip", '#!/bin/sh\necho "live $*"; exit 3\n')
    live.chmod(0o755)
    tool = {"passthrough": True, "record_to": "cassettes/cassette.jsonl", "options": {"a": 1, "b": 1}}
    command = "uip get --a 1 --b 2 > out.txt; test $? = 3"
    repo.file("tasks/check.sh", "grep -q live out.txt\n")
    graded = {"type": "run_command", "description": "graded", "command": "sh $TASK_DIR/check.sh"}
    recording(repo, "t", tool, command, success_criteria=[*contains("live get"), graded])
    of_another_trial = [".cassette.jsonl.lock", ".cassette.jsonl.x1_2.tmp"]
    noise = "; ".join(f"touch '{repo.path}/tasks/cassettes/{name}'" for name in of_another_trial)
    recording(repo, "busy", tool, f"{command} && {{ {noise}; }}", success_criteria=[graded])
    lost = f"uip get > out.txt; rmdir '{repo.path}/tasks/gone'; touch '{repo.path}/tasks/gone'"
    recording(repo, "lost", tool | {"record_to": "gone/c.jsonl"}, lost)
    recording(repo, "nowhere", tool | {"record_to": "check.sh/c.jsonl"}, "touch ran")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{live.parent}:{os.environ['PATH']}")
        result = repo.run("tasks")
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(["*record_to: *gone/c.jsonl: *"])
    result.stdout.fnmatch_lines(["*record_to: *check.sh/c.jsonl: *"])
    records = [json.loads(path.read_text()) for path in repo.path.glob("run/**/record.json")]
    kept = next(record for record in records if record["trial"]["task_id"] == "lost")
    assert [call["argv"] for call in kept["invocations"]["calls"]] == [["get"]]
    assert kept["cause"] == "configuration"
    assert kept["workspace"] is not None
    assert not list(repo.path.glob("run/**/ran"))
    assert len((repo.path / "tasks/cassettes/cassette.jsonl").read_text().splitlines()) == 2
    for name in ("busy", "lost", "nowhere"):
        (repo.path / f"tasks/{name}.yaml").unlink()
    offline = {"replay_from": "cassettes/cassette.jsonl", "unmatched": "fail", "options": {"a": 1, "b": 1}}
    called = CALLED | {"exit_code": 3, "flags": {"a": "1"}}
    recording(repo, "t", offline, "uip get --b 2 --a 1 > out.txt", success_criteria=[*contains("live get"), called])
    repo.run("tasks").assert_outcomes(passed=1)


def test_what_a_reply_does_is_not_done_for_a_caller_who_was_killed(repo: Repo) -> None:
    login = {"when": {"verb": "login"}, "set_state": {"login": "yes"}, "effects": [{"write": "token", "content": "t"}]}
    rules = [login | {"delay": 4}, {"when": {"state": {"login": "yes"}}, "stdout": "logged in"}]
    tool = {"responses": rules, "stdout": "logged out"}
    recording(
        repo,
        "seen",
        tool,
        "timeout 2 uip login; sleep 3; uip get > out.txt; test ! -e token",
        success_criteria=contains("logged out"),
    )
    recording(
        repo, "waited", tool, "uip login; test -e token && uip get > out.txt", success_criteria=contains("logged in")
    )
    repo.run("tasks", "-n2").assert_outcomes(passed=2)


def test_calls_without_an_answer_at_the_end_are_no_calls_that_the_rules_know(repo: Repo) -> None:
    repo.file("tasks/h.py", "import time\n\ndef slow(call):\n    time.sleep(6)\n    return 'ok'\n")
    rules = [{"when": {"verb": "load", "stdin": {"present": True}}, "stdout": "ok"}]
    recording(repo, "reads", {"responses": rules, "unmatched": "fail"}, "sleep 6 | timeout 3 uip load; true")
    queued = "uip one & sleep 1; timeout 3 uip two; true"
    recording(repo, "queued", {"handler": "h.py:slow", "unmatched": "error"}, queued)
    known = [{"when": {"verb": "load"}, "stdout": "ok", "delay": 60}]
    recording(repo, "late", {"responses": known, "unmatched": "fail"}, "timeout 3 uip load; true")
    result = repo.run("tasks", "-n2", "-v")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*1 call was answered by no rule, handler or cassette before the agent ended*"])
    result.stdout.fnmatch_lines(["*calls of uip that no rule, handler or cassette answered*", "  uip *"])


def test_a_handler_is_sought_beside_the_file_that_names_it(repo: Repo) -> None:
    for folder in (".", "shared", "more"):
        repo.file(f"tasks/{folder}/h.py", f"def answer(call):\n    return {folder!r} + ' '\n")
    for folder in ("shared", "more"):
        repo.file(f"tasks/{folder}/rules.yaml", f"- {{when: {{verb: {folder}}}, handler: 'h.py:answer'}}\n")
    tool = {"handler": "h.py:answer", "responses_from": ["shared/rules.yaml", "more"]}
    recording(
        repo,
        "t",
        tool,
        "{ uip shared; uip own; uip more; } > out.txt",
        success_criteria=contains("shared . more"),
    )
    repo.run("tasks").assert_outcomes(passed=1)


def test_what_is_no_plain_function_is_told_before_the_agent_starts(repo: Repo) -> None:
    repo.file("tasks/h.py", "import pytest\n\n@pytest.fixture\ndef fixed():\n    return None\n")
    repo.file("conftest.py", "def generates(call):\n    yield 'x'\n")
    repo.file("tasks/empty.jsonl", "")
    recording(repo, "fixture", {"handler": "h.py:fixed"}, "touch ran")
    recording(repo, "generator", {"responses": [{"when": {"verb": "a"}, "handler": "generates"}]}, "touch ran")
    recording(repo, "cassette", {"replay_from": "empty.jsonl"}, "touch ran")
    result = repo.run("tasks")
    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(["*uip: handler: handler 'h.py:fixed': fixed is a fixture: name it without the file*"])
    result.stdout.fnmatch_lines(["*uip: responses?0?: handler 'generates': a generator; expected a function*"])
    result.stdout.fnmatch_lines(["*uip: replay_from: no call of uip is recorded in *empty.jsonl*"])
    assert not list(repo.path.glob("run/**/ran"))
