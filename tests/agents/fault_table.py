"""`python -m tests.agents.fault_table`: every fault of a model's API with every agent, as tables in Markdown."""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from tests.fakes import Charged, Fake, FakeAnthropic, FakeOpenAI, Fault, Request, Turn, call, fault, say

KEY = "fake-key-0123456789abcdef"
AGENTS = ("anthropic", "claude-code", "codex")
BUCKETS = ("input_tokens", "cache_creation_tokens", "cache_read_tokens", "output_tokens")
RATES = {"input_tokens": 3, "output_tokens": 15, "cache_creation_tokens": 3.75, "cache_read_tokens": 0.3}
"""US dollars for a million tokens of a model of these sessions."""

REFUSED = "refused"
"""Not a fault of a fake: nothing listens where the API should be."""

FAULTS: Mapping[str, Fault | None] = MappingProxyType(
    {
        "429": fault(429),
        "429-wait": fault(429, retry_after=1),
        "529": fault(529),
        "500": fault(500),
        "503": fault(503),
        "401": fault(401),
        "402": fault(402),
        "403": fault(403),
        "400": fault(400),
        "404": fault(404),
        "cut": fault("cut", after=3),
        "cut-drop": fault("cut", after=3, how="drop"),
        "malformed_json": fault("malformed_json"),
        "truncated_tool": fault("truncated_tool"),
        "html": fault("html"),
        "empty": fault("empty"),
        "sse_error": fault("sse_error"),
        "slow_drip": fault("slow_drip", seconds=0.2),
        "hang": fault("hang"),
        "hang-midway": fault("hang", after=3),
        "refusal": fault("refusal"),
        "max_tokens": fault("max_tokens"),
        "context_full": fault("context_full"),
        "context_full-stop": fault("context_full", how="stop"),
        "reset": fault("reset"),
        "reset-midway": fault("reset", after=3),
        REFUSED: None,
    }
)
SLOW = ("slow_drip", "hang", "hang-midway")
"""Faults that only the deadline ends."""

CAUSES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("429", "429-wait"), "rate_limited"),
        **dict.fromkeys(("529", "503", "sse_error"), "overloaded"),
        **dict.fromkeys(("500", "malformed_json", "truncated_tool", "html", "empty"), "api_fault"),
        **dict.fromkeys(("401", "403"), "authentication"),
        "402": "billing",
        **dict.fromkeys(("400", "404"), "bad_request"),
        **dict.fromkeys(("cut", "cut-drop", "reset", "reset-midway", REFUSED), "connection"),
        **dict.fromkeys(SLOW, "turn_timeout"),
        "refusal": "refused",
        "max_tokens": "output_cut",
        **dict.fromkeys(("context_full", "context_full-stop"), "context_full"),
    }
)
"""What the trial's record is to say of a fault that persists."""

TRIED_AGAIN = ("rate_limited", "overloaded", "connection", "api_fault")
"""Causes that do not decide when they come once."""


def occurs(name: str, agent: str) -> bool:
    """Whether the provider of the agent has such a fault: OpenAI has no reply that ends for a full context."""
    return (name, agent) != ("context_full-stop", "codex")


@dataclasses.dataclass(frozen=True)
class Play:
    """What a fake answers to the calls of one task, and the file for which the task asks."""

    answer: Callable[[Request], Turn | Fault]
    must_exist: str


@dataclasses.dataclass(frozen=True)
class Row:
    """What became of one trial: its record, and what the fake says of its calls. `asked` counts its requests."""

    record: Mapping[str, Any]
    asked: int
    ledger: Sequence[Charged]
    unfinished: Sequence[Charged]

    @property
    def attempts(self) -> int:
        return len(self.record["earlier_attempts"]) + 1

    @property
    def events(self) -> list[dict[str, Any]]:
        return (self.record["trajectory"] or {}).get("events", [])

    @property
    def faults(self) -> list[str]:
        """Cause and status of each failed call that the record tells."""
        told = [event for event in self.events if event["kind"] == "ModelFault"]
        return [event["cause"] + (f" {event['status']}" if event["status"] else "") for event in told]

    @property
    def tokens(self) -> dict[str, int | None]:
        return {name: self.record["spending"]["usage"][name] for name in BUCKETS}

    @property
    def charged(self) -> dict[str, int]:
        """What the fake charged."""
        return {name: sum(getattr(one, name) or 0 for one in self.ledger) for name in BUCKETS}

    @property
    def cost_complete(self) -> bool:
        return self.record["spending"]["cost_complete"]

    @property
    def seconds(self) -> float:
        times = self.record["times"]
        return times.get("finished", times["started"]) - times["started"]

    def problems(self) -> Iterator[str]:
        """What the books of the record have wrong."""
        told = {name: value or 0 for name, value in self.tokens.items()}
        if self.cost_complete and told != self.charged:
            yield f"cost_complete, but the record has {told} and the fake {self.charged}"
        if self.cost_complete and self.unfinished:
            yield f"cost_complete, but {len(self.unfinished)} replies were begun and not ended"
        if self.cost_complete and self.ledger and self.record["spending"]["usage"]["cost_usd"] is None:
            yield "cost_complete without a cost"
        begun = [*self.ledger, *self.unfinished]
        most = {name: sum(getattr(one, name) or 0 for one in begun) for name in BUCKETS}
        if any(told[name] > most[name] for name in BUCKETS):
            yield f"the record has {told}, more than the fake's {most}"


def persisting(one: Fault) -> Play:
    """Each call fails; the task would pass if it were judged."""
    return Play(lambda request: one, "there.txt")


def once(one: Fault) -> Play:
    """The agent writes a file; the first call after that fails; then the work comes to its end."""
    failed = []

    def answer(request: Request) -> Turn | Fault:
        if not has_results(request.body):
            return call("Write", file_path="made.txt", content="made\n")
        if not failed:
            failed.append(True)
            return one
        return say("Made it.")

    return Play(answer, "made.txt")


def has_results(body: Mapping[str, Any]) -> bool:
    """Whether a request carries the result of a tool, in either dialect."""
    for item in [*body.get("messages", []), *body.get("input", [])]:
        blocks = item.get("content") if isinstance(item.get("content"), list) else []
        kinds = [item.get("type"), *(block.get("type") for block in blocks if isinstance(block, dict))]
        if any(str(kind).endswith(("_call_output", "tool_result")) for kind in kinds):
            return True
    return False


def task(name: str, agent: str, turn_timeout: float, must_exist: str) -> dict[str, Any]:
    """A task whose model is called as its fault, so that the fake knows which it is."""
    return {
        "task_id": name,
        "description": "makes a file, if its model lets it",
        "initial_prompt": "Write made.txt, then say so.",
        "agent": {"type": agent, "model": f"model-{name}", "permission_mode": "bypassPermissions"},
        "sandbox": {"template_sources": [{"type": "starter_files", "files": [{"path": "there.txt", "content": "x"}]}]},
        "run_limits": {"turn_timeout": turn_timeout, "task_timeout": 120},
        "success_criteria": [{"type": "file_exists", "description": "the file is there", "path": must_exist}],
    }


def run_session(
    folder: Path, agent: str, plays: Mapping[str, Play], *, turn_timeout: float = 60, workers: int = 0
) -> dict[str, Row]:
    """Run one session of pytest in `folder` with a task for each of `plays`; a row for each.

    For the name REFUSED nothing listens at the API's address, so that it has to be alone.
    """
    (folder / "tasks").mkdir(parents=True)
    for name, play in plays.items():
        content = yaml.safe_dump(task(name, agent, turn_timeout, play.must_exist), sort_keys=False)
        (folder / "tasks" / f"{name}.yaml").write_text(content, encoding="utf-8")
    rates = " ".join(str(RATES[name]) for name in ("input_tokens", "output_tokens", *BUCKETS[1:3]))
    settings = f"[pytest]\ncodereval_patience = 0\ncodereval_prices = model-* {rates}\n"
    (folder / "pytest.ini").write_text(settings, encoding="utf-8")

    def answer(request: Request) -> Turn | Fault:
        return plays[request.body["model"].removeprefix("model-")].answer(request)

    made = FakeOpenAI if agent == "codex" else FakeAnthropic
    with made([answer], key=KEY, loop=True) as fake:
        if REFUSED in plays:
            fake.close()
        said = run_pytest(folder, environment(fake), workers)
        return {name: row(folder, name, fake, said) for name in plays}


def environment(fake: Fake) -> dict[str, str]:
    """The harness's own: where the API is, and no key but the fake's."""
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("ANTHROPIC_", "OPENAI_", "CODEX_", "CLAUDE", "PYTEST_"))
    }
    bases = {"ANTHROPIC_BASE_URL": fake.url, "OPENAI_BASE_URL": fake.url}
    return kept | bases | {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}


def run_pytest(folder: Path, env: Mapping[str, str], workers: int) -> str:
    plugins = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:benchmark"]
    command = [sys.executable, "-m", "pytest", *plugins, "-q", "--codereval-run-dir=run", "tasks"]
    spread = ["-n", str(workers)] if workers else []
    done = subprocess.run([*command, *spread], cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    return done.stdout + done.stderr


def row(folder: Path, name: str, fake: Fake, said: str) -> Row:
    path = folder / "run" / "trials" / name / "trial" / "record.json"
    if not path.exists():
        raise AssertionError(f"{name} left no record; pytest said:\n{said}")
    model = f"model-{name}"
    return Row(
        record=json.loads(path.read_text(encoding="utf-8")),
        asked=sum(request.body.get("model") == model for request in fake.requests),
        ledger=[one for one in fake.ledger if one.model == model],
        unfinished=[one for one in fake.unfinished if one.model == model],
    )


HEAD = (
    *("fault", "agent", "status", "cause", "attempts", "calls made", "faults in the record", "charged by the fake"),
    *("tokens in the record", "complete", "seconds", "message"),
)


def cells(name: str, agent: str, found: Row) -> list[str]:
    """A line of the table."""
    record = found.record
    faults = [f"{count} x {what}" for what, count in collections.Counter(found.faults).items()]
    charged = f"{len(found.ledger)} whole" + (f", {len(found.unfinished)} begun" if found.unfinished else "")
    told = " ".join("?" if value is None else str(value) for value in found.tokens.values())
    return [
        *(name, agent, record["status"], record["cause"] or "", str(found.attempts), str(found.asked)),
        ", ".join(faults),
        f"{' '.join(map(str, found.charged.values()))} ({charged})",
        f"{told} ({asked} calls)" if (asked := record["spending"]["calls"]) else "none (0 calls)",
        "yes" if found.cost_complete else "no",
        f"{found.seconds:.1f}",
        " ".join(record["message"].split())[:110],
    ]


def table(lines: Sequence[Sequence[str]]) -> str:
    rows = [HEAD, ["---"] * len(HEAD), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.agents.fault_table", description=__doc__)
    parser.add_argument("--agent", action="append", choices=AGENTS, help="all when not given; may be repeated")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="all when not given; may be repeated")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the run directories are kept")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        place = given.keep or Path(temporary)
        wanted = [(name, agent) for name in given.fault or FAULTS for agent in given.agent or AGENTS]
        wanted = [cell for cell in wanted if occurs(*cell)]
        passing = [cell for cell in wanted if cell[0] != REFUSED]
        wrong = [
            *print_table("The fault persists", place / "persisting", wanted, persisting),
            *print_table("The fault comes once", place / "once", passing, once),
        ]
    print("\n".join(["", "## What is wrong", "", *(wrong or ["Nothing."])]))
    return 1 if wrong else 0


def print_table(title: str, place: Path, wanted: Sequence[tuple[str, str]], how: Callable[[Fault], Play]) -> list[str]:
    """Print the table of one kind as a section; what is wrong in it."""

    def run(cell: tuple[str, str]) -> Row:
        name, agent = cell
        timeout = 10 if name in SLOW else 60
        plays = {name: how(FAULTS[name] or fault(500))}
        return run_session(place / f"{name}-{agent}", agent, plays, turn_timeout=timeout)[name]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(run, wanted))
    print(f"\n## {title}\n\n{table([cells(*cell, row) for cell, row in zip(wanted, rows, strict=True)])}", flush=True)
    wrong = []
    for (name, agent), found in zip(wanted, rows, strict=True):
        problems = list(found.problems())
        ended = (found.record["status"], found.record["cause"])
        fits = [("error", CAUSES[name])]
        if how is once:
            fits = [("passed", None), *(fits if CAUSES[name] not in TRIED_AGAIN else [])]
        if ended not in fits:
            problems.append(f"ended as {ended}, not as {' or '.join(map(str, fits))}")
        wrong += [f"- {title}: {name}, {agent}: {problem}" for problem in problems]
    return wrong


if __name__ == "__main__":
    sys.exit(main())
