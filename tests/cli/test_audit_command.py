"""`sfumato audit`: verdicts as exit codes, reports as files, and errors that say what to write instead."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.commands import refused

MODULE = """
from sfumato.audit import Mechanism
from sfumato.noise import Laplace, SeededWords

words = SeededWords(1)
steps = 2**20
datasets = [[1.0], [0.5, 0.25]]


def pairs():
    return [([1.0], [])]


def failing():
    raise OSError("gone")


def noisy_sum(dataset, size, scale=1.0):
    total = sum(round(min(max(x, 0.0), 1.0) * steps) for x in dataset if x == x)
    return (total + Laplace(scale=round(scale * steps)).rounded(size, words)) / steps


def half_noise(dataset, size):
    return noisy_sum(dataset, size, 0.5)


def too_few(dataset, size):
    return [0.0]


def changes(dataset):
    dataset.append(1.0)
    return 0.0


def colours(dataset):
    return "\\x1b[31m" if dataset else "no"


class Odd:
    @property
    def gone(self):
        raise OSError("no server")


odd = Odd()


def raising(dataset):
    raise ValueError("no")


def interrupted(dataset):
    raise KeyboardInterrupt


single = Mechanism(half_noise)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a module of mechanisms."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    (tmp_path / "audited_mechanisms.py").write_text(MODULE)
    (tmp_path / "broken_mechanisms.py").write_text("x = 1\nimport surely_not_installed\n")
    (tmp_path / "leaving_mechanisms.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "folder.html").mkdir()
    os.mkfifo(tmp_path / "pipe.html")
    yield tmp_path
    for name in ("audited_mechanisms", "broken_mechanisms", "leaving_mechanisms"):
        sys.modules.pop(name, None)


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


CLAIM = ("--epsilon", "1")
HALF = ("audited_mechanisms:half_noise", *CLAIM)
MISTAKES = [
    (HALF[:1], "missing; write one of --epsilon 1"),
    ((*HALF, "--zcdp", "1"), "2 times, by --epsilon and --zcdp"),
    ((HALF[0], "--epsilon", "much"), "'much', but must be a finite number"),
    ((*HALF, "--tolerated-edges", "0.1"), "--tolerated-edges belongs to --method histogram"),
    ((*HALF, "--method", "histogram", "--size", "2", "--pairs", "audited_mechanisms:pairs"), "--size is of the Halton datasets"),
    (("./audited_mechanisms.py:half_noise", *CLAIM), "audited_mechanisms:half_noise"),
    (("audited_mechanism:f", *CLAIM), "did you mean 'audited_mechanisms'?"),
    (("audited_mechanisms:half_nose", *CLAIM), "did you mean 'half_noise'? It defines: "),
    (("audited_mechanisms:odd.gone", *CLAIM), "audited_mechanisms:odd.gone cannot be read: OSError: no server"),
    (("audited_mechanisms:steps", *CLAIM), "of type int, which cannot be called"),
    (("broken_mechanisms:f", *CLAIM), "broken_mechanisms.py, line 2"),
    (("leaving_mechanisms:f", *CLAIM), "SystemExit: 3"),
    ((*HALF, "--data", "audited_mechanisms:steps"), "--data: audited_mechanisms:steps gives an int"),
    ((*HALF, "--pairs", "audited_mechanisms:datasets"), "a pair (dataset, neighbour)"),
    ((*HALF, "--data", "audited_mechanisms:failing"), "failing() failed: OSError: gone"),
    ((*HALF, "--output", "pipe.html"), "the name of a plain file"),
    ((*HALF, "-o", "r.html", "-o", "./r.html"), "a file is named twice"),
    (("audited_mechanisms:too_few", *CLAIM), "returned 1"),
    (("audited_mechanisms:raising", *CLAIM), "--data MODULE:NAME"),
    (("audited_mechanisms:changes", *CLAIM), "changes its dataset"),
]  # fmt: skip


@pytest.mark.long
def test_mistakes_and_mechanisms_that_cannot_be_judged_are_exit_code_2(folder, run):
    for arguments, says in MISTAKES:
        refused(run("audit", *arguments), 2, says)
    assert not list(folder.glob("report*"))


@pytest.mark.long
def test_outputs_cannot_command_the_terminal(folder, run):
    done = run("audit", "audited_mechanisms:colours", "--epsilon", "1")
    assert done.exit_code == 1 and "\x1b" not in done.stdout


def test_stopped_by_hand_is_no_verdict(folder, run):
    done = run("audit", "audited_mechanisms:interrupted", "--epsilon", "1")
    assert done.exit_code == 130 and "no verdict" in done.stderr and done.stdout == ""


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
