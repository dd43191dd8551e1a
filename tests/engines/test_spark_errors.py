"""What a release on Spark says when its job fails: nothing of a row, whoever quoted it."""

from __future__ import annotations

import types
from dataclasses import replace

import pytest

import sfumato as sf
from sfumato.engines.spark import spark_engine
from sfumato.engines.spark.spark_engine import failed
from sfumato.engines.spark.spark_tasks import sum_rows
from sfumato.errors import EngineError, RefusalError

PRIVATE = "a private value"
pytestmark = [pytest.mark.long, pytest.mark.noise_cannot_matter("no release comes to its end")]


def quoting():
    def function(batches):  # sent by value: workers cannot import this file
        for batch in batches:
            raise ValueError(str(batch.to_pydict()))
            yield batch

    return function


UPSTREAM = {
    # Of a local relation Spark's optimizer computes on the driver, before a job.
    "a cast on the driver": lambda rows: rows.selectExpr("id", "CAST(s AS DOUBLE) AS x"),
    "a cast": lambda rows: rows.repartition(2).selectExpr("id", "CAST(s AS DOUBLE) AS x"),
    "an error of the query": lambda rows: rows.selectExpr("id", "CAST(raise_error(s) AS DOUBLE) AS x"),
    "a function": lambda rows: rows.mapInArrow(quoting(), "id long, x double"),
}


def chain(error: BaseException | None) -> str:
    texts = []
    while error is not None:
        texts.append(f"{error!r} {error} {vars(error)}")
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


@pytest.mark.parametrize("what", UPSTREAM)
def test_what_stops_at_a_row_is_not_quoted(spark, what):
    rows = UPSTREAM[what](spark.sql(f"SELECT * FROM VALUES (1L, '1'), (2L, '{PRIVATE}') AS t(id, s)"))
    asked = sf.scan(rows, privacy_unit="id").bound(rows=1).agg(s=sf.sum("x", lower=0, upper=5))
    with pytest.raises(
        EngineError, match="^release: Spark's job failed at .*, whose text is left out"
    ) as raised:
        asked.release(epsilon=1)
    assert PRIVATE not in chain(raised.value)


@pytest.mark.parametrize("what", ["a cast on the driver", "a function"])
def test_the_largest_groups_quote_no_row_either(spark, what):
    rows = UPSTREAM[what](spark.sql(f"SELECT * FROM VALUES (1L, '1'), (2L, '{PRIVATE}') AS t(id, s)"))
    release = sf.scan(rows, privacy_unit="id").top("x", k=1).release(epsilon=1, delta=1e-6)
    with pytest.raises(
        EngineError, match="^release: Spark's job failed at .*, whose text is left out"
    ) as raised:
        release.to_arrow()
    assert PRIVATE not in chain(raised.value)
    with pytest.raises(RefusalError, match="being drawn, or failed"):
        release.to_arrow()


def test_what_a_worker_says_before_it_has_seen_a_row(spark, monkeypatch):
    rows = spark.range(3).selectExpr("id", "1D AS x")
    asked = sf.scan(rows, privacy_unit="id").bound(rows=1).agg(s=sf.sum("x", lower=0, upper=5))
    monkeypatch.setattr(
        spark_engine,
        "sum_rows",
        lambda stages, *others: sum_rows(replace(stages, version="0.1"), *others),
    )
    with pytest.raises(
        EngineError, match="failed: a worker has DuckDB .*, but the release was made with 0.1 "
    ):
        asked.release(epsilon=1)


@pytest.mark.parametrize(
    "said",
    [
        "Spark's Python workers lack the module 'sfumato.x'",
        "No module named 'pyarrow'",
        "[PYTHON_VERSION_MISMATCH]",
        "a worker's DuckDB stopped. Memory or disk ran out",
    ],
)
def test_what_workers_say_is_found(said):
    text = f"Traceback:\n  row {PRIVATE}\nRuntimeError: {said} {PRIVATE}\n\n at org.apache {PRIVATE}"
    assert str(failed(RuntimeError(text))) == f"release: Spark's job failed: {said} (docs/spark.md, Install)"


@pytest.mark.parametrize(
    "running", [None, types.SimpleNamespace(sc=lambda: types.SimpleNamespace(isStopped=lambda: True))]
)
def test_a_session_that_has_ended(running):
    session = types.SimpleNamespace(version="4.3.0", sparkContext=types.SimpleNamespace(_jsc=running))
    members = {"__module__": "pyspark.sql.dataframe", "mapInArrow": None, "sparkSession": session}
    with pytest.raises(EngineError, match="Spark session has ended"):
        sf.scan(type("DataFrame", (), members)(), privacy_unit="id")
