"""How well limits are chosen, and how often error bars of diagnostics hold.

    python benchmarks/limits.py --coverage [--releases 200]

Of diagnostics: 2,000 units in one to five groups, one row in each, `groups=2`, at a budget of their own. A bar misses
where it does not hold the exact share. `z` says by how many standard errors of the measurement the coverage lies
above 95%.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import pyarrow as pa

import sfumato as sf

CONFIDENCE = 0.95
UNITS, VALUES = 2000, 50


def question():
    rows = [(i, f"t{j}", float(i % VALUES)) for i in range(UNITS) for j in range(1 + i % 5)]
    ids, towns, values = zip(*rows, strict=True)
    people = sf.scan(pa.table({"id": ids, "town": towns, "x": values}), privacy_unit="id")
    asked = people.group_by("town").bound(groups=2, rows=1)
    return asked.agg(n=sf.count(), m=sf.mean("x", lower=0, upper=39))


def exact(most):
    """Shares of the definition, where a unit counts with at most so many rows."""
    rows = {i: 1 + i % 5 for i in range(UNITS)}
    weights = {i: min(n, most) for i, n in rows.items()}

    def share(part):
        return sum(weights[i] * part(i, n) for i, n in rows.items()) / sum(weights.values())

    return {
        ("groups=2", "rows"): share(lambda i, n: max(0, 1 - 2 / n)),
        ("groups=2", "units"): 3 / 5,
        ("rows=1", "rows"): 0.0,
        ("rows=1", "units"): 0.0,
        ("lower=0", "values of x"): 0.0,
        ("upper=39", "values of x"): share(lambda i, n: i % VALUES > 39),
    }


def coverage(releases, epsilons):
    asked = question()
    print(f"{'epsilon':>8} {'share':22} {'covered':>8} {'z':>5} {'half-width':>10}")
    for epsilon in epsilons:
        held, widths = defaultdict(int), defaultdict(list)
        for _ in range(releases):
            told = asked.diagnose(epsilon=epsilon)
            truth = exact(told.most_rows)
            for one in told.findings(CONFIDENCE):
                name = one.limit, one.of
                held[name] += abs(one.share - truth[name]) <= one.half_width
                widths[name].append(one.half_width)
        for name, number in held.items():
            part = number / releases
            z = (part - CONFIDENCE) / (CONFIDENCE * (1 - CONFIDENCE) / releases) ** 0.5
            middle = sorted(widths[name])[releases // 2]
            print(f"{epsilon:8} {' of '.join(reversed(name)):22} {part:8.3f} {z:5.1f} {middle:10.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--coverage", action="store_true", help="of error bars of diagnostics")
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.05, 0.3])
    given = parser.parse_args()
    if given.coverage:
        coverage(given.releases, given.epsilon)


if __name__ == "__main__":
    main()
