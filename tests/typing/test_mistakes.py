"""A checker of types finds the mistakes of a user, and no fault in what is right."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
MISTAKES = HERE / "mistakes.py"


def test_mypy_sees_every_mistake_and_no_other_line(tmp_path):
    config = HERE.parent.parent / "pyproject.toml"
    run = subprocess.run(
        [sys.executable, "-m", "mypy", f"--config-file={config}", f"--cache-dir={tmp_path}", str(MISTAKES)],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parent.parent,
    )
    found = {int(line) for line in re.findall(r"mistakes\.py:(\d+): error", run.stdout)}
    lines = MISTAKES.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# mistake")}
    assert len(marked) > 10 and found == marked, run.stdout + run.stderr
