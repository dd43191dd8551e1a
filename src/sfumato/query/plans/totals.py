"""Plans of public groups whose totals are asked: Gaussian noise on all levels, made to agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.budget import gaussian_mu
from sfumato.errors import BudgetError, ParameterError, QueryError
from sfumato.exact import root_up
from sfumato.exact.rollup import Rollup
from sfumato.framework import LevelsDistance, Norm
from sfumato.measurements.levels_gaussian import levels_noise
from sfumato.noise.levels_gaussian import LevelsGaussian, of_complete, variances
from sfumato.query.aggregates import Estimate, Sum, Weighted
from sfumato.query.noisy.measurement import GroupMeasurement
from sfumato.query.plans.expected import Errors, expected_errors
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.weighing import split
from sfumato.query.query import Query
from sfumato.query.requirements import Requirements, requirements
from sfumato.query.totals import Totals

_PARTS = 64  # in so many parts the budget is divided over levels
_MOVES = (16, 8, 4, 2, 1)
_VISITS = 1 << 30  # of cells, for each level and level, that the search for a division may take: some seconds


def totals_plan(query: Query, epsilon: Fraction, delta: Fraction, noise: str) -> Plan:
    """Return the plan with Gaussian noise whose levels have the smallest errors, by their geometric mean.

    Raises:
        BudgetError: delta is 0, or the noise would be too large.
        ParameterError: another noise is asked for.
        QueryError: a statistic is no sum over units.
    """
    if noise not in ("auto", "gaussian"):
        raise ParameterError("noise", noise, "'gaussian' or left out, with totals")
    if not delta:
        raise BudgetError(
            "delta is 0, but totals have Gaussian noise, which needs more; give a delta such as 1e-6"
        )
    totals = query.totals
    assert totals is not None
    mu = gaussian_mu(epsilon, delta)
    sizes = best_sizes(totals.rollup, query.groups, totals.shown)
    needed = requirements(query, Norm.L2, sizes[0] / mu, units=False)
    if any(not s.additive for s in needed.statistics) or any(part.spread for part in needed.body.parts):
        raise QueryError("agg: with totals ask for counts, sums, means and variances alone")
    needed = replace(needed, estimates=tuple(_shown(query, e, totals.whole) for e in needed.estimates))
    cells = tuple(range(totals.rollup.cells))
    metric = LevelsDistance(needed.body.names, split(needed, Norm.L2), sizes, totals.rollup, cells)
    most = root_up(metric.moved(needed.body, query.groups))
    metric = replace(metric, scales=tuple(most * s for s in metric.scales))
    try:
        drawn = levels_noise(metric, 1 / mu)
    except ParameterError:
        raise BudgetError(
            f"epsilon = {float(epsilon):g} asks for noise beyond what 64-bit integers hold; {query.remedies}"
        ) from None
    measurement = GroupMeasurement.of(query, needed, drawn)
    errors = _errors(needed, drawn, math.sqrt(float((drawn.deviations[0] ** 2).mean())))
    notes = (_note(totals, drawn, query),)
    return Plan(query, epsilon, delta, measurement, 1 / mu, errors=errors, noise_notes=notes)


def _note(totals: Totals, drawn: LevelsGaussian, query: Query) -> str:
    """Return how large errors are, of those of groups with independent noise that are added up."""
    found = []
    alone = float(root_up(Fraction(totals.rollup.squares(0, query.groups))))
    for level in totals.shown:
        size = math.sqrt(float((drawn.deviations[level] ** 2).mean()))
        added = alone * math.sqrt(float(totals.rollup.sizes[level].mean()))
        keys = ", ".join(query.keys[i] for i in totals.rollup.sets[level])
        found.append(f"by {keys} {size / added:.2g}" if keys else f"of all groups {size / added:.2g}")
    return (
        "Groups and their totals are measured together and made to agree by least squares"
        f"{', in whole numbers' if totals.whole else ''}. Errors are, of those of groups with noise of "
        f"their own that are added up: {', '.join(found)}."
    )


def _shown(query: Query, e: Estimate, whole: bool) -> Estimate:
    """Return an estimate whose totals agree: rounded with those that it adds up to, or not at all."""
    if not (whole and e.whole):
        return replace(e, whole=False)
    asked = dict(query.aggregates)[e.name]
    of = asked.of if isinstance(asked, Weighted) else asked
    signed = isinstance(of, Sum) and of.lower < 0
    return replace(e, lower=-math.inf if signed else 0.0, upper=math.inf)


def _errors(needed: Requirements, drawn: LevelsGaussian, size: float) -> Errors:
    """Return the expected errors at a level whose noise is so many times the scales."""
    scales = zip(needed.coordinates, drawn.scales, strict=True)
    return expected_errors(needed.estimates, {c.name: float(s * c.step) * size for c, s in scales})


@lru_cache(maxsize=64)
def best_sizes(rollup: Rollup, groups: int, shown: tuple[int, ...]) -> tuple[Fraction, ...]:
    """Return how much noise each level gets: 1 hides a unit in one group; 0 for a level that is not measured.

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
            return float(np.log(of_complete(rollup, weights)[list(shown)]).sum())
        found = variances(rollup, weights)
        return sum(math.log(float(found[i].mean())) for i in shown)

    alone = [_PARTS, *[0] * (len(levels) - 1)]
    equal = [_PARTS // len(levels)] * len(levels)
    equal[0] += _PARTS - sum(equal)
    work = (1 if rollup.complete else rollup.cells) * len(levels) ** 2
    tries = max(1, _VISITS // work)
    best = min((_improved(start, mean_error, tries) for start in (equal, alone)), key=lambda found: found[0])[
        1
    ]
    return tuple(
        root_up(Fraction(_PARTS * s, part)) if part else Fraction(0)
        for part, s in zip(best, squares, strict=True)
    )


def _improved(
    parts: list[int], error: Callable[[Sequence[int]], float], tries: int
) -> tuple[float, list[int]]:
    """Move parts of a budget from one level to another while an error gets smaller, in so many tries."""
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
