"""Privacy measures: pure, approximate, zero-concentrated and Gaussian DP, and how losses in them add up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from types import NoneType
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.errors import BudgetError, ParameterError, shown
from sfumato.exact import as_fraction, root_down, root_up

AMOUNT = "an exact number of at least 0: an int or a Fraction"


def exact_amount(value: Any) -> Fraction | None:
    """Return a loss in a privacy measure, or a distance, as an exact Fraction of at least 0; else None.

    Args:
        value: a distance or a loss.

    >>> exact_amount(2), exact_amount(0.5), exact_amount(Fraction(-1, 2))
    (Fraction(2, 1), None, None)
    """
    exact = isinstance(value, (int, Fraction)) and not isinstance(value, bool)
    return Fraction(value) if exact and value >= 0 else None


class Measure(ABC):
    """A privacy measure: the unit of a privacy loss.

    Examples are `PureDP` and `ApproximateDP`.

    >>> loss = PureDP().total([Fraction(1, 2), Fraction(1, 4)])
    >>> loss, PureDP().within(loss, Fraction(1)), PureDP().within(loss, Fraction(1, 2))
    (Fraction(3, 4), True, False)
    """

    def _in_messages(self) -> str:
        return repr(self)

    @abstractmethod
    def total(self, losses: Sequence[Any]) -> Any:
        """Return the loss of a composition; later parts may depend on earlier outputs.

        Args:
            losses: losses in this measure's unit, fixed beforehand; empty for a composition that reveals
                nothing.
        Returns:
            The loss.
        """

    @abstractmethod
    def within(self, loss: Any, budget: Any) -> bool:
        """Whether a loss is at most the budget.

        Args:
            loss, budget: amounts in this measure's unit.
        """

    admitted: str = AMOUNT

    def _admit(self, loss: Any) -> Any:
        """Return a privacy map's value as a loss in the measure; None if it is not exact or below 0.

        Args:
            loss: a number, a tuple of numbers, or an object of a measure's own, which checks itself.
        """
        if isinstance(loss, tuple):
            parts = tuple(map(exact_amount, loss))
            return None if None in parts else parts
        plain = isinstance(loss, (str, bytes, NoneType)) or hasattr(loss, "__float__")
        return exact_amount(loss) if plain else loss


class Filter(Measure):
    """A privacy filter: a measure whose losses may be chosen adaptively, with a total within a budget.

    Such as `PureDP` and `GaussianDP`.

    `Measure.total` is about losses that are fixed beforehand. That the same total is a bound where each
    *loss*, too, depends on the outputs before is a theorem of its own: a privacy filter. It holds for

    - pure and approximate DP with sums: Rogers, Roth, Ullman and Vadhan 2016, "Privacy odometers and
      filters"; Whitehouse, Ramdas, Rogers and Wu 2023, "Fully-adaptive composition in differential privacy";
    - zCDP with sums: Feldman and Zrnic 2021, "Individual privacy accounting via a Renyi filter";
    - Gaussian DP with sums of squares: Smith and Thakurta 2022, "Fully adaptive composition for Gaussian
      differential privacy".

    It fails for trade-off functions, hence for privacy loss distributions, in general.

    Source:
        above, and docs/proofs/odometer.md.

    >>> budget = PureDP().budget("0.8")
    >>> PureDP().remaining(Fraction(1, 2), budget)
    Fraction(3, 10)
    """

    @abstractmethod
    def budget(self, value: Any) -> Any:
        """Return a budget in this measure's unit as an exact amount.

        Args:
            value: an amount in this measure's unit: a number, or a pair (epsilon, delta).
        Returns:
            The exact budget.
        Raises:
            BudgetError: the amount is not valid.
        """

    @abstractmethod
    def remaining(self, spent: Any, budget: Any) -> Any:
        """Return the largest loss that still fits, rounded down.

        Args:
            spent, budget: amounts in this measure's unit, the first within the second.
        Returns:
            The loss.
        """


class _Number(Filter):
    def _admit(self, loss: Any) -> Fraction | None:
        """Return a privacy map's value in a measure of one number, exact and at least 0; else None.

        Args:
            loss: what the map gave.
        """
        return exact_amount(loss)

    def within(self, loss: Fraction, budget: Fraction) -> bool:
        """Whether a loss in a measure of one number is at most the budget."""
        return loss <= budget

    def budget(self, value: Any) -> Fraction:
        """Take a budget in a privacy measure of one number, finite and at least 0.

        Returns:
            The number, exactly.
        Raises:
            BudgetError: it is no such number.
        """
        return _amount(value, "budget")


class _Sum(_Number):
    def total(self, losses: Sequence[Fraction]) -> Fraction:
        """Return the sum of losses in a privacy measure that adds up."""
        return sum(losses, Fraction(0))

    def remaining(self, spent: Fraction, budget: Fraction) -> Fraction:
        """Return the budget less the loss in a privacy measure that adds up."""
        return budget - spent


@dataclass(frozen=True)
class PureDP(_Sum):
    """Pure differential privacy: the map gives epsilon, and epsilons add up.

    Source:
        Dwork, McSherry, Nissim and Smith 2006, "Calibrating noise to sensitivity in private data analysis".

    >>> PureDP().total([Fraction(1, 3), Fraction(1, 2)])
    Fraction(5, 6)
    """


@dataclass(frozen=True)
class ZeroConcentratedDP(_Sum):
    """Zero-concentrated differential privacy (Bun, Steinke 2016): the map gives rho, and rhos add up.

    Source:
        Bun and Steinke 2016, "Concentrated differential privacy: simplifications, extensions, and lower
        bounds".

    >>> ZeroConcentratedDP().total([Fraction(1, 2), Fraction(1, 4)])
    Fraction(3, 4)
    """


@dataclass(frozen=True)
class ApproximateDP(Filter):
    """Approximate differential privacy: the map gives (epsilon, delta); both add up.

    Source:
        Dwork, Kenthapadi, McSherry, Mironov and Naor 2006, "Our data, ourselves: privacy via distributed
        noise generation".

    >>> ApproximateDP().total([(Fraction(1), Fraction(1, 10)), (Fraction(2), Fraction(1, 10))])
    (Fraction(3, 1), Fraction(1, 5))
    >>> budget, spent = ApproximateDP().budget((1, "1e-6")), (Fraction(3, 4), Fraction(0))
    >>> ApproximateDP().remaining(spent, budget)
    (Fraction(1, 4), Fraction(1, 1000000))
    >>> ApproximateDP().within((Fraction(1, 2), Fraction(1, 1000)), budget)  # delta is too large
    False
    """

    admitted = "a pair (epsilon, delta) of exact numbers of at least 0: ints or Fractions"

    def _admit(self, loss: Any) -> Any:
        """Return a privacy map's value as a pair (epsilon, delta); None if it is no exact pair.

        Args:
            loss: what the map gave.
        """
        return super()._admit(loss) if isinstance(loss, tuple) and len(loss) == 2 else None

    def total(self, losses: Sequence[tuple[Fraction, Fraction]]) -> tuple[Fraction, Fraction]:
        """Return the sums of epsilons and of deltas: basic composition."""
        return sum((e for e, _ in losses), Fraction(0)), sum((d for _, d in losses), Fraction(0))

    def within(self, loss: tuple[Fraction, Fraction], budget: tuple[Fraction, Fraction]) -> bool:
        """Whether epsilon and delta are at most the budget's."""
        return loss[0] <= budget[0] and loss[1] <= budget[1]

    def budget(self, value: Any) -> tuple[Fraction, Fraction]:
        """Return a budget of an epsilon of at least 0 and a delta in [0, 1) as exact numbers.

        Returns:
            The exact pair.
        Raises:
            BudgetError: the argument is not such a pair.
        """
        if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
            raise BudgetError(f"budget is {shown(value)}, but must be a pair (epsilon, delta)")
        epsilon, delta = _amount(value[0], "epsilon"), _amount(value[1], "delta")
        if delta >= 1:
            raise BudgetError(f"delta is {shown(value[1])}, but must be at least 0 and less than 1")
        return epsilon, delta

    def remaining(
        self, spent: tuple[Fraction, Fraction], budget: tuple[Fraction, Fraction]
    ) -> tuple[Fraction, Fraction]:
        """Return the budget's epsilon and delta minus those spent."""
        return budget[0] - spent[0], budget[1] - spent[1]


@dataclass(frozen=True)
class GaussianDP(_Number):
    """Gaussian differential privacy (Dong, Roth, Su 2022): the map gives mu; squares add up.

    Source:
        Dong, Roth and Su 2022, "Gaussian differential privacy".

    >>> GaussianDP().total([Fraction(3), Fraction(4)])
    Fraction(5, 1)
    >>> budget = GaussianDP().budget(5)
    >>> GaussianDP().remaining(Fraction(3), budget), GaussianDP().within(Fraction(6), budget)
    (Fraction(4, 1), False)
    """

    def total(self, losses: Sequence[Fraction]) -> Fraction:
        """Return the root of the sum of squared mus, rounded up."""
        return root_up(sum((mu * mu for mu in losses), Fraction(0)))

    def remaining(self, spent: Fraction, budget: Fraction) -> Fraction:
        """Return the root of the difference of squared mus, rounded down."""
        rest = root_down(budget**2 - spent**2)
        if self.within(self.total([spent, rest]), budget):
            return rest
        # Roots are rounded up by at most 2^-128 when losses are added up, which must fit too.
        return root_down(max(Fraction(0), budget**2 * (1 - Fraction(1, 2**120)) - spent**2))


def _amount(value: object, name: str) -> Fraction:
    try:
        number = as_fraction(value, name)
    except ParameterError:
        number = Fraction(-1)
    if number < 0:
        raise BudgetError(f"{name} is {shown(value)}, but must be a finite number of at least 0")
    return number
