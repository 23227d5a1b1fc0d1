"""Where the Docker daemon of this machine listens: what DOCKER_HOST, the current context or the default name."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

DEFAULT_SOCKET = "/var/run/docker.sock"


class CannotUse(Exception):
    """Why the daemon that is set up here cannot be used, in words."""


def socket_path() -> str:
    """The path of the daemon's unix socket. Raises CannotUse when something else is set up."""
    address = os.environ.get("DOCKER_HOST") or _address_of_context()
    if not address:
        return DEFAULT_SOCKET
    scheme, _, path = address.partition("://")
    if scheme != "unix" or not path.startswith("/"):
        raise CannotUse(f"its address is {address}: only a daemon on this machine, at a unix socket, can share files")
    return path


def _address_of_context() -> str | None:
    """The address in the context that the docker program would use; None for its default one."""
    settings = Path(os.environ.get("DOCKER_CONFIG") or Path(os.environ.get("HOME") or "/") / ".docker")
    name = os.environ.get("DOCKER_CONTEXT") or _current_context(settings)
    if not name or name == "default":
        return None
    folder = settings / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    try:
        address = json.loads((folder / "meta.json").read_bytes())["Endpoints"]["docker"]["Host"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CannotUse(f"the docker context {name!r} cannot be read: {error}") from error
    return str(address)


def _current_context(settings: Path) -> str | None:
    try:
        found = json.loads((settings / "config.json").read_bytes()).get("currentContext")
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, str) else None
