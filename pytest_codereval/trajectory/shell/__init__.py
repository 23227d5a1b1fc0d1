"""What a piece of shell text ran."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .program import Ran, ShellProgram, SimpleCommand

__all__ = ["Ran", "ShellProgram", "SimpleCommand", "understand"]


def understand(
    text: str,
    status: int | None = None,
    *,
    succeeded: bool | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> ShellProgram:
    """Return the simple commands of a shell text, whether each was run, and whether it succeeded.

    `status` is the exit status of the whole text; `succeeded` is what the tool reported where no number is known. A
    status of a signal (below 0 or above 128), of a time limit (124) or a failure without a number may mean that the
    shell itself was ended, so that what stands behind the first command may not have run. `variables` are variables of
    the environment. A command counts as run when the shell came to it, also when its program was not found or when one
    of its redirections failed; then it failed. A command of `xargs` may have run where its input is not known, and its
    words are those before the input; a program of `find -exec` may have run for each file. A file that is sourced is
    taken to leave the shell as it is. Never raises; what is too long or nested too deep is `unparsed`.
    """
    from .analysis import understand as judge

    return judge(text, status, succeeded=succeeded, variables=variables)
