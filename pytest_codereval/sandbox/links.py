"""Which symbolic links of a tree that an agent wrote may be in a copy of it: where each leads, through all others."""

from __future__ import annotations

import dataclasses
import enum
import os
import posixpath
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from .host_path import lies_in
from .withholding import Withheld

MOST_HOPS = 40
"""Links that are followed one after the other, as many as the kernel follows."""


class Kind(enum.Enum):
    """What a link leads to."""

    PRESENT = "something of the tree"
    MISSING = "a path inside the tree where nothing is"
    OUTSIDE = "out of the tree"
    NOWHERE = "nowhere: a loop, or a path that cannot be told"


@dataclasses.dataclass(frozen=True)
class LinkRules:
    """Which links are kept beside relative ones that lead to something of the tree.

    `outside` tells of an absolute path whether a link may lead there; with `missing`, links to what is not there, but
    would be inside, are kept too. `path_of` is the path on the harness's disk of the one that a link names.
    """

    outside: Callable[[str], bool] = lambda path: False
    missing: bool = False
    path_of: Callable[[str], str] = lambda path: path


WITHIN = LinkRules()
"""Only links to something of the tree."""


@dataclasses.dataclass(frozen=True)
class Lead:
    """Where a link leads: inside the tree `path` is relative to its top, outside it is absolute."""

    kind: Kind
    path: str = ""


class LinkedTree:
    """The links of a tree at the absolute real path `top`: `links` by relative path, `present` all else there is.

    `path_of` is that of `LinkRules`.
    """

    def __init__(
        self,
        top: str,
        links: Mapping[str, str],
        present: Collection[str],
        path_of: Callable[[str], str] = lambda path: path,
    ) -> None:
        self._path_of = path_of
        self._top = top
        self._links = links
        self._present = present

    def lead(self, path: str) -> Lead:
        """Follow the link at a relative path to its end."""
        at = _parts(posixpath.dirname(path))
        todo = [posixpath.basename(path)]
        hops = 0
        while todo:
            part = todo.pop()
            if part == "..":
                if not at:
                    return self._above(todo)
                at.pop()
                continue
            here = "/".join((*at, part))
            text = self._links.get(here)
            if text is None:
                at.append(part)
                continue
            hops += 1
            if hops > MOST_HOPS:
                return Lead(Kind.NOWHERE)
            if text.startswith("/"):
                inside = self.inside(text)
                if inside is None:
                    return _outside("/".join((text, *reversed(todo))))
                at, text = [], inside
            todo += reversed(_parts(text))
        found = "/".join(at) or "."
        return Lead(Kind.PRESENT if found in self._present else Kind.MISSING, found)

    def inside(self, text: str) -> str | None:
        """The rest of an absolute path below the top, None for one that does not begin with it."""
        text = self._path_of(text)
        if text != self._top and not text.startswith(f"{self._top}/"):
            return None
        return text[len(self._top) :].lstrip("/")

    def _above(self, todo: list[str]) -> Lead:
        """Go on one level above the top, whose own path is free of links; what comes back below it is refused."""
        place = posixpath.dirname(self._top)
        while todo and todo[-1] == "..":
            todo.pop()
            place = posixpath.dirname(place)
        lead = _outside(posixpath.join(place, *reversed(todo)))
        return Lead(Kind.NOWHERE) if self.inside(lead.path) is not None else lead


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _outside(path: str) -> Lead:
    """A path with `..` in it leads where only the system's own links know."""
    parts = _parts(path)
    return Lead(Kind.NOWHERE) if ".." in parts else Lead(Kind.OUTSIDE, "/" + "/".join(parts))


def system_links(never: Collection[Path], holds: Callable[[str], bool]) -> Callable[[str], bool]:
    """Tells whether an absolute path belongs to the system, which `holds` says.

    What is, holds or lies in one of the places that must `never` be led to does not. `/dev/null` does.
    """
    withheld = Withheld(never)
    forbidden = {form for place in never for form in (os.path.realpath(place), os.path.normpath(place))}

    def leads_into_system(path: str) -> bool:
        forms = (path, os.path.realpath(path))
        if withheld.holds(path) or any(lies_in(place, form) for place in forbidden for form in forms):
            return False
        return path == os.devnull or holds(path)

    return leads_into_system
