"""A released data frame that is computed once.

The noise of a batch of groups follows from a secret and its exact statistics, so repeated work of one job
draws it once. Were the rows others the second time, the batches that stayed as they were would repeat bit
for bit, and those that changed would not: whoever has seen both knows where somebody came or went. No
noise hides that, so what was computed is kept, and there is no second time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from sfumato.query.released.comparing import ELSEWHERE, only_here

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sfumato.query.found import Found


def pinned(frame: DataFrame, found: tuple[Found, ...] = ()) -> DataFrame:
    """Compute a data frame, and return one that reads what was computed and knows no more of its sources.

    It is kept on the disks of the executors, on two where there are two, and not in the checkpoint
    directory, which nobody empties. Where all copies are lost, looking at it fails.

    Args:
        frame: a release.
        found: what its question left to it, which the data frame has as its own `found`.
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
    released: Any = type("ReleasedFrame", (ClassicDataFrame,), own | {"found": found})
    made: DataFrame = released(bare, session)
    return made


def _refusing(method: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise only_here(method, "a release on Spark")

    return refuse
