"""How noise of each number by itself splits the budget, where some outputs matter more than others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from sfumato.framework import Norm
from sfumato.query.expected import factors
from sfumato.query.requirements import Requirements
from sfumato.transformations import Role

# Shares are looked for until they change by less than this part.
_CLOSE, _MOST_STEPS = 1e-9, 1000


def split(needed: Requirements, norm: Norm) -> tuple[Fraction, ...]:
    """Return noise scales at a noise multiplier of one: how noise is split over the numbers, by weight.

    With equal weights, those of `Body.split`. Else the sum of two things is the least: over all numbers the
    log of the noise, which alone leads to those, and over all outputs the log of the expected error, times
    what its weight has above the least one, in units of that. So no output has a larger error for being given
    more weight.

    Then a number's part of the budget (of L1 sizes for Laplace noise, of squared L2 sizes for Gaussian noise)
    is proportional to what it has with equal weights, plus the sum over the outputs of (weight - 1) p, where
    p is the number's part of the output's squared error. In logarithms of the scales the problem is convex, a
    geometric program; going half-way to what the equation says, again and again, leads there.

    Args:
        needed: statistics, and the weights of what is made of them.
        norm: of the noise.

    Source:
        Boyd, Kim, Vandenberghe and Hassibi 2007, "A tutorial on geometric programming".
    """
    scales = dict(zip(needed.body.names, needed.body.split(norm), strict=True))
    least = min(needed.weights.values())
    if max(needed.weights.values()) == least:
        return tuple(scales.values())
    own: dict[str, float] = {}
    beside: dict[str, list[str]] = {}  # for rows without a value, which cost nothing: what they are beside
    for statistic in needed.statistics:
        size = float(statistic.body.size(norm, [scales[name] for name in statistic.names]))
        free = [c.name for c in statistic.coordinates if c.role is Role.NULL_COUNT]
        paid = [name for name in statistic.names if name not in free]
        own |= dict.fromkeys(paid, size / len(paid))
        beside |= dict.fromkeys(free, paid)
    outputs = [
        (float(needed.weights[output] / least) - 1, _terms(of, scales, beside))
        for output, of in factors(needed).items()
    ]
    power = 1 if norm is Norm.L1 else 2
    shares = _balanced(own, outputs, 2 / power)
    wider = {name: (own[name] / share) ** (1 / power) for name, share in shares.items()}
    wider |= {name: max(wider[paid] for paid in by) for name, by in beside.items()}
    return tuple(scale * Fraction(f"{wider[name]:.6g}") for name, scale in scales.items())


def _terms(
    of: Mapping[str, float], scales: Mapping[str, Fraction], beside: Mapping[str, list[str]]
) -> list[tuple[str, float]]:
    """Return the parts of an output's squared error, by the number whose part of the budget decides."""
    return [(beside.get(name, [name])[0], (factor * float(scales[name])) ** 2) for name, factor in of.items()]


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
