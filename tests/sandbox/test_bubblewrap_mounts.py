"""What is seen of the disk: the options of bwrap for a view, tried with bwrap itself, and what PATH needs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_codereval.sandbox import drivers
from pytest_codereval.sandbox.bubblewrap.mounts import Base, plan
from pytest_codereval.sandbox.bubblewrap.system_files import system_files
from pytest_codereval.sandbox.enclosure import Mount, View
from pytest_codereval.sandbox.exposure import exposed

_HERE = drivers.driver("bubblewrap").availability()

needs_bubblewrap = pytest.mark.skipif(not _HERE.usable, reason=f"no bubblewrap: {_HERE.reason}")

See = Callable[..., dict[str, str]]


@pytest.fixture
def see(tmp_path: Path) -> See:
    """What the files below `tmp_path/host` hold where a view shows them: content by path."""

    def look(
        *mounts: Path | Mount, hidden: tuple[Path, ...] = (), exposed: tuple[Path, ...] = (), **view: object
    ) -> dict[str, str]:
        named = tuple(each if isinstance(each, Mount) else Mount(each, each) for each in mounts)
        base = Base(system_files(tmp_path, None), exposed, (str(tmp_path / "host/bin"),))
        shown = View(tmp_path, named, hidden, **view)  # type: ignore[arg-type]
        options = [] if os.geteuid() == 0 else ["--unshare-user"]
        find = f"cd {tmp_path} 2>/dev/null && find host -type f -exec sh -c 'echo $1=$(cat $1)' sh {{}} \\;"
        argv = ["bwrap", *options, *plan(base, shown, hosts={}), "--", "/bin/sh", "-c", find]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False, cwd="/")
        assert done.stderr == ""
        return dict(line.split("=") for line in done.stdout.splitlines())

    return look


@pytest.fixture
def host(tmp_path: Path) -> Path:
    folder = tmp_path / "host"
    for path in ("checkout/task/answer", "checkout/.venv/bin/tool", "checkout/runs/r", "other/file", "bin/git"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"{Path(path).name}\n")
    return folder


@needs_bubblewrap
def test_nothing_is_there_but_what_is_asked_for(see: See, host: Path) -> None:
    assert see(host / "other") == {"host/other/file": "file"}


@needs_bubblewrap
def test_a_hidden_place_is_covered_wherever_a_mount_shows_it(see: See, host: Path, tmp_path: Path) -> None:
    (host / "copy").mkdir()
    elsewhere = Mount(host / "checkout", tmp_path / "host/copy")
    found = see(host, elsewhere, hidden=(host / "checkout/task", host / "checkout/runs/r"))
    assert {path for path in found if "answer" in path or path.endswith("/r")} == {
        "host/checkout/runs/r",
        "host/copy/runs/r",
    }
    assert found["host/checkout/runs/r"] == ""


@needs_bubblewrap
def test_what_is_asked_for_below_a_hidden_place_is_seen(see: See, host: Path) -> None:
    checkout = host / "checkout"
    expected = {"host/checkout/.venv/bin/tool": "tool"}
    assert see(checkout, hidden=(checkout,), exposed=(checkout / ".venv",)) == expected
    assert see(checkout / ".venv", host, hidden=(checkout, host / "other", host / "bin")) == expected


@needs_bubblewrap
def test_a_hidden_place_below_what_is_seen_in_a_hidden_place_is_covered(see: See, host: Path) -> None:
    checkout = host / "checkout"
    assert see(checkout / ".venv", host / "checkout/.venv", hidden=(checkout, checkout / ".venv/bin")) == {}


@needs_bubblewrap
def test_a_link_to_a_hidden_place_shows_nothing(see: See, host: Path) -> None:
    (host / "way").symlink_to("checkout/task")
    assert see(host / "way", hidden=(host / "checkout/task",)) == {}
    assert see(host / "other", hidden=(host / "way",)) == {"host/other/file": "file"}
    assert "host/checkout/task/answer" not in see(host / "checkout", hidden=(host / "way",))


@needs_bubblewrap
def test_a_mount_whose_path_is_a_link_shows_what_it_leads_to(see: See, host: Path) -> None:
    (host / "other/link").symlink_to(host / "checkout")
    found = see(host / "other", host / "other/link/task")
    assert found == {"host/other/file": "file", "host/checkout/task/answer": "answer"}
    assert see(host / "other/link") == {
        f"host/other/link/{path}": Path(path).name for path in ("task/answer", ".venv/bin/tool", "runs/r")
    }


@needs_bubblewrap
def test_shims_cover_programs_of_their_name_only(see: See, host: Path) -> None:
    for name, target in {"hub": "git", "ls": "busybox"}.items():
        (host / "bin" / name).symlink_to(target)
    (host / "bin/busybox").write_text("all\n")
    (host / "other/sed").write_text("real\n")
    (host / "bin/sed").symlink_to("../other/sed")
    shim = host / "shim"
    shim.write_text("shim\n")
    shims = dict.fromkeys(("git", "hub", "ls", "sed", "busybox"), shim)
    found = see(host / "bin", host / "other", shims=shims)
    assert found == {
        "host/bin/git": "shim",
        "host/bin/busybox": "all",
        "host/other/file": "file",
        "host/other/sed": "shim",
    }


def test_programs_need_what_their_folder_belongs_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    for path in (
        *("venv/bin/python3", ".local/bin/own", ".local/share/keys", ".local/lib/own.py", ".pyenv/shims/pip"),
        *(".pyenv/versions/3/bin/python3", "work/node_modules/x/cli.js", "bin/script", "tools/run", ".ssh/id"),
        "venv/pyvenv.cfg",
    ):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).touch()
    (home / "work/node_modules/.bin").mkdir()
    (home / "work/node_modules/.bin/x").symlink_to("../x/cli.js")
    (home / "venv/bin/python").symlink_to(home / ".pyenv/versions/3/bin/python3")
    (home / "bin/alias").symlink_to(home / "tools/run")
    monkeypatch.setenv("HOME", str(home))

    def needed(*folders: str) -> set[str]:
        found = {path for path in exposed([home / folder for folder in folders]) if path.is_relative_to(home)}
        return {str(path.relative_to(home)) for path in found}

    assert needed("venv/bin") == {"venv", "venv/bin", ".pyenv/versions/3", ".pyenv/versions/3/bin"}
    assert needed(".local/bin") == {".local/bin", ".local/lib"}
    assert needed(".pyenv/shims") == {".pyenv", ".pyenv/shims"}
    assert needed("work/node_modules/.bin") == {
        "work/node_modules",
        "work/node_modules/.bin",
        "work/node_modules/x/cli.js",
    }
    assert needed("bin") == {"bin", "tools/run"}
    assert needed(".", "..", "missing/bin") == set()
