"""What a user waits for: imports, `--help`, the first release, and small ones after the first.

    python benchmarks/start.py

Each of the first lines is the CPU time of a whole process, user and system, with compiled bytecode: the median
of 15 runs in turn, after one that warms the file cache. Targets stand beside them. The first release is one of
1,000 rows of Parquet with groups that are chosen privately; the next line is what it needs of other packages.
The release of `rwm5yr` is without imports, the median of 7. The small
releases, 1,000 rows from `sf.scan` to numbers, are medians of 50 in one process, taken in turn, after their
first. "A new question" is one that was not planned before in this process; all others are the same 50 times.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FIRST = """
import sys
import sfumato as sf
bounds = {"lower": 0, "upper": 50}
table = sf.scan(sys.argv[1], privacy_unit="unit").group_by("grp").bound(groups=4, rows=1)
asked = table.agg(n=sf.count(), total=sf.sum("x", **bounds), mean=sf.mean("x", **bounds))
asked.release(epsilon=1, delta=1e-6).to_arrow()
"""

OTHERS = "import numpy, pyarrow.parquet, duckdb, gmpy2, cryptography.hazmat.primitives.ciphers"

RELEASE = """
import sys, time
import sfumato as sf, sfumato.engines.duckdb.duckdb_engine, sfumato.plan.plan, sfumato.release.release
start = time.perf_counter()
income = sf.quantiles("hhninc", [0.25, 0.5, 0.75], lower=0, upper=10)
bounds = {"lower": 0, "upper": 30}
question = sf.scan(sys.argv[1], privacy_unit="id").group_by("year").bound(groups=5, rows=1).agg(
    n=sf.count(), people=sf.count_units(), visits=sf.mean("docvis", **bounds),
    variance=sf.variance("docvis", **bounds), income=income)
question.release(epsilon=1, delta=1e-6).to_arrow()
print(time.perf_counter() - start)
"""

SMALL = """
import statistics, sys, time
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
import sfumato as sf
rng = np.random.default_rng(1)
rows = pa.table({"unit": rng.integers(0, 300, 1000), "grp": rng.integers(0, 5, 1000), "x": rng.normal(25, 15, 1000)})
pq.write_table(rows, sys.argv[1])
frame, kept = rows.to_pandas(), sf.scan(rows, privacy_unit="unit")
text = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = unit, "
    "max_groups_contributed = 4, max_rows_per_group = 1) grp, COUNT(*) AS n, SUM(x, contribution_bounds_per_group "
    "=> (0, 50)) AS total, AVG(x, contribution_bounds_per_row => (0, 50)) AS mean FROM rows GROUP BY grp")
def three(table, upper=50, keys=None, rows=1, confidence=None, **more):
    bounds = {"lower": 0, "upper": upper}
    asked = table.group_by("grp", keys=keys).bound(groups=4, rows=rows).agg(
        n=sf.count(), total=sf.sum("x", **bounds), mean=sf.mean("x", **bounds), **more)
    return asked.release(epsilon=1, delta=1e-6 if keys is None else 0, confidence=confidence)
def scanned(source):
    return sf.scan(source, privacy_unit="unit")
cases = {
    "count": lambda i: scanned(rows).agg(n=sf.count_units()).release(epsilon=1),
    "count, sum, mean by group": lambda i: three(scanned(rows)),
    "the same, a new question": lambda i: three(scanned(rows), 50 + i / 128),
    "the same, of one sf.scan": lambda i: three(kept),
    "the same, of a pandas frame": lambda i: three(scanned(frame)),
    "the same, of Parquet": lambda i: three(scanned(sys.argv[1])),
    "the same, after a filter": lambda i: three(scanned(rows).filter("x < 40")),
    "public groups": lambda i: three(scanned(rows), keys=range(5)),
    "public groups, a new question": lambda i: three(scanned(rows), 50 + i / 128, range(5)),
    "the same, with error bars": lambda i: three(scanned(rows), 50 + i / 128, range(5), confidence=0.95),
    "and people, two rows each": lambda i: three(
        scanned(rows), 50 + i / 128, range(5), 2, 0.95, people=sf.count_units()),
    "count, sum, mean in SQL": lambda i: sf.sql(text, tables={"rows": rows}),
}
taken = {name: [] for name in cases}
for i in range(51):
    for name, ask in cases.items():
        start = time.perf_counter(), time.process_time()
        ask(i).to_arrow()
        taken[name].append((time.perf_counter() - start[0], time.process_time() - start[1]))
for name, found in taken.items():
    print(name, *map(statistics.median, zip(*found[1:])), sep=";")
"""


def whole(*command: str) -> float:
    """Return the CPU time of a process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    nowhere = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    process = os.posix_spawn(command[0], command, environment, file_actions=nowhere)
    _, status, used = os.wait4(process, 0)
    assert status == 0, command
    return used.ru_utime + used.ru_stime


def inside(*command: str) -> float:
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    root = Path(__file__).parent.parent
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/rwm5yr.parquet"
        subprocess.run(
            [sys.executable, str(root / "examples" / "rwm5yr.py"), data], check=True, capture_output=True
        )
        sfumato = str(Path(sys.executable).parent / "sfumato")
        command = [sys.executable, "-c", SMALL, f"{folder}/small.parquet"]
        small = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        measures = {
            "python -c pass": ([sys.executable, "-c", "pass"], ""),
            "import sfumato": ([sys.executable, "-c", "import sfumato"], "0.030"),
            "sfumato --help": ([sys.executable, sfumato, "--help"], "0.200"),
            "first release": ([sys.executable, "-c", FIRST, command[-1]], "0.500"),
            "other packages that it needs": ([sys.executable, "-c", OTHERS], ""),
        }
        runs = [{name: whole(*line) for name, (line, _) in measures.items()} for _ in range(16)]
        print("CPU time of a process:")
        for name, (_, target) in measures.items():
            median = statistics.median(run[name] for run in runs[1:])
            print(f"  {name:32} {median:6.3f} s{target and f', of at most {target} s'}")
        inside(sys.executable, "-c", RELEASE, data)
        median = statistics.median(inside(sys.executable, "-c", RELEASE, data) for _ in range(7))
        print(f"release of rwm5yr, after imports:  {median:6.3f} s", flush=True)
        print("release of 1,000 rows, after others:")
        for line in small:
            name, wall, cpu = line.split(";")
            print(f"  {name:32} {float(wall):6.4f} s, of CPU {float(cpu):.4f} s")


if __name__ == "__main__":
    main()
