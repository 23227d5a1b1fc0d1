"""Commands in containers: what their end, their output and the end of their container look like."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.docker import leftovers
from pytest_codereval.sandbox.protocol import Phase
from tests.sandbox.docker.making import create, sh
from tests.sandbox.processes import wait_until


@pytest.fixture(scope="module")
def sandbox(base_image: str) -> Iterator[DirectorySandbox]:
    made = create(base_image, limits={"max_memory_mb": 64, "max_pids": 100})
    with contextlib.closing(made):
        yield made


def container_of(client: Any, sandbox: DirectorySandbox) -> Any:
    """The container that a sandbox has now."""
    label = f"{leftovers.LOCK}={sandbox.root.parent.with_suffix('.lock')}"
    (found,) = [
        each for each in client.containers.list(filters={"label": label}) if f"-{sandbox.root.name}-" in each.name
    ]
    return found


def test_a_background_process_goes_on_writing_to_the_output_of_its_command(sandbox: DirectorySandbox) -> None:
    script = "(sleep 2.5; head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; echo end >written) & echo begun"
    assert sh(sandbox, script).stdout == b"begun\n"
    assert sh(sandbox, "echo next").stdout == b"next\n"
    wait_until((sandbox.workspace / "written").exists)


def test_the_end_of_a_command_is_told_while_another_one_has_left_a_writer(sandbox: DirectorySandbox) -> None:
    writer = sh(sandbox, "sleep 18 & echo $!").stdout_text.strip()
    for _ in range(10):
        result = sh(sandbox, "echo x; exit 9")
        assert (result.exit_status, result.stdout) == (9, b"x\n")
    assert sh(sandbox, f"kill {writer}").exit_status == 0, "had each end been told 2 s late, it would have ended"


def test_what_cannot_be_run_is_told_as_a_shell_does(sandbox: DirectorySandbox) -> None:
    missing = sandbox.run(["no-such-program"], phase=Phase.AGENT, timeout=60)
    assert missing.exit_status == 127
    assert b"no-such-program: not found" in missing.stderr
    assert str(sandbox.root).encode() not in missing.stderr
    own = sh(sandbox, "echo 'OCI runtime exec failed: x'; exit 126")
    assert (own.exit_status, own.stdout) == (126, b"OCI runtime exec failed: x\n")
    odd = sandbox.run(["a\0b"], phase=Phase.AGENT, timeout=60)
    assert (odd.exit_status, odd.timed_out) == (126, False)


def test_who_takes_too_much_memory_is_killed_and_nobody_else(sandbox: DirectorySandbox) -> None:
    result = sandbox.run(["python3", "-c", "x = bytearray(200 << 20)"], phase=Phase.AGENT, timeout=60)
    assert (result.exit_status, result.timed_out) == (137, False)
    places = "/tmp/x /var/tmp/x /dev/shm/x"
    sh(sandbox, f"for file in {places}; do head -c 100000000 /dev/zero >$file; done; rm -f {places}")
    assert sh(sandbox, "echo alive").stdout == b"alive\n"


def test_a_fork_bomb_is_bounded_and_ends_at_the_deadline(sandbox: DirectorySandbox) -> None:
    result = sh(sandbox, "bomb() { bomb | bomb & }; bomb; exec sleep 60", timeout=1)
    assert result.exit_status == 137, "at the deadline, or when the memory of the container was used up"
    if not result.timed_out:
        sandbox.reap()
    assert int(sh(sandbox, "ls -d /proc/[0-9]* | wc -l").stdout) < 8


def test_private_output_is_not_forged_by_what_runs_already(sandbox: DirectorySandbox) -> None:
    if not sandbox.foreign_user:
        pytest.skip("output is private only where the harness is root")
    forger = "while :; do for path in /proc/[0-9]*/fd/1; do echo forged >$path; done; done 2>/dev/null"
    sh(sandbox, f"({forger}) >/dev/null & ({forger}) >/dev/null &")
    try:
        with (
            contextlib.suppress(TrialError),
            contextlib.closing(sandbox.stream(["sleep", "60"], phase=Phase.AGENT, timeout=60)) as stream,
        ):
            assert any(b"forged" in piece for piece in stream), "what is not private is forged, or its start disturbed"
        sandbox.reap()
        sh(sandbox, f"({forger}) >/dev/null & ({forger}) >/dev/null &")
        for _ in range(3):
            script = "echo true; sleep 0.2; echo true"
            found = b"".join(sandbox.stream(["sh", "-c", script], phase=Phase.AGENT, timeout=60, private_output=True))
            assert b"forged" not in found
            assert found.count(b"true") == 2
    finally:
        sandbox.reap()


def test_a_container_that_is_killed_from_outside_is_an_error(sandbox: DirectorySandbox, docker_client: Any) -> None:
    stream = sandbox.stream(["sh", "-c", "echo up; sleep 60"], phase=Phase.AGENT, timeout=60)
    assert next(stream) == b"up\n"
    container_of(docker_client, sandbox).kill()
    with pytest.raises(TrialError, match="the container ended while it was in use: somebody killed it") as caught:
        list(stream)
    assert caught.value.cause is Cause.SANDBOX
    with pytest.raises(TrialError, match="somebody killed it"):
        sh(sandbox, "true")
    sandbox.reap()
    assert sh(sandbox, "echo again").stdout == b"again\n"


def test_shims_lie_over_the_programs_of_the_image(base_image: str) -> None:
    with contextlib.closing(create(base_image)) as sandbox:
        shim = sandbox.bin_dir / "git"
        shim.write_text("#!/bin/sh\necho covered\n", encoding="utf-8")
        shim.chmod(0o755)
        assert sandbox.cover("git", shim)
        assert sh(sandbox, "git; /usr/bin/git; env -i /bin/git").stdout == b"covered\n" * 3
        sandbox.begin_grading()
        assert sh(sandbox, "/usr/bin/git --version", Phase.GRADE).stdout.startswith(b"git version")


def test_what_is_hidden_is_out_of_sight_in_what_is_shown(base_image: str, tmp_path: Path) -> None:
    checkout, run = tmp_path / "checkout", tmp_path / "checkout" / "runs" / "now"
    run.mkdir(parents=True)
    (run / "record.json").write_text("secret", encoding="utf-8")
    (checkout / "seen").write_text("seen", encoding="utf-8")
    secret = checkout / "key"
    secret.write_text("secret", encoding="utf-8")
    odd = checkout / "a:b,c d"
    odd.write_text("odd", encoding="utf-8")
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    with contextlib.closing(create(base_image, withhold=(checkout,), hidden=(run, secret))) as sandbox:
        sandbox.show(odd)
        found = sh(sandbox, f"cd {checkout}; cat seen 'a:b,c d'; ls -A {run}; cat key; echo x >seen", Phase.PREPARE)
        assert found.stdout == b"seenodd"
        assert sh(sandbox, f"ls {checkout}").exit_status != 0


def test_the_workspace_lies_where_the_task_wants_it_too(base_image: str) -> None:
    with contextlib.closing(create(base_image, docker={"working_dir": "/opt/project"})) as sandbox:
        sandbox.write_file("a", b"x")
        assert sh(sandbox, f"pwd -P; ls; ls {sandbox.workspace}; echo y >b").stdout == b"/opt/project\na\na\n"
        assert (sandbox.workspace / "b").read_bytes() == b"y\n"
