"""The image that a sandbox is made of, as a part of what the agent sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from .view import Index, index_of_image

if TYPE_CHECKING:
    from ..sandbox.protocol import Sandbox


def image_of(sandbox: Sandbox) -> tuple[str, str] | None:
    """Id and name of the image of a container; None for a sandbox that shows the system of this machine."""
    found = sandbox.described.get("image")
    if sandbox.driver != "docker" or not isinstance(found, Mapping):
        return None
    return str(found["id"]), str(found["name"])


def indexes_of(sandbox: Sandbox, folder: Path) -> tuple[Index, ...]:
    """The index of the sandbox's image, made when the first process of the session asks for it in `folder`.

    Raises TrialError(SANDBOX) when the image cannot be read, OSError when the index cannot be written.
    """
    image = image_of(sandbox)
    return () if image is None else (index_of_image(image[0], folder, lambda: _files(sandbox, *image), image[1]),)


def _files(sandbox: Sandbox, number: str, name: str) -> Iterator[tuple[str, int, IO[bytes]]]:
    from ..sandbox.docker.archives import contents
    from ..sandbox.docker.images import Image
    from ..sandbox.docker.leftovers import labels
    from ..sandbox.registry import registry

    place = registry(sandbox.root.parents[2])
    image = Image(number, name, path_folders=(), shell="", python=None, working_dir="", env={})
    yield from contents(image, labels(place))
