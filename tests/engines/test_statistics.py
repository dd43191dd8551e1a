"""Every engine computes the framework's definition, exactly, on generated tables."""

import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from math import isqrt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import sfumato.transformations as tf
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.question_check import PhysicalOrder, rearrange_rows
from sfumato.framework import Norm
from sfumato.query.engine_protocol import ExactQuery
from sfumato.query.tables.table_part import Part
from tests.support.cases import KEY_TYPES, Case, Result, as_key, cases, definition, evaluated, generated, same
from tests.support.engines import JOBS, in_long

LATTICES = [
    tf.Lattice(0.0, 30.0),
    tf.Lattice(-3.0, 100.0, whole=True),
    tf.Lattice(-1e300, 1e300),
    tf.Lattice(0.0, 1e18),
    tf.Lattice(1e6, 1e6 + 1),
]


def orders_of(case: Case) -> list[Case]:
    """Return a case in three physical orders: as it is, shuffled, and with more rows of the first row's unit."""
    places = list(range(len(case.rows)))
    shuffled = random.Random(repr(case.rows)).sample(places, len(places))
    texts = case.columns["unit"][1]
    repeated = [i for i in shuffled for _ in range(3 if texts[i] == texts[0] else 1)]
    return [case, case.taken(shuffled), case.taken(repeated)]


@pytest.mark.parametrize(
    "engine", ["duckdb", "stages", "small duckdb", *in_long("small stages", *JOBS)], indirect=True
)
@generated(90, case=lambda engine: cases(engine, binding=False))
def test_an_engine_computes_the_definition(engine, case):
    orders = orders_of(case)
    one = orders[len(case.rows) % 3]
    opened = engine(one.columns)
    if one is orders[1] and isinstance(opened, DuckDBEngine):
        opened = rearrange_rows(Part(opened, (), "unit"), PhysicalOrder(1, one_thread=True)).engine
    assert same(evaluated(opened, one.query()), definition(one))


@pytest.mark.long
@generated(
    40,
    local=True,
    case=lambda engine: cases(engine, binding=False),
    lattice=lambda engine: st.sampled_from(LATTICES),
)
def test_leaves_are_counted_at_the_places_of_the_definition(engine, case, lattice):
    if case.columns["x"][0] == "HUGEINT":
        return  # of which Arrow, and with it some engines, holds 38 digits
    only = replace(case, statistics=(tf.Leaves("x", "x", 2, lattice, -5),))
    assert same(evaluated(engine(case.columns), only.query()), definition(only))


def test_the_choice_of_groups_is_fresh_in_each_release_and_reaches_every_group(local_engine):
    """120 units choose two of six groups each; no two units have a group in common.

    Rows of a unit are far from each other, so in several parts where there are parts.
    """
    rows = local_engine(pa.table({"unit": [i % 120 for i in range(720)], "key 0": list(range(720))}))
    query = ExactQuery((), "unit", ("key 0",), None, 2, (tf.CountUnits(),))
    choices = []
    for _ in range(2):
        chosen = sorted(key for (key,) in evaluated(rows, query))
        assert sorted(key % 120 for key in chosen) == [i // 2 for i in range(240)]  # two of each unit
        assert {key // 120 for key in chosen} == set(range(6))  # one is never chosen with chance 6 (2/3)^120
        choices.append(chosen)
    assert choices[0] != choices[1]  # the same with chance 15^-120


def some_keys(case: Case, data: Any) -> dict[Any, Any]:
    """Public groups, some of which have rows: as the framework is given them, to as an engine is."""
    domain = [KEY_TYPES[case.columns[k][0]] for k in case.keys]
    there = [zip(*(case.columns[k][1] for k in case.keys), strict=True)] if case.rows else []
    every = st.tuples(*(st.sampled_from([*t, None]) for t, _ in domain))
    texts = data.draw(
        st.lists(st.one_of(every, *(st.sampled_from(list(t)) for t in there)), min_size=1, max_size=6)
    )
    chosen: dict[Any, Any] = {}
    for row in texts:
        read = tuple(None if t is None else f(t) for t, (_, f) in zip(row, domain, strict=True))
        chosen.setdefault(tuple(map(as_key, read)), read)
    return chosen


@pytest.mark.long
@generated(20, local=True, case=lambda engine: cases(engine, binding=False), data=lambda engine: st.data())
def test_public_groups_are_all_there_and_rows_of_others_take_nothing(engine, case, data):
    if not case.keys:
        return
    opened = engine(case.columns)
    chosen = some_keys(case, data)
    public = opened.public_keys(case.keys, list(chosen.values()), ())
    limit = len(chosen)
    query = ExactQuery((), "unit", case.keys, public, limit, case.statistics)
    within = Case(case.columns, [r for r in case.rows if r.key in chosen], case.keys, case.statistics, limit)
    assert same(evaluated(opened, query), {key: {} for key in chosen} | definition(within))


def divisible(statistic: tf.Statistic) -> tf.Statistic:
    """The same, with steps for parts of units."""
    if isinstance(statistic, (tf.Count, tf.CountUnits, tf.DistinctShared, tf.RowsInBins, tf.VectorCount)):
        return replace(statistic, exponent=min(statistic.exponent, -20) - statistic.exponent % 2)
    return statistic


@pytest.mark.long
@generated(20, local=True, case=lambda engine: cases(engine, binding=True), data=lambda engine: st.data())
def test_units_in_more_public_groups_than_the_limit_count_in_part_as_defined(engine, case, data):
    opened, chosen = engine(case.columns), some_keys(case, data)
    # In a matching a unit has a place or none.
    statistics = tuple(
        divisible(s) for s in case.statistics if not isinstance(s, (tf.DistinctMatched, tf.WeightedSum))
    )
    public = opened.public_keys(case.keys, list(chosen.values()), ())
    query = ExactQuery((), "unit", case.keys, public, case.groups, statistics, scaled=True)
    chain = tf.scale_groups(case.groups, chosen) >> tf.per_group(statistics, groups=case.groups, scaled=True)
    totals = {key: {name: n for name, n in total.items() if n} for key, total in chain(case.rows).items()}
    assert same(evaluated(opened, query), {key: {} for key in chosen} | totals)


@generated(20, local=True, case=lambda engine: cases(engine, binding=False))
def test_units_share_a_weight_among_their_groups_as_defined(engine, case):
    if not case.keys:
        return
    query = replace(case.query(), statistics=(tf.CountUnits(-20),), scaled=False, shared=True)
    scales = {"scales": [1], "norm": Norm.L2, "shared": True}
    chain = tf.share_groups(case.groups) >> tf.per_group(query.statistics, groups=case.groups, **scales)
    assert same(evaluated(engine(case.columns), query), chain(case.rows))


def test_a_unit_in_many_groups_shares_a_weight_among_as_many_as_the_limit(local_engine):
    """Unit t is in t groups, which nobody else is in, and the last one is in more than may count."""
    pairs = [(t, 10_000 * t + i) for t in (*range(1, 40), 99, 150) for i in range(t)]
    rows = local_engine(pa.table({"unit": [u for u, _ in pairs], "key 0": [key for _, key in pairs]}))
    query = ExactQuery((), "unit", ("key 0",), None, 99, (tf.CountUnits(-20),), shared=True)
    found = Counter((key // 10_000, numbers["units"]) for (key,), numbers in evaluated(rows, query).items())
    assert found == {(t, isqrt((1 << 40) // min(t, 99))): min(t, 99) for t, _ in pairs}


def in_three_groups(engine) -> Result:
    """One unit in three public groups, where two are the limit: 2/3 of it in each; another in one."""
    table = pa.table({"unit": [1, 1, 1, 1, 2], "key 0": [0, 1, 2, 9, 0], "x": [30, 20, 11, 5, -7]})
    opened = engine(table)
    public = opened.public_keys(("key 0",), [0, 1, 2, 3], ())
    statistics = tf.CountUnits(-20), tf.Count(1, exponent=-21), tf.UnitSum("s", "x", -2, -400, 400, False)
    query = ExactQuery((), "unit", ("key 0",), public, 2, statistics, scaled=True)
    return evaluated(opened, query)


def test_parts_are_seen_to_differ_from_wholes(local_engine):
    part, found = (2 << 20) // 3, in_three_groups(local_engine)
    assert [found[k,].get("units", 0) for k in range(4)] == [part + (1 << 20), part, part, 0]
    assert [found[k,].get("rows", 0) for k in range(4)] == [2 * part + (1 << 21), 2 * part, 2 * part, 0]
    assert [found[k,].get("s.total", 0) for k in range(4)] == [79 - 28, 53, 29, 0]


def test_public_groups_do_not_compete_with_other_groups(local_engine):
    table = pa.table({"unit": [1] * 50, "key 0": list(range(50))})
    opened = local_engine(table)
    public = opened.public_keys(("key 0",), [7, 99], ())
    for _ in range(local_engine.few(3)):
        query = ExactQuery((), "unit", ("key 0",), public, 1, (tf.CountUnits(),))
        assert evaluated(opened, query) == {(7,): {"units": 1}, (99,): {}}


def test_only_quantiles_of_the_whole_table_is_one_row(local_engine):
    """Not one row for each unit: their number would tell how many there are."""
    tree = tf.QuantileTree("q", "x", 1, 0.0, 10.0, 0)
    query = ExactQuery((), "unit", (), None, 1, (tree,))
    for size in (0, 1, 7):
        table = pa.table(
            {"unit": pa.array(range(size), pa.int64()), "x": pa.array([10.0] * size, pa.float64())}
        )
        found = evaluated(local_engine(table), query)
        assert len(found) == 1, size
        assert (
            found[()].get(("q.tree", 4, 65_535), 0) == size
        )  # a value at the upper bound is in the last leaf


@pytest.mark.parametrize("kind", ["DECIMAL(38,10)", *in_long("DECIMAL(18,6)", "HUGEINT", "UBIGINT")])
def test_wide_numbers_become_the_nearest_float(local_engine, kind):
    """A value is read as float64 in the same way by every local_engine: correctly rounded."""
    digits = {"DECIMAL(38,10)": "1234567890123456789012345678", "DECIMAL(18,6)": "123456789012", "HUGEINT": "9" * 38,
              "UBIGINT": str(2**64 - 1)}[kind]  # fmt: skip
    point = {"DECIMAL(38,10)": ".1234567891", "DECIMAL(18,6)": ".123457"}.get(kind, "")
    values = [digits[:n] + point for n in range(1, len(digits) + 1)]
    table = {
        "unit": ("INTEGER", [str(i) for i in range(len(values))]),
        "k": ("INTEGER", [str(i) for i in range(len(values))]),
        "x": (kind, values),
    }
    # A grid as fine as float64 itself, from 0 to 2^52 steps, shows the last bit of smaller values.
    statistics = tuple(tf.UnitSum(f"s{e}", "x", e, 0, 1 << 52, False) for e in range(-30, 80, 10))
    rows = [tf.Row(i, (i,), {"x": Decimal(v) if point else int(v)}) for i, v in enumerate(values)]
    case = Case(table, rows, ("k",), statistics, 1)
    assert evaluated(local_engine(table), case.query()) == definition(case)


def test_products_are_of_rows_with_a_value_of_each_column(local_engine):
    """A row that lacks one adds nothing, to sums of the other column and to their number either."""
    table = {
        "unit": ("INTEGER", ["1", "1", "2", "3", "3"]),
        "x": ("INTEGER", ["1", "3", None, "2", "5"]),
        "y": ("INTEGER", ["4", None, "6", "7", None]),
    }
    axes = tuple(tf.Axis(c, c, tf.ValueGrid(0, 0, 8), 8) for c in "xy")
    cross = tf.CrossMoments("t", axes, 2, ((0, 0), (0, 1), (1, 1)), 0)
    query = ExactQuery((), "unit", (), None, 1, (cross,))
    # Of (1, 4) and (2, 7), less their centre of 4, and less 8 from each square.
    assert evaluated(local_engine(table), query) == {
        (): dict(zip(cross.names, (2, -5, 3, -3, -6, -7), strict=True))
    }


@pytest.mark.parametrize("kind", ["INTEGER", pytest.param("DOUBLE", marks=pytest.mark.long)])
def test_rows_without_a_unit_are_dropped(local_engine, kind):
    table = {
        "unit": (kind, [None, "1", None, "2"]),
        "key 0": ("INTEGER", ["0", "0", "1", "0"]),
        "x": ("INTEGER", ["5", "1", "2", "3"]),
    }
    statistics = (tf.CountUnits(), tf.Count(2), tf.UnitSum("sum", "x", 0, 0, 10, True))
    for keys, groups in ((("key 0",), 1), (("key 0",), 2), ((), 1)):
        found = evaluated(local_engine(table), ExactQuery((), "unit", keys, None, groups, statistics))
        assert found == {(0,) if keys else (): {"units": 2, "rows": 2, "sum.total": 4}}, (keys, groups)


@pytest.mark.long
def test_names_that_an_engine_might_use_itself(local_engine):
    names = ["u", "k0", "n", "v:u", "units", "rows", "leaf", "weight", "input", "pairs", "kept", "sums", "m",
             'q"uote', "semi;colon--", "SELECT", "é", "k0.tree", "public_keys", "counted", "nothing"]  # fmt: skip
    for unit, key, value in zip(names[::6], names[1::6], names[2::6], strict=False):
        table = {
            unit: ("INTEGER", [None, "1", "1", "2"]),
            key: ("VARCHAR", ["a", "a", "b", "a"]),
            value: ("INTEGER", ["5", "1", "2", "3"]),
        }
        statistics = (
            tf.UnitSum("sum", value, 0, 0, 10, True),
            tf.QuantileTree("tree", value, 1, 0.0, 10.0, 0),
        )
        found = evaluated(local_engine(table), ExactQuery((), unit, (key,), None, 5, statistics))
        assert {k: v["sum.total"] for k, v in found.items()} == {("a",): 4, ("b",): 2}, (unit, key, value)


@pytest.mark.parametrize("missing", [True, False])
def test_a_unit_without_values_adds_nothing_to_its_sum(local_engine, missing):
    """It adds nothing but the centre that the count of units gives back; and the nearest bound if declared full."""
    table = pa.table({"unit": [1, 1, 2, 2, 3], "x": pa.array([None, None, 2.0, None, float("nan")])})
    for lower, upper, centre in ((5, 10, 3), (-9, -4, 0), (-1, 8, 0)):
        s = tf.UnitSum("s", "x", 0, lower, upper, False, centre, missing)
        none = 0 if missing else min(max(0, lower), upper)
        expected = 2 * none + min(max(2, lower), upper) - 3 * centre
        query = ExactQuery((), "unit", (), None, 1, (s,))
        assert evaluated(local_engine(table), query) == {(): {"s.total": expected} if expected else {}}
