"""The ten largest groups: by `top`, by releasing all groups and sorting them, and by OpenDP, at equal privacy.

    python benchmarks/top_k.py [--people 20000] [--groups 5000] [--releases 40] [--opendp PYTHON]

Each person is in up to 40 groups, taken by Zipf's law. `found` is the share of the true ten largest that a release
shows, `short` how many people the ten that are shown have less than the ten largest, as a share, and `off` the root mean square over
shown groups of what their numbers of units are off the truth; `time` is seconds a release. Releases of all groups limit each person to
some groups, which they must: `--limits`.

Of public groups, the keys alone: OpenDP's `make_noisy_top_k`, in a Python of its own, is given exact numbers of all groups, which are
not in its time. Its pure DP is by permute-and-flip, its zCDP by the exponential mechanism, made approximate DP by its own conversion.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from _runs import run

import sfumato as sf

K, DELTA = 10, 1e-6
EPSILONS = 0.1, 0.5, 1.0, 2.0

OPENDP = """
import json, sys, time
import opendp.prelude as dp
dp.enable_features("contrib")
given = json.loads(sys.argv[2])
numbers = json.load(open(sys.argv[1]))
space = dp.vector_domain(dp.atom_domain(T=int), size=len(numbers)), dp.linf_distance(T=int, monotonic=True)

def measured(scale, delta):
    kind = dp.zero_concentrated_divergence() if delta else dp.max_divergence()
    made = dp.m.make_noisy_top_k(*space, kind, k=given["k"], scale=scale)
    return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(made), delta) if delta else made

found = []
for epsilon in given["epsilons"]:
    for delta in (0.0, given["delta"]):
        bound = (epsilon, delta) if delta else epsilon
        scale = dp.binary_search_param(lambda s: measured(s, delta), d_in=1, d_out=bound, T=float)
        one = measured(scale, delta)
        start = time.perf_counter()
        drawn = [one(numbers) for _ in range(given["releases"])]
        found.append([drawn, (time.perf_counter() - start) / given["releases"]])
print(json.dumps(found))
"""


def made(people: int, groups: int) -> pa.Table:
    """Return rows of people in groups."""
    generator = np.random.default_rng(17)
    ids = np.repeat(np.arange(people), generator.integers(1, 41, people))
    weights = 1 / np.arange(1, groups + 1) ** 0.6
    return pa.table({"id": ids, "key": generator.choice(groups, len(ids), p=weights / weights.sum())})


def by_top(table: pa.Table, epsilon: float) -> dict[int, int]:
    """Ask for the largest groups."""
    found = sf.scan(table, privacy_unit="id").top("key", k=K).release(epsilon=epsilon, delta=DELTA).to_arrow()
    return dict(zip(found["key"].to_pylist(), found["units"].to_pylist(), strict=True))


def by_sorting(table: pa.Table, epsilon: float, limit: int) -> dict[int, int]:
    """Ask for all groups, and sort."""
    people = sf.scan(table, privacy_unit="id").group_by("key").bound(groups=limit)
    found = people.agg(units=sf.count_units()).release(epsilon=epsilon, delta=DELTA).to_arrow()
    found = found.sort_by([("units", "descending")])[:K]
    return dict(zip(found["key"].to_pylist(), found["units"].to_pylist(), strict=True))


def of_public(table: pa.Table, groups: int, epsilon: float, delta: float) -> list[int]:
    """Ask for the keys of the largest of public groups."""
    question = sf.scan(table, privacy_unit="id").top("key", k=K, keys=range(groups))
    found: list[int] = (
        question.release(epsilon=epsilon, delta=delta, counts=False).to_arrow()["key"].to_pylist()
    )
    return found


def shown(
    epsilon: float, name: str, drawn: list[list[int]], truth: Counter[int], took: float, off: float
) -> None:
    """Print a line."""
    best = truth.most_common(K)
    keys, most = {key for key, _ in best}, sum(n for _, n in best)
    found = np.mean([len(keys & set(one)) / K for one in drawn])
    short = np.mean([1 - sum(truth[key] for key in one) / most for one in drawn])
    print(f"{epsilon:>8} {name:<24} {found:>6.3f} {short:>7.4f} {off:>8.1f} {took:>7.3f}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--releases", type=int, default=40)
    parser.add_argument("--limits", type=int, nargs="*", default=[5, 40])
    parser.add_argument("--opendp", help="a Python with OpenDP")
    given = parser.parse_args()
    table = made(given.people, given.groups)
    pairs = set(zip(table["id"].to_pylist(), table["key"].to_pylist(), strict=True))
    truth = Counter(key for _, key in pairs)
    asked = {"top": by_top}
    for limit in given.limits:
        asked[f"all, groups={limit}"] = lambda t, e, limit=limit: by_sorting(t, e, limit)
    print(f"{'epsilon':>8} {'':<24} {'found':>6} {'short':>7} {'off':>8} {'time':>7}")
    for epsilon in EPSILONS:
        for name, ask in asked.items():
            start = time.perf_counter()
            drawn = [ask(table, epsilon) for _ in range(given.releases)]
            took = (time.perf_counter() - start) / given.releases
            off = [n - truth[key] for one in drawn for key, n in one.items()]
            error = float(np.sqrt(np.mean(np.square(off)))) if off else np.nan
            shown(epsilon, name, [list(one) for one in drawn], truth, took, error)
        for delta in (0.0, DELTA):
            start = time.perf_counter()
            keys = [of_public(table, given.groups, epsilon, delta) for _ in range(given.releases)]
            took = (time.perf_counter() - start) / given.releases
            shown(epsilon, f"public, delta {delta:g}", keys, truth, took, np.nan)
    if given.opendp:
        of_opendp(given, truth)


def of_opendp(given: argparse.Namespace, truth: Counter[int]) -> None:
    """Measure OpenDP."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "numbers.json"
        path.write_text(json.dumps([truth[key] for key in range(given.groups)]))
        asked = {"epsilons": EPSILONS, "delta": DELTA, "k": K, "releases": given.releases}
        found = iter(run(given.opendp, OPENDP, path, json.dumps(asked)))
    for epsilon in EPSILONS:
        for delta in (0.0, DELTA):
            drawn, took = next(found)
            shown(epsilon, f"OpenDP, delta {delta:g}", drawn, truth, took, np.nan)


if __name__ == "__main__":
    main()
