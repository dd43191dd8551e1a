"""The tail of the standard Gaussian law: in MPFR with a direction, and in floats."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exact.directed import Rational, Real, directed


def over_root_two(x: Rational | Real, bits: int, *, up: bool) -> Real:
    """Return x / sqrt 2 in `bits` bits, rounded in the direction that is asked for.

    Args:
        x: an MPFR number, which is not rounded first, or a rational, which is.
        bits: of the result.
        up: towards +infinity, or else towards -infinity.
    """
    context = directed(bits)[up]
    if not hasattr(x, "precision"):
        x = context.div(x.numerator, x.denominator)
    return context.div(x, _root_two(bits)[(x > 0) != up])


def both_tails(x: Rational | Real, bits: int) -> tuple[Real, Real]:
    """Enclose erfc(x / sqrt 2), which is P(|N| > x) for x >= 0 and 2 P(N > x) for all x.

    A relative error of x is magnified by at most x^2 + 2 where x > 0.

    >>> low, high = both_tails(1, 64)
    >>> float(low), float(high - low) < 1e-18
    (0.31731050786291..., True)
    """
    return tail(x, bits, up=False), tail(x, bits, up=True)


def tail(x: Rational | Real, bits: int, *, up: bool) -> Real:
    """Return one end of what `both_tails` encloses, at half the price."""
    return directed(bits)[up].erfc(over_root_two(x, bits, up=not up))


def log_tail(x: ArrayLike) -> NDArray[np.float64]:
    """Return the natural logarithm of P(N > x), as floats.

    >>> log_tail([0.0, 50.0]).round(3).tolist()
    [-0.693, -1254.831]
    """
    # SciPy takes a tenth of a second to import, and is loaded where it is used.
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(-np.asarray(x, np.float64)))


@cache
def _root_two(bits: int) -> tuple[Real, Real]:
    down, up = directed(bits)
    return down.sqrt(2), up.sqrt(2)
