"""`sfumato audit`: verdicts as exit codes, reports as files, and errors that say what to write instead."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from rich.console import Console

from sfumato.audit import HistogramMethod, Progress
from sfumato.cli.main import app
from sfumato.cli.terminal import Meter

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


def many_pairs():
    return [([float(i) for i in range(300)], [])]


def raising(dataset):
    raise ValueError("no")


def without_a_dataset():
    return 0.0


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


def test_nothing_found_is_exit_code_0(folder, run):
    options = ("--epsilon", "1", "--alpha", "1e-10", "--max-samples", "3000")
    done = run("audit", "audited_mechanisms:noisy_sum", *options)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("nothing found against noisy_sum with epsilon = 1; that is no proof")
    assert "3,000 draws a side on 48 pairs" in done.stdout


def test_reports_are_written(folder, run):
    paths = [str(folder / f"report.{ending}") for ending in ("html", "json", "txt")]
    outputs = [word for path in paths for word in ("--output", path)]
    done = run("audit", "audited_mechanisms:single", "--epsilon", "1", *outputs)
    assert done.exit_code == 1, done.output
    assert f"Wrote {', '.join(paths)}." in done.stdout
    told = json.loads((folder / "report.json").read_text())
    assert told["violated"] and dict(told["settings"])["neighbors"] == "add-remove"
    assert (folder / "report.txt").read_text() in done.stdout
    assert (folder / "report.html").read_text().startswith("<!doctype html>")


def test_large_datasets_do_not_fill_the_screen(folder, run):
    named = ("audited_mechanisms:half_noise", "--epsilon", "0.01", "--pairs", "audited_mechanisms:many_pairs")
    done = run("audit", *named, "--output", "report.txt")
    assert done.exit_code == 1, done.output
    assert (
        max(map(len, done.stdout.splitlines())) < 300 and "write them with --output report.txt" in done.stdout
    )
    assert "299.0" in (folder / "report.txt").read_text()


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "claim"),
    [
        (("--epsilon", "1/4", "--delta", "1e-6"), "epsilon = 0.25, delta = 1e-06"),
        (("--zcdp", "0.02"), "zCDP with rho = 0.02"),
        (("--gaussian", "0.1"), "Gaussian DP with mu = 0.1"),
        (("--epsilon", "0.25", "--neighbors", "change-one"), "epsilon = 0.25"),
        (("--epsilon", "0.25", "--data", "audited_mechanisms:datasets"), "epsilon = 0.25"),
        (("--epsilon", "0.25", "--data", "sfumato.audit:numbers", "--seconds", "30"), "epsilon = 0.25"),
        (("--epsilon", "0.25", "--method", "histogram"), "epsilon = 0.25"),
    ],
)
def test_claims_datasets_and_methods(folder, run, options, claim):
    done = run("audit", "audited_mechanisms:half_noise", *options)
    assert done.exit_code == 1, done.output
    assert claim in done.stdout
    assert ("histogram" in options) == ("no exact rate" in done.stdout)


def test_all_options_of_the_histogram_method(folder, run):
    """Each that the class has is on the command, and reaches it."""
    given = {
        "datasets": "4",
        "size": "2",
        "samples": "900",
        "buckets": "30",
        "confidence": "0.9",
        "tolerated-buckets": "0.5",
        "tolerated-edges": "0.25",
    }
    assert {name.replace("-", "_") for name in given} == {f.name for f in fields(HistogramMethod)}
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    claim = ("audited_mechanisms:noisy_sum", "--epsilon", "1", "--method", "histogram")
    done = run("audit", *claim, *options, "--output", "report.json")
    assert done.exit_code == 0, done.output
    told = json.loads((folder / "report.json").read_text())
    settings = dict(told["settings"])
    assert settings["datasets"] == "4" and len(told["edges"]) == 4 * 4
    assert {samples for _, samples in told["edges"]} == {900}
    shown = {f"method.{name.replace('-', '_')}": value for name, value in given.items()}
    assert (
        settings.items() >= {n: v for n, v in shown.items() if n in settings}.items() and len(settings) == 9
    )


def test_the_confidence_of_what_is_told(folder, run):
    options = ("--epsilon", "1", "--max-samples", "300", "--confidence", "0.75")
    done = run("audit", "audited_mechanisms:noisy_sum", *options)
    assert "with 0.75 confidence" in done.stdout and "0.95" not in done.stdout


HALF = ("audited_mechanisms:half_noise", "--epsilon", "1")
MISTAKES = {
    "no claim": (("audited_mechanisms:half_noise",), "missing; write one of --epsilon 1"),
    "two claims": ((*HALF, "--zcdp", "1"), "2 times, by --epsilon and --zcdp"),
    "a delta alone": (
        ("audited_mechanisms:half_noise", "--zcdp", "1", "--delta", "0"),
        "belongs to --epsilon",
    ),
    "no number": (
        ("audited_mechanisms:half_noise", "--epsilon", "much"),
        "'much', but must be a finite number",
    ),
    "alpha": ((*HALF, "--alpha", "2"), "between 0 and 1"),
    "method": ((*HALF, "--method", "guess"), "betting or histogram"),
    "an option of the other method": (
        (*HALF, "--tolerated-edges", "0.1"),
        "--tolerated-edges belongs to --method histogram",
    ),
    "Halton datasets beside others": (
        (*HALF, "--method", "histogram", "--size", "2", "--pairs", "audited_mechanisms:pairs"),
        "--size is of the Halton datasets",
    ),
    "a share of all": (
        (*HALF, "--method", "histogram", "--tolerated-buckets", "1"),
        "tolerated_buckets is 1.0",
    ),
    "neighbors": ((*HALF, "--neighbors", "all"), "'add-remove'"),
    "samples": ((*HALF, "--max-samples", "0"), "max_samples"),
    "no colon": (("audited_mechanisms", "--epsilon", "1"), "must be package.module:name"),
    "a path": (("./audited_mechanisms.py:half_noise", "--epsilon", "1"), "audited_mechanisms:half_noise"),
    "no module": (("audited_mechanism:f", "--epsilon", "1"), "did you mean 'audited_mechanisms'?"),
    "no submodule": (("sfumato.audt:f", "--epsilon", "1"), "did you mean 'sfumato.audit'?"),
    "no package": (("math.x:f", "--epsilon", "1"), "'math' is a module, not a package"),
    "no name": (
        ("audited_mechanisms:half_nose", "--epsilon", "1"),
        "did you mean 'half_noise'? It defines: ",
    ),
    "no name like it": (("math:zzz", "--epsilon", "1"), "the module 'math' has no 'zzz'"),
    "no name, and no hint": (
        ("audited_mechanisms:zzz", "--epsilon", "1"),
        "has no 'zzz'. It defines: ",
    ),
    "an odd object": (("audited_mechanisms:odd.zzz", "--epsilon", "1"), "the Odd has no 'zzz'"),
    "an odd attribute": (
        ("audited_mechanisms:odd.gone", "--epsilon", "1"),
        "audited_mechanisms:odd.gone cannot be read: OSError: no server",
    ),
    "a pipe for a file": ((*HALF, "--output", "pipe.html"), "the name of a plain file"),
    "a folder for a file": ((*HALF, "--output", "folder.html"), "not of a folder"),
    "not callable": (("audited_mechanisms:steps", "--epsilon", "1"), "of type int, which cannot be called"),
    "a module within": (("broken_mechanisms:f", "--epsilon", "1"), "broken_mechanisms.py, line 2"),
    "a script": (("leaving_mechanisms:f", "--epsilon", "1"), "SystemExit: 3"),
    "no list": (
        (*HALF, "--data", "audited_mechanisms:steps"),
        "--data: audited_mechanisms:steps gives an int",
    ),
    "no pairs": ((*HALF, "--pairs", "audited_mechanisms:datasets"), "a pair (dataset, neighbour)"),
    "a list that fails": ((*HALF, "--data", "audited_mechanisms:failing"), "failing() failed: OSError: gone"),
    "ending": ((*HALF, "--output", "report.pdf"), "ends in .html, .json or .txt"),
    "folder": ((*HALF, "--output", "nowhere/report.html"), "in a folder that exists"),
    "one file twice": ((*HALF, "-o", "r.html", "-o", "./r.html"), "a file is named twice"),
    "a wrong number of outputs": (("audited_mechanisms:too_few", "--epsilon", "1"), "returned 1"),
    "a mechanism of nothing": (
        ("audited_mechanisms:without_a_dataset", "--epsilon", "1"),
        "'without_a_dataset()', but must be callable as mechanism(dataset, size) or mechanism(dataset)",
    ),
    "nothing but errors": (("audited_mechanisms:raising", "--epsilon", "1"), "--data MODULE:NAME"),
    "a changed dataset": (("audited_mechanisms:changes", "--epsilon", "1"), "changes its dataset"),
}


@pytest.mark.long
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_and_mechanisms_that_cannot_be_judged_are_exit_code_2(folder, run, mistake):
    arguments, told = MISTAKES[mistake]
    done = run("audit", *arguments)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("error: ") and told in done.stderr
    assert done.stdout == "" and not list(folder.glob("report*"))


def test_a_file_that_cannot_be_written_does_not_cost_the_verdict(folder, run, monkeypatch):
    def gone(*_):
        raise OSError(2, "No such file or directory", "report.html")

    monkeypatch.setattr("sfumato.audit.report.replacing", gone)
    done = run("audit", *HALF, "--output", "report.html")
    assert done.exit_code == 2
    assert done.stdout.startswith("VIOLATED") and "report.html: No such file" in done.stderr


def test_outputs_cannot_command_the_terminal(folder, run):
    done = run("audit", "audited_mechanisms:colours", "--epsilon", "1")
    assert done.exit_code == 1 and "\x1b" not in done.stdout


def test_stopped_by_hand_is_no_verdict(folder, run):
    done = run("audit", "audited_mechanisms:interrupted", "--epsilon", "1")
    assert done.exit_code == 130 and "no verdict" in done.stderr and done.stdout == ""


@pytest.mark.long
def test_in_a_process_of_its_own(folder):
    """The console script does not have the current folder on its path."""
    code = "import sys; sys.path.remove(''); from sfumato.cli.main import app; app()"
    done = subprocess.run(
        [sys.executable, "-c", code, "audit", *HALF], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("VIOLATED")


def test_help_is_quick():
    """No heavy package is loaded for it."""
    code = (
        "import sys\nfrom sfumato.cli.main import app\n"
        "try: app(['audit', '--help'], prog_name='sfumato')\nexcept SystemExit as e: assert not e.code\n"
        "assert not {'numpy', 'scipy', 'gmpy2', 'sfumato.audit'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    options = "epsilon delta zcdp gaussian alpha neighbors method seconds max-samples data pairs output"
    for option in options.split(" "):
        assert f"--{option}" in done.stdout


@pytest.mark.flakiness(
    k=30,
    because="the bet's wealth grows steadily, and is at its goal after some thousand of the draws that it has",
)
def test_the_example_of_the_docs(folder, run):
    """The module and the command of docs/cli.md; its noise comes from the operating system."""
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    section = page.partition("## Audit a mechanism")[2]
    blocks = [
        textwrap.dedent(b) for b in re.findall(r"(?:^    .*\n|^\n)+", section, re.MULTILINE) if b.strip()
    ]
    module, shell = blocks[0], blocks[1].strip().splitlines()
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


def test_the_options_of_the_docs_are_those_of_the_command():
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    table = page.partition("## Audit a mechanism")[2].partition("exit code")[0]
    told = {
        o for line in table.splitlines() if line.startswith("| `-") for o in re.findall(r"`(--[\w-]+)", line)
    }
    command = typer.main.get_command(app).commands["audit"]
    assert told == {o for p in command.params for o in p.opts if o.startswith("--")} - {"--help"}


# Live progress.


def progress(seconds, wealth=2.0, edge="pair\x1b[31m"):
    return Progress(1234, 5000, seconds, 60.0, wealth, 6.0, edge)


def shown(*moments, bets=True, terminal=True):
    console = Console(
        file=io.StringIO(), force_terminal=terminal, width=80, color_system=None, _environ={"TERM": "xterm"}
    )
    with Meter(bets, console) as meter:
        for moment in moments:
            meter(moment)
    return console.file.getvalue()


def test_progress_shows_draws_wealth_and_pair():
    text = shown(progress(1.0))
    assert "1,234 of 5,000, 1 of 60 s" in text and "10^2.0 of 10^6.0" in text
    assert r"pair\x1b[31m" in text
    # 8 of 24 cells of the bar: log10 wealth is a third of what is needed
    assert any(line.count("━") == 8 for line in text.splitlines() if "wealth" in line)


def test_quick_audits_and_pipes_show_nothing():
    assert shown(progress(0.3)) == ""
    assert shown(progress(1.0), terminal=False) == ""


def test_progress_is_not_drawn_with_each_batch():
    assert shown(*(progress(1.0 + i / 1000) for i in range(50))).count("1,234") <= 2


def test_the_histogram_method_shows_no_wealth():
    text = shown(progress(1.0), bets=False)
    assert "1,234" in text and "wealth" not in text


def test_wealth_beyond_its_ends():
    assert "10^0.0" in shown(progress(1.0, -0.01)) and "10^9.0" in shown(progress(1.0, 9.0))
