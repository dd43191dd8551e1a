"""Error bars of covariances, correlations and regressions: how often they hold, and how wide they are.

    python benchmarks/regression.py [--releases 2000] [--epsilon 1] [--diffprivlib PYTHON]

Every person has one row of whole numbers x in 0 to 30, z in 0 to 5 and y in 0 to 10, y = 0.2 x + 0.5 z and a deviation
of one, of 100, 1,000 and 5,000 people. Each release is a group of one question with the same rows, so that noise
alone differs. `held` is the share of 95% bars that hold the exact number, `shown` that of releases that show one (the
others say that the design may be singular), `width` the median half-width, `error` the root mean square of what is shown.

diffprivlib's LinearRegression, in a Python of its own, has the same rows, bounds and epsilon, and no error bars; 0.6.6 needs
an older scikit-learn: `pip install diffprivlib==0.6.6 scikit-learn==1.5.2`.
"""

from __future__ import annotations

import argparse
import json
import subprocess

import numpy as np
import pyarrow as pa

import sfumato as sf

BOUNDS = {"x": (0, 30), "y": (0, 10), "z": (0, 5)}
NAMES = ("c", "r", "f_intercept", "f_x", "f_z")
PEER = """
import json, sys, warnings
import numpy as np
from diffprivlib.models import LinearRegression
warnings.simplefilter("ignore")
given = json.load(sys.stdin)
x, y = np.array(given["x"], float).T, np.array(given["y"], float)
found = []
for seed in range(given["releases"]):
    model = LinearRegression(
        epsilon=given["epsilon"], bounds_X=([0, 0], [30, 5]), bounds_y=(0, 10), random_state=seed
    ).fit(x, y)
    found.append([float(model.intercept_), *map(float, model.coef_)])
json.dump(found, sys.stdout)
"""


def people(count: int) -> dict[str, np.ndarray]:
    made = np.random.default_rng(count)
    x, z = made.integers(0, 31, count), made.integers(0, 6, count)
    y = np.clip(np.rint(0.2 * x + 0.5 * z + made.normal(0, 1, count)), 0, 10).astype(int)
    return {"x": x, "y": y, "z": z}


def exact(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> dict[str, float]:
    fit = np.linalg.lstsq(np.c_[np.ones(len(x)), x, z], y, rcond=None)[0]
    return dict(zip(NAMES, (np.cov(x, y, bias=True)[0, 1], np.corrcoef(x, y)[0, 1], *fit), strict=True))


def release(columns: dict[str, np.ndarray], noise: str, epsilon: float, releases: int) -> sf.Release:
    count = len(columns["x"])
    arrays = {"id": np.arange(count * releases), "g": np.repeat(np.arange(releases), count)}
    arrays |= {name: np.tile(values, releases) for name, values in columns.items()}
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in arrays])
    pair = {name: BOUNDS[name] for name in "xy"}
    grouped = sf.scan(pa.table(list(arrays.values()), schema=schema), privacy_unit="id").group_by(
        "g", keys=range(releases)
    )
    asked = grouped.bound(groups=1, rows=1).agg(
        c=sf.covariance("x", "y", bounds=pair),
        r=sf.correlation("x", "y", bounds=pair),
        f=sf.linear_regression("y", ["x", "z"], bounds=BOUNDS),
    )
    return asked.release(epsilon=epsilon, delta=1e-6 if noise == "gaussian" else 0, noise=noise)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--releases", type=int, default=2000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--diffprivlib", metavar="PYTHON")
    given = parser.parse_args()
    print(f"{'people':>6} {'noise':>12} {'output':>12} {'held':>7} {'shown':>7} {'width':>9} {'error':>9}")
    for count in (100, 1000, 5000):
        columns = people(count)
        true = exact(**columns)
        for noise in ("laplace", "gaussian", "k_norm"):
            released = release(columns, noise, given.epsilon, given.releases)
            found, bars = released.to_arrow().to_pydict(), released.errors(confidence=0.95).to_pydict()
            for name, value in true.items():
                off, bar = np.array(found[name]) - value, np.array(bars[name])
                shown = ~np.isnan(off)
                held = 1 - np.mean(np.abs(off) > bar)
                error = np.sqrt(np.mean(off[shown] ** 2)) if shown.any() else np.nan
                print(
                    f"{count:>6} {noise:>12} {name:>12} {held:>7.4f} {shown.mean():>7.4f} "
                    f"{np.median(bar):>9.4f} {error:>9.4f}"
                )
        if given.diffprivlib:
            asked = {"x": [columns["x"].tolist(), columns["z"].tolist()], "y": columns["y"].tolist()}
            asked |= {"releases": given.releases, "epsilon": given.epsilon}
            told = subprocess.run(
                [given.diffprivlib, "-c", PEER],
                input=json.dumps(asked),
                capture_output=True,
                text=True,
                check=True,
            )
            coefficients = np.array(json.loads(told.stdout)).T
            for name, peer in zip(NAMES[2:], coefficients, strict=True):
                error = np.sqrt(np.mean((peer - true[name]) ** 2))
                print(f"{count:>6} {'diffprivlib':>12} {name:>12} {'':>7} {'':>7} {'':>9} {error:>9.4f}")


if __name__ == "__main__":
    main()
