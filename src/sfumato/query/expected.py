"""How large the error of each output will be about: from the question and the noise alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from sfumato.query.estimates import Estimate, QuantileEstimate
from sfumato.query.estimates.chosen import ChosenQuantile
from sfumato.query.requirements import Requirements


def expected_errors(needed: Requirements, deviations: Mapping[str, float]) -> dict[str, float]:
    """Return about the error of each output, for values half-way from the middle to the end of their bounds.

    Of a mean or a variance, as if one row were counted: it is compared with that under another noise, and the
    number of rows is the same.

    Args:
        needed: how the outputs are made of noisy numbers.
        deviations: the standard deviation of the noise of each number, in grid steps.
    """
    return {
        name: math.hypot(*(factor * deviations[c] for c, factor in own.items())) if own else 1.0
        for name, own in factors(needed).items()
    }


def factors(needed: Requirements) -> dict[str, dict[str, float]]:
    """Return what the deviation of each number, in grid steps, does to the error of each output.

    Of no number, where how places are chosen is the same whatever the noise.
    """
    steps = {c.name: float(c.step) for c in needed.coordinates}
    return {e.name: {c: factor * steps[c] for c, factor in _factors(e).items()} for e in needed.estimates}


def _factors(e: Estimate) -> dict[str, float]:
    counted = dict.fromkeys(e.signs, 1.0)
    if isinstance(e, ChosenQuantile):  # in rows
        return dict.fromkeys((e.below, e.upto), math.sqrt(1 / 2)) if e.below else {}
    if e.kind == "count" or e.total is None:
        return counted
    if isinstance(e, QuantileEstimate):
        # The noise of the root's children alone leads a walk away: of those left of the quantile, about 8.
        return {e.total: math.sqrt(8)}
    if e.kind == "sum":
        return {e.total: 1.0} | dict.fromkeys(counted, abs(e.centre))
    if e.squares is None:
        return {e.total: 1.0} | dict.fromkeys(counted, (e.upper - e.lower) / 4)
    return {e.squares: 1.0, e.total: e.half_range} | dict.fromkeys(counted, e.half_range**2 / 4)


def mean_log(errors: Mapping[str, float], weights: Mapping[str, Fraction]) -> float:
    """Return the mean of the logarithms of errors, each with its weight, or 1: smaller is better."""
    own = {name: float(weights.get(name, 1)) for name in errors}
    return sum(own[name] * math.log(error) for name, error in errors.items()) / sum(own.values())


def ratio(one: Mapping[str, float], other: Mapping[str, float], weights: Mapping[str, Fraction]) -> float:
    """Return how large the errors of the one are, of those of the other: the weighted geometric mean.

    >>> one, other = {"n": 2.0, "mean": 4.0}, {"n": 4.0, "mean": 32.0}
    >>> ratio(one, other, {}), round(ratio(one, other, {"mean": Fraction(3)}), 9)
    (0.25, 0.176776695)
    """
    return math.exp(mean_log({name: one[name] / other[name] for name in one}, weights))
