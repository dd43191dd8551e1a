"""Histograms and counts of values, also with survey weights: names, noise, and what is refused."""

from datetime import date
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ColumnError, QueryError
from sfumato.framework import Norm

N = 600
DAYS = [date(2020, 1, 1 + i % 3) for i in range(N)]
DATA = pa.table(
    {
        "id": [i // 2 for i in range(N)],
        "group": [i % 2 for i in range(N)],
        "age": [None if i % 10 == 9 else float(i % 90) for i in range(N)],
        "size": [["s", "M", "m", "it's", None][i % 5] for i in range(N)],
        "member": [i % 3 == 0 for i in range(N)],
        "children": [i % 4 for i in range(N)],
        "day": DAYS,
        "third": [["s", "m", None][i % 3] for i in range(N)],
        "w": [None if i % 11 == 10 else 0.5 + i % 7 for i in range(N)],
        "k": [i % 5 for i in range(N)],
    }
)
PEOPLE = sf.scan(DATA, privacy_unit="id").bound(rows=2)


def outputs(aggregate, name="x"):
    return aggregate.outputs(name)


def exact(**asked):
    """Return outputs with so little noise that they are the exact ones."""
    row = PEOPLE.agg(**asked).release(epsilon=10**5).to_arrow().to_pylist()[0]
    return {name: round(value, 2) for name, value in row.items()}


@pytest.mark.flakiness(k=100, because="noise of scale 2e-5 rows, or of 2e-4 where there are ten outputs")
def test_every_type_of_column_is_counted():
    ages = [x for x in DATA["age"].to_pylist() if x is not None]
    found = exact(
        age=sf.histogram("age", [0, 18, 65], outside="count"),
        size=sf.value_counts("size", ["s", "M", "it's"], other=True),
        member=sf.value_counts("member", [True, False]),
        children=sf.value_counts("children", [0, 3]),
        day=sf.value_counts("day", [DAYS[1]]),
        units=sf.value_counts("member", [True, False], per="unit"),
        share=sf.value_counts("size", ["s", "m"], shares=True),
    )
    assert found == {
        "age_under_0": 0,
        "age_0_18": sum(x < 18 for x in ages),
        "age_18_65": sum(18 <= x <= 65 for x in ages),
        "age_over_65": sum(x > 65 for x in ages),
        "size_s": 120, "size_M": 120, "size_it's": 120, "size_other": 120,
        "member_true": 200, "member_false": 400,
        "children_0": 150, "children_3": 150,
        "day_2020-01-02": 200,
        "units_true": 100, "units_false": 200,
        "share_s": 0.5, "share_m": 0.5,
    }  # fmt: skip


def test_one_sensitivity_serves_all_bins_and_counts_and_shares_are_asked_once():
    few, many = (PEOPLE.agg(x=sf.histogram("age", range(n))).plan(epsilon=1) for n in (3, 300))
    assert few.scales["age#1.bin0"] * few.steps["age#1.bin0"] == 2
    assert set(few.scales.values()) == set(many.scales.values())
    both = PEOPLE.agg(x=sf.histogram("age", range(3)), y=sf.histogram("age", range(3), shares=True)).plan(
        epsilon=1
    )
    assert both.scales == few.scales and both.noise.norm is Norm.L1


def test_k_norm_noise_is_refused_and_auto_takes_another():
    asked = PEOPLE.agg(n=sf.count(), x=sf.histogram("age", [0, 18]))
    with pytest.raises(QueryError, match="shape of Laplace noise"):
        asked.plan(epsilon=1, noise="k_norm")
    assert asked.plan(epsilon=1).noise.name == "laplace"
    assert asked.plan(epsilon=1, delta=1e-6, noise="gaussian").noise.name == "gaussian"


def test_columns_of_other_types_are_refused():
    for asked in (
        sf.histogram("size", [0, 1]),
        sf.value_counts("age", [1]),
        sf.value_counts("children", ["1"]),
        sf.value_counts("children", [True]),
        sf.value_counts("member", [1]),
        sf.value_counts("size", [DAYS[0]]),
        sf.histogram("nothing", [0, 1]),
    ):
        with pytest.raises(ColumnError, match="agg: x"):
            PEOPLE.agg(x=asked)
    with pytest.raises(QueryError, match="rows is missing"):
        sf.scan(DATA, privacy_unit="id").agg(x=sf.histogram("age", [0, 1]))
    with pytest.raises(QueryError, match="column"):
        sf.histogram(3, [0, 1])


@pytest.mark.flakiness(k=100, because="noise of scale 3e-4 against whole numbers")
def test_bins_in_private_and_public_groups():
    by = sf.scan(DATA, privacy_unit="id").group_by("group", keys=[0, 1, 7]).bound(groups=2, rows=1)
    found = by.agg(x=sf.value_counts("children", [0, 1], other=True)).release(epsilon=10**4).to_arrow()
    assert found.to_pydict() == {
        "group": [0, 1, 7], "x_0": [150, 0, 0], "x_1": [0, 150, 0], "x_other": [150, 150, 0],
    }  # fmt: skip
    private = sf.scan(DATA, privacy_unit="id").group_by("group").bound(groups=2, rows=1)
    shown = private.agg(x=sf.histogram("children", [0, 2])).release(epsilon=10**4, delta=1e-6).to_arrow()
    assert shown.to_pydict() == {"group": [0, 1], "x_0_2": [300, 150]}
    total = sf.scan(DATA, privacy_unit="id").group_by("group", keys=[0, 1]).bound(total_rows=2)
    rows = total.agg(x=sf.histogram("children", [0, 1]), u=sf.histogram("children", [0, 1], per="unit"))
    assert rows.release(epsilon=10**4).to_arrow().to_pydict()["x_0_1"] == [150, 150]


# With survey weights.

EDGES = [0, 18, 65]
W = {"weight": "w", "max_weight": 4}
K = {"weight": "k", "max_weight": 3}


def by_numpy(weight: str, most: float, masks: list[np.ndarray]) -> list[float]:
    w = np.clip(np.nan_to_num(DATA[weight].to_numpy().astype(float)), 0, most)
    return [float(w[mask].sum()) for mask in masks]


AGE = DATA["age"].to_numpy()
AGES = [AGE < 0, (AGE >= 0) & (AGE < 18), (AGE >= 18) & (AGE <= 65), AGE > 65]
SIZE = np.array(DATA["third"].to_pylist(), object)


@pytest.mark.flakiness(k=100, because="noise of scale 1e-3 or less against 0.5")
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_bins_are_expansion_totals_and_shares_are_theirs(noise):
    asked = PEOPLE.agg(
        age=sf.histogram("age", EDGES, outside="count", **W),
        part=sf.histogram("age", EDGES, outside="count", shares=True, **W),
        size=sf.value_counts("third", ["s", "m"], **K),
        unit=sf.value_counts("third", ["s", "m"], per="unit", **K),
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
