"""Accuracy of histograms: the error of a bin, for few and for many bins, beside OpenDP and diffprivlib.

One row per person, so that all ask the same: how many people are in each bin of equal width. The last column is
the error over the root mean square of Laplace noise with the sensitivity of one count, 1/epsilon, whatever the bins.

    python benchmarks/histogram.py --peers PYTHON      # one that has opendp, diffprivlib and scikit-learn<1.5

OpenDP and diffprivlib draw whole noise, whose deviation is less than that of Laplace noise where it is small;
diffprivlib has no negative counts, so less error in empty bins.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _runs import run

import sfumato as sf

PEOPLE, BINS, EPSILONS = 20_000, (5, 50, 200), (0.5, 1.0, 2.0)

PEERS = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, pandas as pd
import opendp.prelude as dp, diffprivlib
path, given = sys.argv[1], json.loads(sys.argv[2])
x, edges, found = pd.read_parquet(path).x.to_numpy(), given["edges"], {"OpenDP": [], "diffprivlib": []}
dp.enable_features("contrib")
places = np.minimum(np.searchsorted(edges, x, side="right") - 1, len(edges) - 2).tolist()
space = dp.vector_domain(dp.atom_domain(T="i32")), dp.symmetric_distance()
count = dp.t.make_count_by_categories(*space, categories=list(range(len(edges) - 1)), null_category=False)
noisy = count >> dp.m.then_laplace(scale=1 / given["epsilon"])
for _ in range(given["releases"]):
    found["OpenDP"].append(noisy(places))
    one, _ = diffprivlib.tools.histogram(x, epsilon=given["epsilon"], bins=edges, range=(edges[0], edges[-1]))
    found["diffprivlib"].append(one.tolist())
print(json.dumps(found))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=100)
    parser.add_argument("--peers", metavar="PYTHON")
    given = parser.parse_args()
    x = np.random.default_rng(1).gamma(2.0, 12.0, PEOPLE).clip(0, 99.9)
    rows = pa.table({"id": np.arange(PEOPLE), "x": x})
    print(f"{'bins':>5} {'eps':>4} {'library':12} {'rmse':>7} {'of one count':>13}")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(rows, path)
        for bins in BINS:
            edges = np.linspace(0, 100, bins + 1).tolist()
            truth = np.histogram(x, edges)[0]
            asked = sf.scan(rows, privacy_unit="id").bound(rows=1).agg(x=sf.histogram("x", edges))
            for epsilon in EPSILONS:
                found = dict(peers(given.peers, path, edges, epsilon, given.releases))
                found["sfumato"] = [
                    list(asked.release(epsilon=epsilon).to_arrow().to_pylist()[0].values())
                    for _ in range(given.releases)
                ]
                for name, numbers in sorted(found.items()):
                    rmse = math.sqrt(np.mean((np.array(numbers, float) - truth) ** 2))
                    print(f"{bins:5} {epsilon:4} {name:12} {rmse:7.3f} {rmse * epsilon / math.sqrt(2):13.3f}")


def peers(
    python: str | None, path: Path, edges: list[float], epsilon: float, releases: int
) -> Iterator[tuple[str, list[list[float]]]]:
    """Yield what other libraries release, where there is a Python that has them."""
    if python:
        asked: Callable[..., str] = json.dumps
        answer = run(python, PEERS, path, asked({"edges": edges, "epsilon": epsilon, "releases": releases}))
        yield from answer.items()


if __name__ == "__main__":
    main()
