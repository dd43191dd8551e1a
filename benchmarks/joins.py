"""Releases over joined tables, as ratios to the same unit-local part in plain DuckDB.

    python benchmarks/joins.py [--orders 10000000] [--repeats 3]

Two Parquet files: orders (a customer, a region, a price), ten for each customer on average, and customers (a
customer, an age); and a public table of regions. Each floor does the same joins and sums by customer and
group, without bounds and noise; floor and release in turn, each in a process of its own; the table has medians
of ratios pair by pair, of wall time and of CPU seconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import duckdb
from _runs import run

SHAPES = {
    "one table": ("orders", "region", "rows"),
    "join public": ("orders JOIN regions USING (region)", "zone", "rows"),
    "join private": ("orders JOIN customers USING (id)", "age // 10", "rows"),
    "per unit": ("orders", "", "per unit"),
    "per unit, joined": ("orders", "age // 10", "per unit"),
}

RUN = """
import json, sys, time
folder, what, shape, tables, key, kind = sys.argv[1:7]
orders, customers, regions = (f"{folder}/{name}.parquet" for name in ("orders", "customers", "regions"))

def floor():
    import duckdb
    con = duckdb.connect()
    con.execute("SET enable_progress_bar = false")
    for name, path in (("orders", orders), ("customers", customers), ("regions", regions)):
        con.execute(f"CREATE VIEW {name} AS FROM '{path}'")
    start = time.perf_counter(), time.process_time()
    of_pairs = f"SELECT id, count(*) n, sum(price) s{', ' + key + ' g' if key and kind == 'rows' else ''} FROM {tables} GROUP BY ALL"
    if kind == "per unit" and key:
        of_pairs = f"SELECT id, n, s, {key} g FROM customers LEFT JOIN ({of_pairs}) USING (id)"
    con.execute(f"SELECT sum(n), sum(least(s, 500)), count(*){', g' if key else ''} FROM ({of_pairs}) GROUP BY ALL").fetchall()
    return start

def release():
    import sfumato as sf, sfumato.engines.duckdb.duckdb_engine, sfumato.plan.plan, sfumato.release.release
    start = time.perf_counter(), time.process_time()
    rows = sf.scan(orders, privacy_unit="id")
    people, zones = sf.scan(customers, privacy_unit="id"), sf.public(regions)
    if kind == "per unit":
        rows = rows.per_unit(n="count(*)", s="sum(price)")
        if key:
            rows = people.join(rows, on="id", how="left").with_columns(g=key).group_by("g")
        rows = rows.bound(rows=1, **({"groups": 1} if key else {}))
        asked = rows.agg(people=sf.count_units(), total=sf.sum("s", lower=0, upper=500), n=sf.sum("n", lower=0, upper=50))
    else:
        if "regions" in tables:
            rows = rows.join(zones, on="region")
        if "customers" in tables:
            rows = rows.join(people, on="id")
        rows = rows.with_columns(g=key).group_by("g").bound(groups=3, rows=10)
        asked = rows.agg(n=sf.count(), total=sf.sum("price", lower=0, upper=500))
    asked.release(epsilon=1, delta=1e-6).to_arrow()
    return start

start = {"floor": floor, "release": release}[what]()
print(json.dumps({"seconds": time.perf_counter() - start[0], "cpu": time.process_time() - start[1],
                  "mb": peak_mb()}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=[*SHAPES], choices=[*SHAPES], metavar="SHAPE")
    parser.add_argument("--orders", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    folder = options.folder / f"joins_{options.orders}"
    made(folder, options.orders)
    print(
        f"{'':18}{'floor s':>9}{'release s':>11}{'ratio':>7}{'of CPU':>8}{'floor MB':>10}{'release MB':>12}"
    )
    for shape in options.shapes:
        found = {
            what: [
                run(sys.executable, RUN, folder, what, shape, *SHAPES[shape]) for _ in range(options.repeats)
            ]
            for what in ("floor", "release")
        }
        pairs = [*zip(found["release"], found["floor"], strict=True)]
        ratio, cpu = (statistics.median(r[of] / f[of] for r, f in pairs) for of in ("seconds", "cpu"))
        floor, release = (statistics.median(r["seconds"] for r in found[w]) for w in ("floor", "release"))
        largest = [max(r["mb"] for r in found[what]) for what in ("floor", "release")]
        print(
            f"{shape:18}{floor:9.2f}{release:11.2f}{ratio:7.2f}{cpu:8.2f}{largest[0]:10.0f}{largest[1]:12.0f}",
            flush=True,
        )


def made(folder: Path, orders: int) -> None:
    """Write the files, where they are not there yet."""
    if folder.exists():
        return
    folder.mkdir(parents=True)
    units = orders // 10
    for name, rows in {
        "orders": f"SELECT CAST(floor(pow(random(), 2) * {units}) AS BIGINT) AS id, "
        f"CAST(random() * 99 AS INTEGER) AS region, 100 * random() AS price FROM range({orders})",
        "customers": f"SELECT i AS id, 18 + CAST(random() * 70 AS INTEGER) AS age FROM range({units}) t(i)",
        "regions": "SELECT CAST(i AS INTEGER) AS region, 'zone ' || i % 10 AS zone FROM range(100) t(i)",
    }.items():
        duckdb.execute(f"COPY ({rows}) TO '{folder}/{name}.parquet' (FORMAT parquet)")


if __name__ == "__main__":
    main()
