"""How large the error of each output will be about: from the question and the noise alone.

By this, and by nothing else, one noise is chosen before another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeVar

from sfumato.measurements.selection import GroupSelection
from sfumato.query.estimates import Estimate, QuantileEstimate
from sfumato.query.estimates.chosen import ChosenQuantile

# By output; and of None, to be shown at all: with how many units a private group is, half the time.
Errors = Mapping[str | None, float]
Name = TypeVar("Name", str, str | None)

# How many rows a walk down a tree is off, in deviations of the noise of a node. Measured, for values that
# are spread evenly, like a bell and like waiting times: `test_expected.py`.
OFF_BY_TREE = 2.4
# What the place that was chosen in the middle of three is off, of the deviation of one; and where values are
# no whole numbers, so that a line between the outer two corrects it, of that and of the numbers beside them.
OFF_IN_MIDDLE, OFF_ALONG_LINE = 0.9, (0.65, 0.6)


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
        e.name: math.hypot(*(weight * deviations[name] for name, weight in _weights(e).items()))
        for e in estimates
    }
    return found if selection is None else found | {None: float(selection.expected_threshold)}


def _weights(e: Estimate) -> dict[str, float]:
    """Return with which weight the noise of each number is in the error of an output."""
    total = e.total or ""
    if isinstance(e, QuantileEstimate):
        return {total: OFF_BY_TREE}
    if isinstance(e, ChosenQuantile):
        if not e.below:
            return {total: 1.0}
        place, beside = OFF_ALONG_LINE
        return {total: OFF_IN_MIDDLE} if e.whole else {total: place, e.below: beside}
    if e.kind == "count" or e.total is None:
        each, sums = 1.0, dict[str, float]()
    elif e.kind == "sum":
        each, sums = e.centre, {total: 1.0}
    elif e.squares is None:
        each, sums = (e.upper - e.lower) / 4, {total: 1.0}
    else:
        each, sums = e.square_centre + e.half_range**2 / 4, {total: e.half_range, e.squares: 1.0}
    return sums | dict.fromkeys(e.signs, each)


def ratio(one: Mapping[Name, float], other: Mapping[Name, float]) -> float:
    """Return how large the errors of the one are, of those of the other: the geometric mean over the outputs.

    >>> ratio({"n": 2.0, "mean": 4.0}, {"n": 4.0, "mean": 32.0})
    0.25
    """
    return math.exp(sum(math.log(one[name] / other[name]) for name in one) / len(one))
