"""What a task's agent may reach, from the settings of its sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .enclosure import Network

if TYPE_CHECKING:
    from ..task.models import SandboxConfig


def network_of(config: SandboxConfig, *, shared_by_default: bool) -> Network:
    """The network of a sandbox: `network`, else that of `docker` when it is written there, else the default."""
    asked = config.network
    if asked is None and "network" in config.docker.model_fields_set:
        asked = config.docker.network
    if asked is None:
        return Network("shared" if shared_by_default else "none")
    if isinstance(asked, str):
        return Network("shared" if asked == "bridge" else "none")
    return Network("allow", asked.endpoints)
