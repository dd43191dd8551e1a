"""Survey weights from a table to a release: on every engine's common ground, and against plain NumPy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError

NOISES = ("k_norm", "laplace", "gaussian")


def survey(size: int = 600) -> pa.Table:
    rng = np.random.default_rng(8)
    return pa.table(
        {
            "id": np.arange(size),
            "region": rng.integers(0, 3, size),
            "w": rng.integers(1, 60, size).astype(float),
            "income": rng.normal(50, 30, size),
            "works": rng.random(size) < 0.4,
        }
    )


def asked(table: pa.Table) -> sf.Question:
    return (
        sf.scan(table, privacy_unit="id")
        .group_by("region", keys=[0, 1, 2])
        .bound(groups=1, rows=1)
        .agg(
            people=sf.count(weight="w", max_weight=50),
            total=sf.sum("income", lower=0, upper=100, weight="w", max_weight=50),
            mean=sf.mean("income", lower=0, upper=100, weight="w", max_weight=50),
            works=sf.proportion("works", weight="w", max_weight=50),
        )
    )


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.flakiness(k=30, because="noise of deviation 0.08 or less against 2, at epsilon 1,000,000")
def test_estimates_are_those_of_survey_statistics(noise):
    table = survey()
    found = asked(table).release(epsilon=10**6, delta=1e-6, noise=noise).to_arrow().to_pylist()
    region, w, x, works = (table[c].to_numpy() for c in ("region", "w", "income", "works"))
    w, x = np.minimum(w, 50), x.clip(0, 100)  # trimmed, and clamped
    for row in found:
        own = region == row["region"]
        assert row["people"] == pytest.approx(w[own].sum(), abs=2)
        assert row["total"] == pytest.approx((w * x)[own].sum(), abs=200)
        assert row["mean"] == pytest.approx(np.average(x[own], weights=w[own]), abs=0.2)
        assert row["works"] == pytest.approx(np.average(works[own], weights=w[own]), abs=0.02)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.flakiness(k=14, because="bars at 1 - 1e-16 for each of 12 numbers")
def test_error_bars_hold_the_exact_numbers(noise):
    table = survey()
    release = asked(table).release(epsilon=1, delta=1e-6, noise=noise)
    exact = asked(table).release(epsilon=10**6, delta=1e-6, noise="laplace").to_arrow().to_pylist()
    bars = release.errors(confidence=1 - 1e-16).to_pylist()
    for row, bar, true in zip(release.to_arrow().to_pylist(), bars, exact, strict=True):
        for name in ("people", "total", "mean", "works"):
            assert abs(row[name] - true[name]) <= bar[name] + 1e-2 * max(1, abs(true[name])) ** 0.5, name


def test_weights_alone_and_a_weighted_mean_need_no_other_number():
    plan = sf.scan(survey(), privacy_unit="id").bound(rows=1)
    mean = sf.mean("income", lower=0, upper=100, weight="w", max_weight=50)
    assert len(plan.agg(m=mean).plan(epsilon=1, noise="k_norm").requirements.coordinates) == 2
    both = plan.agg(n=sf.count("income", weight="w", max_weight=50), m=mean)
    assert len(both.plan(epsilon=1, noise="k_norm").requirements.coordinates) == 2


@pytest.mark.noise_cannot_matter("no noise is drawn")
def test_odd_weights_count_for_nothing_or_are_trimmed():
    odd = pa.table(
        {"id": range(7), "w": [None, float("nan"), -1.0, float("inf"), 1e300, 2.0, -0.0], "x": [1.0] * 7}
    )
    question = sf.scan(odd, privacy_unit="id").bound(rows=1).agg(n=sf.count(weight="w", max_weight=3))
    plan = question.plan(epsilon=1)
    (batch,) = question.table._engine.statistics(plan.exact, 10)
    (counted,) = plan.requirements.statistics
    steps = int(batch.column(counted.names[0])[0].as_py())
    assert steps * counted.weights.step == 8


def test_a_unit_counts_whole_and_says_so():
    table = sf.scan(survey(), privacy_unit="id").group_by("region", keys=[0, 1, 2])
    asked = {"n": sf.count(weight="w", max_weight=5)}
    with pytest.raises(QueryError, match="counts in part, which n cannot"):
        table.bound(groups=1, rows=1, beyond="scale").agg(**asked).plan(epsilon=1)
    assert not table.bound(groups=1, rows=1).agg(**asked).query.scaled


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"weight": "w"}, "max_weight is missing"),
        ({"max_weight": 3}, "weight is missing"),
        ({"weight": 3, "max_weight": 3}, "must be a column's name"),
        ({"weight": "w", "max_weight": 3, "per": "unit"}, "of each row"),
    ],
)
def test_what_is_missing_is_said(given, says):
    with pytest.raises(QueryError, match=says):
        sf.sum("x", lower=0, upper=1, **given)
