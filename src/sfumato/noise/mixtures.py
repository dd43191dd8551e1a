"""Sums of many Laplace noises: how far they go, from their variance and the largest of them alone.

A Laplace variable is a Gaussian one of random variance, so a sum of them is too: S = Q^(1/2) N. For all x > 0
and any u > 0, with B(u) = min over x of (u^2 / (2 x^2) - log P(|N| > x)),

    P(|N| > x) <= exp(-B(u) + u^2 / (2 x^2)), hence P(|S| > t) <= exp(-B(l t)) E exp(l^2 Q / 2), u = l t.

The last factor is that of Chernoff's bound, without its two sides; as B(u) > u, the bound is exact where S is
Gaussian. Of the scales b of the noises, E exp(l^2 Q / 2) = prod 1 / (1 - l^2 b^2), which is at most as if all
had the largest scale, and so many of them that the variance is the same.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from sfumato.exact.normal import log_tail
from sfumato.noise.values import Floats

_SAFE = 1 + 1e-9  # what float arithmetic may lose
# Tilts, of which any is sound: some of all sizes for every sum, and then more beside the best of them.
_SIZES, _BESIDE = np.geomspace(0.05, 60, 25), np.geomspace(0.75, 1.33, 9)
_BLOCK = 1 << 14  # sums at once, each with all tilts
_LN10 = math.log(10)


def laplaces_tolerance(k: float, deviation: ArrayLike, largest: ArrayLike) -> Floats:
    """Return t with P(|S| > t) <= 10^-k for sums of independent Laplace noises.

    Args:
        k: greater than 0.
        deviation: of the sum; float64 of any shape.
        largest: at least the largest scale among the noises, in the same shape.

    >>> two_and_one = laplaces_tolerance(2, [2.0, math.sqrt(2)], [1.0, 1.0])
    >>> two_and_one.round(2).tolist()
    [6.79, 5.59]

    Source:
        Chernoff's bound; the mixture: Andrews and Mallows 1974. Proof: docs/proofs/tree_laplace.md.
    """
    spreads, sizes = np.broadcast_arrays(np.asarray(deviation, np.float64), np.asarray(largest, np.float64))
    found = np.empty(spreads.size)
    for start in range(0, len(found), _BLOCK):
        block = slice(start, start + _BLOCK)
        spread, size = spreads.ravel()[block], sizes.ravel()[block]
        best = _SIZES[_reached(k, spread, size, _SIZES[:, None]).argmin(axis=0)]
        found[block] = _reached(k, spread, size, best * _BESIDE[:, None]).min(axis=0)
    return found.reshape(spreads.shape) * _SAFE


def laplaces_log10_tail(t: float, deviation: float, largest: float) -> float:
    """Return log10 of a bound of P(|S| > t), that by which `laplaces_tolerance` is found.

    Args:
        t: greater than 0.
        deviation, largest: as of `laplaces_tolerance`.

    >>> round(laplaces_log10_tail(6.79, 2.0, 1.0), 2)
    -2.0
    """
    most, part, exponent = _tilted(deviation, largest, np.geomspace(_SIZES[0], _SIZES[-1], 20 * len(_SIZES)))
    tilts, exponents = _exponents()
    u = part / most * t / _SAFE
    place = np.searchsorted(tilts, u, "right") - 1
    reached = np.where((place < 0) | (u >= tilts[-1]), u, exponents[np.maximum(place, 0)])
    return min(0.0, float((exponent - reached).min()) / _LN10)


def _reached(k: float, spread: Floats, largest: Floats, tilts: Floats) -> Floats:
    """Return a t with P(|S| > t) <= 10^-k by each tilt, along a first axis."""
    most, part, exponent = _tilted(spread, largest, tilts)
    return np.asarray(_reach(k * _LN10 + exponent) * most / part)


def _tilted(deviation: ArrayLike, largest: ArrayLike, tilts: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the largest scale, l times it for l a tilt over the deviation, and log E exp(l^2 Q / 2)."""
    spread, most = np.asarray(deviation, np.float64), np.asarray(largest, np.float64)
    # One noise has the variance 2 b^2, and no largest scale is beyond that of one noise.
    most = np.minimum(np.maximum(most, spread * 1e-9), spread / math.sqrt(2))
    part = np.minimum(tilts * (most / spread), 1 - 0.01 / tilts)
    return most, part, -(spread**2 / (2 * most**2)) * np.log1p(-(part**2))


def _reach(nats: Floats) -> Floats:
    """Return a u with B(u) of at least so many nats."""
    tilts, exponents = _exponents()
    place = np.searchsorted(exponents, nats)
    # B(u) >= u, for what is beyond the table.
    return np.where(place < len(tilts), tilts[np.minimum(place, len(tilts) - 1)], nats)


@cache
def _exponents() -> tuple[Floats, Floats]:
    """Return rising u, and B(u): the least x is where u^2 = x^3 h(x), h the density over the tail."""
    x = np.geomspace(1e-4, 60, 1 << 15)
    tail = log_tail(x)
    hazard = np.exp(-(x**2) / 2 - math.log(2 * math.pi) / 2 - tail)
    return np.sqrt(x**3 * hazard), (x * hazard / 2 - tail - math.log(2)) * (1 - 1e-12)
