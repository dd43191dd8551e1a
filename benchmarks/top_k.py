"""The ten largest groups: by `top`, and by releasing all groups and sorting them, at equal privacy.

    python benchmarks/top_k.py [--people 20000] [--groups 5000] [--releases 40]

Each person is in up to 40 groups, taken by Zipf's law. `found` is the share of the true ten largest that a release
shows, `off` the root mean square over shown groups of what their numbers of units are off the truth, and `time` seconds a
release. Releases of all groups limit each person to some groups, which they must: `--limits`.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np
import pyarrow as pa

import sfumato as sf

K, DELTA = 10, 1e-6


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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--groups", type=int, default=5_000)
    parser.add_argument("--releases", type=int, default=40)
    parser.add_argument("--limits", type=int, nargs="*", default=[5, 40])
    given = parser.parse_args()
    table = made(given.people, given.groups)
    pairs = set(zip(table["id"].to_pylist(), table["key"].to_pylist(), strict=True))
    truth = Counter(key for _, key in pairs)
    best = {key for key, _ in truth.most_common(K)}
    asked = {"top": by_top}
    for limit in given.limits:
        asked[f"all, groups={limit}"] = lambda t, e, limit=limit: by_sorting(t, e, limit)
    print(f"{'':>8} {'':<16} {'found':>6} {'off':>9} {'time':>6}")
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        for name, ask in asked.items():
            start = time.perf_counter()
            drawn = [ask(table, epsilon) for _ in range(given.releases)]
            took = (time.perf_counter() - start) / given.releases
            found = np.mean([len(best & set(one)) / K for one in drawn])
            off = [n - truth[key] for one in drawn for key, n in one.items()]
            error = np.sqrt(np.mean(np.square(off))) if off else np.nan
            print(f"{epsilon:>8} {name:<16} {found:>6.3f} {error:>9.1f} {took:>6.2f}")


if __name__ == "__main__":
    main()
