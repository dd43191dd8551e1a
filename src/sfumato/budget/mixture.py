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

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from sfumato.exact.directed import convert, directed, exactly

BITS = 128
MANY = 4096  # of one mechanism: beyond, the atoms are too many and basic composition must do

Atoms = dict[Fraction, Any]  # privacy loss -> its probability, an upper bound in MPFR


def two_point_atoms(epsilon: Fraction, count: int) -> list[Any]:
    """Return the probabilities of losses (2j - count) * epsilon, j = 0 ... count, rounded up.

    Args:
        epsilon: of each of the mechanisms.
        count: how many there are.
    """
    down, up = directed(BITS)
    odds = up.exp(convert(-epsilon, up))  # of the smaller loss; those of the larger may be too large a number
    weight = up.pow(up.div(1, down.add(1, down.exp(convert(-epsilon, down)))), count)
    weights = []
    for left in range(count + 1):
        weights.append(weight)
        weight = up.div(up.mul(weight, up.mul(odds, count - left)), left + 1)
    return weights[::-1]


def mixture(parts: Iterable[tuple[Fraction, int]], limit: int) -> Atoms | None:
    """Return the losses of all parts together, at most `limit` of them and perhaps one more.

    Where there would be more, losses are rounded up to a coarser grid: never less private. Several
    parts are first put on a common grid, their epsilons rounded up by less than 2^-40 of the sum.

    Args:
        parts: (epsilon, count) of pure mechanisms.
        limit: how many atoms may be kept.
    Returns:
        Loss -> probability rounded up; None where one part has over 4096 mechanisms.
    """
    parts = [(epsilon, count) for epsilon, count in parts if epsilon]
    if any(count > MANY for _, count in parts):
        return None
    up = directed(BITS).up
    total = sum((epsilon * count for epsilon, count in parts), Fraction(0))
    step = parts[0][0] if len(parts) == 1 else total / 2**40
    atoms: dict[int, Any] = {0: convert(1, up)}  # losses in steps: integers are quick to add and to find
    for epsilon, count in parts:
        steps = -(-epsilon // step)
        weights = two_point_atoms(steps * step, count)
        single = _coarsen({(2 * right - count) * steps: w for right, w in enumerate(weights)}, limit)
        joined: dict[int, Any] = {}
        for loss, weight in atoms.items():
            for other, factor in single.items():
                place = loss + other
                joined[place] = up.add(joined.get(place, 0), up.mul(weight, factor))
        atoms = _coarsen(joined, limit)
    return {loss * step: weight for loss, weight in atoms.items()}


def _coarsen(atoms: dict[int, Any], limit: int) -> dict[int, Any]:
    if len(atoms) <= limit:
        return atoms
    up = directed(BITS).up
    top, bottom = max(atoms), min(atoms)
    width = -(-(top - bottom) // limit)
    merged: dict[int, Any] = {}
    for loss, weight in atoms.items():
        raised = top - (top - loss) // width * width
        merged[raised] = up.add(merged.get(raised, 0), weight)
    return merged


def average(weights: Iterable[Any], deltas: Sequence[Fraction]) -> Fraction:
    """Return the sum of weight times delta, rounded up."""
    up = directed(BITS).up
    total = convert(0, up)
    for weight, delta in zip(weights, deltas, strict=True):
        total = up.add(total, up.mul(weight, convert(delta, up)))
    return exactly(total)


def falling_average(atoms: Atoms, delta_at: Callable[[Fraction], Fraction]) -> Fraction:
    """Return the sum of weight times delta, rounded up by at most 2^-60 of it more than `average` does.

    It goes from the middle to the ends, and stops where all that is left is negligible.

    Args:
        atoms: losses and their weights.
        delta_at: takes a loss and returns a delta of at most 1, which grows with it.
    """
    up = directed(BITS).up
    losses, total = sorted(atoms), convert(0, up)
    middle = len(losses) // 2
    for side, growing in ((losses[middle:], True), (losses[:middle][::-1], False)):
        left = convert(0, up)
        for loss in side:
            left = up.add(left, atoms[loss])
        for loss in side:
            delta = convert(delta_at(loss), up)
            rest = left if growing else up.mul(left, delta)
            if rest <= up.div_2exp(total, 62):
                total = up.add(total, rest)
                break
            total = up.add(total, up.mul(atoms[loss], delta))
            left = up.sub(left, atoms[loss])
    return exactly(total)


def joined_delta(delta: Fraction, count: int) -> Fraction:
    """Return 1 - (1 - delta)^count, the chance of at least one of `count` leaks, rounded up.

    >>> joined_delta(Fraction(1, 4), 1)
    Fraction(1, 4)
    """
    if count == 1 or delta == 0:
        return delta
    down, up = directed(256)
    # -expm1(count * log1p(-delta)), each step rounded so that the result is above
    inner = down.mul(down.log1p(convert(-delta, down)), count)
    return exactly(up.minus(down.expm1(inner)))
