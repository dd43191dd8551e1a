"""A limit of a unit's rows over all its groups, on every engine: which rows are kept, and what then is added up."""

from collections import Counter
from dataclasses import replace
from datetime import date
from itertools import combinations, product
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato.transformations as tf
from sfumato.engines.duckdb.contribution_limits import limit_rows
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.stages import Stages
from sfumato.query.engine_protocol import ExactQuery
from tests.support.cases import Case, Result, cases, evaluated, generated, same

SALT = 77
COLUMNS = ["u", "k0", "y0"]
HASH = f"hash(hash({SALT}::UBIGINT, u, k0, y0, copy))"
HASHES = {
    "itself": HASH,
    "constant": "0::UBIGINT",
    "one bit": f"({HASH} & 1::UBIGINT)",
    "of the copy alone": "hash(copy)",
    "of the row without its copy": "hash(u, k0, y0)",
}


def small_rows() -> pa.Table:
    """Units with 1 to 60 rows, many of which are equal, and some with NULL in group or value."""
    rng = np.random.default_rng(3)
    unit = np.repeat(np.arange(80), rng.integers(1, 60, 80))
    group, value = rng.integers(0, 5, len(unit)).tolist(), rng.integers(0, 3, len(unit)).tolist()
    return pa.table(
        {
            "u": unit,
            "k0": pa.array([None if g == 4 else g for g in group], pa.int64()),
            "y0": pa.array([None if v == 2 else v for v in value], pa.int64()),
        }
    )


def kept(steps: dict[str, str], hashed: str = HASH) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.register("source", small_rows())
    connection.execute("SET TimeZone = 'UTC'")
    written = ", ".join(f"{name} AS ({body.replace(HASH, hashed)})" for name, body in steps.items())
    return connection.execute(f"WITH {written} FROM near ORDER BY ALL").fetchall()


def ranked(limit: int, hashed: str) -> list[tuple[Any, ...]]:
    """All rows of all units ranked, each with the number of its copy."""
    copies = "SELECT u, k0, y0, row_number() OVER (PARTITION BY u, k0, y0) AS copy FROM source"
    order = f"row_number() OVER (PARTITION BY u ORDER BY {hashed}, k0, y0, copy)"
    return kept({"near": f"SELECT u, k0, y0 FROM ({copies}) QUALIFY {order} <= {limit}"})


def test_the_same_rows_as_by_ranking_all() -> None:
    for (kind, hashed), limit in product(HASHES.items(), (1, 7, 2**31)):
        assert kept(limit_rows("source", COLUMNS, limit, SALT), hashed) == ranked(limit, hashed), (
            kind,
            limit,
        )
    # Another order and another limit are seen.
    found = kept(limit_rows("source", COLUMNS, 7, SALT))
    assert found != ranked(7, HASHES["one bit"]) and found != ranked(6, HASH)


def in_all(case: Case, total: int) -> ExactQuery:
    return replace(case.query(), groups=total, total_rows=total)


@pytest.mark.long
@generated(12, local=True, case=lambda engine: cases(engine, binding=False))
def test_where_nobody_reaches_the_limit_an_engine_computes_the_definition(engine, case):
    chain = tf.bound_total_rows(40)
    counted = tf.per_group(case.statistics, groups=40)
    answer = counted.function(chain(case.rows))
    expected = {key: {name: n for name, n in total.items() if n} for key, total in answer.items()}
    found = evaluated(engine(case.columns), in_all(case, 40))
    assert same(found, expected if case.keys else {(): expected.get((), {})})


STATISTICS = (
    tf.CountUnits(),
    tf.Count(3),
    tf.Count(3, "x", -4),
    tf.Moments("m", "x", 3, tf.ValueGrid(-2, -40, 40), True, 0, 0, 100),
    tf.UnitSum("s", "x", -2, -20, 36, False),
    tf.QuantileTree("q", "x", 3, 0.0, 16.0, -2),
    tf.ValueTree("v", "x", 3, tf.Lattice(0.0, 16.0, whole=True), -2, (1, 4)),
)


def by_units() -> tuple[pa.Table, list[tf.Row]]:
    """Units with one to eight rows each, in groups of their own, so that what each adds is seen."""
    rng = np.random.default_rng(11)
    rows = [
        tf.Row(
            int(unit), (int(unit), int(rng.integers(0, 3))), {"x": rng.choice([None, -3.0, 2.5, 7.0, 15.0])}
        )
        for unit in np.repeat(np.arange(30), rng.integers(1, 9, 30))
    ]
    table = pa.table(
        {
            "unit": [row.unit for row in rows],
            "key 0": [row.key[0] for row in rows],
            "key 1": [row.key[1] for row in rows],
            "x": pa.array([row.values["x"] for row in rows], pa.float64()),
        }
    )
    return table, rows


def inadmissible(found: Result, rows: list[tf.Row], total: int) -> list[Any]:
    """Units whose numbers are those of no choice of `total` of their rows."""
    counted: Any = tf.per_group(STATISTICS, groups=total, total=total)
    wrong = []
    for unit in dict.fromkeys(row.unit for row in rows):
        own = [row for row in rows if row.unit == unit]
        mine = {key: numbers for key, numbers in found.items() if key[0] == unit}
        choices = combinations(own, min(total, len(own)))
        answers = (counted.function(tf.bound_total_rows(total)(list(choice))) for choice in choices)
        if not any(
            {key: {name: n for name, n in numbers.items() if n} for key, numbers in answer.items()} == mine
            for answer in answers
        ):
            wrong.append(unit)
    return wrong


@pytest.mark.long
@pytest.mark.parametrize("public", [True, pytest.param(False, marks=pytest.mark.long)])
def test_where_the_limit_binds_the_answer_is_that_of_some_choice_of_rows(local_engine, public) -> None:
    table, rows = by_units()
    keys = pa.table({"key 0": np.repeat(np.arange(30), 2), "key 1": np.tile([0, 2], 30)}) if public else None
    query = ExactQuery((), "unit", ("key 0", "key 1"), keys, 3, STATISTICS, total_rows=3)
    found = {key: numbers for key, numbers in evaluated(local_engine(table), query).items() if numbers}
    shown = [row for row in rows if not public or row.key[1] != 1]
    assert not inadmissible(found, shown, 3)
    # Of another limit, and with rows of other groups that take a place, some unit's numbers are not.
    assert inadmissible(evaluated(local_engine(table), replace(query, groups=2, total_rows=2)), shown, 3)
    if public:
        assert inadmissible(found, rows, 3)


@pytest.mark.long
def test_every_engine_keeps_the_rows_that_one_machine_does(local_engine, openers, fixed_salt) -> None:
    table, _ = by_units()
    for total in (1, 3):
        statistics = tuple(replace(s, rows=total) if hasattr(s, "rows") else s for s in STATISTICS)
        query = ExactQuery((), "unit", ("key 1",), None, total, statistics, total_rows=total)
        assert evaluated(local_engine(table), query) == evaluated(openers("duckdb")(table), query)
        whole = replace(query, keys=())
        assert evaluated(local_engine(table), whole) == evaluated(openers("duckdb")(table), whole)


PAIRS = pa.table(
    {"unit": [1, 1, 2], "day": [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 1)], "x": [0, 1, 0]}
)


@pytest.mark.long
@pytest.mark.parametrize("column", ["day", pytest.param("x", marks=pytest.mark.long)])
def test_all_numbers_of_a_release_are_of_the_same_rows(column: str) -> None:
    """Unit 1 keeps one of two rows: its x is 1 where its day differs from that of unit 2, and 0 where not."""
    statistics = tf.DistinctMatched(column, 1), tf.UnitSum("x", "x", 0, 0, 1, True), tf.Count(1)
    query, matched = ExactQuery((), "unit", (), None, 1, statistics, total_rows=1), statistics[0].names[0]
    found, staged = Counter[tuple[int, int]](), set()
    local = DuckDBEngine.open(PAIRS)
    prepared = Stages.prepare(local, PAIRS.schema, query, 1)
    for salt in range(8):
        (row,) = pa.Table.from_batches(local.statistics(query, 100, salt)).to_pylist()
        found[row[matched] - 1, row[statistics[1].names[0]]] += 1
        stages = replace(prepared, salt=salt)
        parts = [p.data for p in stages.partials(PAIRS.to_batches())]
        (again,) = stages.merged(None, [p.data for p in stages.totals(parts)], 100)
        staged.add(again.to_pylist() == [row])
    assert set(found) == {(0, 0), (1, 1)}  # of these salts both
    assert staged == {True}
