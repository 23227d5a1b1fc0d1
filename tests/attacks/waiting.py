"""Attacks that wait until grading has begun."""

from __future__ import annotations

from .model import EVERYWHERE, Attack, Outcome, Setting, command

WAIT = Setting("wait")
PATIENCE = "i=0; while [ $i -lt 8 ] && [ ! -e {0} ]; do sleep 0.05; i=$((i+1)); done; test -e {0}"
"""A grader that takes its time: it passes when the file turns up."""

LOOP = """\
while :; do
    for d in "$1"/reference-*; do [ -d "$d" ] && cp "$d/answer.txt" "$2/late-$3"; done
    sleep 0.02 || :
done
"""
"""Copies the reference into the workspace as soon as it is laid out for graders. Arguments: root, workspace, name."""

INOTIFY = """\
cat >watch.py <<'E'
import ctypes, glob, os, shutil, sys
root, workspace, name = sys.argv[1:4]
libc = ctypes.CDLL(None)
handle = libc.inotify_init()
libc.inotify_add_watch(handle, root.encode(), 0x100 | 0x80)
if os.fork():
    os._exit(0)
os.setsid()
while os.read(handle, 4096):
    for path in glob.glob(f"{root}/reference-*/answer.txt"):
        shutil.copy(path, f"{workspace}/late-{name}")
    import time; time.sleep(0.02)
    for path in glob.glob(f"{root}/reference-*/answer.txt"):
        shutil.copy(path, f"{workspace}/late-{name}")
E
py watch.py $root $PWD inotify @mark@-inotify </dev/null >/dev/null 2>&1
"""


QUIET = "exec </dev/null >/dev/null 2>&1\n"


def _lived(outcome: Outcome) -> bool:
    return outcome.alive or outcome.passed


def _waiter(name: str, tries: str, script: str, setting: Setting = WAIT, kills: bool = False) -> Attack:
    return Attack(
        name=name,
        tries=tries,
        success="a process lives after the seal, or puts the reference into the graded workspace",
        setting=setting,
        script="cat >loop.sh <<'E'\n" + LOOP + "E\n" + script,
        succeeded=_lived,
        criteria=(command(PATIENCE.format(f"late-{name}")),),
        kills=kills,
    )


ATTACKS = (
    _waiter(
        "background",
        "leave a process in the background that ignores all signals",
        QUIET + "(trap '' HUP TERM INT QUIT; exec sh loop.sh $root $PWD background @mark@-background) &",
    ),
    _waiter(
        "session-of-its-own",
        "leave a process in a session of its own, with an empty environment",
        QUIET + "env -i setsid nohup sh loop.sh $root $PWD session-of-its-own @mark@-session-of-its-own &",
    ),
    _waiter(
        "double-fork",
        "leave the child of a child whose parents are gone",
        QUIET + "setsid sh -c '(sh loop.sh \"$@\" &) &' x $root $PWD double-fork @mark@-double-fork",
    ),
    _waiter(
        "again-and-again",
        "leave a process that goes on in a new one of another session every few milliseconds",
        """\
cat >chain.sh <<'E'
for d in "$1"/reference-*; do [ -d "$d" ] && cp "$d/answer.txt" "$2/late-$3"; done
sleep 0.02
[ $5 -gt 0 ] && setsid sh chain.sh "$1" "$2" "$3" "$4" $(($5 - 1)) &
E
setsid sh chain.sh $root $PWD again-and-again @mark@-again-and-again 300 </dev/null >/dev/null 2>&1 &
""",
    ),
    _waiter("inotify", "have the kernel tell when something appears in the trial's folder", INOTIFY),
    _waiter(
        "kill-the-keeper",
        "end the process that looks after it, then go on",
        "setsid sh loop.sh $root $PWD kill-the-keeper @mark@-kill-the-keeper </dev/null >/dev/null 2>&1 &\n"
        "kill -9 $PPID",
        Setting("keeper", alone=EVERYWHERE),
        kills=True,
    ),
)
