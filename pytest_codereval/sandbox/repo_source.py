"""Git repositories that a workspace starts with: one commit, no remotes, unless the history is asked for."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Cause, TrialError
from ..redaction import redact
from ..task.variables import UndefinedVariable, expand_variables, host_path
from ..text import shorten
from .removal import remove_tree

if TYPE_CHECKING:
    from ..task.models import RepoSource

FOLDER = "repo"
"""Where in the workspace a repository lies."""

CLONE_TIMEOUT = 60.0
CHECKOUT_TIMEOUT = 30.0
"""Seconds."""

_BRANCH = "main"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[A-Za-z0-9_.-]+@[A-Za-z0-9.-]+:")
_PASSWORD = re.compile(r"(?<=://)[^/\s]+(?=@)")
_HOW_TO_REACH = (
    *("GIT_SSH", "GIT_SSL_", "GIT_ASKPASS", "GIT_PROXY_", "GIT_HTTP_"),
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
    *("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"),
)
"""The variables of git that say how others are reached; the rest say which repository is meant."""

_QUIET = (
    *("-c", "core.hooksPath=/dev/null", "-c", "init.templateDir=", "-c", "protocol.ext.allow=never"),
    *("-c", "advice.detachedHead=false", "-c", "gc.auto=0", "-c", "core.fsmonitor=false"),
)


def stage_repo(source: RepoSource, where: str, task_dir: Path, workspace: Path, kept: Path) -> None:
    """Put the repository into `repo` of the workspace.

    It is fetched once into a folder of `kept` and copied from there. Submodules and large files of LFS are not
    fetched. Raises TrialError(CONFIGURATION) for a source that cannot be right, TrialError(SANDBOX) when git fails.
    """
    address = _address(source.url, where, task_dir)
    if address.startswith("-") or (source.commit or "").startswith("-"):
        raise TrialError(Cause.CONFIGURATION, f"{where}: neither url nor commit can start with a dash")
    if ":" in (source.commit or ""):
        raise TrialError(Cause.CONFIGURATION, f"{where}.commit: {source.commit!r} names no commit, branch or tag")
    name = hashlib.sha256(f"{address}\0{source.commit}\0{source.history}".encode()).hexdigest()[:24]
    ready = kept / name
    if not ready.is_dir():
        kept.mkdir(mode=0o700, parents=True, exist_ok=True)
        making = kept / f"{name}.new"
        remove_tree(making)
        _Fetching(making, where).fetch(address, source.commit, history=source.history)
        making.rename(ready)
    shutil.copytree(ready, workspace / FOLDER, symlinks=True)


def _address(url: str, where: str, task_dir: Path) -> str:
    """What git is to fetch from: an address as it stands, or the absolute path of a folder."""
    try:
        expanded = expand_variables(url)
        return expanded if _ADDRESS.match(expanded) else str(host_path(url, task_dir))
    except UndefinedVariable as error:
        raise TrialError(Cause.CONFIGURATION, f"{where}.url: {error}") from None


class _Fetching:
    """Makes one repository in the folder `place`."""

    def __init__(self, place: Path, where: str) -> None:
        self._place = place
        self._where = where

    def fetch(self, address: str, commit: str | None, *, history: bool) -> None:
        """Make it: the whole history, or the one commit, at best without asking for more than that."""
        self._init()
        if history:
            self._fetch_all(address)
            self._check_out(self._commit_of(commit))
        else:
            one = ["fetch", "--quiet", "--no-tags", "--depth", "1", "--", address, commit or "HEAD"]
            if self._try(one, CLONE_TIMEOUT).returncode != 0 or not self._has_commit_only():
                self._reduce(address, commit)
            self._check_out("FETCH_HEAD")
        self._forget_origin()

    def _init(self) -> None:
        self._git(["init", "--quiet", "--initial-branch", _BRANCH, str(self._place)], CHECKOUT_TIMEOUT)

    def _has_commit_only(self) -> bool:
        """Whether a commit was fetched, and not the object of a tag, whose message would come along."""
        kind = self._try(["cat-file", "-t", "FETCH_HEAD"], CHECKOUT_TIMEOUT)
        return kind.stdout.strip() == b"commit"

    def _reduce(self, address: str, commit: str | None) -> None:
        """For a commit that the other side does not give away alone, such as one with a short name or a tag's."""
        whole = self._place.with_suffix(".whole")
        remove_tree(whole)
        try:
            other = _Fetching(whole, self._where)
            other._git(["init", "--quiet", "--bare", str(whole)], CHECKOUT_TIMEOUT)
            other._fetch_all(address)
            full = other._commit_of(commit)
            other._git(["config", "uploadpack.allowAnySHA1InWant", "true"], CHECKOUT_TIMEOUT)
            remove_tree(self._place)
            self._init()
            near = ["fetch", "--quiet", "--no-tags", "--depth", "1", "--", f"file://{whole}", full]
            self._git(near, CLONE_TIMEOUT)
        finally:
            remove_tree(whole)

    def _fetch_all(self, address: str) -> None:
        what = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", "+HEAD:refs/codereval/head"]
        self._git(["fetch", "--quiet", "--update-head-ok", "--", address, *what], CLONE_TIMEOUT)

    def _commit_of(self, commit: str | None) -> str:
        named = commit or "refs/codereval/head"
        done = self._try(
            ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{named}^{{commit}}"], CHECKOUT_TIMEOUT
        )
        if done.returncode != 0:
            raise TrialError(Cause.CONFIGURATION, f"{self._where}.commit: the repository has no {commit!r}")
        return done.stdout.decode().strip()

    def _check_out(self, commit: str) -> None:
        self._git(["checkout", "--quiet", "--force", "-B", _BRANCH, commit, "--"], CHECKOUT_TIMEOUT)
        self._try(["update-ref", "-d", "refs/codereval/head"], CHECKOUT_TIMEOUT)

    def _forget_origin(self) -> None:
        """What tells where the commit came from, or of more than it."""
        for name in ("FETCH_HEAD", "ORIG_HEAD", "logs"):
            remove_tree(self._place / ".git" / name)

    def _git(self, arguments: Sequence[str], timeout: float) -> None:
        done = self._try(arguments, timeout)
        if done.returncode != 0:
            said = _without_password(done.stderr.decode(errors="replace").strip())
            raise TrialError(
                Cause.SANDBOX,
                f"{self._where}: git {arguments[0]}: exit status {done.returncode}: {shorten(said, 1000)}",
            )

    def _try(self, arguments: Sequence[str], timeout: float) -> subprocess.CompletedProcess[bytes]:
        inside = self._place if self._place.is_dir() else self._place.parent
        return _run(["git", *_QUIET, *arguments], inside, timeout, f"{self._where}: git {arguments[0]}")


def _run(command: Sequence[str], folder: Path, timeout: float, what: str) -> subprocess.CompletedProcess[bytes]:
    """Run git of this machine with the harness's settings and credentials; nobody is asked for any."""
    own = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_HOW_TO_REACH) or not name.startswith(("PYTEST_", "GIT_"))
    }
    env = own | {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise TrialError(Cause.SANDBOX, f"{what}: git is not installed") from None
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise TrialError(Cause.SANDBOX, f"{what}: took longer than {timeout:g} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _without_password(text: str) -> str:
    return redact(_PASSWORD.sub("***", text))
