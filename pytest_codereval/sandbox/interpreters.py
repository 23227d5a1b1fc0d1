"""Interpreters for graders: `python3 -c`, `-m` and standard input import modules of the workspace last, not first."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

_WRAPPER = """\
#!/bin/sh
set -f
IFS=:
real=
for folder in $PATH; do
    case $folder in
    {own}) real= ;;
    /*) [ "$real" ] || {{ [ -f "$folder/{name}" ] && [ -x "$folder/{name}" ] && real=$folder/{name}; }} ;;
    esac
done
if [ ! "$real" ]; then
    echo "{name}: not found" >&2
    exit 127
fi
looks=yes
value=
[ ! "${{PYTHONSAFEPATH-}}" ] || looks=
for word do
    if [ "$value" ]; then
        value=
        continue
    fi
    case $word in
    -) break ;;
    --check-hash-based-pycs) value=next; continue ;;
    --*) looks=; break ;;
    -*) ;;
    *) looks=; break ;;
    esac
    letters=${{word#-}}
    while [ "$letters" ]; do
        rest=${{letters#?}}
        case $letters in
        [cm]*) break 2 ;;
        [WX]*) [ "$rest" ] || value=next; break ;;
        [IPESVh?]*) looks=; break 2 ;;
        esac
        letters=$rest
    done
done
if [ "$looks" ]; then
    export PYTHONSAFEPATH=1 PYTHONPATH={start}"${{PYTHONPATH:+:$PYTHONPATH}}"
fi
exec "$real" "$@"
"""

_START = '''\
"""Puts the working directory last on sys.path, then goes on as if this were not here."""


def _begin():
    import os
    import sys

    own = os.path.dirname(__file__)
    sys.path[:] = [folder for folder in sys.path if folder != own]
    rest = os.environ.get("PYTHONPATH", "")[len(own) + 1 :]
    os.environ.pop("PYTHONSAFEPATH", None)
    os.environ.pop("PYTHONPATH", None)
    if rest:
        os.environ["PYTHONPATH"] = rest
    this = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", this)
        if getattr(sys.flags, "safe_path", False):
            _look_in_working_directory(os, sys)


def _look_in_working_directory(os, sys):
    import site

    if site.ENABLE_USER_SITE:
        from importlib.machinery import PathFinder

        if PathFinder.find_spec("usercustomize") is None:
            sys.modules["usercustomize"] = None
    try:
        sys.path.append(os.getcwd() if sys.argv[:1] == ["-m"] else "")
    except OSError:
        return  # it is gone, and Python itself does without it then


_begin()
'''
"""Runs as `sitecustomize` in any Python from 3.6 on. Before 3.11 the working directory stays first."""


def make_interpreters(folder: Path, names: Iterable[str]) -> Path:
    """Make programs of these names in `folder`/bin, which is returned, to be set before the real ones on PATH.

    They run the next program of their name on PATH. Where it would look for modules in the working directory first, it
    does so last: those of the standard library and installed ones come before. Raises OSError.
    """
    programs, start = folder / "bin", folder / "start"
    for made in (folder, programs, start):
        made.mkdir(parents=True, exist_ok=True)
        made.chmod(0o755)
    _write(start / "sitecustomize.py", _START, 0o644)
    quoted = {"own": shlex.quote(str(programs)), "start": shlex.quote(str(start))}
    for name in names:
        _write(programs / name, _WRAPPER.format(name=name, **quoted), 0o755)
    return programs


def _write(path: Path, text: str, mode: int) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
