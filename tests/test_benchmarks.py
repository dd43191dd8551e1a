"""The benchmarks report the memory of the program that they measure, and of no other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# A parent that holds 300 MB starts, as a benchmark does, a script that holds 64 MB.
PARENT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from _runs import run
held = b"x" * (300 << 20)
script = "import json, resource\\nheld = b'x' * (64 << 20)\\nused = resource.getrusage(resource.RUSAGE_SELF)\\n"
print(json.dumps(run(sys.executable, script + "print(json.dumps([peak_mb(), used.ru_maxrss / 1024]))")))
"""


def test_the_memory_of_a_run_is_not_that_of_the_process_that_started_it():
    command = [sys.executable, "-c", PARENT, str(BENCHMARKS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    own, inherited = json.loads(done.stdout)
    assert 64 < own < 150
    assert inherited > 300  # ru_maxrss, which survives exec, is the memory of the parent


def test_no_benchmark_reports_a_number_that_survives_exec():
    found = {path.name for path in BENCHMARKS.glob("*.py") if ".ru_maxrss" in path.read_text()}
    assert not found
