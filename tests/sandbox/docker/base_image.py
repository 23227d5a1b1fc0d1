"""Small images for tests, made of what the host has installed: no registry, no network.

`python -m tests.sandbox.docker.base_image` makes those that are missing or stale and prints names and seconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

BASE = "codereval-test-base"
BUSYBOX = "codereval-test-busybox"
RECIPE_LABEL = "codereval-test-recipe"

_REQUIRED = ("bash", "coreutils", "git", "python3-minimal", "procps")
_PACKAGES = (
    *(*_REQUIRED, "dash", "findutils", "grep", "sed", "tar", "gzip", "diffutils", "debianutils", "base-files", "mawk"),
    *("libpython3-stdlib", "perl-base", "libc-bin", "util-linux", "hostname"),
)
_LEFT_OUT = re.compile(
    r"/usr/share/(doc|man|locale|info|lintian|bash-completion|zsh|perl/5|python3/runtime\.d|gitweb|i18n)(/|$)"
    r"|/(usr/)?lib/systemd(/|$)|/var/lib/dpkg(/|$)|/etc/g?shadow|/__pycache__(/|$)|/usr/lib/[^/]+/gconv/"
)
_LINKS = ("/usr/bin/awk", "/usr/bin/which")
_LOADER = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_USR_MERGE = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n"
_GROUP = "root:x:0:\nnogroup:x:65534:\n"
_CHUNK = 1 << 20


class CannotBuildError(Exception):
    """The host lacks what an image is made of."""


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How an image is made: `digest` changes when the result would; `fill` writes its files."""

    name: str
    digest: str
    fill: Callable[[_Tar], None]
    settings: tuple[str, ...]


def base_recipe() -> Recipe:
    """bash, coreutils, git, python3, procps and the like, in a Debian layout. Raises CannotBuildError."""
    if shutil.which("dpkg-query") is None:
        raise CannotBuildError("the host has no dpkg: its packages are what the image is made of")
    packages = _installed()
    if missing := [name for name in _REQUIRED if name not in packages]:
        raise CannotBuildError(f"not installed on the host: {', '.join(missing)}")
    wanted = _closure(_PACKAGES, packages)
    digest = _digest(f"{packages[name].full} {packages[name].version}" for name in wanted)
    settings = ('CMD ["bash"]', "ENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "ENV LANG=C.UTF-8")
    return Recipe(BASE, digest, lambda tar: _fill_base(tar, [packages[name].full for name in wanted]), settings)


def busybox_recipe() -> Recipe:
    """A busybox with its links, and nothing else. Raises CannotBuildError."""
    program = shutil.which("busybox")
    if program is None:
        raise CannotBuildError("busybox is not installed on the host")
    found = Path(program).stat()
    digest = _digest([f"{found.st_size} {found.st_mtime_ns}"])
    return Recipe(BUSYBOX, digest, lambda tar: _fill_busybox(tar, program), ('CMD ["sh"]', "ENV PATH=/bin"))


def ensure(client: Any, recipe: Recipe) -> str:
    """Make the image unless there is one of this recipe; its name. One process at a time; a stale image is removed."""
    import docker.errors

    with open(Path(tempfile.gettempdir(), f"{recipe.name}-{os.getuid()}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stale = None
        with contextlib.suppress(docker.errors.ImageNotFound):
            stale = client.images.get(recipe.name)
        if stale is not None and stale.labels.get(RECIPE_LABEL) == recipe.digest:
            return recipe.name
        changes = [*recipe.settings, f"LABEL {RECIPE_LABEL}={recipe.digest}"]
        with _Stream(recipe.fill) as chunks:
            client.api.import_image_from_data(chunks, repository=recipe.name, tag="latest", changes=changes)
        if stale is not None:
            with contextlib.suppress(docker.errors.APIError):
                client.api.remove_image(stale.id)
    return recipe.name


class _Stream:
    """The bytes of a tar file while a thread writes it."""

    def __init__(self, fill: Callable[[_Tar], None]) -> None:
        self._fill = fill
        self._error: BaseException | None = None
        reader, writer = os.pipe()
        self._reader = os.fdopen(reader, "rb")
        self._thread = threading.Thread(target=self._write, args=(os.fdopen(writer, "wb"),))

    def __enter__(self) -> Iterator[bytes]:
        self._thread.start()
        return self._chunks()

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self._thread.join()

    def _chunks(self) -> Iterator[bytes]:
        """Ends with the writer's error, so that half an image is never made."""
        while chunk := self._reader.read(_CHUNK):
            yield chunk
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _write(self, file: BinaryIO) -> None:
        try:
            with file, _Tar(fileobj=file) as tar:
                self._fill(tar)
        except BaseException as error:
            self._error = error


class _Tar:
    """A stream of files in which each path stands once, with the links and folders that lead to it."""

    def __init__(self, fileobj: BinaryIO) -> None:
        self._tar = tarfile.open(fileobj=fileobj, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self._names: set[str] = set()

    def __enter__(self) -> _Tar:
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()

    def folder(self, path: str, mode: int = 0o755) -> None:
        info = tarfile.TarInfo(path.lstrip("/"))
        info.type, info.mode = tarfile.DIRTYPE, mode
        self._add(info)

    def text(self, path: str, text: str) -> None:
        info = tarfile.TarInfo(path.lstrip("/"))
        info.size = len(text.encode())
        self._add(info, io.BytesIO(text.encode()))

    def link(self, path: str, target: str) -> None:
        info = tarfile.TarInfo(path.lstrip("/"))
        info.type, info.linkname = tarfile.SYMTYPE, target
        self._add(info)

    def file(self, path: str, name: str) -> None:
        """The host's file at `path`, called `name`."""
        info = self._tar.gettarinfo(path, name.lstrip("/"))
        with open(path, "rb") as content:
            self._add(info, content)

    def host(self, path: str) -> None:
        """What the host has at `path`, with all that leads there; nothing where it has nothing."""
        path = os.path.normpath(path)
        parent, name = os.path.split(path)
        if path == "/" or not os.path.lexists(path):
            return
        if (real := f"{os.path.realpath(parent).rstrip('/')}/{name}") != path:
            self.host(parent)
            self.host(real)
            return
        self.host(parent)
        if path.lstrip("/") in self._names:
            return
        info = self._tar.gettarinfo(path, path.lstrip("/"))
        if info.islnk():
            info.type, info.size = tarfile.REGTYPE, Path(path).stat().st_size
        if info.isreg():
            with open(path, "rb") as content:
                self._add(info, content)
        elif info.isdir() or info.issym():
            self._add(info)
            if info.issym():
                self.host(str(Path(parent, info.linkname)))

    def _add(self, info: tarfile.TarInfo, content: BinaryIO | None = None) -> None:
        if info.name not in self._names:
            self._names.add(info.name)
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            self._tar.addfile(info, content)


def _fill_base(tar: _Tar, packages: list[str]) -> None:
    _fill_etc(tar)
    for name in ("proc", "sys", "dev", "run", "root", "home", "var", "usr", "usr/local", "usr/local/bin"):
        tar.folder(name)
    for name in ("tmp", "var/tmp"):
        tar.folder(name, 0o1777)
    for name in _USR_MERGE:
        if Path(f"/{name}").is_symlink():
            tar.host(f"/{name}")
    listed = _output("dpkg-query", "-L", *packages).splitlines()
    for path in listed:
        if path.startswith("/") and path != "/." and not _LEFT_OUT.search(path):
            tar.host(path)
    for path in (*_LINKS, *_LOADER, *(str(path) for path in Path("/etc/ld.so.conf.d").glob("*"))):
        tar.host(path)


def _fill_busybox(tar: _Tar, program: str) -> None:
    _fill_etc(tar)
    for name in ("bin", "root", "home", "proc", "sys", "dev"):
        tar.folder(name)
    tar.folder("tmp", 0o1777)
    tar.file(os.path.realpath(program), "bin/busybox")
    for library in re.findall(r"(/[^\s()]+) \(0x", _output("ldd", program, check=False)):
        tar.host(library)
    for name in _output(program, "--list").split():
        tar.link(f"bin/{name}", "busybox")


def _fill_etc(tar: _Tar) -> None:
    tar.folder("etc")
    tar.text("etc/passwd", _PASSWD)
    tar.text("etc/group", _GROUP)
    tar.text("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")


@dataclasses.dataclass(frozen=True)
class _Package:
    full: str
    version: str
    depends: tuple[tuple[str, ...], ...]
    provides: tuple[str, ...]


def _installed() -> dict[str, _Package]:
    """The packages of the host by name, also by the names that they provide."""
    fields = "${binary:Package}\t${Version}\t${Provides}\t${Pre-Depends},${Depends}\n"
    found: dict[str, _Package] = {}
    for line in _output("dpkg-query", "-W", "-f", fields).splitlines():
        full, version, provides, depends = line.split("\t")
        needs = tuple(tuple(map(_bare, group.split("|"))) for group in depends.split(",") if group.strip())
        provided = tuple(_bare(name) for name in provides.split(",") if name.strip())
        found.setdefault(full.partition(":")[0], _Package(full, version, needs, provided))
    for package in list(found.values()):
        for name in package.provides:
            found.setdefault(name, package)
    return found


def _bare(name: str) -> str:
    return re.sub(r"\(.*?\)|:any|\[.*?\]", "", name).strip()


def _closure(names: Iterable[str], packages: dict[str, _Package]) -> list[str]:
    """`names` and all that these packages need, as far as it is installed."""
    wanted: set[str] = set()
    todo = [name for name in names if name in packages]
    while todo:
        name = packages[todo.pop()].full.partition(":")[0]
        if name in wanted:
            continue
        wanted.add(name)
        for alternatives in packages[name].depends:
            todo += [option for option in alternatives if option in packages][:1]
    return sorted(wanted)


def _digest(parts: Iterable[str]) -> str:
    own = Path(__file__).read_text(encoding="utf-8")
    return hashlib.sha256("\n".join([own, *parts]).encode()).hexdigest()[:24]


def _output(*command: str, check: bool = True) -> str:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
    if check and done.returncode != 0:
        raise CannotBuildError(f"{command[0]}: {done.stderr.strip()[-500:]}")
    return done.stdout


def main() -> int:
    import docker

    client = docker.from_env(timeout=120)
    status = 0
    for recipe in (busybox_recipe, base_recipe):
        began = time.perf_counter()
        try:
            name = ensure(client, recipe())
        except CannotBuildError as error:
            print(f"{recipe.__name__}: {error}", file=sys.stderr)
            status = 1
            continue
        size = client.images.get(name).attrs["Size"]
        print(f"{name} {time.perf_counter() - began:.1f} s {size / 1e6:.0f} MB")
    client.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
