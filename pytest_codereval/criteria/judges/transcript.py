"""The transcript of a judgement, kept in the trial's folder without the reference's text."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import JudgingError
from ...text import clean, cut
from .scrubbing import Scrubber

MOST_NUMBER = 10_000


def write_transcript(
    folder: Path | None,
    head: Mapping[str, object],
    messages: Sequence[tuple[str, str]],
    scrubber: Scrubber,
    most: int,
) -> str | None:
    """Write the next free `judge-N.json`; its name, None without a folder.

    `messages` are (who, text); the reference is taken out of them, then their texts are cut so that they have at most
    about `most` characters together. Raises JudgingError when it cannot be written.
    """
    if folder is None:
        return None
    texts = [(who, scrubber.scrub(clean(text))) for who, text in messages]
    shown = _limited(texts, most)
    whole = sum(len(text) for _, text in texts)
    content = {
        "format": "codereval-judge-transcript",
        "version": 1,
        **{key: _scrubbed(value, scrubber) for key, value in head.items()},
        "characters": whole,
        "cut": whole > most,
        "messages": [{"role": who, "text": text} for who, text in shown],
    }
    data = json.dumps(content, indent=1, default=str).encode("ascii")
    try:
        return _write_next(folder, data)
    except OSError as error:
        raise JudgingError(f"the transcript of the judge could not be written: {error.strerror}") from None


def _limited(texts: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """The longest ones are cut first, all to one length."""
    room, limit = most, most
    for left, length in zip(range(len(texts), 0, -1), sorted(len(text) for _, text in texts), strict=True):
        limit = max(room // left, 0)
        if length > limit:
            break
        room -= length
    else:
        return list(texts)
    return [(who, cut(text, limit)) for who, text in texts]


def _scrubbed(value: Any, scrubber: Scrubber) -> Any:
    if isinstance(value, str):
        return scrubber.scrub(clean(value))
    if isinstance(value, Mapping):
        return {key: _scrubbed(item, scrubber) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(item, scrubber) for item in value]
    return value


def _write_next(folder: Path, data: bytes) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.islice(itertools.count(1), MOST_NUMBER):
        name = f"judge-{number}.json"
        try:
            descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            continue
        with open(descriptor, "wb") as file:
            file.write(data)
        return name
    raise OSError(0, "too many transcripts in one folder")
