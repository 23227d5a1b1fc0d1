"""Claude Code as an agent: started anew in the sandbox for each prompt, its conversation resumed."""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from ... import clock
from ...errors import AgentError, Cause
from ...model_api.json_parts import mappings
from ...redaction import redact
from ...sandbox.protocol import Phase, ProcessResult
from ...trajectory.model import Event
from ..gateway.server import Gateway
from ..installed import find_installed
from ..limits import is_capped
from ..named_files import expose_servers
from ..program import Launch, run_program
from ..protocol import Job
from .calls import ModelCalls
from .options import arguments, mistake, settings, settings_file, sources
from .program_file import find_program, surroundings_of
from .reader import StreamReader
from .surroundings import CONFIG_FOLDER, QUIET, program_environment, refuse_foreign_files

if TYPE_CHECKING:
    from ...task.agent_models import ClaudeCodeAgent

MOST_OUTPUT = 32_000_000
"""Bytes of outputs that are read from files of the sandbox in one run."""

_EXIT_NOTE = re.compile(r"\n\[exited with code \d+\]\n?\Z")
"""What the program writes behind the output of a command in the background."""

_CONFIGURATION = (
    *("model", "permissionMode", "tools", "mcp_servers", "agents", "skills", "plugins", "slash_commands"),
    *("output_style", "apiKeySource", "cwd"),
)


class TheAgent:
    """Made for one attempt at a trial."""

    def __init__(self) -> None:
        self._gateway: Gateway | None = None
        self._calls = ModelCalls()
        self._session: str | None = None

    def start(self, job: Job) -> None:
        """See `protocol.Agent.start`."""
        self._job = job
        config = cast("ClaudeCodeAgent", job.config)
        expose_servers(job)
        self._program = find_installed(job, "claude", find_program, surroundings_of, QUIET).path
        self._settings = settings(job, config)
        self._gateway = Gateway(
            "anthropic", job.admit, one_at_a_time=is_capped(job.task.run_limits), serve=job.sandbox.serve
        )
        self._environment = program_environment(job.sandbox, self._gateway.url)
        refuse_foreign_files(job.sandbox, not {"project", "local"}.isdisjoint(sources(config)))
        try:
            arguments(job, config)
        except OSError as error:
            raise AgentError(Cause.SANDBOX, f"HOME of the sandbox cannot be written: {error}") from error

    def run(self, prompt: str, deadline: float) -> Iterator[Event]:
        """See `protocol.Agent.run`."""
        assert self._gateway is not None, "start() comes first"
        self._calls = calls = ModelCalls()
        reader = StreamReader(calls, self._note_start)
        failure = None
        events = run_program(self._job, self._launch(prompt), reader, deadline, self._gateway)
        try:
            for event in events:
                yield calls.take(event)
                yield from calls.late()
        except AgentError as error:
            failure = _ended_well(reader, error)
        finally:
            cast("Any", events).close()
        self._session = reader.session or self._session
        yield from calls.late()
        yield from self._whole_outputs(reader, deadline)
        if failure is not None:
            raise failure
        if reader.out_of_turns:
            self._job.admit(True)  # so that the harness too knows the cap as reached

    def stop(self) -> Iterator[Event]:
        """See `protocol.Agent.stop`."""
        if self._gateway is None:
            return
        try:
            self._gateway.settle()
            for event in self._gateway.events():
                yield self._calls.take(event)
        finally:
            self._gateway.close()

    def _launch(self, prompt: str) -> Launch:
        assert self._gateway is not None
        try:
            given = arguments(self._job, cast("ClaudeCodeAgent", self._job.config))
            written = settings_file(self._job, self._settings, self._gateway.url, self._gateway.token)
        except OSError as error:
            raise AgentError(Cause.AGENT_CRASH, f"HOME of the sandbox cannot be written: {error}") from error
        resumed = [f"--resume={self._session}"] if self._session is not None else []
        self._argv = [self._program, *given, "--settings", str(written), *resumed]
        return Launch(self._argv, self._environment, prompt.encode("utf-8", "replace"), private_output=True)

    def _note_start(self, told: Mapping[str, Any]) -> None:
        """Keep the program's own account of its configuration; what was asked for and is not there is an error."""
        account = {
            "program": self._program,
            "version": told.get("claude_code_version"),
            "argv": self._argv,
            "configuration": {key: told.get(key) for key in _CONFIGURATION},
        }
        self._job.artifacts.mkdir(parents=True, exist_ok=True)
        text = json.dumps(account, indent=2, default=str)
        (self._job.artifacts / "agent.json").write_text(redact(text) + "\n", encoding="utf-8")
        if told.get("apiKeySource") == "none":
            raise mistake("claude_settings: Claude Code finds them invalid and would leave them out")
        self._check_servers(told.get("mcp_servers"))
        self._check_plugins(told.get("plugins"))

    def _check_servers(self, told: object) -> None:
        failed = [str(server.get("name")) for server in mappings(told) if server.get("status") == "failed"]
        wanted = self._job.config.mcp_servers or {}
        if broken := sorted(set(failed) & wanted.keys()):
            raise mistake(f"mcp_servers: no connection to {', '.join(broken)}")

    def _check_plugins(self, told: object) -> None:
        loaded = {str(entry.get("path")) for entry in mappings(told)}
        for plugin in self._job.skills.plugins:
            if str(plugin.folder) not in loaded:
                raise mistake(f"plugins: Claude Code did not load the plugin {plugin.name!r}")

    def _whole_outputs(self, reader: StreamReader, deadline: float) -> Iterator[Event]:
        """Tell again the calls whose output the program has kept in a file, with all of it."""
        sandbox = self._job.sandbox
        places = (f"{sandbox.home / CONFIG_FOLDER}/", f"{sandbox.environment(Phase.AGENT)['TMPDIR']}/")
        room = MOST_OUTPUT
        for call_id, path in reader.stored.items():
            left = deadline - clock.monotonic()
            if left <= 0 or room <= 0:
                return
            if os.path.normpath(path) != path or not path.startswith(places):
                continue
            read = sandbox.run(["/bin/cat", path], phase=Phase.AGENT, timeout=min(left, 5), output_limit=room)
            room -= len(read.stdout)
            if read.timed_out:
                return
            if read.exit_status == 0:
                yield reader.with_output(call_id, _EXIT_NOTE.sub("", read.stdout_text))


def _ended_well(reader: StreamReader, error: AgentError) -> AgentError | None:
    """What is left of an error. A deadline that comes when the agent has answered and only shells run is none."""
    if error.cause is not Cause.TURN_TIMEOUT or not reader.only_shells_left:
        return error
    try:
        list(reader.finish(ProcessResult(0)))
    except AgentError as other:
        return other
    return None
