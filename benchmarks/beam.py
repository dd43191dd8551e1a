"""A release in a Beam pipeline, beside PipelineDP on the same runner.

    python benchmarks/beam.py [--rows 1000000 10000000 30000000] [--layouts scattered together]
        [--pipelinedp PYTHON] [--peer-rows 1000000]

The file and the job are those of benchmarks/query.py: count, sum and mean by group, at most 4 groups per
unit. Both pipelines read the same Parquet row groups on Beam's FnApiRunner, in one process; ours as Arrow
batches, as dictionaries, and as tuples of which ToRows makes rows, the peer as tuples. Each run is a process of
its own; imports are not timed. Rows of a unit are scattered at random, or together. The last lines release a
hot file: one unit with a million rows, and one group with ten million.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _runs import generate, laid_out, run

RUN = """
import json, logging, resource, sys, time
logging.disable(logging.WARNING)
path, what = sys.argv[1], sys.argv[2]
import apache_beam as beam, pyarrow as pa, pyarrow.parquet as pq
def batches(group):
    yield pq.ParquetFile(path).read_row_group(group)
def dictionaries(group):
    yield from pq.ParquetFile(path).read_row_group(group).to_pylist()
def tuples(group):
    # One row in a hundred has no x, which the peer cannot take.
    yield from zip(*(c.to_pylist() for c in pq.ParquetFile(path).read_row_group(group).drop_null().columns))
groups = range(pq.ParquetFile(path).num_row_groups)
if what in ("batches", "dictionaries", "tuples"):
    from sfumato.beam import ToRows
    columns = pa.schema([("unit", pa.int64()), ("grp", pa.int64()), ("x", pa.float64())])
    question = ask(columns)
    start = time.perf_counter()
    with beam.Pipeline(runner="FnApiRunner") as p:
        rows = p | beam.Create(groups) | beam.FlatMap(globals()[what])
        if what == "tuples":
            rows |= ToRows(columns, lambda r: {"unit": r[0], "grp": r[1], "x": r[2]})
        rows | question.release(epsilon=1, delta=1e-6) | beam.combiners.Count.Globally() | beam.Map(print)
elif what == "pipelinedp":
    import pipeline_dp
    start = time.perf_counter()
    with beam.Pipeline(runner="FnApiRunner") as p:
        rows = p | beam.Create(groups) | beam.FlatMap(tuples)
        result = pipelinedp(pipeline_dp.BeamBackend(), rows)
        result | beam.combiners.Count.Globally() | beam.Map(print)
seconds = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "mb": peak_mb()}))
"""

HOT = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
path, rng = sys.argv[1], np.random.default_rng(1)
writer = None
for part in range(11):
    n = 1_000_000
    # Ten million rows of units in one group, then a million rows of one unit in a thousand groups.
    unit = rng.integers(0, 3_000_000, n) if part < 10 else np.full(n, -1)
    group = np.zeros(n, np.int64) if part < 10 else rng.integers(0, 1000, n)
    table = pa.table({"unit": unit, "grp": group, "x": rng.normal(25, 15, n)})
    writer = writer or pq.ParquetWriter(path, table.schema)
    writer.write_table(table, row_group_size=245_760)
writer.close()
"""


def report(name: str, rows: int, found: dict[str, float], peer: float | None) -> float:
    rate = rows / found["seconds"]
    ratio = f"{rate / peer:8.1f} x" if peer else ""
    print(
        f"{name:33} {rows:>12,} {found['seconds']:9.2f} s {rate:12,.0f} rows/s {found['cpu']:8.1f} s CPU "
        f"{found['mb']:7.0f} MB  load {os.getloadavg()[0]:4.1f} {ratio}",
        flush=True,
    )
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000, 30_000_000])
    parser.add_argument("--layouts", nargs="+", default=["scattered", "together"])
    parser.add_argument("--shapes", nargs="+", default=["batches", "dictionaries", "tuples"])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--pipelinedp", metavar="PYTHON")
    parser.add_argument("--peer-rows", type=int, default=1_000_000)
    options = parser.parse_args()
    peer = None
    if options.pipelinedp:
        path = generate(options.peer_rows, options.folder)
        peer = report("PipelineDP", options.peer_rows, run(options.pipelinedp, RUN, path, "pipelinedp"), None)
    for rows in options.rows:
        for layout in options.layouts:
            path = laid_out(layout, rows, options.folder)
            for shape in options.shapes:
                report(f"sfumato, {shape}, {layout}", rows, run(sys.executable, RUN, path, shape), peer)
    hot = options.folder / "rows_hot.parquet"
    if not hot.exists():
        subprocess.run([sys.executable, "-c", HOT, str(hot)], check=True)
    report("sfumato, hot keys", 11_000_000, run(sys.executable, RUN, hot, "batches"), peer)


if __name__ == "__main__":
    main()
