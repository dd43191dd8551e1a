"""Groups and their totals: errors of each level, four ways at the same budget, and OpenDP's tree.

One row per person in a tree of regions, districts and towns (10 of each in the next), and in a cross of age and
town. Root mean square errors over groups and releases, at delta 1e-6 with Gaussian noise:

- added up: groups with noise of their own, whose totals are what they add up to;
- apart: each level asked by itself with an equal part of mu squared; totals do not agree with their groups;
- agreeing: `totals()`;  whole: `totals(integer=True)`;  expected: what the plan says of `totals()`;
- OpenDP: its b-ary tree made consistent, with Gaussian noise under zCDP, of the whole tree. It is of time, with
  one number of children, so that a cross is not asked of it.

`bars` is the part of error bars of 95% that hold. Last come the seconds that a plan, and a release with error bars,
take of 10,000 groups with four levels.

    python benchmarks/totals.py [--releases 100] [--opendp PYTHON]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from fractions import Fraction
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from _runs import run

import sfumato as sf
from sfumato.budget import gaussian_mu

EPSILONS, DELTA = (0.5, 1.0, 2.0), 1e-6
TREE = [(a, f"{a}{b}", f"{a}{b}{c}") for a in "0123456789" for b in "0123456789" for c in "0123456789"]
CROSS = [(str(a), str(b)) for a, b in product(range(8), range(60))]
CASES = {"tree": (("region", "district", "town"), TREE, False), "cross": (("age", "town"), CROSS, True)}

OPENDP = """
import json, math, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
import opendp.prelude as dp
dp.enable_features("contrib", "floating-point")
given = json.loads(sys.argv[2])
leaves, branching, delta, epsilon = given["leaves"], given["branching"], given["delta"], given["epsilon"]

def delta_of(rho):
    def log_delta(a):
        return (a - 1) * (a * rho - epsilon) - math.log(a - 1) + a * math.log1p(-1 / a)
    low, high = 1 + 1e-9, 1e6
    for _ in range(300):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if log_delta(left) < log_delta(right) else (left, high)
    return math.exp(min(log_delta(low), 0.0))

low, high = 0.0, epsilon
for _ in range(60):
    middle = (low + high) / 2
    low, high = (middle, high) if delta_of(middle) <= delta else (low, middle)
space = dp.vector_domain(dp.atom_domain(T="i32")), dp.l2_distance(T="i32")
tree = space >> dp.t.then_b_ary_tree(leaves, branching)
scale = dp.binary_search_param(lambda s: tree >> dp.m.then_gaussian(s), d_in=1, d_out=low, bounds=(0.01, 1e5))
release, consistent = tree >> dp.m.then_gaussian(scale), dp.t.make_consistent_b_ary_tree(branching)
off = np.array([consistent(release([0] * leaves))[:leaves] for _ in range(given["releases"])])
found = [off]
while found[-1].shape[1] > 1:
    found.append(found[-1].reshape(len(off), -1, branching).sum(axis=2))
print(json.dumps([float(np.sqrt((level**2).mean())) for level in found]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=100)
    parser.add_argument("--opendp", metavar="PYTHON")
    given = parser.parse_args()
    for case, (keys, cells, cube) in CASES.items():
        for epsilon in EPSILONS:
            print(f"\n{case}, epsilon {epsilon}")
            measured(keys, cells, cube, epsilon, given)
    keys, cells = (
        ("a", "b", "c"),
        [(a, a * 10 + b, (a * 10 + b) * 100 + c) for a in range(10) for b in range(10) for c in range(100)],
    )
    started = time.perf_counter()
    asked = question(keys, cells).totals(integer=True).bound(groups=1, rows=1).agg(n=sf.count())
    asked.plan(epsilon=1, delta=DELTA)
    planned = time.perf_counter()
    asked.release(epsilon=1, delta=DELTA, confidence=0.95).to_arrow()
    print(
        f"\n10,000 groups, 4 levels: plan {planned - started:.2f} s, release {time.perf_counter() - planned:.2f} s"
    )


def question(keys: tuple[str, ...], cells: list[Any]) -> Any:
    """Return groups of a table in which everybody is in one of them."""
    chosen = np.random.default_rng(1).integers(0, len(cells), 20_000)
    columns = {key: [cells[i][k] for i in chosen.tolist()] for k, key in enumerate(keys)}
    rows = pa.table({"id": np.arange(len(chosen)), **columns})
    return sf.scan(rows, privacy_unit="id").group_by(*keys, keys=cells)


def measured(
    keys: tuple[str, ...], cells: list[Any], cube: bool, epsilon: float, given: argparse.Namespace
) -> None:
    """Print the errors of each level."""
    grouped, budget = question(keys, cells), {"epsilon": epsilon, "delta": DELTA}
    ask = {"groups": 1, "rows": 1}
    agreeing = grouped.totals(cube=cube).bound(**ask).agg(n=sf.count())
    whole = grouped.totals(cube=cube, integer=True).bound(**ask).agg(n=sf.count())
    alone = grouped.bound(**ask).agg(n=sf.count())
    exact = alone.release(epsilon=10**6, noise="laplace").to_arrow()
    plan, totals = agreeing.plan(**budget), agreeing.query.totals
    truth = np.array(exact["n"].to_pylist(), float)
    own = totals.for_keys([exact.column(key).combine_chunks() for key in keys])
    places = np.concatenate([np.full(len(own.rollup.sizes[i]), i) for i in own.shown])
    true = own.placed([own.rollup.totals(truth, i) for i in range(len(own.rollup.sets))])
    found: dict[str, list[Any]] = {"added up": [], "agreeing": [], "whole": []}
    held = []
    for _ in range(given.releases):
        noisy = np.array(alone.release(**budget, noise="gaussian").to_arrow()["n"].to_pylist(), float)
        found["added up"].append(
            own.placed([own.rollup.totals(noisy, i) for i in range(len(own.rollup.sets))])
        )
        for name, one in (("agreeing", agreeing), ("whole", whole)):
            table = one.release(**budget, confidence=0.95).to_arrow()
            found[name].append(np.array(table["n"].to_pylist(), float))
            if name == "agreeing":
                held.append(np.abs(found[name][-1] - true) <= table["n_error"].to_numpy())
    mu = float(gaussian_mu(Fraction(epsilon), Fraction(DELTA)))
    apart = math.sqrt(len(own.rollup.sets)) / mu
    scale = float(plan.measurement.noise.scales[0] * plan.steps["units"])
    print(
        f"{'by':24} {'groups':>7} {'added up':>9} {'apart':>7} {'agreeing':>9} {'whole':>7} {'expected':>9} {'OpenDP':>7} {'bars':>6}"
    )
    peer = opendp(len(cells), epsilon, given) if not cube else None
    for level in own.shown:
        of = places == level
        rmse = {n: math.sqrt(np.mean((np.array(v)[:, of] - true[of]) ** 2)) for n, v in found.items()}
        expected = scale * math.sqrt(float((plan.measurement.noise.deviations[level] ** 2).mean()))
        named = ", ".join(keys[i] for i in own.rollup.sets[level]) or "all"
        other = f"{peer[len(keys) - len(own.rollup.sets[level])]:7.2f}" if peer else f"{'-':>7}"
        bars = np.mean(np.array(held)[:, of])
        print(
            f"{named:24} {of.sum():7} {rmse['added up']:9.2f} {apart:7.2f} {rmse['agreeing']:9.2f} {rmse['whole']:7.2f} {expected:9.2f} {other} {bars:6.3f}"
        )


def opendp(leaves: int, epsilon: float, given: argparse.Namespace) -> list[float] | None:
    """Return the errors of OpenDP's levels, the leaves' first."""
    if not given.opendp:
        return None
    with TemporaryDirectory() as folder:
        asked = {
            "leaves": leaves,
            "branching": 10,
            "epsilon": epsilon,
            "delta": DELTA,
            "releases": given.releases,
        }
        found: list[float] = run(given.opendp, OPENDP, Path(folder), json.dumps(asked))
        return found


if __name__ == "__main__":
    main()
