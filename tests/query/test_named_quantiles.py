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
