"""What a sandbox of this driver isolates and what it does not, as plain data for the record."""

from __future__ import annotations

from ..enclosure import Network, Owner
from .containers import Limits
from .engine import Daemon
from .images import Image

_ISOLATES = (
    "files: the image read-only, folders and HOME of its own, nothing else of this machine",
    "processes: none but its own can be seen or signalled; no process of it outlives the trial",
    "an explicit environment",
    "privileges: no capabilities, none to be gained",
    "memory, processes and, where the task says so, processors are bounded",
)
_NETWORKS = {
    "none": "none but what the harness serves on the loopback device",
    "allow": "the allowed hosts, by the harness's gate; every connection is logged",
    "shared": "the bridge of the Docker daemon",
}


def account(image: Image, owner: Owner | None, network: Network, limits: Limits, used: Daemon) -> dict[str, object]:
    """Plain data."""
    isolates, open_to = [*_ISOLATES], ["the kernel, which it shares with this machine"]
    if owner is not None:
        isolates.append(f"the user: {owner.uid}, who owns nothing else on this machine")
    else:
        open_to.append("the user: it runs as the user that pytest runs as, and sees nothing else of his")
        open_to.append("private output: what an agent's program reports can be forged by other processes of the agent")
    if network.kind == "shared":
        open_to.append("the network: all that the bridge reaches, with services of this machine that listen there")
    else:
        isolates.append("the network: a loopback device of its own")
    if _has(used, "seccomp"):
        isolates.append("system calls: those of Docker's default filter")
    else:
        open_to.append("system calls: the Docker daemon has no filter for them")
    if "swap" not in used.limits:
        open_to.append("swap: how much of it is taken is not bounded")
    return {
        "driver": "docker",
        "means": f"Docker {used.version}",
        "image": {"name": image.name, "id": image.id},
        "isolates": isolates,
        "does_not_isolate": open_to,
        "network": _NETWORKS[network.kind],
        "limits": {
            "max_memory_mb": limits.memory >> 20,
            "max_pids": limits.pids,
            "max_cpus": limits.cpus,
            "disk": "watched by the harness; folders for temporary files are in memory",
        },
    }


def _has(used: Daemon, option: str) -> bool:
    named = [each.split(",") for each in used.security]
    return any(f"name={option}" in each and "profile=unconfined" not in each for each in named)
