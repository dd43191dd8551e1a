"""Epsilon and delta as they are admitted, and as exact costs are written."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple

from sfumato.display.formatting import format_fields
from sfumato.errors import BudgetError, ParameterError, shown
from sfumato.exact import as_int, as_written

SMALLEST_DELTA = Fraction(1, 10**300)


def _number(value: object, name: str, admissible: str) -> Fraction:
    with suppress(ParameterError):
        return as_written(value, name)
    raise BudgetError(f"{name} is {shown(value)}, but must be {admissible}")


def admissible_epsilon(value: object, name: str = "epsilon") -> Fraction:
    """Return an epsilon as a Fraction, if it is a finite number greater than 0.

    Args:
        value: number or text; a float is the number that was written: 0.1 is 1/10.
        name: the parameter's name, for the error.
    Returns:
        The same number as a Fraction.
    Raises:
        BudgetError: value is not a number, not finite, or not greater than 0.

    >>> admissible_epsilon("0.1")
    Fraction(1, 10)
    """
    admissible = "a finite number greater than 0"
    number = _number(value, name, admissible)
    if number <= 0:
        raise BudgetError(f"{name} is {shown(value)}, but must be {admissible}")
    return number


def admissible_delta(value: object, name: str = "delta", *, zero: bool = True) -> Fraction:
    """Return a delta as a Fraction, if it is in [0, 1), or in (0, 1) where `zero` is false.

    Args:
        value: number or text; a float is the number that was written: 0.1 is 1/10.
        name: the parameter's name, for the error.
        zero: whether 0 is admissible.
    Returns:
        The same number as a Fraction.
    Raises:
        BudgetError: value is not a number in the range.

    >>> admissible_delta("1e-6")
    Fraction(1, 1000000)
    """
    admissible = "at least 0 and less than 1" if zero else "greater than 0 and less than 1"
    number = _number(value, name, admissible)
    if not 0 <= number < 1 or (number == 0 and not zero):
        raise BudgetError(f"{name} is {shown(value)}, but must be {admissible}")
    return number


def released_delta(value: object) -> Fraction:
    """Return the delta of a release: 0, or a number in [1e-300, 1) that the certificate can prove."""
    number = admissible_delta(value)
    if 0 < number < SMALLEST_DELTA:
        raise BudgetError(f"delta is {shown(value)}, but must be 0 or at least 1e-300")
    return number


def admissible_amount(value: object, name: str) -> Fraction:
    """Return an amount of privacy loss such as an epsilon, if it is a finite number of at least 0."""
    admissible = "a finite number of at least 0"
    number = _number(value, name, admissible)
    if number < 0:
        raise BudgetError(f"{name} is {shown(value)}, but must be {admissible}")
    return number


def admissible_count(value: object, name: str) -> int:
    """Return how many mechanisms of one epsilon and delta there are: a whole number of at least 1."""
    number = as_int(value)
    if number is None or number < 1:
        raise BudgetError(f"{name} is {shown(value)}, but must be a whole number of at least 1")
    return number


class ExactCost(NamedTuple):
    """An epsilon and a delta as exact fractions.

    Args:
        epsilon, delta: fractions, printed as you would write them.

    >>> cost = ExactCost(Fraction(1, 4), Fraction(1, 10**6))
    >>> cost
    ExactCost(epsilon=0.25, delta=1e-06)
    >>> cost.epsilon * 4 == 1, cost == (Fraction(1, 4), Fraction(1, 10**6))
    (True, True)
    """

    epsilon: Fraction
    delta: Fraction

    def __repr__(self) -> str:
        return format_fields(self, self._fields)
