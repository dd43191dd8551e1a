"""Plans to releases on Apache Spark: two shuffles, and DuckDB inside the workers.

Spark reads the rows, moves parts of shards between machines and keeps what is waiting; it never looks
inside a part. What a row expression, a key or a limit means is settled once, in `engines.duckdb.stages`.
Nothing is collected to the driver but public tables, and the exact numbers of the largest groups, no more of
each shard than may be shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from sfumato.engines.distributed_engine import DistributedEngine
from sfumato.engines.duckdb.combined_stages import too_large
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.engines.duckdb.source_reader import FILES, MEMORY, UNKNOWN
from sfumato.engines.duckdb.stages import Stages
from sfumato.engines.spark.spark_tasks import (
    PARTS,
    bound_units,
    collect_largest,
    draw_groups,
    draw_joint_noise,
    gather_groups,
    make_task,
    reach_units,
    sum_rows,
    suppress_log,
)
from sfumato.engines.worker_noise import Work
from sfumato.errors import ColumnError, EngineError, ParameterError, QueryError, in_own_words, with_article
from sfumato.query import sizes
from sfumato.query.engine_protocol import BroughtKeys, ExactQuery
from sfumato.query.schema import Schema, Step
from sfumato.release.canonical_form import canonical
from sfumato.release.group_comparison import ELSEWHERE, only_here
from sfumato.release.payment import ChargeBudget, no_charge
from sfumato.release.receipt import receipt_elsewhere
from sfumato.release.top_release import TopRelease

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from sfumato.api.largest_groups import Top
    from sfumato.noise import Words
    from sfumato.plan.plan import Plan
    from sfumato.plan.top_measurement import TopMeasurement
    from sfumato.query.inferred_parameters import Found
    from sfumato.release.receipt import Receipt


# DuckDB's types of group keys that are the same values in Spark; a HUGEINT is a decimal there. Others
# (unsigned, time of day) lack a type there or in the oldest Spark that we run on, or lose values in the one
# that is nearest.
_KEYS = {
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "VARCHAR", "DATE",
    "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID",
}  # fmt: skip


def arrow_rows(frame: DataFrame) -> pa.Schema:
    """Return the Arrow schema in which Spark's workers receive a frame's rows.

    Raises:
        EngineError: a column cannot be passed on.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    zone = str(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
    fields = []
    for field in frame.schema:
        try:
            kind = to_arrow_type(field.dataType, timezone=zone)
        except (PySparkException, AssertionError):
            raise EngineError(
                f"scan: the column {field.name!r} is {field.dataType.simpleString()}, which Spark "
                "cannot pass to Python's workers. Drop it, or cast it: "
                f"frame.withColumn({field.name!r}, ...)"
            ) from None
        fields.append(pa.field(field.name, kind, nullable=field.nullable))
    return pa.schema(fields)


def spark_outputs(work: Work, schema: Schema) -> StructType:
    """Return Spark's schema of a release's outputs, with comments on what they do not include.

    Raises:
        ColumnError: a group key is of a type that is not given back.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    for key in work.stages.query.keys:
        kind = schema[key].type_name
        if kind not in _KEYS and not kind.startswith("DECIMAL"):
            raise ColumnError(
                f"group_by: {key} is {kind}, which cannot be returned to Spark. Derive another "
                f"first: with_columns({key}='CAST({key} AS VARCHAR)')"
            )
    columns, comments = from_arrow_schema(work.schema, prefer_timestamp_ntz=True), work.comments
    for column in columns:
        if column.name in comments:
            column.metadata = {"comment": comments[column.name]}
    return columns


def materialize(frame: DataFrame, found: tuple[Found, ...], receipt: Receipt) -> DataFrame:
    """Compute a Spark frame once, and return a materialized one that knows no source.

    It is kept on the disks of the executors, on two where there are two, and not in the checkpoint
    directory, which nobody empties. Where all copies are lost, looking at it fails.

    Args:
        frame: a release.
        found: what its question left to it, which the data frame has as its own `found`.
        receipt: what its method `receipt` returns.
    """
    from pyspark import StorageLevel
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    session = frame.sparkSession
    alone = session.sparkContext._jsc.sc().isLocal()
    kept = frame.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY if alone else StorageLevel.DISK_ONLY_2)
    # Spark would go on to plan joins, and so the files and the order of what is made of the release, by an
    # estimate that comes down from the size of the rows. Of a bare RDD it has none.
    rows, schema = kept._jdf.queryExecution().toRdd(), kept._jdf.schema()
    bare = session._jsparkSession.internalCreateDataFrame(rows, schema, False)

    # A data frame of Spark's, which says what it does not do as other releases do.
    own: dict[str, object] = {name: _refusing(name) for name in ELSEWHERE}
    released: Any = type(
        "ReleasedFrame", (ClassicDataFrame,), own | {"found": found, "receipt": lambda _: receipt}
    )
    made: DataFrame = released(bare, session)
    return made


def _refusing(method: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise only_here(method, "a release on Spark")

    return refuse


# What workers say before they have seen a row, or of no row: docs/spark.md has what to do.
_SAID = re.compile(
    r"Spark's Python workers lack the module '[\w.]+'|No module named '[\w.]+'|\[PYTHON_VERSION_MISMATCH\]"
    r"|a worker has DuckDB [\w.+-]+, but the release was made with [\w.+-]+"
    rf"|a worker's DuckDB stopped\. (?:{MEMORY}|{FILES}|{UNKNOWN})|parts of one shard were separated"
)


def failed(error: Exception) -> EngineError:
    """Return the error of a failed Spark job, without Spark's text, which may quote rows.

    >>> print(failed(ValueError("cannot cast 'a private value'")))
    release: Spark's job failed with a ValueError (its text is left out, as it may quote rows). ...
    """
    said = _SAID.search(str(error))
    if said:
        return EngineError(f"release: Spark's job failed: {said[0]} (docs/spark.md, Install)")
    condition = getattr(error, "getCondition", lambda: None)()
    kind = type(error).__name__ + (f" ({condition})" if condition else "")
    return EngineError(
        f"release: Spark's job failed with {with_article(kind)} (its text is left out, as it may "
        "quote rows). If an expression, cast or function before `scan` fails on a row, let it return "
        "NULL, as try_cast does"
    )


# Shards of groups: a setting for releases alone, and what holds without it.
SHARDS, GROUP_SHARDS = "spark.sfumato.shards", 16
# Of a public frame, or of public keys in one: they come to the driver.
PUBLIC_ROWS = 5_000_000
# The first whose shuffle takes a shard's number for the partition's, and whose Arrow types name a time zone.
_OLDEST = "4.2"
# Where a part is computed again, Spark compares it with what came of it before, unless it is told not to.
_COMPARING = (
    "spark.sql.shuffle.orderIndependentChecksum.enabled",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch",
)
# What Spark sets on the thread that runs a function of foreachBatch, and on the session that a stream has to
# itself, whose frames threads of the function's own are given.
_MICRO_BATCH, _OF_STREAM = "streaming.sql.batchId", "spark.sql.streaming.internal.stateStore.partitions"


class SparkEngine(DistributedEngine):
    """Evaluates queries on a Spark data frame.

    Args:
        frame: the rows; lazily, as everything here.
        public: whether they are public knowledge.
        timezone: in which times with a zone are read, whatever Spark's own setting is.
    Raises:
        EngineError: it is no classic batch frame, or has columns that cannot be told apart or passed on.
    """

    name = "Spark"
    has_local_rows = True

    def __init__(self, frame: DataFrame, public: bool = False, timezone: str = "UTC") -> None:
        _check_frame(frame)
        self._frame = frame
        super().__init__(arrow_rows(frame), timezone, public)

    @in_own_words(failed, Exception)
    def public_rows(self, names: Sequence[str]) -> DuckDBEngine:
        """Collect columns of a public Spark frame to the driver."""
        rows = _select_columns(self._frame, names).limit(PUBLIC_ROWS + 1).toArrow()
        if rows.num_rows > PUBLIC_ROWS:
            raise too_large()
        schema = pa.schema([self._rows.field(name) for name in names])
        return DuckDBEngine.open(rows.rename_columns(names).cast(schema), self._local.timezone)

    def public_keys(
        self, keys: Sequence[str], values: object, steps: Sequence[Step]
    ) -> pa.Table | BroughtKeys:
        """Return public keys, sorted; those of a Spark frame are collected."""
        return super().public_keys(keys, _collect_keys(values) if is_frame(values) else values, steps)

    @in_own_words(failed, Exception)
    def check_release(self, plan: Plan, unsafe_words: Words | None) -> None:
        """Refuse a Spark release with known noise, diagnostics, or an unfit session."""
        super().check_release(plan, unsafe_words)
        if plan.diagnostics is not None:
            raise QueryError(
                "diagnostics: a release as a Spark data frame cannot hold them. Call "
                "question.diagnose(epsilon=0.05), and release with the rest of the budget"
            )
        self._check()

    @in_own_words(failed, Exception)
    def release(
        self,
        plan: Plan,
        *,
        confidence: float | None = None,
        unsafe_words: Words | None = None,
        pay: ChargeBudget = no_charge,
    ) -> DataFrame:
        """Run a release on Spark, and return the noisy table as a frame that is never computed again.

        Args:
            plan: what to do.
            confidence: also give error bars, in columns named `<output>_error`.
            unsafe_words: refused here; the noise of a batch follows from a secret of the release.
            pay: called before a row is read.
        Raises:
            QueryError: diagnostics are asked with it.
            EngineError: this is a micro-batch of a stream, its session has ended or does not notice rows that
                change, or Spark's job failed; in words of ours alone, as those of Spark quote rows.
        """
        self.check_release(plan, unsafe_words)
        work = self.work(plan, confidence)
        paid = pay()
        receipt = receipt_elsewhere(plan, canonical(plan, self), paid, plan.bias.describe())
        made = materialize(self.released(work), plan.found, receipt)
        for one in paid:
            one.record("answered")
        return made

    @in_own_words(failed, Exception)
    def top(
        self,
        plan: Plan[Top, TopMeasurement],
        *,
        unsafe_words: Words | None = None,
        pay: ChargeBudget = no_charge,
    ) -> TopRelease:
        """Return the release of a Spark frame's largest groups; it is drawn on first access.

        Args:
            plan: what is asked, and its noise.
            unsafe_words: a source of random words for tests.
            pay: called before a row is read.
        Raises:
            EngineError: as from `release`.
        """
        self._check()
        self._check_joined_rows()
        made = TopRelease(plan, unsafe_words)
        made._paid = pay()
        return made

    def _check(self) -> None:
        """Refuse a Spark session in which a release would be made twice, or of rows that change."""
        for frame in self._frames:
            _check_session(frame)
        _check_comparing(self._frame.sparkSession)

    def work(self, plan: Plan, confidence: float | None = None) -> Work:
        """Return what Spark's workers will do for one release; it holds the release's secret."""
        return Work.prepare(plan, self._stages(plan.exact), confidence)

    def released(self, work: Work) -> DataFrame:
        """Return the Spark frame of a release, not yet computed.

        Whoever looks at it twice, while the rows change between the two looks, sees which batches of groups
        changed: so nobody is given it but `materialize`.
        """
        columns, groups = spark_outputs(work, work.stages.schema), self._groups(work.stages)
        work = replace(work, stages=work.stages.bare)
        with suppress_log():
            if not work.at_once:
                return groups.mapInArrow(make_task(draw_groups, work), columns)
            gathered = groups.mapInArrow(make_task(gather_groups, work), PARTS).repartition(1)
            return gathered.mapInArrow(make_task(draw_joint_noise, work), columns)

    @in_own_words(failed, Exception)
    def statistics(self, query: ExactQuery, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield exact statistics on Spark's driver, sorted by key: for largest groups and tests."""
        self._check()
        stages = self._stages(query)
        totals = self._totals(stages)
        if query.largest is not None:
            totals = self._groups(stages).mapInArrow(make_task(collect_largest, stages.bare), PARTS)
        return stages.merged(None, [bytes(row.data) for row in totals.collect()], batch_rows)

    def _stages(self, query: ExactQuery) -> Stages:
        return replace(self.stages(query, self._group_shards()), unit_shards=self._unit_shards())

    def _unit_shards(self) -> int:
        """Return the number of Spark's unit shards, which grows with cluster and data."""
        session = self._frame.sparkSession
        plans = [frame._jdf.queryExecution().optimizedPlan() for frame in self._frames]
        size = sum(int(str(plan.stats().sizeInBytes())) for plan in plans)
        parts = min(-(-size // sizes.SHARD_BYTES), _shuffle_partitions(session))
        return max(int(session.sparkContext.defaultParallelism), parts)

    def _group_shards(self) -> int:
        """Return the number of Spark's group shards: a setting, as the output depends on it."""
        session = self._frame.sparkSession
        asked = session.conf.get(SHARDS, None)
        if asked is None:
            return min(_shuffle_partitions(session), GROUP_SHARDS)
        if not asked.isdecimal() or not 0 < int(asked) < 1 << 31:
            raise ParameterError(SHARDS, asked, "a whole number of at least 1")
        return int(asked)

    def _totals(self, stages: Stages) -> DataFrame:
        """Return a Spark frame of the second stage's totals, in parts."""
        shards, tables = stages.unit_shards or stages.shards, self.tables
        parts = {
            number: _select_columns(tables[number].engine._frame, rows.names).mapInArrow(  # type: ignore[union-attr]
                make_task(sum_rows, stages.from_table(number), number), PARTS
            )
            for number, rows in stages.arriving.items()
        }
        for join in stages.key_joins:
            both = parts.pop(join.owners).union(parts.pop(join.rows)).repartitionById(shards, "shard")
            reach = make_task(reach_units, stages.from_table(join.gives), join)
            parts[join.gives] = both.mapInArrow(reach, PARTS)
        units = reduce(lambda some, more: some.union(more), parts.values()).repartitionById(shards, "shard")
        return units.mapInArrow(make_task(bound_units, stages.bare if stages.by_rows else stages), PARTS)

    @property
    def _frames(self) -> list[DataFrame]:
        """The Spark frames of all private tables."""
        engines = (leaf.engine for leaf in self.tables.values())
        return [one._frame for one in engines if isinstance(one, SparkEngine) and not one._public]

    def _groups(self, stages: Stages) -> DataFrame:
        """Return a Spark frame of groups' parts, each shard in a partition of its own."""
        # A part for each shard, so that public groups appear where nothing arrives.
        seeds = self._frame.sparkSession.range(stages.group_shards)
        empty = seeds.selectExpr("CAST(id AS INT) AS shard", "CAST('' AS BINARY) AS data")
        return self._totals(stages).union(empty).repartitionById(stages.group_shards, "shard")


def is_frame(value: object) -> bool:
    """Whether an object is a Spark data frame."""
    return type(value).__module__.startswith("pyspark.sql") and type(value).__name__ == "DataFrame"


def _collect_keys(keys: Any) -> pa.Table:
    """Collect a Spark frame of public keys to the driver."""
    _check_frame(keys)
    with in_own_words(failed, Exception):
        rows = keys.limit(PUBLIC_ROWS + 1).toArrow()
    if rows.num_rows > PUBLIC_ROWS:
        raise QueryError(
            f"group_by: keys= has more than {PUBLIC_ROWS:,} rows, but they are sent with every task. "
            "Pass fewer keys"
        )
    return rows


def _select_columns(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return a Spark frame's columns under plain names, without dots."""
    return frame.select([frame[_quote(name)].alias(f"c{i}") for i, name in enumerate(names)])


def _check_frame(frame: DataFrame) -> None:
    module = type(frame).__module__
    # A column of Spark has whatever attribute it is asked for.
    if not module.startswith("pyspark.sql") or type(frame).__name__ != "DataFrame":
        raise EngineError(
            f"scan: cannot read {with_article(type(frame).__name__)} of "
            f"{module.partition('.')[0]}. Pass a Spark data frame (from pandas on Spark: "
            "frame.to_spark())"
        )
    if ".connect." in module:
        raise EngineError("scan: data frames of Spark Connect are not supported. Use a classic session")
    version = frame.sparkSession.version
    if _numbers(version) < _numbers(_OLDEST):
        raise EngineError(f"scan: the data frame is from Spark {version}, but {_OLDEST} or newer is needed")
    _check_session(frame)
    if frame.isStreaming:
        raise EngineError(
            "scan: the data frame is a stream, which never ends, but a release needs all rows of a "
            "unit. Write it to a table, and release from that"
        )


def _check_session(frame: DataFrame) -> None:
    """Refuse a Spark session that has ended, and a stream's micro-batch."""
    running = frame.sparkSession.sparkContext._jsc
    if running is None or running.sc().isStopped():
        raise EngineError("scan: the data frame's Spark session has ended. Read the rows in a running one")
    here = frame.sparkSession.sparkContext.getLocalProperty(_MICRO_BATCH)
    if here is not None or frame.sparkSession.conf.get(_OF_STREAM, None) is not None:
        raise EngineError(
            "scan: inside foreachBatch each micro-batch would be a release of its own, and a retried "
            "batch would be released twice. Append the batches to a table there, and release from "
            "the table outside the stream"
        )


def _check_comparing(session: SparkSession) -> None:
    """Refuse a Spark session that does not notice rows that change between two computations."""
    off = [name for name in _COMPARING if str(session.conf.get(name, None)).lower() == "false"]
    if off:
        raise EngineError(
            f"release: with {' and '.join(off)} set to false, Spark may recompute a lost part from "
            "changed rows, and a unit may count twice. Set it to true"
        )


def _shuffle_partitions(session: SparkSession) -> int:
    given = str(session.conf.get("spark.sql.shuffle.partitions"))
    return int(given) if given.isdecimal() else 200  # Databricks has "auto"


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")[:2]]


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def spark_tables(spark: SparkSession) -> Callable[[object], Any]:
    """Return a function that gives the Spark frame of a table's name.

    Raises:
        ParameterError: it is no session. What it returns raises EngineError where there is no such table.
    """
    kind = type(spark)
    if not kind.__module__.startswith("pyspark.sql") or kind.__name__ != "SparkSession":
        raise ParameterError("spark", kind.__name__, "a session, such as sfumato.spark.session() returns")

    def frame(source: object) -> Any:
        if is_frame(source):
            return source
        if not isinstance(source, str):
            raise EngineError(
                f"source is {with_article(type(source).__name__)}, but must be the name of a table "
                "or view of Spark"
            )

        def says(error: Exception) -> EngineError:
            return EngineError(f"Spark has no table or view {source!r}, or cannot read it")

        with in_own_words(says, Exception):
            return spark.table(source)

    return frame
