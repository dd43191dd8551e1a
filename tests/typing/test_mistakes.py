"""A checker of types finds the mistakes of a user, and no fault in what is right."""

import json
import os
import re
import shutil
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


# pyright asks the first Python of PATH, which has what the package imports.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
PYRIGHT = shutil.which("pyright", path=PATH)


@pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed; .ci/wheel installs it")
def test_pyright_finds_no_fault_in_what_is_right(tmp_path):
    """It sees no mistake where a name gets a value of another type, which it allows."""
    shutil.copy(MISTAKES, tmp_path)
    settings = {"include": ["."], "extraPaths": [str(HERE.parent.parent / "src")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    run = subprocess.run(
        [str(PYRIGHT), "--outputjson"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PATH": PATH},
    )
    faults = [one for one in json.loads(run.stdout)["generalDiagnostics"] if one["severity"] == "error"]
    found = {one["range"]["start"]["line"] + 1 for one in faults}
    lines = MISTAKES.read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# mistake")}
    assert found <= marked and len(found) > 15, run.stdout
