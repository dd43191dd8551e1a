"""How large the error of each output will be about: from the question and the noise alone.

By this, and by nothing else, one noise is chosen before another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TypeVar

from sfumato.measurements.selection import GroupSelection
from sfumato.query.aggregates import Estimate
from sfumato.query.aggregates.order_statistics import ChosenQuantile, QuantileEstimate

# By output; and of None, to be shown at all: with how many units a private group is, half the time.
Errors = Mapping[str | None, float]
Name = TypeVar("Name", str, str | None)

# How many rows a walk down a tree is off, in deviations of the noise of a node. Measured, for values that
# are spread evenly, like a bell and like waiting times: `test_expected.py`.
OFF_BY_TREE = 2.4
# What the mean of three places is off, of the deviation of the middle one; where values are few it is that.
OFF_OF_THREE = 0.8


def expected_errors(
    estimates: Iterable[Estimate], deviations: Mapping[str, float], selection: GroupSelection | None = None
) -> dict[str | None, float]:
    """Return about the error of each output, for values half-way from the middle to the end of their bounds.

    Of a mean or a variance, as if one row were counted, and of a quantile in rows: it is compared with that
    under another noise, and the rows are the same.

    Args:
        estimates: how the outputs are made of noisy numbers.
        deviations: the standard deviation of each number's noise, in its own unit; of places that are chosen,
            in rows, that of one.
        selection: how private groups are chosen, or None. To be shown is one output more.
    """
    found: dict[str | None, float] = {
        e.name: math.hypot(*(factor * deviations[name] for name, factor in factors(e).items()))
        for e in estimates
        if not e.derived
    }
    return found if selection is None else found | {None: float(selection.expected_threshold)}


def factors(e: Estimate) -> dict[str, float]:
    """Return what the deviation of each number, in its own unit, does to the error of an output."""
    if e.factors is not None:
        return e.factors
    total = e.total or ""
    if isinstance(e, QuantileEstimate):
        return {total: OFF_BY_TREE}
    if isinstance(e, ChosenQuantile):
        return {total: OFF_OF_THREE if e.margin else 1.0}
    if e.entries:  # of each of them, which of a mean are half the bound
        return {total: 1.0} | dict.fromkeys(e.signs, e.upper / 2)
    if e.kind == "count" or e.total is None:
        each, sums = 1.0, dict[str, float]()
    elif e.kind in ("sum", "cumulative total"):
        each, sums = e.centre, {total: 1.0}
    elif e.squares is None:
        each, sums = (e.upper - e.lower) / 4, {total: 1.0}
    else:
        each, sums = e.square_centre + e.half_range**2 / 4, {total: e.half_range, e.squares: 1.0}
    return sums | dict.fromkeys(e.signs, each)


def ratio(
    one: Mapping[Name, float], other: Mapping[Name, float], weights: Mapping[str, Fraction] | None = None
) -> float:
    """Return how large the errors of the one are, of those of the other: the geometric mean over the outputs.

    Args:
        one, other: errors by output.
        weights: how much each output matters; where one is not named, as to be shown at all is not, as much
            as the least.

    >>> one, other = {"n": 2.0, "mean": 4.0}, {"n": 4.0, "mean": 32.0}
    >>> ratio(one, other), round(ratio(one, other, {"n": Fraction(1), "mean": Fraction(3)}), 9)
    (0.25, 0.176776695)
    """
    known = weights or {}
    least = min(known.values(), default=Fraction(1))
    own = {name: float(known.get(name or "", least)) for name in one}
    logs = (weight * math.log(one[name] / other[name]) for name, weight in own.items())
    return math.exp(sum(logs) / sum(own.values()))
