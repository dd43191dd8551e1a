"""Joins, unions and aggregates of units: each row follows from one unit's rows and from public tables."""

import struct
from collections import Counter
from fractions import Fraction
from itertools import product

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import ColumnError, ParameterError, QueryError
from sfumato.query import sizes

from .made_rows import bits, rows_of, table
from .tiers import some

NUMBERS = [0.0, -0.0, 1.5, 0.1, 0.2, 0.3, 1e300, -1e300, float("inf"), float("-inf"), float("nan"), None]
TOWNS = ["A", "B", "C", "a", "", None]
TYPES = {
    "visits": pa.schema({"id": pa.float64(), "town": pa.string(), "cost": pa.float64(), "n": pa.int64()}),
    "people": pa.schema({"id": pa.float64(), "age": pa.int32(), "town": pa.string()}),
}
REGIONS = pa.table({"town": ["A", "B", "B", None, "a"], "region": ["n", "s", "t", "x", "n"]})

units = st.sampled_from([1.0, 2.0, 3.0, 4.0, 0.0, -0.0, float("nan"), None])
visits = st.tuples(units, st.sampled_from(TOWNS), st.sampled_from(NUMBERS), st.integers(-(2**63), 2**63 - 1))
people = st.tuples(units, st.integers(0, 99), st.sampled_from(TOWNS))


def unit_of(row) -> str:
    return "none" if row[0] is None else "nan" if row[0] != row[0] else str(row[0] + 0.0)


OF_UNITS = (
    "count(*); count(cost); count(DISTINCT town); sum(cost); avg(cost); sum(n); avg(n); "
    "min(cost) FILTER (WHERE n > 0); max(town); bool_and(cost > 0); bool_or(n % 2 = 0)"
)
CHAINS = {
    "join public": lambda v, p, r: v.join(r, on="town"),
    "left join public": lambda v, p, r: v.join(r, on="town", how="left").with_columns(x="region IS NULL"),
    "join private": lambda v, p, r: v.join(p, on="id"),
    "join private on more": lambda v, p, r: v.join(p, on=["town", "id"], how="left"),
    "few rows of a unit": lambda v, p, r: v.join(p, on="id", unit_rows=2).join(v, on=["id", "town"], unit_rows=3),
    "union": lambda v, p, r: v.union(v.filter("town = 'A'").with_columns(cost="cost / 3")),
    "per unit": lambda v, p, r: v.per_unit(**{f"y{i}": text for i, text in enumerate(OF_UNITS.split("; "))}),
    "per unit and town": lambda v, p, r: v.per_unit("town", spent="sum(cost * cost)"),
    "everything": lambda v, p, r: (
        v.join(r, on="town", how="left")
        .with_columns(big="cost > 1")
        .per_unit("region", spent="sum(cost)", big="count(*) FILTER (WHERE big)")
        .join(p.per_unit(age="max(age)", towns="count(DISTINCT town)"), on="id")
        .filter("age > 20 OR spent IS NULL")
        .union(v.join(r, on="town").per_unit("region", spent="sum(cost)", big="count(*)").join(
            p.per_unit(age="min(age)", towns="count(*)"), on="id"
        ))
    ),
}  # fmt: skip


def chain(name: str, v, p, as_file=lambda name, rows: rows) -> sf.Table:
    tables = [
        sf.scan(as_file(n, table(TYPES[n], rows)), privacy_unit="id")
        for n, rows in (("visits", v), ("people", p))
    ]
    return CHAINS[name](*tables, sf.public(REGIONS))


@pytest.mark.long
@pytest.mark.parametrize("name", some(CHAINS, 4))
@given(
    st.lists(visits, max_size=25),
    st.lists(people, max_size=12),
    st.sets(st.sampled_from(["1.0", "2.0", "0.0", "nan"])),
    st.randoms(use_true_random=False),
)
@settings(max_examples=4, deadline=None)
def test_rows_of_some_units_are_the_same_without_the_others_and_in_any_order(name, v, p, chosen, chance):
    # Of an equal pair such as 0.0 and -0.0 a group keeps either; the statistics make them one.
    v = [(abs(r[0]) if r[0] == 0 else r[0], *r[1:]) for r in v]
    whole = rows_of(chain(name, v, p))
    chance.shuffle(v)
    chance.shuffle(p)
    halves = [
        rows_of(
            chain(
                name,
                [r for r in v if (unit_of(r) in chosen) == of],
                [r for r in p if (unit_of(r) in chosen) == of],
            )
        )
        for of in (True, False)
    ]
    assert whole == halves[0] + halves[1]


doubles = st.floats(width=64) | st.sampled_from(
    [0.1, 2.0**-47, 2.0**-48, 2.0**29, 2.0**67, 2.0**66, 5e-324, 1e308]
)


@pytest.mark.long
@given(st.lists(doubles, min_size=1, max_size=30), st.randoms(use_true_random=False))
@settings(max_examples=8, deadline=None)
def test_sums_of_doubles_are_exact_where_they_can_be_and_no_order_changes_them(values, chance):
    def of(numbers):
        rows = table(TYPES["visits"], [(1.0, "A", x, 0) for x in numbers])
        (found,) = rows_of(sf.scan(rows, privacy_unit="id").per_unit(s="sum(cost)", m="avg(cost)"))
        return [struct.unpack("d", bytes.fromhex(one))[0] for one in found[1:]]

    found = of(values)
    shuffled = [*values]
    chance.shuffle(shuffled)
    assert list(map(bits, of(shuffled))) == list(map(bits, found))
    if all(2.0**-47 <= abs(x) < 2.0**67 or x == 0 for x in values):
        exact, largest = sum(map(Fraction, values), Fraction(0)), Fraction(max(map(abs, values)))
        assert abs(Fraction(found[0]) - exact) <= largest * len(values) / 2**50


def test_sums_of_doubles_beyond_the_exact_ranges_are_there_and_in_one_order():
    def of(numbers):
        rows = table(TYPES["visits"], [(1.0, "A", x, 0) for x in numbers])
        return rows_of(sf.scan(rows, privacy_unit="id").per_unit(s="sum(cost)"), reordered=False)

    assert of([2.0**-48, 2.0**-48]) == Counter({(bits(1.0), bits(2.0**-47)): 1})
    far = [1e300, -1e300, 1e250, 1e40]
    assert of(far) == of(far[::-1]) == of(far[2:] + far[:2])


def test_joins_are_those_of_sql():
    v = [(u, t, 1.0, i) for i, (u, t) in enumerate(product([1.0, 2.0, 3.0], TOWNS))]
    p = [(1.0, 30, "A"), (1.0, 31, "B"), (3.0, 33, "C"), (4.0, 20, "A")]
    here = {"v": table(TYPES["visits"], v), "p": table(TYPES["people"], p), "r": REGIONS}
    session = duckdb.connect()
    for name, rows in here.items():
        session.register(name, rows)
    for name, sql in {
        "join public": "SELECT v.*, region FROM v JOIN r ON v.town = r.town",
        "left join public": "SELECT v.*, region, region IS NULL FROM v LEFT JOIN r ON v.town = r.town",
        "join private": "SELECT v.*, age, p.town FROM v JOIN p ON v.id = p.id",
        "join private on more": "SELECT v.*, age FROM v LEFT JOIN p ON v.id = p.id AND v.town = p.town",
        "per unit and town": "SELECT id, town, sum(cost * cost) FROM v GROUP BY id, town",
    }.items():
        expected = Counter(tuple(map(bits, row)) for row in session.execute(sql).fetchall())
        assert rows_of(chain(name, v, p)) == expected, name


def test_a_left_join_may_lack_what_it_brings():
    towns = sf.public(REGIONS).filter("region IS NOT NULL")
    asked = sf.scan(table(TYPES["visits"], []), privacy_unit="id")
    assert not asked.join(towns, on="town").schema["region"].missing
    assert asked.join(towns, on="town", how="left").schema["region"].missing


@pytest.mark.parametrize("few", [1, 10**9])
def test_rows_are_found_to_be_too_many_in_buckets_or_not(few, monkeypatch, tmp_path):
    """Of 300 units with 1 to 3 rows of a key, and one without a number."""
    monkeypatch.setattr(sizes, "COUNTED_ROWS", few)
    ids = [None if i == 7 else i for i in range(300) for _ in range(i % 3 + 1)]
    made = pa.table({"id": pa.array(ids, pa.int32()), "n": range(len(ids))})
    pq.write_table(made, tmp_path / "rows.parquet")
    right = sf.scan(tmp_path / "rows.parquet", privacy_unit="id")
    left = sf.scan(pa.table({"id": pa.array(range(300), pa.int32())}), privacy_unit="id")
    for rows in (1, 2, 4):
        met = Counter(row[0] for row in rows_of(left.join(right, on="id", rows=rows)).elements())
        assert met == {i: min(i % 3 + 1, rows) for i in range(300) if i != 7}


REFUSED = [
    (lambda v, p, r: v.join(p, on="town"), "Add 'id': 'id' to on"),
    (lambda v, p, r: v.join(p, on="id", rows=10**6), "at most 10,000"),
    (lambda v, p, r: v.union(r), "belong to no unit"),
    (lambda v, p, r: v.per_unit(n="sum(cost) OVER ()"), "not one aggregate"),
    (lambda v, p, r: v.per_unit(n="count(*)) FROM x --"), "SQL"),
    (lambda v, p, r: v.per_unit(n="sum((SELECT 1))"), "subquery"),
    (lambda v, p, r: v.per_unit(n="sum(sum(n))"), "not a function of a single row"),
    (lambda v, p, r: v.per_unit(n="sum(random())"), "random"),
    (lambda v, p, r: v.per_unit(n="sum(n) FILTER (WHERE count(*) > 1)"), "count_star|count"),
    (lambda v, p, r: r.with_columns(x="random()"), "random"),
]  # fmt: skip


def test_what_is_not_unit_local_is_refused():
    v, p = (sf.scan(table(TYPES[n], []), privacy_unit="id") for n in ("visits", "people"))
    for ask, says in REFUSED:
        with pytest.raises((QueryError, ColumnError, ParameterError), match=says):
            ask(v, p, sf.public(REGIONS))


@pytest.mark.long
def test_equal_values_that_are_not_the_same_are_no_matter_of_order():
    days = duckdb.sql("SELECT 1 AS id, CASE WHEN i % 2 = 0 THEN INTERVAL 30 DAY ELSE INTERVAL 1 MONTH END AS x "
                      "FROM range(40) t(i)").to_arrow_table()  # fmt: skip
    found = []
    for rows in (days, days.take(list(range(39, -1, -1)))):
        asked = sf.scan(rows, privacy_unit="id")
        with pytest.raises(QueryError, match="values can be equal but not identical"):
            asked.per_unit(m="max(x)")
        found.append(
            rows_of(asked.per_unit(n="count(*)").join(asked, on="id", rows=7).with_columns(t="x::VARCHAR"))
        )
    assert found[0] == found[1]
    nans = [struct.unpack("d", struct.pack("Q", bits))[0] for bits in (0x7FF8 << 48, (0xFFF8 << 48) + 1)]
    made = [sf.scan(table(TYPES["visits"], [(1.0, "A", x, 0) for x in order]), privacy_unit="id").per_unit(
        s="sum(cost)", m="max(cost)", a="avg(cost)", l="min(cost)") for order in (nans, nans[::-1])]  # fmt: skip
    assert rows_of(made[0]) == rows_of(made[1])


@pytest.mark.long
def test_which_rows_meet_is_no_matter_of_order_where_values_are_equal_and_not_the_same():
    left = sf.scan(table(TYPES["visits"], [(1.0, "A", 1.0, 1)]), privacy_unit="id")
    values = [0.0, -0.0, 0.0, -0.0, float("nan"), -float("nan"), 1.0]
    found = []
    for turn in range(0, len(values), 2):
        made = table(TYPES["visits"], [(1.0, "A", x, 0) for x in [*values[turn:], *values[:turn]]])
        joined = left.join(sf.scan(made, privacy_unit="id"), on="id", rows=3)
        found.append(rows_of(joined.with_columns(t="CAST(cost_right AS VARCHAR)")))
    assert all(one == found[0] for one in found)
