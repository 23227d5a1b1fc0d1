"""The pieces of shell text that end a call: print, read standard input, run the real program.

They are parts of a shim, or lie for an instant where a shim that asks reads them. They use its variables: the spool,
the call's name, whether it was lost, the caller's umask, and `codereval_open`, the signals that the caller does not
ignore.
"""

from __future__ import annotations

import dataclasses

from .shell_text import printf_format, quote

STDIN_LIMIT = 64 * 1024 * 1024
"""Bytes of standard input that are read."""

_CATS = ("/bin/cat", "/usr/bin/cat")
_BLOCK = 512

_END = """{ printf '%s=%s\\n' "$codereval_call" "$codereval_status" >>"$codereval_spool/index"; } 2>&-"""
_RECORDED_END = f"case $codereval_lost in '') {_END} ;; esac\n"
_HOLD = "trap '' HUP INT QUIT PIPE TERM XFSZ\n"
_LET_GO = "trap - HUP INT QUIT TERM\n"

RUN = """\
codereval_pass() {
    codereval_caught=$1
    codereval_again=1
    case $1 in
    INT | QUIT) codereval_send=${codereval_keyboard:-$1} ;;
    *) codereval_send=$1 ;;
    esac
    { printf '%s\\n' "$1" >|"$codereval_spool/replies/$codereval_call.signal"; } 2>&-
    case $codereval_pid in '') ;; *) kill "-$codereval_send" "$codereval_pid" 2>&- ;; esac
}
codereval_begin() {
    if [ -f "$codereval_spool/replies/$codereval_call.signal" ]; then
        read -r codereval_signal <"$codereval_spool/replies/$codereval_call.signal"
        case $codereval_signal in HUP) exit 129 ;; INT) exit 130 ;; QUIT) exit 131 ;; *) exit 143 ;; esac
    fi
    "$@"
}
codereval_run() {
    codereval_caught=
    codereval_again=
    codereval_pid=
    codereval_let_go pass
    codereval_killed=
    if { true 9<&0; } 2>&-; then
        for codereval_fd in 9 8 7 6 5 4 3; do { true <&"$codereval_fd"; } 2>&- || break; done
        eval "{ codereval_begin \\"\\$@\\" <&$codereval_fd $codereval_fd<&- & } $codereval_fd<&0"
    else
        codereval_begin "$@" <&- &
    fi
    codereval_pid=$!
    case $codereval_caught in '') ;; *) kill "-$codereval_send" "$codereval_pid" 2>&- ;; esac
    {
        wait "$codereval_pid"
        codereval_status=$?
        while case $codereval_again in '') false ;; esac; do
            codereval_again=
            wait "$codereval_pid"
            codereval_later=$?
            case $codereval_later in 127 | -*) ;; *) codereval_status=$codereval_later ;; esac
        done
    } 2>&-
    codereval_hold
    case $codereval_keyboard$codereval_caught$codereval_status in
    TERMINT143) codereval_status=130 ;;
    TERMQUIT143) codereval_status=131 ;;
    esac
}
codereval_leave() {
    case $codereval_status in
    14[5-9] | 150) ;;
    129 | 1[345]?)
        { ulimit -c 0; } 2>&-
        trap - "$((codereval_status - 128))"
        kill "-$((codereval_status - 128))" $$
        ;;
    esac
    exit "$codereval_status"
}
"""
"""Functions that run a program with the caller's standard input, pass signals on to it, and end as it ended.

A program in the background gets /dev/null for its standard input and ignores INT and QUIT unless a shell is told
otherwise; `codereval_keyboard` is the signal to send in their place where that cannot be undone. `wait` is repeated
when a signal ended it; then 127 or, in bash, -1 means that it told the status before. A signal that comes while
the background process is being made would be lost there, so it is written down for it to see.
"""

_FIND = """\
codereval_find() {{
    codereval_rest=$PATH:
    while case $codereval_rest in '') false ;; esac; do
        codereval_folder=${{codereval_rest%%:*}}
        codereval_rest=${{codereval_rest#*:}}
        case $codereval_folder in
        '') codereval_folder=. ;;
        /*) ;;
        *) codereval_folder=./$codereval_folder ;;
        esac
        codereval_program=$codereval_folder/{tool}
        [ -f "$codereval_program" ] && [ -x "$codereval_program" ] || continue
        [ "$codereval_program" -ef {shim} ] || [ "$codereval_program" -ef "$0" ] || return 0
    done
    return 1
}}
if ! codereval_find; then
    printf '%s\\n' {not_found} >&2
    codereval_status=127
    {end}
    exit 127
fi
"""

_REAL = """\
codereval_default=
codereval_keyboard=TERM
{choose}codereval_real() {{
    umask "$codereval_umask"
    trap - $codereval_open PIPE XFSZ
    case $codereval_default in
    '') exec "$codereval_program" "$@" ;;
    *) exec {env} "--default-signal=$codereval_default" "$codereval_program" "$@" ;;
    esac
}}
"""

_CHOOSE = """\
case $codereval_program in
*=*) ;;
*)
    case $codereval_open in *INT*) codereval_default=INT ;; esac
    case $codereval_open in *QUIT*) codereval_default=${codereval_default:+$codereval_default,}QUIT ;; esac
    codereval_keyboard=
    ;;
esac
"""

_CAPTURE = """\
codereval_captured() {
    codereval_real "$@" >|"$codereval_spool/replies/$codereval_call.out" \
2>|"$codereval_spool/replies/$codereval_call.err"
}
codereval_run codereval_captured "$@"
codereval_ended=:$codereval_status
codereval_more=1
"""

_KEEP = """\
codereval_keyboard=TERM
codereval_in=$codereval_spool/replies/$codereval_call.in
codereval_keep() {{
    {{ ulimit -f {blocks}; }} 2>&-
    case $codereval_cat in
    '')
        while IFS= read -r codereval_line; do printf '%s\\n' "$codereval_line"; done
        printf '%s' "$codereval_line"
        ;;
    *) exec "$codereval_cat" ;;
    esac >|"$codereval_in" 2>&-
}}
codereval_cat=
for codereval_path in {cats}; do [ -x "$codereval_path" ] && codereval_cat=$codereval_path && break; done
case $codereval_lost in
'')
    if {{ true 9<&0; }} 2>&-; then codereval_run codereval_keep; else {{ printf '' >|"$codereval_in"; }} 2>&-; fi
    case $codereval_caught in '') ;; *) codereval_leave ;; esac
    [ -r "$codereval_in" ] && exec <"$codereval_in"
    {{ printf '%s<\\n' "$codereval_call" >>"$codereval_spool/index"; }} 2>&-
    codereval_more=1
    ;;
esac
"""


@dataclasses.dataclass(frozen=True)
class Runner:
    """How the real program of a tool is run: `shim` is what must not be run instead of it.

    `env` is the path of an env(1) with `--default-signal`. `shell_resets` tells that the shell itself can give a
    program in the background its interrupt signals back.
    """

    tool: str
    shim: str
    env: str | None = None
    shell_resets: bool = False


def printed(stdout: bytes, stderr: bytes, exit_status: int, *, constant: bool = False) -> str:
    """Text that prints and exits. With `constant` the call may have been lost, and signals are still held."""
    printing = "".join(
        form % f"printf '{printf_format(data)}'"
        for data, form in ((stdout, "{ %s; } 2>&-\n"), (stderr, "%s >&2\n"))
        if data
    )
    before = (_LET_GO if constant else "trap '' PIPE XFSZ\n") if printing else ""
    end = _RECORDED_END if constant else f"{_END}\n"
    hold = _HOLD if before or not constant else ""
    return f"{before}{printing}{hold}codereval_status={exit_status}\n{end}exit {exit_status}\n"


def keep_stdin() -> str:
    """Text that reads standard input to its end for the harness, and leaves it to be read once more."""
    cats = " ".join(_CATS)
    return _KEEP.format(blocks=STDIN_LIMIT // _BLOCK, cats=cats)


def run_real(runner: Runner) -> str:
    """Text that runs the real program and ends as it ended; needs RUN."""
    return f'{_real(runner)}codereval_run codereval_real "$@"\n{_RECORDED_END}codereval_leave\n'


def run_captured(runner: Runner) -> str:
    """Text that runs the real program with its output kept for the harness, which is to be asked then; needs RUN."""
    return _real(runner) + _CAPTURE


def _real(runner: Runner) -> str:
    words = f"{runner.tool}: command not found: the recorder passes this call on, but no real {runner.tool} is on PATH"
    find = _FIND.format(tool=runner.tool, shim=quote(runner.shim), not_found=quote(words), end=_RECORDED_END.strip())
    choose = "codereval_keyboard=\n" if runner.shell_resets else _CHOOSE if runner.env else ""
    return find + _REAL.format(choose=choose, env=quote(runner.env or ""))
