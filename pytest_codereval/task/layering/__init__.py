"""How the settings of a task come from several places: an experiment, folders, the task's file, the command line."""

from __future__ import annotations

DEFAULTS_FILE = "codereval.yaml"
"""The file that gives the tasks in its folder, and in the folders below, settings that they do not have themselves."""
