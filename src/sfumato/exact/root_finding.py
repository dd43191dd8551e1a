"""Root finding: where a function crosses its goal, in floats, arrays and whole numbers, with a certain side.

A result has been evaluated and found on the requested side. A caller who evaluates exactly, or rounds
outward, therefore gets a sound result, whatever the search did.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.exact.outward_rounding import log2

_MORE = 8  # evaluations than halving would need, where lines say nothing
STEEP = 64.0  # a binary logarithm beyond this says nothing of the slope

Height = Callable[[float], float]
Point = tuple[float, float]  # x and its height


def log_ratio(value: Fraction, goal: Fraction) -> float:
    """Return log2(value / goal) as a height for root finding: +inf at goal 0, -inf at value 0."""
    if value <= goal:
        return -0.0 if value == goal else (float("-inf") if value == 0 else min(-0.0, log2(value / goal)))
    return float("inf") if goal == 0 else max(log2(value / goal), 2.0**-1000)


def crossing(height: Height, start: float, tolerance: float, *, stride: float, reach: float) -> float | None:
    """Find a root from a start: an x where `height` is at most 0, within `tolerance` of where it is above 0.

    A bracket is searched from `start` on, and closed by `close`.

    Args:
        height: decreasing in x; what is returned has been evaluated and found at most 0.
        start: where to begin.
        tolerance: in x, greater than 0.
        stride: the first step in search of a bracket; it doubles each time.
        reach: how far from `start` to look.
    Returns:
        x; or None where height is above 0 up to `start + reach`. Where it is at most 0 down to
        `start - reach`, that end.
    """
    x, y = start, height(start)
    direction = 1.0 if y > 0 else -1.0
    while True:
        if abs(x - start) >= reach:
            return None if y > 0 else x
        following = start + direction * min(reach, abs(x - start) + stride)
        stride *= 2
        level = height(following)
        if (level > 0) != (y > 0):
            break
        x, y = following, level
    ends = (x, y), (following, level)
    return close(height, *(ends if y > 0 else ends[::-1]), tolerance, steep=STEEP)


def close(
    height: Height,
    outside: Point,
    inside: Point,
    tolerance: float,
    *,
    relative: float = 0.0,
    near: float = 0.0,
    steep: float = sys.float_info.max,
) -> float:
    """Close a bracket around a root by the Illinois variant of regula falsi.

    Bisection where heights are too steep to be of use, and whenever three steps have not halved the bracket.
    Near the end a guess is moved to within the tolerance of the nearer end, so that the bracket closes
    from both sides.

    Args:
        height: decreasing in x.
        outside: the lower end, where the height is above 0, and that height.
        inside: the upper end, where it is at most 0, and that height.
        tolerance: in x, at least 0.
        relative: the same as a share of x.
        near: a height so little below 0 is near enough, however wide the bracket.
        steep: a height beyond this says nothing of the slope.
    Returns:
        x, evaluated (or the given end) and with a height of at most 0.

    >>> round(close(lambda x: 2 - x * x, (0.0, 2.0), (2.0, -2.0), 1e-9), 6)
    1.414214
    """
    (low, above), (high, below) = outside, inside
    widths, last, seen = [high - low], 0, below
    while high - low > (enough := max(tolerance, relative * abs(high))) and seen <= -near:
        stuck = len(widths) > 3 and widths[-1] > widths[-4] / 2
        if stuck or above > steep or below < -steep:
            guess = (low + high) / 2
            widths.clear()
        else:
            guess = high - below * (high - low) / (below - above)
            guess = min(max(guess, low + 0.45 * enough), high - 0.45 * enough)
            if high - guess < 0.9 * enough:
                guess = max(high - 0.9 * enough, (low + high) / 2)
            elif guess - low < 0.9 * enough:
                guess = min(low + 0.9 * enough, (low + high) / 2)
        if guess in (low, high):
            break
        level = height(guess)
        if level > 0:
            low, above = guess, level
            below = below / 2 if last == 1 else below
            last = 1
        else:
            high, below, seen = guess, level, level
            above = above / 2 if last == -1 else above
            last = -1
        widths.append(high - low)
    return high


def halve(beyond: Callable[[Any], Any], near: Any, far: Any, times: int) -> tuple[Any, Any]:
    """Close brackets around roots by bisection, each array element by itself.

    Args:
        beyond: takes places and says of each whether it is on the far side.
        near, far: the ends, floats or arrays of one shape; either may be the larger one.
        times: how often.
    Returns:
        Both ends, as NumPy has them.

    >>> near, far = halve(lambda x: x * x >= [4, 2], np.zeros(2), np.full(2, 10.0), 50)
    >>> far.round(6).tolist()
    [2.0, 1.414214]
    """
    for _ in range(times):
        middle = near / 2 + far / 2  # the sum could overflow
        out = beyond(middle)
        near, far = np.where(out, near, middle), np.where(out, middle, far)
    return near, far


def narrow(height: Callable[[Any], Any], near: Any, far: Any, times: int) -> tuple[Any, Any]:
    """Close brackets around roots by interpolation of heights (ITP), with a fourth of the evaluations.

    Args:
        height: takes places and returns how far each is beyond: greater than 0 on the far side alone.
        near, far: the ends, float64 arrays of one shape; either may be the larger one.
        times: brackets become shorter by 2^-times.
    Returns:
        Both ends, of each element as they would be without the others. One that is not beyond at its far end
        is not closed.

    >>> near, far = narrow(lambda x: x * x - [4, 2], np.zeros(2), np.full(2, 10.0), 50)
    >>> far.round(6).tolist()
    [2.0, 1.414214]

    Source:
        Oliveira and Takahashi 2020, "An enhancement of the bisection method average performance preserving
        minmax optimality" (ITP).
    """
    below, above = height(near), height(far)
    start = np.maximum(np.abs(far / 2 - near / 2), 2.0**-1000)  # twice that could overflow
    enough = np.maximum(start * 2.0**-times, 2 * np.spacing(np.maximum(np.abs(near), np.abs(far))))
    for left in range(times + _MORE, 0, -1):
        half = far / 2 - near / 2
        closing = (np.abs(half) > enough) & (above > 0)
        if not closing.any():
            break
        with np.errstate(all="ignore"):
            size, goal = np.abs(half) / start, np.minimum(enough / np.abs(half), 1)
            share = np.clip(np.nan_to_num(below / (below - above), nan=0.5), 0, 1)  # where a line crosses
            slack = np.maximum(2.0 ** (left - times - 1) / size - 0.5, 0.0)
        beyond = np.maximum(0.2 * size, 0.45 * goal)  # so that the other end comes near, too
        share = np.clip(share + np.clip(0.5 - share, -beyond, beyond), 0.5 - slack, 0.5 + slack)
        place = near + share * half + share * half
        found = height(place)
        out = found > 0
        # One that is closed stays as it is: what an element comes to must not depend on those beside it.
        further, nearer = closing & out, closing & ~out
        near, below = np.where(nearer, place, near), np.where(nearer, found, below)
        far, above = np.where(further, place, far), np.where(further, found, above)
    return near, far


def first_whole(enough: Callable[[int], bool], low: int, high: int) -> int:
    """Find where a condition begins to hold: the smallest whole number above `low`, by bisection.

    Args:
        enough: says it of a whole number.
        low: not enough; it is not evaluated.
        high: greater than low, and enough; it is not evaluated.

    >>> first_whole(lambda n: n * n > 200, 0, 100)
    15
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def find_first_integer(enough: Callable[[int], bool], guess: int, *, least: int | None = None) -> int:
    """Find where a condition begins to hold: the smallest whole number, by a search from a guess.

    Args:
        enough: says it of a whole number.
        guess: a good one takes two evaluations.
        least: the smallest number that is looked at; None for no limit.

    >>> find_first_integer(lambda n: n * n > 200, 3), find_first_integer(lambda n: True, 10**6, least=0)
    (15, 0)
    """
    low, high, stride = None, None, 1
    guess = guess if least is None else max(guess, least)
    while low is None or high is None:
        if least is not None and guess < least:
            low = least - 1
        elif enough(guess):
            high, guess = guess, guess - stride
        else:
            low, guess = guess, guess + stride
        stride *= 2
    return first_whole(enough, low, high)


def first_float(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Find where a condition begins to hold: the smallest float above `low`, by bisection; 0 <= low < high.

    >>> first_float(lambda x: x * x >= 2, 1.0, 2.0) == 2**0.5
    True
    """
    # Floats that are not negative are ordered as their bits are.
    return _float(first_whole(lambda bits: enough(_float(bits)), _bits(low), _bits(high)))


def _bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
