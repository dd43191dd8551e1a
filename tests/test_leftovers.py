"""A test that changes a setting of the whole process is found where it stands, not where it does harm."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.long


DEFECTS = {
    "mpmath.mp.prec": "mpmath.mp.dps = 60",
    "mpmath.iv.prec": "mpmath.iv.prec = 100",
    "gmpy2.get_context()": "gmpy2.get_context().precision = 100",
    "gmpy2.get_context(), round": "gmpy2.set_context(gmpy2.context(round=gmpy2.RoundUp))",
    "decimal.getcontext()": "decimal.getcontext().prec = 5",
    "decimal.getcontext(), traps": "decimal.getcontext().traps[decimal.Inexact] = True",
    "numpy.geterr()": "numpy.seterr(all='raise')",
    "numpy.get_printoptions()": "numpy.set_printoptions(precision=2)",
    "os.getcwd()": "os.chdir('/')",
    "os.environ, OMP_NUM_THREADS": "os.environ['OMP_NUM_THREADS'] = '3'",
    "os.environ, HOME": "del os.environ['HOME']",
    "sys.path": "sys.path.append('/nowhere')",
    "sys.getrecursionlimit()": "sys.setrecursionlimit(5000)",
    "sys.getswitchinterval()": "sys.setswitchinterval(1)",
    "locale.setlocale(LC_ALL)": "locale.setlocale(locale.LC_ALL, 'C.UTF-8' if locale.setlocale(locale.LC_ALL) == 'C' else 'C')",
    "logging.disable": "logging.disable(logging.WARNING)",
    "matplotlib.rcParams, font.size": "matplotlib.rcParams['font.size'] = 30",
}
START = "import decimal, locale, logging, os, sys\nimport gmpy2, matplotlib, mpmath, numpy\n"
LOCAL = """
def test_back_again(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.syspath_prepend(tmp_path)
    with mpmath.workdps(60), gmpy2.context(precision=100), decimal.localcontext(), numpy.errstate(all="raise"):
        decimal.getcontext().prec = 5
        mpmath.sqrt(2), gmpy2.sqrt(2), decimal.Decimal(2).sqrt(), numpy.sqrt(2)
def test_computing_sets_no_setting():
    mpmath.sqrt(2), gmpy2.sqrt(2), decimal.Decimal(2).sqrt(), numpy.sqrt(2)
"""


@pytest.fixture
def run(pytester):
    """Run tests inside, in a process of their own, with the conftest of this checkout."""
    pytester.makeconftest((Path(__file__).parents[1] / "conftest.py").read_text())

    def run(source: str, *options: str):
        pytester.makepyfile(START + source)
        quiet = ("-p", "no:cacheprovider", "-p", "no:randomly", "-W", "error")
        return pytester.runpytest_subprocess(*quiet, *options)

    return run


def test_each_leftover_is_told_and_charged_to_the_test_that_leaves_it(run):
    tests = "".join(
        f"def test_{i}():\n    {text}\ndef test_innocent_{i}():\n    pass\n"
        for i, text in enumerate(DEFECTS.values())
    )
    result = run(LOCAL + tests)
    result.assert_outcomes(passed=2 * len(DEFECTS) + 2, errors=len(DEFECTS))
    told = re.split(r"^_+ ERROR at teardown of test_(\d+) _+$", result.stdout.str(), flags=re.M)[1:]
    found = dict(zip(map(int, told[::2]), told[1::2], strict=True))
    assert sorted(found) == list(range(len(DEFECTS)))
    for i, name in enumerate(DEFECTS):
        assert f"  {name}" in found[i]


@pytest.mark.parametrize("processes", [(), ("-n", "2")], ids=["one process", "two"])
def test_temporary_files_end_with_the_run(pytester, run, monkeypatch, processes):
    outside = pytester.mkdir("temporary")
    monkeypatch.setenv("TMPDIR", str(outside))
    making = "import subprocess, tempfile\ndef test_left():\n    tempfile.mkdtemp()\n    "
    result = run(making + "assert subprocess.run(['mktemp', '-d']).returncode == 0\n", *processes)
    result.assert_outcomes(passed=1)
    assert list(outside.iterdir()) == []
    # As it would be without the folder of the run.
    pytester.makeconftest("")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *processes)
    result.assert_outcomes(passed=1)
    assert len(list(outside.iterdir())) >= 2
