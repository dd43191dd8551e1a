"""How large the error of each output will be about: from the question and the noise alone.

By this, and by nothing else, one noise is chosen before another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TypeVar

from sfumato.exact import root_up
from sfumato.framework import Norm
from sfumato.measurements.group_selection import GroupSelection
from sfumato.plan.required_statistics import Requirements
from sfumato.query.aggregates import Estimate
from sfumato.query.aggregates.quantile_aggregates import ChosenQuantile, QuantileEstimate
from sfumato.transformations import Role

# By output; and of None, to be shown at all: with how many units a private group is, half the time.
Errors = Mapping[str | None, float]
Name = TypeVar("Name", str, str | None)

# How many rows a walk down a tree is off, in deviations of the noise of a node. Measured, for values that
# are spread evenly, like a bell and like waiting times: `test_expected.py`.
OFF_BY_TREE = 2.4
# What the mean of three places is off, of the deviation of the middle one; where values are few it is that.
OFF_OF_THREE = 0.8
_NO_ERROR = 1e-300  # instead of none, where noise is 0 as good as always


def expected_errors(
    estimates: Iterable[Estimate], deviations: Mapping[str, float], selection: GroupSelection | None = None
) -> dict[str | None, float]:
    """Return about the error that noise causes in each output, for values inside their bounds.

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
    """Return how much the noise of each statistic changes the error of an output."""
    if e.factors is not None:
        return e.factors
    total = e.total
    if isinstance(e, QuantileEstimate):
        return {total: OFF_BY_TREE}
    if isinstance(e, ChosenQuantile):
        return {total: OFF_OF_THREE if e.margin else 1.0}
    if e.entries:  # of each of them, which of a mean are half the bound
        return {total: 1.0} | dict.fromkeys(e.signs, e.upper / 2)
    if e.kind == "count" or not e.total:
        each, sums = 1.0, dict[str, float]()
    elif e.kind in ("sum", "cumulative total"):
        each, sums = e.centre, {total: 1.0}
    elif not e.squares:
        each, sums = (e.upper - e.lower) / 4, {total: 1.0}
    else:
        each, sums = e.square_centre + e.half_range**2 / 4, {total: e.half_range, e.squares: 1.0}
    return sums | dict.fromkeys(e.signs, each)


def ratio(
    one: Mapping[Name, float], other: Mapping[Name, float], weights: Mapping[str, Fraction] | None = None
) -> float:
    """Return the errors of one noise relative to another's: the geometric mean over the outputs.

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
    logs = (
        weight * math.log(max(one[name], _NO_ERROR) / max(other[name], _NO_ERROR))
        for name, weight in own.items()
    )
    return math.exp(sum(logs) / sum(own.values()))


# Shares are looked for until they change by less than this part.
_CLOSE, _MAX_STEPS = 1e-9, 1000
_ALMOST_NONE = Fraction(1 << 200)  # as noise: what has so much more costs nothing


def split(needed: Requirements, norm: Norm) -> tuple[Fraction, ...]:
    """Return noise scales at multiplier 1 that split the noise over the statistics by weight.

    With equal weights, those of `Body.split`. Else a number's part of the budget (of L1 sizes for Laplace
    noise, of squared L2 sizes for Gaussian noise) is proportional to what it has with equal weights, plus the
    sum over the outputs of (weight - 1) p, where p is the number's part of the output's squared error. In
    logarithms of the scales the problem is convex, a geometric program; going half-way to what the equation
    says, again and again, leads there.

    Args:
        needed: statistics, and the weights of what is made of them.
        norm: of the noise.

    Source:
        Boyd, Kim, Vandenberghe and Hassibi 2007, "A tutorial on geometric programming".
    """
    scales = dict(zip(needed.body.names, needed.body.split(norm), strict=True))
    above = _above(needed)
    if not any(above.values()):
        return tuple(scales.values())
    own: dict[str, float] = {}
    beside: dict[str, list[str]] = {}  # for rows without a value, which cost nothing: what they are beside
    for statistic in needed.statistics:
        size = float(needed.get_body(statistic).size(norm, [scales[name] for name in statistic.names]))
        free = [c.name for c in statistic.coordinates if c.role is Role.NULL_COUNT]
        paid = [name for name in statistic.names if name not in free]
        own |= dict.fromkeys(paid, size / len(paid))
        beside |= dict.fromkeys(free, paid)
    steps = {c.name: c.step for c in needed.coordinates}
    sizes = {name: float(scale * steps[name]) for name, scale in scales.items()}
    outputs = []
    for estimate in needed.estimates:
        errors = {n: f * sizes[n] for n, f in factors(estimate).items()}
        largest = max(map(abs, errors.values()), default=1.0)  # of it, so that no square leaves floats
        # Rows without a value have the noise that follows from that of the number beside them.
        terms = [(beside.get(n, [n])[0], (error / largest) ** 2) for n, error in errors.items()]
        outputs.append((above[estimate.name], terms))
    power = 1 if norm is Norm.L1 else 2
    shares = _balance_shares(own, outputs, 2 / power)
    wider = {name: (own[name] / share) ** (1 / power) for name, share in shares.items()}
    found = {name: scale * Fraction(f"{wider.get(name, 1):.6g}") for name, scale in scales.items()}
    for statistic in needed.statistics:
        # A row without a value may cost as much as one with a value does, in all numbers of it together.
        free = [name for name in statistic.names if name in beside]
        without = [found[name] * (_ALMOST_NONE if name in free else 1) for name in statistic.names]
        for name, most in zip(statistic.names, statistic.body.linf_sensitivities, strict=True):
            if name in free:
                found[name] = _least_scale(most, norm, statistic.body.size(norm, without))
    return tuple(found.values())


def _least_scale(maximum: Fraction, norm: Norm, size: Fraction) -> Fraction:
    """Return the noise scale of a statistic, up to `maximum`, at which its error is that large."""
    return maximum / size if norm is Norm.L1 else root_up(maximum**2 / size)


def _above(needed: Requirements) -> dict[str, float]:
    """Return the excess of each output's weight over the smallest weight, relative to it."""
    least = min(needed.weights.values(), default=Fraction(1))
    return {output: float(weight / least) - 1 for output, weight in needed.weights.items()}


def _balance_shares(
    own: Mapping[str, float], outputs: list[tuple[float, list[tuple[str, float]]]], power: float
) -> Mapping[str, float]:
    """Return noise shares of statistics whose squared error falls with this power of the share."""
    shares = dict(own)
    for _ in range(_MAX_STEPS):
        asked = dict(own)
        for weight, terms in outputs:
            parts = [(name, size * (own[name] / shares[name]) ** power) for name, size in terms]
            whole = sum(part for _, part in parts)
            for name, part in parts:
                asked[name] += weight * part / whole
        scale = sum(own.values()) / sum(asked.values())
        steps = {name: math.sqrt(asked[name] * scale / share) for name, share in shares.items()}
        shares = {name: share * steps[name] for name, share in shares.items()}
        if all(abs(step - 1) < _CLOSE for step in steps.values()):
            break
    return shares
