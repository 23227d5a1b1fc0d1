"""The shell that commands of an agent run in: the bash of the sandbox, else its sh."""

from __future__ import annotations

_START = """
script=$1; shift
for shell in /bin/bash /usr/bin/bash /usr/local/bin/bash /run/current-system/sw/bin/bash /bin/sh
do [ -x "$shell" ] && exec "$shell" -c "$script" bash "$@"
done
echo "no shell was found" >&2
exit 127
"""


def in_bash(script: str, *arguments: str) -> list[str]:
    """The command line that runs shell text in the sandbox; its arguments are `$1` and on, its name is `bash`."""
    return ["/bin/sh", "-c", _START, "sh", script, *arguments]
