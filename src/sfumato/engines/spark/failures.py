"""What a release says of a job that failed: the texts of Spark, and of functions that it runs, quote rows."""

from __future__ import annotations

import re

from sfumato.engines.duckdb.reading import FILES, MEMORY, UNKNOWN
from sfumato.errors import EngineError, with_article

# What workers say before they have seen a row, or of no row: docs/spark.md has what to do.
_SAID = re.compile(
    r"Spark's Python workers lack the module '[\w.]+'|No module named '[\w.]+'|\[PYTHON_VERSION_MISMATCH\]"
    r"|a worker has DuckDB [\w.+-]+, but the release was made with [\w.+-]+"
    rf"|a worker's DuckDB stopped\. (?:{MEMORY}|{FILES}|{UNKNOWN})|parts of one shard came apart"
)


def failed(error: Exception) -> EngineError:
    """Return what may be said of an error of Spark: which it is, and what a worker of ours said.

    >>> print(failed(ValueError("cannot cast 'a private value'")))
    release: Spark's job failed at a ValueError, whose text is left out, as it may quote rows; ...
    """
    said = _SAID.search(str(error))
    if said:
        return EngineError(f"release: Spark's job failed: {said[0]} (docs/spark.md, Install)")
    condition = getattr(error, "getCondition", lambda: None)()
    kind = type(error).__name__ + (f" ({condition})" if condition else "")
    return EngineError(
        f"release: Spark's job failed at {with_article(kind)}, whose text is left out, as it may quote "
        f"rows; where an "
        "expression, cast or function before `scan` stops at a row, let it give NULL, as try_cast does"
    )
