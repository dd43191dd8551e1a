"""Tables of a catalog on every kind of source: the same answer, in the form that suits the engine."""

from __future__ import annotations

from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf

ROWS = pa.table(
    {"id": [i // 2 for i in range(200)], "g": [i % 4 for i in range(200)], "x": [i % 10 for i in range(200)]}
)
pytestmark = pytest.mark.flakiness(k=100, because="noise of 0.01 or less rounds to 0 in counts and sums")
EXPECTED = [{"g": 1, "n": 50, "s": 250}, {"g": 3, "n": 50, "s": 250}, {"g": 7, "n": 0, "s": 0}]


def declared(source: Any) -> Any:
    columns = {"x": {"lower": 0, "upper": 9}, "g": {"domain": [1, 3, 7]}}
    entry = {"source": source, "privacy_unit": "id", "max_groups": 3, "max_rows": 1, "columns": columns}
    return sf.catalog({"tables": {"visits": entry}})


def question(source: Any) -> Any:
    return declared(source).table("visits").group_by("g").agg(n=sf.count(), s=sf.sum("x"))


def parquet(folder: Any) -> str:
    pq.write_table(ROWS, folder / "visits.parquet")
    return str(folder / "visits.parquet")


def database(folder: Any) -> str:
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.register("given", ROWS)
        connection.execute("CREATE TABLE visits AS FROM given")
    return str(folder / "shop.duckdb/visits")


SOURCES = {
    "Arrow": lambda folder: ROWS,
    "Polars": lambda folder: polars.from_arrow(ROWS),
    "a relation": lambda folder: duckdb.connect().from_arrow(ROWS),
    "Parquet": parquet,
    "a database": database,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_the_same_answer_from_every_source(kind, tmp_path):
    source = SOURCES[kind](tmp_path)
    release = question(source).release(epsilon=1_000_000)
    assert release.to_arrow().to_pylist() == EXPECTED
    asked = sf.sql(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1000000) g, COUNT(*) AS n, SUM(x) AS s "
        "FROM visits GROUP BY g",
        catalog=declared(source),
    )
    assert asked.to_arrow().to_pylist() == EXPECTED


@pytest.mark.long
def test_the_same_answer_on_spark(spark, frame_of):
    frame = question(frame_of(ROWS)).release(epsilon=1_000_000)
    assert sorted(frame.toArrow().to_pylist(), key=lambda row: row["g"]) == EXPECTED
    assert "rows of Spark are not read here" in str(declared(frame_of(ROWS)).check())


@pytest.mark.long
def test_the_same_answer_on_beam(run):
    import apache_beam as beam

    transform = question(ROWS.schema).release(epsilon=1_000_000)
    found = run(lambda pipeline: pipeline | beam.Create(ROWS.to_pylist()) | transform)
    assert sorted(found, key=lambda row: row["g"]) == EXPECTED
