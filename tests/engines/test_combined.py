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
from sfumato.engines.duckdb import combinations, sanitized_columns, unit_aggregates
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


@pytest.mark.parametrize("name", some(CHAINS, 3))
@given(
    st.lists(visits, max_size=25),
    st.lists(people, max_size=12),
    st.sets(st.sampled_from(["1.0", "2.0", "0.0", "nan"])),
)
@settings(max_examples=6, deadline=None)
def test_rows_of_some_units_are_the_same_without_the_others(name, v, p, chosen):
    whole = rows_of(chain(name, v, p))
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


@pytest.mark.parametrize("name", some(CHAINS, 4))
@given(st.lists(visits, max_size=25), st.lists(people, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=5, deadline=None)
def test_the_order_of_rows_changes_nothing(name, v, p, chance):
    # Of an equal pair such as 0.0 and -0.0 a group keeps either; the statistics make them one.
    v = [(abs(r[0]) if r[0] == 0 else r[0], *r[1:]) for r in v]
    before = rows_of(chain(name, v, p))
    chance.shuffle(v)
    chance.shuffle(p)
    assert rows_of(chain(name, v, p)) == before


def test_a_sum_in_the_order_of_rows_would_be_found(monkeypatch):
    def planted(where, function, one, distinct):
        return unit_aggregates.UnitAggregate(one.text, f"{function}({{}})".format, "DOUBLE")

    rows = [(1.0, "A", x, 0) for x in (0.1, 0.2, 0.3, 1e10, -1e10)]
    for same in (True, False):
        asked = [
            sf.scan(table(TYPES["visits"], r), privacy_unit="id").per_unit(x="sum(cost)")
            for r in (rows, rows[::-1])
        ]
        found = [rows_of(one, reordered=False) for one in asked]
        assert (found[0] == found[1]) is same
        monkeypatch.setattr(unit_aggregates, "_of", planted)


def test_a_join_that_forgets_the_unit_would_be_found(monkeypatch):
    real = combinations._side
    # The unit is the second of two keys; here only whether there is one is compared.
    monkeypatch.setattr(
        combinations, "_side", lambda *given: real(*given).replace("AS k1", "IS NOT NULL AS k1")
    )
    v, p = [(1.0, "A", 1.0, 1), (2.0, "A", 1.0, 1)], [(1.0, 20, "A"), (2.0, 30, "A")]
    parts = [rows_of(chain("join private on more", v[i : i + 1], p[i : i + 1])) for i in (0, 1)]
    assert rows_of(chain("join private on more", v, p)) != parts[0] + parts[1]


doubles = st.floats(width=64) | st.sampled_from(
    [0.1, 2.0**-47, 2.0**-48, 2.0**29, 2.0**67, 2.0**66, 5e-324, 1e308]
)


@pytest.mark.long
@given(st.lists(doubles, min_size=1, max_size=30), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
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


@pytest.mark.parametrize("kind", ["parquet", "csv", "database", "relation", "pandas"])
def test_every_source_may_be_joined(kind, tmp_path):
    v, p = [(1.0, "A", 0.5, 7), (1.0, "B", None, 8), (2.0, "A", 2.5, 9)], [(1.0, 30, "A"), (2.0, 31, "B")]
    kept = []

    def opened(name, rows):
        path = tmp_path / f"{name}.{kind}"
        if kind == "parquet":
            pq.write_table(rows, path)
            return path
        if kind == "csv":
            duckdb.from_arrow(rows).write_csv(str(path))
            return path
        if kind == "pandas":
            return rows.to_pandas()
        path = tmp_path / f"{name}.duckdb"
        if kind == "database" and path.exists():
            return f"{path}/t"
        session = duckdb.connect(str(path) if kind == "database" else ":memory:")
        session.register("given", rows)
        session.execute("CREATE TABLE t AS FROM given")
        if kind == "relation":
            kept.append(session)
            return session.table("t")
        session.close()
        return f"{path}/t"

    asked = chain("join private on more", v, p, opened).with_columns(x="age + 1")
    assert sorted(map(str, rows_of(asked))) == sorted(
        map(str, rows_of(asked_of_arrow := chain("join private on more", v, p).with_columns(x="age + 1")))
    )
    assert {n: c.type_name for n, c in asked.schema.items()}.keys() == asked_of_arrow.schema.keys()
    assert rows_of(chain("everything", v, p, opened)) == rows_of(chain("everything", v, p))
    plan = asked.bound(rows=9).agg(n=sf.count()).plan(epsilon=1)
    (batch,) = asked._engine.statistics(plan.exact, 100)
    assert batch.num_rows == 1 and str(batch.column(0)[0]) == "3"


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("few", [1, 10**9])
def test_rows_are_found_to_be_too_many_in_buckets_or_not(rows, few, monkeypatch, tmp_path):
    """Of 300 units with 1 to 3 rows of a key, and one without a number."""
    monkeypatch.setattr(sizes, "COUNTED_ROWS", few)
    ids = [None if i == 7 else i for i in range(300) for _ in range(i % 3 + 1)]
    made = pa.table({"id": pa.array(ids, pa.int32()), "n": range(len(ids))})
    pq.write_table(made, tmp_path / "rows.parquet")
    right = sf.scan(tmp_path / "rows.parquet", privacy_unit="id")
    left = sf.scan(pa.table({"id": pa.array(range(300), pa.int32())}), privacy_unit="id")
    met = Counter(row[0] for row in rows_of(left.join(right, on="id", rows=rows)).elements())
    assert met == {i: min(i % 3 + 1, rows) for i in range(300) if i != 7}


def test_rows_that_are_too_many_and_not_looked_for_would_be_found(monkeypatch):
    left, right = (sf.scan(pa.table({"id": [1] * n}), privacy_unit="id") for n in (1, 3))
    assert rows_of(left.join(right, on="id", rows=2)).total() == 2
    real = combinations._over
    monkeypatch.setattr(combinations, "_over", lambda *given: real(*given[:3], 9))
    assert rows_of(left.join(right, on="id", rows=2)).total() == 3


def test_of_a_unit_and_key_only_so_many_rows_meet():
    v = [(1.0, "A", float(i), i) for i in range(50)] + [(2.0, "A", 1.0, i) for i in range(3)]
    p = [(1.0, i % 90, "A") for i in range(3000)] + [(2.0, 5, "A")]
    found = rows_of(chain("join private", v, p))
    whose = Counter(row[0] for row in found.elements())
    assert whose == {bits(1.0): 1000 * 50, bits(2.0): 3}
    assert rows_of(chain("join private", v, p[::-1])) == found
    assert "at most 1,000 of the right table" in str(chain("join private", v, p).notes)


REFUSED = [
    (lambda v, p, r: v.join(p, on="town"), "add 'id': 'id' to on"),
    (lambda v, p, r: v.join(p, on={"id": "age"}), "BIGINT|add 'id': 'id'|values of two types"),
    (lambda v, p, r: v.join(r, on="region"), "region"),
    (lambda v, p, r: v.join(r, on={"n": "town"}), "values of two types"),
    (lambda v, p, r: v.join(r, on=[]), "on says which columns"),
    (lambda v, p, r: v.join(r, on=7), "on says which columns"),
    (lambda v, p, r: v.join(r, on="town", how="full"), "how"),
    (lambda v, p, r: v.join(REGIONS, on="town"), "join"),
    (lambda v, p, r: v.join(p, on="id", rows=0), "rows"),
    (lambda v, p, r: v.join(p, on="id", rows=10**6), "at most 10,000"),
    (lambda v, p, r: v.group_by("town").join(p, on="id"), "comes before group_by"),
    (lambda v, p, r: v.join(p.group_by("town"), on="id"), "comes before group_by"),
    (lambda v, p, r: v.union(p), "union: "),
    (lambda v, p, r: v.union(r), "belong to no unit"),
    (lambda v, p, r: v.union(v.with_columns(n="n * 0.5")), "'n' is BIGINT here"),
    (lambda v, p, r: v.per_unit(), "nothing is asked"),
    (lambda v, p, r: v.per_unit("nothing", n="count(*)"), "nothing"),
    (lambda v, p, r: v.per_unit(id="count(*)"), "used twice"),
    (lambda v, p, r: v.per_unit("town", town="count(*)"), "used twice"),
    (lambda v, p, r: v.per_unit(n="first(cost)"), "first is no aggregate"),
    (lambda v, p, r: v.per_unit(n="list(cost)"), "list is no aggregate"),
    (lambda v, p, r: v.per_unit(n="summ(cost)"), "did you mean sum"),
    (lambda v, p, r: v.per_unit(n="sum(cost) + 1"), "is no aggregate|not one aggregate"),
    (lambda v, p, r: v.per_unit(n="sum(cost) OVER ()"), "not one aggregate"),
    (lambda v, p, r: v.per_unit(n="sum(cost ORDER BY n)"), "with an order"),
    (lambda v, p, r: v.per_unit(n="sum(DISTINCT cost)"), "DISTINCT"),
    (lambda v, p, r: v.per_unit(n="sum(town)"), "takes a number"),
    (lambda v, p, r: v.per_unit(n="bool_or(n)"), "takes a condition"),
    (lambda v, p, r: v.per_unit(n="count(*), sum(n)"), "row is no aggregate"),
    (lambda v, p, r: v.per_unit(n="count(*)) FROM x --"), "SQL"),
    (lambda v, p, r: v.per_unit(n="sum((SELECT 1))"), "subquery"),
    (lambda v, p, r: v.per_unit(n="sum(sum(n))"), "not a function of one row"),
    (lambda v, p, r: v.per_unit(n="sum(random())"), "random"),
    (lambda v, p, r: v.per_unit(n="sum(n) FILTER (WHERE count(*) > 1)"), "count_star|count"),
    (lambda v, p, r: v.per_unit(n="main.sum(n)"), "not one aggregate"),
    (lambda v, p, r: v.per_unit(n="sum(oops)"), "oops"),
    (lambda v, p, r: v.per_unit(n=7), "must be SQL of one aggregate"),
    (lambda v, p, r: v.per_unit(7, n="count(*)"), "names of columns"),
    (lambda v, p, r: r.filter("nothing > 1"), "nothing"),
    (lambda v, p, r: r.with_columns(x="random()"), "random"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_not_unit_local_is_refused(number):
    ask, says = REFUSED[number]
    v, p = (sf.scan(table(TYPES[n], []), privacy_unit="id") for n in ("visits", "people"))
    with pytest.raises((QueryError, ColumnError, ParameterError), match=says):
        ask(v, p, sf.public(REGIONS))


def test_columns_that_are_written_out_again_and_again_are_refused_across_joins():
    asked = sf.scan(table(TYPES["visits"], [(1.0, "A", 1.0, 1)]), privacy_unit="id")
    towns = sf.public(REGIONS.select(["town"]))
    with pytest.raises(QueryError, match="longer than|texts"):
        for _ in range(40):
            asked = asked.with_columns(town="concat(town, town)").join(towns, on="town")


def test_tables_that_are_read_elsewhere_do_not_meet_those_that_are_read_here():
    later = sf.scan(TYPES["visits"], privacy_unit="id")
    here = sf.scan(table(TYPES["visits"], []), privacy_unit="id")
    with pytest.raises(QueryError, match="not read by DuckDB"):
        here.join(later, on="id")


def test_no_question_is_larger_than_its_limits():
    asked = sf.scan(table(TYPES["visits"], [(1.0, "A", 1.0, 1)]), privacy_unit="id")
    with pytest.raises(QueryError, match="more than 60 joins, unions and per_unit"):
        for _ in range(30):
            asked = asked.union(asked)
    towns, asked = sf.public(REGIONS.select(["town"])), sf.scan(table(TYPES["visits"], []), privacy_unit="id")
    with pytest.raises(QueryError, match="more than 60 joins, unions and per_unit"):
        for _ in range(300):
            asked = asked.join(towns, on="town")


def test_a_question_after_a_combination_is_as_before():
    plain = (
        sf.scan(table(TYPES["visits"], [(1.0, "A", 1.0, 1)]), privacy_unit="id")
        .bound(rows=1)
        .agg(n=sf.count())
    )
    query = plain.plan(epsilon=1, noise="laplace").exact
    before = [batch.to_pylist() for batch in plain.table._engine.statistics(query, 10)]
    rows_of(chain("everything", [(1.0, "A", 1.0, 1)], [(1.0, 20, "A")]))
    assert [batch.to_pylist() for batch in plain.table._engine.statistics(query, 10)] == before


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


@pytest.mark.parametrize("rows", [1, 3, 5])
def test_which_rows_meet_is_no_matter_of_order_where_values_are_equal_and_not_the_same(rows):
    left = sf.scan(table(TYPES["visits"], [(1.0, "A", 1.0, 1)]), privacy_unit="id")
    values = [0.0, -0.0, 0.0, -0.0, float("nan"), -float("nan"), 1.0]
    found = []
    for turn in range(len(values)):
        right = sf.scan(
            table(TYPES["visits"], [(1.0, "A", x, 0) for x in [*values[turn:], *values[:turn]]]),
            privacy_unit="id",
        )
        found.append(
            rows_of(left.join(right, on="id", rows=rows).with_columns(t="CAST(cost_right AS VARCHAR)"))
        )
    assert all(one == found[0] for one in found)


def test_units_are_those_of_a_single_table(tmp_path):
    session = duckdb.connect(str(tmp_path / "t.duckdb"))
    session.execute(
        "CREATE TABLE t AS SELECT (10::HUGEINT ** 38)::HUGEINT + i AS id, 'infinity'::DATE AS d FROM range(3) t(i)"
    )
    session.close()
    asked = sf.scan(f"{tmp_path}/t.duckdb/t", privacy_unit="id")
    days = sf.public(pa.table({"d": pa.array([2**31 - 1], pa.int32()).cast(pa.date32())}))
    assert sum(rows_of(asked.per_unit("d", n="count(*)")).values()) == 3
    assert sum(rows_of(asked.join(asked, on="id")).values()) == 3
    assert list(days.schema) == ["d"]


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


@pytest.mark.parametrize("form", OF_LABELS)
def test_which_rows_are_kept_is_no_matter_of_the_order_of_a_type(form, tmp_path):
    found = [kept(tmp_path / f"{turn}", [*LABELS[turn:], *LABELS[:turn]], form) for turn in range(0, 8, 2)]
    assert found[0] == found[1] == found[2] == found[3]
    assert [sum(rows.values()) for rows in found[0].values()] == [3, 3]


def test_an_order_by_the_place_in_a_type_would_be_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sanitized_columns, "with_texts", lambda kind: kind)
    found = [kept(tmp_path / f"{turn}", [*LABELS[turn:], *LABELS[:turn]], "flat") for turn in range(0, 8, 2)]
    assert all(any(one[by] != found[0][by] for one in found) for by in ("join", "window"))
