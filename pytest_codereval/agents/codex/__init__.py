"""The agent `codex`: OpenAI's Codex CLI, run in the sandbox, its model reached through the gateway."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Iterable, Iterator
from typing import cast

from ...errors import AgentError, Cause
from ...redaction import redact
from ...sandbox.protocol import Phase
from ...text import tail
from ...trajectory.model import Event, ModelCall, ToolCall
from ..gateway.server import Gateway
from ..installed import find_installed
from ..limits import is_capped
from ..named_files import expose_servers
from ..program import SYSTEM_PATH, Launch, run_program
from ..protocol import Job
from .installation import find_program, surroundings_of
from .reader import Reader
from .rollouts import read_threads, with_contents
from .settings import TOKEN_VARIABLE, config_toml, tool_lists

CONFIG_FOLDER = ".codex"
SETTINGS_FILE = f"{CONFIG_FOLDER}/config.toml"
MACHINE_SETTINGS = "/etc/codex"
"""Settings of the sandbox's system, which Codex reads whatever else it is told."""

TIMEOUT = 60.0
"""Seconds for each step of laying out its place."""

_WRONG_USAGE = 2
"""What a version exits with that has no command for trying its sandbox."""

_LIST = 'for file in "$1"/*.toml; do [ ! -e "$file" ] || printf "%s\\n" "$file"; done'
_LINK = 'while [ $# -gt 0 ]; do mkdir -p "${2%/*}" && ln -s "$1" "$2" || exit 1; shift 2; done'


class TheAgent:
    """One conversation with Codex; each prompt is one run of the program, which the next one resumes."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._gateway: Gateway | None = None
        self._program = ""
        self._settings = b""
        self._thread_id: str | None = None
        self._runs = 0
        self._sub_agents: set[str] = set()
        self._file_calls: dict[str, ToolCall] = {}

    def start(self, job: Job) -> None:
        """See `protocol.Agent.start`. Raises AgentError."""
        self._job = job
        _refuse_unshadowed(job)
        expose_servers(job)
        found = find_installed(job, "codex", find_program, surroundings_of, self._environment(job))
        self._program = found.path
        self._gateway = gateway = Gateway(
            "openai", job.admit, one_at_a_time=is_capped(job.task.run_limits), serve=job.sandbox.serve
        )
        self._settings = config_toml(job, gateway.url).encode()
        job.sandbox.write_home(SETTINGS_FILE, self._settings)
        if job.config.permission_mode == "plan":
            self._refuse_second_sandbox(job)
        self._link_skills(job)
        self._describe(job, found.version.rpartition(" ")[2])

    def _environment(self, job: Job) -> dict[str, str]:
        token = {TOKEN_VARIABLE: self._gateway.token} if self._gateway is not None else {}
        return {"CODEX_HOME": f"{job.sandbox.home}/{CONFIG_FOLDER}", **token}

    def _refuse_second_sandbox(self, job: Job) -> None:
        """In its read-only mode Codex keeps its commands in a sandbox of its own, without which none of them runs."""
        argv = [self._program, "sandbox", "--", "/bin/sh", "-c", ":"]
        tried = job.sandbox.run(argv, phase=Phase.AGENT, timeout=TIMEOUT, env=self._environment(job))
        if tried.exit_status not in (0, _WRONG_USAGE):
            raise AgentError(
                Cause.CONFIGURATION,
                "agent.permission_mode: under plan codex makes a sandbox of its own, which cannot be made inside that "
                f"of the driver {job.sandbox.driver!r} here: {tail(tried.stderr_text.strip(), 500)}",
            )

    def _link_skills(self, job: Job) -> None:
        """Codex looks for skills below its own folder, links included."""
        pairs = []
        for plugin in job.skills.plugins:
            if plugin.skills:
                place = f"{job.sandbox.home}/{CONFIG_FOLDER}/skills/{plugin.name}/skills"
                pairs += [str(plugin.folder / "skills"), place]
        if not pairs:
            return
        argv = ["/bin/sh", "-c", _LINK, "sh", *pairs]
        result = job.sandbox.run(argv, phase=Phase.AGENT, timeout=TIMEOUT, env={"PATH": SYSTEM_PATH})
        if result.exit_status != 0:
            raise AgentError(Cause.SANDBOX, f"the skills cannot be laid out for codex: {result.stderr_text.strip()}")

    def _describe(self, job: Job, version: str) -> None:
        job.artifacts.mkdir(parents=True, exist_ok=True)
        told = {
            "agent": "codex",
            "program": self._program,
            "version": version,
            "not_enforced": tool_lists(job.config).not_enforced,
            "plugins": "only their skills are used" if job.skills.plugins else "none",
            "machine_settings": _machine_settings(job),
        }
        (job.artifacts / "agent.json").write_text(redact(json.dumps(told, indent=2)) + "\n", encoding="utf-8")

    def run(self, prompt: str, deadline: float) -> Iterator[Event]:
        """See `protocol.Agent.run`."""
        job, gateway = self._job, self._gateway
        assert job is not None, "start() comes first"
        assert gateway is not None, "start() comes first"
        self._runs += 1
        try:
            job.sandbox.write_home(SETTINGS_FILE, self._settings)
        except OSError as error:
            raise AgentError(Cause.AGENT_CRASH, f"{SETTINGS_FILE} of the sandbox cannot be written: {error}") from error
        reader = Reader(self._runs)
        resumed = ["resume", self._thread_id] if self._thread_id else []
        argv = [self._program, "exec", "--json", "--skip-git-repo-check", *resumed, "-"]
        stdin = prompt.encode("utf-8", "backslashreplace")
        launch = Launch(argv, self._environment(job), stdin, private_output=True)
        events = cast("Generator[Event]", run_program(job, launch, reader, deadline, gateway))
        with contextlib.closing(events):
            for event in events:
                self._thread_id = reader.thread_id or self._thread_id
                yield self._noted(event)
                reader.note(event)

    def _noted(self, event: Event) -> Event:
        if isinstance(event, ModelCall) and event.parent_id is not None:
            self._sub_agents.add(event.parent_id)
        elif isinstance(event, ToolCall) and event.name in ("Write", "Edit"):
            self._file_calls[event.id] = event
        return event

    def stop(self) -> Iterable[Event]:
        """See `protocol.Agent.stop`. Tells what only Codex's own records say: the work of sub-agents, and what was
        written into files. A record of a thread that asked no model is not Codex's.

        Raises AgentError(EVIDENCE_LOST) when the record of a sub-agent is gone.
        """
        job, gateway = self._job, self._gateway
        if job is None or gateway is None:
            return
        try:
            gateway.settle()
            yield from map(self._noted, gateway.events())
        finally:
            gateway.close()
        threads = read_threads(job.sandbox.home / CONFIG_FOLDER)
        for thread in threads:
            if thread.parent is not None and thread.id in self._sub_agents:
                yield from thread.told(self._thread_id)
            elif thread.id == self._thread_id:
                yield from with_contents(self._file_calls.values(), thread.patches)
        if lost := self._sub_agents - {thread.id for thread in threads}:
            raise AgentError(
                Cause.EVIDENCE_LOST, f"codex's records of its sub-agents are gone: {', '.join(sorted(lost))}"
            )


def _machine_settings(job: Job) -> list[str]:
    argv = ["/bin/sh", "-c", _LIST, "sh", MACHINE_SETTINGS]
    found = job.sandbox.run(argv, phase=Phase.AGENT, timeout=TIMEOUT, env={"PATH": SYSTEM_PATH})
    return sorted(found.stdout_text.splitlines())


def _refuse_unshadowed(job: Job) -> None:
    """Codex puts a folder with its own `rg` before everything else on PATH, and its read-only mode stops the shims."""
    sandbox = job.task.sandbox
    recorded = [tool.tool for tool in sandbox.record_cli or ()]
    mocked = [job.sandbox.workspace / folder / "rg" for folder in sandbox.mock_path_dirs or ()]
    if "rg" in recorded or any(program.exists() for program in mocked):
        raise AgentError(Cause.CONFIGURATION, "codex prefers an rg of its own, so that rg cannot be recorded or mocked")
    if recorded and job.config.permission_mode == "plan":
        raise AgentError(
            Cause.CONFIGURATION,
            "agent.permission_mode: under plan codex lets its commands write nothing, so record_cli cannot record",
        )
