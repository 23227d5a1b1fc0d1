"""The cleaning function and what goes over the wire."""

from __future__ import annotations

import enum
import json
import xml.etree.ElementTree as ET
from decimal import Decimal
from pathlib import Path

from execnet.gateway_base import dumps, loads
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.text import clean, shorten, wire

any_text = st.text(st.characters(exclude_categories=()))


@given(any_text)
def test_clean_text_can_be_written_everywhere(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in cleaned)
    element = ET.Element("e")
    element.text = cleaned
    assert ET.fromstring(ET.tostring(element, encoding="unicode")).text == (cleaned or None)


@given(any_text)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@given(st.text(st.characters(categories=("L", "N", "P", "Zs", "S"))))
def test_ordinary_text_stays(text: str) -> None:
    assert clean(text + "\n\t") == text + "\n\t"


def test_an_escape_is_visible() -> None:
    assert clean("a\x1b[31mb\x00\udcff\r\n") == "a\\x1b[31mb\\x00\\udcff\n"


class Colour(enum.StrEnum):
    RED = "red"


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | any_text
    | st.binary()
    | st.just(Colour.RED)
    | st.just(Path("a/b"))
    | st.just(Decimal("1.5")),
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner) | st.tuples(inner),
    max_leaves=10,
)


@given(anything)
def test_what_is_wired_survives_json_and_xdist(value: object) -> None:
    wired = wire(value)
    assert json.loads(json.dumps(wired, allow_nan=False)) == wired
    if not _has_large_int(wired):
        assert loads(dumps(wired)) == wired


def _has_large_int(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_has_large_int, value))
    if isinstance(value, dict):
        return any(map(_has_large_int, value.values()))
    return isinstance(value, int) and abs(value) >= 2**31


def test_shortening_keeps_head_and_tail_and_says_so() -> None:
    text = "".join(map(str, range(1000)))
    short = shorten(text, 90)
    assert short.startswith(text[:60])
    assert short.endswith(text[-30:])
    assert f"{len(text) - 90} characters left out" in short
    assert shorten(text, len(text)) == text
