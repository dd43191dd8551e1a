"""Functions of one number as polynomials, piece by piece, so that they are computed once for all numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from sfumato.noise.values import Floats

_nodes = 24
_halvings = 45


@dataclass(frozen=True)
class Pieces:
    """A function between its ends: between any two neighbours a sum of Chebyshev's polynomials.

    Args:
        ends: of all pieces, ascending.
        coefficients: of shape (order, pieces).
    """

    ends: Floats
    coefficients: Floats

    def __call__(self, x: Floats) -> Floats:
        """Return the function at numbers between the first end and the last."""
        piece = np.clip(np.searchsorted(self.ends, x, side="right") - 1, 0, len(self.ends) - 2)
        low, high = self.ends[piece], self.ends[piece + 1]
        return np.asarray(np.polynomial.chebyshev.chebval(
            (2 * x - low - high) / (high - low), self.coefficients[:, piece], tensor=False
        ))  # fmt: skip


def fitted(function: Callable[[Floats], Floats], ends: Sequence[float], error: float) -> Pieces:
    """Halve pieces until on each the last coefficients are at most an error.

    Args:
        function: of arrays; smooth but at the ends, where it may change fast.
        ends: of the first pieces, ascending.
        error: absolute.

    >>> root = fitted(np.sqrt, [0, 1], 1e-12)
    >>> float(root(np.array([0.49])).round(12)[0])
    0.7
    """
    points, transform = _chebyshev()
    low, high = np.array(ends[:-1], np.float64), np.array(ends[1:], np.float64)
    found = []
    for _ in range(_halvings):
        places = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * points
        coefficients = function(places.ravel()).reshape(places.shape) @ transform
        coarse = np.abs(coefficients[:, -3:]).max(axis=1) > error
        found += zip(low[~coarse], high[~coarse], coefficients[~coarse], strict=True)
        if not coarse.any():
            break
        low, high = low[coarse], high[coarse]
        middle = (low + high) / 2
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    else:
        found += zip(low, high, np.zeros((len(low), _nodes)), strict=True)
    found.sort(key=lambda piece: piece[0])
    last = max(piece[1] for piece in found)
    return Pieces(np.array([*(piece[0] for piece in found), last]), np.array([piece[2] for piece in found]).T)


@cache
def _chebyshev() -> tuple[Floats, Floats]:
    """Return Chebyshev's points, and what makes coefficients of values there."""
    angle = (np.arange(_nodes) + 0.5) * np.pi / _nodes
    transform = np.cos(np.outer(angle, np.arange(_nodes))) * 2 / _nodes
    transform[:, 0] /= 2
    return np.cos(angle), transform
