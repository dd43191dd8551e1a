"""Where a decreasing profile crosses its goal: a bracket, closed by regula falsi."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sfumato.budget.directed import log2

STEEP = 64.0  # a height beyond this says nothing of the slope

Height = Callable[[float], float]
Point = tuple[float, float]  # x and its height


def log_ratio(value: Fraction, goal: Fraction) -> float:
    """Return log2(value / goal) for the search: +inf at goal 0, -inf at value 0."""
    if value <= goal:
        return -0.0 if value == goal else (float("-inf") if value == 0 else min(-0.0, log2(value / goal)))
    return float("inf") if goal == 0 else max(log2(value / goal), 2.0**-1000)


def crossing(height: Height, start: float, tolerance: float, *, stride: float, reach: float) -> float | None:
    """Return an x where `height` is at most 0, within `tolerance` of where it is above 0.

    Illinois' variant of regula falsi in a bracket; bisection where heights are too steep to be
    of use, and whenever three steps have not halved the bracket. Near the end a guess is moved to
    within the tolerance of the nearer end, so that the bracket closes from both sides.

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
    return _close(height, *(ends if y > 0 else ends[::-1]), tolerance)


def _close(height: Height, outside: Point, inside: Point, tolerance: float) -> float:
    (low, above), (high, below) = outside, inside
    widths = [high - low]
    last = 0
    while high - low > tolerance:
        stuck = len(widths) > 3 and widths[-1] > widths[-4] / 2
        if stuck or above > STEEP or below < -STEEP:
            guess = (low + high) / 2
            widths.clear()
        else:
            guess = high - below * (high - low) / (below - above)
            guess = min(max(guess, low + 0.45 * tolerance), high - 0.45 * tolerance)
            if high - guess < 0.9 * tolerance:
                guess = max(high - 0.9 * tolerance, (low + high) / 2)
            elif guess - low < 0.9 * tolerance:
                guess = min(low + 0.9 * tolerance, (low + high) / 2)
        level = height(guess)
        if level > 0:
            low, above = guess, level
            below = below / 2 if last == 1 else below
            last = 1
        else:
            high, below = guess, level
            above = above / 2 if last == -1 else above
            last = -1
        widths.append(high - low)
    return high
