"""Bad questions are refused before anything is read or drawn; docs/mistakes.md has what is said of each."""

import math
from fractions import Fraction

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.errors import BudgetError, ColumnError, ParameterError, QueryError
from sfumato.noise import laws as noise_law
from sfumato.plan.explanation import HIGH_DELTA, HIGH_EPSILON

ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "year": [2020, 2020, 2021],
        "city": [1, 2, 3],
        "name": ["a", "b", "c"],
        "income": [1.5, None, 2.5],
    }
)


@pytest.fixture
def people(monkeypatch):
    """A table that fails the test if a row is read or noise drawn."""

    def read(*_: object, **__: object):
        raise AssertionError("rows are read")

    def drawn(*_: object, **__: object):
        raise AssertionError("noise is drawn")

    monkeypatch.setattr(DuckDBEngine, "statistics", read)
    monkeypatch.setattr(noise_law.Law, "rounded", drawn)
    return Table(DuckDBEngine.open(ROWS), "id")


def asked(people, **bound):
    return people.group_by("year").bound(**({"groups": 1, "rows": 1} | bound)).agg(n=sf.count())


ODD = [math.nan, math.inf, "x", None, True, [1], 1j]
BOUNDS = [(2, 1), (1, 1), (0, -0.0), (0, math.nan), (-math.inf, 1), ("a", 1), (True, 5), (0, 2.0**1010), (None, 1), ([0], 1)]  # fmt: skip
# Of each kind of argument: how it is given, odd values of it, and the refusal.
ARGUMENTS = {
    "epsilon": (lambda t, v: asked(t).release(epsilon=v, delta=1e-6), [0, -1, "1e", *ODD], BudgetError),
    "delta": (lambda t, v: asked(t).release(epsilon=1, delta=v), [1, -1e-9, *ODD], BudgetError),
    "delta of private groups": (lambda t, v: asked(t).release(epsilon=1, delta=v), [0, 0.0], BudgetError),
    "delta of Gaussian noise": (
        lambda t, v: t.bound(rows=1).agg(n=sf.count()).release(epsilon=1, delta=v, noise="gaussian"),
        [0], BudgetError,
    ),
    "noise": (lambda t, v: asked(t).release(epsilon=1, delta=1e-6, noise=v), ["gauss", None], ParameterError),
    "group_selection": (
        lambda t, v: asked(t).release(epsilon=1, delta=1e-6, group_selection=v), ["magic"], ParameterError,
    ),
    "pre_threshold": (
        lambda t, v: asked(t).release(epsilon=1, delta=1e-6, pre_threshold=v), [0, 1.5], ParameterError,
    ),
    "unsafe_words": (
        lambda t, v: asked(t).release(epsilon=1, delta=1e-6, unsafe_words=v), [np.random.default_rng()], ParameterError,
    ),
    "groups": (lambda t, v: asked(t, groups=v), [0, -1, 2.5, "3", math.nan, Fraction(2)], ParameterError),
    "rows": (lambda t, v: asked(t, rows=v), [0, -1, 2.5, "3", math.nan, Fraction(2)], ParameterError),
    "bounds": (lambda t, v: sf.mean("city", lower=v[0], upper=v[1]), BOUNDS, QueryError),
    "ranks": (
        lambda t, v: sf.quantiles("income", v, lower=0, upper=1),
        [[], [0.5, 0.5], [-0.1], [1.1], [math.inf], "half", ["a"], True], QueryError,
    ),
    "column": (lambda t, v: sf.sum(v, lower=0, upper=1), [3, ["city"], b"city"], QueryError),
    "aggregate": (lambda t, v: t.agg(n=v), ["count(*)", len, None, 3], QueryError),
    "limits that are missing": (
        lambda t, v: v(t),
        [
            lambda t: t.group_by("year").bound(rows=1).agg(n=sf.count()),
            lambda t: t.group_by("year").bound(groups=1).agg(n=sf.count()),
            lambda t: t.agg(m=sf.mean("city", lower=0, upper=1)),
            lambda t: t.agg(v=sf.variance("city")), lambda t: sf.sum("city", upper=3),
            lambda t: t.bound(rows=1).agg(),
        ], QueryError,
    ),
    "key": (lambda t, v: t.group_by(*v), [["id"], ["yaer"], ["year", "year"], [3]], QueryError),
    "unit": (lambda t, v: v(t), [
        lambda t: t.with_columns(id="year"), lambda t: t.with_columns(ID="year"), lambda t: Table(t._engine, "idd"),
        lambda t: t.group_by("year").with_columns(year="1"),
    ], QueryError),
    "outputs of one name": (
        lambda t, v: t.group_by("year").bound(groups=1, rows=1).agg(**v),
        [{"Year": sf.count()}, {"n": sf.count(), "N": sf.count()},
         {"q_50": sf.count(), "q": sf.quantiles("income", [0.5], lower=0, upper=1)}], QueryError,
    ),
    "bounds of texts": (lambda t, v: t.bound(rows=1).agg(s=v("name", lower=0, upper=1)), [sf.sum, sf.stddev], ColumnError),
    "expression": (
        lambda t, v: t.filter(v),
        ["", None, 3, "city >", "city; SELECT 1", "/* x", "(SELECT 1)", "max(city) > 1", "city 3", "yaer > 1"], QueryError,
    ),
    "keys": (
        lambda t, v: t.group_by("year", keys=v),
        [[], 5, "2020", [2020, 2020], ["x"], [(2020, 1)], pa.table({"other": [1]}), [2020, "x"], [[2020]], {2020: 1},
         [2020.5], [2**200], [object()], np.array([[2020]]), pandas.DataFrame({"other": [2020]})], QueryError,
    ),
    "keys that are equal": (lambda t, v: t.group_by("income", keys=v), [[0.0, -0.0]], QueryError),
}  # fmt: skip


@pytest.mark.noise_cannot_matter("nothing is drawn")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_cannot_be_is_refused_before_anything_is_read_or_drawn(people, name):
    give, values, error = ARGUMENTS[name]
    for value in values:
        with pytest.raises(error):
            pytest.fail(f"{value!r} is taken: {give(people, value)}")


@pytest.mark.parametrize(
    "keys",
    [
        np.array([2020, 2021]), pa.chunked_array([[2020], [2021]]), pandas.Series(["2020", "2021"]).unique(),
        pandas.Index([2021, 2020]), pandas.Categorical([2020, 2021]), polars.DataFrame({"year": [2020, 2021]}),
        ["2020", "2021"],
    ],
    ids=lambda keys: type(keys).__module__,
)  # fmt: skip
def test_public_keys_may_be_columns_of_other_libraries(people, keys):
    assert people.group_by("year", keys=keys)._public_keys["year"].to_pylist() == [2020, 2021]


def test_a_tiny_epsilon_finds_a_rule_for_private_groups(people):
    """Where one rule of selection is impossible, `auto` takes another."""
    assert asked(people).plan(epsilon=1e-6, delta=1e-6).selection is not None


@pytest.mark.noise_cannot_matter("nothing is drawn")
@pytest.mark.parametrize(
    ("key", "epsilon", "delta", "said"),
    [
        ("name", HIGH_EPSILON, HIGH_DELTA, []),
        ("name", HIGH_EPSILON + Fraction(1, 10**9), "1e-6", ["epsilon 20 protects little"]),
        ("name", 1, HIGH_DELTA + Fraction(1, 10**9), ["delta 0.000100001 is large"]),
        ("income", 30, "0.01", ["epsilon 30 protects little", "delta 0.01 is large", "income has floats"]),
    ],
)
def test_risky_choices_are_told_and_no_others(people, key, epsilon, delta, said):
    question = people.group_by(key).bound(groups=1, rows=1).agg(n=sf.count())
    notes = question.plan(epsilon=epsilon, delta=delta).explain().to_dict()["notes"]
    risky = ("protects", "is large", "floats")
    assert [note.split(":")[0] for note in notes if any(word in note for word in risky)] == said
