"""How large the error of each output will be about: from the question and the noise alone."""

from __future__ import annotations

import math
from collections.abc import Mapping

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
    steps = {c.name: float(c.step) for c in needed.coordinates}
    own = {name: deviation * steps[name] for name, deviation in deviations.items()}
    return {e.name: _error(e, own) for e in needed.estimates}


def _error(e: Estimate, deviations: Mapping[str, float]) -> float:
    if isinstance(e, ChosenQuantile):  # in rows; how places are chosen is the same whatever the noise
        return deviations[e.margin] if e.margin else 1.0
    counted = math.hypot(*(deviations[name] for name in e.signs))
    if e.kind == "count" or e.total is None:
        return counted
    total = deviations[e.total]
    if e.kind == "sum":
        return math.hypot(total, e.centre * counted)
    if e.squares is None:
        return math.hypot(total, (e.upper - e.lower) / 4 * counted)
    return math.hypot(deviations[e.squares], e.half_range * total, e.half_range**2 / 4 * counted)


def of_quantiles(needed: Requirements, deviations: Mapping[str, float]) -> dict[str, float]:
    """Return about how many rows a walk down a tree is off for each quantile that is read from one.

    As where the noise of the root's children alone leads it away: of those left of the quantile, about 8.

    Args:
        needed, deviations: as of `expected_errors`.
    """
    steps = {c.name: float(c.step) for c in needed.coordinates}
    trees = [e for e in needed.estimates if isinstance(e, QuantileEstimate)]
    return {e.name: math.sqrt(8) * deviations[e.total or ""] * steps[e.total or ""] for e in trees}


def ratio(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return how large the errors of the one are, of those of the other: the geometric mean over the outputs.

    >>> ratio({"n": 2.0, "mean": 4.0}, {"n": 4.0, "mean": 32.0})
    0.25
    """
    return math.exp(sum(math.log(one[name] / other[name]) for name in one) / len(one))
