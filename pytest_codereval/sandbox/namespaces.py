"""Listening sockets inside the network namespace of another process."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from ..errors import Cause, TrialError

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NS_GET_USERNS = 0xB701
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_BACKLOG = 128
_PATIENCE = 20.0

_HELPER = f"import sys; sys.path.append(sys.argv[1]); from {__name__} import _help; _help(*sys.argv[2:])"
_ABOVE = Path(__file__).absolute().parents[__name__.count(".")]


def listen_in(pid: int, address: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A listening TCP socket at `address` in the network namespace of process `pid`; port 0 is any free one.

    It belongs to that namespace for good, whatever becomes of the process. Brings the loopback interface up. Works as
    root, and for the user who made the namespace. Raises TrialError(SANDBOX).
    """
    try:
        with _opened(f"/proc/{pid}/ns/net") as namespace:
            if _is_own(namespace):
                return _listening(address, port)
            if os.geteuid() == 0:
                return _in_thread(namespace, address, port)
            return _by_helper(namespace, address, port)
    except OSError as error:
        raise TrialError(Cause.SANDBOX, f"cannot listen at {address} in the network of the sandbox: {error}") from error


def owner_of(namespace: int) -> int:
    """A descriptor of the user namespace that a namespace, given by a descriptor, belongs to. Raises OSError."""
    return fcntl.ioctl(namespace, NS_GET_USERNS)


def enter(namespace: int, kind: int) -> None:
    """Move the calling thread into a namespace. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_own(namespace: int) -> bool:
    found, own = os.fstat(namespace), Path("/proc/self/ns/net").stat()
    return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)


def _listening(address: str, port: int) -> socket.socket:
    _bring_loopback_up()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=_BACKLOG)


def _bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(sock, _SIOCGIFFLAGS, request))[1]
        if not flags & _IFF_UP:
            fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


def _in_thread(namespace: int, address: str, port: int) -> socket.socket:
    """Only the calling thread changes its namespace, and the thread ends with the socket made."""
    made: list[socket.socket] = []
    failed: list[OSError] = []

    def make() -> None:
        try:
            enter(namespace, CLONE_NEWNET)
            made.append(_listening(address, port))
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=make, name="codereval-listen")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def _by_helper(namespace: int, address: str, port: int) -> socket.socket:
    """A process with one thread enters the user namespace first, which gives it the rights over the network."""
    user = owner_of(namespace)
    ours, theirs = socket.socketpair()
    numbers = [theirs.fileno(), user, namespace]
    arguments = [str(_ABOVE), *map(str, numbers), address, str(port)]
    try:
        with ours, theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-c", _HELPER, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=numbers,
                env={},
            )
            theirs.close()
            with _ended(process):
                ours.settimeout(_PATIENCE)
                message, descriptors, _, _ = socket.recv_fds(ours, 4096, 1)
    finally:
        os.close(user)
    if not descriptors:
        raise OSError(message.decode("utf-8", "replace") or "the helper died")
    return socket.socket(fileno=descriptors[0])


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _help(channel: str, user: str, namespace: str, address: str, port: str) -> None:
    """What the helper does: send the socket, or the reason why there is none."""
    with socket.socket(fileno=int(channel)) as sock:
        try:
            enter(int(user), CLONE_NEWUSER)
            enter(int(namespace), CLONE_NEWNET)
            with _listening(address, int(port)) as made:
                socket.send_fds(sock, [b"made"], [made.fileno()])
        except OSError as error:
            sock.send(str(error).encode("utf-8", "replace"))
