"""What is computed of outputs by +, -, * and /, as far as it has one error bar for all of them together.

That is a weighted sum of outputs and a number, or one such sum over another one. Sums and products of these
are made to be of that form where they are: `s / n - 1` is `(s - n) / n`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.dialect.words import Token
from sfumato.query.aggregates import LARGEST_MAGNITUDE, Aggregate, Combination, WeightedSum, difference, ratio

MOST_DIGITS = 30
ONE = WeightedSum((), Fraction(1))
ONLY = (
    "sums and differences, with numbers that multiply or divide, and one such sum over another, such as "
    "100 * SUM(...) / COUNT(*)"
)
_PRODUCT = (
    "a product of two outputs has no error bar of both together; name those of each, DP_INTERVAL_LOW(a) and "
    "DP_INTERVAL_LOW(b), with OPTIONS (confidence = 0.975) for 95% of both, and multiply the ends"
)
_DENOMINATORS = (
    "ratios over different outputs have no error bar of both together; name those of each, with OPTIONS "
    "(confidence = 0.975) for 95% of both, and add up the ends"
)


class NotCombined(Exception):
    """What is written is no such form; the text says what to write."""


@dataclass(frozen=True)
class Combined:
    """One weighted sum over another one.

    Args:
        top, bottom: these; the bottom is 1 where nothing is divided by.
    """

    top: WeightedSum
    bottom: WeightedSum = ONE

    @property
    def number(self) -> Fraction | None:
        """The number that it is; None where outputs are in it."""
        return self.top.constant if self.bottom == ONE and not self.top.terms else None

    def times(self, factor: Fraction) -> Combined:
        """Multiply by a number."""
        return Combined(self.top.times(factor), self.bottom)

    def plus(self, other: Combined) -> Combined:
        """Add another one over the same outputs, or a number."""
        for one, two in ((self, other), (other, self)):
            if one.number is not None:
                return Combined(two.top.plus(two.bottom.times(one.number)), two.bottom)
        if self.bottom != other.bottom:
            raise NotCombined(_DENOMINATORS)
        return Combined(self.top.plus(other.top), self.bottom)

    def product(self, other: Combined) -> Combined:
        """Multiply by another one, of which one is a number."""
        for one, two in ((self, other), (other, self)):
            if one.number is not None:
                return two.times(one.number)
        raise NotCombined(_PRODUCT)

    def over(self, other: Combined) -> Combined:
        """Divide by another one."""
        if other.number is not None:
            if not other.number:
                raise NotCombined("it divides by 0")
            return self.times(1 / other.number)
        if self.bottom == other.bottom:
            return Combined(self.top, other.top).normal
        if self.bottom == ONE and other.bottom != ONE and self.number is not None:
            return Combined(other.bottom.times(self.number), other.top).normal
        raise NotCombined(_PRODUCT)

    @property
    def normal(self) -> Combined:
        """The same with 1 as the first weight below, so that what is over the same outputs shows as such."""
        first = next((weight for _, weight in self.bottom.terms if weight), None)
        if first is None:
            raise NotCombined("it divides by outputs that cancel each other")
        return Combined(self.top.times(1 / first), self.bottom.times(1 / first))

    def aggregate(self) -> Aggregate | str:
        """Return what is asked for it, or the output that it is.

        Raises:
            NotCombined: a number in it is too large or too small to compute with.
        """
        tops, bottoms = ([*one.terms] for one in (self.top, self.bottom))
        numbers = [self.top.constant, self.bottom.constant, *(weight for _, weight in (*tops, *bottoms))]
        if any(n and not 1 / LARGEST_MAGNITUDE <= abs(n) <= LARGEST_MAGNITUDE for n in numbers):
            raise NotCombined("its numbers come to more than 1e100, or to less than 1e-100")
        plain = not self.top.constant and self.bottom.constant == (not bottoms)
        weights = [weight for _, weight in tops]
        if plain and not bottoms and weights == [1]:
            return tops[0][0]
        if plain and weights == [1] and [weight for _, weight in bottoms] == [1]:
            return ratio(tops[0][0], bottoms[0][0])
        if plain and not bottoms and sorted(weights) == [-1, 1]:
            return difference(*(name for name, _ in sorted(tops, key=lambda term: -term[1])))
        return Combination(self.top, self.bottom)


class Combining:
    """Reads what is computed of outputs.

    Args:
        tokens: the words.
        output: from the place of a word the place behind an output that begins there, and its name; it raises
            where none does.
        computed: the words that a name stands for in the SELECT list; None where it stands for an output.
        within: names whose words these are, which do not come again.
    """

    def __init__(
        self,
        tokens: Sequence[Token],
        output: Callable[[Sequence[Token], int], tuple[int, str]],
        computed: Callable[[Token], Sequence[Token] | None],
        within: frozenset[str] = frozenset(),
    ) -> None:
        self.tokens = tokens
        self._output = output
        self._computed = computed
        self._within = within

    def sum(self, at: int) -> tuple[int, Combined]:
        """Return the place behind a sum that begins at a place, and what it is."""
        at, found = self._product(at)
        while (sign := self._word(at)) in ("+", "-"):
            at, other = self._product(at + 1)
            found = found.plus(other.times(Fraction(1 if sign == "+" else -1)))
        return at, found

    def _product(self, at: int) -> tuple[int, Combined]:
        at, found = self._factor(at)
        while (sign := self._word(at)) in ("*", "/"):
            at, other = self._factor(at + 1)
            found = found.product(other) if sign == "*" else found.over(other)
        return at, found

    def _factor(self, at: int) -> tuple[int, Combined]:
        word = self._word(at)
        if word in ("+", "-"):
            at, found = self._factor(at + 1)
            return at, found.times(Fraction(1 if word == "+" else -1))
        if word == "(":
            at, found = self.sum(at + 1)
            if self._word(at) != ")":
                raise NotCombined(f"it takes {ONLY}")
            return at + 1, found
        token = self.tokens[at] if at < len(self.tokens) else None
        if token is not None and token.kind == "number":
            return at + 1, Combined(WeightedSum((), _number(token.text)))
        inner = None if token is None or self._word(at + 1) == "(" else self._computed(token)
        if inner is not None and token is not None and token.text.casefold() not in self._within:
            within = self._within | {token.text.casefold()}
            stop, found = Combining(inner, self._output, self._computed, within).sum(0)
            if stop != len(inner):
                raise NotCombined(f"it takes {ONLY}")
            return at + 1, found
        at, name = self._output(self.tokens, at)
        return at, Combined(WeightedSum(((name, Fraction(1)),)))

    def _word(self, at: int) -> str:
        return self.tokens[at].word if at < len(self.tokens) else ""


def _number(text: str) -> Fraction:
    if not text.replace(".", "", 1).isdigit() or len(text) > MOST_DIGITS:
        raise NotCombined(f"a number in it is written with at most {MOST_DIGITS} digits, such as 100 or 0.5")
    return Fraction(text)
