"""The snapping mechanism: Laplace noise that is safe from floating point, for one bounded statistic."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from math import isnan
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, as_fractions, at_least_0, round_up
from sfumato.exact.library_settings import Isolated
from sfumato.framework import AbsoluteDistance, AtomDomain, Domain, Measurement, PureDP
from sfumato.noise.random_words import Words, get_source
from sfumato.snapping import snapping_law
from sfumato.snapping.rounding_lattice import Lattice
from sfumato.snapping.snapping_law import LaplaceComparison, SnappedLaw, exp_up
from sfumato.snapping.snapping_parameters import Parameters, parameters
from sfumato.snapping.snapping_paths import FastPath, Floats, Reference


class Expectations(Isolated):
    """The accuracy and bias of a snapping mechanism; all of it may be published."""

    _found: Parameters

    def accuracy(self, alpha: Number) -> float:
        """Return the a with P(|release - statistic| > a) <= alpha, whatever the statistic within the bounds.

        Args:
            alpha: probability, in (0, 1].
        Returns:
            ln(1/alpha) / epsilon' + lattice / 2, at most 2 bound; in the statistic's unit, rounded up.
        Raises:
            ParameterError: alpha is not in (0, 1].

        >>> from sfumato.snapping import SnappingMechanism
        >>> round(SnappingMechanism(1, lower=0, upper=10).accuracy(0.05), 3)
        3.996

        Source:
            Covington 2020, section 6.3, GetAccuracy2.
        """
        return snapping_law.tight(self._found, snapping_law.probability(alpha))

    def accuracy_loose(self, alpha: Number) -> float:
        """Return (1 + ln(1/alpha)) / epsilon', which is simpler than `accuracy`, and not below it.

        Args, Raises:
            as `accuracy`.

        >>> from sfumato.snapping import SnappingMechanism
        >>> mechanism = SnappingMechanism(3, lower=0, upper=10)
        >>> mechanism.accuracy_loose(0.05) > mechanism.accuracy(0.05)
        True
        """
        return snapping_law.loose(self._found, snapping_law.probability(alpha))

    def alpha_for_accuracy(self, accuracy: Number) -> float:
        """Return the alpha with P(|release - statistic| > accuracy) <= alpha: `accuracy`, solved for alpha.

        Args:
            accuracy: at least 0, in the statistic's unit.
        Returns:
            exp(-epsilon' (accuracy - lattice / 2)), at most 1, and 0 from 2 bound on; rounded up.
        Raises:
            ParameterError: accuracy is negative or not finite.

        >>> from sfumato.snapping import SnappingMechanism
        >>> mechanism = SnappingMechanism(1, lower=0, upper=10)
        >>> round(mechanism.alpha_for_accuracy(4), 4), mechanism.accuracy(mechanism.alpha_for_accuracy(4))
        (0.0498, 4.0)

        Source:
            Covington 2020, section 6.3.
        """
        exact = at_least_0(accuracy, "accuracy")
        return snapping_law.significance(self._found, exact / self._found.sensitivity)

    def against_laplace(self, alpha: Number) -> LaplaceComparison:
        """Return `accuracy` beside that of textbook Laplace noise of the same epsilon.

        Args, Raises:
            as `accuracy`.

        >>> from sfumato.snapping import SnappingMechanism
        >>> compared = SnappingMechanism(1, lower=0, upper=10).against_laplace(0.05)
        >>> round(compared.snapping, 3), round(compared.laplace, 3), compared.factor, compared.half_step
        (3.996, 2.996, 1.0, 1.0)

        Source:
            Covington 2020, section 6.3.
        """
        return snapping_law.against_laplace(self._found, snapping_law.probability(alpha))

    def law(self, guess: Number) -> SnappedLaw:
        """Return the law of a release if the statistic were `guess`: exact accuracy, signed bias, variance.

        Args:
            guess: a number of your own, not the secret statistic: what comes out tells of it.
        Raises:
            ParameterError: guess is not a finite number.

        >>> from sfumato.snapping import SnappingMechanism
        >>> law = SnappingMechanism(1, lower=0, upper=10).law(9)
        >>> law.accuracy(0.05), round(law.bias, 6), round(law.variance, 3)
        (2.0, -0.000147, 2.232)

        Source:
            docs/snapping.md, "The law of a release".
        """
        return SnappedLaw(self._found, as_fraction(guess, "guess"))

    def bias_bound(self, guess: Number) -> float:
        """Bound |E release - guess| if the statistic were `guess`.

        Args:
            guess: a number of your own, not the secret statistic.
        Returns:
            The bias by exact summation over the lattice, rounded up; in the statistic's unit.
        Raises:
            ParameterError: guess is not a finite number.

        >>> from sfumato.snapping import SnappingMechanism
        >>> mechanism = SnappingMechanism(1, lower=0, upper=10)
        >>> mechanism.bias_bound(5) < 1e-30 < mechanism.bias_bound(10)
        True

        Source:
            Covington 2020, section 6.4.
        """
        return round_up(self._bias_bound(as_fraction(guess, "guess")))

    def largest_bias_bound(self) -> float:
        """Bound the bias for every statistic within the bounds; in the statistic's unit.

        >>> from sfumato.snapping import SnappingMechanism
        >>> mechanism = SnappingMechanism(1, lower=0, upper=10)
        >>> mechanism.largest_bias_bound() >= mechanism.bias_bound(10)
        True
        """
        return round_up(snapping_law.largest_bias_bound(self._found) * self._found.sensitivity)

    def average_bias_bound(self, guesses: Sequence[Number], weights: Sequence[Number] | None = None) -> float:
        """Average `bias_bound` over a grid, or over a distribution, of guesses.

        Args:
            guesses: at least one number.
            weights: one for each guess, at least 0 and not all 0; None for equal ones. They are divided by
                their sum.
        Returns:
            A bound of the average |bias|, and so of the |average bias|; in the statistic's unit, rounded up.
        Raises:
            ParameterError: guesses or weights are not as described.

        >>> from sfumato.snapping import SnappingMechanism
        >>> mechanism = SnappingMechanism(1, lower=0, upper=10)
        >>> mechanism.average_bias_bound([0, 5, 10]) < mechanism.bias_bound(10)
        True
        """
        exact = as_fractions(guesses, "guesses")
        parts = [Fraction(1)] * len(exact) if weights is None else as_fractions(weights, "weights")
        if not exact:
            raise ParameterError("guesses", [], "at least one number")
        if len(parts) != len(exact) or min(parts) < 0 or sum(parts) == 0:
            raise ParameterError("weights", weights, f"{len(exact)} numbers of at least 0, not all 0")
        total = sum((w * self._bias_bound(g) for g, w in zip(exact, parts, strict=True)), Fraction(0))
        return round_up(total / sum(parts))

    def _bias_bound(self, guess: Fraction) -> Fraction:
        unit = self._found.sensitivity
        return snapping_law.bias_bound(self._found, (guess - self._found.center) / unit) * unit


Values = NDArray[Any] | Sequence[float]
Scalar = int | float | Fraction | Decimal
EXACT = AtomDomain(Fraction)


class SnappingMechanism(Expectations):
    """Release a real statistic on a lattice, with noise that accounts for floating-point rounding.

    A value v is clamped to [lower, upper]. Laplace noise of scale sensitivity / epsilon_prime is added to v -
    center in p-bit arithmetic. The sum is rounded to the nearest multiple of `lattice` and clamped to
    +-`bound`. The release is center plus the result.

    Args:
        epsilon: the privacy loss for two values that are `sensitivity` apart; above 0 (2 eta, where eta
            shrinks as needed, to 2^-2048 at most) and at most 2^53.
        sensitivity: greater than 0, in the statistic's unit.
        lower, upper: bounds on the statistic; values outside are clamped.
        gamma: the probability, in (0, 1], that the outer clamp may bind; it sets `bound`. The default is
            0.05.
        bound: B in place of gamma: releases lie in center +- bound. At least half of upper - lower and half a
            step of the lattice. A larger bound means less bias and a little more noise. Numbers are taken
            exactly, as `sfumato.exact.as_fraction` does.
    Raises:
        ParameterError: a parameter is not valid; the error names it and the valid values.

    >>> mechanism = SnappingMechanism(1, lower=0, upper=10)
    >>> mechanism.center, mechanism.lattice, mechanism.precision
    (Fraction(5, 1), Fraction(2, 1), 118)
    >>> mechanism.epsilon_prime < 1                     # so lambda' > 1, and the next power of two is 2
    True

    Source:
        Mironov 2012, section 5.2; Covington 2020, "Snapping Mechanism Notes"; docs/proofs/snapping.md.
    """

    def __init__(
        self,
        epsilon: Number,
        *,
        sensitivity: Number = 1.0,
        lower: Number,
        upper: Number,
        gamma: Number | None = None,
        bound: Number | None = None,
    ) -> None:
        self._found = parameters(
            epsilon, sensitivity=sensitivity, lower=lower, upper=upper, gamma=gamma, bound=bound
        )

    @classmethod
    def for_accuracy(
        cls,
        accuracy: Number,
        alpha: Number,
        *,
        sensitivity: Number = 1.0,
        lower: Number,
        upper: Number,
        gamma: Number = 0.05,
    ) -> SnappingMechanism:
        """Return the mechanism with the smallest epsilon whose `accuracy(alpha)` is at most `accuracy`.

        Args:
            accuracy: the largest acceptable error, in the unit of the statistic.
            alpha: the probability of a larger error.
            sensitivity, lower, upper, gamma: as for `SnappingMechanism`.
        Returns:
            The mechanism.
        Raises:
            ParameterError: a parameter is not valid, or no valid epsilon gives this accuracy.

        >>> mechanism = SnappingMechanism.for_accuracy(3, 0.05, lower=0, upper=10)
        >>> mechanism.accuracy(0.05) <= 3
        True
        """
        epsilon = snapping_law.epsilon_for_accuracy(
            accuracy, alpha, sensitivity=sensitivity, lower=lower, upper=upper, gamma=gamma
        )
        return cls(epsilon, sensitivity=sensitivity, lower=lower, upper=upper, gamma=gamma)

    epsilon_for_accuracy = staticmethod(snapping_law.epsilon_for_accuracy)

    def __repr__(self) -> str:
        found = self._found
        outer = f"bound={self.bound}" if found.gamma is None else f"gamma={found.gamma}"
        return (
            f"SnappingMechanism({found.epsilon}, sensitivity={found.sensitivity}, "
            f"lower={found.lower}, upper={found.upper}, {outer})"
        )

    # What follows from the parameters; all of it may be published.

    @property
    def epsilon(self) -> Fraction:
        """The epsilon, as given."""
        return self._found.epsilon

    @property
    def sensitivity(self) -> Fraction:
        """The statistic's sensitivity, in its unit."""
        return self._found.sensitivity

    @property
    def lower(self) -> Fraction:
        """The mechanism's lower bound on the statistic."""
        return self._found.lower

    @property
    def upper(self) -> Fraction:
        """The mechanism's upper bound on the statistic."""
        return self._found.upper

    @property
    def epsilon_prime(self) -> Fraction:
        """(epsilon - 2 eta) / (1 + 12 B eta), rounded down to p bits; noise has scale sensitivity / this."""
        return self._found.epsilon_prime

    @property
    def bound(self) -> Fraction:
        """B, in the statistic's unit: releases lie in center +- bound."""
        return self._found.bound * self._found.sensitivity

    @property
    def gamma(self) -> float:
        """The largest probability that the outer clamp binds: as given, or computed from `bound`.

        >>> SnappingMechanism(1, lower=0, upper=10).gamma
        0.05
        >>> round(SnappingMechanism(1, lower=0, upper=10, bound=20).gamma, 9)
        8.32e-07
        """
        found = self._found
        if found.gamma is not None:
            return float(found.gamma)
        within = found.bound - found.step / 2 - found.half_width
        return round_up(exp_up(-within * found.epsilon_prime) * (1 + Fraction(1, 2**60)))

    @property
    def lattice(self) -> Fraction:
        """Lambda', in the statistic's unit: the distance between neighbouring releases."""
        return self._found.step * self._found.sensitivity

    @property
    def precision(self) -> int:
        """p, where eta = 2^-p; arithmetic and U* carry two bits more."""
        return self._found.precision

    @property
    def center(self) -> Fraction:
        """The midpoint of the mechanism's lower and upper bound."""
        return self._found.center

    def privacy_loss(self, distance: Number | None = None) -> Fraction:
        """Return the privacy loss for two values that are `distance` apart.

        Args:
            distance: at least 0, in the statistic's unit; None for the sensitivity.
        Returns:
            epsilon' (distance / sensitivity + 12 B eta) + 2 eta, exactly (B in sensitivities); 0 for 0.
            At the sensitivity it is at most `epsilon`.
        Raises:
            ParameterError: distance is negative or not finite.

        >>> 0.999 < SnappingMechanism(1, lower=0, upper=10).privacy_loss() <= 1
        True
        """
        if distance is None:
            return self._found.privacy_loss(Fraction(1))
        exact = at_least_0(distance, "distance")
        return self._found.privacy_loss(exact / self._found.sensitivity)

    def measurement(self, domain: Domain = EXACT) -> Measurement:
        """Return the mechanism as a measurement of one number.

        Args:
            domain: exact numbers, or floats without NaN.
        Returns:
            A Measurement from absolute distance to pure DP, whose map is `privacy_loss`.
        Raises:
            ParameterError: the domain is not of numbers.

        >>> mechanism = SnappingMechanism(1, lower=0, upper=10)
        >>> mechanism.measurement().map(1) == mechanism.privacy_loss(1)
        True
        """
        if not AbsoluteDistance().admits(domain):
            raise ParameterError("domain", domain, "of numbers, without NaN")
        return Measurement("snapping", domain, AbsoluteDistance(), PureDP(), self.release, self.privacy_loss)

    # Releases.

    @overload
    def release(self, value: Scalar, words: Words | None = None) -> float: ...
    @overload
    def release(self, value: Values, words: Words | None = None) -> Floats: ...
    def release(self, value: Scalar | Values, words: Words | None = None) -> float | Floats:
        """Release one value, or each element of an array, with independent noise.

        Args:
            value: a number, taken exactly, or an array of floats or integers of any shape. Each element is a
                statistic of its own: an array of n costs the sum of the losses for its n distances.
            words: a source of random words; None for this thread's secure source. First a word is taken for
                each element, then, in order, those that single draws need beyond their first.
        Returns:
            A float, or float64 in the shape of the array: the float nearest to a point of the lattice around
            the centre, or nearest to center - bound or center + bound if the outer clamp binds.
        Raises:
            ParameterError: a value is NaN or not a number; no randomness has been drawn then.

        >>> from sfumato.noise import SeededWords
        >>> mechanism = SnappingMechanism(1, lower=0, upper=10)
        >>> mechanism.release(3.2, SeededWords(1))            # a seed for tests alone
        3.0
        >>> mechanism.release([[0.0, 5.0], [9.9, 1e300]], SeededWords(2)).shape
        (2, 2)
        """
        source = get_source(words)
        if np.ndim(value):  # type: ignore[arg-type]
            values = self._array(value)
            return self._fast.draw(values.ravel(), source).reshape(values.shape)
        return self._lattice.point(self._draw(_scalar(value), source))

    def _draw(self, value: Fraction | float, words: Words) -> int:
        word = int(words.take(1).view(np.int64)[0])
        return self._reference.draw(value, word, lambda: int(words.take(1)[0]))

    def _array(self, value: object) -> Floats:
        given = np.asarray(value)
        if given.dtype.kind not in "iuf" or given.dtype.itemsize > 8:
            raise ParameterError(
                "value", given.dtype.name, "an array of floats of up to 64 bits, or of integers"
            )
        # A 64-bit integer beyond 2^53 is rounded on its way to a float: safe only where clamping follows.
        wide = given.dtype.kind in "iu" and given.dtype.itemsize == 8
        if wide and max(abs(self._found.lower), abs(self._found.upper)) > 2**53:
            raise ParameterError("value", given.dtype.name, "floats, as the bounds are beyond 2**53")
        values = given.astype(np.float64)
        if np.isnan(values).any():
            raise ParameterError("value", "an array with NaN", "numbers")
        return values

    @cached_property
    def _reference(self) -> Reference:
        return Reference(self._found)

    @cached_property
    def _lattice(self) -> Lattice:
        return Lattice(self.center, self.lattice, self.bound)

    @cached_property
    def _fast(self) -> FastPath:
        return FastPath(self._found, self._reference, self._lattice)

    def accuracy_from_secret(self, value: Scalar, alpha: Number) -> SecretAccuracy:
        """Return the accuracy at the secret statistic itself. Never release it.

        It depends on the distance of the statistic from the centre. Anyone who sees it and knows the public
        parameters can often compute that distance exactly, and no budget covers this. Use it only for public
        or invented data; for users there is `accuracy`.

        Args:
            value: the statistic, within the bounds or clamped to them.
            alpha: probability, in (0, 1].
        Returns:
            A `SecretAccuracy`, which no release accepts as a number; its `leak()` gives the float, rounded
            up.
        Raises:
            ParameterError: value is NaN, or alpha is not in (0, 1].

        >>> mechanism = SnappingMechanism(1, lower=0, upper=10)
        >>> mechanism.accuracy_from_secret(10, 1e-6).leak() < mechanism.accuracy(1e-6)
        True

        Source:
            Covington 2020, section 6.3 and appendix A, GetAccuracy, with its last case corrected.
        """
        centred = self._reference.centred(_scalar(value))
        exact = Fraction(int(centred.numerator), int(centred.denominator))
        return SecretAccuracy(snapping_law.at_value(self._found, exact, snapping_law.probability(alpha)))


class SecretAccuracy:
    """An accuracy computed from a secret value. It is not a number, and no release accepts it.

    Source:
        Covington 2020, section 6.3, which computes it.

    >>> SecretAccuracy(1.5)
    SecretAccuracy(not shown, as it reveals the secret)
    """

    def __init__(self, accuracy: float) -> None:
        self._accuracy = accuracy

    def __repr__(self) -> str:
        return "SecretAccuracy(not shown, as it reveals the secret)"

    def leak(self) -> float:
        """Return the number. It reveals something about the secret value, which no budget covers.

        >>> mechanism = SnappingMechanism(1, lower=0, upper=10)
        >>> secret = mechanism.accuracy_from_secret(10, 1e-6)  # of a value that is invented
        >>> round(secret.leak(), 1), round(mechanism.accuracy(1e-6), 1)
        (14.1, 14.8)
        """
        return self._accuracy


def _scalar(value: object) -> Fraction | float:
    if hasattr(value, "item") and not isinstance(value, (int, float)):
        value = value.item()
    if isinstance(value, float):
        if isnan(value):
            raise ParameterError("value", "NaN", "a number")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, Fraction, Decimal)):
        raise ParameterError("value", type(value).__name__, "a number, or an array of them")
    if isinstance(value, Decimal) and not value.is_finite():
        raise ParameterError("value", "a Decimal that is none", "a finite number")
    return Fraction(value)
