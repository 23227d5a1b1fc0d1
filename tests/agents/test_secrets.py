"""The key of a model's provider: an agent cannot see it, and one that got hold of it cannot make it show."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval import redaction
from pytest_codereval.sandbox.snapshot import snapshot
from pytest_codereval.text import head, shorten, tail

from ..fakes import call, fault, repeat, say
from ..plugin.conftest import Repo
from .live_run import PROGRAMS, WITHOUT_LANDLOCK, Program

KEY = "sk-test-SECRET/0123456789+abcdefghij"
OTHER_KEY = "other-SECRET-9876543210-zyxwvu"

LOOK = """
import glob, json, os, subprocess, sys

def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(5_000_000).decode("latin-1")
    except OSError:
        return ""

def output(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE).stdout.decode("latin-1")

home = os.environ["HOME"]
places = (os.path.dirname(home), home, os.environ["TMPDIR"], os.getcwd())
files = {os.path.join(folder, name) for place in places for folder, _, names in os.walk(place) for name in names}
seen = {
    "env": output("env") + read("/proc/self/environ"),
    "ps": output("ps", "axww"),
    "arguments": [read(f"{folder}/cmdline") for folder in glob.glob("/proc/[0-9]*")],
    "environments": {read(f"{folder}/cmdline"): read(f"{folder}/environ") for folder in glob.glob("/proc/[0-9]*")},
    "files": {path: read(path) for path in files if os.path.isfile(path)},
}
with open(sys.argv[1], "w") as file:
    json.dump(seen, file)
print(seen["env"])
"""

TELL = """
echo "it is $(cat {key})"; base64 -w0 {key}; printf 'Authorization: Basic '; printf "me:$(cat {key})" | base64 -w0
cat {key} >&2; cp {key} got.txt; cp {key} "$(cat {key} | tr / _)"
relctl login --key "$(cat {key})" "Authorization: Bearer, in a text that is longer than what is shown, $(cat {key})"
"""

CRITERIA: list[dict[str, Any]] = [
    {"type": "file_matches_regex", "path": "got.txt", "pattern": r"\Ask-test-SECRET/[0-9]{10}\+[a-j]{10}\Z"},
    {"type": "run_command", "command": "sha256sum got.txt; cat got.txt; cat got.txt >&2; cmp got.txt {key}"},
    {"type": "cli_called", "tool": "relctl", "verb": "login", "flags": {"key": {"matches_regex": "^sk-test.*j$"}}},
    {"type": "cli_called", "tool": "relctl", "verb": "logout"},
    {"type": "run_command", "command": "cat got.txt got.txt; exit 3"},
    {"type": "json_check", "path": "got.txt", "assertions": [{"expression": "a", "operator": "equals", "expected": 1}]},
]


def written(key: str) -> Iterator[bytes]:
    """The key, and most of it, as it may be written."""
    yield key[2:-2].encode()
    yield key[:18].encode()
    yield base64.b64encode(key.encode())[4:-4]
    yield base64.b64encode(f"me:{key}".encode())[8:-4]


def leaks(folder: Path, *secrets: str, but: tuple[str, ...] = ()) -> list[str]:
    """Files below `folder` whose name or content shows a secret."""
    found = []
    for path in folder.rglob("*"):
        shown = str(path).encode() + (path.read_bytes() if path.is_file() else b"")
        if path.name not in but and any(form in shown for secret in secrets for form in written(secret)):
            found.append(str(path))
    return found


def stage(repo: Repo, program: Program, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A task whose agent looks around and then tells the key, which lies in a file; what its model says."""
    program.need(monkeypatch)
    monkeypatch.setenv("OPENAI_API_KEY", OTHER_KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", OTHER_KEY)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    key = repo.path / "key"
    key.write_text(KEY, encoding="utf-8")
    repo.file("look.py", LOOK)
    repo.file("conftest.py", WITHOUT_LANDLOCK)
    criteria = [
        {name: value.replace("{key}", str(key)) if isinstance(value, str) else value for name, value in each.items()}
        | {"description": f"number {number}"}
        for number, each in enumerate(CRITERIA)
    ]
    block = dict(program.block)
    repo.task(
        "a-tells", agent=block, success_criteria=criteria, sandbox={"record_cli": [{"tool": "relctl", "stdout": "ok"}]}
    )
    look = f"{sys.executable} {repo.path}/look.py {repo.path}/seen.json"
    return [
        call("Bash", command=look),
        call("Bash", command=TELL.format(key=key)),
        say(f"It is {KEY}, or {base64.b64encode(KEY.encode()).decode()}, and not {OTHER_KEY}."),
    ]


@pytest.fixture
def repo(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Repo:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:benchmark -p no:anyio -o codereval_patience=0")
    return Repo(pytester)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_key_shows_nowhere(repo: Repo, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    program = PROGRAMS[name]
    script = stage(repo, program, monkeypatch)
    repo.task("b-refused", agent=dict(program.block))
    said = f"invalid key {KEY}: " + "an explanation that is long " * 100 + KEY
    with program.fake([*script, *repeat(fault(401, message=said), 8)], key=KEY) as fake:
        for variable, value in program.environment(fake, KEY).items():
            monkeypatch.setenv(variable, value)
        result = repo.run("-v", "-rA", "--tb=long", "--showlocals")
    result.assert_outcomes(failed=1, errors=1)
    (repo.path / "terminal").write_text("\n".join([*result.outlines, *result.errlines]), encoding="utf-8")
    assert leaks(repo.path, KEY, OTHER_KEY, but=("key",)) == [str(repo.path / "seen.json")]
    _check_what_the_agent_saw(json.loads((repo.path / "seen.json").read_text(encoding="utf-8")))
    assert repo.record("b-refused")["cause"] == "authentication"
    record = repo.record("a-tells")
    assert [each["verdict"] for each in record["criteria"]] == ["pass", "pass", "pass", "fail", "fail", "fail"]
    (kept,) = (file for file in record["workspace"]["files"] if file["path"] == "got.txt")
    assert kept["redacted"]
    assert kept["size"] == len(KEY)
    assert (repo.path / "run/trials/a-tells/trial/workspace/got.txt").read_text(encoding="utf-8") == "[secret]"
    assert [each["reason"] for each in record["workspace"]["skipped"]] == []


def _check_what_the_agent_saw(seen: dict[str, Any]) -> None:
    """Where the sandbox has the harness's own user, that user's processes can be read, and no others have the key."""
    holders = [command for command, environment in seen.pop("environments").items() if KEY in environment]
    assert all("pytest" in command for command in holders), holders
    told = seen["files"].pop("got.txt", "")
    assert told == ""
    assert "HOME=" in seen["env"]
    assert len(seen["files"]) >= 3
    assert KEY not in json.dumps(seen).replace("\\/", "/")
    assert OTHER_KEY not in json.dumps(seen)


def test_the_key_shows_in_no_report_of_a_worker_nor_of_a_python_test(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS["command"]
    script = stage(repo, program, monkeypatch)
    repo.file(
        "test_it.py",
        """
        import pytest

        @pytest.mark.codereval(task="tasks/a-tells.yaml")
        def test_it(codereval_run):
            text = codereval_run.workspace.read_text("got.txt")
            print(text, codereval_run.final_answer)
            raise RuntimeError(f"{text} and {codereval_run.trajectory}")
        """,
    )
    with program.fake(script, key=KEY) as fake:
        for variable, value in program.environment(fake, KEY).items():
            monkeypatch.setenv(variable, value)
        result = repo.run("-n1", "-v", "-rA", "--tb=long", "test_it.py")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*RuntimeError: [[]secret[]] and *"])
    (repo.path / "terminal").write_text("\n".join([*result.outlines, *result.errlines]), encoding="utf-8")
    assert leaks(repo.path, KEY, OTHER_KEY, but=("key", "seen.json")) == []


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> str:
    """The key as the only secret, as long as the test lasts."""
    for name, nothing in (("_secrets", frozenset()), ("_texts", ()), ("_data", ())):
        monkeypatch.setattr(redaction, name, nothing)
    redaction.hide(KEY)
    return KEY


@pytest.mark.parametrize("shown", [head, tail, shorten])
def test_a_text_that_is_cut_through_a_key_does_not_show_its_part(hidden: str, shown: Any) -> None:
    for limit in range(20, 120):
        assert "SECRET" not in shown("before " * 5 + hidden + " behind" * 5, limit)


@pytest.mark.parametrize("before", [0, (1 << 20) - 20, (1 << 20) - 1, 1 << 20, (2 << 20) - len(KEY) + 1])
def test_a_copied_workspace_has_no_key_and_says_so(tmp_path: Path, hidden: str, before: int) -> None:
    source = tmp_path / "source"
    source.mkdir()
    data = b"x" * before + hidden.encode() + b"y"
    (source / "holds").write_bytes(data)
    (source / "other").write_bytes(b"x" * before)
    (source / hidden.replace("/", "_")).touch()
    for keep, kept in ((True, data), (False, data.replace(hidden.encode(), b"[secret]"))):
        target = tmp_path / f"target-{keep}"
        manifest = snapshot(source, target, keep_secrets=keep)
        assert (target / "holds").read_bytes() == kept
        found = {file.path: (file.size, file.redacted) for file in manifest.files}
        assert found["holds"] == (len(data), not keep)
        assert found["other"] == (before, False)
