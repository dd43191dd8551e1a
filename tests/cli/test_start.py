"""Help, version, and what starting loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sfumato

HEAVY = (
    "duckdb",
    "pyarrow",
    "numpy",
    "scipy",
    "matplotlib",
    "pyspark",
    "apache_beam",
    "dp_accounting",
    "rich",  # its Markdown renderer alone takes as long as everything else that help loads
    "markdown_it",
    "pygments",
)


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_help_lists_commands_and_options(run):
    assert "sql" in run("--help").stdout
    told = run("sql", "--help", columns=120).stdout
    options = "file table explain dry-run output errors plot confidence simultaneous show quiet"
    for option in (f"--{name}" for name in options.split(" ")):
        assert option in told
    assert run().stdout.strip() == run("--help").stdout.strip()


def test_help_does_not_cut_what_commands_say(run):
    for group in ("", "budget", "journal", "token"):
        told = run(*group.split(), "--help").stdout
        assert "Commands:" in told and "..." not in told.partition("Commands:")[2]
    told = " ".join(run("--help").stdout.split())
    assert told.count("NOT PRIVATE: for the owner alone.") == 2


def test_version(run):
    assert run("--version").stdout == f"sfumato {sfumato.__version__}\n"


def test_import_loads_nothing_heavy():
    loaded = python("import sys, sfumato; print(*sys.modules)").stdout.split()
    assert {"sfumato"} == {"sfumato", *HEAVY} & set(loaded)


def test_help_loads_nothing_heavy():
    done = python(
        "import sys\n"
        "from sfumato.cli.main import app\n"
        "for arguments in (['--help'], ['sql', '--help'], ['--version']):\n"
        "    try: app(arguments, prog_name='sfumato')\n"
        "    except SystemExit as e: assert not e.code\n"
        "print(*sys.modules)"
    )
    *told, loaded = done.stdout.splitlines()
    assert "Usage: sfumato" in told[0]
    assert {"sfumato"} == {"sfumato", *HEAVY} & set(loaded.split())


@pytest.mark.long
def test_a_mistake_in_a_process_of_its_own():
    done = subprocess.run(
        [sys.executable, "-c", "from sfumato.cli.main import app; app()", "sql", "SELECT 1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and "Traceback" not in done.stderr
    assert done.stdout == ""
