"""Places of the harness that graders are to read as another user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox import legibility
from pytest_codereval.sandbox.enclosure import Mount, Owner
from pytest_codereval.sandbox.legibility import Legible, may_read

OTHER = Owner(61000, 61000)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "check.sh").write_text("echo ok\n")
    (folder / "deep" / "check.sh").chmod(0o755)
    (folder / "link").symlink_to("deep/check.sh")
    folder.chmod(0o755)
    return folder


def legible(tmp_path: Path, owner: Owner | None = OTHER) -> Legible:
    return Legible(tmp_path / "copies", owner)


def test_what_can_be_read_is_shown_itself(tmp_path: Path, place: Path) -> None:
    assert legible(tmp_path).whole(place) == [Mount(place, place)]
    assert legible(tmp_path).outline(place) == [Mount(place, place)]
    assert not (tmp_path / "copies").exists()


def test_the_harness_s_own_user_reads_everything(tmp_path: Path, place: Path) -> None:
    place.chmod(0o700)
    assert legible(tmp_path, None).whole(place) == [Mount(place, place)]
    assert legible(tmp_path, None).outline(place) == [Mount(place, place)]


@pytest.mark.parametrize("private", [".", "deep", "deep/check.sh"])
def test_a_private_part_makes_a_copy_that_can_be_read(tmp_path: Path, place: Path, private: str) -> None:
    (place / private).chmod(0o700)
    found = legible(tmp_path)
    (mount,) = found.whole(place)
    assert mount.target == place
    assert mount.source.is_relative_to(tmp_path / "copies")
    assert (mount.source / "link").read_text() == "echo ok\n"
    for folder, _, names in os.walk(mount.source):
        assert all(may_read(Path(folder, name).stat(), OTHER) for name in (*names, "."))
    assert (mount.source / "deep" / "check.sh").stat().st_mode & 0o111
    assert found.whole(place) == [mount]


def test_a_private_file_is_copied_under_its_name(tmp_path: Path) -> None:
    file = tmp_path / "answer.json"
    file.write_text("42")
    file.chmod(0o600)
    (mount,) = legible(tmp_path).whole(file)
    assert (mount.target, mount.source.name, mount.source.read_text()) == (file, "answer.json", "42")
    assert may_read(mount.source.stat(), OTHER)


def test_a_private_folder_in_outline_is_what_lies_in_it(tmp_path: Path, place: Path) -> None:
    place.chmod(0o700)
    found = legible(tmp_path).outline(place)
    assert {mount.target for mount in found} == {place / "deep", place / "link"}
    assert Mount(place / "deep" / "check.sh", place / "link") in found


def test_what_is_too_large_for_a_copy_is_an_error(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.chmod(0o700)
    monkeypatch.setattr(legibility, "LARGEST_COPY", 3)
    with pytest.raises(TrialError, match=r"chmod -R o\+rX") as caught:
        legible(tmp_path).whole(place)
    assert caught.value.cause is Cause.SANDBOX


@pytest.mark.parametrize(
    ("mode", "readable"), [(0o644, True), (0o640, False), (0o604, True), (0o600, False), (0o444, True)]
)
def test_permissions_of_a_file(tmp_path: Path, mode: int, readable: bool) -> None:
    file = tmp_path / "f"
    file.touch()
    file.chmod(mode)
    assert may_read(file.stat(), OTHER) is readable
    owner = Owner(os.getuid(), os.getgid())
    assert may_read(file.stat(), owner) is bool(mode & 0o400)
