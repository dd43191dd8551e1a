"""Settings of libraries that belong to the process change no number of ours, and ours change none of theirs."""

from __future__ import annotations

import ast
import decimal
import inspect
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import gmpy2
import numpy as np
import pytest

import sfumato
from sfumato import budget, noise, snapping, testing
from sfumato.exact.library_settings import Isolated, isolated, library_defaults

PACKAGE = Path(sfumato.__file__).parent
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


def test_draws_and_laws_are_the_same_bits_in_a_hostile_process():
    """Before, seeded Laplace noise of scale 1000 began with -3 in place of -31, or nothing ended."""
    assert computed("laws", "draws")["draws"][0].startswith("[-31, ")
    assert_same(["traps", "numpy", "decimal", "duckdb"], ["laws", "draws"])


@pytest.mark.long
@pytest.mark.parametrize("hostile", [["gmpy2", "numpy", "decimal", "locale", "duckdb"], ["traps"]], ids=str)
def test_every_number_is_the_same_with_libraries_set_otherwise(hostile):
    assert_same(hostile, PARTS)


# The one module that may use gmpy2, and what of it knows no context.
GMPY2 = "exact/outward_rounding.py"
WITHOUT_CONTEXT = {"context", "mpq", "mpz", "iroot", "pack", "unpack", "get_exp", "is_finite"}
WITHOUT_CONTEXT |= {"RoundDown", "RoundUp", "RoundToNearest"}
# What asks DuckDB's default connection, by whatever name; `connect` opens a database of its own.
OF_DUCKDB = {"connect", "Error", "DuckDBPyConnection", "DuckDBPyRelation", "__version__"}


WATCHED = re.compile(r"gmpy2|duckdb\.|seterr|printoptions|decimal|locale|context\(")


@cache
def modules():
    """The syntax trees of modules that name one of these libraries' settings."""
    texts = {
        p.relative_to(PACKAGE).as_posix(): p.read_text(encoding="utf-8")
        for p in sorted(PACKAGE.rglob("*.py"))
    }
    return {name: ast.parse(text) for name, text in texts.items() if WATCHED.search(text)}


def attributes_of(tree, module):
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == module
    }


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module)


@pytest.mark.long
def test_mpfr_is_used_in_one_module_and_there_in_contexts_of_ours():
    trees = modules()
    users = {name: tree for name, tree in trees.items() if "gmpy2" in set(imported(tree))}
    assert list(users) == [GMPY2]
    inside = {
        id(node)
        for block in ast.walk(trees[GMPY2])
        if isinstance(block, ast.With)
        for node in ast.walk(block)
        if any(ast.unparse(item.context_expr).startswith("gmpy2.context(") for item in block.items)
    }
    for node in ast.walk(trees[GMPY2]):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "gmpy2" and id(node) not in inside:
            assert node.attr in WITHOUT_CONTEXT, f"gmpy2.{node.attr} uses the caller's context"


@pytest.mark.long
def test_nobody_asks_duckdb_s_default_connection_or_changes_settings_of_a_library():
    for name, tree in modules().items():
        other = {
            a for a in attributes_of(tree, "duckdb") - OF_DUCKDB if not a.endswith(("Error", "Exception"))
        }
        assert not other, f"{name} uses duckdb.{other}"
        assert not attributes_of(tree, "np") & {"seterr", "seterrcall", "set_printoptions"}, name
        assert not attributes_of(tree, "decimal") & {"getcontext", "setcontext", "DefaultContext"}, name
        assert not attributes_of(tree, "gmpy2") & {"get_context", "set_context"}, name
        assert "locale" not in set(imported(tree)), name


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
