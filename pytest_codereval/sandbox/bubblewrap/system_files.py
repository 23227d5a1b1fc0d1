"""The files of /etc that processes see: some of the harness's own, some written for them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import pwd
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from ..enclosure import Owner
from ..ownership import USERS

HOST_NAME = "sandbox"
ACCOUNT = "agent"

_SHOWN = (
    *("ssl", "pki", "ca-certificates", "ca-certificates.conf", "crypto-policies", "alternatives"),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld-musl-x86_64.path", "ld-musl-aarch64.path"),
    *("localtime", "timezone", "locale.conf", "mime.types", "magic", "terminfo", "inputrc"),
    *("profile", "profile.d", "bash.bashrc", "bashrc", "zsh", "zshenv", "zprofile", "zshrc", "shells"),
    *("services", "protocols", "os-release", "debian_version", "alpine-release", "redhat-release"),
    *("fonts", "python3", "perl", "java", "maven"),
)
"""What programs look for and what tells nothing about the operator."""

_MOST_COPIED, _MOST_BYTES = 400, 1 << 18

_HOSTS = f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost ip6-localhost ip6-loopback\n"
_NAME_SERVICES = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\n"


class SystemFiles:
    """Made once per directory of the harness and kept there; `nothing` is an empty file that nobody can read.

    Files and small folders are copied, as each mount costs time; large ones are mounted, `folders` by their targets.
    `etc` is the folder that is seen as /etc.
    """

    def __init__(self, folder: Path, owner: Owner | None) -> None:
        self._folder = folder
        self._owner = owner
        self.etc, large = _etc(folder)
        self.nothing = self._written("nothing", "", 0)
        uid = self._numbers()[0]
        accounts = {"passwd": self._accounts(), "group": self._groups()}
        own = {f"/etc/{name}": self._written(f"{name}-{uid}", text) for name, text in accounts.items()}
        self.folders: dict[str, str] = {**large, **own}

    def resolving(self, resolver: bool, hosts: Mapping[str, str]) -> dict[str, str]:
        """The files that say what a host name means, as far as those in `etc` do not: source by target.

        `resolver` tells that names are looked up outside, `hosts` are addresses by name.
        """
        text = _HOSTS + "".join(f"{address} {name}\n" for name, address in hosts.items())
        if not resolver:
            if not hosts:
                return {}
            name = f"hosts-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
            return {"/etc/hosts": self._written(name, text)}
        own = self._written("hosts-shared", text + _read("/etc/hosts"))
        return {"/etc/hosts": own, "/etc/resolv.conf": os.path.realpath("/etc/resolv.conf")}

    def _accounts(self) -> str:
        uid, gid = self._numbers()
        own = f"{_own_name(uid, self._owner)}:x:{uid}:{gid}:::/bin/sh\n" if uid else ""
        nobody = "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" if uid != 65534 else ""
        return f"root:x:0:0:root:/root:/bin/sh\n{own}{nobody}"

    def _groups(self) -> str:
        uid, gid = self._numbers()
        own = f"{_own_name(uid, self._owner)}:x:{gid}:\n" if gid else ""
        nobody = "nogroup:x:65534:\n" if gid != 65534 else ""
        return f"root:x:0:\ntty:x:5:\n{own}{nobody}"

    def _numbers(self) -> tuple[int, int]:
        return (self._owner.uid, self._owner.gid) if self._owner is not None else (os.getuid(), os.getgid())

    def _written(self, name: str, text: str, mode: int = 0o644) -> str:
        path = self._folder / name
        if not path.exists():
            fresh = self._folder / f"{name}.{secrets.token_hex(4)}"
            _write(fresh, text.encode(), mode)
            fresh.rename(path)
        return str(path)


@functools.lru_cache(maxsize=8)
def _etc(folder: Path) -> tuple[Path, dict[str, str]]:
    """What is the same for all users: the folder, and the large folders to be mounted in it. Raises OSError."""
    folder.mkdir(0o700, exist_ok=True)
    etc = folder / "etc"
    large = {}
    _make_folder(etc)
    for name in _SHOWN:
        source = Path(os.path.realpath(f"/etc/{name}"))
        if source.is_dir() and not _is_small(source):
            _make_folder(etc / name)
            large[f"/etc/{name}"] = str(source)
        else:
            _copy(source, etc / name)
    own = {"passwd": "", "group": "", "nsswitch.conf": _NAME_SERVICES, "resolv.conf": ""}
    own |= {"hostname": f"{HOST_NAME}\n", "hosts": _HOSTS}
    for name, text in own.items():
        _write(etc / name, text.encode())
    return etc, large


@functools.lru_cache(maxsize=USERS)
def system_files(folder: Path, owner: Owner | None) -> SystemFiles:
    """Those that are kept in `folder`. Raises OSError."""
    return SystemFiles(folder, owner)


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.write_bytes(content)
    path.chmod(mode)


def _make_folder(path: Path) -> None:
    path.mkdir(exist_ok=True)
    path.chmod(0o755)


def _is_small(folder: Path) -> bool:
    """Whether a folder is sooner copied than mounted again and again."""
    entries = list(itertools.islice(folder.rglob("*"), _MOST_COPIED + 1))
    return len(entries) <= _MOST_COPIED and sum(entry.lstat().st_size for entry in entries) <= _MOST_BYTES


def _copy(source: Path, target: Path) -> None:
    """Copy what every user can read, links as they are."""
    with contextlib.suppress(OSError):
        mode = source.lstat().st_mode
        if stat.S_ISLNK(mode):
            target.symlink_to(source.readlink())
        elif stat.S_ISDIR(mode) and mode & stat.S_IXOTH:
            _make_folder(target)
            for entry in source.iterdir():
                _copy(entry, target / entry.name)
        elif stat.S_ISREG(mode) and mode & stat.S_IROTH:
            _write(target, source.read_bytes(), 0o755 if mode & stat.S_IXOTH else 0o644)


def _own_name(uid: int, owner: Owner | None) -> str:
    if owner is not None:
        return ACCOUNT
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user{uid}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
