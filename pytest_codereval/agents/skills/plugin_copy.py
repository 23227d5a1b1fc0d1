"""The copy of one plugin, part by part: what an agent can use, and nothing that tells it how it is judged."""

from __future__ import annotations

import json
import os
import posixpath
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import Cause, TrialError
from ...sandbox.answer_keys import KeyFiles, is_task_file
from ...sandbox.copying import Destination

MOST_BYTES = 200_000_000
MOST_FILES = 50_000
"""What all plugins of a trial may have in all."""

FOLDERS = ("skills", "commands", "agents", "hooks")
MANIFEST = ".claude-plugin/plugin.json"
SKILL = "SKILL.md"

_NEVER = frozenset({"tests", "evals", ".git"})
_DECLARING = ("skills", "commands", "agents", "hooks", "mcpServers", "lspServers", "outputStyles")
_OWN_PATH = re.compile(r"\$\{?CLAUDE_PLUGIN_ROOT\}?/([\w@+.-]+(?:/[\w@+.-]+)*)")
_LARGEST_TEXT = 10_000_000
_EXPECTED = f"expected a plugin ({MANIFEST}, {', '.join(f'{name}/' for name in FOLDERS)}), skill folders, or a {SKILL}"


def mistake(key: str, message: str) -> TrialError:
    """The error about a plugin that `key` names."""
    return TrialError(Cause.CONFIGURATION, f"{key}: {message}")


def is_in(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


class Budget:
    """Counts what is copied, over all plugins."""

    def __init__(self) -> None:
        self._bytes = 0
        self._files = 0

    def spend(self, size: int, key: str, path: str) -> None:
        self._bytes += size
        self._files += 1
        if self._bytes > MOST_BYTES:
            raise mistake(key, f"at {path} the plugins have more than {MOST_BYTES // 1_000_000} MB")
        if self._files > MOST_FILES:
            raise mistake(key, f"at {path} the plugins have more than {MOST_FILES} files")


class KeptOut:
    """The task's folder and the answer keys: those that the task names, and more."""

    def __init__(self, task_folder: Path, named: Collection[Path], further: Collection[Path] = ()) -> None:
        self._task_folder = os.path.realpath(task_folder)
        self._places = {os.path.realpath(place) for place in (*named, *further)} - {self._task_folder}
        self._files = KeyFiles(named, further)

    def refuse_root(self, root: str, key: str) -> None:
        if any(is_in(root, place) for place in self._places):
            raise mistake(key, f"{root} lies in the reference or is an answer key")
        if root == self._task_folder and Path(root, SKILL).is_file():
            raise mistake(key, f"{root} is the folder of the task itself; put the task into a folder of its own")

    def reason(self, path: str, root: str) -> str | None:
        """Why the agent may not have `path`, a real path below `root`."""
        if any(is_in(path, place) for place in self._places) or self._files.has(path):
            return "an answer key"
        if is_in(path, self._task_folder) and self._task_folder != root and is_in(self._task_folder, root):
            return "in the task's own folder"
        return "a task" if is_task_file(path) else None


class PluginCopy:
    """One plugin, copied part by part. `root` is its real path."""

    def __init__(self, root: str, key: str, secret: KeptOut, budget: Budget, place: Path, notes: list[str]) -> None:
        self._root = root
        self._key = key
        self._secret = secret
        self._budget = budget
        self._place = place
        self._target = Destination(place)
        self._notes = notes
        self._copied: set[str] = set()

    def copy(self) -> tuple[str, bool]:
        """Copy what there is; the plugin's name, and whether a manifest declares it."""
        manifest = self._manifest()
        own_name = re.sub(r"[^a-z0-9-]+", "-", Path(self._root).name.lower()).strip("-") or "plugin"
        if manifest is not None:
            self._copy_plugin(manifest)
            if self._has(SKILL) and not self._copied_any("skills"):
                self._copy_children("", f"skills/{Path(self._root).name}", leave=(".claude-plugin",))
        elif self._has(SKILL):
            self._copy_children("", f"skills/{Path(self._root).name}")
        elif any(Path(self._root, name).is_dir() for name in FOLDERS) or self._has(".mcp.json"):
            self._copy_plugin({})
        else:
            self._copy_skill_folders()
        if not self._copied:
            raise mistake(self._key, f"{self._root} has nothing that an agent can use: {_EXPECTED}")
        return (str(manifest["name"]), True) if manifest is not None else (own_name, False)

    def _has(self, path: str) -> bool:
        return Path(self._root, path).is_file()

    def _copied_any(self, folder: str) -> bool:
        return any(path.startswith(f"{folder}/") for path in self._copied)

    def _manifest(self) -> dict[str, Any] | None:
        file = Path(self._root, MANIFEST)
        if not file.is_file() or self._refusal(MANIFEST, os.path.realpath(file)) is not None:
            return None
        try:
            manifest = json.loads(file.read_bytes()[:_LARGEST_TEXT])
        except (ValueError, RecursionError) as error:
            raise mistake(self._key, f"{file} is not JSON: {error}") from None
        name = manifest.get("name") if isinstance(manifest, dict) else None
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name):
            raise mistake(self._key, f"{file}: expected a mapping with the plugin's name, of letters, digits, . _ -")
        return dict(manifest)

    # -- the parts

    def _copy_plugin(self, manifest: dict[str, Any]) -> None:
        for name in FOLDERS:
            if Path(self._root, name).exists():
                self._copy_entry(name, name)
        if self._has(".mcp.json"):
            self._copy_entry(".mcp.json", ".mcp.json")
        for key in _DECLARING:
            for path in _paths(manifest.get(key)):
                self._copy_declared(key, path)
        for path in sorted({path for text in self._texts(manifest) for path in _OWN_PATH.findall(text)}):
            folder = posixpath.dirname(path)
            self._copy_once(folder if folder and not Path(self._root, path).is_dir() else path)
        if manifest:
            shown = {key: value for key, value in manifest.items() if key != "skills"}
            self._target.write(MANIFEST, json.dumps(shown, indent=2).encode())

    def _copy_declared(self, key: str, path: str) -> None:
        """Copy a part that stands where the manifest says; skills go where every agent looks for them."""
        if key != "skills":
            self._copy_once(path)
            return
        if self._has(f"{path}/{SKILL}".removeprefix("./")):
            self._copy_once(path, f"skills/{Path(self._root, path).name}")
        elif path != "skills":
            for name in self._skill_folders(path):
                self._copy_once(f"{path}/{name}", f"skills/{name}")

    def _copy_skill_folders(self) -> None:
        names = self._skill_folders("")
        if names and Path(self._root).name == "skills":
            self._copy_children("", "skills")
            return
        for name in names:
            self._copy_entry(name, f"skills/{name}")

    def _skill_folders(self, folder: str) -> list[str]:
        place = Path(self._root, folder)
        return sorted(file.parent.name for file in place.glob(f"*/{SKILL}")) if place.is_dir() else []

    def _texts(self, manifest: dict[str, Any]) -> Iterator[str]:
        """What may name further files of the plugin: manifest, hooks, servers, and the texts of commands and skills."""
        yield json.dumps(manifest)
        for target in sorted(self._copied):
            if target.endswith((".md", ".json")):
                yield (self._place / target).read_text(encoding="utf-8", errors="replace")

    # -- the copying

    def _copy_once(self, path: str, target: str | None = None) -> None:
        path = os.path.normpath(path)
        target = path if target is None else target
        if path.startswith(("..", "/")):
            self._notes.append(f"{self._key}: {path} is left out: it leads out of the plugin")
        elif (
            path != "."
            and not any(is_in(done, target) for done in self._copied)
            and os.path.lexists(f"{self._root}/{path}")
        ):
            self._copy_entry(path, target)

    def _copy_entry(self, path: str, target: str) -> None:
        """Copy what lies at `path`, relative to the root, to `target`."""
        self._copy_real(f"{self._root}/{path}", path, target, ())

    def _copy_children(self, path: str, target: str, leave: Collection[str] = ()) -> None:
        for name in _names(f"{self._root}/{path}"):
            if name not in leave:
                inner = f"{path}/{name}".lstrip("/")
                self._copy_real(f"{self._root}/{inner}", inner, f"{target}/{name}", ())

    def _copy_real(self, place: str, shown: str, target: str, above: tuple[str, ...]) -> None:
        real = os.path.realpath(place)
        reason = self._refusal(shown, real)
        if reason is None and real in above:
            reason = "a link that leads into itself"
        if reason is not None:
            self._leave_out(shown, reason, real)
            return
        try:
            found = Path(real).stat()
        except OSError:
            self._leave_out(shown, "a link to nothing", real)
            return
        if stat.S_ISDIR(found.st_mode):
            self._budget.spend(0, self._key, shown)
            self._target.folder(target)
            for name in _names(real):
                self._copy_real(f"{real}/{name}", f"{shown}/{name}", f"{target}/{name}", (*above, real))
        elif stat.S_ISREG(found.st_mode):
            self._budget.spend(found.st_size, self._key, shown)
            self._target.copy(Path(real), target)
            self._copied.add(target)
        else:
            self._leave_out(shown, "neither a file nor a directory", real)

    def _leave_out(self, shown: str, reason: str, real: str) -> None:
        if Path(real, SKILL).is_file() and reason == "in the task's own folder":
            raise mistake(self._key, f"the skill {shown} is or lies in the task's folder; move the task out of it")
        self._notes.append(f"{self._key}: {shown} is left out: {reason}")

    def _refusal(self, shown: str, real: str) -> str | None:
        """Why a part is not copied, by its own name and by where it really lies."""
        if real == self._root:
            return "a link that leads into itself"
        if not is_in(real, self._root):
            return "it leads out of the plugin"
        relative = os.path.relpath(real, self._root)
        for parts in (shown.split("/"), relative.split("/")):
            for index, part in enumerate(parts):
                if part.casefold() in _NEVER and not self._is_skill(parts[: index + 1]):
                    return f"{part} is no part of a plugin"
        return self._secret.reason(real, self._root)

    def _is_skill(self, parts: Sequence[str]) -> bool:
        return len(parts) > 1 and parts[-2] == "skills" and Path(self._root, *parts, SKILL).is_file()


def _names(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def _paths(value: Any) -> Iterator[str]:
    """The paths that a key of the manifest declares: one, several, or none where it has its content in place."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield item
