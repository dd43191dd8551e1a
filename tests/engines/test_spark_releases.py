"""What Spark does twice, loses or leaves behind: one set of numbers, a form that tells nothing of the rows, no folders."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.spark.spark_engine import SparkEngine
from sfumato.engines.worker_noise import Work
from sfumato.errors import EngineError
from tests.support.workers import killing

pytestmark = pytest.mark.flakiness(k=30, because="two draws of 40 numbers of noise of 10^8 are not alike")

ROWS = pa.table({"id": [i // 4 for i in range(400)], "g": [i % 40 for i in range(400)]})
# With noise of each group, drawn in many tasks. So little that two draws of a group are the same number less than once
# in 10^9.
BUDGET = {"epsilon": 1e-8, "noise": "laplace"}


def question(frame, groups=3):
    asked = sf.scan(frame, privacy_unit="id").group_by("g", keys=list(range(40)))
    return asked.bound(groups=groups, rows=2).agg(n=sf.count())


def by_group(frame) -> dict[int, int]:
    """Look at a release anew: a plan that was run once keeps what it shuffled."""
    return dict(zip(*frame.select("*").toArrow().to_pydict().values(), strict=True))


@pytest.mark.long
@pytest.mark.parametrize("noise", ["laplace", "k_norm"])  # of each group in its task, or of all in one
def test_work_that_is_repeated_or_killed_draws_the_same_noise(frame_of, tmp_path, noise):
    """A worker is killed before the first shuffle, and one with released numbers in its hands."""
    rows, first, last = frame_of(ROWS), tmp_path / "first", tmp_path / "last"
    first.touch()
    last.touch()
    asked = question(rows.mapInArrow(killing(str(first)), rows.schema), 3 if noise == "laplace" else 40)
    engine = asked.table._engine
    frame = engine.released(engine.work(asked.plan(epsilon=1e-8, noise=noise)))
    frame = frame.mapInArrow(killing(str(last)), frame.schema)
    quiet = by_group(frame)
    for marker in (first, last):
        marker.unlink()
        assert by_group(frame) == quiet and marker.exists()


# A source that changes between two looks.
def growing(frame, marker: Path):
    """Return the rows, and while there is a marker one more: of a person who came, to group 3."""

    def function(batches):
        came = os.path.exists(marker)
        for batch in batches:
            yield batch
            if came and batch.num_rows:
                came = False
                yield pa.RecordBatch.from_arrays([pa.array([10**6]), pa.array([3])], schema=batch.schema)

    return frame.coalesce(1).mapInArrow(function, frame.schema)


@pytest.mark.long
def test_who_comes_between_two_looks_is_not_seen_nor_what_was_lost_computed_again(spark, frame_of, tmp_path):
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    kept = spark.sparkContext._jsc.getPersistentRDDs
    marker, before = tmp_path / "came", {*kept()}
    frame = question(growing(frame_of(ROWS), marker)).release(**BUDGET)
    ((mine, blocks),) = [(number, one) for number, one in kept().items() if number not in before]
    first = {row.g: row.n for row in frame.take(5)}
    marker.touch()
    seen = by_group(frame)
    assert first.items() <= seen.items() and by_group(frame.where("g >= 0")) == seen and mine
    blocks.unpersist(True)
    with pytest.raises((PySparkException, Py4JJavaError), match="(?i)checkpoint"):
        by_group(frame)


def test_a_release_runs_no_second_time(spark, frame_of, tmp_path):
    """Whatever is done with it: counted, cached, joined with itself, written."""
    reads = spark.sparkContext.accumulator(0)

    def counted(batches):
        for batch in batches:
            reads.add(batch.num_rows)
            yield batch

    rows = frame_of(ROWS)
    kept = len(spark.sparkContext._jsc.getPersistentRDDs())
    frame = question(rows.mapInArrow(counted, rows.schema)).release(**BUDGET)
    assert reads.value == 400 and len(spark.sparkContext._jsc.getPersistentRDDs()) == kept + 1
    seen = by_group(frame)
    assert frame.count() == 40 and by_group(frame.cache()) == seen
    frame.unpersist()
    assert reads.value == 400


# Rows that change while the job runs, and a part of it that is lost then.
COMPARING = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)


@dataclass(frozen=True)
class Losing(Work):
    """Half-way through the groups, all totals of step 2 are lost; where `place` is writable the rows change."""

    place: str = ""

    def noisy(self, shard, payloads):
        parts = list(payloads)
        done = os.listdir(self.place)
        if len(done) >= 6 and "changed" not in done:
            Path(self.place, "changed").touch()
            blocks = Path(os.environ["SPARK_LOCAL_DIRS"].split(",")[0])
            shuffles: dict[int, list[Path]] = {}
            for file in blocks.glob("**/shuffle_*"):
                shuffles.setdefault(int(file.name.split("_")[1]), []).append(file)
            for file in shuffles[max(shuffles)]:
                file.unlink(missing_ok=True)  # two tasks may come here at once
        yield from Work.noisy(self, shard, parts)
        Path(self.place, str(shard)).touch()


@pytest.mark.long
def test_a_unit_counts_once_though_its_rows_change_while_the_job_runs(
    spark, settings, frame_of, tmp_path, monkeypatch
):
    """Each moves to another group: Spark, which is asked to compare, sees it."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file
    given, marker = SparkEngine.work, str(tmp_path / "changed")

    def moving(batches):
        for batch in batches:
            groups = pc.add(batch["g"], 20 * os.path.exists(marker))
            yield pa.RecordBatch.from_arrays([batch["id"], groups], schema=batch.schema)

    def work(self, plan, confidence=None):
        made = given(self, plan, confidence)
        return Losing(made.stages, made.measurement, place=str(tmp_path))

    monkeypatch.setattr(SparkEngine, "work", work)
    settings({"spark.sfumato.shards": 12} | dict.fromkeys(COMPARING, True))
    rows = frame_of(pa.table({"id": range(1000), "g": [i % 20 for i in range(1000)]}))
    asked = sf.scan(rows.mapInArrow(moving, rows.schema), privacy_unit="id")
    asked = asked.group_by("g", keys=list(range(40))).bound(groups=1, rows=1).agg(n=sf.count())
    with pytest.raises(EngineError, match="Spark's job failed"):
        asked.release(epsilon=1000)
    assert os.path.exists(marker)


def test_a_session_that_does_not_notice_is_refused(settings, frame_of):
    asked = question(frame_of(ROWS))
    for name in COMPARING:
        settings({name: "False"})
        with pytest.raises(EngineError, match=f"{name} set to false"):
            asked.release(**BUDGET)
        settings({name: "true"})


# The form of what is released.
def sized(spark, rows: int):
    """Return 400 rows and, as Spark estimates their size by what comes in, 16 bytes for each of `rows`."""
    frame = spark.range(rows).where("id < 400")
    return frame.selectExpr("id DIV 4 AS id", "id % 40 AS g", "CAST(id AS DOUBLE) AS x")


def form(frame, folder: Path) -> list[list[int]]:
    """Return the groups of each file, in order."""
    frame.write.parquet(str(folder))
    files = sorted(folder.glob("part-*"))
    assert [f"part-{i:05}" for i in range(len(files))] == [file.name[:10] for file in files]
    return [pq.read_table(file)["g"].to_pylist() for file in files]


@pytest.mark.long
def test_what_is_made_of_a_release_follows_from_it_alone(spark, settings):
    """Spark chooses a join, and so files and an order, by an estimate that came from the size of the rows."""
    settings({"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "1MB"})
    names = spark.range(10**6).selectExpr("id AS g", "uuid() AS name")  # too large to be the one that is sent

    for rows in (400, 2**17):
        joined = names.join(question(sized(spark, rows)).release(**BUDGET), "g")
        assert "BroadcastHashJoin" not in joined._jdf.queryExecution().executedPlan().toString()


def test_shards_are_a_setting(spark, settings, monkeypatch):
    monkeypatch.setattr("sfumato.query.sizes.SHARD_BYTES", 16)  # of units, as many as there are rows
    for values, shards in (
        ({"spark.sql.shuffle.partitions": 200}, 16),
        ({"spark.sql.shuffle.partitions": 7}, 7),
        ({"spark.sfumato.shards": 3}, 3),
    ):
        settings(values)
        asked = question(sized(spark, 10))
        stages = asked.table._engine.work(asked.plan(**BUDGET)).stages
        assert stages.group_shards == shards and stages.unit_shards > 1


# Streams.
@pytest.mark.long
def test_a_micro_batch_of_a_stream_is_refused_in_whichever_thread_and_when_the_stream_has_ended(
    spark, tmp_path
):
    """By scan, and by the release of a question that was asked outside. A pool of threads that writes a batch to several
    places at once has not the stream's own properties."""
    place = str(tmp_path / "rows")
    sized(spark, 400).write.parquet(place)
    outside = question(sized(spark, 400))
    said, kept = [], []

    def ask(attempt):
        try:
            said.append(attempt())
        except EngineError as error:
            said.append(str(error))

    def function(batch, number):
        kept.append(batch.where("g > 1"))
        ask(lambda: sf.scan(batch, privacy_unit="id"))
        ask(lambda: outside.release(**BUDGET))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(ask, lambda: sf.scan(batch, privacy_unit="id")).result()
            read = batch.sparkSession.read
            pool.submit(ask, lambda: sf.scan(read.parquet(place), privacy_unit="id")).result()

    stream = spark.readStream.schema("id long, g long, x double").parquet(place)
    query = stream.writeStream.foreachBatch(function).trigger(availableNow=True).start()
    assert query.awaitTermination(100)
    ask(lambda: sf.scan(kept[0], privacy_unit="id"))
    assert len(said) == 5 and all("Append the batches to a table there" in str(text) for text in said)
    assert by_group(outside.release(**BUDGET)), "outside the stream it is released"
