"""What a user waits for: imports, `--help`, and one release of `rwm5yr` after imports.

    python benchmarks/start.py

Each line is the median of 7 runs in processes of their own, after one that warms the file cache.
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


if __name__ == "__main__":
    main()
