"""Settings of libraries that belong to the process change no number of ours, and ours change none of theirs."""

import decimal
import inspect
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import gmpy2
import numpy as np
import pytest

from sfumato import budget, noise, snapping, testing
from sfumato.exact.library_settings import Isolated, isolated, library_defaults

SCRIPT = Path(__file__).parent / "hostile.py"
PARTS = ["laws", "draws", "tables", "tolerances", "accounting", "releases"]


@cache
def computed(*arguments):
    run = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def assert_same(hostile, parts):
    clean, other = computed(*parts), computed(*hostile, *parts)
    for part in parts:
        assert "Error" not in clean[part][-1]
        assert other[part] == clean[part], part


@pytest.mark.long
def test_draws_and_laws_are_the_same_bits_in_a_hostile_process():
    """Before, seeded Laplace noise of scale 1000 began with -3 in place of -31, or nothing ended."""
    assert computed("laws", "draws")["draws"][0].startswith("[-31, ")
    assert_same(["traps", "numpy", "decimal", "duckdb"], ["laws", "draws"])


@pytest.mark.long
@pytest.mark.parametrize("hostile", [["gmpy2", "numpy", "decimal", "locale", "duckdb"], ["traps"]], ids=str)
def test_every_number_is_the_same_with_libraries_set_otherwise(hostile):
    assert_same(hostile, PARTS)


# Public functions of these packages compute with floats; those below compute with none.
PLAIN = {"take", "history", "remaining", "spent", "total", "leak"}
OF_A_TEST = {"Account", "Interval", "RatioTolerance", "Recorder", "Probability"}
OF_A_TEST |= {"assert_private", "noise_free", "recording", "release_mechanism", "seeded_words"}


@pytest.mark.parametrize("package", [noise, budget, snapping, testing], ids=lambda package: package.__name__)
def test_what_a_caller_enters_runs_with_the_libraries_defaults(package):
    for name in package.__all__:
        value = getattr(package, name)
        if package is testing and name in OF_A_TEST:
            continue
        if inspect.isfunction(value):
            assert hasattr(value, "isolated"), name
        elif inspect.isclass(value) and value.__module__.startswith("sfumato."):
            for of in dir(value):
                found = inspect.getattr_static(value, of)
                found = found.fget if isinstance(found, property) else found
                if not of.startswith("_") and of not in PLAIN and inspect.isfunction(found):
                    assert hasattr(found, "isolated"), f"{name}.{of}"


def test_the_caller_s_settings_are_as_they_were():
    seen = []

    @isolated
    def look():
        seen.append((np.geterr()["under"], gmpy2.get_context().precision, decimal.getcontext().prec))
        with library_defaults():
            np.seterr(all="print")  # of somebody who is called back
        return sum(range(3))

    class Looks(Isolated):
        def __call__(self):
            return look()

        @property
        def here(self):
            return look()

    with np.errstate(all="raise"), gmpy2.context(precision=4), decimal.localcontext(prec=3):
        assert look() == Looks()() == Looks().here == 3
        assert set(np.geterr().values()) == {"raise"}
        assert gmpy2.get_context().precision == 4 and decimal.getcontext().prec == 3
        noise.Laplace(2).sf(1e9)
        assert set(np.geterr().values()) == {"raise"} and gmpy2.get_context().precision == 4
        with pytest.raises(ValueError, match="stop"):
            isolated(stop)()
        assert gmpy2.get_context().precision == 4
    assert seen == [("ignore", 53, 28)] * 3


def stop():
    raise ValueError("stop")
