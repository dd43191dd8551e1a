"""Plans of time steps whose cumulative totals are asked: Gaussian noise on running weighted sums."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np

from sfumato.budget import Loss, gaussian_mu
from sfumato.budget.measure import PrivacyLoss
from sfumato.dataclass import dataclass
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.exact import root_up
from sfumato.exact.toeplitz import Toeplitz
from sfumato.framework import Measurement, Norm, SeriesDistance
from sfumato.measurements.conversions import convert
from sfumato.measurements.noise import NOISES
from sfumato.measurements.series_gaussian import series_gaussian, series_noise
from sfumato.noise.series_gaussian import SeriesGaussian, inverse
from sfumato.query.estimates.series import CumulativeEstimate
from sfumato.query.noisy.noising import Noising
from sfumato.query.plans.expected import Errors, expected_errors, ratio
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.weighing import split
from sfumato.query.query import Query
from sfumato.query.requirements import Requirements, requirements

# Running sums are those of a part of a cumulative sum: with power 0 steps by themselves, with 1/2 its root.
POWERS = tuple(Fraction(i, 16) for i in range(9))
# Where units are in many steps, one that falls faster at first and then stays is better.
KEPT = (Fraction(3, 4), Fraction(7, 8), Fraction(15, 16), Fraction(31, 32))
# Of more steps it is not looked for, as that takes long.
MOST_KEPT = 1 << 12
# The power, and what is kept.
Sums = tuple[Fraction, Fraction]
PLAIN: Sums = Fraction(0), Fraction(0)


@dataclass(frozen=True, repr=False)
class SeriesPlan(Plan):
    """A plan whose noise is that of running weighted sums over time steps.

    Args:
        drawn: the noise.
        shape: its shape, in which one unit moves the numbers by at most 1.
    """

    drawn: SeriesGaussian
    shape: SeriesDistance

    @property
    def metric(self) -> SeriesDistance:
        """Its shape on the groups that are shown."""
        assert self.query.series is not None
        table: Any = self.query.public_keys
        return replace(self.shape, series=self.query.series.groups(table, self.query.keys))

    @property
    def chain(self) -> Measurement:
        """Rows to noisy statistics of all groups; its map at 1 is the loss."""
        return self.exact_chain >> convert(series_gaussian(self.multiplier, self.metric), PrivacyLoss())

    @property
    def noising(self) -> Noising:
        """What the release does with exact statistics."""
        return replace(super().noising, together=self.drawn, series=self.query.series)

    @cached_property
    def expected(self) -> Errors:
        """About how large the error of each output will be: the root of the mean square over all steps."""
        return _expected(self.requirements, self.shape, self.multiplier)

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever asks should know before the release."""
        plain = _metric(self.requirements, self.query, PLAIN)
        before = _expected(self.requirements, plain, self.multiplier)
        totals = [e.name for e in self.requirements.estimates if isinstance(e, CumulativeEstimate)]
        told = "; ".join(
            f"{name}: root mean squared error {self.expected[name]:.4g} over all steps, of steps with noise "
            f"of their own {before[name]:.4g}"
            for name in totals
        )
        return (*super().notes, f"Noise is that of running weighted sums over time steps. {told}.")


def series_plan(query: Query, epsilon: Fraction, delta: Fraction) -> SeriesPlan:
    """Return the plan with the smallest expected errors among those with Gaussian noise on running sums.

    Raises:
        BudgetError: delta is 0, or the noise would be too large.
        QueryError: a statistic is no sum over units.
    """
    if not delta:
        raise BudgetError(
            "delta is 0, but Gaussian noise needs more; give a delta such as 1e-6, or Laplace noise, with "
            "which cumulative totals are asked alone"
        )
    mu = gaussian_mu(epsilon, delta)
    # Grids depend on the size of the noise, and the best sums on what is asked of them.
    rough = requirements(query, Norm.L2, root_up(Fraction(query.groups)) / mu, units=False)
    sums = _best_sums(rough, query, mu)
    size = _moved(query, sums) / mu
    needed = requirements(query, Norm.L2, size, units=False)
    metric = _metric(needed, query, sums)
    try:
        drawn = series_noise(metric, 1 / mu)
    except ParameterError:
        raise BudgetError(
            f"epsilon = {float(epsilon):g} asks for noise beyond what 64-bit integers hold; {query.remedies}"
        ) from None
    names = needed.body.names
    return SeriesPlan(
        query, epsilon, delta, NOISES["gaussian"], needed, 1 / mu,
        dict(zip(names, drawn.scales, strict=True)), dict(zip(names, drawn.laws, strict=True)),
        None, Loss(gaussian=mu**2), drawn=drawn, shape=metric,
    )  # fmt: skip


def _best_sums(needed: Requirements, query: Query, mu: Fraction) -> Sums:
    """Return the running sums with the smallest errors, by weight."""
    least = _expected(needed, _metric(needed, query, PLAIN), 1 / mu)

    def size(sums: Sums) -> float:
        return ratio(_expected(needed, _metric(needed, query, sums), 1 / mu), least, needed.weights)

    best = min(((power, Fraction(0)) for power in POWERS), key=size)
    assert query.series is not None
    if query.series.steps > MOST_KEPT:
        return best
    powers = [power for power in POWERS if 0 <= power - best[0] <= Fraction(3, 16)]
    return min([best, *product(powers, KEPT)], key=size)


def _metric(needed: Requirements, query: Query, sums: Sums) -> SeriesDistance:
    """Return the shape of noise on running sums, in which one unit moves by at most 1."""
    series = query.series
    assert series is not None
    if any(not s.additive for s in needed.statistics) or any(part.spread for part in needed.body.parts):
        raise QueryError("agg: beside cumulative totals ask for counts, sums, means and variances alone")
    groups = tuple(tuple((i, t) for t in range(series.steps)) for i in range(series.count))
    found = SeriesDistance(needed.body.names, split(needed, Norm.L2), _factor(sums, series.steps), groups)
    size = root_up(found.moved(needed.body, query.groups))
    return replace(found, scales=tuple(size * s for s in found.scales))


def _moved(query: Query, sums: Sums) -> Fraction:
    """Return about how many times more noise there is than hides a unit in one step."""
    assert query.series is not None
    most = min(query.groups, query.series.steps)
    return root_up(_factor(sums, query.series.steps).squared_sum(most) * Fraction(query.groups, most))


def _expected(needed: Requirements, metric: SeriesDistance, multiplier: Fraction) -> dict[str | None, float]:
    step, total = _spread(metric.factor)
    sizes = {
        c.name: float(multiplier * s * c.step) * step
        for c, s in zip(needed.coordinates, metric.scales, strict=True)
    }
    errors = expected_errors(needed.estimates, sizes)
    for e in needed.estimates:
        if isinstance(e, CumulativeEstimate):
            errors[e.name] *= total / step
    return errors


@lru_cache(maxsize=256)
def _factor(sums: Sums, steps: int) -> Toeplitz:
    power, kept = sums
    return Toeplitz.of_power(power, steps, kept)


@lru_cache(maxsize=256)
def _spread(factor: Toeplitz) -> tuple[float, float]:
    """Return the roots of the mean squares, over all steps, of what draws do to a step and to its total."""
    own = inverse(factor)

    def spread(each: Any) -> float:
        return math.sqrt(float(np.cumsum(each**2).mean()))

    return spread(own), spread(np.cumsum(own))
