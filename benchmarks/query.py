"""A release of a large Parquet file, as ratios to the plain DuckDB query that only groups.

    python benchmarks/query.py [--rows 10000000] [--repeats 5] [--pipelinedp PYTHON] [--opendp PYTHON]

The file: 10 million rows, 1 million units with a heavy tail (some with 10,000 rows), 1,000 groups. The
job: count, sum and mean by group, at most 4 groups per unit. The floor groups by (unit, group), clamps,
and adds up; it bounds nothing and adds no noise. Every run is a process of its own, floor and release in
turn; the table gives medians, ratios pair by pair, and the largest resident memory of a run. Peers run
in environments of their own (`--pipelinedp`, `--opendp`: a Python that has the library), PipelineDP on a
tenth of the rows.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from _runs import generate, run

RUN = """
import json, resource, sys, time
path, what = sys.argv[1], sys.argv[2]
if what == "floor":
    import duckdb
    con = duckdb.connect()
    start = time.perf_counter()
    con.execute(f'''
        SELECT grp, count(*), sum(n), sum(s) FROM (
            SELECT unit, grp, count(*) AS n, sum(least(greatest(x, 0), 50)) AS s FROM '{path}' GROUP BY unit, grp
        ) GROUP BY grp''').fetchall()
elif what == "release":
    import sfumato as sf, sfumato.engines.duckdb.engine, sfumato.query.plan, sfumato.query.release
    start = time.perf_counter()
    ask(path).release(epsilon=1, delta=1e-6).to_arrow()
elif what == "pipelinedp":
    import pandas, pipeline_dp
    from pipeline_dp import pipeline_backend
    frame = pandas.read_parquet(path).dropna()
    rows = list(frame.itertuples(index=False, name=None))
    start = time.perf_counter()
    list(pipelinedp(pipeline_backend.LocalBackend(), rows))
elif what == "opendp":
    import opendp.prelude as dp, polars as pl
    dp.enable_features("contrib", "floating-point", "honest-but-curious")
    start = time.perf_counter()
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=[dp.polars.Bound(per_group=1), dp.polars.Bound(by=["grp"], num_groups=4)], identifier=pl.col("unit")),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=[], max_length=20_000_000), dp.polars.Margin(by=["grp"], max_length=20_000_000, max_groups=1000, invariant="keys")],
    )
    query = (context.query().truncate_per_group(1).truncate_num_groups(4, by=["grp"], keep="first").group_by("grp").agg(
        dp.len(), pl.col("x").fill_null(0.0).fill_nan(0.0).dp.sum((0.0, 50.0))))
    query.release().collect()
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--pipelinedp", metavar="PYTHON")
    parser.add_argument("--opendp", metavar="PYTHON")
    options = parser.parse_args()
    path = generate(options.rows, options.folder)
    floors, releases = [], []
    for _ in range(options.repeats):
        floors.append(run(sys.executable, RUN, path, "floor"))
        releases.append(run(sys.executable, RUN, path, "release"))
    ratios = sorted(r["seconds"] / f["seconds"] for r, f in zip(releases, floors, strict=True))
    report("floor (group only)", floors, options.rows)
    report("sfumato release", releases, options.rows)
    print(f"release / floor: {ratios[0]:.2f} .. {statistics.median(ratios):.2f} .. {ratios[-1]:.2f}")
    if options.pipelinedp:
        tenth = generate(options.rows // 10, options.folder)
        report(
            "PipelineDP local, 1/10 rows",
            [run(options.pipelinedp, RUN, tenth, "pipelinedp")],
            options.rows // 10,
        )
    if options.opendp:
        report("OpenDP Polars", [run(options.opendp, RUN, path, "opendp")], options.rows)


def report(name: str, runs: list[dict[str, float]], rows: int) -> None:
    seconds = statistics.median(r["seconds"] for r in runs)
    print(
        f"{name:28} {seconds:8.2f} s {rows / seconds / 1e6:8.3f} million rows/s {max(r['mb'] for r in runs):7.0f} MB"
    )


if __name__ == "__main__":
    main()
