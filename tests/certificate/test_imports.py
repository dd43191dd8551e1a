"""The checker stands alone, and is small."""

import ast
import subprocess
import sys
from pathlib import Path

import sfumato.certificate

PACKAGE = Path(sfumato.certificate.__file__).parent
BEYOND = {"gmpy2"}  # what it may use where it is there


def test_it_imports_the_standard_library_alone() -> None:
    found = set()
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level and node.module
                found.add(node.module)
    own = {name for name in found if name.split(".")[0] == "sfumato"}
    assert own and all(name.startswith("sfumato.certificate.") for name in own)
    assert {name.split(".")[0] for name in found - own} <= sys.stdlib_module_names | BEYOND


def test_it_loads_nothing_else() -> None:
    code = "import sys, sfumato.certificate; print(*(m for m in sys.modules if m.startswith('sfumato.')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(name.startswith("sfumato.certificate") for name in run.stdout.split()), run.stdout
