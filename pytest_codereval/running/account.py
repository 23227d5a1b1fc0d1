"""What the record of a trial, and reports of it, say of its last attempt beside the outcome."""

from __future__ import annotations

import dataclasses

from ..sandbox.protocol import Sandbox
from ..store import record as records
from .attempt import Attempt


def notes_of(attempt: Attempt | None) -> dict[str, object]:
    """Staging, workspace and connections."""
    sandbox = attempt.sandbox if attempt else None
    return {
        "workspace": dataclasses.asdict(attempt.manifest) if attempt and attempt.manifest else None,
        "workspace_root": str(sandbox.files.root) if sandbox else None,
        "graded_workspace": records.describe_graded(sandbox.graded if sandbox else None),
        "pre_run": [hook.described() for hook in (attempt.pre_runs if attempt else ())],
        "left_out_of_templates": list(attempt.left_out_of_templates) if attempt else [],
        "left_out_of_plugins": list(attempt.plugin_notes) if attempt else [],
        "left_out_of_image": list(sandbox.left_out_of_image) if sandbox else [],
        "connections": connections_of(sandbox),
    }


def connections_of(sandbox: Sandbox | None) -> dict[str, object] | None:
    """What the agent connected to where its network allows some hosts; None where it has another network.

    `made` are the first ones, `unlogged` counts those behind. Times are in seconds since the epoch.
    """
    log = sandbox.connections if sandbox else None
    if log is None:
        return None
    return {"made": [dataclasses.asdict(each) for each in log.made], "unlogged": log.unlogged}


def isolation_of(sandbox: Sandbox | None) -> dict[str, object]:
    """The driver, what it isolates, and the variables that the agent did not get."""
    return {
        "driver": sandbox.driver if sandbox else None,
        "isolation": dict(sandbox.described) if sandbox else None,
        "withheld": sorted(sandbox.withheld_names) if sandbox else [],
    }
