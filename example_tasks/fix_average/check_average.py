"""Grader: runs the agent's module in a process of its own and compares what it prints."""

import json
import subprocess
import sys

CASES = [([], 0.0), ([2], 2.0), ([1, 2, 3, 4], 2.5)]
PROGRAM = "import json, sys, stats; print(json.dumps([stats.average(case) for case in json.load(sys.stdin)]))"

done = subprocess.run(
    [sys.executable, "-c", PROGRAM],
    input=json.dumps([numbers for numbers, _ in CASES]),
    capture_output=True,
    text=True,
    timeout=10,
)
if done.returncode:
    sys.exit(f"stats.average failed:\n{done.stderr}")
answers = json.loads(done.stdout)
wrong = [(case, answer) for case, answer in zip(CASES, answers) if answer != case[1]]
for (numbers, expected), answer in wrong:
    print(f"average({numbers}) is {answer}, expected {expected}")
sys.exit(1 if wrong else 0)
