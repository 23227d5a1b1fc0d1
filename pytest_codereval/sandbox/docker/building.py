"""Images that are built from an author's Dockerfile, once per session, without what would tell how a task is judged."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ...errors import Cause, TrialError
from ...text import clean
from ..host_path import host_path
from ..key_places import KeyPlaces
from .build_context import BuildContext
from .engine import told
from .facts import image_id, patient_client

if TYPE_CHECKING:
    from ..drivers import Order

REPOSITORY = "codereval-build"
BUILD_LABEL = "codereval.dockerfile"
BUILD_SECONDS = 3600.0
"""Seconds that a build by the docker program may take; for the daemon, that it may be silent."""

_KEY = "sandbox.docker"
_LOG_LINES = 40
_LOG_CHARACTERS = 4000
_REFUSED_ARGUMENTS = ("--build-context", "-f", "--file", "-t", "--tag", "--iidfile", "-o", "--output", "--push")


@dataclasses.dataclass(frozen=True)
class BuiltImage:
    """An image that was built: its id and the name that it has."""

    image_id: str
    name: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is built, and how. `args` are the values of build arguments by name, variables expanded."""

    dockerfile: Path
    args: Mapping[str, str]
    secrets: tuple[str, ...]
    extra_args: tuple[str, ...]
    buildkit: bool | None
    keys: KeyPlaces

    @classmethod
    def of(cls, order: Order, answer_keys: Collection[Path] = ()) -> Plan:
        """The plan of a task's settings. Raises TrialError(CONFIGURATION)."""
        config = order.config.docker
        task_dir = order.task_dir or Path.cwd()
        given = host_path(config.dockerfile_path or "", task_dir, f"{_KEY}.dockerfile_path")
        if not given.is_file():
            raise _mistake("dockerfile_path", f"there is no file {given}")
        build = config.build
        for argument in build.extra_args:
            if argument.partition("=")[0] in _REFUSED_ARGUMENTS:
                raise _mistake("build.extra_args", f"{argument!r} is up to the harness")
        return cls(
            dockerfile=Path(os.path.realpath(given.parent), given.name),
            args={name: _expanded(value, f"build.args.{name}") for name, value in build.args.items()},
            secrets=tuple(_expanded(secret, "build.secrets") for secret in build.secrets),
            extra_args=build.extra_args,
            buildkit=build.buildkit,
            keys=KeyPlaces(order.task_dir, (), answer_keys),
        )

    @property
    def by_program(self) -> bool:
        """Whether this takes the docker program, since the daemon's own builder cannot do it."""
        return bool(self.buildkit or self.secrets or self.extra_args)

    @property
    def settings(self) -> str:
        """All that decides the result beside the files."""
        return json.dumps(
            [self.dockerfile.name, sorted(self.args.items()), self.secrets, self.extra_args, self.buildkit]
        )


_built: dict[tuple[object, ...], BuiltImage | TrialError] = {}


def build(plan: Plan, shelf: Path, session: str) -> BuiltImage:
    """Build the image of a plan, unless this session has it already. `shelf` is shared by the session's workers.

    Raises TrialError: CONFIGURATION when the context cannot be used, SANDBOX with the end of the log when the build
    fails, which is tried once per session.
    """
    known = (plan.dockerfile, plan.settings, plan.keys.identity, str(shelf), session)
    if known not in _built:
        try:
            _built[known] = _build_once(plan, shelf, session)
        except TrialError as error:
            _built[known] = error
    found = _built[known]
    if isinstance(found, TrialError):
        raise TrialError(found.cause, str(found))
    return found


def _build_once(plan: Plan, shelf: Path, session: str) -> BuiltImage:
    with tempfile.TemporaryFile(dir=shelf) as file:
        digest = hashlib.sha256(plan.settings.encode())
        BuildContext(plan.dockerfile, plan.keys).write(file, digest)
        name = f"{REPOSITORY}:{digest.hexdigest()[:32]}"
        note = shelf / f"{name.replace(':', '-')}.json"
        with _alone(note.with_suffix(".busy")), patient_client(BUILD_SECONDS) as api:
            if (done := _done(note, session, api)) is not None:
                if isinstance(done, TrialError):
                    raise done
                return BuiltImage(done, name)
            try:
                file.seek(0)
                (_build_by_program if plan.by_program else _build_by_daemon)(plan, api, file, name)
                number = image_id(api, name)
                if number is None:
                    raise _failed(plan, "the build succeeded, but there is no image")
            except TrialError as error:
                _remember(note, session, {"cause": str(error.cause), "error": str(error)})
                raise
            _remember(note, session, {"id": number})
            return BuiltImage(number, name)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    with open(path, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _done(note: Path, session: str, api: Any) -> str | TrialError | None:
    """What another worker of this session came to: the image's id, or why there is none."""
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
        if not session or found["session"] != session:
            return None
        if "error" in found:
            return TrialError(Cause(found["cause"]), found["error"])
        return image_id(api, found["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(note: Path, session: str, result: Mapping[str, str]) -> None:
    fresh = note.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps({"session": session, **result}), encoding="utf-8")
    fresh.replace(note)


def _build_by_daemon(plan: Plan, api: Any, context: IO[bytes], name: str) -> None:
    log: collections.deque[str] = collections.deque(maxlen=_LOG_LINES)
    with told(f"building {plan.dockerfile}"):
        events = api.build(
            fileobj=context,
            custom_context=True,
            dockerfile=plan.dockerfile.name,
            tag=name,
            buildargs=dict(plan.args),
            labels={BUILD_LABEL: str(plan.dockerfile)},
            rm=True,
            forcerm=True,
            decode=True,
            timeout=BUILD_SECONDS,
        )
        for event in events:
            log.extend(str(event.get("stream") or "").splitlines())
            if "error" in event:
                raise _failed(plan, "\n".join([*log, str(event["error"])]))


def _build_by_program(plan: Plan, api: Any, context: IO[bytes], name: str) -> None:
    program = shutil.which("docker")
    if program is None:
        raise TrialError(
            Cause.SANDBOX, f"{_KEY}.build: buildkit, secrets and extra_args need the docker program, which is not here"
        )
    command = [program, "build", "--file", plan.dockerfile.name, "--tag", name]
    command += ["--label", f"{BUILD_LABEL}={plan.dockerfile}"]
    for secret in plan.secrets:
        command += ["--secret", secret]
    environment = dict(os.environ)
    for argument, value in plan.args.items():
        command += ["--build-arg", argument]
        environment[argument] = value
    if plan.buildkit is not None or plan.secrets:
        environment["DOCKER_BUILDKIT"] = "0" if plan.buildkit is False else "1"
    status, log = _run([*command, *plan.extra_args, "-"], plan.dockerfile.parent, environment, context)
    if status != 0:
        raise _failed(plan, log)


def _run(command: list[str], cwd: Path, environment: Mapping[str, str], stdin: IO[bytes]) -> tuple[int, str]:
    """Exit status and the end of the output of a program of the harness."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=cwd, env=environment, stdin=stdin, stdout=output, stderr=output, start_new_session=True
        )
        try:
            status = process.wait(BUILD_SECONDS)
        except subprocess.TimeoutExpired:
            status = -1
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(max(0, output.tell() - _LOG_CHARACTERS))
        text = output.read().decode("utf-8", "replace")
        return status, text if status != -1 else f"{text}\nnot finished after {BUILD_SECONDS:.0f} seconds"


def _failed(plan: Plan, log: str) -> TrialError:
    tail = clean("\n".join(log.strip().splitlines()[-_LOG_LINES:])[-_LOG_CHARACTERS:])
    return TrialError(Cause.SANDBOX, f"{_KEY}.dockerfile_path: {plan.dockerfile} cannot be built:\n{tail}")


def _expanded(text: str, key: str) -> str:
    from ...task.variables import UndefinedVariable, expand_variables

    try:
        return expand_variables(text)
    except UndefinedVariable as error:
        raise _mistake(key, f"{text!r}: {error}") from None


def _mistake(key: str, message: str) -> TrialError:
    return TrialError(Cause.CONFIGURATION, f"{_KEY}.{key}: {message}")
