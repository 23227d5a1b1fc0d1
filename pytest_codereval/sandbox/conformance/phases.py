"""Checks of what each phase sees, of the way from one to the next, and of the end."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path

from ...errors import Cause, TrialError
from ..drivers import Isolation
from ..protocol import Phase, Sandbox
from .files import EXPECTED_ODD_FILES, folder_of_the_harness, make_odd_files, odd_files
from .registration import CannotTell, Make, check, equal
from .watching import PATIENCE, await_beats, escapes, living, sh, told


@check()
def check_the_order_of_phases_is_enforced(make: Make) -> None:
    """No grading before `begin_grading`, no agent after it; both are faults of the caller."""
    sandbox = make()
    for phase in (Phase.GRADE, Phase.RUN):
        _refused(sandbox, phase)
    sandbox.end_preparation()
    sandbox.end_preparation()
    sandbox.begin_grading()
    sandbox.begin_grading()
    for phase in (Phase.PREPARE, Phase.AGENT):
        _refused(sandbox, phase)


def _refused(sandbox: Sandbox, phase: Phase) -> None:
    try:
        sandbox.run(["true"], phase=phase, timeout=PATIENCE)
    except TrialError as error:
        equal(error.cause, Cause.UNEXPECTED, f"the cause of refusing a run in {phase} at the wrong time")
    else:
        raise AssertionError(f"a run in {phase} at the wrong time was not refused")


@contextlib.contextmanager
def _variable(value: str) -> Iterator[str]:
    name = f"CONFORMANCE_{uuid.uuid4().hex}"
    os.environ[name] = value
    try:
        yield name
    finally:
        del os.environ[name]


@check()
def check_material_is_there_for_preparation_and_grading(make: Make) -> None:
    """What is withheld or shown can be read in PREPARE and GRADE, and a variable that names it is not the agent's."""
    with folder_of_the_harness() as folder, _variable(f"{folder}/withheld") as name, _variable("plain") as other:
        withheld, shown = _material(folder)
        sandbox = make(withhold=[folder / "withheld"], env_passthrough=[name, other])
        sandbox.show(shown)
        ask, expected = (
            f"echo ${name} ${other}; cat {withheld} {shown}",
            [f"{folder}/withheld", "plain", "withheld", "shown"],
        )
        equal(told(sandbox, ask, Phase.PREPARE).split(), expected, "variables and files in PREPARE")
        sandbox.end_preparation()
        equal(told(sandbox, f"echo ${name} ${other}").split(), ["plain"], "variables of the agent")
        equal(list(sandbox.withheld_names), [name], "names of what is withheld")
        sandbox.begin_grading()
        sandbox.show(shown)
        equal(told(sandbox, ask, Phase.GRADE).split(), expected, "variables and files in GRADE")


def _material(folder: Path) -> tuple[Path, Path]:
    files = []
    for name in ("withheld", "shown"):
        (folder / name).mkdir()
        files.append(folder / name / "file")
        files[-1].write_text(f"{name}\n")
    return files[0], files[1]


@check(needed_from=Isolation.BUBBLEWRAP)
def check_material_is_out_of_sight_of_the_agents_programs(make: Make) -> None:
    """In AGENT, whatever preparation saw, and in RUN, which works on what is graded."""
    with folder_of_the_harness() as folder:
        withheld, shown = _material(folder)
        sandbox = make(withhold=[folder / "withheld"])
        sandbox.show(shown)
        equal(told(sandbox, f"cat {withheld} {shown}", Phase.PREPARE), "withheld\nshown\n", "PREPARE")
        _sees_neither(sandbox, Phase.AGENT, withheld, shown)
        told(sandbox, "echo graded >work")
        sandbox.reap()
        sandbox.begin_grading()
        sandbox.show(shown)
        _sees_neither(sandbox, Phase.RUN, withheld, shown)
        told(sandbox, "echo run >>work", Phase.RUN)
        equal(sandbox.files.read_text("work"), "graded\nrun\n", "a file that the agent and RUN wrote")


def _sees_neither(sandbox: Sandbox, phase: Phase, *files: Path) -> None:
    for file in files:
        result = sh(sandbox, f"cat {file}", phase)
        assert result.exit_status != 0, f"{phase} reads {file.name}"
        equal(result.stdout, b"", f"what {phase} reads in {file.name}")


@check()
def check_grading_works_on_a_sanitised_copy(make: Make) -> None:
    """Links out of it, fifos, giants and setuid bits are gone; all else is as the agent left it, whatever its name."""
    sandbox = make()
    agent = f"""
        {make_odd_files("names")}
        mkdir sub; echo inside >sub/file; ln -s sub/file within; printf '#!/bin/sh\\necho ran\\n' >tool; chmod 755 tool
        ln -s /etc/passwd absolute; ln -s ../.. above; ln -s nowhere dangling; ln -s "$PWD/sub" itself; mkfifo fifo
        cp tool setuid; chmod 6755 setuid; echo private >private; chmod 0 private; mkdir closed; chmod 0 closed
        dd if=/dev/null of=giant bs=1048576 seek=6000000 2>/dev/null; echo $HOME >home
    """
    told(sandbox, agent)
    sandbox.reap()
    sandbox.begin_grading()
    _check_tree(sandbox.workspace)
    equal(odd_files(sandbox.workspace / "names"), EXPECTED_ODD_FILES, "files of odd names")
    equal(told(sandbox, "cat within; ./tool; cat private", Phase.GRADE), "inside\nran\nprivate\n", "what GRADE sees")
    equal(told(sandbox, "cat within; ./tool", Phase.RUN), "inside\nran\n", "what RUN sees")
    for name in ("absolute", "above", "fifo", "giant"):
        assert not os.path.lexists(sandbox.workspace / name), f"{name} is there in grading"
    told(sandbox, "echo new >sub/file; echo new >new; rm tool; mkdir closed/below", Phase.GRADE)
    equal(sandbox.files.read_text("new"), "new\n", "what a grader wrote")


def _check_tree(top: Path) -> None:
    for path in top.rglob("*"):
        mode = path.lstat().st_mode
        kind = stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
        assert kind, f"neither file, folder nor link: {path!r}"
        assert stat.S_ISLNK(mode) or not mode & (stat.S_ISUID | stat.S_ISGID), f"a setuid or setgid bit: {path!r}"
        assert Path(os.path.realpath(path)).is_relative_to(top), f"a link that leads out: {path!r}"


@check()
def check_grading_has_the_home_that_preparation_left(make: Make) -> None:
    """And its TMPDIR, whatever the agent did to its own."""
    sandbox = make()
    told(sandbox, "mkdir ~/.tool; echo kept >~/.tool/settings; echo kept >$TMPDIR/file", Phase.PREPARE)
    sandbox.end_preparation()
    equal(told(sandbox, "cat ~/.tool/settings $TMPDIR/file"), "kept\nkept\n", "what the agent finds")
    attack = (
        "echo worse >~/.tool/settings; rm $TMPDIR/file; echo 'echo evil' >>~/.profile; touch ~/.gitconfig $TMPDIR/x"
    )
    told(sandbox, attack)
    sandbox.reap()
    sandbox.begin_grading()
    seen = told(sandbox, "cat ~/.tool/settings $TMPDIR/file; ls -A $TMPDIR; ls ~/.gitconfig 2>&- || :", Phase.GRADE)
    equal(seen.split(), ["kept", "kept", "file"], "what graders find")
    login = sandbox.run(["sh", "-lc", "echo login"], phase=Phase.GRADE, timeout=PATIENCE)
    equal(login.stdout, b"login\n", "what a login shell prints in GRADE")
    equal(told(sandbox, "echo $HOME", Phase.GRADE).strip() == str(sandbox.home), False, "HOME is that of the agent")


_CLIENTS = (
    "bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && cat <&3'",
    "nc 127.0.0.1 {port} </dev/null",
    "python3 -c 'import socket; print(socket.create_connection((\"127.0.0.1\", {port})).recv(9).decode())'",
)


def _take(connection: socket.socket) -> None:
    connection.sendall(b"served\n")
    connection.close()


@check()
def check_the_harness_serves_the_agent_only(make: Make) -> None:
    """A port of `serve` is reached from AGENT, after `reap` too, and no more when the agent's work is over."""
    sandbox = make()
    client = _client(sandbox, sandbox.serve(_take).port)
    for _ in range(2):
        equal(told(sandbox, client).strip(), "served", "what a server of the harness says to the agent")
        sandbox.reap()
    sandbox.begin_grading()
    for phase in (Phase.GRADE, Phase.RUN):
        said = sh(sandbox, client, phase).stdout
        assert b"served" not in said, f"the server of the agent is reached from {phase}"


@check(needed_from=Isolation.BUBBLEWRAP)
def check_without_a_network_only_the_harness_is_reached(make: Make) -> None:
    """With `network: none` a port of `serve` is reached, and no other server of this machine."""
    sandbox = make(network="none")
    served = sandbox.serve(_take)
    equal(told(sandbox, _client(sandbox, served.port)).strip(), "served", "what a server of the harness says")
    served.close()
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0)
        result = sh(sandbox, _client(sandbox, other.getsockname()[1]))
        assert result.exit_status != 0, "the agent connects to a server of this machine"
        with contextlib.suppress(BlockingIOError):
            other.accept()
            raise AssertionError("the agent connected to a server of this machine")


def _client(sandbox: Sandbox, port: int) -> str:
    for client in _CLIENTS:
        if sh(sandbox, f"command -v {client.split()[0]}").exit_status == 0:
            return client.format(port=port)
    raise CannotTell("no bash, nc or python3 in the sandbox that could reach a port")


@check()
def check_closing_removes_everything(make: Make) -> None:
    """Processes and files, whatever the agent made of them; a second time does nothing, and nothing runs afterwards."""
    sandbox = make()
    names, script = escapes("closed")
    told(sandbox, "mkdir -p deep/er; touch deep/er/x; chmod 0 deep/er deep; mkdir -p ~/x/y; chmod 0 ~/x")
    told(sandbox, script)
    await_beats(sandbox, names)
    sandbox.close()
    equal(list(sandbox.leftovers), [], "what could not be removed")
    assert not os.path.lexists(sandbox.root), f"{sandbox.root} is still there"
    sandbox.close()
    equal(living(sandbox, names), [], "processes that outlived their sandbox")
    try:
        sandbox.run(["true"], phase=Phase.AGENT, timeout=PATIENCE)
    except TrialError:
        return
    raise AssertionError("a run in a closed sandbox was not refused")
