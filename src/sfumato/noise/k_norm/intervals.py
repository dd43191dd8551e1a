"""Confidence intervals of combinations of numbers whose K-norm noise is not independent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sfumato.noise.intervals import Noises
from sfumato.noise.k_norm.laws import Marginal
from sfumato.noise.values import Floats


@dataclass(frozen=True)
class DependentNoises(Noises):
    """The noises of a release that were drawn together.

    Their density is symmetric and log-concave. For such a law the t with P(|w Z| > t) = failure is a norm of
    the weights w: at most the sum of |w| times that of each number by itself, at the same failure.

    Source:
        Meyer and Reisner 1991, "A geometric property of the boundary of symmetric convex bodies and
        convexity of flotation surfaces"; for densities: Bobkov 2010, "Convex bodies and norms associated to
        convex measures".
    """

    laws: Mapping[str, Marginal]  # type: ignore[assignment]

    def tolerance(self, weights: Mapping[str, Floats], failure: float) -> Floats:
        """Return t with P(|weighted sum of the noises| > t) <= failure, for each group.

        Args:
            weights: by coordinate, shape (groups,), any sign.
            failure: in (0, 1).
        """
        k = -math.log10(failure)
        reach = {name: self.laws[name].tolerance(k) for name in weights}
        if len(weights) == 1:
            # R = round(Z) is beyond a whole t where Z is beyond t + 1/2.
            ((name, weight),) = weights.items()
            return np.asarray(np.abs(weight) * self.steps[name] * max(0, math.ceil(reach[name] - 0.5)))
        rounded = [np.abs(w) * self.steps[name] * (reach[name] + 0.5) for name, w in weights.items()]
        return np.asarray(sum(rounded))
