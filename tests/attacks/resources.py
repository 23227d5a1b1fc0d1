"""Attacks that use up the machine. All are small: they need a little more than their limits give."""

from __future__ import annotations

from .model import DETECTED, EVERYWHERE, Attack, Expected, Outcome, Setting, State, said

LIMITED = Expected(bubblewrap_as_user=State.REFUSED, tempdir_as_user=State.REFUSED)
"""Without control groups, which a normal user mostly may not make, these drivers refuse a task that asks for it."""

BOMBS = Setting("bombs", {"sandbox": {"limits": {"max_pids": 64, "max_memory_mb": 96}}})
DISK = Setting("disk", {"sandbox": {"limits": {"max_disk_mb": 8}}}, alone=EVERYWHERE)
PLAIN = Setting("plain")

FORKS = """\
py - <<'E'
import os, signal, time
made = []
try:
    while len(made) < 300:
        pid = os.fork()
        if pid == 0:
            time.sleep(20)
            os._exit(0)
        made.append(pid)
    print("300 processes")
except OSError as error:
    print(len(made), error)
for pid in made:
    os.kill(pid, signal.SIGKILL)
E
"""

MEMORY = """\
py -c '
kept = []
while len(kept) < 300:
    kept.append(bytearray(b"x" * (1 << 20)))
print("300 megabytes")
'
"""

DISK_FULL = (
    "head -c 24000000 /dev/zero >a; sync a; test $(stat -c %s a) = 24000000 && echo '24 megabytes'; sleep 3; ls -l a"
)
MANY_FILES = """\
py - <<'E'
import os
os.mkdir("many")
try:
    for n in range(2500):
        with open(f"many/{n}", "w") as file:
            file.write("x")
    print("2500 files")
except OSError as error:
    print(n, error)
E
sleep 3
"""


def _kept_all(outcome: Outcome) -> bool:
    return len(outcome.output) > 4_000_000


ATTACKS = (
    Attack(
        name="fork-bomb",
        tries="start 300 processes, where 64 are allowed",
        success="all of them run",
        setting=BOMBS,
        script=FORKS,
        succeeded=said("300 processes"),
        expected=LIMITED,
    ),
    Attack(
        name="memory-bomb",
        tries="use 300 megabytes of memory, where 96 are allowed",
        success="it has them",
        setting=BOMBS,
        script=MEMORY,
        succeeded=said("300 megabytes"),
        expected=LIMITED,
    ),
    Attack(
        name="large-file",
        tries="write 24 megabytes, where 8 are allowed",
        success="they are written",
        setting=DISK,
        script=DISK_FULL,
        succeeded=said("24 megabytes"),
        expected=DETECTED,
    ),
    Attack(
        name="many-files",
        tries="write 2,500 small files, which take 10 megabytes, where 8 are allowed",
        success="they are written",
        setting=DISK,
        script=MANY_FILES,
        succeeded=said("2500 files"),
        expected=DETECTED,
    ),
    Attack(
        name="flood-of-output",
        tries="print 6 megabytes",
        success="the harness keeps them all in its memory and in the record",
        setting=PLAIN,
        script="head -c 6000000 /dev/zero | tr '\\0' x",
        succeeded=_kept_all,
    ),
    Attack(
        name="hog",
        tries="keep all processors busy beyond its time",
        success="it goes on after the trial's end",
        setting=PLAIN,
        script="exec </dev/null >/dev/null 2>&1\n"
        "for i in 1 2; do setsid sh -c 'while :; do :; done' @mark@-hog & done; sleep 60",
        succeeded=lambda outcome: outcome.alive,
        timeout=2,
    ),
)
