"""Types of columns: Spark's to Arrow's on the way in, DuckDB's to Spark's on the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.engines.work import Work
from sfumato.errors import ColumnError, EngineError
from sfumato.query.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

# DuckDB's types of group keys that are the same values in Spark; a HUGEINT is a decimal there. Others
# (unsigned, time of day) lack a type there or in the oldest Spark that we run on, or lose values in the one
# that is nearest.
_KEYS = {
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "VARCHAR", "DATE",
    "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "UUID",
}  # fmt: skip


def arrow_rows(frame: DataFrame) -> pa.Schema:
    """Return the schema in which workers are given the rows.

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
                f"scan: the column {field.name!r} is {field.dataType.simpleString()}, which Spark cannot "
                f"pass to Python's workers; drop it, or cast it: frame.withColumn({field.name!r}, ...)"
            ) from None
        fields.append(pa.field(field.name, kind, nullable=field.nullable))
    return pa.schema(fields)


def spark_outputs(work: Work, schema: Schema) -> StructType:
    """Return Spark's schema of a release's outputs.

    Raises:
        ColumnError: a group key is of a type that is not given back.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    for key in work.stages.query.keys:
        kind = schema[key].type_name
        if kind not in _KEYS and not kind.startswith("DECIMAL"):
            raise ColumnError(
                f"group_by: {key!r} is {kind}, which is not given back to Spark; derive another first: "
                f"with_columns({key}='CAST({key} AS VARCHAR)')"
            )
    return from_arrow_schema(work.schema, prefer_timestamp_ntz=True)
