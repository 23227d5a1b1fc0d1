"""Grader: prints the share of expected sections that a Markdown file has."""

import pathlib
import sys

EXPECTED = ("Summary", "Changes", "Risks", "Rollback")

lines = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
headings = {line.lstrip("# ").strip() for line in lines if line.startswith("#")}
print(sum(section in headings for section in EXPECTED) / len(EXPECTED))
