"""The image that a sandbox is made of, as a part of what the agent sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def indexes_of(sandbox: Sandbox) -> tuple[Index, ...]:
    """The index of the sandbox's image, made when this user first has it looked through: an image never changes.

    Raises TrialError(SANDBOX) when the image cannot be read, OSError when the index cannot be written.
    """
    image = image_of(sandbox)
    if image is None:
        return ()
    folder = sandbox.root.parents[1] / "images"
    folder.mkdir(0o700, exist_ok=True)
    return (index_of_image(image[0], folder, lambda: _files(sandbox, *image), image[1]),)


def _files(sandbox: Sandbox, number: str, name: str) -> Iterator[tuple[str, int, IO[bytes]]]:
    from ..sandbox.docker.archives import contents
    from ..sandbox.docker.images import Image
    from ..sandbox.docker.leftovers import labels
    from ..sandbox.registry import registry

    place = registry(sandbox.root.parents[2])
    image = Image(number, name, path_folders=(), shell="", python=None, working_dir="", env={})
    yield from contents(image, labels(place))
