"""Quantiles by the names of their ranks: quantile, median, min and max."""

import pyarrow as pa
import pytest

import sfumato as sf

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


BOUNDED = "contribution_bounds_per_row => (0, 200)"


@pytest.mark.long
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
