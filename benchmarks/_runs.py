"""What benchmarks share: runs in processes of their own, the file that is released, and the question."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb

# 10 rows a unit on average, of a heavy tail; 1,000 groups.
_GENERATE = """
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

# What every script may use: its peak memory; the question of a source, and the same in PipelineDP of rows
# (unit, group, x).
_JOB = """
def peak_mb():
    # Linux counts VmHWM anew for each program. ru_maxrss survives exec: it includes the memory of the parent.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024

def ask(source):
    import sfumato as sf
    return sf.scan(source, privacy_unit="unit").group_by("grp").bound(groups=4, rows=1).agg(
        n=sf.count(), total=sf.sum("x", lower=0, upper=50), mean=sf.mean("x", lower=0, upper=50))

def pipelinedp(backend, rows):
    import pipeline_dp
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(accountant, backend)
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM, pipeline_dp.Metrics.MEAN],
        max_partitions_contributed=4, max_contributions_per_partition=1, min_value=0, max_value=50)
    extract = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda r: r[0], partition_extractor=lambda r: r[1], value_extractor=lambda r: r[2])
    result = engine.aggregate(rows, params, extract)
    accountant.compute_budgets()
    return result
"""


def run(python: str, script: str, *arguments: object, **environment: str) -> Any:
    """Run a script in a Python of its own, and return what its last line says in JSON.

    `peak_mb`, `ask` and `pipelinedp` above are defined there; they import what they need when they are called.
    """
    done = subprocess.run(
        [python, "-W", "ignore", "-c", _JOB + script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def generate(rows: int, folder: Path) -> Path:
    """Return the Parquet file of so many rows; it is written where it is not there yet."""
    path = folder / f"rows_{rows}.parquet"
    if not path.exists():
        subprocess.run([sys.executable, "-c", _GENERATE, str(rows), str(path)], check=True)
    return path


def laid_out(layout: str, rows: int, folder: Path) -> Path:
    """Return that file with its rows "scattered" at random, as they are made, or a unit's rows "together"."""
    scattered = generate(rows, folder)
    if layout == "scattered":
        return scattered
    path = folder / f"rows_{rows}_{layout}.parquet"
    if not path.exists():
        # Units in an order of their own, as rows would arrive by visit or by household.
        query = f"FROM '{scattered}' ORDER BY hash(unit), unit"
        duckdb.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 245_760)")
    return path
