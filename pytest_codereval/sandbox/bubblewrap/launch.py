"""The command lines of one environment: by bwrap for a new sandbox, by nsenter for one that is there."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path

from ..enclosure import Owner
from ..ownership import second
from .entry import SCRIPT, path_of
from .tools import Tools, stepping_down

STATUS = 8
"""The descriptor on which bwrap tells the id of the first process."""

_OPTIONS = 7
"""The descriptor that bwrap reads its options from, as its command line can be seen in the sandbox."""

READY = b"ready"
_WAITS = (
    f"exec 3>&1 </dev/null >/dev/null 2>&1; echo {READY.decode()} >&3; exec 3>&-; while :; do sleep 2147483647; done"
)


@dataclasses.dataclass(frozen=True)
class Launch:
    """How the processes of one environment are started.

    `options` is the descriptor of a file with the options of bwrap. `joins` are the control groups to join.
    `most_processes` is set where there is no control group for it. `own_network` tells that the network is not that of
    the harness.
    """

    tools: Tools
    owner: Owner | None
    options: int
    own_network: bool
    joins: Sequence[Path] = ()
    most_processes: int | None = None

    def joining(self) -> str:
        """Shell text by which the shell joins the control groups."""
        return "".join(f"echo 0 >{shlex.quote(str(file))} || exit 1\n" for file in self.joins)

    def command_text(self) -> str:
        """Shell text that becomes a new sandbox with the script of an entry in it."""
        return self._bwrap([], [*stepping_down(self.tools, self.owner), *self._limited(), "/bin/sh", SCRIPT])

    def holder_text(self) -> str:
        """Shell text that becomes a new sandbox which stays until it is killed, with `READY` on its output at last.

        Its first process runs a shell: what loses its parent becomes the child of that, which collects it. No signal
        from inside ends it, and with an owner it is another user's, so that an agent cannot trace it either.
        """
        owner = second(self.owner) if self.owner is not None else None
        options = ["--json-status-fd", str(STATUS), "--as-pid-1"]
        program = [*stepping_down(self.tools, owner), "/bin/sh", "-c", _WAITS]
        return f"exec {STATUS}>&1\n{self._bwrap(options, program)}"

    def entering_text(self, namespaces: dict[str, int]) -> str:
        """Shell text that enters namespaces, by kind and descriptor of this process, and becomes an entry's script.

        For a normal user the one of users comes in two steps: the outer one, which owns the others and gives all rights
        over them, then the inner one, which gives none.
        """
        argv = [self.tools.nsenter, *(f"--{kind}={path_of(fd)}" for kind, fd in namespaces.items())]
        if "user" in namespaces:
            argv += ["--preserve-credentials", "--", self.tools.nsenter]
            argv += ["--user=/proc/1/ns/user", "--preserve-credentials"]
        inner = [*stepping_down(self.tools, self.owner), *self._limited(), "/bin/sh", SCRIPT]
        return f"exec {shlex.join([*argv, '--', *inner])}\n"

    def _bwrap(self, options: Sequence[str], program: Sequence[str]) -> str:
        argv = [self.tools.bwrap, "--args", str(_OPTIONS), *options, "--", *program]
        return f"exec {_OPTIONS}<{path_of(self.options)}\nexec {shlex.join(argv)}\n"

    def _limited(self) -> list[str]:
        if self.most_processes is None:
            return []
        return [self.tools.prlimit, f"--nproc={self.most_processes}", "--"]
