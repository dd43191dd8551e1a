"""The sparse vector technique (above threshold): which values lie above it; only positive answers cost."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from sfumato.errors import BudgetError, ParameterError
from sfumato.exact import as_int, positive, positive_int
from sfumato.exact.library_settings import Isolated
from sfumato.exact.outward_rounding import integer_root
from sfumato.framework import AtomDomain, Linear, LInfDistance, Measurement, PureDP, VectorDomain
from sfumato.names.suggestions import suggest_arguments
from sfumato.noise import Laplace, Words
from sfumato.ownership import Owned, Turn

# Noise is drawn in 64-bit integers: up to this scale it reaches their end with probability below e^(-2^22).
LARGEST_SCALE = 2**40


class AboveThreshold(Isolated, Owned):
    """Answer whether values are above a threshold, by sparse vector, up to `positives` positive answers.

    All answers together are epsilon-DP with epsilon = distance / scale, where the distance of two inputs is
    the largest difference of any value. The next value may depend on earlier answers. It answers only in the
    process that made it and cannot be copied.

    Args:
        scale: a number greater than 0, in the unit of the values.
        threshold: a whole number, chosen without looking at the data.
        positives: the number of positive answers after which it stops, at least 1.
        words: a source of random words; None for each thread's secure source.
    Raises:
        ParameterError: a parameter is not valid; the error names it.

    >>> above = AboveThreshold(scale=2, threshold=1000, positives=1)
    >>> above.ask(-10**6), above.ask(10**6), above.left
    (False, True, 0)
    >>> above.ask(0)
    Traceback (most recent call last):
    sfumato.errors.BudgetError: AboveThreshold: all 1 positive answers are given. ...

    Source:
        Lyu, Su and Li 2017, "Understanding the sparse vector technique for differential privacy",
        algorithm 7 without its numbers, its optimal split of epsilon. Proof: docs/proofs/above_threshold.md.
    """

    _elsewhere = (
        "answers in two places would be counted in neither. Make another there, with a budget of its own"
    )
    _refusal = BudgetError

    def __init__(self, scale: Any, threshold: int, positives: int = 1, *, words: Words | None = None) -> None:
        self._threshold = _whole(threshold, "threshold", shown=threshold)
        self.positives: int = positive_int(positives, "positives")
        of_threshold, of_value = noise_scales(positive(scale, "scale"), self.positives)
        self._law, self._words = Laplace(of_value), words
        self._noisy_threshold = self._threshold + int(Laplace(of_threshold).rounded(1, words)[0])
        self._left, self._turn = self.positives, Turn()

    @property
    def left(self) -> int:
        """The number of positive answers that are left."""
        return self._left

    def ask(self, value: int) -> bool:
        """Return whether a value with noise reaches the noisy threshold.

        Args:
            value: a whole number.
        Returns:
            True if it does.
        Raises:
            BudgetError: all positive answers are used up, or this is not the process that made it.
            ParameterError: value is not a whole number.
            RefusalError: it is called in the middle of another query, as from a signal handler.
        """
        self._check_home()
        exact = _whole(value, "value", shown=type(value).__name__)
        with self._turn():
            if self._left == 0:
                raise BudgetError(
                    f"AboveThreshold: all {self.positives} positive answers are given. Further "
                    "queries need a budget of their own"
                )
            above = exact + int(self._law.rounded(1, self._words)[0]) >= self._noisy_threshold
            self._left -= above
        self._check_home()  # a handler of a signal may have forked in the middle
        return above


@suggest_arguments
def above_threshold(scale: Any, threshold: int, positives: int = 1) -> Measurement:
    """Report which values of a vector are above a threshold, up to the `positives`-th that is.

    Args:
        scale: a number greater than 0, in the unit of the values; epsilon = distance / scale.
        threshold: a whole number, chosen without looking at the data.
        positives: the largest number of values to report as above, at least 1.
    Returns:
        A Measurement from vectors of whole numbers, under the largest difference of an entry, to pure DP.
        It gives a list of bools, one for each value up to the `positives`-th True.
    Raises:
        ParameterError: a parameter is not valid; the error names it.

    >>> above = above_threshold(scale=2, threshold=1000)
    >>> above([-10**6, 10**6, 5]), above.map(1)
    ([False, True], Fraction(1, 2))

    Source:
        As for `AboveThreshold`. Proof: docs/proofs/above_threshold.md.
    """
    width = positive(scale, "scale")
    threshold = _whole(threshold, "threshold", shown=threshold)
    noise_scales(width, positive_int(positives, "positives"))  # refuses what cannot be drawn

    def function(values: Iterable[int]) -> list[bool]:
        technique = AboveThreshold(width, threshold, positives)
        answers = []
        for value in values:
            answers.append(technique.ask(value))
            if not technique.left:
                break
        return answers

    return Measurement(
        "above_threshold",
        VectorDomain(AtomDomain(int)),
        LInfDistance(),
        PureDP(),
        function,
        Linear(1 / width),
    )


def noise_scales(scale: Fraction, positives: int) -> tuple[Fraction, Fraction]:
    """Return the scales of the threshold's and of each value's noise in the sparse vector technique.

    Privacy asks for 1/first + 2 positives/second = 1/scale. The difference of the two noises, which
    decides, varies least where the parts of epsilon are as 1 to (2 positives)^(2/3).

    >>> first, second = noise_scales(Fraction(1), 4)
    >>> first, second
    (Fraction(5, 1), Fraction(10, 1))
    """
    part = Fraction(integer_root((2 * positives) ** 2 << 48, 3), 2**16)
    scales = scale * (1 + part), 2 * positives * scale * (1 + part) / part
    if max(scales) > LARGEST_SCALE:
        raise ParameterError("scale", scale, "so small that no noise scale exceeds 2^40")
    return scales


def _whole(value: Any, name: str, *, shown: object) -> int:
    number = as_int(value)
    if number is None:
        raise ParameterError(name, shown, "a whole number")
    return number
