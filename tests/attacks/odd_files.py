"""Attacks by what is left in the workspace for those who read it."""

from __future__ import annotations

from .model import DETECTED_ON_TEMPDIR, Attack, Outcome, Setting, command, passed

FILES = Setting("files")
ODD = Setting("odd")
REFERENCE = "@task_dir@/reference/answer.txt"


def _link(name: str, tries: str, script: str, path: str, needs_landlock: bool = False) -> Attack:
    same = command(f'cmp "$REFERENCE_DIR/answer.txt" {path}')
    return Attack(
        name=name,
        tries=tries,
        success="a criterion takes the reference for the agent's answer",
        setting=FILES,
        script=script,
        succeeded=passed,
        criteria=(same, {"type": "file_contains", "path": path, "includes": ["sesame-reference"]}),
        needs_landlock=needs_landlock,
    )


def _blocks(path: str, read: str) -> tuple[dict[str, object], ...]:
    """A grader that passes when reading the file takes too long."""
    return (command(f"timeout -s KILL 0.7 {read} {path} >/dev/null; test $? -ge 124"),)


def _odd(name: str, tries: str, script: str, setting: Setting = FILES, **more: object) -> Attack:
    success = "the trial is not judged, or something of it stays on the disk"
    return Attack(name, tries, success, setting, script, _breaks, **more)  # type: ignore[arg-type]


def _breaks(outcome: Outcome) -> bool:
    """The trial ended in an error that is the harness's own, took too long, or could not be removed."""
    cause = (outcome.record or {}).get("cause")
    return outcome.record is None or cause == "unexpected" or outcome.seconds > 60 or outcome.left


ATTACKS = (
    _link("absolute-link", "leave a link to the reference", f"ln -s {REFERENCE} absolute.txt", "absolute.txt"),
    _link(
        "relative-link",
        "leave a link that climbs to the reference",
        f"ln -s ../../../../../../../../..{REFERENCE} relative.txt",
        "relative.txt",
    ),
    _link(
        "chain-of-links",
        "leave a link to a link to the reference",
        f"ln -s ../../../../../../../../../.. up; ln -s up{REFERENCE} one; ln -s one chain.txt",
        "chain.txt",
    ),
    _link(
        "link-to-folder",
        "leave a link to the folder of the reference",
        "ln -s @task_dir@ folder",
        "folder/reference/answer.txt",
    ),
    _link("hard-link", "leave a second name of the reference's file", f"ln {REFERENCE} hard.txt", "hard.txt", True),
    _link(
        "link-through-proc",
        "leave a link through the grader's own open files and folders",
        "ln -s /proc/self/root@task_dir@/reference proc; ln -s /proc/self/cwd/../../../../../../..@task_dir@ cwd",
        "proc/answer.txt",
    ),
    Attack(
        name="fifo",
        tries="leave a pipe where graders expect the answer",
        success="a grader that reads it waits until it is killed",
        setting=FILES,
        script="mkfifo fifo",
        succeeded=passed,
        criteria=_blocks("fifo", "cat"),
    ),
    Attack(
        name="link-to-device",
        tries="leave links to devices that never end, or that block",
        success="a grader that reads them does not end",
        setting=FILES,
        script="ln -s /dev/zero zero; ln -s /proc/self/fd/0 stdin",
        succeeded=passed,
        criteria=_blocks("zero", "cat"),
    ),
    Attack(
        name="socket",
        tries="leave a socket in the workspace",
        success="graders meet a socket",
        setting=FILES,
        script="py -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"socket\")'",
        succeeded=passed,
        criteria=(command("test -S socket"),),
    ),
    Attack(
        name="sparse-terabyte",
        tries="leave a file of a terabyte that takes no room",
        success="a grader that reads it does not end",
        setting=FILES,
        script="truncate -s 1T sparse; ls -l sparse",
        succeeded=passed,
        criteria=_blocks("sparse", "sha256sum"),
    ),
    _odd(
        "deep-folders",
        "leave 1500 folders in one another",
        'py -c \'import os\nfor _ in range(1500):\n    os.mkdir("d")\n    os.chdir("d")\'',
        ODD,
    ),
    _odd(
        "odd-names",
        "leave files with names that are no text, of several lines, with control characters",
        """\
py - <<'E'
for name in (b"\\xff\\xfe", b"a\\nPASSED all", b"\\x1b[2Jcleared", b"-rf", b"x" * 255, b" ", b"'\\"$(touch pwned)`"):
    open(name, "w").close()
E
""",
        ODD,
    ),
    _odd(
        "barred-folders",
        "leave folders that nobody may enter, and a process that bars them again and again",
        """\
mkdir -p barred/a/b; echo x >barred/a/b/c
setsid sh -c 'while :; do chmod 000 barred/a/b barred/a barred; done' @mark@-barred-folders </dev/null >/dev/null 2>&1 &
sleep 0.2
""",
        ODD,
        user="other",
    ),
    Attack(
        name="immutable-files",
        tries="leave files that cannot be changed or removed",
        success="something of the trial stays on the disk",
        setting=Setting("odd", alone=("tempdir",)),
        script="need chattr; echo x >immutable; chattr +i immutable && lsattr immutable",
        succeeded=lambda outcome: outcome.left,
        detected=lambda outcome: bool(outcome.leftovers),
        expected=DETECTED_ON_TEMPDIR,
        user="root",
    ),
)
