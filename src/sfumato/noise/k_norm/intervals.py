"""Combinations of numbers whose K-norm noise is not independent: how far they go, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.exact.roots import first_whole
from sfumato.noise.intervals import Noises
from sfumato.noise.k_norm.laws import Marginal
from sfumato.noise.values import Floats


@dataclass(frozen=True, eq=False)
class DependentSum:
    """The sum of weight * R over noises R of one K-norm noise, each rounded to whole steps.

    Their density is symmetric and log-concave. For such a law the t with P(|w Z| > t) = failure is a norm of
    the weights w: at most the sum of |w| times that of each number by itself, at the same failure.

    Args:
        terms: (weight, law in steps) of each noise: weights in units per step, any sign, floats or float64
            arrays of one shape for many sums at once.

    Source:
        Meyer and Reisner 1991, "A geometric property of the boundary of symmetric convex bodies and
        convexity of flotation surfaces"; for densities: Bobkov 2010, "Convex bodies and norms associated to
        convex measures".

    >>> from fractions import Fraction
    >>> from sfumato.noise.k_norm import Cone, SeparateNoise
    >>> from sfumato.noise.k_norm.joint_laws import marginals
    >>> n, s = marginals(SeparateNoise(Cone(1), (Fraction(1), Fraction(30))))
    >>> DependentSum([(1.0, n)]).tolerance(5), round(DependentSum([(1.0, s), (2.0, n)]).tolerance(5), 1)
    (14.0, 435.6)
    """

    terms: Sequence[tuple[Any, Marginal]]

    def tolerance(self, k: float) -> Any:
        """Return t with P(|sum| > t) <= 10^-k, in the shape of the weights.

        Args:
            k: greater than 0.
        """
        if len(self.terms) == 1:
            ((weight, law),) = self.terms
            found = np.abs(weight) * float(law.rounded_tolerance(k))
        else:
            found = sum(np.abs(w) * (law.tolerance(k) + 0.5) for w, law in self.terms) * (1 + 1e-12)
        return found if np.ndim(found) else float(found)

    def log10_tail(self, t: float) -> float:
        """Return log10 of a bound of P(|sum| >= t), for weights that are floats."""
        if len(self.terms) == 1:
            ((weight, law),) = self.terms
            return law.log10_outside(math.ceil(t / abs(weight) * (1 - 1e-12)) - 0.5)

        # Beyond t is what is beyond the tolerance of any k for which that is smaller.
        return (1 - first_whole(lambda quarters: bool(self.tolerance(quarters / 4) >= t), 0, 4_000)) / 4


@dataclass(frozen=True)
class DependentNoises(Noises):
    """The noises of a release that were drawn together."""

    laws: Mapping[str, Marginal]  # type: ignore[assignment]

    def tolerance(self, weights: Mapping[str, Floats], failure: float, copies: int = 1) -> Floats:
        """Return t with P(|weighted sum of the noises| > t) <= failure, for each group.

        Args:
            weights: by coordinate, shape (groups,), any sign.
            failure: in (0, 1).
            copies: of so many groups that sum is added up.
        """
        found = DependentSum(
            [(weight * self.steps[name], self.laws[name]) for name, weight in weights.items()]
        )
        return np.asarray(found.tolerance(-math.log10(failure))) * copies
