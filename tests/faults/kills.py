"""Which test of a tier finds each seeded fault: `python tests/faults/kills.py first`, or `ci` for both tiers.

Each fault is made, and the test that its entry names runs as far as it is of the tier. Where none finds it, the tier
runs once with a copy of the source that writes down which test calls which function with such a fault, also in
programs and workers that tests start; then the quickest tests that call its function run until one fails. The
table is `kills.csv` beside this file. What the first tier finds, both find.
"""

import argparse
import ast
import csv
import functools
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TABLE = HERE / "kills.csv"
MARKS = {"first": "not long and not release", "ci": "not release"}
MOST = 150  # tests of one fault, the quickest ones
# Beside the source; it writes each pair of a test and a function once in each process.
RECORDER = """
import os
_known = set()


def reached(function):
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    if (test, function) not in _known:
        _known.add((test, function))
        if test:
            with open(os.path.join({folder!r}, str(os.getpid())), "a") as out:
                out.write(test + "\\t" + function + "\\n")
"""
CALL = "__import__('reached_functions').reached({name!r})"


def place(fault: Any) -> tuple[ast.Module, list[ast.AST]]:
    """Return the syntax of a fault's file, and the functions that the fault is in; all if it is in none."""
    from tests.faults.fault import SOURCE

    text = (SOURCE / fault.file).read_text()
    at = text.index(fault.old)
    first, last = text[:at].count("\n") + 1, text[: at + len(fault.old)].count("\n") + 1
    tree = ast.parse(text)
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    within = [one for one in functions if one.lineno <= last and first <= (one.end_lineno or 0)]
    return tree, list(within or functions)


def functions_of(fault: Any) -> set[str]:
    """Return names of the functions that a fault is in."""
    return {f"{fault.file}:{one.lineno}" for one in place(fault)[1]}  # type: ignore[attr-defined]


def instrumented(faults: list[Any], folder: Path, hits: Path) -> None:
    """Write a copy of the source whose functions with faults say that they are called."""
    from tests.faults.fault import SOURCE

    shutil.copytree(SOURCE, folder / "sfumato")
    (folder / "reached_functions.py").write_text(RECORDER.format(folder=str(hits)))
    marked = defaultdict(set)
    for fault in faults:
        marked[fault.file] |= {int(name.rpartition(":")[2]) for name in functions_of(fault)}
    for file, lines in marked.items():
        tree = ast.parse((SOURCE / file).read_text())
        for one in ast.walk(tree):
            if isinstance(one, ast.FunctionDef) and one.lineno in lines:
                documented = ast.get_docstring(one) is not None
                call = ast.parse(CALL.format(name=f"{file}:{one.lineno}")).body
                one.body[documented:documented] = call
        (folder / "sfumato" / file).write_text(ast.unparse(ast.fix_missing_locations(tree)))


def calls(faults: list[Any], tier: str, arguments: list[str]) -> tuple[dict[str, set[str]], dict[str, float]]:
    """Run a tier; return the tests that call each function, and the seconds that each test takes."""
    from tests.faults.run import ROOT

    with tempfile.TemporaryDirectory() as name:
        hits = Path(name) / "hits"
        hits.mkdir()
        instrumented(faults, Path(name), hits)
        command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal", "-m", MARKS[tier], "-vv",
                   "-p", "no:randomly", "--durations=0", "--tb=no", "-rN", *arguments]  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": name}, capture_output=True,
                              text=True, check=False)  # fmt: skip
        print(done.stdout.strip().rpartition("\n")[2], flush=True)
        timed = re.findall(r"^([\d.]+)s call +(.*)$", done.stdout, re.MULTILINE)
        passed = set(re.findall(r"PASSED (?:\[ *\d+%\] )?(\S.*?) *$", done.stdout, re.MULTILINE))
        lines = {line for file in hits.iterdir() for line in file.read_text().splitlines()}
    found = defaultdict(set)
    for line in lines:
        test, function = line.split("\t")
        if test in passed:
            found[function].add(test)
    return found, {test: float(seconds) for seconds, test in timed}


def killer(fault: Any, tier: str, tests: list[str]) -> str:
    """Return the first test that fails with a fault, or ""; in a process of its own."""
    import pytest

    from tests.faults import run

    parts = run.changed(fault)
    with redirect_stdout(io.StringIO()) as said, redirect_stderr(said):
        options = ["-x", "-m", MARKS[tier], *run.QUIET, "--rootdir", str(run.ROOT), "-c", "pyproject.toml"]
        if parts is None or fault.elsewhere:
            with run.source(fault):
                pytest.main([*options, *tests])
        else:
            run.swapped(parts, fault.file)
            pytest.main([*options, *tests])
    first = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", said.getvalue(), re.MULTILINE)
    return first[1] if first else ""


def main(arguments: list[str]) -> int:
    """Write the table, and return 1 if a fault is found by no test."""
    from tests.faults import run

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("tier", choices=MARKS)
    options.add_argument("paths", nargs="*", help="only these tests")
    options.add_argument("--workers", type=int, default=1)
    given = options.parse_args(arguments)
    os.chdir(run.ROOT)
    faults = [fault for fault in run.faults() if not fault.harmless]
    rows: dict[str, dict[str, str]] = {fault.name: {} for fault in faults}
    if TABLE.exists():
        with TABLE.open(newline="") as before:
            rows |= {row["fault"]: row for row in csv.DictReader(before) if row["fault"] in rows}
    kills = {name: own.get("first", "") for name, own in rows.items()} if given.tier == "ci" else {}
    run.prepare()

    def find(tests: dict[str, list[str]]) -> None:
        asked = [fault for fault in faults if tests.get(fault.name) and not kills.get(fault.name)]
        jobs = [functools.partial(killer, fault, given.tier, tests[fault.name]) for fault in asked]
        for fault, test in zip(asked, run.in_processes(jobs, given.workers), strict=True):
            if test and not test.startswith(("tests/", "docs/", "src/", "README")):
                print(f"{fault.name}: {test}", flush=True)  # of the runner, and no test's
            else:
                kills[fault.name] = test

    find({fault.name: [fault.found] for fault in faults if fault.tested})
    if missed := [fault for fault in faults if not kills.get(fault.name)]:
        print(f"{len(missed)} faults are not found by the tests that they name", flush=True)
        found, seconds = calls(missed, given.tier, given.paths)
        able = {f.name: set().union(*(found[name] for name in functions_of(f))) for f in missed}
        find({
            name: sorted(tests, key=lambda test: (seconds.get(test, 0), test))[:MOST]
            for name, tests in able.items()
        })  # fmt: skip
    with TABLE.open("w", newline="") as out:
        writer = csv.DictWriter(out, ["fault", "file", *MARKS], restval="", lineterminator="\n")
        writer.writeheader()
        for fault in faults:
            own = {"fault": fault.name, "file": fault.file, given.tier: kills.get(fault.name, "")}
            writer.writerow(rows[fault.name] | own)
    missed = [fault for fault in faults if not kills.get(fault.name)]
    for fault in missed:
        print(f"{fault.file}: {fault.name}")
    print(f"{len(faults) - len(missed)} of {len(faults)} faults are found by the tier")
    return int(bool(missed))


if __name__ == "__main__":
    from run import tests_are_here  # type: ignore[import-not-found]

    tests_are_here()
    sys.exit(main(sys.argv[1:]))
