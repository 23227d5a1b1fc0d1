"""Canaries in data: every encoding that is promised, wherever the data is torn apart, and nothing else."""

from __future__ import annotations

import base64
import itertools
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.leaks.tokens import CanaryReader, TokenFinder, fresh_canary, shown

OWN = "codereval-canary-0123456789abcdef0123456789abbeef"
GUID = "26b5c67b-86b7-4d8c-91e4-6c9f3b5d0a17"
TOKENS = st.sampled_from([OWN, GUID])

ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "capitals": bytes.upper,
    "reversed": lambda data: data[::-1],
    "hexadecimal": lambda data: data.hex().encode(),
    "hexadecimal capitals": lambda data: data.hex().upper().encode(),
    "base64": base64.b64encode,
    "base64 for URLs": base64.urlsafe_b64encode,
    "base64 in lines": base64.encodebytes,
    "UTF-16": lambda data: data.decode("latin-1").encode("utf-16-le"),
    "spaced out": lambda data: b" ".join(data[i : i + 4] for i in range(0, len(data), 4)),
}


def fed(finder: TokenFinder | CanaryReader, data: bytes, cuts: list[int]) -> None:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in itertools.pairwise(places):
        finder.feed(data[start:end])


@settings(deadline=None, max_examples=150)
@given(
    token=TOKENS,
    encoding=st.sampled_from(sorted(ENCODINGS)),
    before=st.binary(max_size=80),
    after=st.binary(max_size=80),
    cuts=st.lists(st.integers(0, 400), max_size=6),
)
def test_a_token_is_found_in_whatever_form_and_pieces(
    token: str, encoding: str, before: bytes, after: bytes, cuts: list[int]
) -> None:
    finder = TokenFinder([OWN, GUID])
    encode = ENCODINGS[encoding]
    data = encode(before + token.encode() + after) if "base64" in encoding else before + encode(token.encode()) + after
    fed(finder, data, cuts)
    assert finder.found == {token}


@settings(deadline=None)
@given(data=st.text(alphabet="codereval-canary-0123456789abcdef \n", max_size=300), cuts=st.lists(st.integers(0, 300)))
def test_what_only_looks_like_a_token_is_none(data: str, cuts: list[int]) -> None:
    finder = TokenFinder([fresh_canary()])
    fed(finder, data.encode(), cuts)
    assert not finder.found


def test_what_was_found_is_forgotten_at_a_restart() -> None:
    finder = TokenFinder([OWN])
    finder.feed(OWN[:20].encode())
    finder.restart()
    finder.feed(OWN[20:].encode())
    assert not finder.found


@settings(deadline=None)
@given(
    before=st.binary(max_size=60),
    after=st.sampled_from([b"", b"\n", b" -->", b"zz", b"\xff"]),
    cuts=st.lists(st.integers(0, 200), max_size=6),
)
def test_canaries_are_read_from_files(before: bytes, after: bytes, cuts: list[int]) -> None:
    for text, token in ((OWN, OWN), (f"canary GUID {GUID}", GUID), (f"x-canary  guid: {GUID.upper()}", GUID)):
        reader = CanaryReader()
        fed(reader, before + b"\n" + text.encode() + after, cuts)
        assert token in reader.finish()


@pytest.mark.parametrize(
    "text", [f"{OWN}0", OWN[:-1], f"GUID {GUID}", f"canary {GUID}", f"canary GUID {GUID}0", "codereval-canary-<hex>"]
)
def test_canaries_are_whole_and_marked(text: str) -> None:
    reader = CanaryReader()
    reader.feed(text.encode())
    assert reader.finish() == frozenset()


def test_only_the_beginning_of_a_token_is_shown() -> None:
    assert shown(OWN) == "codereval-canary-0123..."
    assert shown(GUID) == "26b5c67b..."


def test_the_command_line_gives_a_fresh_canary() -> None:
    def asked() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest_codereval", "canary"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    first, second = asked(), asked()
    assert re.fullmatch(r"codereval-canary-[0-9a-f]{32}\n", first.stdout)
    assert first.stdout != second.stdout
    assert "never into a prompt" in first.stderr
