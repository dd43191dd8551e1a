"""What is Spark's alone: repeated and killed work, types, refusals before a job, what is sent to workers."""

from __future__ import annotations

import base64
import logging
import os
import pickle
import re
import secrets
import sys
import types
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.spark import spark_tasks
from sfumato.engines.spark.spark_engine import SparkEngine, failed
from sfumato.engines.spark.spark_tasks import _by_shard, shipped
from sfumato.engines.worker_noise import Work
from sfumato.errors import ColumnError, EngineError, ParameterError, QueryError, SfumatoError

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


def numbers(frame) -> list[dict]:
    """Rows of a release by key, computed anew, with nothing kept of an earlier evaluation."""
    return sorted(frame.select("*").toArrow().to_pylist(), key=lambda row: str(row["g"]))


# Work that is repeated.
@dataclass(frozen=True)
class Careless(Work):
    """A planted defect: the secret is drawn where the noise is."""

    def noisy(self, shard, payloads):
        yield from Work.noisy(replace(self, secret=secrets.token_bytes(32)), shard, payloads)


@pytest.fixture(params=["honest", "careless"])
def release(request, frame_of):
    """Rows -> (release, whether repeated work gives the same numbers)."""
    import importlib

    from pyspark import cloudpickle

    # Workers cannot import this file.
    cloudpickle.register_pickle_by_value(importlib.import_module(Careless.__module__))

    def released(frame):
        asked = question(frame)
        work = asked.table._engine.work(asked.plan(**BUDGET))
        if request.param == "careless":
            work = Careless(work.stages, work.measurement)
        return asked.table._engine.released(work), request.param == "honest"

    return released


@pytest.mark.long
def test_collected_twice(release, frame_of):
    frame, same = release(frame_of(ROWS))
    assert (numbers(frame) == numbers(frame)) is same


@pytest.mark.long
def test_counted_then_cached_then_forgotten(release, frame_of):
    frame, same = release(frame_of(ROWS))
    assert frame.count() == 9
    frame.cache()
    kept = numbers(frame)
    frame.unpersist(blocking=True)
    assert (kept == numbers(frame)) is same


def killing(marker: str, start: int):
    """Return a task that kills its worker after `start` batches, once: where it can still make the marker."""

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == start:
                try:
                    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    os._exit(1)
            yield batch

    return function


def shipped_by_value(function):
    """Workers cannot import this file."""
    from pyspark import cloudpickle

    return pickle.loads(cloudpickle.dumps(function))


@pytest.mark.long
def test_a_worker_killed_before_the_first_shuffle(release, frame_of, tmp_path):
    marker = tmp_path / "killed"
    marker.touch()
    rows = frame_of(ROWS)
    frame, same = release(rows.mapInArrow(killing(str(marker), 0), rows.schema))
    quiet = numbers(frame)
    marker.unlink()
    killed = numbers(frame)
    assert marker.exists(), "a worker was killed"
    assert (quiet == killed) is same


@pytest.mark.long
def test_a_worker_killed_with_released_numbers_in_its_hands(release, frame_of, tmp_path):
    marker = tmp_path / "killed"
    marker.touch()
    frame, same = release(frame_of(ROWS))
    frame = frame.mapInArrow(killing(str(marker), 0), frame.schema)
    quiet = numbers(frame)
    marker.unlink()
    assert (quiet == numbers(frame)) is same and marker.exists()


@pytest.mark.long
def test_a_job_that_fails_leaves_nothing_that_looks_complete(release, frame_of, tmp_path):
    """And the same release, run again, spends no second budget."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    broken = tmp_path / "broken"
    broken.touch()

    def failing(batches):
        for batch in batches:
            if os.path.exists(broken):
                os._exit(1)
            yield batch

    frame, same = release(frame_of(ROWS))
    written = frame.mapInArrow(failing, frame.schema)
    with pytest.raises((PySparkException, Py4JJavaError)):
        written.write.parquet(str(tmp_path / "out"))
    # Spark may still be at work on its own folder, which no reader looks into.
    left = [one.name for one in (tmp_path / "out").glob("*") if one.name != "_temporary"]
    assert not left, "no part and no _SUCCESS"
    broken.unlink()
    written.write.mode("overwrite").parquet(str(tmp_path / "out"))
    read = written.sparkSession.read.parquet(str(tmp_path / "out"))
    assert (numbers(read) == numbers(frame)) is same


@pytest.mark.long
def test_two_releases_differ(frame_of):
    asked = question(frame_of(ROWS))
    assert numbers(asked.release(**BUDGET)) != numbers(asked.release(**BUDGET))


@pytest.mark.long
def test_partitions_of_the_source_do_not_matter_to_the_noise(frame_of, fixed_salt):
    rows = frame_of(ROWS)
    asked = question(rows)
    work = asked.table._engine.work(asked.plan(**BUDGET))
    found = [numbers(SparkEngine(rows.repartition(n)).released(work)) for n in (1, 5)]
    assert found[0] == found[1]


@pytest.mark.long
def test_an_adaptive_session_keeps_shards_whole(spark, frame_of, fixed_salt):
    """Parts of a shard that came apart would free a unit of its limit."""
    rows = pa.table({"id": [1] * 500 + [2] * 500, "g": list(range(500)) * 2})
    asked = sf.scan(frame_of(rows), privacy_unit="id").group_by("g").bound(groups=5).agg(u=sf.count_units())
    odd = {
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1b",
        "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1b",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1b",
        "spark.sql.adaptive.localShuffleReader.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
    }
    before = {name: spark.conf.get(name) for name in odd}
    try:
        for name, value in odd.items():
            spark.conf.set(name, value)
        batches = list(asked.table._engine.statistics(asked.plan(**BUDGET).exact, 1000))
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert sum(sum(batch["units"].to_pylist()) for batch in batches) == 10


def test_parts_of_one_shard_that_came_apart_are_refused():
    batch = pa.table({"shard": pa.array([0, 1, 0], pa.int32()), "data": [b"", b"", b""]}).to_batches()[0]
    with pytest.raises(EngineError, match="came apart"):
        for _, parts in _by_shard(iter([batch])):
            list(parts)


# Outputs.
@pytest.mark.long
def test_error_columns_are_those_of_the_release(collected, frame_of):
    asked = question(frame_of(ROWS))
    engine, plan = asked.table._engine, asked.plan(**BUDGET)
    release = collected(engine, plan)
    frame = engine.released(replace(release.work, confidence=0.9))
    table = frame.orderBy("g").toArrow()
    assert table.column_names == ["g", "n", "n_error", "s", "s_error", "m", "m_error"]
    assert table.select(["g", "n", "s", "m"]).equals(release.to_arrow())
    errors = release.errors(0.9)
    assert all(table[f"{name}_error"].equals(errors[name]) for name in "nsm")


def test_a_release_is_an_ordinary_data_frame(frame_of):
    frame = question(frame_of(ROWS)).release(**BUDGET, confidence=0.95)
    joined = frame.where("n > 0").join(frame.withColumnRenamed("n", "again"), "g")
    assert joined.count() == frame.where("n > 0").count() > 5 and joined.where("n <> again").count() == 0


@pytest.mark.long
def test_sql_on_a_spark_frame(frame_of):
    frame = sf.sql(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 10000, delta = 1e-6, privacy_unit_column = id, "
        "max_groups_contributed = 7) g, COUNT(*, contribution_bounds_per_group => (0, 4)) AS n FROM visits GROUP BY g",
        tables={"visits": frame_of(ROWS)},
    )
    counts = dict(zip(*frame.toArrow().to_pydict().values(), strict=True))
    assert counts == {g: ROWS["g"].to_pylist().count(g) for g in range(7)}


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
@pytest.mark.parametrize("kind", TYPES)
def test_keys_of_each_type_are_those_of_duckdb(frame_of, kind):
    arrow, values = TYPES[kind]
    values = [v for v in values for _ in range(60)]
    rows = pa.table({"id": range(len(values)), "k": pa.array(values, arrow), "u": pa.array(values, arrow)})
    frame = frame_of(rows)
    if kind.startswith("varchar"):
        frame = frame.withColumn("k", frame.k.cast(kind))

    def released(source):
        asked = sf.scan(source, privacy_unit="id").group_by("k").bound(groups=1).agg(n=sf.count_units())
        return asked.release(epsilon=10_000, delta=1e-6)

    here, there = released(rows).to_arrow(), released(frame).toArrow()
    as_texts = [sorted(map(repr, t["k"].cast(here["k"].type).to_pylist())) for t in (here, there)]
    assert as_texts[0] == as_texts[1]
    assert sorted(here["n"].to_pylist()) == sorted(there["n"].to_pylist())
    units = sf.scan(frame, privacy_unit="u").agg(n=sf.count_units())
    (row,) = units.release(epsilon=10_000).collect()
    assert row.n == here.num_rows - (None in values)


@pytest.mark.long
def test_times_are_read_in_the_zone_that_is_named(spark, frame_of):
    """Whatever the zone of Spark's session is, when the frame is scanned or the job runs."""
    stamp = datetime(2020, 7, 1, 23, 30)
    rows = pa.table({"id": range(100), "t": pa.array([stamp] * 100, pa.timestamp("us", "UTC")),
                     "w": pa.array([stamp] * 100, pa.timestamp("us"))})  # fmt: skip
    frame = frame_of(rows)
    try:
        for zone, hour, day in (("Asia/Tokyo", 8, 2), ("America/New_York", 19, 1), ("UTC", 23, 1)):
            spark.conf.set("spark.sql.session.timeZone", "America/Lima")
            derived = sf.scan(frame, privacy_unit="id", timezone=zone).with_columns(
                hour="hour(t)", day="CAST(t AS DATE)", text="CAST(t AS VARCHAR)", wall="hour(w)"
            )
            asked = derived.group_by("hour", "day", "wall").bound(groups=1).agg(u=sf.count_units())
            work = asked.table._engine.work(asked.plan(epsilon=10_000, delta=1e-6))
            frame_there = asked.table._engine.released(work)
            spark.conf.set("spark.sql.session.timeZone", "UTC")  # workers keep to the zone of the question
            (row,) = frame_there.collect()
            assert (row.hour, row.day, row.wall, row.u) == (hour, date(2020, 7, day), 23, 100)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.long
def test_names_with_dots_and_quotes(frame_of):
    names = ["a.b", "q`uote", 'd"ouble', "é ü", "c0", "shard"]
    for unit, key, value in zip(names, names[1:] + names[:1], names[2:] + names[:2], strict=True):
        rows = pa.table({unit: range(80), key: ["k"] * 80, value: [1.0] * 80, "unused.x": [1] * 80})
        asked = sf.scan(frame_of(rows), privacy_unit=unit).group_by(key).bound(groups=1, rows=1)
        batches = list(
            asked._engine.statistics(asked.agg(s=sf.sum(value, lower=0, upper=1)).plan(**BUDGET).exact, 9)
        )
        assert [b.num_rows for b in batches] == [1]


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


@pytest.mark.long
@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ("id, INTERVAL '1' MONTH AS span", "'span'"),
        ("id, make_interval(1) AS span", "'span'"),
        ("id, 1 AS x, 2 AS x", "two columns 'x'"),
    ],
)
def test_columns_that_cannot_be_passed_on(spark, no_job, columns, named):
    with pytest.raises(EngineError, match=named):
        sf.scan(spark.range(3).selectExpr(*columns.split(", ")), privacy_unit="id")


def test_names_that_differ_by_case_alone(spark, no_job):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(EngineError, match="two columns"):
            sf.scan(spark.range(3).selectExpr("id", "1 AS x", "2 AS X"), privacy_unit="id")
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


def test_frames_of_other_kinds(spark, no_job):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(EngineError, match="stream"):
        sf.scan(stream, privacy_unit="value")
    for module, expected in (
        ("pyspark.pandas.frame", "to_spark"),
        ("pyspark.sql.connect.dataframe", "Connect"),
    ):
        frame = type("DataFrame", (), {"__module__": module, "mapInArrow": None})()
        with pytest.raises(EngineError, match=expected):
            sf.scan(frame, privacy_unit="id")
    with pytest.raises(EngineError, match="cannot read a Column"):
        sf.scan(spark.range(3).id, privacy_unit="id")


@pytest.mark.parametrize("version", ["3.5.6-amzn-2", "4.1.4"])
def test_frames_of_an_older_spark(version):
    session = types.SimpleNamespace(version=version)
    members = {"__module__": "pyspark.sql.dataframe", "mapInArrow": None, "sparkSession": session}
    with pytest.raises(EngineError, match=f"is of Spark {version}, but 4.2 or newer is needed"):
        sf.scan(type("DataFrame", (), members)(), privacy_unit="id")


def test_a_time_zone_that_is_not_known(spark, frame_of, no_job):
    with pytest.raises(ParameterError, match="timezone is '.01:00', but must be the name of a time zone"):
        sf.scan(spark.range(3), privacy_unit="id", timezone="+01:00")
    spark.conf.set("spark.sql.session.timeZone", "+01:00")
    try:
        assert sf.scan(spark.range(3), privacy_unit="id")._engine.timezone == "UTC"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


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
    "no delta": (SfumatoError, lambda q: q.agg(n=sf.count()).release(epsilon=1)),
    "epsilon": (SfumatoError, lambda q: q.agg(n=sf.count()).release(epsilon=0, delta=1e-6)),
    "an option": (TypeError, lambda q: q.agg(n=sf.count()).release(**BUDGET, cores=3)),
    "a column": (ColumnError, lambda q: q.agg(n=sf.sum("y", lower=0, upper=1)).release(**BUDGET)),
}


@pytest.mark.long
@pytest.mark.parametrize("what", REFUSED)
def test_refused_before_a_job(unreadable, no_job, what):
    error, ask = REFUSED[what]
    asked = sf.scan(unreadable, privacy_unit="id").group_by("g").bound(groups=1, rows=1)
    with pytest.raises(error):
        ask(asked)


@pytest.mark.long
@pytest.mark.parametrize("derived", ["CAST(t AS TIME)", "CAST(g AS UBIGINT)", "CAST(g AS UTINYINT)"])
def test_keys_that_are_not_given_back_to_spark(unreadable, no_job, derived):
    asked = sf.scan(unreadable, privacy_unit="id").with_columns(k=derived).group_by("k").bound(groups=1)
    with pytest.raises(ColumnError, match="'k'.* is not given back to Spark.*CAST"):
        asked.agg(u=sf.count_units()).release(**BUDGET)


@pytest.mark.noise_cannot_matter("it looks at which groups are shown, of 500 people each")
def test_a_widened_key_is_given_back_to_spark_in_the_zone_that_is_named(spark):
    """The sum of a BIGINT is a decimal; hours are those of timezone=, and not of Spark's session."""
    rows = spark.range(1000).selectExpr("id", "id % 2 AS g", "TIMESTAMP '2024-07-01 22:30:00' AS ts")
    asked = sf.scan(rows, privacy_unit="id", timezone="Europe/Berlin").with_columns(k="g + 1", h="hour(ts)")
    question = asked.group_by("k", "h").bound(groups=1, rows=1).agg(n=sf.count())
    found = question.release(epsilon=10, delta=1e-6).collect()
    assert sorted((row["k"], row["h"]) for row in found) == [(1, 0), (2, 0)]


def test_a_void_key_is_not_given_back_to_spark(spark, no_job):
    asked = sf.scan(spark.range(3).selectExpr("id", "NULL AS v"), privacy_unit="id")
    with pytest.raises(ColumnError, match="'v' is .*NULL.* not given back to Spark"):
        asked.group_by("v").bound(groups=1).agg(u=sf.count_units()).release(**BUDGET)


def test_planning_starts_no_job(unreadable, no_job):
    asked = question(unreadable)
    assert "Read with Spark" in str(asked.plan(**BUDGET).explain())
    work = asked.table._engine.work(asked.plan(**BUDGET), 0.9)
    frame = asked.table._engine.released(work)  # which a release computes and keeps
    assert frame.columns == ["g", "n", "n_error", "s", "s_error", "m", "m_error"]


# What is sent to workers.
def test_a_worker_without_a_module_says_so():
    module = types.ModuleType("not_on_the_worker")
    exec("def task(batches):\n    yield from batches\n", module.__dict__)
    sys.modules["not_on_the_worker"] = module
    try:
        function = shipped(module.task)
        assert list(function(iter([1]))) == [1]
    finally:
        del sys.modules["not_on_the_worker"]
    with pytest.raises(RuntimeError, match="lack the module 'not_on_the_worker'; install"):
        list(function(iter([])))


def passed(batches: Iterator[int]) -> Iterator[int]:
    """A task that passes batches on."""
    yield from batches


def passed_too(batches: Iterator[int]) -> Iterator[int]:
    """Another kind of task."""
    yield from batches


def test_what_a_task_imported_is_looked_through_no_more_when_it_has_ended(monkeypatch):
    done = []
    monkeypatch.setattr(spark_tasks.gc, "freeze", lambda: done.append(done.count(0)))
    spark_tasks.settle.cache_clear()
    for task in (passed, passed, passed_too, passed):
        for item in shipped(task)(iter([0])):
            done.append(item)
    assert done == [0, 1, 0, 0, 3, 0]  # after the first of each kind


@pytest.mark.long
def test_a_worker_with_another_duckdb_says_so(frame_of):
    asked = question(frame_of(ROWS))
    stages = replace(asked.table._engine.work(asked.plan(**BUDGET)).stages, version="0.1")
    for run in (
        lambda: list(stages.partials([])),
        lambda: list(stages.totals([])),
        lambda: list(stages.merged(0, [], 9)),
    ):
        with pytest.raises(EngineError, match="install the same version"):
            run()


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


@pytest.mark.parametrize("planted", [False, True])
def test_the_secret_is_in_no_log_of_what_is_sent_to_java(frame_of, caplog, monkeypatch, planted):
    """py4j writes each command, with the functions in it, into a log of level DEBUG."""
    if planted:
        monkeypatch.setattr("sfumato.engines.spark.spark_engine.unlogged", nullcontext)
    asked = question(frame_of(ROWS))
    work = asked.table._engine.work(asked.plan(**BUDGET))
    with caplog.at_level(logging.DEBUG, "py4j"):
        asked.table._engine.released(work)
    parts = re.findall("[A-Za-z0-9+/]{40,}=*", caplog.text)
    assert len(parts) >= 2, "the tasks without a secret are there"
    found = any(
        work.secret in base64.b64decode(part[start:][: (len(part) - start) // 4 * 4])
        for part in parts
        for start in range(4)
    )
    assert found is planted
    with caplog.at_level(logging.DEBUG, "py4j"):
        caplog.clear()
        frame_of(ROWS)
    assert "Command to send" in caplog.text, "the log goes on"


# Hot keys.
@pytest.mark.long
def test_a_heavy_unit_and_a_heavy_group(spark, fixed_salt):
    """A unit with a tenth of the rows, in many groups, and a group with most rows; docs/spark.md has larger ones."""
    frame = spark.range(1_000_000).selectExpr(
        "IF(id % 10 = 0, -1, id) AS id", "IF(id % 10 = 0, id % 9000, 7) AS g", "CAST(id % 13 AS DOUBLE) AS x"
    )
    asked = sf.scan(frame, privacy_unit="id").group_by("g").bound(groups=2, rows=3)
    plan = asked.agg(n=sf.count(), u=sf.count_units(), s=sf.sum("x", lower=0, upper=5, per="row")).plan(
        **BUDGET
    )
    found = pa.Table.from_batches(list(asked._engine.statistics(plan.exact, 1000))).to_pydict()
    units = dict(zip(found["g"], found["units"], strict=True))
    assert units.pop(7) >= 900_000 and set(units.values()) <= {1} and len(units) <= 2


@pytest.mark.long
def test_the_example(spark, tmp_path, capsys):
    import runpy

    program = Path(__file__).parents[2] / "examples" / "spark_release.py"
    runpy.run_path(str(program))["main"](str(tmp_path / "movielens.parquet"))
    said = capsys.readouterr().out
    assert "Read with Spark" in said and "ratings_error" in said
    assert all(f"{half / 2}|" in said for half in range(1, 11))


def test_what_workers_lack_is_told():
    lacking = "Spark's Python workers lack the module 'a.b'; install sfumato and what it needs where they run"
    told = str(failed(ValueError(f"a private value\nRuntimeError: {lacking}\na private value")))
    assert "lack the module 'a.b'" in told and "docs/spark.md, Install" in told
    assert "a private value" not in told
