"""What a sandbox promises, whatever driver made it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from .enclosure import Mount
    from .gate import ConnectionLog
    from .serving import Served, Take
    from .snapshot import Manifest
    from .workspace import Workspace

DEFAULT_OUTPUT_LIMIT = 1_000_000
"""Bytes kept of each output stream of a process unless the caller says otherwise."""


class Phase(enum.StrEnum):
    """The environment in which a process of a trial runs."""

    PREPARE = "prepare"
    AGENT = "agent"
    GRADE = "grade"
    RUN = "run"
    """Where graders have the agent's own programs run: as GRADE, but with nothing of the grading material in sight."""


@dataclasses.dataclass(frozen=True)
class ProcessResult:
    """What a process did. `exit_status` follows the shell: 0 to 255, 128 + n when killed by signal n.

    At most the output limit of each stream is kept; `truncated` tells that there was more. `timed_out` tells that
    the harness killed it at its deadline (then `exit_status` is 137).
    """

    exit_status: int
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    timed_out: bool = False
    duration: float = 0.0

    @property
    def stdout_text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def stderr_text(self) -> str:
        return self.stderr.decode("utf-8", "replace")


class Sandbox(Protocol):
    """One trial's place to work. Made by a driver, used by one trial, closed at its end."""

    driver: str
    """Name of the driver that made it."""

    root: Path
    """Absolute real path of the trial's own directory, outside the workspace and not writable for the agent."""

    workspace: Path
    """Absolute real path, without spaces, of the directory that the agent works in; the same inside and outside."""

    home: Path
    """Absolute real path of the agent's HOME; the same inside and outside."""

    bin_dir: Path
    """Where shims lie, first on the agent's PATH."""

    agent_path_dirs: Sequence[Path]
    """The mock directories, behind the shims on the agent's PATH."""

    venv: Path | None
    """The virtual environment that is first on the PATH of all phases, if the task asks for one."""

    files: Workspace
    """The workspace as evidence."""

    withheld_names: Sequence[str]
    """The variables that were let through to hooks and graders, but not to the agent."""

    left_out_of_image: Sequence[str]
    """What lies in the place of the workspace in the agent's own system, and could not be put into it."""

    mounted: Sequence[Mount]
    """The task's `extra_mounts` as the agent sees them, each with the place of the host's disk that it shows."""

    leftovers: Sequence[str]
    """After `close`: what could not be removed."""

    shim_shell: str | None
    """The shebang of shims where the agent works; None when it is to be found on the harness's own disk."""

    foreign_user: bool
    """Whether the agent's processes run as another user than the harness."""

    described: Mapping[str, object]
    """What this sandbox isolates and what it does not, as plain data for the record."""

    @property
    def launcher_dir(self) -> Path:
        """Where graders find how to have the agent's programs run: `bin`, first on the PATH of GRADE, and `spool`.

        Made, empty and the harness's own, by `begin_grading`; in sight of GRADE only, which can write to `spool` as far
        as permissions there allow. Raises TrialError(UNEXPECTED) before.
        """

    @property
    def connections(self) -> ConnectionLog | None:
        """What the agent connected to until now, where its network allows some hosts; None where it is another one."""

    @property
    def graded(self) -> Manifest | None:
        """What of the workspace is graded and what was left out, once grading has begun."""

    def host_path_of(self, path: str) -> str:
        """The path at which the harness finds what processes of the agent and of graders name by an absolute path.

        It is another one only for the workspace and what lies below, where that is seen at a second place too.
        """

    def holds(self, path: str) -> bool:
        """Whether an absolute path belongs to the system that graders see, and not to the harness or the task."""

    def make_ready(self, phase: Phase) -> None:
        """Start what the first process of a phase would wait for, so that it counts for no timeout.

        Raises TrialError when the sandbox itself failed.
        """

    def environment(self, phase: Phase) -> dict[str, str]:
        """The complete environment of a process in `phase`."""

    def env_with_shims(self) -> dict[str, str]:
        """What to pass as `env` to a run in GRADE that is to meet the agent's shims and mock directories."""

    def run(
        self,
        argv: Sequence[str],
        *,
        phase: Phase,
        timeout: float,
        env: Mapping[str, str] | None = None,
        output_limit: int = DEFAULT_OUTPUT_LIMIT,
        stdin: bytes = b"",
    ) -> ProcessResult:
        """Run a program in the workspace and wait for it, at most `timeout` seconds, then kill its whole tree.

        `env` is laid over the environment of the phase. Standard input is `stdin` and then ends. A background process
        that keeps an output stream open delays nothing. Raises TrialError when the sandbox itself failed.
        """

    def stream(
        self,
        argv: Sequence[str],
        *,
        phase: Phase,
        timeout: float,
        env: Mapping[str, str] | None = None,
        output_limit: int = DEFAULT_OUTPUT_LIMIT,
        stdin: bytes = b"",
        wake: int | None = None,
        private_output: bool = False,
    ) -> Generator[bytes, None, ProcessResult]:
        """As `run`, but yield standard output in pieces as it comes, all of it; the result has none.

        With `private_output` no process that the program starts can open its standard output by a path in /proc, nor
        can the program itself (/dev/stdout).

        Yields an empty piece each time the descriptor `wake` is readable, which the caller then has to read. Closing
        the generator kills the whole tree.
        """

    def serve(self, take: Take) -> Served:
        """Have the connections that the agent's processes make to a port of 127.0.0.1 handed to `take`.

        The port stays the same until the agent's work is sealed, whatever happens in between. Raises
        TrialError(SANDBOX) where that cannot be had.
        """

    def expose(self, path: Path) -> None:
        """Show the agent a file or folder of the harness at its own path. Before anything runs in AGENT."""

    def cover(self, tool: str, shim: Path) -> bool:
        """Lay a shim over the programs of this name in the agent's system, so that it is reached by any path.

        A sandbox that cannot do so does nothing and returns False. Before anything runs in AGENT.
        """

    def provide(self, source: Path, name: str) -> Path:
        """Copy a directory of the harness to a place outside the workspace, for the agent to read; its path there.

        Links are not followed and not copied. Raises OSError.
        """

    def write_home(self, path: str, content: bytes) -> None:
        """Write a file below HOME, `path` being relative, before the agent starts. Raises OSError."""

    def write_file(self, path: str, content: bytes, executable: bool = False) -> None:
        """Write a file of the workspace as the agent would, making its folders; never through a link that leaves it.

        An `executable` file can be run afterwards, also where it was there already and could not.

        Raises OSError when that is not possible.
        """

    def make_folder(self, path: str) -> None:
        """Make a folder of the workspace, and those above it; never through a link that leaves it. Raises OSError."""

    def run_tool(self, argv: Sequence[str], *, cwd: Path, timeout: float) -> ProcessResult:
        """Run a program that prepares the sandbox, such as an installer, before the agent starts."""

    @property
    def python(self) -> str:
        """The interpreter that virtual environments are made of, for `run_tool`."""

    def show(self, path: Path) -> None:
        """Let PREPARE, before the agent, or GRADE, after it, read a file or directory of the harness at its own path.

        A link shows at its path what it leads to.
        """

    def end_preparation(self) -> None:
        """Keep what `pre_run` left in HOME and TMPDIR for grading. Comes before the agent; may be called twice.

        What was shown is out of sight afterwards. Raises TrialError(SANDBOX) when it cannot be kept.
        """

    def begin_grading(self) -> None:
        """Give GRADE a sanitised copy of the workspace, and its own HOME and TMPDIR as they were after preparation.

        Comes after the seal and before the first run in GRADE; nothing of the agent runs afterwards. Raises
        TrialError(TAMPERED), each time it is called, when the agent changed what graders would run; they can be run
        nevertheless, for `post_run`, without what was changed.
        """

    def reap(self) -> None:
        """Kill every process that was started here, however it daemonised, and prove that none lives.

        Raises TrialError(TAMPERED) when the processes escaped because the supervisor was attacked.
        """

    def close(self) -> None:
        """Reap, then remove everything on disk. May be called twice."""
