"""Programs that run another one: how they are called, up to the program that they run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from .expansion import Text


@dataclasses.dataclass(frozen=True)
class Launcher:
    """How a launcher is called. An option that is not named here leaves the command whole."""

    flags: str = ""
    values: str = ""
    """Letters that take a value."""
    long_flags: str = ""
    long_values: str = ""
    verbs: tuple[str, ...] = ()
    """One of these words stands before the program; options may stand on both sides of it."""
    dashes: str = ""
    """`options`: the program stands behind `--`; `words`: other words may stand before the `--`, too."""
    operands: int = 0
    operand: str = r"[\s\S]+"
    """What each word before the program is."""
    text: tuple[str, ...] = ()
    """Options whose value is a shell text."""
    joined: bool = False
    """Whether the words become a shell text."""
    packages: bool = False
    """Whether the program may be written `name@version`."""
    stops: tuple[str, ...] = ()
    """Words with which the command ends."""
    untold: bool = False
    """Whether its status does not tell how the program ended, which may run several times."""
    once: bool = False
    """Whether it runs the program one time all the same."""
    some: bool = False
    """Whether it may run the program not at all."""
    refuses: tuple[str, ...] = ()
    """Options with which it may fail without running the program."""
    told_by: tuple[str, ...] = ()
    """Options with which alone the status tells."""
    many: bool = False
    """Whether it holds many programs, and runs its own one of that name, whatever PATH says."""


_NPM = "--yes --no --no-install --quiet --silent --offline --prefer-offline --workspaces --include-workspace-root"
_NPM_VALUES = "--package --prefix --workspace --registry --loglevel --userconfig --cache"
_UV = (
    "--isolated --frozen --locked --no-sync --no-dev --dev --only-dev --all-extras --all-groups --all-packages --active"
    " --exact --no-project --no-env-file --no-editable --offline --no-cache --quiet --verbose --native-tls --no-config"
    " --managed-python --no-managed-python --no-progress --upgrade --reinstall --refresh --compile-bytecode"
    " --no-default-groups --no-index --no-build-isolation --no-python-downloads --no-sources"
)
_UV_VALUES = (
    "--with --with-editable --with-requirements --extra --no-extra --group --no-group --only-group --python --package"
    " --project --directory --env-file --index --default-index --index-url --extra-index-url --find-links --from"
    " --refresh-package --upgrade-package --reinstall-package --config-file --cache-dir --color --resolution"
    " --prerelease --exclude-newer --link-mode --index-strategy --allow-insecure-host --constraints --overrides"
)
_CONDA = Launcher(
    "v",
    "np",
    "--no-capture-output --live-stream --dev --verbose --quiet",
    "--name --prefix --cwd",
    verbs=("run",),
)
_PNPM_VALUES = "--filter --dir --package"
MULTI_CALL = ("busybox", "toybox", "coreutils", "sbase-box", "ubase-box")
"""Programs that are many, one by each name that they are called by."""

LAUNCHERS = {
    **dict.fromkeys(MULTI_CALL, Launcher(many=True)),
    "npx": Launcher("yq", "pw", _NPM + " --ignore-existing", _NPM_VALUES, text=("-c", "--call"), packages=True),
    "npm": Launcher("yqs", "pw", _NPM, _NPM_VALUES, ("exec", "x"), "options", text=("-c", "--call"), packages=True),
    "bunx": Launcher("", "p", "--bun --silent --verbose --no-install", "--package", packages=True),
    "pnpx": Launcher("s", "", "--silent", _PNPM_VALUES, packages=True),
    "pnpm": Launcher("rs", "FC", "--recursive --silent", _PNPM_VALUES, ("exec", "dlx"), packages=True),
    "yarn": Launcher(
        "qsTB",
        "p",
        "--quiet --silent --top-level --binaries-only",
        "--package --cwd",
        ("exec", "run", "dlx"),
        packages=True,
    ),
    "uv": Launcher("nqvU", "wpifPC", _UV, _UV_VALUES, ("run",)),
    "uvx": Launcher("nqvU", "wpifPC", _UV, _UV_VALUES, packages=True),
    "poetry": Launcher(
        "qvn",
        "CP",
        "--quiet --no-interaction --ansi --no-ansi --no-plugins --no-cache --verbose",
        "--directory --project",
        ("run",),
    ),
    "pipenv": Launcher("qv", "", "--quiet --verbose --bare", "--python", ("run",)),
    "pdm": Launcher("qvs", "p", "--quiet --verbose --site-packages", "--project", ("run",)),
    "hatch": Launcher("qv", "ep", "--color --no-color --interactive --no-interactive", "--env --project", ("run",)),
    "rye": Launcher("qv", "", "--quiet --verbose", "--pyproject", ("run",)),
    "conda": _CONDA,
    "mamba": _CONDA,
    "micromamba": _CONDA,
    "mise": Launcher("qvy", "Cj", "--quiet --verbose --yes --raw", "--cd --jobs", ("exec", "x"), "words"),
    "bundle": Launcher("", "", "--keep-file-descriptors --no-color", "--gemfile", ("exec",)),
    "dotenv": Launcher("o", "efv", "--no-override --override", "--file", dashes="words"),
    "direnv": Launcher(verbs=("exec",), operands=1),
    "strace": Launcher("cCdDfFhiknqrtTvVwxyYzZ", "oePsuEaAbIOSUX", "--follow-forks", "--output --trace --env"),
    "ltrace": Launcher("bcCfiLrStT", "oesnaADFluwx", "", "--output"),
    "xvfb-run": Launcher(
        "al", "efnpsw", "--auto-servernum --listen-tcp", "--error-file --auth-file --server-num --server-args --wait"
    ),
    "flock": Launcher(
        "sxeunoF",
        "w",
        "--shared --exclusive --nonblock --nb --close --no-fork --verbose --unlock",
        "--wait --timeout",
        operands=1,
        operand=r"(?!\d+$)[\s\S]+",
        text=("-c", "--command"),
        refuses=("-n", "--nb", "--nonblock", "-w", "--wait", "--timeout"),
    ),
    "chrt": Launcher(
        "abfiordRv", "TPD", "--batch --fifo --idle --other --rr --all-tasks", "", operands=1, operand=r"\d+"
    ),
    "taskset": Launcher("ac", "", "--cpu-list --all-tasks", "", operands=1, operand=r"[\da-fA-Fx,:-]+"),
    "unbuffer": Launcher("p"),
    "script": Launcher(
        "qefat",
        "EmoBITO",
        "--quiet --return --flush --append",
        "--log-out --log-in --log-io --echo --output-limit",
        operands=1,
        operand=r"(?!)",
        text=("-c", "--command"),
        untold=True,
        once=True,
        told_by=("-e", "--return"),
    ),
    "watch": Launcher(
        "tdbegcwp",
        "nq",
        "--no-title --differences --beep --errexit --chgexit --color --precise",
        "--interval",
        joined=True,
        untold=True,
    ),
    "entr": Launcher("acdnprzx", "", text=("-s",), untold=True, some=True),
    "parallel": Launcher(
        "kqutvXmn0r",
        "jPaCINSLd",
        "--keep-order --will-cite --eta --bar --ungroup --line-buffer --tag --verbose --progress --null"
        " --no-run-if-empty --dry-run",
        "--jobs --halt --arg-file --colsep --delay --retries --timeout --joblog --results --max-args --delimiter",
        joined=True,
        stops=(":::", "::::", ":::+", "::::+"),
        untold=True,
        some=True,
    ),
    "screen": Launcher("dmDLaAOqUi", "SctTesph", "", "", untold=True),
    "systemd-run": Launcher(
        "PtGqdr",
        "puEMH",
        "--user --scope --wait --pipe --pty --collect --quiet --no-block --same-dir --remain-after-exit --system",
        "--property --unit --slice --description --uid --gid --nice --working-directory --setenv --on-active"
        " --on-calendar --on-boot --service-type",
        untold=True,
    ),
    "setpriv": Launcher(
        "",
        "",
        "--clear-groups --keep-groups --init-groups --no-new-privs --nnp",
        "--reuid --regid --ruid --euid --rgid --egid --groups --inh-caps --ambient-caps --bounding-set --securebits"
        " --pdeathsig",
        untold=True,
    ),
}
"""Launchers by their names."""

_PACKAGE = re.compile(r"((?:@[\w.-]+/)?[\w.-]+)@[\w.^~<>=*-]+")
_SCRIPT = re.compile(r"[^@]*:.*|\+.*|-|.*\.pyw?", re.DOTALL)
"""What `uv run`, `hatch run` and others take for something else than a program."""


@dataclasses.dataclass(frozen=True)
class Launched:
    """What a launcher runs: the words of a program, or a shell text."""

    words: tuple[Text, ...]
    text: Text | None
    behind: int
    """Words before the program or the text."""
    options: frozenset[str]
    bypass: bool


def launched(words: Sequence[Text], launcher: Launcher) -> Launched | None:
    """Return what `words`, of which the first is the launcher, run; None where that is not sure."""
    options: set[str] = set()
    at = 1
    found = _behind_options(words, at, launcher, options)
    if isinstance(found, int) and launcher.verbs:
        if found >= len(words) or words[found].text not in launcher.verbs:
            return None
        found = _behind_options(words, found + 1, launcher, options)
    if isinstance(found, int):
        found = _behind_operands(words, found, launcher, options)
    if found is None or isinstance(found, Launched):
        return found
    rest = tuple(words[found:])
    stop = next((index for index, word in enumerate(rest) if word.text in launcher.stops), len(rest))
    rest = rest[:stop]
    if not rest or (launcher.verbs == ("run",) and _SCRIPT.fullmatch(rest[0].text)):
        return None
    if launcher.joined:
        text = Text(" ".join(word.text for word in rest), all(word.known for word in rest))
        return Launched(rest, text, found, frozenset(options), False)
    package = _PACKAGE.fullmatch(rest[0].text) if launcher.packages and rest[0].known else None
    if package is not None:
        rest = (Text(package[1]), *rest[1:])
    return Launched(rest, None, found, frozenset(options), package is not None)


def _behind_operands(words: Sequence[Text], at: int, launcher: Launcher, options: set[str]) -> int | Launched | None:
    if launcher.dashes and words[at - 1].text == "--":
        return at
    if launcher.dashes:
        while launcher.dashes == "words" and at < len(words) and not words[at].text.startswith("-"):
            at += 1
        behind = launcher.dashes == "words" and at < len(words) and words[at].text == "--"
        return at + 1 if behind else None
    for _ in range(launcher.operands):
        if at >= len(words) or not re.fullmatch(launcher.operand, words[at].text):
            return None
        at += 1
    if launcher.operands and launcher.text and at < len(words) and words[at].text in launcher.text:
        return _text(words, at + 1, options)
    return at


def _behind_options(words: Sequence[Text], at: int, launcher: Launcher, options: set[str]) -> int | Launched | None:
    """Return where the options that begin at `at` end, the shell text that one of them is, or None."""
    long_flags, long_values = launcher.long_flags.split(), launcher.long_values.split()
    while at < len(words) and re.match(r"-.", words[at].text):
        word = words[at].text
        at += 1
        name, equals, value = word.partition("=")
        if word == "--":
            break
        if word.startswith("--"):
            options.add(name)
            if name in launcher.text:
                return (
                    _text(words, at, options)
                    if not equals
                    else Launched((), Text(value), at, frozenset(options), False)
                )
            if name not in long_flags and name not in long_values:
                return None
            at += name in long_values and not equals
            continue
        cluster = _cluster(word, launcher, options)
        if cluster is None:
            return None
        if cluster == "text":
            return _text(words, at, options)
        at += cluster == "value"
    return at


def _cluster(word: str, launcher: Launcher, options: set[str]) -> str | None:
    """Return whether the letters of an option end it, or want a `value` or a `text`; None where one is not known."""
    for index, letter in enumerate(word[1:], start=1):
        options.add(f"-{letter}")
        last = index + 1 == len(word)
        if f"-{letter}" in launcher.text:
            return "text" if last else None
        if letter in launcher.values:
            return "value" if last else "flag"
        if letter not in launcher.flags:
            return None
    return "flag"


def _text(words: Sequence[Text], at: int, options: set[str]) -> Launched | None:
    return Launched((), words[at], at, frozenset(options), False) if at < len(words) else None


def switched_user(words: Sequence[Text]) -> Launched | None:
    """Return the shell text of `su -c text`, or None."""
    text: Text | None = None
    options: set[str] = set()
    users, at = 0, 1
    while at < len(words):
        word = words[at].text
        at += 1
        name, equals, value = word.partition("=")
        if word == "-":
            options.add("-l")
        elif not word.startswith("-"):
            users += 1
        elif name in ("--command", "--session-command"):
            text = Text(value) if equals else words[at] if at < len(words) else None
            at += not equals
        elif word.startswith("--"):
            at += name in ("--shell", "--group", "--supp-group", "--whitelist-environment") and not equals
            options.add("-l" if name == "--login" else name)
        else:
            options.update(f"-{letter}" for letter in word[1:])
            if word[-1] == "c":
                text = words[at] if at < len(words) else None
            at += word[-1] in "csgGw"
    if text is None or users > 1:
        return None
    return Launched((), text, len(words), frozenset(options), "-l" in options)
