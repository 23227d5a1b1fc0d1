"""Where the program is: the native binary that an npm launcher would start, so that no Node.js is needed."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from ...errors import AgentError, Cause

_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_SYSTEMS = {"Linux": "linux", "Darwin": "darwin", "Windows": "windows"}
_HOW = "install it with `npm install -g @openai/codex`, or put the program `codex` on the PATH of pytest"


def find_program(path: str | None = None) -> Path:
    """The program on `path`, by default the PATH of this process.

    Raises AgentError(AGENT_UNAVAILABLE).
    """
    found = shutil.which("codex", path=path)
    if found is None:
        raise AgentError(Cause.AGENT_UNAVAILABLE, f"the program codex was not found; {_HOW}")
    program = Path(found).resolve()
    if program.suffix != ".js":
        return program
    for native in _natives(program.parent.parent):
        return native.resolve()
    raise AgentError(
        Cause.AGENT_UNAVAILABLE,
        f"{found} is a launcher for Node.js and its native program for this machine is not beside it; {_HOW}",
    )


def surroundings_of(program: str | Path) -> Path:
    """What a sandbox has to show for the program to run: the folder of the npm package's build, else the program."""
    folder = Path(program).parent.parent
    return folder if folder.parent.name == "vendor" else Path(program)


def _natives(package: Path) -> list[Path]:
    """The native programs that belong to the npm package of the launcher and run on this machine."""
    machine = _MACHINES.get(platform.machine().lower(), platform.machine())
    system = _SYSTEMS.get(platform.system(), platform.system().lower())
    places = (
        *package.parent.glob("codex-*/vendor"),
        *package.glob("node_modules/@openai/codex-*/vendor"),
        package / "vendor",
    )
    found = (
        program
        for place in places
        for folder in ("bin", "codex")
        for program in sorted(place.glob(f"{machine}-*{system}*/{folder}/codex"))
    )
    return [program for program in found if program.is_file()]
