"""What a sandbox of this driver isolates and what it does not, as plain data for the record."""

from __future__ import annotations

from collections.abc import Collection

from ..cgroups import Limits
from ..enclosure import Network, Owner
from ..keyrings import can_clear

_ISOLATES = [
    "files: the installed programs read-only, folders and HOME of its own, nothing else of this machine",
    "processes: none but its own can be seen or signalled; no process of it outlives the trial",
    "an explicit environment",
    "privileges: no capabilities, none to be gained",
]
_NETWORKS = {
    "none": "none but what the harness serves on the loopback device",
    "allow": "the allowed hosts, by the harness's gate; every connection is logged",
    "shared": "that of this machine",
}


def account(owner: Owner | None, network: Network, limits: Limits, bounded: Collection[str]) -> dict[str, object]:
    """Plain data; `bounded` are the limits that hold for the sandbox as a whole: memory, pids, cpu, nproc."""
    isolates, open_to = [*_ISOLATES], ["the kernel and the installed programs, which it shares with this machine"]
    if owner is not None:
        isolates.append(f"the user: {owner.uid}, who owns nothing else on this machine")
        if not can_clear():
            open_to.append("the kernel's keyrings, with what an earlier trial left there")
    else:
        open_to.append("the user: it runs as the user that pytest runs as, in a user namespace of its own")
    if network.kind == "shared":
        open_to.append("the network, with the services and abstract sockets of this machine")
    else:
        isolates.append("the network: a loopback device of its own")
    for name, text in {"memory": "memory", "cpu": "processors"}.items():
        if name not in bounded:
            open_to.append(f"{text}: how much it takes is not bounded")
    if not {"pids", "nproc"} & {*bounded}:
        open_to.append("processes: how many it has is not bounded")
    return {
        "driver": "bubblewrap",
        "means": "namespaces, as root" if owner is not None else "user namespaces",
        "isolates": isolates,
        "does_not_isolate": open_to,
        "network": _NETWORKS[network.kind],
        "limits": _limits(limits, bounded),
    }


def _limits(limits: Limits, bounded: Collection[str]) -> dict[str, object]:
    megabytes = limits.memory >> 20 if limits.memory is not None and "memory" in bounded else None
    return {
        "max_memory_mb": megabytes,
        "max_pids": limits.pids if {"pids", "nproc"} & {*bounded} else None,
        "max_cpus": limits.cpus if "cpu" in bounded else None,
        "disk": "watched by the harness",
    }
