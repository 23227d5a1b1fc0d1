"""Merging the data of layers, the lowest first, and remembering where each value came from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ..base import Location
from ..problems import dotted
from ..yaml_reader import Document
from .merging import Merging, Strategy


@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """One place that settings come from: a file, or with `document` None the command line or the ini file.

    `told` says it to people and may have `{place}` for the file and line: "{place} defaults". `overlay` is for what an
    experiment or the command line gives, `is_task` for the task's own file.
    """

    told: str
    shown: str
    document: Document | None = None
    overlay: bool = False
    is_task: bool = False

    def describe(self, location: Location) -> str:
        """Where the value at `location` of this layer came from: `experiment.yaml:12 defaults`."""
        line = self.document.position(location)[0] if self.document is not None else 1
        return self.told.replace("{place}", f"{self.shown}:{line}")


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a value came from: a layer and the place in its file."""

    layer: Layer
    location: Location

    def below(self, rest: Location) -> Origin:
        """The origin of what lies inside the value."""
        return Origin(self.layer, (*self.location, *rest))


class Merged:
    """The settings of a task so far. `data` is plain data as read from YAML."""

    def __init__(self, merging: Merging) -> None:
        self.data: dict[str, Any] = {}
        self.notes: dict[str, str] = {}
        """What else people must know of a setting, by its dotted path."""

        self._merging = merging
        self._origins: dict[Location, Origin] = {}

    def put(self, value: Any, origin: Origin, target: Location = ()) -> None:
        """Merge a value of the next higher layer into the place `target`. The value itself is never changed."""
        holder, merging = self.data, self._merging
        place: Location = ()
        if not target:
            self._put_all(merging, holder, value, place, origin)
            return
        for part in target[:-1]:
            name = str(part)
            inside = holder.get(name)
            place = (*place, name)
            if not isinstance(inside, dict):
                inside = self._begin(holder, name, place, origin)
            holder, merging = inside, merging.inside(name)
        self._put_all(merging, holder, {str(target[-1]): value}, place, origin, wrapped=True)

    def origin_of(self, location: Location) -> Origin | None:
        """Where the value at `location` came from, or the nearest value around it; None when nobody said anything."""
        for length in range(len(location), -1, -1):
            origin = self._origins.get(location[:length])
            if origin is not None:
                return origin.below(location[length:])
        return None

    def said_by(self, location: Location) -> Layer | None:
        """The layer that decided the value at `location`."""
        origin = self.origin_of(location)
        return origin.layer if origin is not None else None

    def drop(self, location: Location) -> None:
        """Leave a value out, as if nobody had given it."""
        holder = self.data
        for part in location[:-1]:
            holder = holder[part]  # type: ignore[index]
        holder.pop(str(location[-1]), None)
        self._forget(location)

    def lineage(self) -> dict[str, str]:
        """Where each value came from that the task's own file did not decide, by its dotted path."""
        found = {
            dotted(location): origin.layer.describe(origin.location)
            for location, origin in self._origins.items()
            if location and not origin.layer.is_task and not self._is_opened(location)
        }
        return {**found, **self.notes}

    def _is_opened(self, location: Location) -> bool:
        """Whether what lies in the mapping at `location` has origins of its own."""
        value: Any = self.data
        for part in location:
            value = value[part]
        inside = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        return any((*location, part) in self._origins for part in inside)

    def _put_all(
        self,
        merging: Merging,
        holder: dict[str, Any],
        given: Mapping[str, Any],
        place: Location,
        origin: Origin,
        wrapped: bool = False,
    ) -> None:
        if not place and origin.layer.is_task:
            self._origins[()] = origin
        names = {merging.canonical(key): key for key in given}
        for name in names:
            for sibling in merging.siblings(name):
                if sibling not in names and sibling in holder:
                    del holder[sibling]
                    self._forget((*place, sibling))
        for name, key in names.items():
            at = origin if wrapped else origin.below((key,))
            self._put_one(merging, holder, name, given[key], (*place, name), at)

    def _put_one(
        self, merging: Merging, holder: dict[str, Any], name: str, value: Any, place: Location, origin: Origin
    ) -> None:
        strategy, lower = merging.strategy(name), holder.get(name)
        if self.notes:
            self.notes.pop(dotted(place), None)
        if strategy is Strategy.DEEP and isinstance(value, Mapping):
            inside = lower if isinstance(lower, dict) else self._begin(holder, name, place, origin)
            self._put_all(merging.inside(name), inside, value, place, origin)
        elif strategy is Strategy.DEEP and value is None and lower is not None and len(place) == 1:
            return
        elif strategy in (Strategy.APPEND, Strategy.PREPEND, Strategy.OVERLAY) and isinstance(value, list):
            self._join(holder, name, value, place, origin, strategy)
        else:
            self._forget(place)
            holder[name] = value
            self._origins[place] = origin

    def _begin(self, holder: dict[str, Any], name: str, place: Location, origin: Origin) -> dict[str, Any]:
        """An empty mapping in place of what is there."""
        self._forget(place)
        made: dict[str, Any] = {}
        holder[name] = made
        self._origins[place] = origin
        return made

    def _join(
        self, holder: dict[str, Any], name: str, value: list[Any], place: Location, origin: Origin, strategy: Strategy
    ) -> None:
        lower = holder.get(name)
        whole = self._origins.get(place, origin)
        old = list(self._items(lower, place)) if isinstance(lower, list) else []
        new = [(item, origin.below((index,))) for index, item in enumerate(value)]
        joined = new + old if strategy is Strategy.PREPEND else old + new
        if strategy is Strategy.OVERLAY:
            joined.sort(key=lambda pair: pair[1].layer.overlay)
        self._forget(place)
        holder[name] = [item for item, _ in joined]
        self._origins[place] = whole
        self._origins.update({(*place, index): source for index, (_, source) in enumerate(joined)})

    def _items(self, items: list[Any], place: Location) -> Iterator[tuple[Any, Origin]]:
        for index, item in enumerate(items):
            origin = self.origin_of((*place, index))
            assert origin is not None
            yield item, origin

    def _forget(self, place: Location) -> None:
        size = len(place)
        for known in [known for known in self._origins if known[:size] == place]:
            del self._origins[known]


class LayeredDocument:
    """The file of a task together with the layers around it: where each value of the merged data stands."""

    def __init__(self, merged: Merged, document: Document) -> None:
        self._merged, self._document = merged, document

    def place(self, location: Location) -> tuple[str | None, int, int, Location]:
        """See `Document.place`."""
        origin = self._merged.origin_of(location)
        if origin is None or origin.layer.is_task:
            inside = origin.location if origin is not None else location
            return self._document.place(inside)
        if origin.layer.document is None:
            return origin.layer.shown, 0, 0, location
        _, line, column, inside = origin.layer.document.place(origin.location)
        return origin.layer.shown, line, column, inside

    def position(self, location: Location) -> tuple[int, int]:
        """See `Document.position`."""
        return self.place(location)[1:3]
