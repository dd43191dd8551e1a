"""Plans of time steps whose cumulative totals are asked: Gaussian noise on running weighted sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from sfumato.budget import gaussian_mu
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.exact import root_up
from sfumato.exact.toeplitz import Toeplitz
from sfumato.exact.trees import Tree
from sfumato.framework import Norm, SeriesDistance, TreeDistance
from sfumato.measurements.series_gaussian import series_noise
from sfumato.measurements.tree_laplace import tree_noise
from sfumato.noise.series_gaussian import inverse
from sfumato.noise.tree_laplace import TreeLaplace
from sfumato.query.aggregates.series import CumulativeEstimate
from sfumato.query.noisy.measurement import GroupMeasurement
from sfumato.query.plans.expected import Errors, expected_errors, ratio
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.weighing import split
from sfumato.query.query import Query
from sfumato.query.requirements import Requirements, requirements
from sfumato.query.series import Series


def tree_plan(query: Query, epsilon: Fraction, delta: Fraction) -> Plan:
    """Return the plan with Laplace noise on the blocks of the best tree.

    Raises:
        BudgetError: the noise would be too large.
        QueryError: something else than totals is asked, or a statistic is no sum over units.
    """
    series = query.series
    assert series is not None
    tree = Tree.best(series.steps)
    size = query.groups * tree.levels / epsilon
    needed = requirements(query, Norm.L1, size, units=False)
    beside = [e.name for e in needed.estimates if not e.derived and not isinstance(e, CumulativeEstimate)]
    if beside:
        raise QueryError(
            f"agg: {beside[0]}: with Laplace noise, the one for a delta of 0, cumulative totals are asked "
            "alone; ask the rest in a question of its own, or give a delta such as 1e-6"
        )
    groups = _steps(needed, series)
    metric = TreeDistance(needed.body.names, split(needed, Norm.L1), tree, groups)
    moved = metric.moved(needed.body, query.groups)
    metric = replace(metric, scales=tuple(moved * s for s in metric.scales))
    try:
        drawn = tree_noise(metric, 1 / epsilon)
    except ParameterError:
        raise BudgetError(
            f"epsilon = {float(epsilon):g} asks for noise beyond what 64-bit integers hold; {query.remedies}"
        ) from None
    measurement = GroupMeasurement.of(query, needed, drawn)
    errors = _errors(needed, drawn, tree, drawn.scales)
    notes = (_note(query, needed, drawn, errors),)
    return Plan(query, epsilon, delta, measurement, 1 / epsilon, errors=errors, noise_notes=notes)


def _errors(needed: Requirements, drawn: TreeLaplace, tree: Tree, scales: Sequence[Fraction]) -> Errors:
    """Return about how large the error of each output is: the root of the mean square over all steps."""
    deviation = replace(drawn, factor=tree).deviation
    sizes = {c.name: float(s * c.step) * deviation for c, s in zip(needed.coordinates, scales, strict=True)}
    return expected_errors(needed.estimates, sizes)


def _note(query: Query, needed: Requirements, drawn: TreeLaplace, errors: Errors) -> str:
    """Return which blocks have noise, and how large the errors are beside those of independent noise."""
    tree = drawn.factor
    own = [scale / tree.levels for scale in drawn.scales]
    alone = _errors(needed, drawn, Tree(tree.steps, (1,)), own)
    told = "; ".join(
        f"{name}: root mean squared error {errors[name]:.4g} over all steps, of steps with noise "
        f"of their own {alone[name]:.4g}"
        for name in query.output_names
        if name in alone
    )
    sizes = ", ".join(f"{size:,}" for size in tree.sizes)
    return f"Noise is that of blocks of {sizes} time steps. {told}."


# Running sums are those of a part of a cumulative sum: with power 0 steps by themselves, with 1/2 its root.
POWERS = tuple(Fraction(i, 16) for i in range(9))
# Where units are in many steps, one that falls faster at first and then stays is better.
KEPT = (Fraction(3, 4), Fraction(7, 8), Fraction(15, 16), Fraction(31, 32))
# Of more steps it is not looked for, as that takes long.
MOST_KEPT = 1 << 12
# The power, and what is kept.
Sums = tuple[Fraction, Fraction]
PLAIN: Sums = Fraction(0), Fraction(0)


def series_plan(query: Query, epsilon: Fraction, delta: Fraction) -> Plan:
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
    measurement = GroupMeasurement.of(query, needed, drawn)
    errors = _expected(needed, metric, 1 / mu)
    before = _expected(needed, _metric(needed, query, PLAIN), 1 / mu)
    totals = [e.name for e in needed.estimates if isinstance(e, CumulativeEstimate)]
    told = "; ".join(
        f"{name}: root mean squared error {errors[name]:.4g} over all steps, of steps with noise "
        f"of their own {before[name]:.4g}"
        for name in totals
    )
    notes = (f"Noise is that of running weighted sums over time steps. {told}.",)
    return Plan(query, epsilon, delta, measurement, 1 / mu, errors=errors, noise_notes=notes)


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


def _steps(needed: Requirements, series: Series) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return the groups of each series in the order of time; refuse what adds up in no series."""
    if any(not s.additive for s in needed.statistics) or any(part.spread for part in needed.body.parts):
        raise QueryError("agg: beside cumulative totals ask for counts, sums, means and variances alone")
    return tuple(tuple((i, t) for t in range(series.steps)) for i in range(series.count))


def _metric(needed: Requirements, query: Query, sums: Sums) -> SeriesDistance:
    """Return the shape of noise on running sums, in which one unit moves by at most 1."""
    series = query.series
    assert series is not None
    groups = _steps(needed, series)
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
