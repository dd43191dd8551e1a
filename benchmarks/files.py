"""CSV and JSON as sources, as ratios to DuckDB's own readers, which stop at one bad row.

    python benchmarks/files.py [--rows 1000000 5000000] [--repeats 3] [--folder FOLDER]

The file: five columns (a number, a text, a real, a small number, a date), plain, with every field in quotes,
and as JSON of one object a line. The job: all rows to a table in memory, of declared types. Every run is a
process of its own, DuckDB's reader and ours in turn; the table gives medians, ratios pair by pair, and the
largest resident memory of a run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from _runs import run

FORMS = {"plain.csv": "HEADER", "quoted.csv": "HEADER, FORCE_QUOTE *", "lines.jsonl": "FORMAT json"}
TYPES = {"id": "BIGINT", "g": "VARCHAR", "x": "DOUBLE", "n": "INTEGER", "d": "DATE"}

GENERATE = """
import sys
import duckdb
rows, path, form = sys.argv[1:]
duckdb.execute(f'''COPY (SELECT i // 10 AS id, 'group ' || (hash(i) % 1000) AS g,
    (hash(i * 7) % 1000000) / 1000.0 AS x, (hash(i * 3) % 100)::INT AS n,
    DATE '2020-01-01' + (hash(i) % 1000)::INT AS d FROM range({rows}) t(i)) TO '{path}' ({form})''')
print("{}")
"""

RUN = """
import json, sys, time
path, what, types = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
import duckdb
from sfumato.engines.duckdb.sources import open_source
start = time.perf_counter()
if what == "duckdb":
    listed = ", ".join(f"{name}: '{kind}'" for name, kind in types.items())
    reader = "read_csv" if path.endswith("csv") else "read_json"
    duckdb.execute(f"CREATE TABLE rows AS FROM {reader}('{path}', columns = {{{listed}}})")
else:
    source = open_source(path, types=types)
    with source.session() as session:
        source.load(session, list(types))
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "mb": peak_mb()}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    for rows in options.rows:
        for name, form in FORMS.items():
            measure(rows, form, options.folder / f"{rows}_{name}", options.repeats)


def measure(rows: int, form: str, path: Path, repeats: int) -> None:
    if not path.exists():
        run(sys.executable, GENERATE, rows, path, form)
    types = str(TYPES).replace("'", '"')
    theirs, ours = [], []
    for _ in range(repeats):
        theirs.append(run(sys.executable, RUN, path, "duckdb", types))
        ours.append(run(sys.executable, RUN, path, "sfumato", types))
    ratios = sorted(o["seconds"] / t["seconds"] for o, t in zip(ours, theirs, strict=True))
    for reader, runs in (("DuckDB", theirs), ("sfumato", ours)):
        seconds = statistics.median(r["seconds"] for r in runs)
        memory = max(r["mb"] for r in runs)
        speed = rows / seconds / 1e6
        print(f"{path.name:24} {reader:8} {seconds:7.2f} s {speed:7.3f} million rows/s {memory:6.0f} MB")
    print(f"{path.name:24} ratio    {ratios[0]:.2f} .. {statistics.median(ratios):.2f} .. {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
