"""Generated databases and queries: a unit's rows follow from its own, and rows are those of plain SQL."""

import os
import random
from collections import Counter
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.question_check import _measure_change, _numbers
from tests.engines import made_rows
from tests.support.generated_queries import Database, Made, database, rows_made

MANY = int(os.environ.get("SFUMATO_GENERATED", "30"))
SALT = 0x9E3779B97F4A7C15
CHANCE = st.randoms(use_true_random=False)
SETTINGS: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def rows_of(made: Made, of: Database, reordered: bool = False) -> Counter:
    """Return the rows of units, bit for bit."""
    return made_rows.rows_of(made.chain(of.opened()), reordered)


def about(value: Any) -> Any:
    return f"{value + 0.0:.9g}" if isinstance(value, float) else value


def check_rows(made: Made, of: Database, chance: random.Random) -> None:
    """Units whose rows are there alone have the rows that they have among all."""
    units = of.units
    some = set(chance.sample(units, chance.randint(0, len(units))))
    whole = rows_of(made, of, reordered=True)
    halves = [
        rows_of(made, of.of(lambda u, mine=mine: u is not None and (u in some) == mine))
        for mine in (True, False)
    ]
    assert whole == halves[0] + halves[1], made.told


def check_numbers(made: Made, of: Database, chance: random.Random) -> None:
    """A unit more or less moves the exact numbers by no more than is claimed."""
    keys = made.columns_of("VARCHAR", "BIGINT", "BOOLEAN")
    key, rows, groups = chance.choice([None, *keys]), chance.randint(1, 3), chance.randint(1, 2)
    numbers = made.columns_of("BIGINT", "DOUBLE")
    wanted: dict[str, Any] = {"total": sf.count(), "people": sf.count_units()}
    if numbers:
        wanted["the mean"] = sf.mean(chance.choice(numbers), lower=-1, upper=4)
        wanted["the sum"] = sf.sum(chance.choice(numbers), lower=0, upper=8)

    def question(tables: Database) -> Any:
        table = made.chain(tables.opened())
        return (table.group_by(key) if key else table).bound(groups=groups, rows=rows).agg(**wanted)

    asked_of_all = question(of)
    plan = asked_of_all.plan(epsilon=1, delta=1e-6, noise=chance.choice(["laplace", "gaussian"]))
    before = _numbers(asked_of_all.table._part, plan, SALT)
    for gone in chance.sample(of.units, min(2, len(of.units))):
        without = question(of.of(lambda u, gone=gone: u != gone)).table
        after = _numbers(without._part, plan, SALT)
        assert _measure_change(plan, before, after) <= 1, (made.told, key, gone)


def plain(sql: str, of: Database) -> list[tuple[Any, ...]] | None:
    """Return what DuckDB gives; None where a sum or a product of wild values has no answer there."""
    with duckdb.connect() as connection:
        for name, rows in of.tables.items():
            connection.register(name, rows)
        try:
            return connection.execute(sql).fetchall()
        except (duckdb.OutOfRangeException, duckdb.ConversionException):
            return None


def check_meaning(made: Made, of: Database) -> None:
    """The rows are those of plain SQL."""
    expected = plain(made.sql, of)
    assert expected is not None
    columns = ", ".join(f'"{name}"' for name in made.columns)
    table = made.chain(of.opened())
    found = table._engine.rows_after(table._part)
    with found.source.session() as session:
        found.source.load(session, [name for name, _ in found.source.columns])
        rows = session.execute(f"SELECT {columns} FROM ({found.after(found.source.relation)})").fetchall()
    assert Counter(tuple(map(about, r)) for r in rows) == Counter(tuple(map(about, r)) for r in expected), (
        made.told
    )


def check_missing(made: Made, of: Database) -> None:
    """Columns of which it is found that no value is missing have one in each row."""
    table = made.chain(of.opened())
    columns = [name for name, column in table.schema.items() if not column.missing]
    found = table._engine.rows_after(table._part)
    with found.source.session() as session:
        found.source.load(session, [name for name, _ in found.source.columns])
        kept = ", ".join(f'"{name}"' for name in columns) or "NULL AS none"
        rows = session.execute(f"SELECT {kept} FROM ({found.after(found.source.relation)})").fetchall()
    assert not columns or not any(value is None or value != value for row in rows for value in row), made.told


def judge(chance: random.Random) -> None:
    of = database(chance)
    made = rows_made(chance, of, 6)
    check_rows(made, of, chance)
    check_numbers(made, of, chance)
    check_missing(made, of)
    if of.tame:
        check_meaning(made, of)


@pytest.mark.long
@given(CHANCE)
@settings(max_examples=MANY, **SETTINGS)
def test_many_generated_questions(chance: random.Random) -> None:
    """SFUMATO_GENERATED says how many."""
    judge(chance)
