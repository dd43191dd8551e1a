"""What is Spark's alone: types, refusals before a job, what is sent to workers, and what is said of jobs that fail."""

from __future__ import annotations

import base64
import logging
import re
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.spark.spark_engine import failed
from sfumato.engines.spark.spark_tasks import _by_shard
from sfumato.engines.worker_noise import make_worker_error
from sfumato.errors import EngineError, ParameterError, QueryError, RefusalError
from tests.support.workers import LocalEngine

ROWS = pa.table(
    {
        "id": [i // 4 for i in range(2000)],
        "g": [i % 7 for i in range(2000)],
        "x": [i % 11 / 2 for i in range(2000)],
    }
)
BUDGET = {"epsilon": 1, "delta": 1e-6}
# Drawn by workers, so that nobody else counts it.
pytestmark = pytest.mark.flakiness(
    k=30, because="27 numbers of noise of 25 or more are not alike; noise of 0.01 or less rounds to 0"
)


def question(frame):
    return (
        sf.scan(frame, privacy_unit="id")
        .group_by("g", keys=list(range(9)))
        .bound(groups=3, rows=2)
        .agg(n=sf.count(), s=sf.sum("x", lower=0, upper=9), m=sf.mean("x", lower=0, upper=5))
    )


def test_parts_of_one_shard_that_came_apart_are_refused():
    batch = pa.table({"shard": pa.array([0, 1, 0], pa.int32()), "data": [b"", b"", b""]}).to_batches()[0]
    with pytest.raises(EngineError, match="were separated"):
        for _, parts in _by_shard(iter([batch])):
            list(parts)


# Types.
STAMPS = [datetime(2020, 2, 29, 12), datetime(1969, 12, 31, 23, 59, 59, 999999), None]

TYPES = {
    "tinyint": (pa.int8(), [1, -128, None]),
    "smallint": (pa.int16(), [1, -32768, None]),
    "int": (pa.int32(), [1, 2**31 - 1, None]),
    "bigint": (pa.int64(), [1, -(2**63), None]),
    "float": (pa.float32(), [0.0, -0.0, float("nan"), float("inf"), 1.5, None]),
    "double": (pa.float64(), [0.0, -0.0, float("nan"), -float("inf"), 0.1, None]),
    "decimal(38,10)": (
        pa.decimal128(38, 10),
        [Decimal("1.1"), Decimal("-1234567890123456789012345678.1"), None],
    ),
    "decimal(38,0)": (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(0), None]),
    "string": (pa.string(), ["", "a", "A", "é", "e\u0301", "😀", "x\u0000y", None]),
    "varchar(9)": (pa.string(), ["", "a", "A ", "é", None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "date": (pa.date32(), [date(2020, 2, 29), date(1, 1, 1), date(9999, 12, 31), None]),
    "timestamp_ntz": (pa.timestamp("us"), STAMPS),
    "timestamp": (pa.timestamp("us", "UTC"), STAMPS),
}


@pytest.mark.long
def test_keys_and_units_of_each_type_are_those_of_duckdb(frame_of):
    """All in one job; columns have names that SQL must quote."""
    frames, expected = [], {}
    for kind, (arrow, few) in TYPES.items():
        values = [v for v in few for _ in range(60)]
        names = "a.b", "q`uote", 'd"ouble é'
        rows = pa.table([pa.array(range(len(values))), *[pa.array(values, arrow)] * 2], names=names)
        frame = frame_of(rows)
        if kind.startswith("varchar"):
            frame = frame.withColumn(names[1], frame["`q``uote`"].cast(kind))

        def asked(source, unit, key=names[1]):
            table = sf.scan(source, privacy_unit=unit)
            grouped = table if unit == 'd"ouble é' else table.group_by(key)
            return grouped.bound(groups=1).agg(n=sf.count_units())

        here = asked(rows, "a.b").release(epsilon=10_000, delta=1e-6).to_arrow()
        keys = sorted(f"{key!r} {n}" for key, n in zip(*here.to_pydict().values(), strict=True))
        expected[kind] = [*keys, str(here.num_rows - (None in values))]
        for unit in (names[0], names[2]):
            question = asked(frame, unit)
            plan = question.plan(epsilon=10_000, delta=1e-6)
            released = question.table._engine.released(question.table._engine.work(plan))
            frames.append(
                released.toDF(*(["k", "n"] if unit == names[0] else ["n"])).mapInArrow(
                    telling(kind, here.schema.field(0).type), "kind string, told string"
                )
            )
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.union(frame)
    found: dict[str, list[str]] = {}
    for row in whole.collect():
        found.setdefault(row.kind, []).append(row.told)
    assert {kind: sorted(told) for kind, told in found.items()} == {k: sorted(t) for k, t in expected.items()}


def telling(kind: str, of: pa.DataType):
    """Return a task that writes each key, of a type, with its number; or a number alone."""

    def told(batches):  # sent by value: workers cannot import this file
        for batch in batches:
            columns = batch.columns
            if len(columns) == 2:
                columns[0] = columns[0].cast(of)
            rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
            texts = [f"{row[0]!r} {row[1]}" if len(row) == 2 else str(row[0]) for row in rows]
            yield pa.RecordBatch.from_arrays(
                [pa.array([kind] * len(texts), pa.string()), pa.array(texts, pa.string())],
                names=["kind", "told"],
            )

    return told


# Refusals, before a job is started.
@pytest.fixture
def no_job(spark):
    def jobs() -> set[int]:
        return set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))

    before = jobs()
    yield
    assert jobs() == before


@pytest.fixture
def unreadable(spark):
    """A frame whose evaluation fails."""

    def fails(batches):
        raise AssertionError("rows are read")
        yield from batches

    return spark.range(10).mapInArrow(fails, "id bigint, g bigint, x double, t timestamp")


def test_columns_that_cannot_be_passed_on(spark, no_job, settings):
    for columns, named in (
        ("id, INTERVAL '1' MONTH AS span", "'span'"),
        ("id, make_interval(1) AS span", "'span'"),
        ("id, 1 AS x, 2 AS x", "two columns 'x'"),
    ):
        with pytest.raises(EngineError, match=named):
            sf.scan(spark.range(3).selectExpr(*columns.split(", ")), privacy_unit="id")
    settings({"spark.sql.caseSensitive": "true"})
    with pytest.raises(EngineError, match="two columns"):
        sf.scan(spark.range(3).selectExpr("id", "1 AS x", "2 AS X"), privacy_unit="id")


def test_frames_of_other_kinds(spark, no_job):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(EngineError, match="stream"):
        sf.scan(stream, privacy_unit="value")


REFUSED = {
    "confidence": (ParameterError, lambda q: q.agg(n=sf.count()).release(**BUDGET, confidence=95)),
    "name of a bar": (
        QueryError,
        lambda q: q.agg(n=sf.count(), n_error=sf.count_units()).release(**BUDGET, confidence=0.9),
    ),
    "words": (
        ParameterError,
        lambda q: q.agg(n=sf.count()).release(**BUDGET, unsafe_words=sf.noise.SeededWords(1)),
    ),
}


def test_refused_before_a_job(unreadable, no_job, settings):
    table = sf.scan(unreadable, privacy_unit="id")
    for what, (error, ask) in REFUSED.items():
        with pytest.raises(error):
            ask(table.group_by("g").bound(groups=1, rows=1))
            raise AssertionError(what)
    for shards in ("0", "many", "2147483648"):
        settings({"spark.sfumato.shards": shards})
        with pytest.raises(ParameterError, match="spark.sfumato.shards is .*, but must be a whole number"):
            question(unreadable).release(**BUDGET)


@pytest.mark.long
@pytest.mark.noise_cannot_matter("it looks at which groups are shown, of 500 people each")
def test_times_are_read_in_the_zone_that_is_named_and_a_widened_key_is_given_back(spark, settings):
    """Whatever the zone of Spark's session is, when the frame is scanned or the job runs. The sum of a BIGINT is a decimal."""
    settings({"spark.sql.session.timeZone": "America/Lima"})
    columns = (
        "id",
        "id % 2 AS g",
        "TIMESTAMP '2024-07-01 22:30:00' AS ts",
        "TIMESTAMP_NTZ '2024-07-01 22:30:00' AS w",
    )
    rows = spark.range(1000).selectExpr(*columns)
    asked = sf.scan(rows, privacy_unit="id", timezone="Europe/Berlin")
    asked = asked.with_columns(k="g + 1", h="hour(ts)", day="CAST(ts AS DATE)", wall="hour(w)")
    question = asked.group_by("k", "h", "day", "wall").bound(groups=1, rows=1).agg(n=sf.count())
    engine, plan = question.table._engine, question.plan(epsilon=10, delta=1e-6)
    frame = engine.released(engine.work(plan))
    settings({"spark.sql.session.timeZone": "UTC"})  # workers keep to the zone of the question
    found = sorted((int(row.k), row.h, row.day, row.wall) for row in frame.collect())
    assert found == [(k, 5, date(2024, 7, 2), 22) for k in (1, 2)]


def test_a_worker_with_another_duckdb_says_so():
    asked = question(ROWS)
    engine = LocalEngine(ROWS)
    stages = replace(engine.stages(asked.plan(**BUDGET).exact, 2), version="0.1")
    for run in (
        lambda: list(stages.partials([])),
        lambda: list(stages.totals([])),
        lambda: list(stages.merged(0, [], 9)),
    ):
        with pytest.raises(EngineError, match="Install the same version") as told:
            run()
        assert "a worker has DuckDB" in str(failed(told.value))


def spellings(secret: bytes) -> list[str]:
    return [secret.hex(), base64.b64encode(secret).decode(), repr(secret)[2:-1], secret.decode("latin-1")]


@pytest.mark.long
def test_the_secret_is_in_no_event_log(spark, frame_of):
    asked = question(frame_of(ROWS))
    work = asked.table._engine.work(asked.plan(**BUDGET))
    spark.sparkContext.setJobDescription("a release")
    asked.table._engine.released(work).collect()
    spark.sparkContext.setJobDescription(f"a planted secret: {work.secret.hex()}")
    planted = spellings(work.secret)

    def logs() -> str:
        folder = spark.conf.get("spark.eventLog.dir").removeprefix("file:")
        return "".join(p.read_text("latin-1") for p in Path(folder).rglob("*") if p.is_file())

    assert "a release" in logs() and "MapInArrow" in logs()
    assert not any(text in logs() for text in planted)
    spark.range(1).count()
    spark.sparkContext.setJobDescription(None)
    spark.range(1).count()
    assert any(text in logs() for text in planted), "the search finds what is there"
    assert work.secret.hex() not in repr(work) and repr(work.secret) not in repr(work)


def test_the_secret_is_in_no_log_of_what_is_sent_to_java(frame_of, caplog):
    """py4j writes each command, with the functions in it, into a log of level DEBUG."""
    asked = question(frame_of(ROWS))
    work = asked.table._engine.work(asked.plan(**BUDGET))
    with caplog.at_level(logging.DEBUG, "py4j"):
        asked.table._engine.released(work)
    parts = re.findall("[A-Za-z0-9+/]{40,}=*", caplog.text)
    assert len(parts) >= 2, "the tasks without a secret are there"
    assert not any(
        work.secret in base64.b64decode(part[start:][: (len(part) - start) // 4 * 4])
        for part in parts
        for start in range(4)
    )
    with caplog.at_level(logging.DEBUG, "py4j"):
        caplog.clear()
        frame_of(ROWS)
    assert "Command to send" in caplog.text, "the log goes on"


# What is said of a job that fails.
PRIVATE = "a private value"
SAID = (
    "Spark's Python workers lack the module 'sfumato.x'",
    "No module named 'pyarrow'",
    "[PYTHON_VERSION_MISMATCH]",
    "a worker's DuckDB stopped. Memory or disk ran out",
)


@pytest.mark.parametrize("said", SAID)
def test_what_workers_say_before_a_row_is_told_and_nothing_else(said):
    text = f"Traceback:\n  row {PRIVATE}\nRuntimeError: {said} {PRIVATE}\n\n at org.apache {PRIVATE}"
    assert str(failed(RuntimeError(text))) == f"release: Spark's job failed: {said} (docs/spark.md, Install)"
    for one in failed, make_worker_error:
        assert PRIVATE not in str(one(ValueError(f"cannot cast {PRIVATE}")))


def quoting():
    def function(batches):  # sent by value: workers cannot import this file
        for batch in batches:
            raise ValueError(str(batch.to_pydict()))
            yield batch

    return function


UPSTREAM = {
    # Of a local relation Spark's optimizer computes on the driver, before a job.
    "on the driver": lambda rows: rows.selectExpr("id", "CAST(s AS DOUBLE) AS x"),
    "in a task": lambda rows: rows.repartition(2).selectExpr("id", "CAST(raise_error(s) AS DOUBLE) AS x"),
    "in a function": lambda rows: rows.mapInArrow(quoting(), "id long, x double"),
}


@pytest.mark.long
@pytest.mark.parametrize("what", UPSTREAM)
def test_what_stops_at_a_row_is_not_quoted(spark, what):
    rows = UPSTREAM[what](spark.sql(f"SELECT * FROM VALUES (1L, '1'), (2L, '{PRIVATE}') AS t(id, s)"))
    table = sf.scan(rows, privacy_unit="id")
    asked = table.bound(rows=1).agg(s=sf.sum("x", lower=0, upper=5))
    top = table.top("x", k=1).release(epsilon=1, delta=1e-6)
    for run in (lambda: asked.release(epsilon=1), top.to_arrow):
        with pytest.raises(
            EngineError, match="^release: Spark's job failed with .*text is left out"
        ) as raised:
            run()
        assert PRIVATE not in chain(raised.value)
    with pytest.raises(RefusalError, match="being drawn, or failed"):
        top.to_arrow()


def chain(error: BaseException | None) -> str:
    """Return all that an error says, and those that are kept behind it."""
    texts = []
    while error is not None:
        texts.append(f"{error!r} {error} {vars(error)}")
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


@pytest.mark.release
def test_the_example(spark, tmp_path, capsys):
    import runpy

    program = Path(__file__).parents[2] / "examples" / "spark_release.py"
    runpy.run_path(str(program))["main"](str(tmp_path / "movielens.parquet"))
    said = capsys.readouterr().out
    assert "Read with Spark" in said and "ratings_error" in said
    assert all(f"{half / 2}|" in said for half in range(1, 11))
