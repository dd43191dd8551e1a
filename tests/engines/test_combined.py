"""Joins, unions and aggregates of units: each row follows from one unit's rows and from public tables."""

from __future__ import annotations

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


CHAINS = {
    "join public": lambda v, p, r: v.join(r, on="town"),
    "left join public": lambda v, p, r: v.join(r, on="town", how="left").with_columns(x="region IS NULL"),
    "join private": lambda v, p, r: v.join(p, on="id"),
    "join private on more": lambda v, p, r: v.join(p, on=["town", "id"], how="left"),
    "join itself": lambda v, p, r: v.join(v.filter("cost > 0"), on=["id", "town"]),
    "few rows of a unit": lambda v, p, r: v.join(p, on="id", unit_rows=2).join(v, on=["id", "town"], unit_rows=3),
    "few rows": lambda v, p, r: v.join(p, on="id", rows=1),
    "union": lambda v, p, r: v.union(v.filter("town = 'A'").with_columns(cost="cost / 3")),
    "per unit": lambda v, p, r: v.per_unit(
        rows="count(*)",
        known="count(cost)",
        towns="count(DISTINCT town)",
        spent="sum(cost)",
        mean="avg(cost)",
        total="sum(n)",
        mean_n="avg(n)",
        low="min(cost) FILTER (WHERE n > 0)",
        high="max(town)",
        every="bool_and(cost > 0)",
        some="bool_or(n % 2 = 0)",
    ),
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
    towns, asked = (
        sf.public(REGIONS).filter("region IS NOT NULL"),
        sf.scan(table(TYPES["visits"], []), privacy_unit="id"),
    )
    assert not asked.join(towns, on="town").schema["region"].missing
    assert asked.join(towns, on="town", how="left").schema["region"].missing


def test_tables_of_other_databases_may_be_joined():
    v, p = [(1.0, "A", 0.5, 7), (1.0, "B", None, 8), (2.0, "A", 2.5, 9)], [(1.0, 30, "A"), (2.0, 31, "B")]

    def opened(name, rows):
        session = duckdb.connect()  # which its relation keeps
        session.register("given", rows)
        session.execute("CREATE TABLE t AS FROM given")
        return session.table("t")

    assert rows_of(chain("everything", v, p, opened)) == rows_of(chain("everything", v, p))
    asked = chain("join private on more", v, p, opened).with_columns(x="age + 1")
    plan = asked.bound(rows=9).agg(n=sf.count()).plan(epsilon=1)
    (batch,) = asked._engine.statistics(plan.exact, 100)
    assert batch.num_rows == 1 and str(batch.column(0)[0]) == "3"


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


def test_of_a_unit_and_key_only_so_many_rows_meet():
    v = [(1.0, "A", float(i), i) for i in range(3)] + [(2.0, "A", 1.0, i) for i in range(3)]
    p = [(1.0, i % 90, "A") for i in range(1200)] + [(2.0, 5, "A")]
    found = rows_of(chain("join private", v, p))
    whose = Counter(row[0] for row in found.elements())
    assert whose == {bits(1.0): 1000 * 3, bits(2.0): 3}
    assert rows_of(chain("join private", v, p[::-1])) == found
    assert "at most 1,000 of the right table" in str(chain("join private", v, p).notes)


REFUSED = [
    (lambda v, p, r: v.join(p, on="town"), "add 'id': 'id' to on"),
    (lambda v, p, r: v.join(r, on={"n": "town"}), "values of two types"),
    (lambda v, p, r: v.join(p, on="id", rows=10**6), "at most 10,000"),
    (lambda v, p, r: v.group_by("town").join(p, on="id"), "comes before group_by"),
    (lambda v, p, r: v.join(p.group_by("town"), on="id"), "comes before group_by"),
    (lambda v, p, r: v.union(r), "belong to no unit"),
    (lambda v, p, r: v.union(v.with_columns(n="n * 0.5")), "'n' is BIGINT here"),
    (lambda v, p, r: v.per_unit(id="count(*)"), "used twice"),
    (lambda v, p, r: v.per_unit(n="first(cost)"), "first is no aggregate"),
    (lambda v, p, r: v.per_unit(n="sum(cost) + 1"), "is no aggregate|not one aggregate"),
    (lambda v, p, r: v.per_unit(n="sum(cost) OVER ()"), "not one aggregate"),
    (lambda v, p, r: v.per_unit(n="sum(cost ORDER BY n)"), "with an order"),
    (lambda v, p, r: v.per_unit(n="sum(DISTINCT cost)"), "DISTINCT"),
    (lambda v, p, r: v.per_unit(n="sum(town)"), "takes a number"),
    (lambda v, p, r: v.per_unit(n="count(*)) FROM x --"), "SQL"),
    (lambda v, p, r: v.per_unit(n="sum((SELECT 1))"), "subquery"),
    (lambda v, p, r: v.per_unit(n="sum(sum(n))"), "not a function of one row"),
    (lambda v, p, r: v.per_unit(n="sum(random())"), "random"),
    (lambda v, p, r: v.per_unit(n="sum(n) FILTER (WHERE count(*) > 1)"), "count_star|count"),
    (lambda v, p, r: v.per_unit(n="main.sum(n)"), "not one aggregate"),
    (lambda v, p, r: r.with_columns(x="random()"), "random"),
]  # fmt: skip


def test_what_is_not_unit_local_is_refused():
    v, p = (sf.scan(table(TYPES[n], []), privacy_unit="id") for n in ("visits", "people"))
    for ask, says in REFUSED:
        with pytest.raises((QueryError, ColumnError, ParameterError), match=says):
            ask(v, p, sf.public(REGIONS))


def test_columns_that_are_written_out_again_and_again_are_refused_across_joins():
    asked = sf.scan(table(TYPES["visits"], [(1.0, "A", 1.0, 1)]), privacy_unit="id")
    towns = sf.public(REGIONS.select(["town"]))
    with pytest.raises(QueryError, match="longer than|texts"):
        for _ in range(40):
            asked = asked.with_columns(town="concat(town, town)").join(towns, on="town")


def test_no_question_is_larger_than_its_limits():
    asked = sf.scan(table(TYPES["visits"], [(1.0, "A", 1.0, 1)]), privacy_unit="id")
    with pytest.raises(QueryError, match="more than 60 joins, unions and per_unit"):
        for _ in range(30):
            asked = asked.union(asked)
    towns, asked = sf.public(REGIONS.select(["town"])), sf.scan(table(TYPES["visits"], []), privacy_unit="id")
    with pytest.raises(QueryError, match="more than 60 joins, unions and per_unit"):
        for _ in range(300):
            asked = asked.join(towns, on="town")


def test_equal_values_that_are_not_the_same_are_no_matter_of_order():
    days = duckdb.sql("SELECT 1 AS id, CASE WHEN i % 2 = 0 THEN INTERVAL 30 DAY ELSE INTERVAL 1 MONTH END AS x "
                      "FROM range(40) t(i)").to_arrow_table()  # fmt: skip
    found = []
    for rows in (days, days.take(list(range(39, -1, -1)))):
        asked = sf.scan(rows, privacy_unit="id")
        with pytest.raises(QueryError, match="two may be equal and not the same"):
            asked.per_unit(m="max(x)")
        found.append(
            rows_of(asked.per_unit(n="count(*)").join(asked, on="id", rows=7).with_columns(t="x::VARCHAR"))
        )
    assert found[0] == found[1]
    nans = [struct.unpack("d", struct.pack("Q", bits))[0] for bits in (0x7FF8 << 48, (0xFFF8 << 48) + 1)]
    made = [sf.scan(table(TYPES["visits"], [(1.0, "A", x, 0) for x in order]), privacy_unit="id").per_unit(
        s="sum(cost)", m="max(cost)", a="avg(cost)", l="min(cost)") for order in (nans, nans[::-1])]  # fmt: skip
    assert rows_of(made[0]) == rows_of(made[1])


def test_which_rows_meet_is_no_matter_of_order_where_values_are_equal_and_not_the_same():
    left = sf.scan(table(TYPES["visits"], [(1.0, "A", 1.0, 1)]), privacy_unit="id")
    values = [0.0, -0.0, 0.0, -0.0, float("nan"), -float("nan"), 1.0]
    found = []
    for turn in range(0, len(values), 2):
        made = table(TYPES["visits"], [(1.0, "A", x, 0) for x in [*values[turn:], *values[:turn]]])
        joined = left.join(sf.scan(made, privacy_unit="id"), on="id", rows=3)
        found.append(rows_of(joined.with_columns(t="CAST(cost_right AS VARCHAR)")))
    assert all(one == found[0] for one in found)


LABELS = [f"w{i}" for i in range(8)]
OF_LABELS = {"flat": "{0}", "struct": "{{'a': {0}}}", "list": "[{0}]"}


def of_one_unit(folder, labels, form) -> sf.Table:
    """Return a row of one unit for each label, whose type has the labels in this order."""
    folder.mkdir()
    with duckdb.connect(str(folder / "t.duckdb")) as session:
        session.execute(f"CREATE TYPE label AS ENUM ({', '.join(map(repr, labels))})")
        value = OF_LABELS[form].format("w::label")
        session.execute(f"CREATE TABLE t AS SELECT 1 AS id, {value} AS w FROM unnest({LABELS}) l(w)")
    return sf.scan(f"{folder}/t.duckdb/t", privacy_unit="id")


def kept(folder, labels, form) -> dict[str, Counter]:
    """Return which rows are kept where others' rows may have made the type: in a join, and in a window."""
    asked = of_one_unit(folder, labels, form)
    joined = sf.scan(pa.table({"id": [1]}), privacy_unit="id").join(asked, on="id", rows=3)
    first = "SELECT id, w::VARCHAR AS w FROM self QUALIFY row_number() OVER (PARTITION BY id) <= 3"
    return {
        "join": rows_of(joined.sql("SELECT id, w::VARCHAR AS w FROM self")),
        "window": rows_of(asked.sql(first)),
    }


@pytest.mark.parametrize("form", some(OF_LABELS, 3))
def test_which_rows_are_kept_is_no_matter_of_the_order_of_a_type(form, tmp_path):
    found = [kept(tmp_path / f"{turn}", [*LABELS[turn:], *LABELS[:turn]], form) for turn in range(0, 8, 2)]
    assert found[0] == found[1] == found[2] == found[3]
    assert [sum(rows.values()) for rows in found[0].values()] == [3, 3]
