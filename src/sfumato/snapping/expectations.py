"""What to expect of a release: accuracy, significance, bias, and the exact law, of guesses alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, as_fractions, at_least_0, round_up
from sfumato.exact.isolation import Isolated
from sfumato.snapping import accuracy as accuracies
from sfumato.snapping import bias
from sfumato.snapping.accuracy import LaplaceComparison
from sfumato.snapping.law import SnappedLaw
from sfumato.snapping.parameters import Parameters


class Expectations(Isolated):
    """What follows from a mechanism's numbers; all of it may be published."""

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
        return accuracies.tight(self._found, accuracies.probability(alpha))

    def accuracy_loose(self, alpha: Number) -> float:
        """Return (1 + ln(1/alpha)) / epsilon', which is simpler than `accuracy`, and not below it.

        Args, Raises:
            as `accuracy`.

        >>> from sfumato.snapping import SnappingMechanism
        >>> mechanism = SnappingMechanism(3, lower=0, upper=10)
        >>> mechanism.accuracy_loose(0.05) > mechanism.accuracy(0.05)
        True
        """
        return accuracies.loose(self._found, accuracies.probability(alpha))

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
        return accuracies.significance(self._found, exact / self._found.sensitivity)

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
        return accuracies.against_laplace(self._found, accuracies.probability(alpha))

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
        return round_up(bias.largest_bias_bound(self._found) * self._found.sensitivity)

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
        return bias.bias_bound(self._found, (guess - self._found.center) / unit) * unit
