"""All that users may name has a type that checkers know, and need not infer."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato

# pyright asks the first Python of PATH, which has what the package imports.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
PYRIGHT = shutil.which("pyright", path=PATH)
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed; .ci/wheel installs it"),
]


def unknown(package: str, above: Path) -> list[str]:
    """Return the names of a package whose types are unknown, or inferred by each checker in its own way."""
    run = subprocess.run(
        [str(PYRIGHT), "--verifytypes", package, "--ignoreexternal", "--outputjson"],
        capture_output=True,
        text=True,
        check=False,
        cwd=above,
        env={**os.environ, "PATH": PATH, "PYTHONPATH": str(above)},
    )
    symbols = json.loads(run.stdout)["typeCompleteness"]["symbols"]
    assert symbols, run.stdout + run.stderr
    return [s["name"] for s in symbols if s["isExported"] and (not s["isTypeKnown"] or s["isTypeAmbiguous"])]


def test_every_type_is_known():
    assert unknown("sfumato", Path(sfumato.__file__).parent.parent) == []
