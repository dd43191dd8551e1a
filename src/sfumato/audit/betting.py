"""Bets that lose on average if the claim is true.

One draw X of a dataset and one draw Y of its neighbour, independent. Whatever event A was chosen before they
were drawn, and whatever the numbers s >= 0 and c with c <= 1 and s (e^epsilon + delta) <= 1 + c, the factor

    (1 - c + s [X in A]) (1 + c - s delta - s e^epsilon [Y in A])

has expectation at most 1 if P(X in A) <= e^epsilon P(Y in A) + delta. Proof: docs/proofs/audit.md, 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.audit.claims import Pair
from sfumato.exact.roots import halve

Floats = NDArray[np.float64]

# A bet never risks all: 2^-20 of the wealth survives the worst draw.
_CAUTION = 1.0 - 2.0**-20


def best_bet(p: Floats, q: Floats, claim: Pair) -> tuple[Floats, Floats]:
    """Return the (c, s) whose wealth grows fastest if the event has probabilities p and q.

    Args:
        p: probability of the event on the first side, in (0, 1).
        q: the same on the second side, in (0, 1).
        claim: what is bet against.
    Returns:
        c and s, 0 where p and q break no claim.

    The factor is then the likelihood ratio of (p, q) to the nearest (p0, q0) with p0 = e^epsilon q0 + delta.

    >>> c, s = best_bet(np.array([0.5, 0.5]), np.array([0.1, 0.4]), Pair(1.0))
    >>> s.round(3)
    array([0.178, 0.   ])

    Source:
        Turner, Ly and Grünwald 2024 (E-variables of 2x2 tables); docs/proofs/audit.md, 2.
    """
    factor = claim.factor
    c, s = np.zeros_like(p), np.zeros_like(p)
    broken = p > factor * q + claim.delta if np.isfinite(factor) else np.zeros(p.shape, np.bool_)
    if not broken.any():
        return c, s
    p, q = p[broken], q[broken]
    first = np.minimum(factor * _nearest(p, q, factor, claim.delta) + claim.delta, 1 - 1e-12)
    outside = (1 - p) / (1 - first)
    # Whatever rounding did, the bet stays inside the region that the theorem is about.
    c[broken] = np.clip(1 - outside, 0.0, 1.0)
    s[broken] = np.clip(p / first - outside, 0.0, (1 + c[broken]) / (factor + claim.delta))
    return c * _CAUTION, s * _CAUTION


def log_factors(
    c: Floats, s: Floats, claim: Pair, inside: tuple[Floats, Floats], samples: Floats | int
) -> Floats:
    """Return the logarithm of the product of factors over a batch.

    Args:
        c: of the bets.
        s: of the bets, same shape.
        claim: what is bet against.
        inside: number of draws in the event, on the first and on the second side.
        samples: draws on each side.
    """
    x, y = inside
    rest = 1 + c - s * claim.delta
    factor = claim.factor if np.isfinite(claim.factor) else 0.0
    return np.asarray(
        x * np.log(1 - c + s)
        + (samples - x) * np.log1p(-c)
        + y * np.log(rest - s * factor)
        + (samples - y) * np.log(rest)
    )


def growth(p: Floats, q: Floats, claim: Pair) -> Floats:
    """Return the expected logarithm of the best bet's factor, for many events at once.

    Args:
        p: probabilities of events on the first side, in (0, 1).
        q: the same on the second side.
        claim: what is bet against; its delta is put into q, which is exact at delta = 0 and near it else.
    """
    if not np.isfinite(claim.factor):
        return np.zeros_like(p)
    q = np.minimum(q + claim.delta / claim.factor, 1 - 1e-12)
    nearest = _nearest(p, q, claim.factor, 0.0)
    first = np.minimum(claim.factor * nearest, 1 - 1e-12)
    found = (
        p * np.log(p / first)
        + (1 - p) * np.log((1 - p) / (1 - first))
        + q * np.log(q / nearest)
        + (1 - q) * np.log((1 - q) / (1 - nearest))
    )
    return np.where(p > claim.factor * q, found, 0.0)


def _nearest(p: Floats, q: Floats, factor: float, delta: float) -> Floats:
    """Return the q0 that is most likely under p and q where p0 = factor q0 + delta.

    It is the root of a decreasing function: quadratic at delta = 0, else found by bisection.
    """
    if delta == 0:
        m = 1 / factor
        # With c = 1 - (1 - p)/(1 - p0): (1 - m) c^2 - b c + (m p - q) = 0.
        b = (1 - q) + m * (1 - p)
        gap = np.maximum(m * p - q, 0.0)
        c = 2 * gap / np.maximum(b + np.sqrt(np.maximum(b * b - 4 * (1 - m) * gap, 0.0)), 1e-300)
        first = 1 - (1 - p) / np.maximum(1 - c, 1e-300)
        return np.clip(first * m, 1e-300, m * (1 - 1e-12))

    def falls(q0: Floats) -> NDArray[np.bool_]:
        first = factor * q0 + delta
        slope = factor * (p / first - (1 - p) / (1 - first)) + q / q0 - (1 - q) / (1 - q0)
        return np.asarray(slope <= 0)

    low, high = halve(falls, np.zeros_like(q), np.full_like(q, (1 - delta) / factor), 40)
    return np.asarray((low + high) / 2)
