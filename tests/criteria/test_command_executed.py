"""command_executed: what ran counts, what was only mentioned, hidden or not understood does not prove anything."""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.criteria import command_executed
from pytest_codereval.criteria.commands.recorded_calls import same_call
from pytest_codereval.criteria.contract import Evidence, Judgement, Verdict
from pytest_codereval.errors import JudgingError
from pytest_codereval.recorder.invocation import Invocation, InvocationLog
from pytest_codereval.recorder.options import Option
from pytest_codereval.sandbox.workspace import Workspace
from pytest_codereval.trajectory.model import ToolCall, Trajectory
from pytest_codereval.trajectory.shell.program import Ran, SimpleCommand

from .build import call, criterion

CORPUS = Path(__file__).resolve().parents[2].parent / "shared" / "corpus"


def bash(command: object, status: str = "success", **more: object) -> ToolCall:
    return call("Bash", status, command=command, **more)


def exited(command: str, exit_status: int) -> ToolCall:
    return dataclasses.replace(bash(command, "success" if exit_status == 0 else "error"), exit_status=exit_status)


def invoked(*calls: tuple[str, int | None], tools: Sequence[str] = (), **log: Any) -> InvocationLog:
    """Recorded calls, each as it is typed and its exit status; `tools` are recorded too."""
    invocations = []
    for number, (text, exit_status) in enumerate(calls, start=1):
        tool, *argv = shlex.split(text)
        invocations.append(Invocation(number, tool, tuple(argv), exit_status=exit_status))
    names = frozenset({*tools, *(invocation.tool for invocation in invocations)})
    return InvocationLog(tuple(invocations), recorded_tools=names, **log)


def evidence(calls: Sequence[ToolCall], log: InvocationLog | None = None) -> Evidence:
    def shell(command: str, *, timeout: float, shims: bool = False) -> Any:
        raise AssertionError("nothing is run")

    return Evidence(Workspace(Path(os.sep)), Trajectory(tuple(calls)), log or InvocationLog(), shell)


def judge(calls: Sequence[ToolCall], log: InvocationLog | None = None, **fields: Any) -> Judgement:
    return command_executed.check(criterion(type="command_executed", **fields), evidence(calls, log))


def live(calls: Sequence[ToolCall], log: InvocationLog | None = None, **fields: Any) -> Verdict | None:
    return command_executed.live_verdict(criterion(type="command_executed", **fields), evidence(calls, log))


def score(commands: str | Sequence[str], log: InvocationLog | None = None, **fields: Any) -> float:
    texts = [commands] if isinstance(commands, str) else commands
    return judge([bash(text) for text in texts], log, **fields).score


GUARD = {"min_count": 0, "max_count": 0}

MENTIONED = {
    "todo": call("TodoWrite", todos=[{"content": "Run uip solution deploy", "status": "pending"}]),
    "grep": call("Grep", pattern="uip solution deploy", path="."),
    "write": call("Write", file_path="NOTES.md", content="Next: uip solution deploy"),
    "task": call("Task", command="uip solution deploy", prompt="uip solution deploy"),
    "unknown tool": call("deploy_tool", note="uip solution deploy"),
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", MENTIONED)
def test_another_tool_that_names_a_command_has_not_run_it(name, recorded):
    log = invoked(tools=["uip"]) if recorded else None
    fields = {"command_pattern": r"uip\s+solution\s+deploy"}
    for success in (False, True):
        assert judge([MENTIONED[name]], log, require_success=success, **fields).score == 0
        assert live([MENTIONED[name]], log, require_success=success, **fields) is None
    assert judge([MENTIONED[name]], log, **GUARD, **fields).score == 1
    assert live([MENTIONED[name]], log, **GUARD, **fields) is None


NOT_RUN = ["echo 'python app.py'", "echo python app.py", "# python app.py", "true || python app.py"]
HIDDEN = ["python app.py 2>&1 | tail -n 5", "python app.py; true"]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("command", NOT_RUN)
@pytest.mark.parametrize("tool", [{}, {"tool_name": "Bash"}])
def test_command_that_a_shell_text_only_names_has_not_run(command, recorded, tool):
    log = invoked(tools=["python"]) if recorded else None
    fields = {"command_pattern": r"python app\.py", **tool}
    for success in (False, True):
        assert score(command, log, require_success=success, **fields) == 0
        assert live([bash(command)], log, require_success=success, **fields) is None
    assert score(command, log, **GUARD, **fields) == 1
    assert live([bash(command)], log, **GUARD, **fields) is None


@pytest.mark.parametrize("command", HIDDEN)
def test_success_behind_the_shell_is_unknown(command):
    fields = {"command_pattern": r"python app\.py", "tool_name": "Bash"}
    assert score(command, **fields) == 1
    assert live([bash(command)], **fields) is Verdict.PASS
    judgement = judge([bash(command)], require_success=True, **fields)
    assert judgement.score == 0
    assert "ran once, success unknown (" in judgement.reason
    assert "record the tool to know" in judgement.reason
    assert live([bash(command)], require_success=True, **fields) is None
    assert score(command, **GUARD, **fields) == 0
    assert score(command, require_success=True, **GUARD, **fields) == 0
    assert live([bash(command)], **GUARD, **fields) is Verdict.FAIL


@pytest.mark.parametrize("command", HIDDEN)
@pytest.mark.parametrize(("exit_status", "passes"), [(0, True), (1, False), (None, False)])
def test_recorded_exit_status_decides_about_success(command, exit_status, passes):
    log = invoked(("python app.py", exit_status))
    fields = {"command_pattern": r"python app\.py", "require_success": True}
    assert score(command, log, **fields) == passes
    assert live([bash(command)], log, **fields) is (Verdict.PASS if passes else None)


@pytest.mark.parametrize(
    ("command", "exit_status", "counts"),
    [
        ("python app.py", 0, True),
        ("python app.py", 1, False),
        ("cd x && python app.py", 0, True),
        ("cd x; python app.py", 0, True),
        ("python app.py && ls", 0, True),
        ("python app.py && ls", 2, False),
        ("python app.py || true", 0, False),
        ("python app.py || exit 1", 0, True),
        ("python app.py &", 0, False),
        ("set -o pipefail; python app.py | tail", 0, True),
        ("set -e\npython app.py\nls", 0, True),
        ("bash -lc 'python app.py'", 0, True),
        ("timeout 5 python app.py", 0, True),
    ],
)
def test_success_belongs_to_the_command(command, exit_status, counts):
    fields = {"command_pattern": r"python app\.py", "require_success": True}
    assert judge([exited(command, exit_status)], **fields).score == counts
    assert live([exited(command, exit_status)], **fields) is (Verdict.PASS if counts else None)


def test_call_in_the_background_has_no_known_success():
    running = bash("python app.py", run_in_background=True)
    assert judge([running], command_pattern="app").score == 1
    assert judge([running], command_pattern="app", require_success=True).score == 0


def test_call_in_error_was_no_success():
    assert judge([bash("python app.py", "error")], command_pattern="app", require_success=True).score == 0
    timed_out = dataclasses.replace(bash("python app.py", "error"), exit_status=0)
    assert judge([timed_out], command_pattern="app", require_success=True).score == 0


@pytest.mark.parametrize(
    ("tool", "parameters", "counts"),
    [
        ("Bash", {"command": "uip run"}, True),
        ("shell", {"command": "uip run"}, True),
        ("exec_command", {"command": ["bash", "-lc", "cd x && uip run"]}, True),
        ("Bash", {"command": ["uip", "run"]}, True),
        ("Bash", {"command": ["echo", "uip run"]}, False),
        ("Bash", {"command": ["uip", 5]}, False),
        ("Bash", {"command": "", "description": "uip run"}, False),
        ("Bash", {"command": "ls", "description": "uip run"}, False),
        ("shell", {"cmd": "uip run"}, False),
        ("SlashCommand", {"command": "uip run"}, False),
        ("str_replace_editor", {"command": "uip run"}, False),
    ],
)
def test_which_tools_are_shells(tool, parameters, counts):
    assert judge([call(tool, **parameters)], command_pattern=r"uip\s+run").score == counts


def test_named_tool_is_searched_in_its_parameters():
    write = call("Write", file_path="é.py", content="x" * 5000 + " the end")
    for pattern in (r'"file_path":\s*"[^"]*\.py', "the end", "é", r"\\u00e9"):
        assert judge([write], command_pattern=pattern, tool_name="Write").score == 1
        assert judge([write], command_pattern=pattern).score == 0
    assert judge([write], command_pattern="end", exclude_pattern="é", tool_name="Write").score == 0
    skill = call("Skill", "error", skill="pdf")
    assert judge([skill], command_pattern=r'"skill":\s*"pdf"', tool_name="Skill").score == 1
    assert judge([skill], command_pattern="pdf", tool_name="Skill", require_success=True).score == 0
    assert judge([skill], command_pattern="pdf", tool_name="Read").score == 0


def test_of_a_shell_that_is_named_only_its_command_counts():
    shell = call("terminal", command="echo 'uip run'", description="uip run")
    assert judge([shell], command_pattern="uip run", tool_name="terminal").score == 0
    assert judge([shell], command_pattern="echo", tool_name="terminal").score == 1
    assert judge([shell], command_pattern="description", tool_name="terminal").score == 0
    log = invoked(("uip run", 0), faults=("the spool was emptied",))
    with pytest.raises(JudgingError, match="the spool was emptied"):
        judge([shell], log, command_pattern="uip run", tool_name="terminal")


@pytest.mark.parametrize(
    ("commands", "pattern", "least"),
    [
        ("node configure a && node configure b", r"node\s+configure", 2),
        ("for x in a b c; do uip get $x; done", r"uip\s+get", 3),
        ("bash -lc 'uip create 1; uip create 2'", r"uip\s+create", 2),
        ("uip say hello <<'EOF'\ntext\nEOF\nuip say again", r"uip\s+say", 2),
    ],
)
def test_each_run_of_one_call_counts(commands, pattern, least):
    assert score(commands, command_pattern=pattern, min_count=least, max_count=least) == 1


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        # an escaped quote of the wrapper is no part of the command
        ('/bin/bash -lc "uip run list \\"slack\\" \\"channels\\""', r'uip\s+run\s+list\s+"?slack"?\s+"?channels'),
        # one command, with the quotes of two agents
        ('uip ask --text "$(cat q.txt)"', r"uip\s+ask\s+--text\s+\S"),
        ("bash -lc 'uip ask --text \"$(cat q.txt)\"'", r"uip\s+ask\s+--text\s+\S"),
        ("uip debug get 'debug-run-042'", r"uip\s+debug\s+get\s+debug-run-042"),
        ('uip publish \\\n  --name "Eval Risk" \\\n  --key K', r"(?=[\s\S]*--key\s+\S)uip\s+publish[^\n]*"),
        ("uip publish --name 'Eval Risk'", r"--name\s+([\"\x27])Eval Risk\1"),
        ("POLICY_ID=0b5; uip policy get $POLICY_ID", r"uip\s+policy\s+get\s+0b5"),
        ("uip policy get \\\n   0b5", r"uip\s+policy\s+get\s+0b5"),
        ('uip create --body \'{\n "name": "x"\n}\'', r'(?s)uip\s+create.*\\?"name\\?"'),
        ("$UIP agent validate", r"(?:uip|\$UIP)\s+agent\s+validate\b"),
        ("UIP=/opt/uip; $UIP agent validate", r"(?:uip|\$UIP)\s+agent\s+validate\b"),
        ("cat > /tmp/p/a.json <<'EOF'\n{}\nEOF", r"cat\s*>\s*/tmp/p/[^\s]+\.json\s*<<\s*['\"]?[A-Z]+['\"]?"),
        ("python3 -c \"import a; ET.parse('R.bpmn')\"", r"python3?\s+-c\s+[\s\S]*ET\.parse\([\s\S]*R\.bpmn"),
        ("python3 -c \"import a; ET.parse('R.bpmn')\"", r"(ET\.parse\(|uip validate)"),
        ("python3 - <<'EOF'\nET.parse('R.bpmn')\nEOF", r"(ET\.parse\(|uip validate)"),
        ("cat f | uip import --file -", r"uip\s+import(?:[^&;|\n]|\\\n)*--file"),
        ("uip update <<'EOF'\n{\"id\": 1}\nEOF", r'uip\s+update[\s\S]*"id"'),
        ("bash -lc 'uip validate X --output json && uip format X'", r"uip\s+validate.*&&.*uip\s+format"),
        ("uip list | jq .", r"uip\s+list\s*\|\s*jq"),
        ("uip init\nuip pack", r"uip init\nuip pack"),
        ("env A=1 nohup uip run", r"nohup\s+uip\s+run"),
    ],
)
def test_commands_that_patterns_of_real_suites_must_find(command, pattern):
    assert score(command, command_pattern=pattern) == 1
    assert live([bash(command)], command_pattern=pattern) in (Verdict.PASS, None)
    assert score(command, command_pattern=pattern, **GUARD) == 0


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("uip deploy --name a && uip list --folder-key k", r"uip\s+deploy.*--folder-key"),
        ("uip init; ls --output json", r"(?=[\s\S]*--output\s+json)uip\s+init"),
        ("uip validate X; uip format X", r"uip\s+validate.*&&.*uip\s+format"),
        ("echo 'uip validate && uip format'; ls && pwd", r"uip\s+validate.*&&.*uip\s+format"),
        ("true || uip a && uip b", r"uip a && uip b"),
        ("cat > run.sh <<'EOF'\nuip deploy\nEOF", r"uip\s+deploy"),
        ("grep -rn 'uip deploy' .", r"uip\s+deploy"),
        ("ls # then uip deploy", r"uip\s+deploy"),
        ("if false; then uip deploy; fi", r"uip\s+deploy"),
    ],
)
def test_commands_that_no_pattern_finds(command, pattern):
    for success in (False, True):
        assert score(command, command_pattern=pattern, require_success=success) == 0
    assert live([bash(command)], command_pattern=pattern) is None
    assert score(command, command_pattern=pattern, **GUARD) == 1


def test_exclude_pattern_is_about_the_same_command():
    fields = {"command_pattern": r"uip\s+run", "exclude_pattern": "--help"}
    assert score("uip run --help", **fields) == 0
    assert score("uip run --help && uip run x", **fields) == 1
    assert score("ls --help && uip run x", **fields) == 1
    assert score("uip run --text 'no' | grep -- --help", **fields) == 1
    assert score("uip run --help", **fields, **GUARD) == 1
    log = invoked(("uip run --help", 0), ("uip run", 0))
    assert score("uip run --help; uip run", log, min_count=1, max_count=1, **fields) == 1


UNPARSED = "if then ( uip delete x"


def test_text_that_is_not_understood_proves_nothing_but_may_break_a_guard():
    fields = {"command_pattern": r"uip\s+delete"}
    judgement = judge([bash(UNPARSED)], **fields, **GUARD)
    assert judgement.score == 0
    assert "unproven" in judgement.reason + judgement.details
    assert score(UNPARSED, **fields) == 1
    assert score(UNPARSED, require_success=True, **fields) == 0
    assert live([bash(UNPARSED)], **fields) is None
    assert live([bash(UNPARSED)], **fields, **GUARD) is None
    assert score(UNPARSED, exclude_pattern="x", **fields, **GUARD) == 1
    facets = {"command": {"tool": "uip", "verb": "delete"}}
    assert score(UNPARSED, **facets, **GUARD) == 0
    assert score(UNPARSED, **facets) == 0


def test_code_of_an_interpreter_may_break_a_guard_and_proves_nothing():
    command = "python -c \"import os; os.system('uip delete x')\""
    for fields in ({"command_pattern": r"uip\s+delete"}, {"command": {"tool": "uip", "verb": "delete"}}):
        assert score(command, **fields) == 0
        assert score(command, **fields, **GUARD) == 0
        assert live([bash(command)], **fields, **GUARD) is None
        assert score(command, invoked(tools=["uip"]), **fields, **GUARD) == 1


@pytest.mark.parametrize("command", ["ssh host 'uip delete x'", "tmux send-keys 'uip delete x' Enter"])
def test_command_line_in_an_argument_of_another_program_is_not_proven(command):
    fields = {"command_pattern": r"uip\s+delete"}
    assert score(command, **fields) == 1
    assert score(command, require_success=True, **fields) == 0
    assert score(command, **fields, **GUARD) == 0
    assert live([bash(command)], **fields) is None
    assert live([bash(command)], **fields, **GUARD) is None
    assert score(command, invoked(tools=["uip"]), **fields, **GUARD) == 1
    body = 'uip create --body \'{"operator": "in"}\''
    assert score(body, command_pattern=r'"operator"\s*:\s*"in"', require_success=True) == 1


def test_what_may_not_have_run_counts_without_success_only():
    command = "test -f x && uip delete x"
    fields = {"command_pattern": r"uip\s+delete"}
    unknown = bash(command, "unknown")
    assert judge([unknown], **fields).score == 1
    assert "perhaps not run" in judge([unknown], **fields).details
    assert judge([unknown], require_success=True, **fields).score == 0
    assert judge([unknown], **fields, **GUARD).score == 0
    assert live([unknown], **fields) is None
    assert live([unknown], **fields, **GUARD) is None


def test_recorded_calls_decide_and_the_transcript_explains():
    fields = {"command_pattern": r"uip\s+delete"}
    hidden = [bash("./cleanup.sh")]
    assert judge(hidden, invoked(("uip delete x", 0)), **fields).score == 1
    assert judge(hidden, invoked(("uip delete x", 0)), **fields, **GUARD).score == 0
    assert live(hidden, invoked(("uip delete x", 0)), **fields, **GUARD) is Verdict.FAIL
    claimed = judge([bash("uip delete x")], invoked(("uip list", 0)), **fields)
    assert claimed.score == 0
    assert "the recorder saw no such call of uip" in claimed.details
    both = judge([bash("uip delete x")], invoked(("uip delete x", 0)), min_count=1, max_count=1, **fields)
    assert both.score == 1
    assert "recorded call 1 [exit 0] uip delete x" in both.details
    assert score("git push", invoked(tools=["uip"]), command_pattern="git push") == 1
    assert judge([bash("uip delete x")], invoked(("uip delete x", 0)), tool_name="Read", **fields).score == 0


@pytest.mark.parametrize(
    ("typed", "argv", "pattern"),
    [
        ('uip create --name "Eval Risk"', ("create", "--name", "Eval Risk"), r"--name\s+([\"'])Eval Risk\1"),
        ("uip create --name Eval\\ Risk", ("create", "--name", "Eval Risk"), r'--name\s+"Eval Risk"'),
        ('"$UIP" agent validate', ("agent", "validate"), r"\$UIP\"?\s+agent\s+validate"),
        ("uip get $ID", ("get", "7"), r"uip\s+get\s+\$ID"),
        ("timeout 9 uip get", ("get",), r"timeout\s+\d+\s+uip"),
        ("uip get > out.json", ("get",), r"uip\s+get\s*>\s*out\.json"),
        ("uip a --x && uip b", ("b",), r"uip a --x\s*&&\s*uip b"),
    ],
)
def test_spelling_of_the_transcript_serves_a_recorded_call(typed, argv, pattern):
    calls = [Invocation(1, "uip", argv, exit_status=0), Invocation(2, "uip", ("a", "--x"), exit_status=0)]
    log = InvocationLog(tuple(calls), recorded_tools=frozenset({"uip"}))
    assert judge([bash(typed)], log, command_pattern=pattern, min_count=1, max_count=1).score == 1
    nothing = InvocationLog((), recorded_tools=frozenset({"uip"}))
    assert judge([bash(typed.replace("$UIP", "uip"))], nothing, command_pattern=pattern).score == 0


def test_value_that_the_transcript_hides_is_in_the_recorded_call():
    typed = 'uip create --name "$(cat name.txt)" --key K'
    log = invoked(("uip create --name Alpha --key K", 0))
    assert score(typed, command_pattern=r"uip\s+create(?=.*--key)(?=.*Alpha)") == 0
    assert score(typed, log, command_pattern=r"uip\s+create(?=.*--key)(?=.*Alpha)", require_success=True) == 1


def test_advisory_guard_never_fails_early():
    fields = {"command_pattern": "rm", **GUARD}
    assert live([bash("rm x")], pass_threshold=0.0, **fields) is None
    assert live([bash("rm x")], **fields) is Verdict.FAIL


def test_earlier_attempts_do_not_count():
    calls = (bash("uip run"), dataclasses.replace(bash("ls"), attempt=2))
    seen = dataclasses.replace(evidence([]), trajectory=Trajectory(calls, attempt=2))
    model = criterion(type="command_executed", command_pattern="uip run")
    assert command_executed.check(model, seen).score == 0
    assert command_executed.live_verdict(model, seen) is None


def test_call_that_went_past_the_recorder_breaks_a_guard_only():
    fields = {"command_pattern": r"uip\s+delete"}
    command = "/opt/bin/uip delete x"
    judgement = judge([bash(command)], invoked(tools=["uip"]), **fields, **GUARD)
    assert judgement.score == 0
    assert "went past the recorder of uip" in judgement.details
    assert score(command, invoked(tools=["uip"]), **fields) == 0
    assert live([bash(command)], invoked(tools=["uip"]), **fields, **GUARD) is None
    assert score(command, invoked(("uip delete x", 0)), min_count=1, max_count=1, **fields) == 1


def test_words_around_a_recorded_tool_do_not_count_twice():
    log = invoked(("uip delete x", 0))
    failed = invoked(("uip delete x", 1))
    for command in ("my-wrapper uip delete x", "npx uip delete x", "find . -exec uip delete x {} +"):
        for pattern in (r"delete\s+x", r"(?=.*x).*uip\s+delete", r"uip\s+delete"):
            assert score(command, log, command_pattern=pattern, min_count=1, max_count=1) == 1
            assert score(command, failed, command_pattern=pattern, require_success=True) == 0
    for command in ("my-wrapper uip delete x", "$RUN delete x", "git commit -m 'uip delete x'; uip delete x"):
        assert score(command, log, command_pattern=r"(uip|\$RUN)\s+delete", min_count=1, max_count=1) == 1


BORDERED = [r"uip\s+df\s+", r"uip\s+df[\"'\s]", r"[\s\"']uip\s+df", r"(?:^|\s)uip\s+df(?:\s|$)"]
MENTIONS = [
    'grep -rn "uip df" docs/',
    "echo 'uip df'",
    "echo uip df",
    'echo uip df"x"',
    'git commit -m "uip df"',
    "cat > notes.md <<'EOF'\nuip df\nEOF",
    'export MSG="uip df"',
    "grep -c x <<< 'uip df'",
]


@pytest.mark.parametrize("command", MENTIONS)
@pytest.mark.parametrize("pattern", BORDERED)
def test_pattern_that_asks_for_what_stands_around_the_words_finds_no_more_mentions(command, pattern):
    assert score(command, command_pattern=pattern) == 0
    assert score(command, command_pattern=pattern, **GUARD) == 1
    assert score(f"{command}\nuip df get", command_pattern=r"uip\s+df\s", min_count=1, max_count=1) == 1


@pytest.mark.parametrize(
    ("command", "pattern", "counts"),
    [
        ("rg npm test/", r"npm\s+test", False),
        ("grep -rn npm test/ | head", r"npm\s+test\b", False),
        ("git -C x grep -n uip is docs", r"uip\s+is\s+", False),
        ("ls node_modules/.bin/uip deploy.sh", r"uip\s+deploy", False),
        ("set -- python app.py", r"python\s+app\.py", False),
        ("find npm test -name x", r"npm\s+test", False),
        ("find npm test -exec cat {} +", r"cat\b", True),
        ("grep -n foo main.flow", r"\.flow", True),
        ("grep -n foo main.flow", r".*\.flow", True),
        ("rg foo SKILL.md", r"rg\s+foo", True),
        ("rg foo x > out.json", r">\s*out\.json", True),
        ("cd '/my dir' && ls", r"/my dir", True),
        ("touch 'uip deploy'", r"uip\s+deploy", False),
        ("echo uip 'deploy'", r"uip\s+'deploy'", False),
        ("echo uip 'deploy' > out.json", r">\s*out\.json", True),
    ],
)
def test_several_words_that_a_program_searches_are_a_mention(command, pattern, counts):
    assert score(command, command_pattern=pattern) == counts
    assert score(command, command_pattern=pattern, **GUARD) == (not counts)


@pytest.mark.parametrize(
    ("command", "counts", "guarded"),
    [
        ('python3 parse.py "$(uip df)"', 1, False),
        ("python3 -c '# uip df\nprint(1)'", 0, True),
        ("node -e 'x = 1 // uip df\n/* uip df */'", 0, True),
        ("python3 -c 'x = 7 // 2; uip df'", 1, False),
        ("python3 -m json.tool <<E\nuip df\nE", 0, True),
        ("python3 script.py <<E\nuip df\nE", 0, True),
        ("python3 - <<E\nuip df\nE", 1, False),
        ('python3 - <<E\nx = "it\'s uip df"\nE', 0, False),
    ],
)
def test_what_of_the_text_of_an_interpreter_is_code(command, counts, guarded):
    assert score(command, command_pattern=r"uip\s+df", min_count=1) == counts
    assert score(command, command_pattern=r"uip\s+df", **GUARD) == guarded
    assert score(command, command_pattern=r"uip\s+df", min_count=2) < 1


def test_quotes_that_nobody_closes_take_no_longer():
    for quotes in ("'\\\\", "it's ", '"""', "`a ", "/* "):
        for program in ("python3", "node"):
            score(f"{program} - <<'E'\n{quotes * 20000}\nuip deploy\nE", command_pattern=r"uip\s+deploy")


def test_code_that_names_a_recorded_tool_by_its_path_breaks_a_guard_only():
    log = invoked(tools=["seq"])
    for command in (
        "perl -e 'system(\"/usr/bin/seq 3\")'",
        "python3 - <<E\nimport subprocess; subprocess.run(['/usr/bin/seq', '3'])\nE",
        "awk 'BEGIN{system(\"/usr/bin/seq 3\")}'",
    ):
        for fields in ({"command_pattern": r"seq\s+3"}, {"command": {"tool": "seq", "verb": "3"}}):
            assert score(command, log, **fields) == 0
            assert score(command, log, **fields, **GUARD) == 0
            assert live([bash(command)], log, **fields, **GUARD) is None
        assert score(command, log, command_pattern=r"seq\s+4", **GUARD) == 1


def test_a_command_that_certainly_ran_and_was_not_recorded_breaks_a_guard_only():
    log = invoked(tools=["uip"])
    for command in ("source v/bin/activate && uip df", "sudo uip df", "npx uip df", "$UIP df", "$HOME/bin/uip df"):
        fields = {"command_pattern": r"(uip|\$UIP)\s+df"}
        assert score(command, log, **fields) == 0
        judgement = judge([bash(command)], log, **fields, **GUARD)
        assert (judgement.score, "the recorder" in judgement.details) == (0, True)
        assert live([bash(command)], log, **fields, **GUARD) is None
    own = {"command_pattern": r"uip\s+df", "require_success": True}
    assert score("./tools/uip df", log, **own) == 1
    assert score("if ( /usr/bin/uip df", log, command_pattern=r"uip\s+df", **GUARD) == 0
    assert score("if ( uip df", log, command_pattern=r"uip\s+df", **GUARD) == 1
    unsure = judge([bash("test -f x && uip df || true")], log, command_pattern=r"uip\s+df", **GUARD)
    assert (unsure.score, unsure.note) == (1, "the recorder saw no such call of uip: uip df")


def test_one_recorded_call_stands_for_one_command():
    asked = {"command_pattern": r"uip\s+get\s+\$ID"}
    two = invoked(("uip get 42", 0), ("uip get 43", 1))
    assert score("uip get $ID", two, min_count=1, max_count=1, **asked) == 1
    assert score("uip get $ID", two, require_success=True, **asked) == 0
    assert score("uip get $ID; uip get $ID", two, min_count=2, max_count=2, **asked) == 1
    assert score("uip get $ID; uip get $ID", two, min_count=1, require_success=True, **asked) == 1
    assert score("for ID in $(cat ids); do uip get $ID; done", two, min_count=2, **asked) == 1
    same = invoked(("uip get x", 1), ("uip get x", 0), ("uip get x", 0))
    written = {"command_pattern": r">\s*out\.json"}
    assert score("uip get x > out.json; uip get x", same, min_count=1, max_count=1, **written) == 1
    once = invoked(("uip get x", 0))
    assert score(["uip get x", "/bin/uip get x", "/bin/uip get x"], once, command_pattern="uip get", max_count=1) == 0


def test_a_variable_is_no_call_of_another_tool():
    asked = {"command_pattern": r"\$UIP\s+init"}
    for log in (invoked(("git init", 0), tools=["uip"]), invoked(("git init", 0))):
        assert score("$UIP init", log, require_success=True, **asked) == 0
        assert live([bash("$UIP init")], log, **asked) is None
    log = invoked(("git init", 0), ("uip init", 0))
    assert score("git init; $UIP init", log, min_count=1, max_count=1, require_success=True, **asked) == 1
    assert score("git init; uip init; $UIP init", log, require_success=True, **asked) == 0


def test_what_may_have_run_more_often_meets_no_upper_bound():
    command = "while read x; do uip get $x; done < ids.txt"
    fields = {"command_pattern": r"uip\s+get"}
    assert score(command, min_count=1, **fields) == 1
    judgement = judge([bash(command)], min_count=0, max_count=50, **fields)
    assert (judgement.score, "may have run more often" in judgement.reason) == (0, True)


UNKNOWN: list[tuple[str, dict[str, Any], bool]] = [
    ("uip $V", {"verb": "delete"}, False),
    ("uip $V delete", {"verb": "delete"}, False),
    ("uip delete $V", {"verb": "delete"}, True),
    ("uip delete $V", {"verb": "delete", "positional": ["$V"]}, False),
    ("uip delete --env $E", {"verb": "delete", "flags": {"env": "prod"}}, False),
    ("uip delete --env=$E", {"verb": "delete", "flags": {"env": {"matches_regex": "."}}}, False),
    ("uip delete --env $E", {"verb": "delete", "flags": {"env": {"present": True}}}, True),
    ("uip delete $X --env prod", {"verb": "delete", "flags": {"env": "prod"}}, True),
    ("uip delete $X", {"verb": "delete", "flags": {"force": {"absent": True}}}, False),
    ("uip delete $X", {"verb": "delete", "flags": {"force": {"present": True}}}, False),
]


@pytest.mark.parametrize(("command", "facets", "matches"), UNKNOWN)
def test_words_that_are_not_known_prove_nothing_and_may_break_a_guard(command, facets, matches):
    asked = {"tool": "uip", **facets}
    assert score(command, command=asked) == matches
    assert score(command, command=asked, require_success=True) == matches
    assert live([bash(command)], command=asked) is (Verdict.PASS if matches else None)
    assert score(command, command=asked, **GUARD) == 0
    assert matches or "unknown: " in judge([bash(command)], command=asked).details


def test_words_that_are_known_may_rule_a_command_out():
    for command in ("uip list $V", "uip delete --force $V", "uip list delete"):
        facets = {"tool": "uip", "verb": "delete", "flags": {"force": {"absent": True}}}
        assert score(command, command=facets, **GUARD) == 1
    told = judge([bash("uip delete --force $V")], command={**facets, "positional": ["x"]})
    assert "positional 1: expected 'x', unknown: $V" in told.details


@pytest.mark.parametrize(
    "command", ["ssh h 'cd x && uip delete y'", "docker exec c uip delete y", "my-runner 'uip delete $Y'"]
)
def test_facets_are_found_in_what_another_program_runs(command):
    asked = {"tool": "uip", "verb": "delete"}
    assert score(command, command=asked) == 1
    assert score(command, command=asked, require_success=True) == 0
    assert score(command, command=asked, **GUARD) == 0
    assert live([bash(command)], command=asked) is None
    assert score(command, command={**asked, "verb": "list"}, **GUARD) == 1
    assert score("git add uip delete", command=asked, **GUARD) == 1
    for another in ("python -m uip delete y", "doppler run -- uip delete y", '"${UIP:-uip}" delete y'):
        assert score(another, command=asked, **GUARD) == 0
        assert score(another, command=asked, require_success=True) == 0


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ('cd "$(pwd)" && uip deploy', 1),
        ("X=a; cd $X && uip deploy", 1),
        ("(cd a && uip deploy); (cd b && uip deploy)", 2),
        ("cd a && uip deploy && cd b && uip deploy", 2),
        ("cd a && ls; uip deploy", 0),
        ("cd a; uip deploy", 0),
    ],
)
def test_patterns_across_operators(command, count):
    pattern = r"cd\s+\S+\s*&&\s*uip\s+deploy"
    assert score(command, command_pattern=pattern, min_count=count, max_count=count) == 1


def test_a_pass_that_rests_on_what_is_not_proven_says_so():
    judgement = judge([bash("ssh host 'uip df'")], command_pattern="uip df")
    assert judgement.note == "passes by what is not proven: ssh host 'uip df' (in an argument of another program)"
    assert judge([bash("uip df")], command_pattern="uip df").note == ""


def test_builtin_of_shells_is_judged_by_the_transcript():
    log = invoked(("printf b", 0), builtin_tools=frozenset({"printf"}))
    assert score("printf a", log, command_pattern="printf a") == 1
    assert score("printf a", log, command_pattern="printf b") == 0


def test_lost_records_are_an_error():
    log = invoked(tools=["uip"], faults=("the spool was emptied",))
    with pytest.raises(JudgingError, match="the spool was emptied"):
        judge([bash("ls")], log, command_pattern="ls")
    assert live([bash("ls")], log, command_pattern="ls") is None
    assert judge([bash("ls")], log).score == 1


FACETS: list[tuple[str, dict[str, Any], bool]] = [
    ("uip solution deploy --name a", {"verb": "solution deploy"}, True),
    ("uip --output json solution deploy", {"verb": "solution deploy"}, True),
    ("cd x && /usr/bin/uip solution 'deploy'", {"verb": "solution deploy"}, True),
    ("uip deploy -n a --folder-key k", {"verb": "deploy", "flags": {"folder-key": "k", "n": "a"}}, True),
    ("uip deploy --folder-key k -n a", {"verb": "deploy", "flags": {"folder-key": "k", "n": "a"}}, True),
    ("uip deploy --folder-key", {"flags": {"folder-key": {"absent": True}}}, False),
    ("uip packages", {"verb": "pack"}, False),
    ("uipx deploy", {"verb": "deploy"}, False),
    ("echo uip deploy", {"verb": "deploy"}, False),
    ("uip get 'a b'", {"positional": ["a b"], "verb": "get"}, True),
    ("$UIP deploy", {"verb": "deploy"}, True),
    ("$HOME/bin/uip deploy", {"verb": "deploy"}, True),
    ("$OTHER deploy", {"verb": "deploy"}, False),
    ("true", {"verb": "deploy"}, False),
]


@pytest.mark.parametrize(("command", "facets", "matches"), FACETS)
def test_facets_of_a_command(command, facets, matches):
    asked = {"tool": "uip", **facets}
    assert score(command, command=asked) == matches
    assert score(command, command=asked, **GUARD) == (not matches)


def test_facets_of_recorded_calls_use_the_options_of_the_tool():
    options = {"uip": (Option(("output", "o"), 1), Option(("yes", "y"), 0))}
    log = invoked(("uip -o json deploy -y now", 1), options=options)
    asked = {"tool": "uip", "verb": "deploy", "positional": ["now"], "flags": {"yes": {"present": True}}}
    assert score("./run.sh", log, command=asked) == 1
    assert score("./run.sh", log, command=asked, require_success=True) == 0
    assert score("uip -o json deploy -y now", log, command={**asked, "tool": "other"}) == 0
    missed = judge([bash("uip deploy later")], command=asked)
    assert "uip deploy later  <- positional 1: expected 'now', got 'later'" in missed.details
    recorded = judge([], invoked(("uip deploy later", 0)), command=asked)
    assert "recorded call 1: uip deploy later  <- positional 1: expected 'now', got 'later'" in recorded.details


def test_details_tell_why_something_does_not_count():
    calls = [
        bash("echo 'uip run a'"),
        bash("true || uip run b"),
        bash("uip run c | tee log"),
        bash("uip run d --help"),
        bash("uip run e", "error"),
    ]
    judgement = judge(calls, command_pattern=r"uip\s+run", exclude_pattern="--help", require_success=True)
    assert judgement.score == 0
    for text in ("only mentioned", "not run", "success unknown: pipe", "excluded", "failed"):
        assert text in judgement.details
    assert "ran once, success unknown (pipe); record the tool to know" in judgement.reason
    nothing = judge(calls, command_pattern="nothing")
    assert nothing.details.startswith("no call matches; the calls were:")
    assert judge([], command_pattern="x").details == "the agent called no tool"


def test_hostile_texts_are_shown_in_few_characters():
    calls = [bash(f"git {n} '{'x' * 5000}'\n" + "\x1b[2J") for n in range(50)]
    judgement = judge(calls, command_pattern="git")
    assert "50 matching commands" in judgement.reason
    assert "and 40 more" in judgement.details
    assert len(judgement.details) < 5000


COMMANDS = [
    "uip run a",
    "uip run a && uip run b",
    "uip run a | tail",
    "uip run a; true",
    "echo 'uip run a'",
    "true || uip run a",
    "$UIP run a",
    "if then ( uip run a",
    "/opt/uip run a",
    "python -c \"os.system('uip run a')\"",
    "test -f x && uip run --help",
    "my-wrapper uip run a",
    "uip run a &&\\\n uip list",
    "uip run $X",
    "sudo uip run a",
    "$OTHER run a",
    "while read x; do uip run $x; done < f",
    "./uip run a; uip run *.txt",
    "python -c \"os.system('/bin/uip run a')\"",
]
INVOCATIONS = ["uip run a", "uip run b", "uip run --help", "uip list", "git uip run"]
CRITERIA: list[dict[str, Any]] = [
    {"command_pattern": r"uip\s+run"},
    {"command_pattern": r"(uip|\$UIP)\s+run", "min_count": 2, "exclude_pattern": "--help"},
    {"command_pattern": r"uip\s+run", "require_success": True},
    {"command_pattern": r"\$UIP\s+run|uip run a &&\s+uip"},
    {"command_pattern": r"uip\s+run.*&&.*uip"},
    {"command": {"tool": "uip", "verb": "run"}, "min_count": 2},
    {"tool_name": "Bash", "min_count": 3},
    {"exclude_pattern": "echo"},
]

events = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(COMMANDS), st.sampled_from(["success", "error", "unknown"])),
        st.tuples(st.sampled_from(INVOCATIONS), st.sampled_from([0, 1, None])),
    ),
    max_size=7,
)


def prefixes(happened: Sequence[tuple[str, Any]], recorded: bool) -> Iterator[Evidence]:
    """The evidence after each event: a tool call, or a recorded call, which carries an exit status."""
    calls: list[ToolCall] = []
    typed: list[tuple[str, int | None]] = []
    for text, how in (("", ""), *happened):
        if isinstance(how, str) and text:
            calls.append(bash(text, how))
        elif text and recorded:
            typed.append((text, how))
        yield evidence(calls, invoked(*typed, tools=["uip"]) if recorded else None)


@settings(max_examples=60, deadline=None)
@given(events, st.booleans(), st.sampled_from(CRITERIA), st.sampled_from([{}, {"max_count": 2}, GUARD]))
def test_live_verdict_never_turns_and_agrees_with_the_final_one(happened, recorded, asked, bounds):
    fields = {**asked, **bounds}
    if fields.get("max_count") == 2:
        fields["min_count"] = 1
    model = criterion(type="command_executed", **fields)
    every = list(prefixes(happened, recorded))
    verdicts = [command_executed.live_verdict(model, so_far) for so_far in every]
    decided = list(itertools.dropwhile(lambda verdict: verdict is None, verdicts))
    assert len(set(decided)) <= 1
    if decided:
        final = command_executed.check(model, every[-1]).score
        assert decided[0] is (Verdict.PASS if final >= 1 else Verdict.FAIL)
        assert decided[0] is (Verdict.FAIL if model.max_count is not None else Verdict.PASS)


words = st.lists(st.sampled_from(["a", "b", "$X", ""]), max_size=6)


@given(words, words)
def test_words_that_are_known_must_be_the_arguments(typed, argv):
    command = SimpleCommand(
        raw="",
        words=("t", *typed),
        known=(True, *(word != "$X" for word in typed)),
        prefixed=(),
        ran=Ran.YES,
        succeeded=None,
    )
    joined = "".join(f"<{word}>" for word in argv)
    pattern = "".join("(<[^>]*>)*" if word == "$X" else f"<{word}>" for word in typed)
    assert same_call(command, Invocation(1, "t", tuple(argv))) == bool(re.fullmatch(pattern, joined))
    assert not same_call(command, Invocation(1, "u", tuple(argv)))


def patterns_of_the_corpus() -> list[Mapping[str, Any]]:
    found = []
    for path in sorted(CORPUS.rglob("*.y*ml")):
        text = path.read_text(encoding="utf-8")
        if "command_pattern" not in text:
            continue
        for item in (yaml.safe_load(text) or {}).get("success_criteria") or ():
            if item.get("type") == "command_executed" and item.get("command_pattern"):
                found.append(item)
    return found


SHELL_TEXTS = [
    "uip solution deploy --name x --folder-key k --output json",
    "cd /tmp && export UIP=uip; $UIP maestro flow validate X.flow --output json 2>&1 | tail -5",
    'bash -lc "uip df records query E --body \'{\\"filterGroup\\": {}}\'"',
    'cat > a.json <<\'EOF\'\n{"name": "x"}\nEOF\nuip df entities create E --file a.json',
    "for i in 1 2 3; do uip tm wait --execution-id $i --timeout 9 --output json || break; done",
    "python3 -c \"import xml.etree.ElementTree as ET; ET.parse('x.bpmn')\"",
    "echo 'unterminated",
    "",
]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus here")
def test_every_pattern_of_real_suites_can_be_judged():
    items = patterns_of_the_corpus()
    assert len(items) > 500
    chosen = random.Random(3).sample(items, 60)
    calls = [bash(text) for text in SHELL_TEXTS]
    log = invoked(("uip solution deploy --name x", 0), ("uip tm wait --execution-id 1", 1))
    for item in chosen:
        fields = {name: item[name] for name in item if name not in ("type", "suite_thresholds")}
        for recorded in (None, log):
            assert 0 <= judge(calls, recorded, **fields).score <= 1
            live(calls, recorded, **fields)
