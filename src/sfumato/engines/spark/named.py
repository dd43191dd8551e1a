"""Tables and views of a Spark session, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sfumato.engines.spark.engine import is_frame
from sfumato.errors import EngineError, ParameterError, in_own_words, with_article

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_tables(spark: SparkSession) -> Callable[[object], Any]:
    """Return what gives the data frame of a name; a data frame is its own.

    Raises:
        ParameterError: it is no session. What it returns raises EngineError where there is no such table.
    """
    kind = type(spark)
    if not kind.__module__.startswith("pyspark.sql") or kind.__name__ != "SparkSession":
        raise ParameterError("spark", kind.__name__, "a session, as sfumato.spark.session() gives one")

    def frame(source: object) -> Any:
        if is_frame(source):
            return source
        if not isinstance(source, str):
            raise EngineError(
                f"source is {with_article(type(source).__name__)}, but must name a table or view of Spark"
            )

        def says(error: Exception) -> EngineError:
            return EngineError(f"Spark has no table or view {source!r}, or cannot read it")

        with in_own_words(says, Exception):
            return spark.table(source)

    return frame
