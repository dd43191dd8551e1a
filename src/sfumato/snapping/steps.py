"""What the exact sums over the lattice compute with: MPFR beyond the mechanism's precision, in steps."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sfumato.exact.directed import convert, nearest
from sfumato.snapping.parameters import Parameters


class InSteps:
    """Numbers in steps of the lattice, where noise has the scale 1 / rate, at least a half."""

    def __init__(self, found: Parameters) -> None:
        self._context = nearest(2 * found.precision + 64)
        self._rate = found.epsilon_prime * found.step

    def _exp(self, x: Fraction) -> Any:
        """exp(-rate x)."""
        context = self._context
        return context.exp(context.minus(self._real(x * self._rate)))

    def _real(self, x: Fraction) -> Any:
        return convert(x, self._context)
