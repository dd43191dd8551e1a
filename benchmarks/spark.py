"""A release on Spark's local[2], beside the same bounded query in plain Spark SQL and PipelineDP on Spark.

    python benchmarks/spark.py [--rows 1000000 10000000] [--layouts scattered together] [--repeats 3]
        [--pipelinedp PYTHON] [--growth]

The file and the question are those of benchmarks/query.py: count, sum and mean by 1,000 groups, at most 4
groups per unit, of units with a heavy tail, whose rows are scattered at random or stand together. Plain Spark SQL keeps 4 groups of each unit by row_number over
xxhash64 and adds up, without noise. Every run is a process of its own, with a session that has already run the
query on a small file; seconds are of the query alone, to a result on the driver. PipelineDP (`--pipelinedp`: a
Python that has pipeline-dp and pyspark) runs on a tenth of the rows and is compared row by row. `--growth` adds
1, 3, 10 and 30 million rows, `--hot` a table in which one unit has a million rows and one group ten million.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from _runs import generate, laid_out, run

RUN = """
import glob, json, os, sys, threading, time, warnings
warnings.simplefilter("ignore")
path, small, what = sys.argv[1:4]
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g").config("spark.ui.enabled", "false")
         .config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "ERROR").getOrCreate())

largest = 0
def watch():
    # Resident memory of the largest Python worker.
    global largest
    me = os.getpid()
    while True:
        parents = {}
        for status in glob.glob("/proc/[0-9]*/status"):
            try:
                lines = dict(l.split(":", 1) for l in open(status).read().splitlines() if ":" in l)
                parents[int(lines["Pid"])] = (int(lines["PPid"]), int(lines.get("VmRSS", "0 kB").split()[0]), lines["Name"].strip())
            except (OSError, ValueError, KeyError):
                continue
        for pid, (parent, rss, name) in parents.items():
            chain = set()
            while pid in parents and pid not in chain:
                chain.add(pid)
                pid = parents[pid][0]
            if me in chain and name.startswith("python") and len(chain) > 1:
                largest = max(largest, rss)
        time.sleep(0.2)

def plain(path):
    spark.read.parquet(path).createOrReplaceTempView("source")
    spark.sql('''
        SELECT grp, count(*) AS n, sum(s) AS total, sum(s) / count(*) AS mean FROM (
            SELECT *, row_number() OVER (PARTITION BY unit ORDER BY xxhash64(42, unit, grp)) AS place FROM (
                SELECT unit, grp, count(*) AS n, sum(least(greatest(x, 0), 50)) AS s FROM source GROUP BY unit, grp
            )) WHERE place <= 4 GROUP BY grp''').collect()

def ours(path):
    ask(spark.read.parquet(path)).release(epsilon=1, delta=1e-6).collect()

def peer(path):
    import pipeline_dp
    pipelinedp(pipeline_dp.SparkRDDBackend(spark.sparkContext), spark.read.parquet(path).dropna().rdd).collect()

def hot(path):
    # A unit with a million rows in 100,000 groups, and a group with ten million units.
    size = 11_000_000 if path != small else 11_000
    frame = spark.range(size).selectExpr(
        "IF(id % 11 = 0, -1, id) AS unit", "IF(id % 11 = 0, id % 100000, -7) AS grp", "CAST(id % 50 AS DOUBLE) AS x")
    ask(frame).release(epsilon=1, delta=1e-6).collect()

run = {"plain": plain, "ours": ours, "pipelinedp": peer, "hot": hot}[what]
run(small)
threading.Thread(target=watch, daemon=True).start()
start = time.perf_counter()
run(path)
print(json.dumps({"seconds": time.perf_counter() - start, "mb": largest / 1024}))
spark.stop()
"""


def timed(python: str, path: Path, small: Path, what: str) -> dict[str, float]:
    return run(python, RUN, path, small, what, PYSPARK_PYTHON=python, PYSPARK_DRIVER_PYTHON=python)


def report(name: str, runs: list[dict[str, float]], rows: int) -> float:
    seconds = statistics.median(r["seconds"] for r in runs)
    print(
        f"{name:28} {rows:>12,} rows {seconds:8.2f} s {rows / seconds:12,.0f} rows/s "
        f"{max(r['mb'] for r in runs):7.0f} MB in the largest Python worker",
        flush=True,
    )
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--layouts", nargs="+", default=["scattered", "together"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--pipelinedp", metavar="PYTHON")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--hot", action="store_true")
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    small = generate(10_000, options.folder)
    for rows in options.rows:
        ours = 0.0
        for layout in options.layouts:
            path = laid_out(layout, rows, options.folder)
            plains, releases = [], []
            for _ in range(options.repeats):
                plains.append(timed(sys.executable, path, small, "plain"))
                releases.append(timed(sys.executable, path, small, "ours"))
            ratios = sorted(r["seconds"] / p["seconds"] for r, p in zip(releases, plains, strict=True))
            print(f"rows of a unit {layout}")
            report("plain Spark SQL, no noise", plains, rows)
            seconds = report("sfumato release", releases, rows)
            ours = ours or seconds  # of the first layout, which the peer has too
            print(f"release / plain: {ratios[0]:.2f} .. {statistics.median(ratios):.2f} .. {ratios[-1]:.2f}")
        if options.pipelinedp:
            tenth = generate(rows // 10, options.folder)
            peer = report(
                "PipelineDP on Spark", [timed(options.pipelinedp, tenth, small, "pipelinedp")], rows // 10
            )
            print(f"PipelineDP / release, by row: {10 * peer / ours:.1f}")
    if options.growth:
        for rows in (1_000_000, 3_000_000, 10_000_000, 30_000_000):
            report(
                "sfumato release",
                [timed(sys.executable, generate(rows, options.folder), small, "ours")],
                rows,
            )
    if options.hot:
        report("a hot unit and a hot group", [timed(sys.executable, Path("hot"), small, "hot")], 11_000_000)
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
