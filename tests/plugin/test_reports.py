"""`python -m pytest_codereval report` and `compare` on what a session left."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser

from .conftest import FAIL, PASS, Repo


def ask(repo: Repo, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_codereval", *arguments]
    return subprocess.run(command, cwd=repo.path, capture_output=True, text=True, timeout=100)


class Texts(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_run_is_reported_and_compared(repo: Repo) -> None:
    repo.task("good")
    repo.script(
        "bad",
        {"write": {"path": "a.txt", "content": "x"}},
        {"say": "<script>alert(1)</script> | done"},
        success_criteria=[PASS, FAIL],
    )
    repo.task("crash", agent={"type": "script", "steps": [{"crash": "out of order"}]})
    repo.task(
        "rows",
        dataset={"rows": [{"id": "one"}, {"id": "two"}]},
        success_criteria=[{**FAIL, "pass_threshold": 0.0, "suite_thresholds": {"mean": 0.5}}],
    )
    repo.run("tasks", "-n0")
    page = ask(repo, "report", "run").stdout
    assert "| all | 3 passed, 1 failed, 1 error | 60.0% |" in page
    assert "rows::suite-gate | missed |" in page
    assert "- bad: **failed**" in page
    assert "- crash: **error**" in page
    assert "alert(1)" not in page or "<script>" not in page

    assert ask(repo, "report", "run", "-o", "report.html").returncode == 0
    html = Texts()
    html.feed((repo.path / "report.html").read_text(encoding="utf-8"))
    assert "script" not in html.tags
    assert "<script>alert(1)</script> | done" in html.text
    assert html.tags.count("details") >= 5

    (repo.path / "run").rename(repo.path / "before")
    repo.script("bad", {"write": {"path": "missing.txt", "content": "x"}}, success_criteria=[PASS, FAIL])
    repo.task("good", success_criteria=[FAIL])
    repo.run("tasks", "-n0")
    compared = ask(repo, "compare", "before", "run", "--fail-on-worse")
    assert compared.returncode == 1
    assert "5 trials were measured on both sides: 0 better, 1 worse" in compared.stdout
    assert "- good: passed -> failed" in compared.stdout

    record = next((repo.path / "run" / "trials" / "good").rglob("record.json"))
    record.write_text(record.read_text()[:100])
    for arguments in (["compare", "before", "run"], ["compare", "run", "before"]):
        assert "not a readable trial record" in ask(repo, *arguments).stdout
    (repo.path / "run" / "run.json").unlink()
    (repo.path / "run" / "suites.json").write_text("{")
    broken = ask(repo, "report", "run").stdout
    assert "trials may be missing" in broken
    assert "not a readable trial record" in broken
    odd = next((repo.path / "run" / "trials" / "crash").rglob("record.json"))
    odd.write_text(json.dumps(json.loads(odd.read_text()) | {"criteria": [{}]}))
    assert "its criteria is not as a record has it" in ask(repo, "report", "run").stdout.replace("\\", "")
    assert "suites.json: " in broken

    for arguments in (["report", "tasks"], ["compare", "before"], ["compare", "before", "run", "--variants", "a", "b"]):
        wrong = ask(repo, *arguments)
        assert wrong.returncode == 2
        assert "Traceback" not in wrong.stderr
        assert wrong.stderr
