"""What the agent of a `tempdir` sandbox can no longer do where the kernel has Landlock, and what still works."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox import confinement, landlock
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.drivers import Order
from pytest_codereval.sandbox.enclosure import NetworkKind
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.landlock import Rules, restrict
from pytest_codereval.sandbox.protocol import Phase, ProcessResult
from pytest_codereval.sandbox.tempdir import TempdirDriver
from pytest_codereval.task.models import SandboxConfig

from .processes import needs_root

needs_files = pytest.mark.skipif(landlock.abi() < landlock.FILES, reason="no Landlock that restricts files here")
needs_tcp = pytest.mark.skipif(landlock.abi() < landlock.TCP, reason="no Landlock that restricts TCP here")
needs_scopes = pytest.mark.skipif(landlock.abi() < landlock.SCOPES, reason="no Landlock with scopes here")

Make = Callable[..., DirectorySandbox]


def sh(sandbox: DirectorySandbox, script: str, phase: Phase = Phase.AGENT) -> ProcessResult:
    return sandbox.run(["sh", "-c", script], phase=phase, timeout=60)


def out(sandbox: DirectorySandbox, script: str, phase: Phase = Phase.AGENT) -> str:
    result = sh(sandbox, script, phase)
    assert result.exit_status == 0, result.stderr_text
    return result.stdout_text.strip()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make a sandbox of a task in `tmp_path/checkout/task`, of a run that is recorded in `tmp_path/run`."""
    for folder in ("checkout/task", "run"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "checkout" / "task" / "task.yaml").write_text("the answer")
    (tmp_path / "run" / "record.json").write_text("the record")
    (tmp_path / "other").write_text("of somebody else")
    with contextlib.ExitStack() as stack:

        def create(readable: tuple[Path, ...] = (), **config: Any) -> DirectorySandbox:
            order = Order(
                SandboxConfig(**config),
                EnvironmentPlan(withhold=(tmp_path / "checkout", tmp_path / "checkout" / "task")),
                hidden=(tmp_path / "run",),
                readable=readable,
            )
            return stack.enter_context(contextlib.closing(TempdirDriver().create(order)))

        yield create


# -- each is seen to succeed before it is seen to fail

ATTACKS = {
    "the task": "cat {tmp}/checkout/task/task.yaml",
    "the checkout": "ls {tmp}/checkout",
    "the run directory": "cat {tmp}/run/record.json",
    "a file of somebody else": "cat {tmp}/other",
    "by a link": "ln -s {tmp}/other link; cat link",
    "by a hard link": "ln {tmp}/other hard && cat hard",
    "moved here": "mv {tmp}/other .",
    "another sandbox": "cat {other}/workspace/secret",
    "a file in another sandbox": "echo worse >>{other}/workspace/secret",
    "the names of sandboxes": "ls {other}/../..",
    "HOME": "ls {home}",
    "the directory for temporary files": "ls $(dirname {tmp})",
    "a new file elsewhere": "echo x >{tmp}/new",
    "a file cut short": "truncate -s 0 {tmp}/other",
    "a removed file": "rm {tmp}/other",
    "a program from elsewhere": "{tmp}/program",
    "its own place": 'cd .. && mv "$OLDPWD" "$OLDPWD.other"',
    "the login script": "echo exit >../login.sh",
}


@needs_files
@pytest.mark.parametrize("attack", ATTACKS)
def test_files_that_are_none_of_the_agents_business(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "program").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "program").chmod(0o755)
    other = make()
    other.write_file("secret", b"of the other trial")
    script = ATTACKS[attack].format(tmp=tmp_path, other=other.root, home=tmp_path / "home")
    restricted = make()
    denied = sh(restricted, script)
    assert denied.exit_status != 0
    assert any(word in denied.stderr_text for word in ("denied", "cross-device"))
    assert (tmp_path / "other").read_text() == "of somebody else"
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert sh(make(), script).exit_status == 0


@needs_files
@needs_root
def test_no_devices_are_made_and_of_those_of_the_system_few_are_read(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = ("mknod zero c 1 5 && head -c 1 zero", "head -c 0 /dev/kmsg")
    for script in scripts:
        assert sh(make(), script).exit_status != 0
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    for script in scripts:
        assert sh(make(), script).exit_status == 0


@needs_scopes
@pytest.mark.parametrize("look", ["cat {}/environ", "cat {}/maps", "ls {}/cwd/", "ls {}/root/", "readlink {}/fd/0"])
def test_other_processes_are_not_looked_into(make: Make, look: str) -> None:
    read = look.format(f"/proc/{os.getpid()}")
    assert out(make(), read, Phase.PREPARE)
    denied = sh(make(), read)
    assert (denied.exit_status != 0, denied.stdout) == (True, b"")


@needs_scopes
def test_abstract_sockets_of_others_are_out_of_reach(make: Make) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("")
        server.listen()
        name = server.getsockname()
        ask = f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect(bytes.fromhex('{name.hex()}'))\""
        assert sh(make(), ask).exit_status != 0
        assert out(make(), ask, Phase.PREPARE) == ""


# -- what still works

PROGRAMS = {
    "git": "git init -q r && cd r && git config user.email a@b && git config user.name a && echo x >f && git add f"
    " && git commit -qm m && mkdir d && git mv f d/g && git commit -qm n && cd .. && git clone -q r c && test -f c/d/g",
    "python3": "python3 -c 'import ssl, multiprocessing, tempfile; tempfile.NamedTemporaryFile(); "
    "ssl.create_default_context(); print(multiprocessing.Pool(1).map(abs, [-1]))'",
    "pip": "pip --version",
    "node": 'node -e \'require("fs").mkdtempSync(require("os").tmpdir() + "/x")\'',
    "npm": "npm --version",
    "bash": "bash -c 'cat <<X\nhere\nX\ncat <(echo there) >/dev/null; echo x >/dev/stderr; : >/dev/null'",
    "mktemp": "mktemp && mktemp -d",
    "tar": "mkdir t && echo x >t/a && tar czf t.tgz t && rm -r t && tar xzf t.tgz && cat t/a",
    "sort": "seq 200000 | sort -S 100K | tail -1",
    "ssh-keygen": "ssh-keygen -q -t ed25519 -N '' -f key && test -f key.pub",
    "mv": "mkdir -p a/b c && echo x >a/b/f && mv a/b c/ && cat c/b/f && ln c/b/f $HOME/g && mv c $TMPDIR/ && mkfifo p",
    "locale": "locale -a",
    "ps": "ps -ef",
    "java": "java -version",
    "perl": "perl -e 'use File::Temp; File::Temp->new; print 1'",
    "cc": "echo 'int main(void){return 0;}' >a.c && cc -o a a.c && ./a",
    "make": "printf 'all:\\n\\techo made\\n' >Makefile && make",
    "curl": "python3 -c 'import socket; socket.getaddrinfo(\"localhost\", 80)' && curl --version",
    "find": "mkdir -p x/y && touch x/y/z && find . -name z -delete && rm -r x",
    "script": "script -qc 'echo in a terminal' /dev/null",
}


@pytest.fixture(scope="module")
def workshop() -> Iterator[DirectorySandbox]:
    with contextlib.closing(TempdirDriver().create(Order(SandboxConfig()))) as sandbox:
        yield sandbox


@needs_files
@pytest.mark.parametrize("program", PROGRAMS)
def test_ordinary_programs_work(workshop: DirectorySandbox, program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"no {program}")
    out(workshop, f"mkdir {program}.d && cd {program}.d && {{ {PROGRAMS[program]}; }}")


@needs_files
def test_a_virtual_environment_can_be_made_and_used(workshop: DirectorySandbox) -> None:
    assert out(workshop, "python3 -m venv --without-pip v && v/bin/python -c 'print(1)'") == "1"


def test_standard_input_can_be_opened_by_its_path(make: Make) -> None:
    for phase in (Phase.PREPARE, Phase.AGENT):
        result = make().run(["sh", "/dev/stdin"], phase=phase, timeout=60, stdin=b"echo from there")
        assert result.stdout == b"from there\n"


@needs_files
def test_preparation_and_graders_read_the_task_and_the_agents_program_does_not(make: Make, tmp_path: Path) -> None:
    sandbox = make()
    read = f"cat {tmp_path}/checkout/task/task.yaml"
    assert out(sandbox, read, Phase.PREPARE) == "the answer"
    assert sh(sandbox, read).exit_status != 0
    sandbox.reap()
    sandbox.begin_grading()
    assert out(sandbox, read, Phase.GRADE) == "the answer"
    assert sh(sandbox, f"echo x >made; {read}", Phase.RUN).exit_status != 0
    assert out(sandbox, "cat made", Phase.GRADE) == "x"


# -- what lies beside the system


def program(path: Path, text: str = "#!/bin/sh\necho here\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@needs_files
def test_what_is_installed_in_the_checkout_works_and_its_tasks_stay_out_of_sight(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True)
    program(checkout / "scripts" / "helper")
    program(checkout / "tools" / "bin" / "tool")
    (checkout / "tools" / "answers").write_text("the answers")
    folders = [checkout / ".venv" / "bin", checkout / "scripts", checkout / "tools" / "bin"]
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, folders), os.environ["PATH"]]))
    sandbox = make()
    told = out(sandbox, "python -c 'import json, sys; print(sys.prefix)'")
    assert os.path.realpath(told) != os.path.realpath(sys.prefix)
    assert out(sandbox, "helper; tool") == "here\nhere"
    assert sh(sandbox, f"cat {checkout}/task/task.yaml").exit_status != 0
    assert sh(sandbox, f"cat {checkout}/tools/answers").exit_status != 0


@needs_files
def test_programs_of_a_manager_of_versions_in_home_work(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    manager = home / ".manager"
    program(manager / "versions" / "3" / "bin" / "language", "#!/bin/sh\necho version 3\n")
    program(manager / "libexec" / "start", f"#!/bin/sh\nexec {manager}/versions/3/bin/language\n")
    program(manager / "shims" / "language", f"#!/bin/sh\nexec {manager}/libexec/start\n")
    (home / "letter").write_text("private")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", os.pathsep.join([str(manager / "shims"), os.environ["PATH"]]))
    sandbox = make()
    assert out(sandbox, "language") == "version 3"
    assert sh(sandbox, f"cat {home}/letter").exit_status != 0


@needs_files
def test_more_is_readable_when_the_operator_says_so_but_never_the_task(make: Make, tmp_path: Path) -> None:
    sandbox = make(readable=(tmp_path,))
    assert out(sandbox, f"cat {tmp_path}/other") == "of somebody else"
    for place in ("checkout/task/task.yaml", "run/record.json"):
        assert sh(sandbox, f"cat {tmp_path}/{place}").exit_status != 0
    assert sh(sandbox, f"echo x >>{tmp_path}/other").exit_status != 0
    docs = tmp_path / "checkout" / "docs"
    docs.mkdir()
    (docs / "a").write_text("the manual")
    assert out(make(readable=(docs,)), f"cat {docs}/a") == "the manual"


@needs_files
def test_what_is_exposed_and_provided_is_read_but_not_written(make: Make, tmp_path: Path) -> None:
    tool = program(tmp_path / "far" / "tool")
    sandbox = make()
    assert sh(sandbox, str(tool)).exit_status != 0
    sandbox.reap()
    sandbox.expose(tool)
    given = sandbox.provide(tool.parent, "given")
    assert out(sandbox, f"{tool}; {given}/tool") == "here\nhere"
    for path in (tool, given / "tool"):
        assert sh(sandbox, f"echo >>{path}").exit_status != 0


@needs_files
def test_an_exposed_folder_that_holds_the_task_shows_nothing_of_it(make: Make, tmp_path: Path) -> None:
    sandbox = make()
    sandbox.expose(tmp_path)
    assert out(sandbox, f"cat {tmp_path}/other") == "of somebody else"
    assert sh(sandbox, f"cat {tmp_path}/checkout/task/task.yaml").exit_status != 0


@needs_files
def test_each_trial_is_restricted_for_itself_by_one_keeper(make: Make, tmp_path: Path) -> None:
    seen = set()
    for number in range(3):
        sandbox = make()
        seen.add(out(sandbox, "echo $PPID"))
        assert out(sandbox, f"echo {number} >a; cat a") == str(number)
        sandbox.close()
    assert len(seen) == 1


# -- the network


@pytest.fixture
def server() -> Iterator[int]:
    """The port of a server of this machine that says "hello"."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = os.fork()
        if process == 0:
            while True:
                connection, _ = listener.accept()
                connection.sendall(b"hello")
                connection.close()
        try:
            yield listener.getsockname()[1]
        finally:
            os.kill(process, 9)
            os.waitpid(process, 0)


CONNECT = "python3 -c 'import socket; print(socket.create_connection((\"127.0.0.1\", {port})).recv(9).decode())'"


@needs_tcp
def test_without_a_network_only_the_harness_is_reached(make: Make, server: int) -> None:
    assert out(make(), CONNECT.format(port=server)) == "hello"
    sandbox = make(network="none")

    def take(connection: socket.socket) -> None:
        with connection:
            connection.sendall(b"served")

    served = sandbox.serve(take)
    assert out(sandbox, CONNECT.format(port=served.port)) == "served"
    assert "PermissionError" in sh(sandbox, CONNECT.format(port=server)).stderr_text
    assert "PermissionError" in sh(sandbox, "python3 -c 'import socket; socket.create_server((\"\", 0))'").stderr_text
    sandbox.reap()
    sandbox.begin_grading()
    for phase in (Phase.GRADE, Phase.RUN):
        assert "PermissionError" in sh(sandbox, CONNECT.format(port=server), phase).stderr_text


@pytest.mark.parametrize(
    ("network", "version", "reason"),
    [("none", 3, "Landlock 4"), ("none", 0, "no Landlock"), ({"allow": ["example.com:443"]}, 7, "tell hosts apart")],
)
def test_a_network_that_cannot_be_bounded_is_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch, network: Any, version: int, reason: str
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: version)
    with pytest.raises(TrialError, match=reason) as caught:
        make(network=network)
    assert caught.value.cause is Cause.SANDBOX
    there = TempdirDriver().availability(Order(SandboxConfig(network=network)))
    assert not there.usable
    assert reason in there.reason
    assert make().described["network"] == "that of this machine"


# -- older kernels, and what is said


@pytest.mark.parametrize("version", [0, 1])
def test_where_files_cannot_be_restricted_all_is_as_it_was_and_said(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: version)
    sandbox = make()
    assert out(sandbox, f"cat {tmp_path}/other; echo x >>{tmp_path}/other") == "of somebody else"
    assert sandbox.described["landlock"] == version
    assert any(text.startswith("files:") for text in list_of(sandbox, "does_not_isolate"))
    assert not any("files" in text for text in list_of(sandbox, "isolates"))


def list_of(sandbox: DirectorySandbox, key: str) -> list[str]:
    found = sandbox.described[key]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("version", range(8))
def test_what_is_said_fits_a_line_and_is_plain_data(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: version)
    networks: tuple[NetworkKind, ...] = ("shared", "none")
    for network in networks:
        told: dict[str, Any] = confinement.account(network, temporary=False)
        texts = [*told["isolates"], *told["does_not_isolate"], told["network"], told["means"]]
        assert all(isinstance(text, str) and len(text) < 110 and "\n" not in text for text in texts)
        assert ("signals to other processes" in told["does_not_isolate"]) == (version < landlock.SCOPES)
        assert told["sandboxes_inside"] == (version < landlock.FILES)


def test_a_restriction_that_the_kernel_lacks_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 3)
    with pytest.raises(OSError, match="Landlock 3, and 4 is needed"):
        restrict(Rules(ports=()))


@needs_files
def test_the_directory_for_temporary_files_is_for_all_unless_something_secret_lies_in_it() -> None:
    """Programs that do not ask for TMPDIR write there; a rule for it would hold for all that is in it."""
    far = Path("/var/tmp")
    for secret, usable in ((far / "checkout", True), (Path("/tmp/checkout"), False)):
        order = Order(SandboxConfig(), EnvironmentPlan(withhold=(secret,)), root_parent=far)
        with contextlib.closing(TempdirDriver().create(order)) as sandbox:
            result = sandbox.run(
                ["sh", "-c", 'f=$(mktemp /tmp/XXXXXX) && echo x >"$f" && cat "$f" && rm "$f"'],
                phase=Phase.AGENT,
                timeout=20,
            )
            assert (result.exit_status == 0) is usable
            assert any("/tmp" in text for text in cast("Any", sandbox.described["does_not_isolate"])) is usable


def test_sandboxes_stay_away_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    with contextlib.closing(TempdirDriver().create(Order(SandboxConfig()))) as sandbox:
        assert not sandbox.root.is_relative_to("/tmp")
    monkeypatch.setenv("TMPDIR", "/tmp")
    with contextlib.closing(TempdirDriver().create(Order(SandboxConfig()))) as sandbox:
        assert sandbox.root.is_relative_to("/tmp")
