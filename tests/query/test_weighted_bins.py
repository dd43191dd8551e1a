"""Histograms and counts of values with survey weights: what they are, error bars, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ColumnError, ParameterError, QueryError
from sfumato.guidance.simulated_groups import simulated_rows
from sfumato.testing import assert_approx_equal

N, inf = 600, float("inf")
DATA = pa.table(
    {
        "id": [i // 2 for i in range(N)],
        "group": [i % 2 for i in range(N)],
        "age": [None if i % 10 == 9 else float(i % 90) for i in range(N)],
        "size": [["s", "m", None][i % 3] for i in range(N)],
        "w": [None if i % 11 == 10 else 0.5 + i % 7 for i in range(N)],
        "k": [i % 5 for i in range(N)],
    }
)
PEOPLE = sf.scan(DATA, privacy_unit="id").bound(rows=2)
EDGES = [0, 18, 65]
W = {"weight": "w", "max_weight": 4}
K = {"weight": "k", "max_weight": 3}


def by_numpy(weight: str, most: float, masks: list[np.ndarray]) -> list[float]:
    w = np.clip(np.nan_to_num(DATA[weight].to_numpy().astype(float)), 0, most)
    return [float(w[mask].sum()) for mask in masks]


AGE = DATA["age"].to_numpy()
AGES = [AGE < 0, (AGE >= 0) & (AGE < 18), (AGE >= 18) & (AGE <= 65), AGE > 65]
SIZE = np.array(DATA["size"].to_pylist(), object)


@pytest.mark.flakiness(k=100, because="noise of scale 1e-3 or less against 0.5")
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_bins_are_expansion_totals_and_shares_are_theirs(noise):
    asked = PEOPLE.agg(
        age=sf.histogram("age", EDGES, outside="count", **W),
        part=sf.histogram("age", EDGES, outside="count", shares=True, **W),
        size=sf.value_counts("size", ["s", "m"], **K),
        unit=sf.value_counts("size", ["s", "m"], per="unit", **K),
    )
    row = asked.release(epsilon=10**5, delta=1e-6, noise=noise).to_arrow().to_pylist()[0]
    totals = by_numpy("w", 4, AGES)
    suffixes = ("under_0", "0_18", "18_65", "over_65")
    for suffix, total in zip(suffixes, totals, strict=True):
        assert row[f"age_{suffix}"] == pytest.approx(total, abs=0.5)
        assert row[f"part_{suffix}"] == pytest.approx(total / sum(totals), abs=1e-3)
    sizes = by_numpy("k", 3, [SIZE == "s", SIZE == "m"])
    assert [row["size_s"], row["size_m"]] == pytest.approx(sizes, abs=0.5)
    assert [row["unit_s"], row["unit_m"]] == pytest.approx([x / 2 for x in sizes], abs=0.5)


def test_noise_is_that_of_one_number_of_the_largest_weight():
    few, many = (PEOPLE.agg(x=sf.histogram("age", range(n), **W)).plan(epsilon=1) for n in (3, 300))
    for plan in (few, many):
        assert {plan.scales[c.name] * c.step for c in plan.requirements.coordinates} == {8}  # 2 rows of 4
    unit = PEOPLE.agg(x=sf.histogram("age", EDGES, per="unit", **W)).plan(epsilon=1)
    assert {unit.scales[c.name] * c.step for c in unit.requirements.coordinates} == {4}
    assert set(few.requirements.estimates[0].coordinates) == {"age#1.bin0"}


def test_the_same_bins_with_the_same_weights_are_measured_once():
    both = PEOPLE.agg(x=sf.histogram("age", EDGES, **W), y=sf.histogram("age", EDGES, shares=True, **W))
    assert len(both.plan(epsilon=1).requirements.coordinates) == 2
    for other in ({}, K, {**W, "max_weight": 5}, {**W, "per": "unit"}):
        apart = PEOPLE.agg(x=sf.histogram("age", EDGES, **W), y=sf.histogram("age", EDGES, **other))
        assert len(apart.plan(epsilon=1).requirements.coordinates) == 4, other


@pytest.mark.flakiness(k=14, because="fourteen tolerances that fail once in 10^16 releases")
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_releases_are_judged_by_their_noise(noise):
    asked = PEOPLE.agg(
        x=sf.histogram("age", EDGES, **W),
        share=sf.histogram("age", EDGES, shares=True, **W),
        u=sf.value_counts("size", ["s", "m"], per="unit", **K),
    )
    release = asked.release(epsilon=1, delta=1e-6, noise=noise)
    young, middle = by_numpy("w", 4, AGES[1:3])
    s, m = by_numpy("k", 3, [SIZE == "s", SIZE == "m"])
    truth = {
        "x_0_18": young, "x_18_65": middle, "u_s": s / 2, "u_m": m / 2,
        "share_0_18": young / (young + middle), "share_18_65": middle / (young + middle),
    }  # fmt: skip
    assert_approx_equal(release, truth, k=16)
    for name, value in truth.items():
        with pytest.raises(AssertionError):
            assert_approx_equal(release, truth | {name: value + 10**6}, k=16)


@pytest.mark.flakiness(k=100, because="noise of scale 1e-3 against 1")
def test_in_groups_and_with_a_limit_of_rows_over_all():
    scan = sf.scan(DATA, privacy_unit="id")
    asked = {"x": sf.value_counts("size", ["s", "m"], **K)}
    expected = [
        by_numpy("k", 3, [(s == SIZE) & (DATA["group"].to_numpy() == g) for s in "sm"]) for g in (0, 1)
    ]
    for table in (
        scan.group_by("group", keys=[0, 1]).bound(groups=2, rows=1),
        scan.group_by("group").bound(groups=2, rows=1),
        scan.group_by("group", keys=[0, 1]).bound(total_rows=2),
    ):
        rows = table.agg(**asked).release(epsilon=10**5, delta=1e-6).to_arrow().to_pylist()
        assert [[row["x_s"], row["x_m"]] for row in rows] == [pytest.approx(x, abs=1) for x in expected]


@pytest.mark.noise_cannot_matter("no noise is drawn")
def test_odd_weights_count_for_nothing_or_are_trimmed():
    odd = pa.table(
        {"id": range(7), "w": [None, float("nan"), -1.0, float("inf"), 1e300, 2.0, -0.0], "x": [1.0] * 7}
    )
    question = sf.scan(odd, privacy_unit="id").bound(rows=1)
    for per in ("row", "unit"):
        plan = question.agg(n=sf.histogram("x", [0, 2], per=per, weight="w", max_weight=3)).plan(epsilon=1)
        (batch,) = question._engine.statistics(plan.exact, 10)
        (counted,) = plan.requirements.statistics
        assert int(batch.column(counted.names[0])[0].as_py()) * counted.coordinates[0].step == 8


@pytest.mark.noise_cannot_matter("noise is planned, and not drawn")
@pytest.mark.parametrize("weight", ["w", "k"])
def test_steps_are_finer_than_the_largest_weight_and_few_enough_for_the_noise(weight):
    for most in (1e-100, "1/3", 1, "5/2", 2**70, 1e99):
        for rows, epsilon in ((1, 1e-9), (1, 1), (10**9, 1), (1, 10**6), (10**9, 10**6)):
            asked = sf.histogram("age", EDGES, weight=weight, max_weight=most)
            plan = PEOPLE.bound(rows=rows).agg(x=asked).plan(epsilon=epsilon)
            (statistic,) = plan.requirements.statistics
            whole = statistic.weights.exponent == 0 and statistic.weights.most == most
            assert whole or statistic.weights.most >= 8
            # No more noise than the largest weight asks for, but for a step.
            assert statistic.most_weight <= Fraction(most) * Fraction(9, 8)


@pytest.mark.parametrize(
    ("ask", "error", "says"),
    [
        (lambda **w: sf.histogram("age", EDGES, **w), QueryError, "histogram: max_weight is missing"),
        (lambda **w: sf.value_counts("size", ["s"], **w), QueryError, "value_counts: max_weight is missing"),
    ],
)
def test_what_is_missing_is_said(ask, error, says):
    with pytest.raises(error, match=says):
        ask(weight="w")
    with pytest.raises(error, match="weight is missing"):
        ask(max_weight=3)
    with pytest.raises(error, match="must be a column's name"):
        ask(weight=3, max_weight=3)
    for most in (0, -1, "nan", float("inf"), 1e101, None.__class__):
        with pytest.raises(ParameterError, match="max_weight"):
            ask(weight="w", max_weight=most)


def test_what_cannot_be_is_refused_before_anything_is_read():
    weighted = sf.histogram("age", EDGES, **W)
    with pytest.raises(ColumnError, match="by its weights"):
        PEOPLE.agg(x=sf.histogram("age", EDGES, weight="size", max_weight=2))
    with pytest.raises(ColumnError, match="nothing"):
        PEOPLE.agg(x=sf.histogram("age", EDGES, weight="nothing", max_weight=2))
    with pytest.raises(QueryError, match="shape of Laplace noise"):
        PEOPLE.agg(n=sf.count(), x=weighted).plan(epsilon=1, noise="k_norm")
    with pytest.raises(QueryError, match="rows is missing"):
        sf.scan(DATA, privacy_unit="id").agg(x=weighted)
    grouped = sf.scan(DATA, privacy_unit="id").group_by("group", keys=[0, 1])
    with pytest.raises(QueryError, match="counts in part, which x"):
        grouped.bound(groups=1, rows=1, beyond="scale").agg(x=weighted).plan(epsilon=1)
    with pytest.raises(QueryError, match="with totals ask for"):
        grouped.totals([]).bound(groups=1, rows=1).agg(x=weighted).plan(epsilon=1, delta=1e-6)
    with pytest.raises(QueryError, match="cannot be added up over steps"):
        sf.cumulative(weighted)
    once = sf.histogram("age", EDGES, per="unit", **W)
    assert sf.scan(DATA, privacy_unit="id").agg(x=once).plan(epsilon=1).scales


@pytest.mark.noise_cannot_matter("whatever the noise, previews have all outputs")
def test_a_preview_has_made_up_weights():
    asked = PEOPLE.agg(x=sf.histogram("age", EDGES, **W), y=sf.value_counts("k", [1, 2], **K))
    for rows in (1, 2):
        made = simulated_rows(asked.query, 100, rows)
        weights, ages, counts = (made.table[c].to_numpy() for c in ("w", "age", "k"))
        assert 0 <= weights.min() < weights.max() <= 4 and 0 <= ages.min() < 18 < ages.max() <= 65
        assert set(counts) == {0, 1, 2, 3}  # the weights are its own values, whose range is told
    assert asked.preview(epsilon=[1], units=[100]).outputs == ["x_0_18", "x_18_65", "y_1", "y_2"]


@pytest.mark.parametrize("edges", [[-inf, 0, inf], [0, inf], [-inf, inf], [-1.7e308, 1.7e308], [-inf, 5, 9]])
def test_rows_are_made_up_between_edges_that_are_not_finite(edges):
    made = simulated_rows(PEOPLE.agg(x=sf.histogram("age", edges)).query, 50, 1).table["age"].to_numpy()
    assert np.isfinite(made).all() and (made >= edges[0]).all() and (made <= edges[-1]).all()
    assert len(set(made)) == 50


def test_pictures_name_the_weights():
    asked = dict(PEOPLE.agg(x=sf.histogram("age", EDGES, **W)).query.aggregates)
    assert asked["x"].meaning({}) == "numbers of rows by age, 2 bins, weighted by w up to 4"
