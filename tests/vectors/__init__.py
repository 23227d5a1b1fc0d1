"""Recorded behaviour of another system, held against this package: `python -m tests.vectors DIRECTORY`."""
