"""Sums of vectors: errors of an entry at equal privacy, beside PipelineDP and OpenDP, and the time that a release takes.

    python benchmarks/vectors.py [--units 2000] [--releases 5] [--pipelinedp PYTHON] [--opendp PYTHON] [--time 100000 128]

Each unit has one vector, of norm 1 in the norm that is bounded by 1. At epsilon 1 and delta 1e-6: the root mean square
over entries and releases of what a release is off the exact sum, with the noise that the planner takes; `law` is the
deviation of an entry by itself, recomputed here: of Gaussian noise by bisection on its delta, in mpmath, of Laplace noise
from its L1 sensitivity. PipelineDP runs the same in a Python of its own, with Metrics.VECTOR_SUM and both kinds of noise; it
stops at vectors in public partitions, so that its one partition is selected privately, which takes a part of its budget.
OpenDP 0.16 clamps by its public `make_np_clamp`, which knows L1 and L2 (the L-infinity ball lies in one of L2), and adds up by a name that is
not public yet, in arithmetic of floats that counts as that of real numbers; its noise is Laplace for L1 and Gaussian for L2. Tumult
Analytics 0.21 has no sum of vectors.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import mpmath
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _runs import run

import sfumato as sf

EPSILON, DELTA = 1.0, 1e-6
LENGTHS = (4, 16, 128, 1024)
NORMS = {"l2": 2, "l1": 1, "linf": np.inf}

PIPELINEDP = """
import json, logging, sys, warnings
warnings.simplefilter("ignore"); logging.disable(logging.CRITICAL)
import numpy as np, pyarrow.parquet as pq, pipeline_dp
from pipeline_dp import pipeline_backend
path, given = sys.argv[1], json.loads(sys.argv[2])
vectors = np.stack(pq.read_table(path)["v"].to_numpy())
data = [(i, 0, v) for i, v in enumerate(vectors)]
norm = pipeline_dp.aggregate_params.NormKind[{"l2": "L2", "l1": "L1", "linf": "Linf"}[given["norm"]]]
found = {}
for noise in ("LAPLACE", "GAUSSIAN"):
    off = []
    for _ in range(given["releases"]):
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=given["epsilon"], total_delta=given["delta"])
        engine = pipeline_dp.DPEngine(accountant, pipeline_backend.LocalBackend())
        params = pipeline_dp.AggregateParams(
            metrics=[pipeline_dp.Metrics.VECTOR_SUM], noise_kind=pipeline_dp.NoiseKind[noise],
            max_partitions_contributed=1, max_contributions_per_partition=1,
            vector_norm_kind=norm, vector_max_norm=1.0, vector_size=vectors.shape[1])
        extract = pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda r: r[0], partition_extractor=lambda r: r[1], value_extractor=lambda r: r[2])
        result = engine.aggregate(data, params, extract)
        accountant.compute_budgets()
        try:
            ((_, metrics),) = list(result)
        except ValueError:  # it has no such noise for this norm
            break
        off.append(np.asarray(metrics.vector_sum) - vectors.sum(axis=0))
    found[noise] = float(np.sqrt(np.mean(np.square(off)))) if off else None
print(json.dumps(found))
"""


# Space, clamping, sum and noise of a scale that is searched for; `pyarrow` reads the vectors.
OPENDP_SUM = """
import opendp.prelude as dp
from opendp.extras.numpy._make_np_sum import then_np_sum
dp.enable_features("contrib", "floating-point", "idealized-numerics", "honest-but-curious")

def vector_sum(length, norm, epsilon, delta):
    bound, p = {"l2": (1.0, 2), "l1": (1.0, 1), "linf": (length ** 0.5, 2)}[norm]
    added = ((dp.numpy.array2_domain(num_columns=length, T=float), dp.symmetric_distance())
             >> dp.numpy.then_np_clamp(norm=bound, p=p) >> then_np_sum())
    def made(scale):
        if p == 1:
            return added >> dp.m.then_laplace(scale)
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(added >> dp.m.then_gaussian(scale)), delta)
    return made(dp.binary_search_param(made, 1, epsilon if p == 1 else (epsilon, delta), T=float))
"""

OPENDP = (
    """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, pyarrow.parquet as pq
"""
    + OPENDP_SUM
    + """
path, given = sys.argv[1], json.loads(sys.argv[2])
vectors = np.stack(pq.read_table(path)["v"].to_numpy())
noisy = vector_sum(vectors.shape[1], given["norm"], given["epsilon"], given["delta"])
off = [np.array(noisy(vectors)) - vectors.sum(axis=0) for _ in range(given["releases"])]
print(json.dumps(float(np.sqrt(np.mean(np.square(off))))))
"""
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--units", type=int, default=2000)
    parser.add_argument("--releases", type=int, default=5)
    parser.add_argument("--pipelinedp", metavar="PYTHON")
    parser.add_argument("--opendp", metavar="PYTHON")
    parser.add_argument("--time", type=int, nargs=2, metavar=("UNITS", "LENGTH"))
    given = parser.parse_args()
    if given.time:
        timed(*given.time)
        return
    print(
        f"{'norm':5} {'length':>6} {'noise':9} {'rmse':>9} {'law':>9}  PipelineDP: Laplace, Gaussian; OpenDP"
    )
    for norm in NORMS:
        for length in LENGTHS:
            table, truth = made(given.units, length, norm)
            question = sf.scan(table, privacy_unit="id").agg(
                s=sf.vector_sum("v", length=length, bound=1, norm=norm)
            )
            kind = question.plan(epsilon=EPSILON, delta=DELTA).noise.name
            off = [np.array(released(question)) - truth for _ in range(given.releases)]
            beside = peers(given, table, norm)
            rmse = float(np.sqrt(np.mean(np.square(off))))
            print(
                f"{norm:5} {length:6} {kind:9} {rmse:9.4g} {law(kind, norm, length):9.4g}  {beside}",
                flush=True,
            )


def made(units: int, length: int, norm: str) -> tuple[pa.Table, np.ndarray]:
    """Return vectors of norm 1, and their sum."""
    vectors = np.random.default_rng(1).normal(size=(units, length))
    # Not longer for being rounded.
    vectors /= np.linalg.norm(vectors, NORMS[norm], axis=1, keepdims=True) * (1 + 1e-12)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), length)
    return pa.table({"id": np.arange(units), "v": column}), vectors.sum(axis=0)


def released(question: sf.Question) -> list[float]:
    """Return one release of the sum."""
    found: list[float] = question.release(epsilon=EPSILON, delta=DELTA).to_arrow()["s"][0].as_py()
    return found


def law(kind: str, norm: str, length: int) -> float:
    """Return the deviation of an entry, from the definition of privacy."""
    if kind == "laplace":
        return float(np.sqrt(2) * {"l1": 1, "l2": np.sqrt(length), "linf": length}[norm] / EPSILON)
    sensitivity = np.sqrt(length) if norm == "linf" else 1.0

    def delta(mu: mpmath.mpf) -> mpmath.mpf:
        return mpmath.ncdf(mu / 2 - EPSILON / mu) - mpmath.exp(EPSILON) * mpmath.ncdf(-mu / 2 - EPSILON / mu)

    low, high = mpmath.mpf("1e-3"), mpmath.mpf(10)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) <= DELTA else (low, middle)
    return float(sensitivity / low)


def peers(given: argparse.Namespace, table: pa.Table, norm: str) -> str:
    """Return the errors of other libraries."""
    asked = {"norm": norm, "epsilon": EPSILON, "delta": DELTA, "releases": given.releases}
    shown: list[float | None] = [None] * 3
    with TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.parquet"
        pq.write_table(table, path)
        if given.pipelinedp:
            found = run(given.pipelinedp, PIPELINEDP, path, json.dumps(asked))
            shown[:2] = found["LAPLACE"], found["GAUSSIAN"]
        if given.opendp:
            shown[2] = run(given.opendp, OPENDP, path, json.dumps(asked))
    return " ".join(f"{'-':>9}" if one is None else f"{one:9.4g}" for one in shown)


def timed(units: int, length: int) -> None:
    """Print what a release takes, in each norm, bounded by unit and by row."""
    for norm in NORMS:
        table, _ = made(units, length, norm)
        rows = sf.scan(table, privacy_unit="id").bound(rows=1)
        for per in ("unit", "row"):
            question = rows.agg(s=sf.vector_sum("v", length=length, bound=1, norm=norm, per=per))
            start = time.perf_counter()
            released(question)
            print(
                f"{units:,} units, {length:,} entries, {norm}, per {per}: {time.perf_counter() - start:.2f} s"
            )


if __name__ == "__main__":
    main()
