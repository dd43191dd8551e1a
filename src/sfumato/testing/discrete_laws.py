"""Discrete laws of whole noise: discrete Gaussian, any other by its probabilities, and discrete Laplace.

Rounding real noise gives other probabilities: Laplace noise of scale 1/2 rounds to 0 with probability 0.63,
where the discrete law has 0.76. A test of the one with the law of the other rejects correct code.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fractions, positive, whole_number
from sfumato.exact.library_settings import Isolated
from sfumato.exact.outward_rounding import log_tail
from sfumato.exact.root_finding import find_first_integer
from sfumato.noise import DiscreteLaplace
from sfumato.noise.noise_sums import log10_two_sided_tail

Floats = NDArray[np.float64]
_LN10 = math.log(10)
# Any rate gives a bound of Chernoff's; the least of these is within a hundredth of the least of all.
_BELOW = -np.geomspace(1e-4, 1e5, 400)
_LARGEST_SUPPORT = 1_000_000


class DiscreteLaw(Isolated, ABC):
    """A discrete distribution of whole noise X, for the assertions of `sfumato.testing`.

    Source:
        Chernoff 1952 for the bounds for many values.
    """

    _power: int  # many values are judged by the sum of |X|^power
    _above: Floats = 1 - np.geomspace(1e-5, 1, 400, endpoint=False)  # rates that bound a sum from above

    @property
    @abstractmethod
    def zero(self) -> float:
        """P(X = 0) of the distribution."""

    @abstractmethod
    def log10_outside(self, x: float) -> float:
        """Return log10 of P(|X| > x), or of an upper bound on it.

        Args:
            x: at least 0.
        Returns:
            A float, at most 0.

        >>> round(Pmf({-1: "1/4", 0: "1/2", 1: "1/4"}).log10_outside(0), 3)
        -0.301
        """

    @abstractmethod
    def _log_moments(self, rates: Floats) -> Floats:
        """Return log E exp(rate * |X|^power) of a discrete law for each rate, in units of `rate`.

        Args:
            rates: below 1.
        """

    @property
    @abstractmethod
    def _rate_unit(self) -> float:
        """The unit of a discrete law's rates; 1 is the largest with a finite moment (or none is)."""

    def is_possible(self, x: float) -> bool:
        """Whether whole noise of this distribution can be x.

        Args:
            x: any number.

        >>> DiscreteGaussian(2).is_possible(3), DiscreteGaussian(2).is_possible(0.5)
        (True, False)
        """
        return float(x).is_integer()

    def tolerance(self, k: Number) -> int:
        """Return the smallest whole t with P(|X| > t) <= 10^-k.

        Args:
            k: greater than 0; 10^-k is the probability of a false alarm.
        Returns:
            t >= 0.
        Raises:
            ParameterError: k is not greater than 0.

        >>> DiscreteGaussian(sigma=2).tolerance(5)
        9
        """
        exact = float(positive(k, "k"))
        return find_first_integer(lambda t: self.log10_outside(t) <= -exact, 0, least=0)

    def _log10_total(self, values: int, total: float, *, wide: bool) -> float:
        """Return log10 of Chernoff's bound on a sum of |X|^power of a discrete law.

        Args:
            values: how many independent X.
            total: of their |X|^power.
            wide: as large, or else as small.
        """
        rates = self._above if wide else _BELOW
        logs = values * self._log_moments(rates) - rates * self._rate_unit * total
        return min(0.0, float(logs.min()) / _LN10)


class _Geometric(DiscreteLaw):
    """The discrete Laplace law of `sfumato.noise`, with what assertions ask of a discrete law."""

    _power = 1

    def __init__(self, law: DiscreteLaplace) -> None:
        self.law = law
        self._rate = float(1 / _in_floats(law.scale, "scale"))

    def __repr__(self) -> str:
        return repr(self.law)

    @property
    def zero(self) -> float:
        """P(X = 0), which is tanh(1 / (2 scale))."""
        return math.tanh(self._rate / 2)

    @property
    def _rate_unit(self) -> float:
        """1 / scale of the discrete Laplace law."""
        return self._rate

    def log10_outside(self, x: float) -> float:
        """Return log10 of P(|X| > x) of the discrete Laplace law.

        Args:
            x: at least 0.
        """
        return log10_two_sided_tail(self.law, x)

    def _log_moments(self, rates: Floats) -> Floats:
        """Return log E exp(rate * |X|) of the discrete Laplace law for each rate, in 1 / scale.

        Args:
            rates: below 1.
        """
        return np.asarray(math.log(self.zero) - np.log(np.tanh(self._rate * (1 - rates) / 2)))


def to_assertion_law(law: Any) -> Any:
    """Return a law as assertions judge it: discrete noise of `sfumato.noise` as a discrete law."""
    return _Geometric(law) if isinstance(law, DiscreteLaplace) else law


class DiscreteGaussian(DiscreteLaw):
    """The discrete Gaussian distribution: P(X = x) is proportional to exp(-x^2 / (2 sigma^2)).

    Args:
        sigma: greater than 0; the standard deviation is a little smaller if sigma is below 1.
    Raises:
        ParameterError: sigma is not between 1e-150 and 1e150.
    Source:
        Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy".

    >>> round(DiscreteGaussian(sigma="1/2").zero, 4)
    0.7866
    """

    _power = 2

    def __init__(self, sigma: Number) -> None:
        self.sigma = _in_floats(positive(sigma, "sigma"), "sigma")
        self._rate = float(1 / (2 * self.sigma**2))
        self._log_size = float(_log_theta(np.array([self._rate]))[0])

    def __repr__(self) -> str:
        return f"DiscreteGaussian(sigma={self.sigma})"

    @property
    def zero(self) -> float:
        """P(X = 0) of the discrete Gaussian distribution."""
        return math.exp(-self._log_size)

    @property
    def _rate_unit(self) -> float:
        """1 / (2 sigma^2) of the discrete Gaussian law."""
        return self._rate

    def log10_outside(self, x: float) -> float:
        """Return log10 of an upper bound on P(|X| > x).

        Args:
            x: at least 0.
        Returns:
            A float, at most 0.
        """
        first, c = math.floor(x) + 1, self._rate
        series = -c * first * first - math.log(-math.expm1(-c * (2 * first + 1)))
        integral = math.log(math.pi / c) / 2 + float(log_tail((first - 1) * math.sqrt(2 * c)))
        return min(0.0, (math.log(2) + min(series, integral) - self._log_size) / _LN10)

    def _log_moments(self, rates: Floats) -> Floats:
        """Return log E exp(rate * X^2) of the discrete Gaussian law, rates in 1 / (2 sigma^2).

        Args:
            rates: below 1.
        """
        return _log_theta(self._rate * (1 - rates)) - self._log_size


class Pmf(DiscreteLaw):
    """A discrete distribution of whole noise, given by its probability mass function.

    Args:
        probabilities: a mapping from whole numbers to their probabilities, or a function of an array of whole
            numbers, such as `scipy.stats.dlaplace(0.5).pmf`, which needs `low` and `high`.
        low, high: the smallest and largest noise of a function, which must be 0 just outside them. If even a
            tiny probability lay beyond them, a test would reject correct code.
    Raises:
        ParameterError: these are not probabilities of whole numbers that sum to 1, within 10^-9; or the
            function is not 0 at `low - 1` and `high + 1`.

    >>> coin = Pmf({-1: "1/4", 0: "1/2", 1: "1/4"})
    >>> coin.zero, coin.tolerance(9), coin.is_possible(2)
    (0.5, 1, False)
    """

    _power = 1
    _above = np.geomspace(1e-4, 1e3, 400)

    def __init__(
        self,
        probabilities: Mapping[int, Number] | Callable[[Any], Any],
        *,
        low: int | None = None,
        high: int | None = None,
    ) -> None:
        if isinstance(probabilities, Mapping):
            for name, end in (("low", low), ("high", high)):
                if end is not None:
                    raise ParameterError(name, end, "left out beside a mapping, which has ends of its own")
            places = [whole_number(x, "a place of probabilities", -(2**53)) for x in probabilities]
            masses = [float(p) for p in as_fractions(probabilities.values(), "probabilities")]
        else:
            first, last = (whole_number(end, name, -(2**53)) for end, name in ((low, "low"), (high, "high")))
            if not callable(probabilities) or not 0 <= last - first < _LARGEST_SUPPORT:
                expected = "a mapping, or a function and at most a million whole numbers from low to high"
                raise ParameterError("probabilities", probabilities, expected)
            places = list(range(first, last + 1))
            given = np.asarray(probabilities(np.arange(first, last + 1)), float)
            masses = given.tolist() if given.shape == (len(places),) else []
            beyond = np.asarray(probabilities(np.array([first - 1, last + 1])), float)
            if masses and np.any(beyond != 0):
                expected = f"0 at low - 1 = {first - 1} and high + 1 = {last + 1}: set them farther apart"
                raise ParameterError("probabilities", beyond.tolist(), expected)
        total = math.fsum(masses)
        if len(masses) != len(places) or min(masses, default=-1.0) < 0 or not abs(total - 1) <= 1e-9:
            raise ParameterError("probabilities", total, "at least 0 each, and 1 in all")
        self._masses = {x: p / total for x, p in zip(places, masses, strict=True) if p > 0}
        sizes = np.abs(np.array(list(self._masses), float))
        order = np.argsort(-sizes, kind="stable")
        self._sizes, self._logs = sizes[order], np.log(np.array(list(self._masses.values())))[order]
        self._beyond = np.cumsum(np.exp(self._logs))  # of the largest, the two largest, ...

    def __repr__(self) -> str:
        return f"Pmf(of {len(self._masses)} whole numbers)"

    @property
    def zero(self) -> float:
        """P(X = 0) by the probability mass function."""
        return self._masses.get(0, 0.0)

    @cached_property
    def _mean(self) -> float:
        return float((np.exp(self._logs) * self._sizes).sum())

    @property
    def _rate_unit(self) -> float:
        """1 / E |X| by the probability mass function."""
        return 1 / self._mean if self._mean else 1.0

    def is_possible(self, x: float) -> bool:
        """Whether the probability of x is not 0.

        Args:
            x: any number.
        """
        return float(x).is_integer() and int(x) in self._masses

    def log10_outside(self, x: float) -> float:
        """Return log10 of P(|X| > x).

        Args:
            x: at least 0.
        Returns:
            A float, at most 0.
        """
        count = int(np.searchsorted(-self._sizes, -x, side="left"))
        return min(0.0, math.log10(self._beyond[count - 1])) if count else -math.inf

    def _log_moments(self, rates: Floats) -> Floats:
        """Return log E exp(rate * |X|) by the mass function for each rate, in units of 1 / E |X|.

        Args:
            rates: any numbers.
        """
        powers = self._rate_unit * self._sizes
        return np.array([np.logaddexp.reduce(self._logs + r * powers) for r in rates.tolist()])


def _in_floats(unit: Fraction, name: str) -> Fraction:
    if not Fraction(1, 10**150) < unit < 10**150:
        raise ParameterError(name, unit, "between 1e-150 and 1e150")
    return unit


def _log_theta(c: Floats) -> Floats:
    """Return log of the sum of exp(-c x^2) over whole x: directly, or by Poisson's formula where c < 1.

    >>> _log_theta(np.array([2.0, 0.5])).round(6).tolist()
    [0.240073, 0.918939]
    """
    x = np.arange(1, 40.0)[:, None]
    small = c < 1
    exponent = np.where(small, math.pi**2 / c, c)
    sums = np.log1p(2 * np.exp(-exponent * x * x).sum(axis=0))
    return np.asarray(np.where(small, np.log(math.pi / c) / 2, 0.0) + sums)
