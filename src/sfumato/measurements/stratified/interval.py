"""Confidence limits of a stratified proportion, from noisy counts, for every population.

With T = sum(c_i S_i / n_i), S_i a stratum's noisy count, a proportion P is too large to be believed when a T
this small is improbable under *every* population of proportion P. For each l > 0 and v > 0

    P(T <= t) <= exp(l t - v P + F(l, v)),
    F(l, v) = sum over strata of  max over p of (log E e^(-l a X_p) + v c p)  +  log E e^(l a R),

where X_p is a stratum's sample count when its proportion is p, R its noise, and a = c/n: Markov's
inequality, and a maximum over what the strata's proportions may be. So (g + l t + F(l, v)) / v with
g = -log(miss) is an upper confidence limit whatever l and v are; the smallest over a grid is taken.
`docs/surveys.md` tells the rest, in `limits`.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction
from sfumato.noise import Gaussian
from sfumato.noise.rounded import RoundedNoise
from sfumato.noise.values import Floats
from sfumato.transformations.stratified import StratifiedDesign

TILTS, PRICES = 128, 49  # the grid of l and of v / l
SATURATED = 60.0  # e^-60 is nothing: a larger l gains nothing
SLACK = 1e-11  # for float64, outward


@dataclass(frozen=True)
class ProportionLimits:
    """Confidence limits of the proportion of a stratified population.

    Args:
        design: sample and population sizes.
        noise: what was added to each stratum's count.

    >>> limits = ProportionLimits(StratifiedDesign([100], [10**6]), RoundedNoise(None))
    >>> [x.round(3) for x in limits.limits([0.0, 0.5], "0.95")]
    [array([0.   , 0.393]), array([0.036, 0.607])]
    """

    design: StratifiedDesign
    noise: RoundedNoise

    def limits(self, estimates: ArrayLike, confidence: Number) -> tuple[Floats, Floats]:
        """Return lower and upper limits.

        A limit is missed with probability (1 - confidence) / 2 on each side. Two bounds hold the
        probability of T <= t: exp(-G(t)), with G the exponent above at its best, which is proved; and
        Phi(-sqrt(2 G(t + one step))), the step being the largest that one answer moves T, which is
        proved for one stratum of a large population without noise, and measured elsewhere. The
        smaller limit is taken. The lower limit is one less the upper limit of the proportion of no.

        Args:
            estimates: float64 of shape (k,): values of T, before any clamping.
            confidence: between 0 and 1, taken exactly.
        Returns:
            (low, high), float64 of shape (k,), in [0, 1], low <= T <= high where T is in [0, 1].
        Raises:
            ParameterError: confidence is not between 0 and 1.
        Source:
            Hoeffding 1963, theorem 4; Serfling 1974; Zubkov and Serov 2013, theorem 1.
        """
        level = as_fraction(confidence, "confidence")
        if not 0 < level < 1:
            raise ParameterError("confidence", confidence, "greater than 0 and less than 1")
        miss = (1 - level) / 2
        t = np.asarray(estimates, np.float64)
        return 1 - self._upper(1 - t, miss), self._upper(t, miss)

    def _upper(self, t: Floats, miss: Fraction) -> Floats:
        slopes, prices, exponents = self._grid
        # Noise can push T out of [0, 1]; a limit for a T that is nearer is a limit too.
        inside = np.maximum(t, 0.0)
        proved = (exponents - math.log(miss)) / prices
        normal = max(0.0, Gaussian(1).tail_quantile(miss))
        measured = (exponents + normal**2 / 2) / prices + slopes * self._step
        lines = np.minimum(proved, measured)
        limits = np.array([np.min(lines + slopes * x) for x in inside.ravel()]).reshape(t.shape)
        return np.minimum(1.0, limits + SLACK)

    @cached_property
    def _step(self) -> float:
        """The largest step that T takes when one answer changes, over strata whose count can vary."""
        random = zip(self.design.steps, self.design.sample_sizes, self.design.strat_sizes, strict=True)
        return float(max((a for a, n, size in random if n < size or self.noise.law), default=Fraction(0)))

    @cached_property
    def _grid(self) -> tuple[Floats, Floats, Floats]:
        """Return l / v, v and F(l, v), flat, where F is finite."""
        design = self.design
        steps = np.array([float(a) for a in design.steps])
        sizes = np.array(design.sample_sizes, float)
        spread = math.sqrt(float((steps**2 * (sizes / 4 + self.noise.variance)).sum()))
        most = min(SATURATED / steps.min(), 0.98 * self.noise.reach / steps.max())
        tilt = np.geomspace(min(0.3 / spread, most / 10), most, TILTS)[:, None]
        # v is worth between what a yes costs where p is near 1 and where p is near 0.
        strongest = np.minimum(tilt * steps.max(), 30.0)
        side = np.linspace(-1.0, 1.0, PRICES)
        low, high = -np.log(-np.expm1(-strongest) / strongest), np.log(np.expm1(strongest) / strongest)
        price = tilt * np.exp(side * np.where(side < 0, low, high))
        strata = Counter(zip(design.sample_sizes, design.strat_sizes, strict=True))
        total, exponent = sum(design.strat_sizes), np.zeros_like(price)
        for (n, size), count in strata.items():
            weight = size / total
            s = tilt * (weight / n)
            sampling = sampling_exponent(s, price * weight, n, size)
            exponent += count * (sampling + self.noise.exponent(s))
        finite = np.isfinite(exponent)
        tilts = np.broadcast_to(tilt, price.shape)[finite]
        return tilts / price[finite], price[finite], exponent[finite]


def sampling_exponent(s: Floats, price: Floats, n: int, size: int) -> Floats:
    """Return a number not below max over p of (log E e^(-s X) + price * p).

    X is the yes-count of a sample of n, without replacement, from `size` of whom a share p says yes. The
    least of three bounds is taken: of sampling with replacement, of the same for those that
    were *not* asked, and of a normal variable with the finite population's correction.

    Args:
        s: greater than 0, of a shape that broadcasts with price.
        price: greater than 0.
        n, size: 1 <= n <= size.
    Source:
        Hoeffding 1963, theorem 4; Serfling 1974.
    """
    rest = size - n
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        # n log(1 - p (1 - e^-s)) + price p is concave in p: its top, or the nearest end.
        drop = -np.expm1(-s)
        p = np.clip(1 / drop - n / price, 0.0, 1.0)
        asked = n * np.log(np.maximum(1 - p * drop, 1e-300)) + price * p
        # X is all yes, size * p, less those not asked: their binomial has e^(+s).
        slope = size * s - price
        p = np.where(slope > 0, np.clip(rest / slope - 1 / np.expm1(s), 0.0, 1.0), 1.0)
        unasked = -slope * p
        if rest:
            unasked += rest * np.logaddexp(np.log1p(-p), s + np.log(p))
        half = min(Fraction(n * (rest + 1), size), Fraction(rest * (n + 1), size))
        normal = np.maximum(0.0, price - s * n) + s * s * (float(half) / 8)
    return np.minimum(np.minimum(asked, unasked), normal)
