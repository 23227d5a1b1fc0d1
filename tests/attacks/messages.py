"""What one trial leaves for another in the kernel and in common folders."""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path

from .model import World

KEYRING = """\
py - <<'E'
import ctypes, platform
ADD, SEARCH, CONTROL = {"x86_64": (248, 250, 250), "aarch64": (217, 219, 219)}.get(platform.machine(), (0, 0, 0))
if not ADD:
    print("CANNOT: the numbers of system calls are not known here")
    raise SystemExit
call = ctypes.CDLL(None, use_errno=True).syscall
USER = ctypes.c_long(-4)
NAME = b"@mark@"
"""

LEAVE = (
    KEYRING
    + """
made = call(ADD, b"user", NAME, b"left by the neighbour", 21, USER)
call(CONTROL, 15, ctypes.c_long(made), 120)
import zlib
ctypes.CDLL(None).shmget(zlib.crc32(NAME) & 0x7fffffff, 4096, 0o1666)
for folder in ("/tmp", "/var/tmp", "/dev/shm"):
    try:
        open(f"{folder}/@mark@", "w").write("left by the neighbour\\n")
    except OSError:
        pass
E
"""
)
"""Run in the neighbouring trial. The key ends by itself after two minutes."""


def take_away(world: World) -> None:
    """Remove what drivers without isolation let the neighbour leave on this machine."""
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        Path(folder, world.mark).unlink(missing_ok=True)
    key = zlib.crc32(world.mark.encode()) & 0x7FFFFFFF
    subprocess.run(["ipcrm", "-M", str(key)], capture_output=True, check=False)
