"""Weights of outputs: who matters more has smaller errors, for each noise, and a release costs what it did."""

from fractions import Fraction as F

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.framework import Norm
from sfumato.measurements.independent_noise import NOISES
from sfumato.plan.noise_error import factors, split
from sfumato.plan.required_statistics import requirements

COLUMNS = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("year", pa.int64(), nullable=False),
    pa.field("x", pa.int64(), nullable=False),
    pa.field("z", pa.int64()),
]
TABLE = pa.table([[1, 1, 2], [1994, 1995, 1994], [2, 0, 7], [None, 3, 4]], pa.schema(COLUMNS))
YEARS = list(range(1994, 1999))
COUNT_AND_SUMS = {
    "n": sf.count(),
    "a": sf.sum("x", lower=0, upper=30),
    "b": sf.sum("z", lower=-5, upper=5, per="row"),
}
MOMENTS = {
    "n": sf.count(),
    "m": sf.mean("x", lower=0, upper=30),
    "v": sf.variance("z", lower=0, upper=10),
    "q": sf.quantiles("x", [0.25, 0.5], lower=0, upper=30),
}


def question(keys=YEARS, groups=1, rows=1, **asked):
    grouped = sf.scan(TABLE, privacy_unit="id").group_by("year", keys=keys)
    return grouped.bound(groups=groups, rows=rows).agg(**(asked or COUNT_AND_SUMS))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_split_is_where_no_other_is_better(noise):
    """The problem is convex in the logs of scales: it is enough that all derivatives are 0."""
    asked = MOMENTS | {"v": sf.variance("x", lower=0, upper=10)}
    query = question(**asked).weigh(n=3, v=8).query
    norm = NOISES[noise].norm
    needed = requirements(query, norm, F(1), units=False)
    steps = {c.name: float(c.step) for c in needed.coordinates}
    equal, found = (
        {n: float(s) for n, s in zip(needed.body.names, scales, strict=True)}
        for scales in (needed.body.split(norm), split(needed, norm))
    )

    def off(scales: dict[str, float]) -> float:
        """How far each number's part of the budget is from what asks for it."""
        budget, asked = {}, {}
        for s in needed.statistics:
            size = s.body.size(norm, [F(equal[n]) for n in s.names])
            for n in s.names:
                asked[n] = float(size / len(s.names))
                budget[n] = asked[n] * (equal[n] / scales[n]) ** (1 if norm is Norm.L1 else 2)
        for e in needed.estimates:
            squares = {n: (factor * scales[n] * steps[n]) ** 2 for n, factor in factors(e).items()}
            for n, square in squares.items():
                weight = {"n": 3, "v": 8}.get(e.name, 1) - 1
                asked[n] += weight * square / sum(squares.values())
        return max(abs(budget[n] / sum(budget.values()) - asked[n] / sum(asked.values())) for n in asked)

    assert len(found) == 5 and off(found) < 1e-5
    for name in found:
        assert off(found | {name: 1.05 * found[name]}) > 1e-3  # a split that is off is seen


def test_the_choice_of_noise_follows_weights():
    # Of 24 groups a count has a smaller error with Gaussian noise, and a sum with K-norm noise.
    asked = question(keys=range(24), groups=24, n=sf.count(), a=sf.sum("x", lower=0, upper=30))
    chosen = [asked.weigh(n=n).plan(epsilon=1, delta=1e-6).noise.name for n in (1, 100)]
    assert chosen == ["k_norm", "gaussian"]
