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
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

GENERATE = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
rows, path = int(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(1)
units = rows // 10
# Rows per unit by Pareto's law with tail index 1.1, cut at 10,000.
size = np.minimum((rng.pareto(1.1, units) + 1) * 1.6, 12_000)
size = np.clip(np.round(size * (rows / size.sum())), 1, 10_000).astype(int)
unit = rng.permutation(np.repeat(np.arange(units), size))[:rows]
unit = rng.permutation(np.concatenate([unit, rng.integers(0, units, rows - len(unit))]))
group, x = rng.integers(0, 1000, rows), rng.normal(25, 15, rows)
print(f"{rows:,} rows, {len(np.unique(unit)):,} units (largest {size.max():,}; {(size == 10_000).sum()} of 10,000), "
      f"{len(np.unique(unit * 1000 + group)):,} (unit, group) pairs")
table = pa.table({"unit": unit, "grp": group, "x": pa.array(x, mask=rng.random(rows) < 0.01)})
pq.write_table(table, path, row_group_size=245_760)
"""

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
    question = sf.scan(path, privacy_unit="unit").group_by("grp").bound(groups=4, rows=1).agg(
        n=sf.count(), total=sf.sum("x", lower=0, upper=50), mean=sf.mean("x", lower=0, upper=50))
    question.release(epsilon=1, delta=1e-6).to_arrow()
elif what == "pipelinedp":
    import pandas, pipeline_dp
    from pipeline_dp import pipeline_backend
    frame = pandas.read_parquet(path).dropna()
    rows = list(frame.itertuples(index=False, name=None))
    start = time.perf_counter()
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(accountant, pipeline_backend.LocalBackend())
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM, pipeline_dp.Metrics.MEAN],
        max_partitions_contributed=4, max_contributions_per_partition=1, min_value=0, max_value=50)
    extract = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda r: r[0], partition_extractor=lambda r: r[1], value_extractor=lambda r: r[2])
    result = engine.aggregate(rows, params, extract)
    accountant.compute_budgets()
    list(result)
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


def run(python: str, path: Path, what: str) -> dict[str, float]:
    done = subprocess.run(
        [python, "-W", "ignore", "-c", RUN, str(path), what], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{what} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def generate(rows: int, folder: Path) -> Path:
    path = folder / f"rows_{rows}.parquet"
    if not path.exists():
        subprocess.run([sys.executable, "-c", GENERATE, str(rows), str(path)], check=True)
    return path


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
        floors.append(run(sys.executable, path, "floor"))
        releases.append(run(sys.executable, path, "release"))
    ratios = sorted(r["seconds"] / f["seconds"] for r, f in zip(releases, floors, strict=True))
    report("floor (group only)", floors, options.rows)
    report("sfumato release", releases, options.rows)
    print(f"release / floor: {ratios[0]:.2f} .. {statistics.median(ratios):.2f} .. {ratios[-1]:.2f}")
    if options.pipelinedp:
        tenth = generate(options.rows // 10, options.folder)
        report(
            "PipelineDP local, 1/10 rows", [run(options.pipelinedp, tenth, "pipelinedp")], options.rows // 10
        )
    if options.opendp:
        report("OpenDP Polars", [run(options.opendp, path, "opendp")], options.rows)


def report(name: str, runs: list[dict[str, float]], rows: int) -> None:
    seconds = statistics.median(r["seconds"] for r in runs)
    print(
        f"{name:28} {seconds:8.2f} s {rows / seconds / 1e6:8.3f} million rows/s {max(r['mb'] for r in runs):7.0f} MB"
    )


if __name__ == "__main__":
    main()
