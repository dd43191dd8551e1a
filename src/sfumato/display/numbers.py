"""Noisy numbers as text: as many digits as their error bars let speak."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from sfumato.dataclass import dataclass

# Beyond these a number is easier to read with a power of ten.
LARGEST = 1e15
MOST_DECIMALS = 9
_CONTEXT = Context(prec=40, traps=[])  # the active one belongs to the caller
_LONGEST = 14  # characters of a fraction, or of a whole number without a power of ten


@dataclass(frozen=True)
class Shown:
    """A value and the half-width of its error bar, as text."""

    value: str
    error: str


def shown(values: Sequence[float], errors: Sequence[float]) -> list[Shown]:
    """Format a column of values with their half-widths.

    A half-width keeps two significant digits, rounded up; its value the same decimals. Numbers of a
    column whose errors are alike get the same decimals; digits before the point are never dropped.

    Args:
        values: of each group; an int is shown without decimals.
        errors: half-widths, at least 0, of the same length.

    >>> [f"{s.value} ± {s.error}" for s in shown([3.09111, 12.5], [0.28862, 14.2])]
    ['3.09 ± 0.29', '12.5 ± 14.2']
    >>> shown([3874], [36.0])
    [Shown(value='3,874', error='36')]
    """
    finest = max((d for e in errors if (d := _decimals(e)) is not None), default=6)
    return [_one(value, error, finest) for value, error in zip(values, errors, strict=True)]


def aligned(column: Sequence[Shown]) -> list[Shown]:
    """Pad with spaces, so that points and error bars stand below each other.

    >>> [f"{s.value} ± {s.error}" for s in aligned([Shown("3.09", "0.29"), Shown("12", "14")])]
    [' 3.09 ±  0.29', '12    ± 14   ']
    """
    values, errors = _align([s.value for s in column]), _align([s.error for s in column])
    return [Shown(value, error) for value, error in zip(values, errors, strict=True)]


def _one(value: float, error: float, finest: int) -> Shown:
    if not math.isfinite(value) or max(abs(value), error) >= LARGEST or finest > MOST_DECIMALS:
        return Shown(f"{value:.{_digits(value, error)}g}", "∞" if math.isinf(error) else f"{error:.2g}")
    own = _decimals(error)
    decimals = finest if own is None else min(finest, own + 1)
    if isinstance(value, int):
        decimals = 0
    last = Decimal(1).scaleb(-decimals, _CONTEXT)
    # The shortest text of a float is what was meant: 0.1 is not a little more than 0.1.
    rounded = Decimal(repr(value)).quantize(last, ROUND_HALF_EVEN, _CONTEXT)
    width = Decimal(repr(error)).quantize(last, ROUND_CEILING, _CONTEXT)
    return Shown(f"{rounded:,}", f"{width:,}")


def _decimals(error: float) -> int | None:
    """Return the decimals that show two significant digits of an error, or None where it has none."""
    if not 0 < error < math.inf:
        return None
    return max(0, 1 - math.floor(math.log10(error)))


def _digits(value: float, error: float) -> int:
    """Return the significant digits that reach down to the second one of the error."""
    if not (math.isfinite(value) and value and 0 < error < math.inf):
        return 6
    return min(17, max(2, math.floor(math.log10(abs(value))) - math.floor(math.log10(error)) + 2))


def _align(texts: Sequence[str]) -> list[str]:
    parts = [text.partition(".") for text in texts]
    left = max((len(whole) for whole, _, _ in parts), default=0)
    right = max((len(point + rest) for _, point, rest in parts), default=0)
    return [f"{whole:>{left}}{point + rest:<{right}}" for whole, point, rest in parts]


def exact(number: Fraction | int | float) -> str:
    """Write a number as one would: as a decimal that is exactly it, else as a fraction.

    A float is meant where its exact value is that of a float. What is too long both ways is rounded, and
    says so.

    >>> exact(Fraction(1, 2)), exact(Fraction(1, 3)), exact(Fraction(0.1)), exact(Fraction(1, 10**6))
    ('0.5', '1/3', '0.1', '1e-06')
    >>> exact(Fraction(10**40 + 1, 3**40)), exact(1_500_000), exact(float("inf"))
    ('about 8.22526e+20', '1500000', 'inf')
    """
    if isinstance(number, float) and not math.isfinite(number):
        return str(number)
    whole = Fraction(number)
    if whole.denominator == 1 and len(str(whole)) <= _LONGEST:
        return str(whole)
    try:
        nearest = float(whole)
    except OverflowError:
        about = Context(prec=6, rounding=ROUND_HALF_EVEN, traps=[])
        return f"about {about.divide(Decimal(whole.numerator), Decimal(whole.denominator)):.6g}"
    for text in (f"{nearest:g}", repr(nearest)):
        # As it was written in decimal, or as the float that it was given as.
        if Fraction(text) == whole:
            return text
    if Fraction(nearest) == whole:
        return repr(nearest)
    text = f"{whole.numerator}/{whole.denominator}" if whole.denominator > 1 else str(whole)
    return text if len(text) <= _LONGEST else f"about {nearest:.6g}"
