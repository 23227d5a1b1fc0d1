"""Checks of what goes into a sandbox and what comes out of it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..drivers import Isolation
from ..protocol import Phase
from .registration import Make, check, equal
from .watching import PATIENCE, sh, told

ODD_NAMES = (
    b"plain",
    b"with a space",
    b"line\nfeed",
    b"\x1b[31mred",
    b"\xff\xfe not UTF-8",
    "é😀".encode(),
    b"-rf",
    b"'\"`$HOME\\",
    b"n" * 255,
)
"""Names of files that are to survive every way in and out."""


@contextlib.contextmanager
def folder_of_the_harness() -> Iterator[Path]:
    """A folder outside of every sandbox, which every user may enter."""
    with tempfile.TemporaryDirectory(prefix="codereval-conformance-") as made:
        folder = Path(made).resolve()
        folder.chmod(0o755)
        yield folder


def make_odd_files(folder: str) -> str:
    """Shell text that makes a file of each odd name in `folder`, its content being its number."""
    quoted = (f"'{os.fsdecode(name).replace(chr(39), chr(39) + chr(92) + chr(39) + chr(39))}'" for name in ODD_NAMES)
    lines = [f"printf %s {number} >{folder}/{name}" for number, name in enumerate(quoted)]
    return "\n".join([f"mkdir -p {folder}", *lines])


def odd_files(folder: Path) -> dict[bytes, bytes]:
    """Name and content of each file."""
    return {os.fsencode(path.name): path.read_bytes() for path in folder.iterdir()}


EXPECTED_ODD_FILES = {name: str(number).encode() for number, name in enumerate(ODD_NAMES)}


@check(sharing=True)
def check_files_of_any_name_come_out(make: Make) -> None:
    """The harness reads below `workspace` what the agent wrote there; `files` too."""
    sandbox = make()
    told(sandbox, make_odd_files("out-names"))
    equal(odd_files(sandbox.workspace / "out-names"), EXPECTED_ODD_FILES, "files on the harness's side")
    for name, content in EXPECTED_ODD_FILES.items():
        equal(sandbox.files.read_bytes(f"out-names/{os.fsdecode(name)}"), content, f"the content of {name!r}")


@check(sharing=True)
def check_files_of_any_name_go_in(make: Make) -> None:
    """With the folders above them; the agent may change and remove all of it."""
    sandbox = make()
    for name, content in EXPECTED_ODD_FILES.items():
        sandbox.write_file(f"in/names/{os.fsdecode(name)}", content)
        argv = ["cat", f"./in/names/{os.fsdecode(name)}"]
        equal(
            sandbox.run(argv, phase=Phase.AGENT, timeout=PATIENCE).stdout, content, f"what the agent reads in {name!r}"
        )
    large = os.urandom(1 << 20)
    sandbox.write_file("in/large", large)
    result = sandbox.run(["cat", "in/large"], phase=Phase.AGENT, timeout=PATIENCE, output_limit=2 << 20)
    assert result.stdout == large, "a file of a mebibyte is not what was written"
    sandbox.write_file("in/large", b"short")
    equal(told(sandbox, "cat in/large; echo more >>in/large; cat in/large"), "shortshortmore\n", "a file written anew")
    sandbox.make_folder("in/folder/below")
    told(sandbox, "touch in/folder/x in/folder/below/x in/x; rm -r in")
    assert not sandbox.files.exists("in"), "what the agent removed is still there"


@check(sharing=True)
def check_an_executable_file_can_be_run(make: Make) -> None:
    """Also one that was there already and could not."""
    sandbox = make()
    script = b"#!/bin/sh\necho ran\n"
    sandbox.write_file("tools/first", script, executable=True)
    sandbox.write_file("tools/second", script)
    equal(sh(sandbox, "tools/second").exit_status, 126, "the status of a file that is not executable")
    sandbox.write_file("tools/second", script, executable=True)
    equal(told(sandbox, "tools/first; tools/second"), "ran\nran\n", "what executable files print")


@check(sharing=True)
def check_no_write_of_the_harness_leaves_the_workspace(make: Make) -> None:
    """Not by a link, however it came there, nor by `..`; a fifo holds nothing up."""
    sandbox = make()
    with folder_of_the_harness() as outside:
        (outside / "file").write_text("untouched")
        told(
            sandbox,
            f"ln -s {outside} away; ln -s {outside}/file one; ln -s .. up; mkfifo fifo; ln -s {outside}/new new",
        )
        for path in ("away/x", "away/file", "one", "up/x", "fifo", "new", "../x", f"{outside}/x", "a/../../x"):
            try:
                sandbox.write_file(path, b"written")
            except OSError:
                continue
            raise AssertionError(f"write_file({path!r}) did not raise OSError")
        for path in ("away/folder", "up/folder", "../folder", f"{outside}/folder"):
            try:
                sandbox.make_folder(path)
            except OSError:
                continue
            raise AssertionError(f"make_folder({path!r}) did not raise OSError")
        equal(sorted(path.name for path in outside.iterdir()), ["file"], "what lies outside of the workspace")
        equal((outside / "file").read_text(), "untouched", "a file outside of the workspace")
    beside = {path.name for path in sandbox.root.iterdir()} & {"x", "folder"}
    equal(beside, set(), "what was written beside the workspace")


@check()
def check_what_is_made_ready_is_there_for_the_agent(make: Make) -> None:
    """`run_tool`, `write_home`, `provide` and `expose`, before anything runs in AGENT; links are not provided."""
    sandbox = make()
    with folder_of_the_harness() as folder:
        for name in ("skill", "program"):
            (folder / name).mkdir()
            (folder / name / "file").write_text(f"{name}\n")
        (folder / "skill" / "link").symlink_to("/etc/passwd")
        sandbox.write_home(".config/tool/settings", b"settings\n")
        provided = sandbox.provide(folder / "skill", "skills/mine")
        sandbox.expose(folder / "program")
        done = sandbox.run_tool(
            ["sh", "-c", "mkdir made; echo made >made/file"], cwd=sandbox.workspace, timeout=PATIENCE
        )
        equal(done.exit_status, 0, f"the status of a tool that said {done.stderr_text!r:.200}")
        failed = sandbox.run_tool(["sh", "-c", "echo why >&2; exit 3"], cwd=sandbox.workspace, timeout=PATIENCE)
        equal((failed.exit_status, failed.stderr), (3, b"why\n"), "status and errors of a tool that fails")
        files = f"~/.config/tool/settings {provided}/file {folder}/program/file made/file"
        expected = ["settings", "skill", "program", "made", "file"]
        equal(told(sandbox, f"cat {files}; ls {provided}").split(), expected, "HOME, provided, exposed, made; listed")
        told(sandbox, "echo more >>~/.config/tool/settings; touch ~/.config/tool/new ~/new $TMPDIR/new; cd ~")
        equal(told(sandbox, "echo $HOME").strip(), str(sandbox.home), "HOME")
        assert not provided.is_relative_to(sandbox.workspace), "what is provided lies in the workspace"


@check()
def check_shims_are_first_on_the_agents_path_only(make: Make) -> None:
    """In grading they are found only by who asks for them with `env_with_shims`."""
    sandbox = make()
    shim = sandbox.bin_dir / "shimmed-tool"
    shim.write_text("#!/bin/sh\necho shim\n")
    shim.chmod(0o755)
    equal(told(sandbox, "shimmed-tool"), "shim\n", "a shim in AGENT")
    equal(told(sandbox, "echo ${PATH%%:*}").strip(), str(sandbox.bin_dir), "the first folder of PATH")
    sandbox.begin_grading()
    equal(sh(sandbox, "shimmed-tool", Phase.GRADE).exit_status, 127, "the status of a shim in GRADE")
    argv, env = ["sh", "-c", "shimmed-tool"], sandbox.env_with_shims()
    result = sandbox.run(argv, phase=Phase.GRADE, timeout=PATIENCE, env=env)
    equal(result.stdout, b"shim\n", "a shim in GRADE for who asks for it")


@check(needed_from=Isolation.BUBBLEWRAP, sharing=True)
def check_the_agent_writes_nowhere_else(make: Make) -> None:
    """Not to the harness's folders, to what lies beside its own, nor to its shims."""
    sandbox = make()
    with folder_of_the_harness() as folder:
        folder.chmod(0o777)
        (folder / "file").write_text("untouched")
        places = (f"{folder}/file", f"{folder}/new", f"{sandbox.root}/new", f"{sandbox.bin_dir}/new")
        for place in places:
            sh(sandbox, f"mkdir -p {folder}; echo written >>{place}")
        equal([path.name for path in folder.iterdir()], ["file"], "a folder of the harness")
        equal((folder / "file").read_text(), "untouched", "a file of the harness")
    made = [path for path in (sandbox.root / "new", sandbox.bin_dir / "new") if path.exists()]
    equal(made, [], "what the agent made beside its own folders")


@check(needed_from=Isolation.BUBBLEWRAP, sharing=True)
def check_the_agent_has_no_privileges(make: Make) -> None:
    """No capabilities, none to be had by a setuid program; where the harness is root the agent is another user."""
    sandbox = make()
    lines = (line.partition(":") for line in told(sandbox, "cat /proc/self/status").splitlines())
    status = {name: value.split() for name, _, value in lines}
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", *(["CapBnd"] if sandbox.foreign_user else ())):
        equal(int(status[name][0], 16), 0, name)
    equal(status["NoNewPrivs"], ["1"], "NoNewPrivs")
    if sandbox.foreign_user:
        assert "0" not in status["Uid"] + status["Gid"], f"the user or group is root: {status['Uid']} {status['Gid']}"
        equal(set(status.get("Groups", [])) - set(status["Gid"]), set(), "further groups")
