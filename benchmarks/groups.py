"""Stream 10 million groups, one row each, through a release to Parquet in bounded memory.

    python benchmarks/groups.py [--groups 1000000 10000000]

DuckDB has 600 MB. Each size runs in a process of its own; the table gives seconds and the largest resident memory, which
must not grow with the number of groups.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from _runs import run

RUN = """
import json, sys, time
groups, folder = int(sys.argv[1]), sys.argv[2]
import duckdb, pyarrow.parquet as pq
source, target = f"{folder}/one_row_each_{groups}.parquet", f"{folder}/released_{groups}.parquet"
con = duckdb.connect(config={"memory_limit": "500MB", "preserve_insertion_order": False})
con.execute(f"COPY (SELECT i AS unit, (i * 7919) % {groups} AS grp, i % 100 AS x FROM range({groups}) t(i)) TO '{source}' (FORMAT parquet)")
con.close()
import sfumato as sf
question = sf.scan(source, privacy_unit="unit", memory_limit="600MB").group_by("grp").bound(groups=1, rows=1).agg(
    n=sf.count(), total=sf.sum("x", lower=0, upper=100))
before = peak_mb()
start = time.perf_counter()
# delta is enormous here so that a good part of the groups, one person each, is really written.
question.release(epsilon=1, delta=0.5).write(target)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "before": before, "mb": peak_mb(),
                  "rows": pq.read_metadata(target).num_rows}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--groups", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    with tempfile.TemporaryDirectory() as folder:
        for groups in parser.parse_args().groups:
            r = run(sys.executable, RUN, groups, folder)
            print(
                f"{groups:12,} groups  {r['seconds']:7.1f} s  peak {r['mb']:6.0f} MB (before {r['before']:.0f})  {r['rows']:,} shown"
            )
            for file in Path(folder).iterdir():
                file.unlink()


if __name__ == "__main__":
    main()
