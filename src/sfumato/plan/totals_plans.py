"""Plans of totals: of time steps whose cumulative totals are asked, and of groups with coarser groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from sfumato.budget import gaussian_mu
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.exact import root_up
from sfumato.exact.rollup import Rollup
from sfumato.exact.time_trees import Toeplitz, Tree
from sfumato.framework import LevelsDistance, Norm, SeriesDistance, TreeDistance
from sfumato.measurements.correlated_noise import levels_noise, series_noise, tree_noise
from sfumato.noise.level_noise import LevelsGaussian
from sfumato.noise.level_tolerances import complete_level_variances, variances
from sfumato.noise.series_noise import TreeLaplace, inverse
from sfumato.plan.group_measurement import GroupMeasurement
from sfumato.plan.noise_error import Errors, expected_errors, ratio, split
from sfumato.plan.plan import Plan
from sfumato.plan.required_statistics import Requirements, requirements
from sfumato.query.aggregates import Estimate, Sum, Weighted
from sfumato.query.aggregates.cumulative_totals import CumulativeEstimate
from sfumato.query.group_totals import Series, Totals
from sfumato.query.query import Query


def tree_plan(query: Query, epsilon: Fraction, delta: Fraction) -> Plan:
    """Return the plan of cumulative totals with Laplace noise on the blocks of the best time tree.

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
            f"agg: {beside[0]}: with Laplace noise, which a delta of 0 needs, cumulative totals "
            "must be alone. Put the rest in another question, or give a delta such as 1e-6"
        )
    groups = _steps(needed, series)
    metric = TreeDistance(needed.body.names, split(needed, Norm.L1), tree, groups)
    moved = metric.moved(needed.body, query.groups)
    metric = replace(metric, scales=tuple(moved * s for s in metric.scales))
    try:
        drawn = tree_noise(metric, 1 / epsilon)
    except ParameterError:
        raise query.too_much_noise(epsilon) from None
    measurement = GroupMeasurement.from_query(query, needed, drawn)
    errors = _tree_errors(needed, drawn, tree, drawn.scales)
    notes = (_tree_note(query, needed, drawn, errors),)
    return Plan(query, epsilon, delta, measurement, 1 / epsilon, errors=errors, noise_notes=notes)


def _tree_errors(needed: Requirements, drawn: TreeLaplace, tree: Tree, scales: Sequence[Fraction]) -> Errors:
    """Return about the root mean square error of each cumulative total over all steps."""
    deviation = replace(drawn, factor=tree).deviation
    sizes = {c.name: float(s * c.step) * deviation for c, s in zip(needed.coordinates, scales, strict=True)}
    return expected_errors(needed.estimates, sizes)


def _tree_note(query: Query, needed: Requirements, drawn: TreeLaplace, errors: Errors) -> str:
    """Return a note on the time tree of cumulative totals, and its errors in comparison."""
    tree = drawn.factor
    own = [scale / tree.levels for scale in drawn.scales]
    alone = _tree_errors(needed, drawn, Tree(tree.steps, (1,)), own)
    told = "; ".join(
        (
            f"{name}: root mean squared error {errors[name]:.4g} over all steps, instead of "
            f"{alone[name]:.4g} with independent noise for each step"
        )
        for name in query.output_names
        if name in alone
    )
    sizes = ", ".join(f"{size:,}" for size in tree.sizes)
    return f"The noise is for blocks of {sizes} time steps. {told}."


# Running sums are those of a part of a cumulative sum: with power 0 steps by themselves, with 1/2 its root.
POWERS = tuple(Fraction(i, 16) for i in range(9))
# Where units are in many steps, one that falls faster at first and then stays is better.
KEPT = (Fraction(3, 4), Fraction(7, 8), Fraction(15, 16), Fraction(31, 32))
# Of more steps it is not looked for, as that takes long.
MAX_KEPT = 1 << 12
# The power, and what is kept.
Sums = tuple[Fraction, Fraction]
PLAIN: Sums = Fraction(0), Fraction(0)


def series_plan(query: Query, epsilon: Fraction, delta: Fraction) -> Plan:
    """Return the plan of cumulative totals with Gaussian noise on running sums.

    Raises:
        BudgetError: delta is 0, or the noise would be too large.
        QueryError: a statistic is no sum over units.
    """
    if not delta:
        raise BudgetError(
            "delta is 0, but Gaussian noise needs more. Give a delta such as 1e-6, or use Laplace "
            "noise for cumulative totals alone"
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
        raise query.too_much_noise(epsilon) from None
    measurement = GroupMeasurement.from_query(query, needed, drawn)
    errors = _expected(needed, metric, 1 / mu)
    before = _expected(needed, _metric(needed, query, PLAIN), 1 / mu)
    totals = [e.name for e in needed.estimates if isinstance(e, CumulativeEstimate)]
    told = "; ".join(
        (
            f"{name}: root mean squared error {errors[name]:.4g} over all steps, instead of "
            f"{before[name]:.4g} with independent noise for each step"
        )
        for name in totals
    )
    notes = (f"The noise is for running weighted sums over time steps. {told}.",)
    return Plan(query, epsilon, delta, measurement, 1 / mu, errors=errors, noise_notes=notes)


def _best_sums(needed: Requirements, query: Query, mu: Fraction) -> Sums:
    """Return the running sums with the smallest errors of cumulative totals, by weight."""
    least = _expected(needed, _metric(needed, query, PLAIN), 1 / mu)

    def size(sums: Sums) -> float:
        return ratio(_expected(needed, _metric(needed, query, sums), 1 / mu), least, needed.weights)

    best = min(((power, Fraction(0)) for power in POWERS), key=size)
    assert query.series is not None
    if query.series.steps > MAX_KEPT:
        return best
    powers = [power for power in POWERS if 0 <= power - best[0] <= Fraction(3, 16)]
    return min([best, *product(powers, KEPT)], key=size)


def _steps(needed: Requirements, series: Series) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return the groups of each time series in order of time; refuse totals of no series."""
    if any(not s.additive for s in needed.statistics) or any(part.spread for part in needed.body.parts):
        raise QueryError("agg: with cumulative totals, compute only counts, sums, means and variances")
    return tuple(tuple((i, t) for t in range(series.steps)) for i in range(series.count))


def _metric(needed: Requirements, query: Query, sums: Sums) -> SeriesDistance:
    """Return the metric of noise on running sums, in which one unit moves by at most 1."""
    series = query.series
    assert series is not None
    groups = _steps(needed, series)
    found = SeriesDistance(needed.body.names, split(needed, Norm.L2), _factor(sums, series.steps), groups)
    size = root_up(found.moved(needed.body, query.groups))
    return replace(found, scales=tuple(size * s for s in found.scales))


def _moved(query: Query, sums: Sums) -> Fraction:
    """Return how much more noise cumulative totals need than a unit in one step."""
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
    return Toeplitz.from_power(power, steps, kept)


@lru_cache(maxsize=256)
def _spread(factor: Toeplitz) -> tuple[float, float]:
    """Return the root mean square noise of a time step and of its cumulative total."""
    own = inverse(factor)

    def spread(each: Any) -> float:
        return math.sqrt(float(np.cumsum(each**2).mean()))

    return spread(own), spread(np.cumsum(own))


_PARTS = 64  # in so many parts the budget is divided over levels
_MOVES = (16, 8, 4, 2, 1)
_VISITS = 1 << 30  # of cells, for each level and level, that the search for a division may take: some seconds


def totals_plan(query: Query, epsilon: Fraction, delta: Fraction, noise: str) -> Plan:
    """Return the plan of totals over groups, with Gaussian noise on the best levels.

    Raises:
        BudgetError: delta is 0, or the noise would be too large.
        ParameterError: another noise is asked for.
        QueryError: a statistic is no sum over units.
    """
    if noise not in ("auto", "gaussian"):
        raise ParameterError("noise", noise, "'gaussian' or left out, with totals")
    if not delta:
        raise BudgetError(
            "delta is 0, but totals have Gaussian noise, which needs more. Give a delta such as 1e-6"
        )
    totals = query.totals
    assert totals is not None
    mu = gaussian_mu(epsilon, delta)
    sizes = best_sizes(totals.rollup, query.groups, totals.shown)
    needed = requirements(query, Norm.L2, sizes[0] / mu, units=False)
    if any(not s.additive for s in needed.statistics) or any(part.spread for part in needed.body.parts):
        raise QueryError("agg: with totals, compute only counts, sums, means and variances")
    needed = replace(needed, estimates=tuple(_shown(query, e, totals.whole) for e in needed.estimates))
    cells = tuple(range(totals.rollup.cells))
    metric = LevelsDistance(needed.body.names, split(needed, Norm.L2), sizes, totals.rollup, cells)
    most = root_up(metric.moved(needed.body, query.groups))
    metric = replace(metric, scales=tuple(most * s for s in metric.scales))
    try:
        drawn = levels_noise(metric, 1 / mu)
    except ParameterError:
        raise query.too_much_noise(epsilon) from None
    measurement = GroupMeasurement.from_query(query, needed, drawn)
    errors = _level_errors(needed, drawn, math.sqrt(float((drawn.deviations[0] ** 2).mean())))
    notes = (_levels_note(totals, drawn, query),)
    return Plan(query, epsilon, delta, measurement, 1 / mu, errors=errors, noise_notes=notes)


def _levels_note(totals: Totals, drawn: LevelsGaussian, query: Query) -> str:
    """Return a note on the errors of totals, relative to adding up groups with independent noise."""
    found = []
    alone = float(root_up(Fraction(totals.rollup.squares(0, query.groups))))
    for level in totals.shown:
        size = math.sqrt(float((drawn.deviations[level] ** 2).mean()))
        added = alone * math.sqrt(float(totals.rollup.sizes[level].mean()))
        keys = ", ".join(query.keys[i] for i in totals.rollup.sets[level])
        found.append(f"by {keys} {size / added:.2g}" if keys else f"of all groups {size / added:.2g}")
    return (
        "Groups and their totals are measured together and made consistent by least "
        f"squares{', in whole numbers' if totals.whole else ''}. Errors, divided by those of added "
        f"groups with independent noise: {', '.join(found)}."
    )


def _shown(query: Query, e: Estimate, is_integer: bool) -> Estimate:
    """Return an estimate of which totals agree with the sum of their groups."""
    if not (is_integer and e.whole):
        return replace(e, whole=False)
    asked = dict(query.aggregates)[e.name]
    of = asked.aggregate if isinstance(asked, Weighted) else asked
    signed = isinstance(of, Sum) and of.lower < 0
    return replace(e, lower=-math.inf if signed else 0.0, upper=math.inf)


def _level_errors(needed: Requirements, drawn: LevelsGaussian, size: float) -> Errors:
    """Return the expected errors of totals at a level whose noise is so many times the scales."""
    scales = zip(needed.coordinates, drawn.scales, strict=True)
    return expected_errors(needed.estimates, {c.name: float(s * c.step) * size for c, s in scales})


@lru_cache(maxsize=64)
def best_sizes(rollup: Rollup, groups: int, shown: tuple[int, ...]) -> tuple[Fraction, ...]:
    """Return the noise of each level of totals: 1 hides a unit in one group; 0 skips the level.

    The budget, the square of mu, is divided over levels in parts of 1/64, so that the geometric mean of the
    errors of what is shown is small: from equal parts, and from the groups alone, parts are moved while that
    makes it smaller, and is not too much work: any division is as private, and bars say what it is.

    Args:
        rollup: which totals there are.
        groups: the most groups of a unit.
        shown: which levels are.
    """
    levels = range(len(rollup.sets))
    squares = [rollup.squares(i, groups) for i in levels]

    def mean_error(parts: Sequence[int]) -> float:
        weights = [part / (_PARTS * s) for part, s in zip(parts, squares, strict=True)]
        if rollup.complete:
            return float(np.log(complete_level_variances(rollup, weights)[list(shown)]).sum())
        found = variances(rollup, weights)
        return sum(math.log(float(found[i].mean())) for i in shown)

    alone = [_PARTS, *[0] * (len(levels) - 1)]
    equal = [_PARTS // len(levels)] * len(levels)
    equal[0] += _PARTS - sum(equal)
    work = (1 if rollup.complete else rollup.cells) * len(levels) ** 2
    tries = max(1, _VISITS // work)
    best = min(
        (_improve_shares(start, mean_error, tries) for start in (equal, alone)), key=lambda found: found[0]
    )[1]
    return tuple(
        root_up(Fraction(_PARTS * s, part)) if part else Fraction(0)
        for part, s in zip(best, squares, strict=True)
    )


def _improve_shares(
    parts: list[int], error: Callable[[Sequence[int]], float], tries: int
) -> tuple[float, list[int]]:
    """Move parts of a budget between levels of totals while an error gets smaller."""
    least = error(parts)
    for move in _MOVES:
        better = True
        while better:
            better = False
            for i in range(len(parts)):
                for j in range(len(parts)):
                    tried = list(parts)
                    tried[i], tried[j] = tried[i] - move, tried[j] + move
                    if i == j or tried[i] < (i == 0):
                        continue
                    if not tries:
                        return least, parts
                    found, tries = error(tried), tries - 1
                    if found < least - 1e-9:
                        parts, least, better = tried, found, True
    return least, parts
