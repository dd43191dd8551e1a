"""Histograms and counts of values with survey weights: what they are, error bars, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf

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
