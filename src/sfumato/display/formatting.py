"""Formatting of text for people: numbers with the digits of their error bars, exact numbers, escapes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass

# What a spreadsheet takes for the beginning of a formula, in half and full width. Quotes before it are those
# of a text that was guarded, or that looks like one: another one makes every text come back as it was.
FORMULA = r"('*[=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}])"
_FORMULA = re.compile(re.sub(r"\\x\{(\w+)\}", r"\\u\1", FORMULA))


def guard_formula(text: str) -> str:
    """Format a text for a CSV file so that no spreadsheet takes it for a formula.

    Args:
        text: a cell of a CSV file, or a name in its header; never a number.

    >>> guard_formula("=1+1"), guard_formula("Ulm"), guard_formula("'=1"), guard_formula("'t Hof")
    ("'=1+1", 'Ulm', "''=1", "'t Hof")
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unguard_formula(text: str) -> str:
    """Return the text that was formatted by `guard_formula`.

    >>> unguard_formula("'=1+1"), unguard_formula("Ulm"), unguard_formula("''=1"), unguard_formula("'t Hof")
    ('=1+1', 'Ulm', "'=1", "'t Hof")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def visible(text: str, *, lines: bool = False) -> str:
    """Format a text with escapes for all that a terminal would obey or hide.

    Args:
        text: any text, such as a group's key.
        lines: let line ends and tabs through.

    >>> print(visible("a" + chr(27) + "[31m" + chr(10)))
    a\\x1b[31m\\n
    """
    allowed = "\n\t" if lines else ""
    return "".join(
        c if c.isprintable() or c in allowed else c.encode("unicode_escape").decode("ascii") for c in text
    )


# Beyond these a number is easier to read with a power of ten.
LARGEST = 1e15
MAX_DECIMALS = 9
_CONTEXT = Context(prec=40, traps=[])  # the active one belongs to the caller
_LONGEST = 14  # characters of a fraction, or of a whole number without a power of ten


@dataclass(frozen=True)
class Shown:
    """A value and the half-width of its error bar, formatted."""

    value: str
    error: str


def shown(values: Sequence[float], errors: Sequence[float]) -> list[Shown]:
    """Format a column of values with their half-widths.

    A half-width keeps two significant digits, rounded up; its value the same decimals. Numbers of a
    column whose errors are alike get the same decimals; digits before the point are never dropped.

    Args:
        values: of each group; an int, or a decimal of whole numbers, is shown without decimals.
        errors: half-widths, at least 0, of the same length.

    >>> [f"{s.value} ± {s.error}" for s in shown([3.09111, 12.5], [0.28862, 14.2])]
    ['3.09 ± 0.29', '12.5 ± 14.2']
    >>> shown([3874], [36.0])
    [Shown(value='3,874', error='36')]
    """
    finest = max((d for e in errors if (d := _decimals(e)) is not None), default=6)
    return [_one(value, error, finest) for value, error in zip(values, errors, strict=True)]


def align_values(column: Sequence[Shown]) -> list[Shown]:
    """Pad formatted values with spaces, so that points and error bars stand below each other.

    >>> [f"{s.value} ± {s.error}" for s in align_values([Shown("3.09", "0.29"), Shown("12", "14")])]
    [' 3.09 ±  0.29', '12    ± 14   ']
    """
    values, errors = _align([s.value for s in column]), _align([s.error for s in column])
    return [Shown(value, error) for value, error in zip(values, errors, strict=True)]


def _one(value: float, error: float, finest: int) -> Shown:
    if not math.isfinite(value) or max(abs(value), error) >= LARGEST or finest > MAX_DECIMALS:
        return Shown(f"{value:.{_digits(value, error)}g}", "∞" if math.isinf(error) else f"{error:.2g}")
    own = _decimals(error)
    decimals = finest if own is None else min(finest, own + 1)
    # The shortest text of a float is what was meant: 0.1 is not a little more than 0.1.
    meant = Decimal(str(value))
    if meant.as_tuple().exponent == 0:
        decimals = 0
    last = Decimal(1).scaleb(-decimals, _CONTEXT)
    rounded = meant.quantize(last, ROUND_HALF_EVEN, _CONTEXT)
    width = Decimal(str(error)).quantize(last, ROUND_CEILING, _CONTEXT)
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


def rounded_bound(bound: float, rounding: str, count: int = 4) -> str:
    """Format a bound with `count` digits, rounded away from what it excludes, so that it still holds.

    Args:
        bound: any float.
        rounding: a rounding mode of `decimal`.
        count: significant digits.

    >>> rounded_bound(0.12341, "ROUND_CEILING"), rounded_bound(1.35, "ROUND_FLOOR")
    ('0.1235', '1.35')
    """
    if not math.isfinite(bound):
        return str(bound)
    written = Decimal(repr(float(bound)))
    last = Decimal(1).scaleb(written.adjusted() - count + 1, _CONTEXT)
    return f"{float(written.quantize(last, rounding, _CONTEXT)):.{count}g}"


def exact(number: Fraction | int | float) -> str:
    """Format an exact number as a decimal, else as a fraction.

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


class Spelled:
    """Base class of dataclasses with repr=False, whose `repr` formats exact numbers.

    >>> from dataclasses import dataclass
    >>> @dataclass(repr=False)
    ... class Bounds(Spelled):
    ...     ends: tuple[Fraction, Fraction]
    >>> Bounds((Fraction(1, 2), Fraction(1, 3)))
    Bounds(ends=(0.5, 1/3))
    """

    __slots__ = ()

    def __repr__(self) -> str:
        told: Any = self  # a dataclass
        return format_fields(self, [f.name for f in fields(told) if f.repr])


class Short(Spelled):
    """Base class of dataclasses whose `repr` formats exact numbers and leaves out default fields.

    >>> from dataclasses import dataclass
    >>> @dataclass(repr=False)
    ... class Bounds(Short):
    ...     lower: int
    ...     upper: int | None = None
    >>> Bounds(0), Bounds(0, 5)
    (Bounds(lower=0), Bounds(lower=0, upper=5))
    """

    __slots__ = ()

    def __repr__(self) -> str:
        told: Any = self  # a dataclass
        return format_fields(
            self, [f.name for f in fields(told) if f.repr and getattr(self, f.name) != f.default]
        )


def format_fields(value: object, names: Iterable[str]) -> str:
    """Format the `repr` of a value of named fields, with its exact numbers."""
    said = (f"{name}={format_repr(getattr(value, name))}" for name in names)
    return f"{type(value).__name__}({', '.join(said)})"


def format_repr(value: object) -> str:
    """Format the `repr` of a value, with its exact numbers and types, inside of lists too."""
    if isinstance(value, Fraction):
        return exact(value)
    if isinstance(value, type):
        return value.__name__
    if type(value) is tuple:
        return f"({', '.join(map(format_repr, value))}{',' * (len(value) == 1)})"
    if type(value) is list:
        return f"[{', '.join(map(format_repr, value))}]"
    if type(value) is dict:
        return f"{{{', '.join(f'{format_repr(k)}: {format_repr(v)}' for k, v in value.items())}}}"
    return repr(value)


def price(epsilon: Fraction | float, delta: Fraction | float) -> str:
    """Write a budget as text: its epsilon and delta.

    >>> from fractions import Fraction
    >>> price(Fraction(1, 3), Fraction(1, 10**6))
    'epsilon 1/3, delta 1e-06'
    """
    return f"epsilon {exact(epsilon)}, delta {exact(delta)}"
