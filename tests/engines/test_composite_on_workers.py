"""Privacy units of several columns where rows are on many machines: the statistics of one machine, to the bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.distributed_engine import DistributedEngine
from sfumato.engines.duckdb import combined_stages
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.scan import unit_table

from .made_rows import table
from .test_combined_on_workers import LocalEngine, statistics
from .test_composite_units import CHAINS, IDS, MONTHS, PARTS, PEOPLE, TIMES, VISITS
from .tiers import some

WEEKS = ["id", "date_trunc('week', ts)"]
ALONE: dict[str, tuple[list[str], Callable[[Any], Any]]] = {
    "weeks": (WEEKS, lambda v: v),
    "weeks, filtered": (WEEKS, lambda v: v.filter("n > 0").with_columns(m="month * 2")),
    "weeks with a public table": (WEEKS, lambda v: v.join(TOWNS, on="id", how="left")),
    "weeks, each one row": (WEEKS, lambda v: v.per_unit("month", n="sum(n)", last="max(ts)")),
    "three parts": ([*PARTS, "n % 2"], lambda v: v.per_unit(rows="count(*)", n="sum(n)")),
}
TOWNS = sf.public(pa.table({"id": ["a", "A", "", None], "town": ["Ulm", "Bonn", "Ulm", "Kiel"]}))


def rows_by_chance(seed: int) -> tuple[list[Any], list[Any]]:
    chance = random.Random(seed)
    some_of = chance.choice
    v = [(some_of(IDS), some_of(MONTHS), chance.randint(-5, 5), some_of(TIMES)) for _ in range(120)]
    return v, [(some_of(IDS), some_of(MONTHS), chance.randint(0, 99)) for _ in range(40)]


def asked(name: str, seed: int, opened: Callable[[pa.Table], Any]) -> Table[Any]:
    v, p = rows_by_chance(seed)

    def of(schema: pa.Schema, rows: Any, parts: list[str]) -> Table[Any]:
        return unit_table(opened(table(schema, rows)), "", parts, "Europe/Berlin")

    if name in ALONE:
        parts, made = ALONE[name]
        return made(of(VISITS, v, parts))
    return CHAINS[name](of(VISITS, v, PARTS), of(PEOPLE, p, PARTS))


@pytest.mark.parametrize("name", some([*CHAINS, *ALONE], 8))
@pytest.mark.parametrize("seed", some(range(3), 3))
def test_workers_compute_what_one_machine_does(name, seed, fixed_salt):
    found = statistics(asked(name, seed, lambda rows: LocalEngine(rows, seed)))
    assert found == statistics(asked(name, seed, DuckDBEngine.open))


def test_a_unit_whose_rows_go_to_two_workers_would_be_found(monkeypatch, fixed_salt):
    def differs() -> bool:
        found = statistics(asked("weeks, each one row", 0, lambda rows: LocalEngine(rows, 1)))
        return found != statistics(asked("weeks, each one row", 0, DuckDBEngine.open))

    assert not differs()
    real = combined_stages.sent
    monkeypatch.setattr(
        "sfumato.engines.distributed_engine.sent",
        lambda *given: replace(real(*given), unit_text='CAST("n" AS VARCHAR)'),
    )
    assert differs()


def test_columns_that_make_a_unit_move_and_no_others():
    def sent(name: str) -> tuple[bool, list[list[str]]]:
        question = asked(name, 0, LocalEngine).bound(rows=1).agg(n=sf.count())
        stages = question.table._engine.stages(question.plan(epsilon=1).exact, 3)
        return stages.by_rows, [t.rows.names for t in stages.tables]

    assert sent("weeks") == (True, [["id", "ts"]])
    assert sent("weeks, each one row") == (False, [["id", "month", "ts"]])
    assert sent("join") == (
        False,
        [["id", "month", "n", "ts"], ["id", "month", "age"]],
    )  # by all of which the rows of a unit that has too many are ordered


NAMES = ["weeks", "everything", *CHAINS, *ALONE]
# On both, and then on one after the other: stages without a cluster compute each of them, above.
BOTH = [(name, engine) for name in NAMES[:2] for engine in ("beam", "spark")]
IN_TURN = [(name, ("spark", "beam")[i % 2]) for i, name in enumerate(NAMES[2:])]


@pytest.mark.parametrize("case", some([*BOTH, *IN_TURN], 40), ids=" on ".join)
def test_spark_and_beam_compute_what_one_machine_does(case, openers, fixed_salt):
    name, engine = case
    found = statistics(asked(name, 7, openers(engine)))
    assert found == statistics(asked(name, 7, DuckDBEngine.open))


def test_the_explanation_says_what_is_protected(frame_of):
    v, _ = rows_by_chance(1)
    for source in (frame_of(table(VISITS, v)), VISITS):
        visits = sf.scan(source, privacy_unit=WEEKS, unit_timezone="Europe/Berlin")
        assert isinstance(visits._engine, DistributedEngine)
        told = str(visits.bound(rows=1).agg(n=sf.count()).plan(epsilon=1).explain())
        assert "in m units, it is protected as m people together are" in told
        assert "Times with a zone are read in Europe/Berlin" in told


@pytest.mark.long
@pytest.mark.flakiness(k=100, because="noise of scale below 0.01 rounds to less than 1")
def test_a_catalog_declares_them_for_spark_and_beam(frame_of, run):
    v, _ = rows_by_chance(1)
    rows = table(VISITS, v)
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 100000, max_rows_per_group = 200) "
        "COUNT(*) AS n FROM visits"
    )
    expected = sum(row[0] is not None and row[3] is not None for row in v)

    def of(source: Any) -> Any:
        declared = {"visits": {"source": source, "privacy_unit": WEEKS}}
        return sf.sql(text, catalog=sf.catalog({"tables": declared}))

    assert [row.n for row in of(frame_of(rows)).collect()] == [expected]
    assert [row["n"] for row in run(lambda pipeline: pipeline | create(rows) | of(VISITS))] == [expected]
    assert of(rows).to_arrow()["n"].to_pylist() == [expected]


def create(rows: pa.Table) -> Any:
    import apache_beam as beam

    return beam.Create(rows.to_pylist())
