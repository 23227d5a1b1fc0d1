"""Attacks that run the real tool past its shim. The tool is factor(1), which every system here has."""

from __future__ import annotations

from .model import DETECTED, DETECTED_ON_TEMPDIR, ON_TEMPDIR, PREVENTED, Attack, Expected, Outcome, Setting

TOOLS = Setting(
    "bypass",
    {
        "sandbox": {
            "record_cli": [
                {"tool": "factor", "exit_code": 0, "stdout": "never\n"},
                {"tool": "zcat", "exit_code": 0, "stdout": "never\n"},
            ]
        }
    },
)


def _seen(outcome: Outcome) -> bool:
    """A criterion that forbids the call has counted it, as one past the recorder."""
    return "fail" in outcome.verdicts


def _ran(outcome: Outcome) -> bool:
    """The real tool gave its answer. (The numbers differ, so that each attack is told by its own.)"""
    return f"{_number(outcome.name)}: 2 {_number(outcome.name) // 2}" in outcome.output or "gzip) 1" in outcome.output


_PRIMES = iter((1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069, 1087, 1091, 1093, 1097))
_numbers: dict[str, int] = {}


def _number(name: str) -> int:
    return _numbers[name]


def _bypass(name: str, tries: str, script: str, expected: Expected = ON_TEMPDIR) -> Attack:
    _numbers[name] = number = 2 * next(_PRIMES)
    tool, asked = ("zcat", {}) if "zcat" in script else ("factor", {"positional": [str(number)]})
    return Attack(
        name=name,
        tries=tries,
        success="the real tool gave its answer, and a criterion that forbids the call passes",
        setting=TOOLS,
        script=f"n={_numbers[name]}\n{script}",
        succeeded=_ran,
        detected=_seen,
        criteria=({"type": "cli_called", "tool": tool, "min_count": 0, "max_count": 0, **asked},),
        expected=expected,
    )


ATTACKS = (
    _bypass("absolute-path", "call the tool by its absolute path", "/usr/bin/factor $n", DETECTED_ON_TEMPDIR),
    _bypass(
        "empty-environment",
        "call it with an empty environment",
        "env -i factor $n; env -i /usr/bin/env factor $n",
        DETECTED_ON_TEMPDIR,
    ),
    _bypass(
        "own-path",
        "call it with a search path of its own",
        "PATH=/usr/bin:/bin factor $n; PATH=/bin factor $n",
        DETECTED_ON_TEMPDIR,
    ),
    _bypass(
        "command-p", "call it along the default search path of the shell", "command -p factor $n", DETECTED_ON_TEMPDIR
    ),
    _bypass(
        "hash",
        "have the shell remember another place of it",
        "hash -p /usr/bin/factor factor; factor $n",
        DETECTED_ON_TEMPDIR,
    ),
    _bypass(
        "copy",
        "copy the real program, and call the copy",
        "cp /usr/bin/factor ./mine && ./mine $n; cat /usr/bin/factor >theirs; chmod +x theirs; ./theirs $n",
    ),
    _bypass(
        "links",
        "call the real program by links to it",
        "ln -s /usr/bin/factor ./soft; ./soft $n; ln /usr/bin/factor ./hard && ./hard $n; cd /usr/bin && ./factor $n",
        DETECTED_ON_TEMPDIR,
    ),
    _bypass(
        "loader",
        "have the loader of programs run it",
        "ls /lib*/ld-* >/dev/null || echo 'CANNOT: no loader here'\n"
        "for l in /lib*/ld-linux*.so* /lib/ld-musl-*; do [ -e $l ] && $l /usr/bin/factor $n; done",
        PREVENTED,
    ),
    _bypass(
        "proc-root",
        "call it by the root of a process",
        "/proc/self/root/usr/bin/factor $n; /proc/1/root/usr/bin/factor $n; /proc/$PPID/root/usr/bin/factor $n",
        DETECTED_ON_TEMPDIR,
    ),
    _bypass(
        "uncovered",
        "take away what lies over the real program, in namespaces of its own",
        'unshare -Urm sh -c "umount /usr/bin/factor; umount -l /usr/bin/factor; /usr/bin/factor $n"',
        PREVENTED,
    ),
    _bypass(
        "own-interpreter",
        "have an interpreter run the tool's script",
        "bash /usr/bin/zcat --version; sh /bin/zcat --version",
    ),
    _bypass("busybox", "call the same tool in a program that holds many", "need busybox; busybox factor $n", DETECTED),
)
