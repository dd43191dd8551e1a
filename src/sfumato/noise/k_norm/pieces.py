"""Functions of one number as polynomials, piece by piece, so that they are computed once for all numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sfumato.noise.values import Floats

_nodes = 24
_halvings = 40
_most = 64  # parts that are halved at once


class Pieces:
    """A function between its ends, each piece fitted when it is first asked for.

    A piece is halved until the last coefficients of each part are at most an error.

    Args:
        function: of arrays; smooth but at the ends, where it may change fast.
        ends: of the pieces, ascending.
        error: absolute.

    >>> root = Pieces(np.sqrt, [0, 1], 1e-12)
    >>> float(root(np.array([0.49])).round(12)[0])
    0.7
    """

    def __init__(self, function: Callable[[Floats], Floats], ends: Sequence[float], error: float) -> None:
        self._function, self._ends, self._error = function, np.array(ends, np.float64), error
        self._fit = cache(self._fitted)

    def __call__(self, x: Floats) -> Floats:
        """Return the function at numbers between the first end and the last."""
        from numpy.polynomial.chebyshev import chebval

        found, piece = np.empty_like(x), _place(self._ends, x)
        for i in set(piece.ravel().tolist()):
            own = piece == i
            ends, coefficients = self._fit(i)
            part = _place(ends, x[own])
            low, high = ends[part], ends[part + 1]
            found[own] = chebval(
                (2 * x[own] - low - high) / (high - low), coefficients[:, part], tensor=False
            )
        return found

    def _fitted(self, piece: int) -> tuple[Floats, Floats]:
        """Return the ends of a piece's parts, and their coefficients, of shape (order, parts)."""
        points, transform = _chebyshev()
        low, high = self._ends[piece : piece + 1], self._ends[piece + 1 : piece + 2]
        found: list[tuple[float, float, Floats]] = []
        for attempt in range(_halvings):
            places = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * points
            coefficients = self._function(places.ravel()).reshape(places.shape) @ transform
            coarse = np.abs(coefficients[:, -3:]).max(axis=1) > self._error
            if attempt == _halvings - 1 or len(low) > _most:
                coarse[:] = False  # what is left are rounding errors
            found += zip(low[~coarse], high[~coarse], coefficients[~coarse], strict=True)
            low, high = low[coarse], high[coarse]
            if not low.size:
                break
            middle = (low + high) / 2
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        found.sort(key=lambda part: part[0])
        ends = np.array([*(part[0] for part in found), self._ends[piece + 1]])
        return ends, np.array([part[2] for part in found]).T


def _place(ends: Floats, x: Floats) -> NDArray[np.intp]:
    return np.clip(np.searchsorted(ends, x, side="right") - 1, 0, len(ends) - 2)


@cache
def _chebyshev() -> tuple[Floats, Floats]:
    """Return Chebyshev's points, and what makes coefficients of values there."""
    angle = (np.arange(_nodes) + 0.5) * np.pi / _nodes
    transform = np.cos(np.outer(angle, np.arange(_nodes))) * 2 / _nodes
    transform[:, 0] /= 2
    return np.cos(angle), transform
