"""The laws of noise: Laplace and Gaussian."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from sfumato.dataclass import dataclass
from sfumato.exact import Number, positive
from sfumato.noise.law import Law
from sfumato.noise.standard import Standard, gaussian, laplace
from sfumato.noise.values import times_root


@dataclass(frozen=True, init=False, repr=False)
class Laplace(Law):
    """The Laplace law, of density exp(-|x| / scale) / (2 scale).

    Args:
        scale: greater than 0, in any unit, taken exactly; epsilon = l1 sensitivity / scale.
    Raises:
        ParameterError: scale is not a finite number greater than 0.

    >>> law = Laplace(scale="0.5")
    >>> law, law.scale, law.variance
    (Laplace(scale=1/2), Fraction(1, 2), 0.5)

    Source:
        Dwork, McSherry, Nissim, Smith 2006, for its use; docs/noise.md for the draws.
    """

    scale: Fraction
    standard: ClassVar[Standard] = laplace
    unit_name: ClassVar[str] = "scale"

    def __init__(self, scale: Number) -> None:
        object.__setattr__(self, "scale", positive(scale, "scale"))

    @property
    def unit(self) -> Fraction:
        """The scale."""
        return self.scale

    @property
    def variance(self) -> float:
        """2 scale^2."""
        return float(2 * self.scale**2)

    @property
    def standard_deviation(self) -> float:
        """The square root of 2, times the scale."""
        return times_root(self.scale, 2)


@dataclass(frozen=True, init=False, repr=False)
class Gaussian(Law):
    """The Gaussian law of mean 0.

    Args:
        sigma: standard deviation, greater than 0, in any unit, taken exactly.
    Raises:
        ParameterError: sigma is not a finite number greater than 0.

    >>> law = Gaussian(sigma=0.5)
    >>> law, law.sigma, law.variance
    (Gaussian(sigma=1/2), Fraction(1, 2), 0.25)

    Source:
        Balle and Wang 2018, for its use; docs/noise.md for the draws.
    """

    sigma: Fraction
    standard: ClassVar[Standard] = gaussian
    unit_name: ClassVar[str] = "sigma"

    def __init__(self, sigma: Number) -> None:
        object.__setattr__(self, "sigma", positive(sigma, "sigma"))

    @property
    def unit(self) -> Fraction:
        """The standard deviation."""
        return self.sigma

    @property
    def variance(self) -> float:
        """Sigma^2."""
        return float(self.sigma**2)

    @property
    def standard_deviation(self) -> float:
        """Sigma."""
        return float(self.sigma)
