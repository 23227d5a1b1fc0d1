"""Rendering of the recording shims: POSIX sh, so that nothing else is needed where the agent works.

A shim writes its call to a file of its own in `calls` (NUL-separated, closed by END), then names that file in a short
line through the FIFO `index`. Then it gives its constant reply, or asks the harness, or runs the real program, and at
last names the call once more with its exit status. A constant reply starts no second program and reads nothing.

Lines of the index, where `call` is the name of the record: `call` (made), `call<` (its standard input was read),
`call?` (asks for a place to wait), `call?N` and `call?N:S` (waits at place N; the real program ended with status S),
`call=S` (ended), `!tool` (could not be recorded), `!?tool` (got no answer). The first that names a call with `call` or
`call?` announces its record.
"""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from ...errors import Cause, TrialError
from ..answering import ShimPlan
from . import reply_text
from .shell_text import quote

RECORD_VERSION = "2"
CALLS = "calls"
INDEX = "index"
OK = "ok"
REPLIES = "replies"
CLAIM = ".claim"
ROOM = "room"
LOST_MARK = "!"
UNANSWERED_MARK = "!?"
MAX_TRIES = 8
"""How many names a shim tries for its record before it says that it cannot record."""

MAX_ROUNDS = 1000
"""How often a shim looks for a place to wait before it says that it gets no answer."""

NEEDED_BY_SHIMS = frozenset({"cat", "env"})
"""The programs that shims themselves run, by absolute paths."""

_DASHES = ("/bin/dash", "/usr/bin/dash")
_ENVS = ("/usr/bin/env", "/bin/env")

_HEAD = """\
#!{interpreter}
# Recording shim for {tool}, made by pytest-codereval.
{hold}umask 077
set -C
codereval_spool={spool}
codereval_n=0
codereval_lost=
until {{ printf '%s\\0' {version} {tool} "$PWD" "$PPID" "$#" {count} "$@" {variables}END \
>"$codereval_spool/{calls}/$$.$codereval_n"; }} 2>&-; do
    codereval_n=$((codereval_n + 1))
    case $codereval_n in {tries}) codereval_lost=1 && break ;; esac
done
codereval_call=$$.$codereval_n
{announce}case $codereval_lost in
1)
    {{ printf '' >|"$codereval_spool/{ok}"; }} 2>&-
    {{ printf '%s\\n' '{lost_mark}{tool}' >>"$codereval_spool/{index}"; }} 2>&-
    printf '%s: this call could not be recorded\\n' {tool} >&2
    ;;
esac
"""

_ANNOUNCE = f"""\
case $codereval_lost in '') {{ printf '%s\\n' "$codereval_call" >>"$codereval_spool/{INDEX}"; }} 2>&- || \
codereval_lost=1 ;; esac
"""

_HOLD = "trap '' HUP INT QUIT PIPE TERM XFSZ\n"

_PREPARE = """\
codereval_open=
codereval_mode=ask
codereval_killed=
codereval_came() {
    case $codereval_mode in
    ask)
        case "$codereval_open " in
        *" $1 "*) codereval_killed=$1 ;;
        *) codereval_open="$codereval_open $1" ;;
        esac
        ;;
    hold) codereval_killed=$1 ;;
    die)
        trap - "$1"
        kill "-$1" $$
        exit 131
        ;;
    *) codereval_pass "$1" ;;
    esac
}
codereval_let_go() {
    codereval_mode=$1
    trap - PIPE XFSZ
    case $codereval_killed in '') ;; *) codereval_came "$codereval_killed" ;; esac
}
codereval_hold() {
    codereval_mode=hold
    trap '' PIPE XFSZ
}
for codereval_signal in HUP INT QUIT TERM USR1 USR2; do
    trap "codereval_came $codereval_signal" "$codereval_signal"
    kill "-$codereval_signal" $$
done
codereval_hold
codereval_umask=$(umask)
"""
"""Finds out which signals the caller does not ignore, and the caller's umask, for a program that is run later.

From then on each of these signals is caught. Held, it is kept in mind until it is let go; then it ends the shim, or is
passed on to the program that the shim runs. bash and busybox cannot die of QUIT, so they exit as if they had.
"""

_ASK = """\
codereval_ask() {{
    codereval_slot=0
    codereval_round=0
    codereval_hold
    until {{ printf '' >"$codereval_spool/{replies}/$codereval_slot{claim}"; }} 2>&-; do
        codereval_slot=$((codereval_slot + 1))
        [ -p "$codereval_spool/{replies}/$codereval_slot" ] && continue
        codereval_slot=0
        codereval_round=$((codereval_round + 1))
        case $codereval_round in {rounds}) return 1 ;; esac
        {{
            printf '%s?\\n' "$codereval_call" >>"$codereval_spool/{index}" || return 1
            codereval_let_go die
            read -r codereval_text
            codereval_hold
        }} <"$codereval_spool/{replies}/{room}" 2>&-
    done
    codereval_text=
    {{
        printf '%s?%s\\n' "$codereval_call" "$codereval_slot$codereval_ended" >>"$codereval_spool/{index}" || return 1
        codereval_let_go die
        read -r codereval_text
    }} <"$codereval_spool/{replies}/$codereval_slot" 2>&-
    case $codereval_text in '') return 1 ;; esac
}}
codereval_ended=
codereval_more=1
case $codereval_lost in 1) exit 1 ;; esac
while case $codereval_more in '') false ;; *) codereval_ask ;; esac; do
    codereval_more=
    command . "$codereval_spool/{replies}/$codereval_text"
done
codereval_hold
{{ printf '%s\\n' '{unanswered_mark}{tool}' >>"$codereval_spool/{index}"; }} 2>&- || \
{{ printf '' >|"$codereval_spool/{ok}"; }} 2>&-
printf '%s: this call was recorded, but it got no answer\\n' {tool} >&2
exit 1
"""


@functools.cache
def find_interpreter() -> str:
    """The shebang of the shims on this machine: an absolute path, and an option where the shell needs one.

    dash and busybox take nothing from the environment that could change a script. bash does, but for `-p`.
    """
    for dash in _DASHES:
        if os.access(dash, os.X_OK):
            return os.path.realpath(dash)
    shell = os.path.realpath("/bin/sh")
    if not os.access(shell, os.X_OK):
        raise TrialError(Cause.SANDBOX, "recording needs a POSIX shell: there is no /bin/sh")
    name = Path(shell).name
    if name.startswith("busybox"):
        return f"{shell} sh"
    return shell if name in ("dash", "ash") else f"{shell} -p"


@functools.cache
def find_env() -> str | None:
    """The path of an env(1) that can give a program signals back that its shell ignores, if there is one here."""
    for env in _ENVS:
        if not os.access(env, os.X_OK):
            continue
        command = [env, "--default-signal=INT,QUIT", "/bin/sh", "-c", ":"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return env
    return None


def runner(tool: str, shim: Path, interpreter: str, *, foreign_system: bool = False) -> reply_text.Runner:
    """How the real program behind `shim` is run by a shim of this interpreter, which may be in a foreign system."""
    own = Path(interpreter.split()[0]).name not in ("dash", "ash", "busybox")
    return reply_text.Runner(tool, os.fspath(shim), env=None if own or foreign_system else find_env(), shell_resets=own)


def render(plan: ShimPlan, spool: Path, interpreter: str, real: reply_text.Runner) -> bytes:
    """Return the text of a shim that records calls in `spool`; `real` is how it passes them on. It is pure ASCII."""
    runs = plan.asks or plan.passthrough
    text = _HEAD.format(
        interpreter=interpreter,
        version=RECORD_VERSION,
        tool=plan.tool,
        spool=quote(os.fspath(spool)),
        hold=_PREPARE if runs or plan.read_stdin else _HOLD,
        count=len(plan.variables),
        variables="".join(f'"${{{name}+{name}=${name}}}" ' for name in plan.variables),
        tries=MAX_TRIES,
        calls=CALLS,
        announce="" if plan.asks and not plan.read_stdin else _ANNOUNCE,
        index=INDEX,
        ok=OK,
        lost_mark=LOST_MARK,
    )
    if plan.read_stdin:
        text += reply_text.RUN + reply_text.keep_stdin()
    return (text + _ending(plan, real)).encode("utf-8", "surrogateescape")


def _ending(plan: ShimPlan, real: reply_text.Runner) -> str:
    if plan.asks:
        return _ASK.format(
            tool=plan.tool,
            replies=REPLIES,
            claim=CLAIM,
            rounds=MAX_ROUNDS,
            room=ROOM,
            index=INDEX,
            ok=OK,
            unanswered_mark=UNANSWERED_MARK,
        )
    if plan.passthrough:
        run = "" if plan.read_stdin else reply_text.RUN
        return run + reply_text.run_real(real)
    return reply_text.printed(plan.stdout, plan.stderr, plan.exit_status, constant=True)
