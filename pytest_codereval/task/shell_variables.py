"""Environment variables that the recorder can tell of: those that no shell sets by itself."""

from __future__ import annotations

from .fields import VARIABLE_NAME

_DIRECTORIES = frozenset({"PWD", "OLDPWD"})
_SET_BY_SHELLS = frozenset(
    (
        *("_", "IFS", "LINENO", "OPTERR", "OPTIND", "PPID", "PS1", "PS2", "PS4", "RANDOM", "SHLVL"),
        *("BASH", "BASHOPTS", "BASHPID", "COMP_WORDBREAKS", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID"),
        *("FUNCNAME", "GROUPS", "HISTCMD", "HOSTTYPE", "MACHTYPE", "OSTYPE", "PIPESTATUS", "SECONDS", "SHELLOPTS"),
        *("SRANDOM", "UID"),
    )
)
_PREFIXES = ("BASH_", "codereval_")


def variable_error(name: str) -> str | None:
    """Why a call's environment variable of this name cannot be asked for, or None when it can."""
    if not VARIABLE_NAME.fullmatch(name):
        return f"{name!r} is no name of an environment variable"
    if name in _DIRECTORIES:
        return f"{name}: the shell that runs the shim sets it itself; the caller's directory is cwd"
    if name in _SET_BY_SHELLS or name.startswith(_PREFIXES):
        return f"{name}: the shell that runs the shim sets it itself, so the caller's value is not known"
    return None
