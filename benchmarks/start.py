"""What a user waits for: imports, `--help`, one release of `rwm5yr` after imports, and small ones after the first.

    python benchmarks/start.py

Each line is the median of 7 runs in processes of their own, after one that warms the file cache. The small
release, 1,000 rows in memory from question to numbers, is the median of 50 in one process, after its first.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RELEASE = """
import sys, time
import sfumato as sf, sfumato.engines.duckdb.engine, sfumato.query.plan, sfumato.query.release
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
import numpy as np, pyarrow as pa
import sfumato as sf
rng = np.random.default_rng(1)
rows = pa.table({"unit": rng.integers(0, 300, 1000), "grp": rng.integers(0, 5, 1000), "x": rng.normal(25, 15, 1000)})
bounds = {"lower": 0, "upper": 50}
taken = []
for _ in range(51):
    start = time.perf_counter(), time.process_time()
    sf.scan(rows, privacy_unit="unit").group_by("grp").bound(groups=4, rows=1).agg(
        n=sf.count(), total=sf.sum("x", **bounds), mean=sf.mean("x", **bounds)).release(epsilon=1, delta=1e-6).to_arrow()
    taken.append((time.perf_counter() - start[0], time.process_time() - start[1]))
print(*map(statistics.median, zip(*taken[1:])))
"""


def whole(*command: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


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
        measures = {
            "python -c pass, whole process": lambda: whole(sys.executable, "-c", "pass"),
            "import sfumato, whole process": lambda: whole(sys.executable, "-c", "import sfumato"),
            "sfumato --help, whole process": lambda: whole(sfumato, "--help"),
            "release of rwm5yr, after imports": lambda: inside(sys.executable, "-c", RELEASE, data),
        }
        for name, measure in measures.items():
            measure()
            print(f"{name:34} {statistics.median(measure() for _ in range(7)):6.3f} s", flush=True)
    command = [sys.executable, "-c", SMALL]
    wall, cpu = map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    print(f"{'release of 1,000 rows, after others':34} {wall:6.3f} s, of CPU {cpu:.3f} s")


if __name__ == "__main__":
    main()
