"""Histograms and counts of values: names, error bars that hold, what is refused, and the same in the engines."""

from __future__ import annotations

import math
from datetime import date

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ColumnError, QueryError
from sfumato.framework import Norm
from sfumato.testing import assert_approx_equal

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


def test_names_are_readable_and_differ():
    inf = math.inf
    assert outputs(sf.histogram("a", [-inf, 0.5, 1e21, inf])) == (
        "x_under_0.5",
        "x_0.5_1e+21",
        "x_from_1e+21",
    )
    assert outputs(sf.histogram("a", [2**53, 1e300])) == ("x_9007199254740992_1e+300",)
    assert outputs(sf.histogram("a", ["1/3", 1])) == ("x_0.3333333333333333_1",)
    assert outputs(sf.histogram("a", [-inf, inf], outside="count")) == ("x_all",)
    assert outputs(sf.histogram("a", [-inf, 0], outside="count")) == ("x_under_0", "x_over_0")
    assert outputs(sf.value_counts("a", ["A", "a", "b"])) == ("x_A_1", "x_a_2", "x_b")
    assert outputs(sf.value_counts("a", ["other", "b"], other=True)) == ("x_other_1", "x_b", "x_other_3")
    assert outputs(sf.value_counts("a", ["A", "a", "a_2"])) == ("x_1_A", "x_2_a", "x_3_a_2")
    assert outputs(sf.value_counts("a", [-1, 2])) == ("x_-1", "x_2")


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


@pytest.mark.flakiness(k=14, because="twelve tolerances that fail once in 10^16 releases")
def test_releases_are_judged_by_their_noise():
    asked = PEOPLE.agg(
        x=sf.histogram("age", [0, 45, 90]),
        share=sf.histogram("age", [0, 45, 90], shares=True),
        u=sf.value_counts("member", [True], per="unit"),
    )
    for noise in ("laplace", "gaussian"):
        release = asked.release(epsilon=1, delta=1e-6, noise=noise)
        ages = [x for x in DATA["age"].to_pylist() if x is not None]
        young = sum(x < 45 for x in ages)
        truth = {
            "x_0_45": young, "x_45_90": len(ages) - young, "u_true": 100,
            "share_0_45": young / len(ages), "share_45_90": 1 - young / len(ages),
        }  # fmt: skip
        assert_approx_equal(release, truth, k=16)
        for name, value in truth.items():
            with pytest.raises(AssertionError):
                assert_approx_equal(release, truth | {name: value + 10**6}, k=16)


@pytest.mark.noise_cannot_matter("shares are clipped to [0, 1]")
def test_shares_of_nothing_are_no_error():
    empty = sf.scan(DATA.slice(0, 0), privacy_unit="id").bound(rows=1)
    release = empty.agg(x=sf.histogram("age", [0, 1, 2], shares=True)).release(epsilon=1)
    row = release.to_arrow().to_pylist()[0]
    assert all(0 <= share <= 1 for share in row.values())


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
