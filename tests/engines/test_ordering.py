"""Orders of rows are total: nothing follows from where rows lie in memory, and one module writes them."""

import random

import duckdb
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb.ordering import identity_terms, row_identity
from sfumato.engines.duckdb.row_steps import make_column

from .made_rows import rows_of
from .tiers import some

# Of each type values that may be equal and not the same, as DuckDB writes them.
ALIKE = {
    "DOUBLE": ["0.0", "'-0.0'", "'nan'", "-('nan'::DOUBLE)", "'inf'", "1e300"],
    "FLOAT": ["0.0", "'-0.0'", "'nan'", "-('nan'::FLOAT)"],
    "INTERVAL": ["'30 days'", "'1 month'", "'720 hours'", "'29 days 24 hours'"],
    "DOUBLE[]": ["[0.0]", "['-0.0'::DOUBLE]", "[]", "[NULL]"],
    "STRUCT(a DOUBLE, b VARCHAR)": ["{'a': 0.0, 'b': 'x'}", "{'a': '-0.0'::DOUBLE, 'b': 'x'}", "{'a': NULL, 'b': 'x'}"],
    "VARCHAR[]": ["['a, b']", "['a', 'b']", "['NULL']", "[NULL]"],
    "MAP(VARCHAR, INTEGER)": ["MAP {'a': 1, 'b': 2}", "MAP {'b': 2, 'a': 1}"],
    "TIME WITH TIME ZONE": ["'12:00:00+00'", "'13:00:00+01'"],
    "BIT": ["'01'", "'001'", "'1'"],
    "BLOB": ["'A'", r"'\x00'", r"'\x5Cx00'"],
    "VARCHAR": ["'a'", "'A'", "'é'", "'e\u0301'", "''"],
    "DECIMAL(37,2)": ["0.00", "1.50"],
}  # fmt: skip


def test_only_the_same_values_are_tied():
    session = duckdb.connect()
    for kind, alike in ALIKE.items():
        values = [f"CAST({value} AS {kind})" for value in [*alike, "NULL"]]
        terms = ", ".join(identity_terms("x", {"x": make_column(kind, True)}))
        rows = " UNION ALL ".join(f"SELECT {i} AS i, {value} AS x" for i, value in enumerate(values))
        ranks = session.execute(
            f"SELECT i, rank() OVER (ORDER BY {terms}) FROM ({rows}) AS v, range(3)"
        ).fetchall()
        assert len({rank for _, rank in ranks}) == len(values), kind
        assert all(len({rank for i, rank in ranks if i == one}) == 1 for one in range(len(values)))


def test_texts_of_a_column_with_a_collation_are_told_apart():
    session = duckdb.connect()
    session.execute(
        "CREATE TABLE t (x VARCHAR COLLATE NOCASE); INSERT INTO t VALUES ('a'), ('A'), ('á'), ('Á')"
    )
    terms = ", ".join(row_identity({"x": make_column("VARCHAR", True)}))
    assert session.execute(f"SELECT count(DISTINCT r) FROM (SELECT rank() OVER (ORDER BY {terms}) AS r FROM t)").fetchall() == [(4,)]  # fmt: skip


COPIES = (
    "SELECT id, row_number() OVER (PARTITION BY id ORDER BY n) AS a, lag(x) OVER (PARTITION BY id ORDER BY n DESC) AS b, "
    "count(x) OVER (PARTITION BY id, n ORDER BY f ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING) AS c, n, x FROM self"
)


@pytest.mark.long
def test_two_windows_give_copies_of_a_row_their_values_in_one_way():
    """A copy has a place in each of several orders. Which of these places are those of one copy is not left open."""
    chance, places = random.Random(4), range(90)
    made = {
        "id": [i % 3 for i in places],
        "n": [i % 2 for i in places],
        "f": [0.0] * 90,
        "x": [i % 5 % 2 for i in places],
    }
    rows = pa.table(made)
    found = [
        rows_of(sf.scan(rows.take(chance.sample(places, 90)), privacy_unit="id").sql(COPIES))
        for _ in range(2)
    ]
    assert found[0] == found[1]
    asked = sf.scan(rows, privacy_unit="id").sql(COPIES)
    assert "valuecopy" in asked._engine.rows_after(asked._part).source.relation


@pytest.mark.long
def test_one_person_does_not_turn_the_order_of_all_rows():
    """With 15,000 rows of one person DuckDB builds the join on its other side."""
    people = range(600)
    orders = pa.table({"id": [i for i in people for _ in (0, 1)], "d": [0] * 1200, "x": [0, 1] * 600})
    text = (
        "SELECT id, x FROM (SELECT q.id, q.d, q.x FROM orders AS q LEFT JOIN visits AS r ON q.id = r.id) AS j "
        "QUALIFY row_number() OVER (PARTITION BY id ORDER BY d RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) = 1"
    )
    found = []
    for more in (0, 15_000):
        visits = pa.table({"id": [*people, *[0] * more]})
        known = {
            name: sf.scan(rows, privacy_unit="id") for name, rows in (("orders", orders), ("visits", visits))
        }
        found.append(rows_of(known["orders"].sql(text, tables=known)))
    assert found[0] == found[1] and sum(x for _, x in found[0]) == 0


TIED_TOWNS = pa.table(
    {"town": [f"t{i}" for i in range(50)], "pop": [1] * 50, "share": [0.1, 0.2, 0.3, 1e16, -1e16] * 10}
)
OPEN = [
    "(SELECT town FROM towns ORDER BY pop LIMIT 1)",
    "(SELECT any_value(town) FROM towns)",
    "(SELECT arg_max(town, pop) FROM towns)",
    "(SELECT sum(share) FROM towns)",
    "(SELECT DISTINCT ON (pop) town FROM towns)",
]


@pytest.mark.parametrize("value", some(OPEN, 4))
def test_what_sql_on_public_tables_leaves_open_follows_from_their_rows_and_not_from_their_places(value):
    found, chance = set(), random.Random(value)
    people = sf.scan(pa.table({"id": [1]}), privacy_unit="id")
    for _ in range(4):
        towns = TIED_TOWNS.take(chance.sample(range(50), 50))
        asked = people.sql(f"SELECT id, {value} AS x FROM self", tables={"towns": sf.public(towns)})
        found |= set(rows_of(asked, reordered=False))
    assert len(found) == 1
