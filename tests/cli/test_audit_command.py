"""`sfumato audit`: verdicts as exit codes, reports as files, and errors that say what to write instead."""

import re
import shlex
import sys
from pathlib import Path

import pytest

HALF = ("audited_mechanisms:half_noise", "--epsilon", "1")
MODULE = """
from sfumato.noise import Laplace, SeededWords

words = SeededWords(1)
steps = 2**20


def pairs():
    return [([1.0], [])]


def noisy_sum(dataset, size, scale=1.0):
    total = sum(round(min(max(x, 0.0), 1.0) * steps) for x in dataset if x == x)
    return (total + Laplace(scale=round(scale * steps)).rounded(size, words)) / steps


def half_noise(dataset, size):
    return noisy_sum(dataset, size, 0.5)


def colours(dataset):
    return "\\x1b[31m" if dataset else "no"


def too_few(dataset, size):
    return [0.0]


def changes(dataset):
    dataset.append(1.0)
    return 0.0


def raising(dataset):
    raise ValueError("no")


def interrupted(dataset):
    raise KeyboardInterrupt
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a module of mechanisms."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "audited_mechanisms.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("audited_mechanisms", None)


def test_a_violation_is_exit_code_1_and_is_replayed_by_what_it_prints(folder, run):
    done = run(
        "audit", "audited_mechanisms:half_noise", "--epsilon", "1", "--pairs", "audited_mechanisms:pairs"
    )
    assert done.exit_code == 1, done.output
    assert done.stdout.startswith("VIOLATED: half_noise breaks its claim, epsilon = 1 (false alarms")
    assert done.stderr == "" and "\x1b" not in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  replay")]
    code = line.removeprefix("  replay").strip()
    statement, call = code.split("; ")
    names: dict[str, object] = {}
    exec(f"from sfumato.audit import *\n{statement}\nreport = {call}", names)
    assert names["report"].violated


def test_a_file_that_cannot_be_written_does_not_cost_the_verdict(folder, run, monkeypatch):
    def gone(*_):
        raise OSError(2, "No such file or directory", "report.html")

    monkeypatch.setattr("sfumato.audit.report.replacing", gone)
    done = run("audit", *HALF, "--output", "report.html")
    assert done.exit_code == 2
    assert done.stdout.startswith("VIOLATED") and "report.html: No such file" in done.stderr


@pytest.mark.long
def test_mechanisms_that_cannot_be_judged_are_exit_code_2(folder, run):
    for name in ("too_few", "changes", "raising"):
        done = run("audit", f"audited_mechanisms:{name}", *HALF[1:])
        assert done.exit_code == 2 and "NOTHING FOUND" not in done.stdout, name


@pytest.mark.long
def test_outputs_cannot_command_the_terminal(folder, run):
    done = run("audit", "audited_mechanisms:colours", "--epsilon", "1")
    assert done.exit_code == 1 and "\x1b" not in done.stdout


def test_stopped_by_hand_is_no_verdict(folder, run):
    done = run("audit", "audited_mechanisms:interrupted", "--epsilon", "1")
    assert done.exit_code == 130 and "without a verdict" in done.stderr and done.stdout == ""


@pytest.mark.long
@pytest.mark.flakiness(
    k=30,
    because="the bet's wealth grows steadily, and is at its goal after some thousand of the draws that it has",
)
def test_the_example_of_the_docs(folder, run):
    """The module and the command of docs/cli.md; its noise comes from the operating system."""
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    section = page.partition("## Audit a mechanism")[2]
    module, shell = re.findall(r"^```\w+\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    shell = shell.splitlines()
    (folder / "counts.py").write_text(module)
    try:
        done = run(*shlex.split(shell[0])[2:])
    finally:
        sys.modules.pop("counts", None)
    assert shell[0].startswith("$ sfumato audit") and done.exit_code == 1, done.output
    said = done.stdout.splitlines()
    assert (said[0], said[-1]) == (shell[1], shell[-1])
    assert {line[:13] for line in shell[1:]} <= {line[:13] for line in said}
    assert (folder / "report.html").exists()
