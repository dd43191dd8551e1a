"""A law as a reference for samples: the probabilities of its cells and tails, and projections of vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact.root_finding import halve
from sfumato.noise import Gaussian, Law
from sfumato.noise.rounded_sampler import largest_scale

Floats = NDArray[np.float64]
Cdf = Callable[[Any], Any]

CELLS = 256
# Scales that the sample is held against: each is a bet that this is its scale.
FACTORS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 1.03, 1.05, 1.1, 1.2, 1.5, 2.0)
# A float64 of at least 52 random bits takes no value with a larger probability.
FLOAT_ATOM = 2.0**-52
# A given cdf is trusted this far into its tails: 1 - cdf(x) cancels.
_TRUSTED = 1e-9


@dataclass(frozen=True)
class Tail:
    """A tail of a reference law: P(value > bound), or P(value <= bound) for the lower one."""

    bound: float
    upper: bool
    probability: float


@dataclass(frozen=True)
class Reference:
    """A reference law as a list of probabilities, in grid steps where there is a grid.

    Args:
        boundaries: increasing; cell i holds the values above boundary i - 1 and not above boundary i.
        cells: their probabilities, one more than boundaries.
        below: P(value <= boundary), one for each.
        tails: events of smaller and smaller probability on both sides.
        scaled: probabilities of the cells for a law of `factor` times the scale, by factor.
        most: bound on the probability of any single value; None if unknown.
        density: bound on the density, in values; None if unknown.
        unit: the law's scale, in values; None if unknown.
    """

    boundaries: Floats
    cells: Floats
    below: Floats
    tails: tuple[Tail, ...]
    scaled: dict[float, Floats]
    most: float | None = None
    density: float | None = None
    unit: float | None = None


@lru_cache(maxsize=16)
def reference_from_law(law: Law, grid: Fraction | None, samples: int, alpha: float) -> Reference:
    """Return the reference of a law of `sfumato.noise`: probabilities of its cells and tails."""
    if grid is not None:
        if law.unit / grid > largest_scale:
            raise ParameterError("grid", grid, f"at least 2^-57 times the law's scale, {law.unit}")
        law = _scaled(law, 1 / grid)
    levels = np.arange(1, CELLS) / CELLS
    unit = float(law.unit)
    density = 1 / unit / (math.sqrt(2 * math.pi) if isinstance(law, Gaussian) else 2)
    thresholds = [(p, law.tail_quantile(p)) for p in _levels(alpha / samples)]
    if grid is None:
        boundaries = law.quantile(levels)
        tails = [Tail(side * t, side > 0, p) for p, t in thresholds for side in (1, -1)]
        return _reference(
            law.cdf,
            boundaries,
            tails,
            lambda c, x: _scaled(law, c).cdf(x),
            most=FLOAT_ATOM,
            density=density,
            unit=unit,
        )
    whole = np.unique(np.rint(law.quantile(levels)))
    tails = []
    for t in (math.floor(t) for _, t in thresholds):
        probability = law.rounded_sf(t)
        tails += [Tail(t, True, probability), Tail(-t - 1, False, probability)]

    def cdf(m: Floats) -> Floats:
        return law.rounded_cdf([int(i) for i in m])

    def scaled(c: float, m: Floats) -> Floats:
        return _scaled(law, c).rounded_cdf([int(i) for i in m])

    return _reference(cdf, whole, tails, scaled, most=law.rounded_pmf(0), density=density, unit=unit)


def reference_from_cdf(cdf: Cdf, grid: Fraction | None, samples: int, alpha: float) -> Reference:
    """Return the reference of a law given by its distribution function, which may be vectorised.

    Its quantiles are found by bisection. With a grid, values are its roundings to grid steps.
    """
    step = 1.0 if grid is None else float(grid)
    half = 0.0 if grid is None else 0.5

    def below(x: Floats) -> Floats:
        return _vectorised(cdf, (np.asarray(x) + half) * step)

    def scaled(c: float, x: Floats) -> Floats:
        return _vectorised(cdf, (np.asarray(x) + half) * step / c)

    outer = [p for p in _levels(alpha / samples) if p >= _TRUSTED]
    places = (
        _quantiles(cdf, np.array([*(np.arange(1, CELLS) / CELLS), *outer, *(1 - p for p in outer)])) / step
    )
    if grid is not None:
        places = np.rint(places)
    boundaries = np.unique(places[: CELLS - 1])
    lower, upper = places[CELLS - 1 : CELLS - 1 + len(outer)], places[CELLS - 1 + len(outer) :]
    tails = [Tail(float(x), False, float(p)) for x, p in zip(lower, below(lower), strict=True)]
    tails += [Tail(float(x), True, float(1 - p)) for x, p in zip(upper, below(upper), strict=True)]
    return _reference(below, boundaries, tails, scaled)


def _reference(
    cdf: Callable[[Floats], Floats],
    boundaries: Floats,
    tails: list[Tail],
    scaled: Callable[[float, Floats], Floats],
    **bounds: float,
) -> Reference:
    below = np.asarray(cdf(boundaries), np.float64)
    return Reference(
        boundaries,
        _differences(below),
        below,
        tuple(tails),
        {c: _differences(np.asarray(scaled(c, boundaries), np.float64)) for c in FACTORS},
        **bounds,
    )


def _scaled(law: Law, factor: float | Fraction) -> Law:
    return type(law)(law.unit * Fraction(factor))  # type: ignore[call-arg]


def _differences(below: Floats) -> Floats:
    return np.maximum(np.diff(below, prepend=0.0, append=1.0), 0.0)


def _levels(least: float) -> list[float]:
    """Return the probabilities of a reference law's tails: 1/8, 1/16, ... down to the smallest needed."""
    return [2.0**-k for k in range(3, 3 + max(1, math.ceil(-math.log2(least)) - 2))]


def _vectorised(cdf: Cdf, x: Floats) -> Floats:
    try:
        found = np.asarray(cdf(x), np.float64)
        if found.shape == np.shape(x):
            return found
    except (TypeError, ValueError):
        pass
    return np.array([float(cdf(float(v))) for v in np.ravel(x)]).reshape(np.shape(x))


def _quantiles(cdf: Cdf, p: Floats) -> Floats:
    low, high = np.full_like(p, -1.0), np.full_like(p, 1.0)
    for _ in range(1000):
        short = _vectorised(cdf, high) < p
        long = _vectorised(cdf, low) >= p
        if not (short.any() or long.any()):
            break
        high[short] *= 2
        low[long] *= 2
    else:
        raise ParameterError("law", cdf, "a distribution function that goes from 0 to 1")
    return np.asarray(halve(lambda x: _vectorised(cdf, x) >= p, low, high, 100)[1])


Projection = Callable[[NDArray[Any]], Any]


@dataclass(frozen=True)
class VectorLaw:
    """The distribution of a vector, given by the distributions of some of its projections.

    Numbers that each have the right distribution can still depend on each other in a wrong way. A projection
    that combines them, such as a norm or a maximum, shows it.

    Args:
        projections: by name, a function and the distribution of its result. The function takes all draws, as
            an array whose first axis is the draws, and returns one number for each. The distribution is a law
            from `sfumato.noise` or a distribution function.

    >>> import numpy as np
    >>> from scipy.stats import gamma, laplace
    >>> total = lambda x: abs(x).sum(axis=1), gamma(3).cdf
    >>> law = VectorLaw({"first": (lambda x: x[:, 0], laplace.cdf), "L1": total})
    >>> [(name, numbers) for name, numbers, _ in law.projected(np.ones((1, 3)))]
    [('first', array([1.])), ('L1', array([3.]))]
    """

    projections: Mapping[str, tuple[Projection, Law | Cdf]]

    def projected(self, sample: Any) -> list[tuple[str, NDArray[Any], Law | Cdf]]:
        """Return the numbers and the distribution of each projection of a sample of vectors.

        Args:
            sample: an array with one vector per row.
        Returns:
            For each projection its name, numbers and distribution.
        Raises:
            ParameterError: the sample is not an array of vectors, or a projection does not return one number
                for each.
        """
        try:
            values = np.asarray(sample)
        except ValueError:  # vectors of several lengths
            raise ParameterError("sample", sample, "vectors of one length") from None
        if values.ndim < 2 or not len(values) or values.dtype.kind not in "iuf":
            raise ParameterError(
                "sample", f"of {values.dtype} in {values.ndim} dimensions", "vectors of numbers"
            )
        found = []
        for name, (function, law) in self.projections.items():
            numbers = np.asarray(function(values))
            if numbers.shape != (len(values),):
                raise ParameterError(f"projection {name!r}", numbers.shape, "one number for each draw")
            found.append((name, numbers, law))
        if not found:
            raise ParameterError("projections", self.projections, "at least one")
        return found
