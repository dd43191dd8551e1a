"""Exact randomness for selections: coins of probability e^-x, uniform indices, random orders."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.exact.directed import exp_bounds
from sfumato.noise import Words
from sfumato.noise.bernoulli import Enclosures
from sfumato.noise.words import source_of


def exp_minus(x: Fraction) -> Enclosures:
    """Return enclosures of e^-x, x >= 0, for `bernoulli`: however large x is, nothing underflows.

    >>> low, high = exp_minus(Fraction(1))(64)
    >>> low < Fraction("0.36787944117144232159552377016146") < high
    True
    """

    def enclose(bits: int) -> tuple[Fraction, Fraction]:
        if x > bits:  # e^-x < 2^-bits
            return Fraction(0), Fraction(1, 2**bits)
        return exp_bounds(-x, bits + 8)

    return enclose


def uniform_below(bound: int, count: int, words: Words | None = None) -> NDArray[np.intp]:
    """Draw `count` whole numbers, each from 0 to bound - 1 with exactly equal chances.

    Words at or above the largest multiple of `bound` below 2^64 are drawn again.
    """
    words = source_of(words)
    last = 2**64 - 2**64 % bound - 1
    drawn = words.take(count)
    while (again := np.flatnonzero(drawn > last)).size:
        drawn[again] = words.take(again.size)
    return (drawn % np.uint64(bound)).astype(np.intp)


def random_order(count: int, words: Words | None = None) -> NDArray[np.intp]:
    """Draw one of all orders of 0 ... count - 1, each with exactly equal chances.

    Words are sorted; given that no two are equal, no order is likelier than another.
    """
    words = source_of(words)
    while True:
        drawn = words.take(count)
        order = np.argsort(drawn)
        if (np.diff(drawn[order]) > 0).all():
            return order
