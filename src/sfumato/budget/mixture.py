"""Pure and approximate mechanisms as mixtures of two losses: closed form, rounded up.

Every (epsilon, delta)-DP mechanism is a post-processing of this one: with probability delta it
says which table it has; else it answers one bit, right with probability e^eps / (1 + e^eps), whose
privacy loss is +eps or -eps. Composed, adaptively too, n of them lose (2j - n) eps with a
binomial probability, so that beside any other mechanism of privacy profile D

    delta(epsilon) = leak + (1 - leak) sum_j w_j D(epsilon - (2j - n) eps),
    leak = 1 - prod (1 - delta_i)^n_i.

Both directions, a unit added or removed, have the same two losses. Source: Kairouz, Oh and
Viswanath 2015, "The composition theorem for differential privacy", theorems 3.3 and 3.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from sfumato.budget.directed import convert, downward, exactly, upward

BITS = 128
MANY = 4096  # of one mechanism: beyond, the atoms are too many and basic composition must do

Atoms = dict[Fraction, Any]  # privacy loss -> its probability, an upper bound in MPFR


def two_point_atoms(epsilon: Fraction, count: int) -> Atoms:
    """Return the losses of `count` epsilon-DP mechanisms and their probabilities, rounded up."""
    up, down = upward(BITS), downward(BITS)
    odds = up.exp(convert(epsilon, up))
    least = up.div(1, down.add(1, down.exp(convert(epsilon, down))))
    weight = up.pow(least, count)
    atoms = {}
    for right in range(count + 1):
        atoms[(2 * right - count) * epsilon] = weight
        weight = up.div(up.mul(weight, up.mul(odds, count - right)), right + 1)
    return atoms


def mixture(parts: Iterable[tuple[Fraction, int]], limit: int) -> Atoms | None:
    """Return the losses of all parts together, at most `limit` of them and perhaps one more.

    Where there would be more, losses are rounded up to a coarser grid: never less private.

    Args:
        parts: (epsilon, count) of pure mechanisms.
        limit: how many atoms may be kept.
    Returns:
        Loss -> probability rounded up; None where one part has over 4096 mechanisms.
    """
    up = upward(BITS)
    atoms: Atoms = {Fraction(0): convert(1, up)}
    for epsilon, count in parts:
        if count > MANY:
            return None
        single = _coarsen(two_point_atoms(epsilon, count), limit)
        joined: Atoms = {}
        for loss, weight in atoms.items():
            for other, factor in single.items():
                total = loss + other
                joined[total] = up.add(joined.get(total, 0), up.mul(weight, factor))
        atoms = _coarsen(joined, limit)
    return atoms


def _coarsen(atoms: Atoms, limit: int) -> Atoms:
    if len(atoms) <= limit:
        return atoms
    up = upward(BITS)
    top, bottom = max(atoms), min(atoms)
    step = (top - bottom) / limit
    merged: Atoms = {}
    for loss, weight in atoms.items():
        raised = top - (top - loss) // step * step
        merged[raised] = up.add(merged.get(raised, 0), weight)
    return merged


def average(weights: Iterable[Any], deltas: Sequence[Fraction]) -> Fraction:
    """Return the sum of weight times delta, rounded up."""
    up = upward(BITS)
    total = convert(0, up)
    for weight, delta in zip(weights, deltas, strict=True):
        total = up.add(total, up.mul(weight, convert(delta, up)))
    return exactly(total)


def joined_delta(delta: Fraction, count: int) -> Fraction:
    """Return 1 - (1 - delta)^count, the chance of at least one of `count` leaks, rounded up.

    >>> joined_delta(Fraction(1, 4), 1)
    Fraction(1, 4)
    """
    if count == 1 or delta == 0:
        return delta
    up, down = upward(256), downward(256)
    # -expm1(count * log1p(-delta)), each step rounded so that the result is above
    inner = down.mul(down.log1p(convert(-delta, down)), count)
    return exactly(up.minus(down.expm1(inner)))
