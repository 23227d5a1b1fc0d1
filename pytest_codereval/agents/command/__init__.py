"""The agent `command`: any program, run in the sandbox as its block says."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from ... import clock
from ...errors import AgentError, Cause
from ...task.program_rules import below_home
from ...task.program_template import filled, placeholders_in
from ...trajectory.model import Event, ModelCall, ModelFault
from ..limits import is_capped
from ..named_files import expose_named
from ..program import Launch, LineReader, run_program
from ..protocol import Job
from .placing import find_program, place_skills
from .reading import TextReader
from .told import Ids

if TYPE_CHECKING:
    from ...task.agent_models import CommandAgent
    from ..gateway.server import Gateway

LONGEST_ARGUMENT = 131_072
"""Bytes that Linux takes as one argument or variable, its end included."""


class TheAgent:
    """One conversation with the program; each prompt is one run of it."""

    def __init__(self) -> None:
        self._gateway: Gateway | None = None
        self._session = str(uuid.uuid4())
        self._runs = 0
        self._ids = Ids()
        self._calls = _ModelCalls()

    def start(self, job: Job) -> None:
        """See `protocol.Agent.start`. Raises AgentError."""
        config: Any = job.config
        self._job = job
        self._config: CommandAgent = config
        self._parser = self._find_parser()
        expose_named(job, (*config.command, *(config.resume_command or ())))
        if config.api != "none":
            from ..gateway.server import Gateway

            self._gateway = Gateway(
                config.api, job.admit, one_at_a_time=is_capped(job.task.run_limits), serve=job.sandbox.serve
            )
        find_program(job, self._filled(config.command[0]) if not placeholders_in(config.command[0]) else None)
        place_skills(job, below_home(config.skills_to))
        for path, content in config.files.items():
            self._write(below_home(path), self._filled(content))

    def _find_parser(self) -> Any:
        name = self._config.parser
        if name is None:
            return None
        from .parsers import find_parser

        return find_parser(name, self._job)

    def _write(self, path: str, content: Any) -> None:
        text = content if isinstance(content, str) else json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        try:
            self._job.sandbox.write_home(path, text.encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise AgentError(Cause.CONFIGURATION, f"agent.files: {path} cannot be written: {error}") from error

    def run(self, prompt: str, deadline: float) -> Iterator[Event]:
        """See `protocol.Agent.run`. What nobody counts is told as a call of unknown usage."""
        yield from self._calls.untold()
        self._runs += 1
        reader = self._reader()
        launch = self._launch(prompt)
        self._calls = calls = _ModelCalls(None if self._gateway else f"run-{self._runs}")
        events = cast("Generator[Event]", run_program(self._job, launch, reader, deadline, self._gateway))
        try:
            with contextlib.closing(events):
                for event in events:
                    calls.note(event)
                    yield event
        except AgentError as error:
            yield from calls.untold(is_cut=error.cause in (Cause.TURN_TIMEOUT, Cause.CONFIGURATION))
            raise calls.explained(error) from error
        finally:
            self._session = getattr(reader, "session", None) or self._session
        yield from calls.untold()
        if self._gateway is not None and not self._gateway.refused:
            calls.check()

    def _reader(self) -> LineReader:
        if self._parser is None:
            return TextReader()
        reader: LineReader = self._parser(self._ids, counted_elsewhere=self._gateway is not None)
        return reader

    def _launch(self, prompt: str) -> Launch:
        config = self._config
        command = config.command if self._runs == 1 else config.resume_command
        if command is None:
            raise AgentError(
                Cause.CONFIGURATION, "agent.resume_command: a further prompt needs it, to go on with the conversation"
            )
        argv = self._filled(list(command), prompt)
        env = self._filled(dict(config.env))
        for name, text in (*(("an argument", text) for text in argv), *env.items()):
            if "\0" in text or len(text.encode("utf-8", "surrogateescape")) >= LONGEST_ARGUMENT:
                what = "has a NUL character" if "\0" in text else f"has more than {LONGEST_ARGUMENT - 1} bytes"
                raise AgentError(
                    Cause.CONFIGURATION, f"{name} of the program {what}; a prompt can go by prompt_mode: stdin or file"
                )
        stdin = _bytes(prompt) if config.prompt_mode == "stdin" else b""
        return Launch(argv, env, stdin, private_output=self._parser is not None)

    def _filled(self, value: Any, prompt: str = "") -> Any:
        return filled(value, lambda name: self._value(name, prompt))

    def _value(self, name: str, prompt: str) -> str:
        sandbox = self._job.sandbox
        match name:
            case "prompt":
                return prompt
            case "prompt_file":
                return self._prompt_file(prompt)
            case "model":
                if self._job.model is None:
                    raise AgentError(Cause.CONFIGURATION, "{model}: name it (agent.model, --codereval-model)")
                return self._job.model
            case "workspace":
                return str(sandbox.workspace)
            case "home":
                return str(sandbox.home)
            case "skills_dir":
                return f"{sandbox.home}/{below_home(self._config.skills_to)}"
            case "session":
                return self._session
        assert self._gateway is not None, "the task's rules ask for an api where these stand"
        return self._gateway.url if name == "base_url" else self._gateway.token

    def _prompt_file(self, prompt: str) -> str:
        name = f".codereval/prompt-{self._runs}.txt"
        try:
            self._job.sandbox.write_home(name, _bytes(prompt))
        except OSError as error:
            raise AgentError(Cause.AGENT_CRASH, f"the prompt cannot be written for the program: {error}") from error
        return f"{self._job.sandbox.home}/{name}"

    def stop(self) -> Iterable[Event]:
        """See `protocol.Agent.stop`."""
        yield from self._calls.untold()
        gateway, self._gateway = self._gateway, None
        if gateway is None:
            return
        try:
            gateway.settle()
            yield from gateway.events()
        finally:
            gateway.close()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


class _ModelCalls:
    """Whether there was any call of a model in one run, and whether the last one of the main thread gave a reply."""

    def __init__(self, run: str | None = None) -> None:
        """`run` is the id under which calls are told that nobody else counts, None when a gateway does."""
        self.any = False
        self._fault: ModelFault | None = None
        self._run = run
        self._begun = clock.now()

    def untold(self, is_cut: bool = False) -> Iterator[ModelCall]:
        """A call of unknown usage, told once, when none was counted, or when one may have been under way."""
        run, self._run = self._run, None
        if run is not None and (is_cut or not self.any):
            yield ModelCall(run, None, complete=False, started=self._begun, ended=clock.now())

    def note(self, event: Event) -> None:
        if isinstance(event, ModelFault):
            self.any = True
            self._fault = event
        elif isinstance(event, ModelCall) and event.parent_id is None and event.complete:
            self.any = True
            if self._fault is not None and self._fault.id != event.id:
                self._fault = None

    def explained(self, error: AgentError) -> AgentError:
        """The failure of the model where that is why the program failed, else `error`."""
        fault = self._fault
        if fault is None or error.cause not in (Cause.AGENT_CRASH, Cause.API_FAULT):
            return error
        return AgentError(fault.cause, f"{fault.message} ({error})", fault.retry_after)

    def check(self) -> None:
        """Raise AgentError when the program ended well although its model did not answer, or was never asked."""
        if self._fault is not None:
            raise AgentError(self._fault.cause, self._fault.message, self._fault.retry_after)
        if not self.any:
            raise AgentError(
                Cause.CONFIGURATION,
                "the program ended without a call of its model at {base_url}: see what it made of its settings "
                "in the trial's agent/ folder",
            )
