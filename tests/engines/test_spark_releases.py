"""What a release on Spark leaves behind: one set of numbers, a form that tells nothing of the rows, no folders."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.stages import Stages
from sfumato.engines.spark import spark_engine as engine_module
from sfumato.engines.spark.spark_engine import SparkEngine
from sfumato.engines.worker_noise import Work
from sfumato.errors import EngineError, ParameterError

pytestmark = pytest.mark.long

ROWS = pa.table({"id": [i // 4 for i in range(400)], "g": [i % 40 for i in range(400)]})
# With noise of each group, drawn in many tasks; where one draw serves all, test_spark_k_norm.py.
# So little that two draws of a group are the same number less than once in 10^9.
BUDGET = {"epsilon": 1e-8, "noise": "laplace"}


def question(frame, keys=range(40)):
    asked = sf.scan(frame, privacy_unit="id").group_by("g", keys=keys and list(keys))
    return asked.bound(groups=3, rows=2).agg(n=sf.count())


def by_group(frame) -> dict[int, int]:
    """Look at a release anew: a plan that was run once keeps what it shuffled."""
    return dict(zip(*frame.select("*").toArrow().to_pydict().values(), strict=True))


@pytest.fixture
def settings(spark):
    """A function that changes settings of the session until the test ends."""
    before: dict[str, str | None] = {}

    def change(values: dict[str, object]) -> None:
        for name, value in values.items():
            before.setdefault(name, spark.conf.get(name, None))
            spark.conf.set(name, str(value))

    yield change
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


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


@pytest.fixture(params=["materialized", "lazy"])
def release(request):
    """Question -> (its release, whether one look is all there is): the planted defect is computed at each look."""

    def released(asked):
        if request.param == "materialized":
            return asked.release(**BUDGET), True
        engine = asked.table._engine
        return engine.released(engine.work(asked.plan(**BUDGET))), False

    return released


def test_who_comes_between_two_looks_is_not_seen(release, frame_of, tmp_path):
    """Of the lazy release the shard of the other groups repeats bit for bit, and this one does not."""
    marker = tmp_path / "came"
    frame, once = release(question(growing(frame_of(ROWS), marker)))
    before = by_group(frame)
    marker.touch()
    after = by_group(frame)
    assert (before == after) is once
    if not once:
        same = [g for g in before if before[g] == after[g]]
        assert 3 not in same and len(same) >= 10


def test_nor_where_the_first_look_saw_a_part(release, frame_of, tmp_path):
    marker = tmp_path / "came"
    frame, once = release(question(growing(frame_of(ROWS), marker)))
    first = {row.g: row.n for row in frame.take(5)}
    marker.touch()
    seen = by_group(frame)
    assert len(first) == 5
    if once:  # the lazy one had not seen the person's shard, perhaps
        assert first.items() <= seen.items() and by_group(frame.where("g >= 0")) == seen


def blocks(spark) -> set[int]:
    return set(spark.sparkContext._jsc.getPersistentRDDs())


def test_what_was_lost_is_not_computed_again(spark, frame_of, tmp_path):
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    marker, before = tmp_path / "came", blocks(spark)
    frame = question(growing(frame_of(ROWS), marker)).release(**BUDGET)
    kept = spark.sparkContext._jsc.getPersistentRDDs()
    (mine,) = set(kept) - before
    assert by_group(frame)
    kept[mine].unpersist(True)
    marker.touch()
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
    frame = question(rows.mapInArrow(counted, rows.schema)).release(**BUDGET)
    assert reads.value == 400
    seen = by_group(frame)
    assert frame.count() == 40 and by_group(frame.cache()) == seen
    frame.unpersist()
    assert frame.join(frame.withColumnRenamed("n", "m"), "g").where("n <> m").count() == 0
    frame.write.parquet(str(tmp_path / "out"))
    assert by_group(spark.read.parquet(str(tmp_path / "out"))) == seen
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


@pytest.mark.parametrize("compared", [True, False])
@pytest.mark.parametrize("changes", [True, False])
def test_a_unit_counts_once_though_its_rows_change_while_the_job_runs(
    spark, settings, frame_of, tmp_path, monkeypatch, changes, compared
):
    """Each moves to another group. Without Spark's comparison, which is asked for, they are in both."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file
    given, marker = SparkEngine.work, str(tmp_path / "changed") if changes else ""

    def moving(batches):
        for batch in batches:
            groups = pc.add(batch["g"], 20 * os.path.exists(marker))
            yield pa.RecordBatch.from_arrays([batch["id"], groups], schema=batch.schema)

    def work(self, plan, confidence=None):
        made = given(self, plan, confidence)
        return Losing(made.stages, made.measurement, place=str(tmp_path))

    monkeypatch.setattr(SparkEngine, "work", work)
    if not compared:
        monkeypatch.setattr(engine_module, "_check_comparing", lambda session: None)
    settings({"spark.sfumato.shards": 12} | dict.fromkeys(COMPARING, compared))
    rows = frame_of(pa.table({"id": range(1000), "g": [i % 20 for i in range(1000)]}))
    asked = sf.scan(rows.mapInArrow(moving, rows.schema), privacy_unit="id")
    asked = asked.group_by("g", keys=list(range(40))).bound(groups=1, rows=1).agg(n=sf.count())
    if changes and compared:
        with pytest.raises(EngineError, match="Spark's job failed"):
            asked.release(epsilon=1000)
        return
    counted = sum(by_group(asked.release(epsilon=1000)).values())
    assert (counted == 1000) is not changes and os.path.exists(tmp_path / "changed")


@pytest.mark.parametrize("name", COMPARING)
def test_a_session_that_does_not_notice_is_refused(spark, settings, frame_of, name):
    asked = question(frame_of(ROWS))
    settings({name: "False"})
    with pytest.raises(EngineError, match=f"{name} set to false"):
        asked.release(**BUDGET)


# The form of what is released.
class BySize(SparkEngine):
    """A planted defect: shards in units of 32 MB of the private table."""

    def _group_shards(self) -> int:
        size = int(str(self._frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
        return max(2, min(-(-size // (32 << 20)), 8))


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


@pytest.mark.parametrize("kind", [SparkEngine, BySize])
def test_the_form_of_a_release_follows_from_settings(spark, settings, tmp_path, monkeypatch, kind):
    """How many files there are, which groups are in which, in what order: also with one row more."""
    settings({"spark.sql.shuffle.partitions": 8, "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1b"})
    monkeypatch.setattr(SparkEngine, "_group_shards", kind._group_shards)
    forms = {}
    for rows in (0, 2**22, 2**22 + 1):
        frame = question(sized(spark, rows)).release(**BUDGET)
        forms[rows] = form(frame, tmp_path / str(rows))
        assert sorted(g for groups in forms[rows] for g in groups) == list(range(40))
    assert (forms[0] == forms[2**22] == forms[2**22 + 1]) is (kind is SparkEngine)
    assert len(forms[2**22]) == (8 if kind is SparkEngine else 2)
    assert len(forms[2**22 + 1]) == (8 if kind is SparkEngine else 3)


def test_what_is_made_of_a_release_follows_from_it_alone(spark, settings):
    """Spark chooses a join, and so files and an order, by an estimate that came from the size of the rows."""
    settings({"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "1MB"})
    names = spark.range(10**6).selectExpr("id AS g", "uuid() AS name")  # too large to be the one that is sent

    def checkpointed(asked):
        engine = asked.table._engine
        return engine.released(engine.work(asked.plan(**BUDGET))).localCheckpoint()

    def broadcast(released, rows: int) -> bool:
        joined = names.join(released(question(sized(spark, rows))), "g")
        return "BroadcastHashJoin" in joined._jdf.queryExecution().executedPlan().toString()

    ours = [broadcast(lambda asked: asked.release(**BUDGET), rows) for rows in (400, 2**17)]
    assert ours == [False, False]
    assert [broadcast(checkpointed, rows) for rows in (400, 2**17)] == [True, False], "the planted defect"


@pytest.mark.parametrize(
    ("values", "shards"),
    [
        ({"spark.sql.shuffle.partitions": 7}, 7),
        ({"spark.sql.shuffle.partitions": 7, "spark.sfumato.shards": 3}, 3),
        ({"spark.sql.shuffle.partitions": 200}, 16),
    ],
)
def test_shards_are_a_setting(spark, settings, monkeypatch, values, shards):
    settings(values)
    monkeypatch.setattr("sfumato.query.sizes.SHARD_BYTES", 16)  # of units, as many as there are rows
    assert question(sized(spark, 10)).release(**BUDGET).rdd.getNumPartitions() == shards


@pytest.mark.parametrize("shards", ["0", "-1", "many", "1.5", "", "2147483648"])
def test_shards_that_are_no_number(spark, settings, shards):
    settings({"spark.sfumato.shards": shards})
    with pytest.raises(
        ParameterError, match="spark.sfumato.shards is .*, but must be a whole number of at least 1"
    ):
        question(sized(spark, 10)).release(**BUDGET)


def test_nothing_follows_from_the_shards_of_units():
    """Which alone may be as many as the rows ask for: the same work gives the same batches."""
    engine = DuckDBEngine.open(ROWS)
    asked = question(ROWS, keys=None)
    plan = asked.plan(epsilon=100, delta=1e-6, noise="laplace")
    work = Work.of(plan, Stages.of(engine, ROWS.schema, plan.exact, 3), None)

    def released(unit_shards: int | None) -> list[pa.RecordBatch]:
        stages = replace(work.stages, unit_shards=unit_shards)
        parts: dict[int, list[bytes]] = {}
        for part in stages.partials(ROWS.to_batches()):
            parts.setdefault(part.shard, []).append(part.data)
        totals: dict[int, list[bytes]] = {shard: [] for shard in range(3)}
        for part in (t for of_shard in parts.values() for t in stages.totals(of_shard)):
            totals[part.shard].append(part.data)
        assert len(parts) == (unit_shards or 3)
        own = replace(work, stages=stages)
        return [batch for shard, datas in totals.items() for batch in own.released(shard, datas)]

    first, *others = (released(number) for number in (None, 1, 2, 7, 20))
    assert sum(batch.num_rows for batch in first) > 5
    assert all(other == first for other in others)


# Streams.
def test_a_micro_batch_of_a_stream_is_refused(spark, tmp_path):
    """By scan, and by the release of a question that was asked outside."""
    place = str(tmp_path / "rows")
    sized(spark, 400).write.parquet(place)
    outside = question(sized(spark, 400))
    said = []

    def function(batch, number):
        for ask in (
            lambda: sf.scan(batch, privacy_unit="id"),
            lambda: sf.scan(batch.where("g > 1"), privacy_unit="id"),
            lambda: outside.release(**BUDGET),
        ):
            try:
                ask()
            except EngineError as error:
                said.append(str(error))
        said.append(f"{batch.count()} rows")

    stream = spark.readStream.schema("id long, g long, x double").parquet(place)
    query = stream.writeStream.foreachBatch(function).trigger(availableNow=True).start()
    assert query.awaitTermination(100)
    assert len(said) == 4 and said[-1] == "400 rows"
    assert all("Append the batches to a table there" in text for text in said[:-1])
    assert by_group(outside.release(**BUDGET)), "outside the stream it is released"


def test_a_micro_batch_is_refused_in_whichever_thread_and_when_the_stream_has_ended(spark, tmp_path):
    """A pool of threads that writes a batch to several places at once has not the stream's own properties."""
    place = str(tmp_path / "rows")
    sized(spark, 40).write.parquet(place)
    said, kept = [], []

    def ask(batch):
        try:
            said.append(sf.scan(batch, privacy_unit="id"))
        except EngineError as error:
            said.append(str(error))

    def function(batch, number):
        kept.append(batch.where("g > 1"))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(ask, batch).result()
            pool.submit(ask, batch.sparkSession.read.parquet(place)).result()

    stream = spark.readStream.schema("id long, g long, x double").parquet(place)
    query = stream.writeStream.foreachBatch(function).trigger(availableNow=True).start()
    assert query.awaitTermination(100)
    ask(kept[0])
    assert len(said) == 3 and all("Append the batches to a table there" in text for text in said)


# Folders.
PROGRAM = """
import os, sys, tempfile
import sfumato as sf
from sfumato.spark import session

spark = session("folders", {"spark.master": "local[2]", "spark.ui.enabled": False, "spark.log.level": "OFF",
                            "spark.sql.shuffle.partitions": 2, "spark.sql.codegen.wholeStage": False,
                            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"})
frame = spark.range(1000).selectExpr("id", "id % 7 AS g")
asked = sf.scan(frame, privacy_unit="id").group_by("g").bound(groups=1).agg(n=sf.count_units())
assert asked.release(epsilon=100, delta=1e-6).count() == 7

def careless(batches):
    sys.kept = tempfile.TemporaryDirectory(prefix="careless-")
    yield from batches

frame.mapInArrow(careless, frame.schema).count()
places = [(place, name) for place, names, _ in os.walk(os.environ["TMPDIR"]) for name in names]
print(*(os.path.basename(place) for place, name in places if name.startswith("sfumato-")))
spark.stop()
"""


def test_a_program_leaves_no_folder_behind(tmp_path):
    """While it runs its workers spill where Spark keeps its blocks; Spark kills them, and removes that. A worker
    that makes a folder elsewhere leaves it."""
    environment = os.environ | {"TMPDIR": str(tmp_path), "SPARK_LOCAL_DIRS": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "blockmgr-" in ran.stdout, "a worker had a folder"
    left = [place.name for place in tmp_path.iterdir()]
    assert left and all(name.startswith("careless-") for name in left)


@pytest.mark.noise_cannot_matter("what is said of columns is looked at, not numbers")
def test_frames_files_and_tables_say_what_their_numbers_do_not_include(spark, frame_of, tmp_path):
    released = question(frame_of(ROWS)).release(epsilon=1, confidence=0.9)

    def comments(frame):
        return {column.name: column.metadata.get("comment", "") for column in frame.schema}

    said = comments(released)
    assert said["g"] == "" and said["n"].startswith("Does not include bias from contribution limits")
    assert said["n_error"].startswith("90% error bar") and "not sampling error" in said["n_error"]
    assert comments(released.orderBy("g").select("n", "g"))["n"] == said["n"]
    released.write.parquet(f"{tmp_path}/n")
    assert comments(spark.read.parquet(f"{tmp_path}/n")) == said
    try:
        released.write.option("path", f"{tmp_path}/table").saveAsTable("released_numbers")
        described = spark.sql("DESCRIBE released_numbers").toArrow().to_pylist()
    finally:
        spark.sql("DROP TABLE IF EXISTS released_numbers")
    assert {row["col_name"]: row["comment"] or "" for row in described} == said
