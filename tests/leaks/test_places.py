"""Withheld paths in data: whole, wherever the data is torn apart, but for what may be named."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.leaks.places import PlaceFinder, usable_places

PLACES = {"/home/me/project": "checkout", "/home/me/project/tasks": "task's folder"}
ALLOWED = (Path("/home/me/project/.venv"),)

CASES = {
    "cat /home/me/project/tasks/a.yaml": {"checkout", "task's folder"},
    "ls '/home/me/project'": {"checkout"},
    "file:///home/me/project/x": {"checkout"},
    "/home/me/project2/x": set(),
    "/home/me/project-old": set(),
    "/mnt/home/me/project": set(),
    "/home/me/project/.venv/bin/python": set(),
    "/home/me/project/.venv2/x": {"checkout"},
    "/home/me/project/.venv/bin/python /home/me/project/x": {"checkout"},
    "/home/me": set(),
}


@settings(deadline=None)
@given(text=st.sampled_from(sorted(CASES)), cuts=st.lists(st.integers(0, 120), max_size=8), filler=st.integers(0, 60))
def test_paths_are_found_whole_and_in_whatever_pieces(text: str, cuts: list[int], filler: int) -> None:
    finder = PlaceFinder(PLACES, ALLOWED)
    data = b"x" * filler + b" " + text.encode()
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        finder.feed(data[start:end])
    assert finder.finish() == CASES[text]


@pytest.mark.parametrize(("place", "usable"), [("/", False), ("/app", False), ("/srv/app", True), ("/opt/py", False)])
def test_places_that_mean_nothing_are_not_looked_for(place: str, usable: bool) -> None:
    assert bool(usable_places({"checkout": Path(place)}, [Path("/opt/py")])) is usable


def test_a_place_is_looked_for_by_its_real_path_too(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert set(usable_places({"checkout": tmp_path / "link"}, [])) == {str(tmp_path / "link"), str(tmp_path / "real")}
