"""Help, version, what starting loads, and progress: shown to people alone, and never in the way."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from rich.console import Console

import sfumato
from sfumato.cli.terminal import EVERY, follow
from sfumato.display.progress import PATIENCE

HEAVY = {
    "duckdb", "pyarrow", "numpy", "scipy", "gmpy2", "matplotlib", "pyspark", "apache_beam", "dp_accounting",
    "rich", "markdown_it", "pygments", "sfumato.audit",
}  # fmt: skip


@pytest.mark.long
def test_help_lists_commands_and_options(run):
    told = run("sql", "--help", columns=120).stdout
    assert all(f"--{name}" in told for name in ("file", "table", "explain", "dry-run", "output", "quiet"))
    assert run().stdout.strip() == run("--help").stdout.strip() and run().exit_code == 2
    for group in ("", "budget", "journal", "token"):
        told = run(*group.split(), "--help").stdout
        assert "Commands:" in told and "..." not in told.partition("Commands:")[2]
    assert " ".join(run("--help").stdout.split()).count("NOT PRIVATE: for the owner alone.") == 2
    assert run("--version").stdout == f"sfumato {sfumato.__version__}\n"


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


class Script:
    """Stands for an event: its waits return as written, at once."""

    def __init__(self, *answers):
        self.answers, self.waited = list(answers), []

    def wait(self, timeout=None):
        self.waited.append(timeout)
        return self.answers.pop(0)


def terminal(is_terminal=True):
    return Console(
        file=io.StringIO(),
        force_terminal=is_terminal,
        width=80,
        color_system=None,
        _environ={"TERM": "xterm"},
    )


def followed(*waits, fraction=lambda: None, title="Reading", is_terminal=True):
    """Return what is shown of work whose waits end so, and the waits."""
    console, done = terminal(is_terminal), Script(*waits)
    follow(console, title, fraction, done)
    return console.file.getvalue(), done.waited


def test_progress_of_reading():
    assert followed(True, fraction=lambda: pytest.fail("asked")) == ("", [PATIENCE])
    assert followed(fraction=lambda: 0.5, is_terminal=False) == ("", [])
    told = iter([None, 0.25, 0.5])
    text, waited = followed(False, False, False, True, fraction=lambda: next(told), title="Reading rows")
    assert "Reading rows" in text and "50%" in text and "0:00:00" in text
    assert waited == [PATIENCE, EVERY, EVERY, EVERY]
    told = iter([0.75, 0.25, 7.0])  # it never goes back, nor beyond the end
    text, _ = followed(False, False, False, True, fraction=lambda: next(told))
    assert "100%" in text and "25%" not in text.replace("\x1b", "")
    assert "Reading" in followed(False, True, fraction=lambda: 1 / 0)[0]
    assert r"[bold]\x1b[31m.csv" in followed(False, True, title="[bold]\x1b[31m.csv")[0]
