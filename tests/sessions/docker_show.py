"""Shows that sessions under docker leave nothing: `python -m tests.sessions.docker_show` (needs a daemon).

32 trials with eight workers; then the same killed by SIGKILL half-way, and started again.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.sandbox.docker import base_image

TRIALS = 32
TASK = """\
task_id: t{number}
description: writes a file and calls a recorded tool
initial_prompt: go
agent:
  type: script
  steps:
    - bash: "deploy --number {number}; sleep 0.5; echo {number} >answer.txt; (setsid sleep 300 &)"
sandbox:
  driver: docker
  docker: {{image: {image}, network: none}}
  record_cli: [{{tool: deploy, stdout: "ok"}}]
success_criteria:
  - {{type: cli_called, tool: deploy, description: it was deployed}}
  - {{type: run_command, command: "test $(cat answer.txt) = {number}", description: the answer is right}}
"""


def main() -> int:
    import docker

    client = docker.from_env(timeout=120)
    image = base_image.ensure(client, base_image.base_recipe())
    client.close()
    with tempfile.TemporaryDirectory(prefix="codereval-show-") as place:
        tasks = Path(place, "tasks")
        tasks.mkdir()
        for number in range(TRIALS):
            (tasks / f"t{number}.yaml").write_text(TASK.format(number=number, image=image), encoding="utf-8")
        before = there()
        print(f"before:                {before}")
        begin = time.monotonic()
        status = start(place, "whole").wait()
        took = time.monotonic() - begin
        print(f"{TRIALS} trials, -n 8:      exit status {status}, {outcomes(place, 'whole')}, {took:.0f} s")
        print(f"after:                 {there()}")
        killed = start(place, "killed")
        until(lambda: len(records(place, "killed")) >= TRIALS // 2)
        print(f"half-way:              {there()}")
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        print(f"killed by SIGKILL:     {outcomes(place, 'killed')}")
        status = start(place, "again").wait()
        print(f"started again:         exit status {status}, {outcomes(place, 'again')}")
        after = there()
        print(f"after:                 {after}")
    return int(before != after)


def start(place: str, run: str) -> subprocess.Popen[bytes]:
    options = ["-n8", "-q", "-p", "no:cacheprovider", f"--codereval-run-dir={run}"]
    command = [sys.executable, "-m", "pytest", "tasks", *options]
    with open(Path(place, f"{run}.log"), "wb") as log:
        return subprocess.Popen(command, cwd=place, stdout=log, stderr=log, start_new_session=True)


def there() -> dict[str, int]:
    """How many containers of these sessions, and how many volumes and networks, the daemon has."""
    found = {}
    for what, command in (("volumes", "volume ls -q"), ("networks", "network ls -q")):
        result = subprocess.run(["docker", *command.split()], capture_output=True, text=True, check=True)
        found[what] = len(result.stdout.split())
    names = subprocess.run(["docker", "ps", "-a", "--format", "{{.Names}}"], capture_output=True, text=True, check=True)
    ours = tuple(f"codereval-{run}-" for run in ("whole", "killed", "again"))
    return {"containers": sum(name.startswith(ours) for name in names.stdout.split()), **found}


def records(place: str, run: str) -> list[Path]:
    return [*Path(place, run, "trials").glob("*/*/record.json")]


def outcomes(place: str, run: str) -> dict[str, int]:
    return dict(Counter(json.loads(record.read_text())["status"] for record in records(place, run)))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
