"""A released data frame that is computed once.

The noise of a batch of groups follows from a secret and its exact statistics, so repeated work of one job
draws it once. Were the rows others the second time, the batches that stayed as they were would repeat bit
for bit, and those that changed would not: whoever has seen both knows where somebody came or went. No
noise hides that, so what was computed is kept, and there is no second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def pinned(frame: DataFrame) -> DataFrame:
    """Compute a data frame, and return one that reads what was computed and knows no more of its sources.

    It is kept on the disks of the executors, on two where there are two, and not in the checkpoint
    directory, which nobody empties. Where all copies are lost, looking at it fails.
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
    return ClassicDataFrame(bare, session)
