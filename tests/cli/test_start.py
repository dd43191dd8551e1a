"""Help, version, what starting loads, and progress: shown to people alone, and never in the way."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "duckdb", "pyarrow", "numpy", "scipy", "gmpy2", "matplotlib", "pyspark", "apache_beam", "dp_accounting",
    "rich", "markdown_it", "pygments", "sfumato.audit",
}  # fmt: skip


@pytest.mark.long
def test_import_and_help_load_nothing_heavy():
    code = (
        "import sys, sfumato\nprint(*sys.modules)\nfrom sfumato.cli.main import app\n"
        "for arguments in (['--help'], ['sql', '--help'], ['audit', '--help'], ['--version']):\n"
        "    try: app(arguments, prog_name='sfumato')\n"
        "    except SystemExit as e: assert not e.code\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported, *told, helped = done.stdout.splitlines()
    assert "Usage: sfumato" in told[0]
    assert not HEAVY & {*imported.split(), *helped.split()} and "sfumato.cli.main" in helped.split()
