"""How noise of each number by itself splits the budget where some outputs matter more than others.

The sum of two things is the least: over all numbers the log of the noise, and over all outputs the log of the
expected error, times what its weight has above the least one, in units of that. The first sum alone leads to
what is done with equal weights; so more weight, beside the same least one, is a smaller error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from sfumato.exact import root_up
from sfumato.framework import Norm
from sfumato.query.plans.expected import factors
from sfumato.query.requirements import Requirements
from sfumato.transformations import Role

# Shares are looked for until they change by less than this part.
_CLOSE, _MOST_STEPS = 1e-9, 1000
_ALMOST_NONE = Fraction(1 << 200)  # as noise: what has so much more costs nothing


def split(needed: Requirements, norm: Norm) -> tuple[Fraction, ...]:
    """Return noise scales at a noise multiplier of one: how noise is split over the numbers, by weight.

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
        size = float(needed.body_of(statistic).size(norm, [scales[name] for name in statistic.names]))
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
    shares = _balanced(own, outputs, 2 / power)
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


def _least_scale(most: Fraction, norm: Norm, size: Fraction) -> Fraction:
    """Return the noise scale of a number up to `most`, with which it is as large as that."""
    return most / size if norm is Norm.L1 else root_up(most**2 / size)


def _above(needed: Requirements) -> dict[str, float]:
    """Return what the weight of each output has above the least one, in units of that."""
    least = min(needed.weights.values())
    return {output: float(weight / least) - 1 for output, weight in needed.weights.items()}


def _balanced(
    own: Mapping[str, float], outputs: list[tuple[float, list[tuple[str, float]]]], power: float
) -> Mapping[str, float]:
    """Return shares, where a squared error's part falls with its number's share to this power."""
    shares = dict(own)
    for _ in range(_MOST_STEPS):
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
