"""The programs of the system that the driver uses, and whether they work here."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..drivers import Availability
from ..enclosure import Owner
from ..exposure import SYSTEM_FOLDERS, exposed

CLEAN_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
"""What our own programs run with: no variable of an author or an agent reaches one that has privileges."""

_OLDEST = (0, 8, 0)
_PATIENCE = 20.0
_NAMES = {"bwrap": "bubblewrap", "nsenter": "util-linux", "setpriv": "util-linux", "prlimit": "util-linux"}


@dataclasses.dataclass(frozen=True)
class Tools:
    """Absolute paths of programs."""

    bwrap: str
    nsenter: str
    setpriv: str
    prlimit: str


def find_tools() -> Tools | str:
    """The programs on the harness's PATH, or what is missing."""
    found = {name: shutil.which(name) for name in _NAMES}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        return ", ".join(f"{name} is not on PATH (package {_NAMES[name]})" for name in missing)
    return Tools(**{name: os.path.realpath(path) for name, path in found.items() if path is not None})


def isolating_options(owner: Owner | None, *, network: bool) -> list[str]:
    """Options for namespaces; `network` for one of its own. With an owner bwrap itself runs as root."""
    options = ["--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    options += ["--unshare-cgroup-try", *(["--unshare-net"] if network else [])]
    if owner is None:
        return [*options, "--unshare-user", "--disable-userns"]
    kept = [option for name in ("SETUID", "SETGID", "SETPCAP") for option in ("--cap-add", f"CAP_{name}")]
    return [*options, "--cap-drop", "ALL", *kept]


def stepping_down(tools: Tools, owner: Owner | None) -> list[str]:
    """What is put before a program so that it runs without any privilege."""
    if owner is None:
        return [tools.setpriv, "--no-new-privs", "--"]
    identity = ["--reuid", str(owner.uid), "--regid", str(owner.gid), "--clear-groups"]
    return [tools.setpriv, *identity, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"]


@functools.lru_cache(maxsize=8)
def availability(owner: Owner | None, search_path: str) -> Availability:
    """Try it once with what a sandbox needs; asked again when PATH changes."""
    if not sys.platform.startswith("linux"):
        return Availability(False, "bubblewrap needs Linux")
    tools = find_tools()
    if isinstance(tools, str):
        return Availability(False, tools)
    folders = [*_programs(search_path.split(os.pathsep)), "--proc", "/proc", "--dev", "/dev"]
    folders += ["--perms", "0755", "--size", "65536", "--tmpfs", "/tmp", "--remount-ro", "/tmp"]
    argv = [tools.bwrap, *isolating_options(owner, network=True), *folders, "--"]
    try:
        tried = subprocess.run(
            [*argv, *stepping_down(tools, owner), "/bin/sh", "-c", ":"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            env=CLEAN_ENVIRONMENT,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Availability(False, f"{tools.bwrap} cannot be run: {error}")
    if tried.returncode == 0:
        return Availability(True)
    said = tried.stderr.decode("utf-8", "replace").strip()[-500:] or f"exit status {tried.returncode}"
    return Availability(False, f"{_reason(tools)}{said}")


def _programs(search_path: Sequence[str]) -> list[str]:
    """Options that show what programs need, not the whole disk.

    bwrap takes every mount below a folder with it, and fails when one of them vanishes meanwhile, such as that of a
    container that ends.
    """
    places = [*SYSTEM_FOLDERS, "/etc", *map(os.path.realpath, exposed(search_path))]
    return [option for place in places for option in ("--ro-bind-try", place, place)]


def _reason(tools: Tools) -> str:
    """Why bwrap fails, as far as the system tells."""
    if (version := _version(tools)) is not None and version < _OLDEST:
        return f"bubblewrap {'.'.join(map(str, version))} is too old, it takes 0.8.0: "
    if os.geteuid() == 0:
        return "no namespaces can be made, as is usual in containers: "
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor bars users from making user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns is "
            "1, and there is no profile that permits them to bwrap): "
        )
    if _setting("kernel/unprivileged_userns_clone") == "0":
        return "user namespaces are off (sysctl kernel.unprivileged_userns_clone is 0): "
    if _setting("user/max_user_namespaces") == "0":
        return "user namespaces are off (sysctl user.max_user_namespaces is 0): "
    return "no user namespace can be made: "


def _version(tools: Tools) -> tuple[int, ...] | None:
    try:
        said = subprocess.run(
            [tools.bwrap, "--version"], capture_output=True, timeout=_PATIENCE, env=CLEAN_ENVIRONMENT, cwd="/"
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(rb"(\d+)\.(\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else None


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text(encoding="ascii").strip()
    except OSError:
        return ""
