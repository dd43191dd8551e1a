"""A utility analysis of twenty combinations of limits, as a ratio to one release of the same question.

    python benchmarks/analysis.py [--rows 10000000] [--repeats 5] [--groups private public] [--asked total_rows median]

The file and the question are those of `benchmarks/query.py`: count, sum and mean by group, at most 4 groups of a
unit; compared are groups 1, 2, 4, 8, 16 with rows 1, 3 and two bounds of the mean. With --asked total_rows the question
limits rows in all groups together, and 1, 2, 4, 8, 16 of them are compared with the two bounds; with --asked median a
count and a median are asked, and the ten limits of groups and rows compared. Every run is a process of its own,
in turn, and reads the file from scratch; medians, and ratios pair by pair.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from itertools import product
from pathlib import Path

from _runs import generate, run

RUN = """
import json, sys, time
path, what, keys, asked = sys.argv[1:5]
import sfumato as sf, sfumato.engines.duckdb.duckdb_engine, sfumato.api.table, sfumato.release.release
start = time.perf_counter()
table = sf.scan(path, privacy_unit="unit").group_by("grp", keys=range(1000) if keys == "public" else None)
ends = {"lower": 0, "upper": 50}
table = table.bound(total_rows=4) if asked == "total_rows" else table.bound(groups=4, rows=1)
aggregates = {"n": sf.count(), "total": sf.sum("x", **ends), "mean": sf.mean("x", **ends)}
grid = {"groups": [1, 2, 4, 8, 16], "rows": [1, 3], "bounds": {"mean": [(0, 50), (0, 30)]}}
if asked == "total_rows":
    grid = {"total_rows": grid["groups"], "bounds": grid["bounds"]}
if asked == "median":
    aggregates = {"n": sf.count(), "median": sf.median("x", **ends)}
    del grid["bounds"]
question = table.agg(**aggregates)
options = {"epsilon": 1, "delta": 1e-6}
if what == "release":
    question.release(**options).to_arrow()
else:
    found = question.analyze(**options, **grid)
    assert len(found.points) == (20 if asked == "groups" else 10)
    found.best()
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "mb": peak_mb()}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--groups", nargs="+", default=["private", "public"], choices=["private", "public"])
    parser.add_argument("--asked", nargs="+", default=["groups"], choices=["groups", "total_rows", "median"])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    path = generate(options.rows, options.folder)
    print(
        f"{'':18}{'release s':>10}{'analysis s':>11}{'ratio':>7}  {'(range)':15}{'release MB':>11}{'analysis MB':>12}"
    )
    for keys, asked in product(options.groups, options.asked):
        found = [
            [run(sys.executable, RUN, path, what, keys, asked) for what in ("release", "analysis")]
            for _ in range(options.repeats)
        ]
        ratios = [analysis["seconds"] / release["seconds"] for release, analysis in found]
        seconds = [statistics.median(pair[i]["seconds"] for pair in found) for i in (0, 1)]
        largest = [max(pair[i]["mb"] for pair in found) for i in (0, 1)]
        print(
            f"{keys + ', ' + asked:18}{seconds[0]:10.2f}{seconds[1]:11.2f}{statistics.median(ratios):7.2f}  "
            f"({min(ratios):4.2f} to {max(ratios):4.2f}){largest[0]:11.0f}{largest[1]:12.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
