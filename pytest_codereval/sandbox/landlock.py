"""Landlock, by which a thread gives up rights for itself and all that it starts, for ever and without privileges."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat
import struct
import sys
from collections.abc import Iterable
from typing import NamedTuple

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1
_BENEATH, _PORT = 1, 2
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = (1 << bit for bit in range(6, 13))
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_BIND, _CONNECT = 1, 2
_SCOPES = {"abstract sockets": 1, "signals": 2}

FILES, TRUNCATE, TCP, DEVICES, SCOPES = 2, 3, 4, 5, 6
"""The versions of Landlock's interface from which on files (and moving them from one directory to another), shortening
them, TCP, commands to devices, and signals and abstract sockets can be restricted."""

_READ = _EXECUTE | _READ_FILE | _READ_DIR
_ON_A_FILE = _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
_NOWHERE = _MAKE_CHAR | _MAKE_BLOCK


class Rules(NamedTuple):
    """What is left to a restricted thread.

    `readable` and `writable` are paths below which it may read and run, or do everything but make devices; files are
    not restricted when `readable` is None. `ports` are those to which it may connect by TCP, all when it is None;
    where there are some it cannot bind any. `scopes` ("signals", "abstract sockets") end where the restriction does.
    """

    readable: tuple[str, ...] | None = None
    writable: tuple[str, ...] = ()
    ports: tuple[int, ...] | None = None
    scopes: tuple[str, ...] = ()


@functools.cache
def abi() -> int:
    """The version of Landlock's interface that the kernel has, 0 for none."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    except (AttributeError, OSError):
        return 0


def restrict(rules: Rules) -> None:
    """Keep this thread, and what it starts from now on, to the rules. A path that is not there allows nothing.

    Raises OSError, when the kernel cannot do it too; then nothing is restricted.
    """
    files, network, scopes = _handled(rules)
    attributes = struct.pack("=QQQ", files, network, scopes)[: 24 if scopes else 16 if network else 8]
    ruleset = _call(_CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        _allow_beneath(ruleset, rules.readable or (), files & _READ)
        _allow_beneath(ruleset, rules.writable, files & ~_NOWHERE)
        for port in rules.ports or ():
            _add(ruleset, _PORT, struct.pack("=QQ", _CONNECT, port))
        if _libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise _error()
        _call(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _handled(rules: Rules) -> tuple[int, int, int]:
    """The rights over files, TCP and scopes that the rules are about. Raises OSError when the kernel lacks them."""
    version = abi()
    asked = {FILES: rules.readable is not None, TCP: rules.ports is not None, SCOPES: bool(rules.scopes)}
    needed = max((least for least, needed in asked.items() if needed), default=1)
    if version < needed:
        raise OSError(errno.ENOSYS, f"the kernel has Landlock {version}, and {needed} is needed")
    files = (_REFER << 1) - 1
    files |= (_TRUNCATE if version >= TRUNCATE else 0) | (_IOCTL_DEV if version >= DEVICES else 0)
    scopes = sum(_SCOPES[scope] for scope in rules.scopes)
    return files if asked[FILES] else 0, _BIND | _CONNECT if asked[TCP] else 0, scopes


def _allow_beneath(ruleset: int, paths: Iterable[str], rights: int) -> None:
    for path in paths:
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
            _add(ruleset, _BENEATH, struct.pack("=Qi", rights if is_folder else rights & _ON_A_FILE, place))
        finally:
            os.close(place)


def _add(ruleset: int, kind: int, rule: bytes) -> None:
    _call(_ADD_RULE, ruleset, kind, ctypes.c_char_p(rule), ctypes.c_uint32(0))


def _call(number: int, *arguments: object) -> int:
    result: int = _libc().syscall(number, *arguments)
    if result < 0:
        raise _error()
    return result


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
