"""The proof that the name of a recorded tool leads to its shim, in the shells that an agent uses."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from .shell_text import quote

_MARK = "codereval-probe"
_BASH = "/bin/bash /usr/bin/bash /usr/local/bin/bash"
_PROFILES = (".bash_profile", ".bash_login", ".profile", ".bashrc")

SHELL_BUILTINS = frozenset(
    """alias bg bind break builtin caller cd command compgen complete continue declare dirs disown echo enable eval exec
    exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd pwd read
    readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit umask unalias
    unset wait""".split()
)
"""What sh and bash run by themselves; a function or alias of another name hides a shim and is a fault."""

_SYSTEM_PROFILES = ("/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/bashrc")

_USUAL_FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_proven: dict[LoginShell, Found] = {}


@dataclasses.dataclass(frozen=True)
class LoginShell:
    """All that decides what a login shell of a trial finds, with the trial's folder taken out.

    `system_name` tells systems apart, `system` whether the profiles of the harness's own changed. Trials for which this
    is equal behave alike, so that a process proves each kind once.
    """

    system_name: str | None
    tools: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    profiles: tuple[str | None, ...]
    system: tuple[tuple[str, int, int], ...]

    @property
    def found(self) -> Found | None:
        """What such shells were seen to find, None when none was seen to reach the shims yet."""
        return _proven.get(self)

    def remember(self, found: Found) -> None:
        """Note that such a shell reaches the shims.

        One in an unknown system, or without a profile in reach, is never taken as proven.
        """
        if self.system_name is not None and any(profile is not None for profile in self.profiles):
            _proven[self] = found


def login_shell(
    tools: Sequence[str], environment: Mapping[str, str], folder: Path, system_name: str | None
) -> LoginShell:
    """Describe the login shell of a trial whose files lie in `folder`; a HOME elsewhere has no profile in reach."""
    home = Path(environment.get("HOME", "/nonexistent"))
    own = str(folder)
    variables = ((name, value.replace(own, "")) for name, value in sorted(environment.items()))
    profiles = (_text(home / name) if home.is_relative_to(folder) else None for name in _PROFILES)
    texts = tuple(text and text.replace(own, "") for text in profiles)
    return LoginShell(system_name, tuple(tools), tuple(variables), texts, _system_profiles())


def _system_profiles() -> tuple[tuple[str, int, int], ...]:
    """What tells whether somebody changed the system's profiles."""
    found = []
    for name in _SYSTEM_PROFILES:
        try:
            status = Path(name).stat()
        except OSError:
            continue
        found.append((name, status.st_ino, status.st_ctime_ns))
    return tuple(found)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None


def probe_script(tools: Sequence[str], shim: Path, argv: Sequence[str]) -> str:
    """Return POSIX sh text that calls `shim` once and prints what each tool resolves to, here and in a login bash.

    Before that it prints the tools of which a program lies in a folder of PATH, or a usual one, that is not the shim.

    The call has the arguments `argv`, and a PATH with nothing on it, so that no shim finds a real program to run.
    What a profile prints by itself is told apart by marks. Where there is no bash that part is left empty.
    """
    names = " ".join(tools)
    real = (
        f"printf '\\0{_MARK}\\0'; IFS=:; set -f; p=$PATH:{_USUAL_FOLDERS}\n"
        f'set -- {names}; for t; do for d in $p; do [ -f "$d/$t" ] && [ -x "$d/$t" ] && '
        f'! [ "$d/$t" -ef {quote(str(shim.parent))}/$t ] && printf \'%s\\0\' "$t"; done; done\nunset IFS; set +f\n'
    )
    ask = f"printf '\\0{_MARK}\\0'; for t in {names}; do printf '%s\\0' \"$t\"; command -v \"$t\"; printf '\\0'; done"
    in_login = f'for b in {_BASH}; do if [ -x "$b" ]; then exec "$b" -lc {quote(ask)}; fi; done\n'
    return (
        f"PATH=/dev/null {quote(str(shim))} {' '.join(map(quote, argv))} </dev/null >/dev/null 2>&1\n"
        f"{real}"
        f"{ask}\n"
        f"{in_login}"
        f"printf '\\0{_MARK}\\0'\n"
    )


@dataclasses.dataclass(frozen=True)
class Found:
    """What the probe found: a line for each tool whose name does not lead to its shim, the tools that shells have built
    in, whose shims are reached by everything but a shell, and those that are run for real by an absolute path.
    """

    problems: tuple[str, ...] = ()
    builtins: frozenset[str] = frozenset()
    uncovered: frozenset[str] = frozenset()


def read_probe(shims: Mapping[str, Path], search_path: str, output: bytes) -> Found:
    """Understand what the probe printed. `search_path` is the agent's PATH, which must lead to a builtin's shim."""
    parts = output.split(f"\0{_MARK}\0".encode())[1:]
    if len(parts) != 3:
        return Found(("whether the recorded tools are reachable could not be found out: the probe did not end",))
    real, *parts = parts
    problems: list[str] = []
    builtins = set()
    for shell, part in zip(("sh", "bash -l"), parts, strict=True):
        fields = [os.fsdecode(field) for field in part.split(b"\0")]
        found = dict(zip(fields[0::2], fields[1::2], strict=False))
        for name, shim in shims.items() if part else ():
            got = found.get(name, "").strip("\n")
            if got == name and name in SHELL_BUILTINS:
                builtins.add(name)
                got = shutil.which(name, path=search_path) or ""
            if not got.startswith("/") or os.path.realpath(got) != os.path.realpath(shim):
                problems.append(f"{name} does not lead to its shim in {shell}, but to {got or 'nothing'}")
    uncovered = frozenset(os.fsdecode(name) for name in real.split(b"\0")) & shims.keys()
    return Found(tuple(problems), frozenset(builtins), uncovered)
