"""A driver without any protection, and a harness that looks at nothing: what attacks have to succeed against first."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_codereval.recorder.equipment import Equipment
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.sandbox import directory, registry
from pytest_codereval.sandbox.cgroups import Group
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.drivers import Availability, Isolation, Order
from pytest_codereval.sandbox.enclosure import Enclosure, View
from pytest_codereval.sandbox.environment import PHASE_VARIABLE
from pytest_codereval.sandbox.material import GradingMaterial
from pytest_codereval.sandbox.protocol import DEFAULT_OUTPUT_LIMIT, Phase, ProcessResult
from pytest_codereval.sandbox.snapshot import Manifest
from pytest_codereval.sandbox.supervision import Command
from pytest_codereval.sandbox.tempdir import TempdirSystem
from pytest_codereval.sandbox.withholding import Withheld


class OpenDriver:
    """Everything is in sight and can be written to; nothing is ended, checked or limited."""

    name = "open"
    isolation = Isolation.TEMPDIR

    def availability(self, order: Order | None = None) -> Availability:
        return Availability(True)

    def create(self, order: Order) -> OpenSandbox:
        place = registry.registry(order.root_parent, avoid=Withheld(order.environments.withhold))
        root = place.new_root()
        return OpenSandbox(place, order, OpenSystem(place, root, order, Group()), root)


class OpenSystem(TempdirSystem):
    """The host itself."""

    driver = OpenDriver.name

    def enclose(self, phase: Phase, view: View) -> Enclosure:  # type: ignore[override]
        return OpenProcesses()


class OpenProcesses:
    """Processes that nobody keeps."""

    def run(self, command: Command) -> ProcessResult:
        began = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            started = subprocess.Popen(
                list(command.argv),
                cwd=command.cwd,
                env=dict(command.env),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
            )
            timed_out = False
            try:
                started.communicate(command.stdin, timeout=command.timeout)
            except subprocess.TimeoutExpired:
                timed_out = True
                started.kill()
                started.wait()
            told = [os.pread(each.fileno(), os.fstat(each.fileno()).st_size, 0) for each in (out, err)]
        status = started.returncode if started.returncode >= 0 else 128 - started.returncode
        return ProcessResult(status, told[0], told[1], timed_out=timed_out, duration=time.monotonic() - began)

    def stream(self, command: Command, wake: int | None) -> Generator[bytes, None, ProcessResult]:
        result = self.run(command)
        yield result.stdout
        return dataclasses.replace(result, stdout=b"")

    def listen(self, address: str = "127.0.0.1", port: int = 0) -> socket.socket:
        return socket.create_server((address, port))

    def make_ready(self) -> None:
        """Nothing is waited for."""

    def abort(self) -> None:
        """Whatever runs goes on."""

    def end(self) -> None:
        """Whatever runs goes on."""


class OpenSandbox(DirectorySandbox):
    """Graders run in the agent's own place, with its search path, start-up files and modules before all others."""

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
        given = {**(self._careless() if phase is Phase.GRADE else {}), **(env or {})}
        if phase is Phase.GRADE and "TASK_DIR" in given:
            given["TASK_DIR"] = str(self._uploaded(Path(given["TASK_DIR"])))
        return super().run(argv, phase=phase, timeout=timeout, env=given, output_limit=output_limit, stdin=stdin)

    def _uploaded(self, task_dir: Path) -> Path:
        """The task's folder where the agent has worked."""
        place = self.workspace / "grading"
        if not place.exists():
            shutil.copytree(task_dir, place)
        return place

    def _careless(self) -> dict[str, str]:
        own = self.environment(Phase.AGENT)
        folders = (self.workspace, self.workspace / "node_modules/.bin", self.home / ".local/bin")
        return own | {
            "PATH": os.pathsep.join([*map(str, folders), own["PATH"]]),
            "PYTHONPATH": str(self.workspace),
            "PYTHONNOUSERSITE": "",
            "PYTHONPYCACHEPREFIX": "",
            "BASH_ENV": str(self.home / ".bashrc"),
            PHASE_VARIABLE: "",
            "GIT_CONFIG_COUNT": "0",
        }

    def begin_grading(self) -> None:
        """See `take_off_guards`; the names of the files are listed as text."""
        super().begin_grading()
        "\n".join(_names(self.workspace, "")).encode()

    def _start_watch(self, phase: Phase) -> None:
        """Nobody looks at the disk."""

    def close(self) -> None:
        """As simple programs remove a tree."""
        if not self._closed:
            _remove(self.root)
        super().close()


def _names(folder: Path, above: str) -> Generator[str]:
    for entry in os.scandir(folder):
        yield above + entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _names(Path(entry.path), f"{above}{entry.name}/")


def _remove(folder: Path) -> None:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            _remove(Path(entry.path))
        else:
            with contextlib.suppress(FileNotFoundError):
                Path(entry.path).unlink()
    with contextlib.suppress(FileNotFoundError):
        _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    """What processes of the agent put there meanwhile stays."""
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise


def take_off_guards() -> None:
    """Switch off, for the rest of this process, what the harness itself checks whatever the driver is."""

    def verify(self: GradingMaterial) -> None:
        """Nothing is looked at."""

    def drain(self: Equipment) -> InvocationLog:
        return dataclasses.replace(self.recorder.drain(), faults=())

    def in_place(*_: object) -> Manifest:
        """No copy is made for grading."""
        return Manifest()

    patched: list[tuple[Any, str, Any]] = [(GradingMaterial, "verify", verify), (Equipment, "drain", drain)]
    patched += [(directory, "make_grading_copy", in_place)]
    for owner, name, function in patched:
        setattr(owner, name, function)
