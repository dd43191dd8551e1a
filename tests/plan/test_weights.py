"""Weights of outputs: who matters more has smaller errors, for each noise, and a release costs what it did."""

from fractions import Fraction as F

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.budget import gaussian_mu
from sfumato.framework import Norm
from sfumato.measurements.independent_noise import NOISES
from sfumato.plan.noise_error import factors, split
from sfumato.plan.plan import Plan
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


def errors_of(plan: Plan) -> dict[str, float]:
    """Errors by the exact laws of the noise."""
    return {name: error for name, error in plan.expected.items() if name is not None}


@pytest.mark.parametrize(
    "asked", [pytest.param(COUNT_AND_SUMS, marks=pytest.mark.long), MOMENTS], ids=["sums", "moments"]
)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_more_weight_is_less_error_at_the_same_cost(noise, asked):
    budget = {"epsilon": "3/2", "delta": F(1, 10**6) if noise == "gaussian" else 0, "noise": noise}
    base = question(groups=2, **asked)
    equal = base.plan(**budget)
    for name in asked:
        outputs = [e for e in errors_of(equal) if e.split("_")[0] == name]
        before = equal
        for weight in ("6/5", 4, 1000):
            plan = base.weigh(**{name: weight}).plan(**budget)
            own = errors_of(plan)
            assert all(own[output] < errors_of(before)[output] for output in outputs), (name, weight)
            assert max(own[other] / errors_of(equal)[other] for other in own if other not in outputs) > 1
            if noise == "laplace":
                # Two groups, in each of which the parts of a contribution add up.
                size = sum(p.size(Norm.L1, [plan.scales[n] for n in p.names]) for p in parts(plan))
                assert 2 * size == F(3, 2) and plan.measurement.map(1).epsilon(0) == 1.5
            else:
                size = sum(p.size(Norm.L2, [plan.scales[n] for n in p.names]) for p in parts(plan))
                mu = gaussian_mu(F(3, 2), F(1, 10**6))
                assert mu**2 * (1 - F(1, 10**9)) <= 2 * size <= mu**2
            before = plan


def parts(plan):
    return [statistic.body for statistic in plan.requirements.statistics]


def test_equal_weights_are_the_same_as_none():
    for noise, delta in (("laplace", 0), ("gaussian", 1e-6), ("auto", 1e-6)):
        plain = question(**MOMENTS).plan(epsilon=1, delta=delta, noise=noise)
        equal = question(**MOMENTS).weigh(n=2, m=2, v=2, q=2).plan(epsilon=1, delta=delta, noise=noise)
        assert plain.scales == equal.scales and plain.noise == equal.noise and plain.others == equal.others
    # Only how weights compare counts.
    some, same = ({"n": 3}, {"n": 1, "m": "1/3", "v": "1/3", "q": "1/3"})
    plans = [question(**MOMENTS).weigh(**w).plan(epsilon=1, noise="laplace") for w in (some, same)]
    assert plans[0].scales == plans[1].scales


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
