"""How far the mean of releases is from a guess of the statistic: section 6.4, summed exactly.

In steps of the lattice, at a value a whose nearest point is k0, with noise of scale s, the outermost index n
and d = B - n + 1, the mean of the release less a is

    (k0 - a) + up - down + (d / 2) (exp(-(n - 1/2 - a) / s) - exp(-(n - 1/2 + a) / s)),
    up   = exp(-(k0 + 1/2 - a) / s) (1 - r^(n - 1 - k0)) / (2 (1 - r)),    r = exp(-1 / s),
    down = exp(-(a - k0 + 1/2) / s) (1 - r^(n - 1 + k0)) / (2 (1 - r)),

two geometric sums of tails. The notes shift the noise by half a step instead, which bounds the bias by about
half a step even where it is zero.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import Any

from sfumato.exact.directed import exactly
from sfumato.snapping.parameters import Parameters
from sfumato.snapping.steps import InSteps


def bias_bound(found: Parameters, value: Fraction) -> Fraction:
    """Bound |mean of the release - value| from above; all in sensitivities about the centre."""
    return abs(signed_bias(found, value)) + _roundings(found) * found.step


def signed_bias(found: Parameters, value: Fraction) -> Fraction:
    """Return the mean of the release less the value, of real noise; in sensitivities about the centre."""
    inside = min(max(value, -found.half_width), found.half_width)
    cell = _Cell(found, _index(inside / found.step))
    return inside - value + cell.bias(inside / found.step) * found.step


def largest_bias_bound(found: Parameters) -> Fraction:
    """Bound the bias at every value within the bounds.

    The bias is odd, within a cell its derivative is convex, and the part that clamping adds grows outwards:
    the largest is at a stationary point or an end of the first, the last or the last but one cell.
    """
    far = found.half_width / found.step
    last = _index(far)
    best = Fraction(0)
    for k in {0, max(last - 1, 0), last}:
        cell = _Cell(found, k)
        low, high = max(Fraction(0), k - Fraction(1, 2)), min(far, k + Fraction(1, 2))
        inner = [a for a in cell.stationary() if low < a < high]
        best = max([best, *(abs(cell.bias(a)) for a in [low, *inner, high])])
    return (best + _roundings(found)) * found.step


def _index(a: Fraction) -> int:
    return floor(a + Fraction(1, 2))


def _roundings(found: Parameters) -> Fraction:
    """Bound, in steps, what p-bit arithmetic and the working precision below add to the bias."""
    return 8 * found.eta * (1 + found.bound * found.epsilon_prime)


class _Cell(InSteps):
    """The bias of values a with nearest point k0: (k0 - a) + P exp((a - k0)/s) - Q exp((k0 - a)/s)."""

    def __init__(self, found: Parameters, k0: int) -> None:
        super().__init__(found)
        self._k0 = k0
        context = self._context
        bound = found.bound / found.step
        n = ceil(bound)
        half = self._exp(Fraction(1, 2))
        whole = context.sub(1, self._exp(Fraction(1)))
        cut = bound - n + 1

        def coefficient(to_end: int) -> Any:
            """Half of: the geometric sum of tails, with the last term weighted by `cut`."""
            sum_ = context.div(context.sub(1, self._exp(Fraction(to_end))), whole)
            rest = context.mul(self._real(cut), self._exp(Fraction(to_end)))
            return context.div(context.mul(half, context.add(sum_, rest)), 2)

        self._up, self._down = coefficient(n - 1 - k0), coefficient(n - 1 + k0)

    def bias(self, a: Fraction) -> Fraction:
        """Return the bias at a, in steps."""
        context, offset = self._context, a - self._k0
        up = context.mul(self._up, self._exp(-offset))
        down = context.mul(self._down, self._exp(offset))
        return exactly(context.sub(up, down)) - offset

    def stationary(self) -> list[Fraction]:
        """Return where the derivative is zero, nearly: P y^2 - s y + Q = 0 for y = exp((a - k0) / s)."""
        context, s = self._context, self._real(1 / self._rate)
        square = context.sub(context.mul(s, s), context.mul(4, context.mul(self._up, self._down)))
        if square <= 0 or self._up <= 0:
            return []
        root = context.sqrt(square)
        tops = (context.sub(s, root), context.add(s, root))
        return [
            self._k0 + exactly(context.mul(s, context.log(context.div(top, context.mul(2, self._up)))))
            for top in tops
            if top > 0
        ]
