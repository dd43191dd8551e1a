"""Conditions in parts, of which comparisons stand without TRY: they raise on no value, and keep the same rows."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sfumato.engines.duckdb.expressions import validated, validation
from sfumato.errors import SfumatoError
from sfumato.query.schema import Column, Kind

from .random_expressions import AWKWARD, SCHEMA, expression, rows

COMPARED = [name for name, (kind, _) in AWKWARD.items() if validation._COMPARED.fullmatch(kind)]


@pytest.fixture(scope="module")
def awkward(tmp_path_factory):
    """A database with every awkward value, all optimizers on: as a table, and as a file where types allow it."""
    path = tmp_path_factory.mktemp("awkward") / "rows.parquet"
    with duckdb.connect() as connection:
        made = rows(list(AWKWARD))
        texts = pa.table({name: pa.array(values, pa.string()) for name, (_, values) in made.items()})
        connection.register("texts", texts)
        typed = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, (kind, _) in made.items())
        connection.execute(f"CREATE TABLE rows AS SELECT {typed} FROM texts")
        columns = ", ".join(f'"{name}"' for name in COMPARED)
        connection.execute(f"COPY (SELECT {columns} FROM rows) TO '{path}' (ROW_GROUP_SIZE 2048)")
        connection.execute(f"CREATE VIEW file AS FROM read_parquet('{path}')")
        yield connection


def kept(connection: duckdb.DuckDBPyConnection, relation: str, where: str) -> list[tuple]:
    seen = "count(*), bit_xor(hash(rows)), sum(hash(rows))"
    return connection.execute(f"SELECT {seen} FROM {relation} AS rows WHERE {where}").fetchall()


def alike(connection: duckdb.DuckDBPyConnection, relation: str, text: str, schema: dict[str, Column]) -> str:
    """Hold a condition to the whole expression under TRY; return it."""
    one = validated("filter", text, schema)
    whole = f"TRY(TRY_CAST((\n{one.text}\n) AS BOOLEAN))"
    assert kept(connection, relation, one.condition) == kept(connection, relation, whole), text
    return one.condition


def comparisons(name: str, kind: str, values: list[str | None]) -> list[str]:
    others = [f"CAST('{v}' AS {kind})" for v in values if v is not None]
    others += [n for n in COMPARED if AWKWARD[n][0] == kind]
    signs = ("=", "<>", "<", ">", "<=", ">=")
    made = [f"{name} {sign} {other}" for sign in signs for other in others]
    made += [f"{name} BETWEEN {low} AND {high}" for low in others[:3] for high in others[-3:]]
    return [*made, f"{name} IS NOT NULL"]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "da" else pytest.mark.long) for n in COMPARED]
)
def test_a_plain_comparison_raises_on_no_value(awkward, name):
    kind, values = AWKWARD[name]
    described = awkward.execute("DESCRIBE file").fetchall()
    of_file = {row[0]: Column(Kind.OTHER, row[1]) for row in described}
    for text in comparisons(name, kind, values):
        assert "TRY" not in alike(awkward, "rows", text, SCHEMA)
        alike(awkward, "file", text, of_file)  # which has DOUBLE in the place of HUGEINT, and casts


def test_what_may_fail_stands_under_try():
    for text in (
        "CAST(s AS INTEGER) > 5",
        "i + 1 > 5",
        "s = 'a'",
        "i = a",  # of which one is cast
        "bo",
        "NOT bo",
        "i > 5 OR a > 5",
        "st.k > 5",
        "bl = bl",
        "tm > TIME '12:00:00'",
        "l = l",
    ):
        assert validated("filter", text, SCHEMA).condition.startswith("TRY("), text
    assert validated("filter", "i > 5 AND s = 'a'", SCHEMA).condition.count("TRY(") == 1


def test_many_parts_stay_together(awkward):
    few, many = (" AND ".join(f"i <> {n}" for n in range(1000, 1000 + count)) for count in (50, 51))
    assert "TRY" not in alike(awkward, "rows", few, SCHEMA)
    assert alike(awkward, "rows", many, SCHEMA).startswith("TRY(")


def test_parts_are_cut_at_and_alone(awkward):
    chance = random.Random(1)
    for _ in range(5):
        parts = [chance.choice(comparisons(n, *AWKWARD[n])) for n in chance.choices(COMPARED, k=3)]
        one, two, three = parts
        for text in (
            f"{one} AND {two} AND {three}",
            f"{one} OR {two}",
            f"({one} OR {two}) AND {three}",
            f"NOT ({one} AND {two}) AND {three}",
        ):
            alike(awkward, "rows", text, SCHEMA)


@pytest.mark.long
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_any_condition_keeps_what_its_expression_keeps(awkward, chance, depth):
    text = " AND ".join(f"({expression(chance, list(AWKWARD), depth)})" for _ in range(chance.randint(1, 3)))
    try:
        validated("filter", text, SCHEMA)
    except SfumatoError:
        return
    alike(awkward, "rows", text, SCHEMA)
