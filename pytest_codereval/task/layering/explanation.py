"""A task as it will run, as YAML, with where each value came from that its own file does not say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from ..base import Location
from ..models import Task
from ..problems import dotted

_WIDTH = 100


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def explained(data: Mapping[str, Any], lineage: Mapping[str, str]) -> str:
    """The data of a task as YAML. What is told of values that are not there stands at the end."""
    order = {name: number for number, name in enumerate(Task.model_fields)}
    ordered = {key: data[key] for key in sorted(data, key=lambda key: order.get(key, len(order)))}
    writer = _Writer(lineage)
    lines = list(writer.mapping(ordered, (), ""))
    rest = [f"# {path}: {told}" for path, told in lineage.items() if path not in writer.said]
    return "\n".join([*lines, *(["", *rest] if rest else [])])


class _Writer:
    def __init__(self, lineage: Mapping[str, str]) -> None:
        self._lineage = lineage
        self.said: set[str] = set()

    def mapping(self, data: Mapping[str, Any], place: Location, indent: str) -> Iterator[str]:
        """The lines of a mapping."""
        for key, value in data.items():
            inside = (*place, key)
            if value and isinstance(value, Mapping | list) and self._is_told_inside(inside):
                yield f"{indent}{_dumped(key)}:{self._comment(inside)}"
                yield from self._parts(value, inside, indent)
            else:
                yield from self._whole(_dumped({key: value}), inside, indent)

    def _parts(self, value: Any, place: Location, indent: str) -> Iterator[str]:
        if isinstance(value, Mapping):
            yield from self.mapping(value, place, f"{indent}  ")
            return
        for index, item in enumerate(value):
            yield from self._whole(_dumped([item]), (*place, index), indent)

    def _whole(self, text: str, place: Location, indent: str) -> Iterator[str]:
        lines = text.split("\n")
        comment = self._comment(place)
        if comment and len(lines) > 1:
            yield f"{indent}{comment.strip()}"
            comment = ""
        yield from (f"{indent}{line}{comment}" if line else "" for line in lines)

    def _comment(self, place: Location) -> str:
        path = dotted(place)
        if path not in self._lineage:
            return ""
        self.said.add(path)
        return f"  # {self._lineage[path]}"

    def _is_told_inside(self, place: Location) -> bool:
        path = dotted(place)
        return any(told.startswith((f"{path}.", f"{path}[")) for told in self._lineage)


def _dumped(value: Any) -> str:
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text.removesuffix("\n...\n").rstrip("\n")
