"""A checker of types finds the mistakes of a user, and no fault in what is right."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

# It checks the package, too, unless mypy has done so before, in the same checkout.
pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
MISTAKES = Path(__file__).parent / "mistakes.py"


def test_mypy_sees_every_mistake_and_no_other_line():
    command = [sys.executable, "-m", "mypy", "--config-file=pyproject.toml", str(MISTAKES)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    found = {int(line) for line in re.findall(r"mistakes\.py:(\d+): error", run.stdout)}
    lines = MISTAKES.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# mistake")}
    assert len(marked) > 10 and found == marked, run.stdout + run.stderr
