"""What processes of the `tempdir` driver may still do where the kernel has Landlock, and what that leaves open."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from . import landlock
from .enclosure import NetworkKind, View
from .exposure import exposed
from .host_path import lies_in
from .landlock import Rules

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/proc", "/sys"),
    *("/nix", "/gnu", "/snap", "/home/linuxbrew/.linuxbrew", "/run/current-system", "/run/opengl-driver"),
    *("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager"),
    *("/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm", "/var/lib/pacman", "/var/lib/snapd", "/var/lib/flatpak"),
    *("/var/lib/dbus", "/var/lib/ca-certificates", "/var/lib/gems", "/var/lib/texmf", "/var/lib/ghc"),
    *("/var/cache/fontconfig", "/var/cache/man"),
)
"""Read and run by the agent: installed programs and what they need."""

_CREDENTIALS = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/docker", "/etc/kubernetes", "/etc/krb5.keytab", "/etc/NetworkManager", "/etc/wireguard", "/etc/ipsec.d"),
    *("/etc/ssl/private", "/etc/ssh"),
)
"""What only root can read in a place that the agent may read; where the harness is root it is kept back."""

_LINKED = ("/etc/resolv.conf", "/etc/hosts", "/etc/localtime", "/etc/ssl/certs", "/etc/ssl/cert.pem")
"""Often links that lead elsewhere."""

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "dri", "kfd", "nvidia*")
_TEMPORARY = "/tmp"
_SHARED = (os.path.realpath(_TEMPORARY), "/dev/shm")
"""Written to by all programs of this machine."""

_MARKS = ("pyvenv.cfg", "conda-meta")
_NO_HOMES = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev")
"""What users of services have as their home."""


def rules_for(view: View, *, files: bool, kept_out: Iterable[Path] = (), readable: Iterable[Path] = ()) -> Rules | None:
    """What the processes that see `view` are kept to on this kernel; None where it has nothing for it.

    Without `files` they may read and write what their user can. `kept_out` are further places that they must not see,
    `readable` some that they may.
    """
    version = landlock.abi()
    may_read, may_write = _files(view, kept_out, readable) if files and version >= landlock.FILES else (None, ())
    bounded = view.network.kind != "shared" and version >= landlock.TCP
    scopes = ("signals", *(["abstract sockets"] if files else ())) if version >= landlock.SCOPES else ()
    rules = Rules(may_read, may_write, view.ports if bounded else None, scopes)
    return rules if rules != Rules() else None


def _files(view: View, kept_out: Iterable[Path], readable: Iterable[Path]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What may be read and what may be written to.

    A rule holds for all below a path and nothing can be taken from it again. So a place with something in it that must
    not be seen is given piece by piece, and the directory for temporary files only when nothing of that kind is in it.
    """
    secret = _secret([*view.hidden, *kept_out])
    mounted = [mount.source for mount in view.mounts if not mount.writable]
    shared = _real([*SYSTEM, *_LINKED, *_installations(secret), *readable, *mounted])
    may_read = [piece for path in shared if os.path.lexists(path) for piece in _without(path, secret)]
    may_write = [str(mount.source) for mount in view.mounts if mount.writable]
    may_write += [str(path) for name in _DEVICES for path in Path("/dev").glob(name)]
    may_write += [place for place in _SHARED if not any(lies_in(path, place) for path in secret)]
    return tuple(may_read), tuple(may_write)


def leaves_temporary(kept_out: Iterable[Path]) -> bool:
    """Whether the agent may use the directory for temporary files as all programs do: none of these lies in it."""
    return not any(lies_in(path, _SHARED[0]) for path in _secret(kept_out))


def _secret(places: Iterable[Path]) -> list[str]:
    return _real([*places, *_home(), *(path for path in _CREDENTIALS if os.access(path, os.R_OK))])


def _real(paths: Iterable[str | Path]) -> list[str]:
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))


def _home() -> list[str]:
    try:
        home = os.path.realpath(Path.home())
    except RuntimeError:
        return []
    return [] if home == "/" or any(lies_in(home, place) for place in _NO_HOMES) else [home]


def _installations(secret: Collection[str]) -> list[str]:
    """The places of the programs on the harness's PATH; in a secret place only what is an installation for itself."""
    folders = tuple(folder for folder in os.get_exec_path() if folder.startswith("/"))
    own = (*folders, *(f"{prefix}{part}" for prefix in (sys.prefix, sys.base_prefix) for part in ("", "/bin")))
    return [
        path
        for path in _beside_the_system(folders)
        if path in own or not any(lies_in(path, place) for place in secret) or _is_installation(path)
    ]


@functools.lru_cache(maxsize=8)
def _beside_the_system(folders: tuple[str, ...]) -> tuple[str, ...]:
    found = map(str, exposed(folders))
    return tuple(path for path in found if not any(lies_in(path, place) for place in SYSTEM))


def _is_installation(path: str) -> bool:
    """Whether a path lies in a virtual environment, or in what npm, conda or a manager of versions installed."""
    return any(_holds_an_installation(place) for place in (Path(path), *Path(path).parents))


def _holds_an_installation(place: Path) -> bool:
    marked = any(os.path.lexists(place / mark) for mark in _MARKS)
    return marked or place.name == "node_modules" or all((place / name).is_dir() for name in ("shims", "versions"))


def _without(path: str, secret: Collection[str]) -> list[str]:
    """`path`, or in place of it what lies there and neither is secret nor holds what is. Links are left out there."""
    if path in secret:
        return []
    if not any(lies_in(place, path) for place in secret):
        return [path]
    try:
        with os.scandir(path) as entries:
            below = sorted(entry.path for entry in entries if not entry.is_symlink())
    except OSError:
        return []
    return [piece for each in below for piece in _without(each, secret)]


def lack_for(network: NetworkKind) -> str | None:
    """Why a network cannot be had here; None when it can."""
    if network == "allow":
        return "sandbox.network: it cannot tell hosts apart, which bubblewrap and docker can"
    if network == "none" and landlock.abi() < landlock.TCP:
        return f"sandbox.network: it takes Landlock {landlock.TCP} (Linux 6.7) to bound it, {_means()} is here"
    return None


def account(network: NetworkKind, *, temporary: bool) -> dict[str, object]:
    """What this driver isolates on this kernel, and what it does not, in a few words each.

    `temporary` tells that the agent may use the directory for temporary files.
    `sandboxes_inside` tells whether programs can make such with mounts of their own, as bubblewrap does.
    """
    version = landlock.abi()
    return {
        "means": _means(),
        "landlock": version,
        "sandboxes_inside": version < landlock.FILES,
        "network": _network_text(network),
        "isolates": [*_COMMON, *_isolated(version)],
        "does_not_isolate": _open(version, network, temporary),
    }


RESOURCES = "memory and processors"

_COMMON = ("folders and HOME of its own", "an explicit environment", "no process of it outlives the trial")


def _means() -> str:
    return f"Landlock {landlock.abi()}" if landlock.abi() else "no Landlock"


def _network_text(network: NetworkKind) -> str:
    return "that of this machine" if network == "shared" else "TCP to the harness only; other protocols are not bounded"


def _shared_text(temporary: bool) -> str:
    return (
        f"{_TEMPORARY} and /dev/shm, which all processes share" if temporary else "/dev/shm, which all processes share"
    )


def _isolated(version: int) -> list[str]:
    found = []
    if version >= landlock.FILES:
        found.append("files of others: the agent reads the system, the programs on PATH and its own, writes its own")
    if version >= landlock.SCOPES:
        found.append("signals to and memory of other processes")
    return found


def _open(version: int, network: NetworkKind, temporary: bool) -> list[str]:
    """What a process of this user can do all the same."""
    user = "the user: the agent is the one that pytest runs as" + (", root" if os.geteuid() == 0 else "")
    if version < landlock.FILES:
        lack = f"the kernel's Landlock {version} cannot" if version else "the kernel has no Landlock to"
        files = [f"files: it reads and writes what that user can ({lack} restrict them)"]
    else:
        files = ["names, sizes, times and permissions of files elsewhere", _shared_text(temporary)]
        if version < landlock.TRUNCATE:
            files.append("files elsewhere from being cut short")
    processes = [] if version >= landlock.SCOPES else ["signals to other processes"]
    net = ["the network"] if network == "shared" else ["network protocols other than TCP"]
    sockets = "sockets of other programs on the disk, such as those of docker and ssh-agent"
    rest = ["the list of processes", RESOURCES, "what pre_run and graders read"]
    return [user, *files, *processes, *net, sockets, *rest]
