"""`python -m tests.fakes anthropic|openai|gemini`: one fake in the foreground, until it is interrupted."""

from __future__ import annotations

import argparse
import json
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import Fake, FakeAnthropic, FakeGemini, FakeOpenAI
from .script import entry_from_json
from .turns import call, say, turn

FAKES: dict[str, tuple[type[Fake], str, str]] = {
    "anthropic": (FakeAnthropic, "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "openai": (FakeOpenAI, "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "gemini": (FakeGemini, "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
}
SCRIPTS = ("turns", "user_turns", "sub_turns")
SWITCHES = ("loop", "script_per_conversation")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes", description=__doc__)
    parser.add_argument("provider", choices=FAKES)
    parser.add_argument("--play", type=Path, metavar="FILE.json", help="a list of turns, or an object of them")
    parser.add_argument("--key", default="fake-key", help="the key that is let in")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args(arguments)
    made, base, key = FAKES[given.provider]
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with made(**played(given.play), key=given.key, port=given.port) as fake:
        print(f"export {base}={fake.url}\nexport {key}={given.key}", flush=True)
        ended.wait()
        for charged in fake.ledger:
            print(f"# {charged}")


def played(path: Path | None) -> dict[str, Any]:
    """What a fake is made with, from a file: a list of turns, or an object of SCRIPTS and SWITCHES."""
    if path is None:
        hello = turn(say("I write a file."), call("Write", file_path="hello.txt", content="hello\n"))
        return {"turns": [hello, say("done")], "loop": True}
    read = json.loads(path.read_text(encoding="utf-8"))
    given = read if isinstance(read, dict) else {"turns": read}
    if unknown := set(given) - {*SCRIPTS, *SWITCHES}:
        raise SystemExit(f"{path}: unknown {sorted(unknown)}; there are {', '.join((*SCRIPTS, *SWITCHES))}")
    scripts = {name: [entry_from_json(one) for one in given[name]] for name in SCRIPTS if name in given}
    return scripts | {name: bool(given[name]) for name in SWITCHES if name in given}


if __name__ == "__main__":
    main()
