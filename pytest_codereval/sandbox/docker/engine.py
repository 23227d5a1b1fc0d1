"""The Docker daemon: small calls and streams over its unix socket, and a client of the SDK for everything else."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import importlib
import importlib.util
import json
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from ... import clock
from ...errors import Cause, TrialError
from .endpoint import CannotUse, socket_path

CALL_TIMEOUT = 120.0
"""Seconds that the daemon may be silent; starting a container on a busy machine takes some."""

LOOK_TIMEOUT = 10.0
"""Seconds for finding out whether there is a daemon."""

KEPT_FOR = 10.0
"""Seconds for which is believed what was found out about the daemon."""

OLDEST_API = (1, 41)
_MOST_HEADER = 1 << 16


class EngineError(Exception):
    """The daemon refused a call. `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclasses.dataclass(frozen=True)
class Daemon:
    """A daemon that can be used. `memory` is that of the machine, in bytes; `limits` are names of what it can bound."""

    socket: str
    api_version: str
    version: str
    memory: int
    processors: int
    security: tuple[str, ...]
    limits: frozenset[str]


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("docker", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = _connected(self._path, self.timeout or CALL_TIMEOUT)


def _connected(path: str, timeout: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


class Engine:
    """Calls of the daemon's API, each by a connection of its own; for any thread."""

    def __init__(self, path: str, api_version: str | None = None) -> None:
        self._path = path
        self._prefix = f"/v{api_version}" if api_version else ""

    def call(self, method: str, url: str, body: object = None, timeout: float = CALL_TIMEOUT) -> Any:
        """What the daemon answers, parsed. Raises EngineError, OSError, ValueError and http.client's errors."""
        data = self.read(method, url, body, timeout)
        return json.loads(data) if data else None

    def read(self, method: str, url: str, body: object = None, timeout: float = CALL_TIMEOUT) -> bytes:
        """As `call`, not parsed."""
        connection = _Connection(self._path, timeout)
        content = json.dumps(body) if body is not None else None
        try:
            connection.request(method, self._prefix + url, content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise EngineError(answer.status, _message(data))
        return data

    def attach_input(self, container: str) -> socket.socket:
        """A connection to the standard input of a container, which ends when it is closed. Raises as `call` does."""
        sock = _connected(self._path, CALL_TIMEOUT)
        try:
            url = f"{self._prefix}/containers/{container}/attach?stream=1&stdin=1"
            request = f"POST {url} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
            sock.sendall(request.encode("ascii"))
            status, rest = _header(sock)
            if status not in (101, 200):
                raise EngineError(status, _message(rest))
            sock.settimeout(None)
        except BaseException:
            sock.close()
            raise
        return sock


def _header(sock: socket.socket) -> tuple[int, bytes]:
    """The status of an answer and what came behind its header."""
    found = bytearray()
    while b"\r\n\r\n" not in found:
        piece = sock.recv(4096)
        if not piece or len(found) > _MOST_HEADER:
            raise ConnectionError("the daemon's answer has no end")
        found += piece
    header, _, rest = bytes(found).partition(b"\r\n\r\n")
    return int(header.split(None, 2)[1]), rest


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data)["message"]).strip()
    except (ValueError, LookupError, TypeError):
        return data.decode("utf-8", "replace").strip()[:1000]


# -- which daemon

_found: dict[str, tuple[float, Daemon | str]] = {}


def daemon() -> Daemon:
    """The daemon that is set up here. Raises TrialError(SANDBOX) with the reason why there is none."""
    found = look()
    if isinstance(found, str):
        raise TrialError(Cause.SANDBOX, found)
    return found


def look() -> Daemon | str:
    """The daemon that is set up here, or why it cannot be used. Kept for some seconds."""
    try:
        path = socket_path()
    except CannotUse as error:
        return f"the Docker daemon cannot be used: {error}"
    kept = _found.get(path)
    if kept is None or clock.monotonic() > kept[0] + KEPT_FOR:
        _found[path] = kept = (clock.monotonic(), _look(path))
    return kept[1]


def _look(path: str) -> Daemon | str:
    package = importlib.util.find_spec("docker")
    if package is None or package.origin is None:
        return "the Python package docker is not installed (pip install 'pytest-codereval[docker]')"
    engine = Engine(path)
    try:
        version = engine.call("GET", "/version", timeout=LOOK_TIMEOUT)
        facts = engine.call("GET", "/info", timeout=LOOK_TIMEOUT)
    except PermissionError:
        return f"this user may not use the Docker daemon at {path}"
    except (OSError, EngineError, http.client.HTTPException, ValueError) as error:
        return f"no Docker daemon answers at {path}: {getattr(error, 'strerror', None) or error}"
    if not isinstance(version, dict) or not isinstance(facts, dict):
        return f"what answers at {path} is no Docker daemon"
    return _judged(path, version, facts)


def _judged(path: str, version: Mapping[str, Any], facts: Mapping[str, Any]) -> Daemon | str:
    api = str(version.get("ApiVersion", "0"))
    security = tuple(str(each) for each in facts.get("SecurityOptions") or ())
    if _numbers(api) < OLDEST_API:
        wanted = ".".join(map(str, OLDEST_API))
        return f"the Docker daemon at {path} is too old: it has API {api}, needed is {wanted} (Docker 20.10)"
    for option, reason in _REFUSED_OPTIONS.items():
        if any(each.split(",")[0] == f"name={option}" for each in security):
            return f"the Docker daemon at {path} {reason}"
    if facts.get("OSType") != "linux" or facts.get("KernelVersion") != os.uname().release:
        return f"the Docker daemon at {path} runs on another kernel than this one, with which it cannot share pipes"
    return Daemon(
        socket=path,
        api_version=api,
        version=str(version.get("Version", "")),
        memory=int(facts.get("MemTotal") or 0),
        processors=int(facts.get("NCPU") or 1),
        security=security,
        limits=frozenset(name for name, field in _LIMIT_FIELDS.items() if facts.get(field)),
    )


_REFUSED_OPTIONS = {
    "rootless": "is rootless: what its containers write would not belong to this user",
    "userns": "maps user ids (userns-remap): what its containers write would not belong to this user",
}
_LIMIT_FIELDS = {"memory": "MemoryLimit", "swap": "SwapLimit", "pids": "PidsLimit", "cpus": "CpuCfsQuota"}


def _numbers(version: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version.split("."))
    except ValueError:
        return (0,)


# -- the SDK

_clients = threading.local()


def client(used: Daemon) -> Any:
    """The SDK's low-level client of this thread."""
    key = (os.getpid(), used.socket, used.api_version)
    if getattr(_clients, "key", None) != key:
        docker = importlib.import_module("docker")
        _clients.client = docker.APIClient(
            base_url=f"unix://{used.socket}", version=used.api_version, timeout=int(CALL_TIMEOUT)
        )
        _clients.key = key
    return _clients.client


@contextlib.contextmanager
def told(doing: str) -> Iterator[None]:
    """Raise TrialError(SANDBOX) for what goes wrong between the harness and the daemon. `doing` says what was asked."""
    try:
        yield
    except TrialError:
        raise
    except Exception as error:
        if status_of(error) is not None or type(error).__module__.startswith("docker."):
            raise TrialError(Cause.SANDBOX, f"{doing}: the Docker daemon refuses: {explanation(error)}") from error
        if not isinstance(error, OSError | http.client.HTTPException | ValueError):
            raise
        raise TrialError(Cause.SANDBOX, f"{doing}: the Docker daemon does not answer: {error}") from error


def explanation(error: Exception) -> str:
    """What the daemon said, without the client's words around it."""
    return str(getattr(error, "explanation", None) or error)


def status_of(error: Exception) -> int | None:
    """The HTTP status of an error of the SDK or of ours; None when there was no answer."""
    if isinstance(error, EngineError):
        return error.status
    return getattr(getattr(error, "response", None), "status_code", None)
