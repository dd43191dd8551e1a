"""Quantiles by the names of their ranks: quantile, median, min and max."""

from fractions import Fraction

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.dialect import parse
from sfumato.errors import ParameterError, QueryError, SqlError
from sfumato.query.aggregates import Quantiles, Unbounded

BOUNDS = {"lower": 0, "upper": 200}
NAMED = {
    "quantile": (sf.quantile("x", 0.9, **BOUNDS), 0.9),
    "median": (sf.median("x", **BOUNDS), 0.5),
    "min": (sf.min("x", **BOUNDS), 0.01),
    "max": (sf.max("x", **BOUNDS), 0.99),
}


def table(values):
    return sf.scan(pa.table({"id": range(len(values)), "x": values}), privacy_unit="id").bound(rows=1)


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "k_norm"])
@pytest.mark.parametrize("name", NAMED)
def test_they_are_quantiles_of_one_rank(name, noise):
    aggregate, rank = NAMED[name]
    asked = table([float(i % 100) for i in range(20_000)])
    plan, same = (
        asked.agg(a=a).plan(epsilon=1, delta="1e-6" if noise == "gaussian" else 0, noise=noise)
        for a in (aggregate, sf.quantiles("x", rank, **BOUNDS))
    )
    assert plan.exact == same.exact and plan.loss == same.loss and plan.scales == same.scales
    content = plan.explain().to_dict()
    assert content["outputs"]["a"]["rank"] == rank
    notes = [note for note in content["notes"] if note.startswith("a: ")]
    assert notes == [note for note in [aggregate.note("a")] if note]
    assert bool(notes) == (name in ("min", "max"))


def test_what_stands_for_the_largest_value_is_said():
    note = sf.max("x", **BOUNDS).note("pay")
    assert (
        note is not None
        and note.startswith("pay: ")
        and "rank 0.99" in note
        and "99% of the values are at most" in note
    )
    note = sf.min("x", **BOUNDS).note("pay")
    assert note is not None and "rank 0.01" in note and "99% of the values are at least" in note
    assert sf.median("x", **BOUNDS).note("pay") is None


@pytest.mark.flakiness(
    k=20, because="200 rows are more than 100 scales of the noise of each of some 100 counts"
)
def test_answers_lie_where_they_say():
    """At epsilon 100 of 20,000 rows noise moves a rank by less than a hundredth."""
    asked = table([float(i % 100) for i in range(20_000)])
    (row,) = (
        asked.agg(**{name: a for name, (a, _) in NAMED.items()}).release(epsilon=100).to_arrow().to_pylist()
    )
    for name, (_, rank) in NAMED.items():
        assert abs(row[name] - 100 * rank) <= 2, name


def test_bounds_may_be_those_of_a_catalog():
    left = sf.max("x", error_bars=False)
    assert isinstance(left, Unbounded)
    assert left.bounded(Fraction(0), Fraction(9)) == sf.max("x", lower=0, upper=9, error_bars=False)
    catalog = sf.catalog(
        {"tables": {"t": {"source": pa.table({"id": [1, 2], "x": [1.0, 2.0]}), "privacy_unit": "id",
                          "columns": {"x": {"lower": 0, "upper": 9}}}}}
    )  # fmt: skip
    question = catalog.table("t").bound(rows=1).agg(a=sf.max("x"), b=sf.median("x"), c=sf.quantile("x", 0.9))
    found = [a for _, a in question.plan(epsilon=1).query.aggregates]
    assert [(a.ranks, a.called, a.upper) for a in found if isinstance(a, Quantiles)] == [
        ((0.99,), "max", 9), ((0.5,), "", 9), ((0.9,), "", 9),
    ]  # fmt: skip


@pytest.mark.parametrize("function", [sf.median, sf.min, sf.max])
def test_mistakes_are_named(function):
    with pytest.raises(QueryError, match=rf"{function.__name__}.*upper missing"):
        function("x", lower=0)
    with pytest.raises(QueryError, match=f"{function.__name__}: the column is 3"):
        function(3, **BOUNDS)
    with pytest.raises(ParameterError, match="error_bars"):
        function("x", **BOUNDS, error_bars="no")


@pytest.mark.parametrize("rank", [1.5, -0.1, float("nan"), "half", [0.5], None, True])
def test_a_quantile_has_one_rank(rank):
    with pytest.raises(ParameterError, match=r"^rank\b.*a number in \[0, 1\]"):
        sf.quantile("x", rank, **BOUNDS)


def test_what_to_write_has_the_rank():
    with pytest.raises(QueryError, match=r"quantile\('x', 0.9, lower=..., upper=...\)"):
        sf.quantile("x", 0.9, lower=0)
    with pytest.raises(QueryError, match=r"quantiles\('x', \[0.1, 0.9\], lower=..., upper=...\)"):
        table([1.0]).agg(a=sf.quantiles("x", [0.1, 0.9]))


BOUNDED = "contribution_bounds_per_row => (0, 200)"


@pytest.mark.parametrize(
    ("call", "name", "aggregate"),
    [
        (f"MIN(x, {BOUNDED})", "min_x", sf.min("x", **BOUNDS)),
        (f"max(x, {BOUNDED}, error_bars => FALSE)", "max_x", sf.max("x", **BOUNDS, error_bars=False)),
        (f"MEDIAN(x, {BOUNDED})", "median_x", sf.median("x", **BOUNDS)),
    ],
)
def test_sql_has_them(call, name, aggregate):
    asked = parse(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 5, privacy_unit_column = id, "
        f"max_rows_per_group = 1) {call} FROM 'rows.parquet'"
    )
    assert asked.aggregates == ((name, aggregate),)


@pytest.mark.flakiness(k=100, because="a row, and ten rows of 150, are more than 10^4 scales of the noise")
def test_sql_takes_the_largest_of_released_groups_and_of_a_units_rows_as_before():
    rows = pa.table(
        {"id": range(300), "g": [i % 2 for i in range(300)], "x": [float(i % 10) for i in range(300)]}
    )
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6, delta = 1e-6, privacy_unit_column = id) "
        f"g, MAX(x, {BOUNDED}) AS hi, MAX(COUNT(*)) OVER () AS n "
        "FROM (SELECT id, g, max(x) AS x FROM rows GROUP BY id, g) GROUP BY g ORDER BY g"
    )
    found = sf.sql(text, tables={"rows": rows}).to_arrow().to_pydict()
    assert found["n"] == [150, 150] and found["hi"] == pytest.approx([8, 9], abs=0.01)


def test_the_older_sql_names_what_it_has():
    with pytest.raises(SqlError, match="write ANON_PERCENTILE_CONT"):
        parse(
            "SELECT WITH ANONYMIZATION OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id) "
            "MAX(x CLAMPED BETWEEN 0 AND 1) FROM 'rows.parquet'"
        )
