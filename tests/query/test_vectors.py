"""Sums of vectors from a question to lists with error bars, and what is refused beforehand."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import ColumnError, ParameterError, QueryError
from sfumato.testing import noise_free

LENGTH = 3
VECTORS = [
    [3.0, 4.0, 0.0],
    [0.0, 0.0, -1.0],
    None,
    [1.0, float("nan"), 0.0],
    [0.3, 0.4, 0.0],
    [30.0, 40.0, 0.0],
]


def people(vectors=VECTORS, kind=None, **columns):
    kind = kind or pa.list_(pa.float64())
    rows = {"id": list(range(len(vectors))), "v": pa.array(vectors, kind), **columns}
    return sf.scan(pa.table(rows), privacy_unit="id")


def asked(**options):
    return sf.vector_sum("v", **{"length": LENGTH, "bound": 1, **options})


def only(table):
    (row,) = table.to_pylist()
    return row["s"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.6 + 0.3 + 0.6, 0.8 + 0.4 + 0.8, -1.0]),
        ({"norm": "l1"}, [3 / 7 + 0.3 + 3 / 7, 4 / 7 + 0.4 + 4 / 7, -1.0]),
        ({"norm": "linf", "bound": 2}, [2 + 0.3 + 2, 2 + 0.4 + 2, -1.0]),
        ({"bound": 10, "per": "row"}, [3 + 0.3 + 6, 4 + 0.4 + 8, -1.0]),
    ],
)
@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float64()), pa.list_(pa.float32()), pa.list_(pa.float64(), LENGTH)]
)
def test_without_noise_it_is_the_sum_of_shortened_vectors(options, expected, kind):
    with noise_free():
        release = people(kind=kind).bound(rows=1).agg(s=asked(**options)).release(epsilon=1, delta=1e-6)
        found = release.to_arrow()
    assert found.schema.field("s").type == pa.list_(pa.float64(), LENGTH)
    assert only(found) == pytest.approx(expected, abs=1e-6)


def test_whole_numbers_stay_whole_where_entries_are_clamped():
    table = people([[1, 0, 5], [1, -7, 0]], pa.list_(pa.int32()))
    with noise_free():
        release = table.agg(s=asked(norm="linf", bound=2)).release(epsilon=1)
        assert release.to_arrow().schema.field("s").type == pa.list_(pa.int64(), LENGTH)
        assert only(release.to_arrow()) == [2, -2, 2]
        shortened = table.agg(s=asked(norm="l2", bound=2)).release(epsilon=1).to_arrow()
    assert shortened.schema.field("s").type == pa.list_(pa.float64(), LENGTH)


def test_whole_numbers_of_units_with_too_many_rows_are_not_cut_to_nothing():
    table = pa.table({"id": [i // 2 for i in range(8)], "v": [[1, 0], [0, 1]] * 4})
    asked_of = sf.scan(table, privacy_unit="id").bound(rows=1)
    flags = {"length": 2, "bound": 1, "norm": "linf"}
    with noise_free():
        found = asked_of.agg(s=sf.vector_sum("v", **flags, per="row"), m=sf.vector_mean("v", **flags))
        release = found.release(epsilon=1).to_arrow()
    assert release.schema.field("s").type == pa.list_(pa.int64(), 2)
    assert release["s"][0].as_py() == [2, 2]  # half of each row of four units
    assert release["m"][0].as_py() == pytest.approx([0.5, 0.5], abs=1e-6)


def test_truth_values_are_counted():
    table = people([[True, False, True], [True, True, None], [True, True, False]], pa.list_(pa.bool_()))
    with noise_free():
        found = table.agg(s=asked(norm="linf")).release(epsilon=1).to_arrow()
        assert found.schema.field("s").type == pa.list_(pa.int64(), LENGTH)
        assert only(found) == [2, 1, 1]
        flags = people(g=["a", "b", "a", "b", "a", "c"]).with_columns(v="[g = 'a', g = 'b', g = 'c']")
        assert only(flags.agg(s=asked(norm="l1")).release(epsilon=1).to_arrow()) == [3, 2, 1]


def test_noise_is_chosen_by_its_size_and_is_of_the_size_that_is_claimed():
    few, many = (sf.vector_sum("v", length=n, bound=1) for n in (3, 300))
    assert people().agg(s=few).release(epsilon=1).plan.noise.name == "laplace"
    plan = people().agg(s=many).release(epsilon=1, delta=1e-6).plan
    assert plan.noise.name == "gaussian"
    # The deviation of Gaussian noise at (1, 1e-6) and L2 sensitivity 1, whatever the length.
    (deviation,) = plan.deviations.values()
    assert 4.2 < deviation < 4.3
    (laplace,) = people().agg(s=few).release(epsilon=1).plan.deviations.values()
    assert laplace == pytest.approx(math.sqrt(2 * 3), rel=1e-6)
    (ball,) = people().agg(s=asked(norm="l1")).release(epsilon=1).plan.deviations.values()
    assert ball == pytest.approx(math.sqrt(2), rel=1e-6)
    by_row = people().bound(rows=4).agg(s=asked(per="row", norm="linf")).release(epsilon=1)
    assert next(iter(by_row.plan.deviations.values())) == pytest.approx(4 * 3 * math.sqrt(2), rel=1e-6)


@pytest.mark.noise_cannot_matter("half-widths follow from the law alone")
def test_half_widths_are_of_each_entry_or_of_all_at_once():
    length = 400
    table = people([[0.0] * length] * 3)
    release = table.agg(s=sf.vector_sum("v", length=length, bound=1)).release(epsilon=1, delta=1e-6)
    errors = release.errors(0.95)
    assert errors.schema.field("s").type == pa.list_(pa.float64(), length)
    single, joint = only(errors), only(release.errors(0.95, simultaneous=True))
    assert len(set(single)) == len(set(joint)) == 1
    (law,) = release.plan.laws.values()
    step = float(next(iter(release.plan.steps.values())))
    assert single[0] == pytest.approx(step * law.tolerance(-math.log10(0.05)), rel=1e-6)
    assert joint[0] == pytest.approx(step * law.tolerance(-math.log10(0.05 / length)), rel=1e-6)


@pytest.mark.flakiness(k=14, because="40 Laplace numbers, each beyond its bar with probability 1.2e-16")
def test_bars_hold_the_exact_sums_and_bars_of_a_hundredth_do_not():
    length = 40
    table = people([[0.05] * length] * 3)
    release = table.agg(s=sf.vector_sum("v", length=length, bound=10)).release(epsilon=1)
    sums, bars = np.array(only(release.to_arrow())), np.array(only(release.errors(1 - 1.1e-16)))
    off = np.abs(sums - 0.15) / bars
    assert (off <= 1).all()
    # Bars are 36.7 scales: all draws are within a hundredth with probability 0.31^40.
    assert (off > 0.01).any()


@pytest.mark.noise_cannot_matter("of what has noise, the type alone is compared")
def test_public_and_private_groups_have_lists_of_their_own():
    table = people(g=["a", "b", "a", "b", "a", "c"])
    with noise_free():
        grouped = table.group_by("g", keys=["a", "b", "z"]).bound(groups=1)
        found = grouped.agg(s=asked(), n=sf.count_units()).release(epsilon=1, delta=1e-6).to_arrow()
        assert [row["s"] for row in found.to_pylist()] == [
            pytest.approx([0.9, 1.2, 0], abs=1e-6),
            pytest.approx([0, 0, -1], abs=1e-6),
            [0, 0, 0],
        ]
    many = people([[1.0, 0.0, 0.0]] * 200, g=["a"] * 150 + ["b"] * 50)
    release = many.group_by("g").bound(groups=1).agg(s=asked()).release(epsilon=1, delta=1e-6)
    assert release.to_arrow().schema.field("s").type == pa.list_(pa.float64(), LENGTH)


@pytest.mark.parametrize("vectors", [[], [None], [[1.0]]])
def test_no_vector_at_all_is_a_sum_of_zeros(vectors):
    with noise_free():
        assert only(people(vectors).agg(s=asked()).release(epsilon=1).to_arrow()) == [0, 0, 0]


@pytest.mark.noise_cannot_matter("one draw is compared with itself")
def test_written_files_give_the_same_lists(tmp_path):
    for ending in ("parquet", "json"):
        streamed = people().agg(s=asked()).release(epsilon=1, confidence=0.95)
        streamed.write(tmp_path / f"streamed.{ending}")
        drawn = people().agg(s=asked()).release(epsilon=1, confidence=0.95)
        before = drawn.to_arrow()
        drawn.write(tmp_path / f"drawn.{ending}")
        assert streamed.to_arrow().schema.types == before.schema.types == [pa.list_(pa.float64(), LENGTH)] * 2
        text = (tmp_path / f"drawn.{ending}").read_bytes()
        again = pq.read_table(io.BytesIO(text)).to_pylist() if ending == "parquet" else [json.loads(text)]
        assert again == before.to_pylist()
    frame = people().agg(s=asked()).release(epsilon=1)
    assert len(frame.to_pandas()["s"][0]) == LENGTH
    assert frame.to_polars()["s"].to_list() == [only(frame.to_arrow())]


@pytest.mark.noise_cannot_matter("nothing is drawn")
def test_csv_is_refused_before_anything_is_drawn(tmp_path):
    release = people().agg(s=asked()).release(epsilon=1)
    with pytest.raises(ParameterError, match="CSV and Excel have no lists"):
        release.write(tmp_path / "out.csv")
    assert not release.drawn
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"length": 0}, "length"),
        ({"length": 4097}, "4,096"),
        ({"length": 2.5}, "length"),
        ({"bound": 0}, "bound"),
        ({"bound": -1}, "bound"),
        ({"bound": float("nan")}, "bound"),
        ({"bound": float("inf")}, "bound"),
        ({"bound": 1e101}, "bound"),
        ({"norm": "l3"}, "norm"),
        ({"per": "group"}, "per"),
    ],
)
def test_what_is_no_bound_is_refused(options, said):
    with pytest.raises(ParameterError, match=said):
        asked(**options)


def test_what_is_no_column_of_vectors_is_refused():
    table = people(
        g=["a"] * 6, w=pa.array([[["a"]]] * 6), z=pa.array([[1.0, 2.0]] * 6, pa.list_(pa.float64(), 2))
    )
    for column, said in (("g", "VARCHAR"), ("w", "VARCHAR"), ("id", "BIGINT"), ("nowhere", "nowhere")):
        with pytest.raises(ColumnError, match=said):
            table.agg(s=sf.vector_sum(column, length=3, bound=1))
    with pytest.raises(ColumnError, match="length=2"):
        table.agg(s=sf.vector_sum("z", length=3, bound=1))
    with pytest.raises(QueryError, match="column"):
        sf.vector_sum(3, length=3, bound=1)
    with pytest.raises(QueryError, match="rows is missing"):
        table.agg(s=asked(per="row"))
    with pytest.raises(QueryError, match="vectors"):
        table.agg(s=asked()).release(epsilon=1, noise="k_norm")
    with pytest.raises(QueryError, match="vectors"):
        table.agg(n=sf.count_units(), s=asked()).release(epsilon=1, noise="k_norm")


@pytest.mark.noise_cannot_matter("all noise is finite")
@pytest.mark.parametrize("bound", [1e-99, 1e-30, 1e30, 1e99, "1/3"])
@pytest.mark.parametrize("epsilon", [1e-6, 1, 1e6])
def test_bounds_and_budgets_of_all_sizes(bound, epsilon):
    table = people([[1e308, -1e308, 1e-308], [float("inf")] * 3])
    for norm in ("l1", "l2", "linf"):
        found = only(table.agg(s=asked(bound=bound, norm=norm)).release(epsilon=epsilon).to_arrow())
        assert np.isfinite(found).all()


def test_what_is_said_of_it():
    release = people().agg(s=asked()).release(epsilon=1)
    assert "3 entries, L2 norm at most 1 per unit and group" in str(release.explain())
    assert release.explain().content["outputs"]["s"]["entries"] == LENGTH


@pytest.mark.flakiness(k=100, because="noise of scale 2e-5 against 0.1")
def test_sql_sums_vectors_and_says_how_where_it_is_asked_for_a_number():
    asked_in = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1e6, privacy_unit_column = id) {} AS s FROM t"
    )
    table = pa.table({"id": [1, 2], "v": [[1.0, 2.0], [3.0, 4.0]]})
    call = "VECTOR_SUM(v, length => 2, bound => 9)"
    found = sf.sql(asked_in.format(call), tables={"t": table}).to_arrow()
    assert only(found) == pytest.approx([4, 6], abs=0.1)
    ends = f"{call} AS v, DP_INTERVAL_LOW(v) AS low, DP_INTERVAL_HIGH(v) AS high, {call}[2]"
    (row,) = sf.sql(asked_in.format(ends), tables={"t": table}).to_arrow().to_pylist()
    assert row["v"] == pytest.approx([4, 6], abs=0.1) and row["s"] == row["v"][1]
    assert all(a < b < c for a, b, c in zip(row["low"], row["v"], row["high"], strict=True))
    with pytest.raises(ColumnError, match="vector_sum"):
        sf.sql(asked_in.format("SUM(v, contribution_bounds_per_group => (0, 1))"), tables={"t": table})
