"""What a sandbox's network may reach."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, PlainValidator, SerializeAsAny, ValidationInfo, field_validator

from .base import WholeModel, problem

_ENTRY = re.compile(r"(?P<host>[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)\.?:(?P<port>[0-9]{1,5})")
_ADDRESS = re.compile(r"[0-9.]+")


def _endpoint(text: str) -> str:
    match = _ENTRY.fullmatch(text)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise problem(f"{text!r}: expected host:port, for instance api.example.com:443")
    if _ADDRESS.fullmatch(match["host"]) and not _is_loopback(match["host"]):
        raise problem(f"{text!r}: an address cannot be allowed, name its host")
    return f"{match['host'].lower()}:{int(match['port'])}"


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.IPv4Address(address).is_loopback
    except ValueError:
        return False


Endpoint = Annotated[str, AfterValidator(_endpoint)]


class AllowedNetwork(WholeModel):
    """The only hosts and ports that can be reached, each as `host:port`; every connection is logged."""

    allow: tuple[Endpoint, ...]

    @field_validator("allow")
    @classmethod
    def _not_empty(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        if not entries:
            raise problem("expected at least one host:port; `network: none` allows nothing")
        return entries

    @property
    def endpoints(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each entry."""
        return tuple((host, int(port)) for host, _, port in (entry.rpartition(":") for entry in self.allow))


def _network(value: Any, info: ValidationInfo) -> str | AllowedNetwork:
    if isinstance(value, AllowedNetwork):
        return value
    if isinstance(value, Mapping):
        return AllowedNetwork.model_validate(value, context=info.context)
    if value not in ("none", "bridge"):
        raise problem(f"{value!r}: expected none, bridge, or a mapping with the key allow")
    return str(value)


NetworkSetting = Annotated[
    str | SerializeAsAny[AllowedNetwork],
    PlainValidator(_network, json_schema_input_type=Literal["none", "bridge"] | AllowedNetwork),
]
"""`none`, `bridge` (all that the harness reaches) or what is allowed."""
