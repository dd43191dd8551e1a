"""Formulas of outputs with error bars in released SQL: one weighted sum of outputs over another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sfumato.dataclass import dataclass
from sfumato.dialect.sql_tokens import Token
from sfumato.query.aggregates import LARGEST_MAGNITUDE, Aggregate, Combination, WeightedSum, difference, ratio

_MAX_DIGITS = 30
ONE = WeightedSum((), Fraction(1))
ONLY = (
    "sums and differences of outputs, multiplied or divided by numbers, and ratios of two such sums, as in "
    "100 * SUM(...) / COUNT(*)"
)
_PRODUCT = (
    "a product of two outputs has no joint error bar. Write DP_INTERVAL_LOW(a) and "
    "DP_INTERVAL_LOW(b) with OPTIONS (confidence = 0.975), and multiply the ends for 95% of both"
)
_DENOMINATORS = (
    "ratios with different denominators have no joint error bar. Name the bars of each with OPTIONS "
    "(confidence = 0.975), and add up the ends for 95% of both"
)


class NotFormula(Exception):
    """A formula of outputs that has no error bar; the text says what to write."""


@dataclass(frozen=True)
class Formula:
    """A formula of outputs with an error bar: one weighted sum over another.

    Args:
        top, bottom: these; the bottom is 1 where nothing is divided by.
    """

    top: WeightedSum
    bottom: WeightedSum = ONE

    @property
    def number(self) -> Fraction | None:
        """The number that a formula without outputs is; else None."""
        return self.top.constant if self.bottom == ONE and not self.top.terms else None

    def times(self, factor: Fraction) -> Formula:
        """Multiply a formula of outputs by a number."""
        return Formula(self.top.times(factor), self.bottom)

    def plus(self, other: Formula) -> Formula:
        """Add two formulas of outputs with one denominator, or a formula and a number."""
        for one, two in ((self, other), (other, self)):
            if one.number is not None:
                return Formula(two.top.plus(two.bottom.times(one.number)), two.bottom)
        if self.bottom != other.bottom:
            raise NotFormula(_DENOMINATORS)
        return Formula(self.top.plus(other.top), self.bottom)

    def product(self, other: Formula) -> Formula:
        """Multiply two formulas of outputs, of which one is a number."""
        for one, two in ((self, other), (other, self)):
            if one.number is not None:
                return two.times(one.number)
        raise NotFormula(_PRODUCT)

    def over(self, other: Formula) -> Formula:
        """Divide a formula of outputs by another one."""
        if other.number is not None:
            if not other.number:
                raise NotFormula("it divides by 0")
            return self.times(1 / other.number)
        if self.bottom == other.bottom:
            return Formula(self.top, other.top).normal
        if self.bottom == ONE and other.bottom != ONE and self.number is not None:
            return Formula(other.bottom.times(self.number), other.top).normal
        raise NotFormula(_PRODUCT)

    @property
    def normal(self) -> Formula:
        """The formula with 1 as the first weight of its denominator, so that equal ones compare equal."""
        first = next((weight for _, weight in self.bottom.terms if weight), None)
        if first is None:
            raise NotFormula("it divides by outputs that cancel each other")
        return Formula(self.top.times(1 / first), self.bottom.times(1 / first))

    def aggregate(self) -> Aggregate | str:
        """Return the aggregate that has the formula's error bar, or the output that the formula is.

        Raises:
            NotFormula: a number in it is too large or too small to compute with.
        """
        tops, bottoms = ([*one.terms] for one in (self.top, self.bottom))
        numbers = [self.top.constant, self.bottom.constant, *(weight for _, weight in (*tops, *bottoms))]
        if any(n and not 1 / LARGEST_MAGNITUDE <= abs(n) <= LARGEST_MAGNITUDE for n in numbers):
            raise NotFormula("its numbers exceed 1e100 or are below 1e-100")
        plain = not self.top.constant and self.bottom.constant == (not bottoms)
        weights = [weight for _, weight in tops]
        if plain and not bottoms and weights == [1]:
            return tops[0][0]
        if plain and weights == [1] and [weight for _, weight in bottoms] == [1]:
            return ratio(tops[0][0], bottoms[0][0])
        if plain and not bottoms and sorted(weights) == [-1, 1]:
            return difference(*(name for name, _ in sorted(tops, key=lambda term: -term[1])))
        return Combination(self.top, self.bottom)


class FormulaParser:
    """Parses formulas of outputs in DP_INTERVAL_LOW(...) and DP_INTERVAL_HIGH(...).

    Args:
        tokens: the tokens of the formula.
        output: returns the next token and the name of the output that begins at a token; raises where none
            does.
        computed: returns the tokens of the formula that a name stands for; None where it is an output.
        within: the names that are being expanded, which may not recur.
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

    def sum(self, at: int) -> tuple[int, Formula]:
        """Parse sums of products in a formula of outputs; return the next token and the formula."""
        at, found = self._product(at)
        while (sign := self._word(at)) in ("+", "-"):
            at, other = self._product(at + 1)
            found = found.plus(other.times(Fraction(1 if sign == "+" else -1)))
        return at, found

    def _product(self, at: int) -> tuple[int, Formula]:
        """Parse products and quotients in a formula of outputs."""
        at, found = self._factor(at)
        while (sign := self._word(at)) in ("*", "/"):
            at, other = self._factor(at + 1)
            found = found.product(other) if sign == "*" else found.over(other)
        return at, found

    def _factor(self, at: int) -> tuple[int, Formula]:
        """Parse a number, an output, a name or brackets in a formula of outputs."""
        word = self._word(at)
        if word in ("+", "-"):
            at, found = self._factor(at + 1)
            return at, found.times(Fraction(1 if word == "+" else -1))
        if word == "(":
            at, found = self.sum(at + 1)
            if self._word(at) != ")":
                raise NotFormula(f"it takes {ONLY}")
            return at + 1, found
        token = self.tokens[at] if at < len(self.tokens) else None
        if token is not None and token.kind == "number":
            return at + 1, Formula(WeightedSum((), _number(token.text)))
        inner = None if token is None or self._word(at + 1) == "(" else self._computed(token)
        if inner is not None and token is not None and token.text.casefold() not in self._within:
            within = self._within | {token.text.casefold()}
            stop, found = FormulaParser(inner, self._output, self._computed, within).sum(0)
            if stop != len(inner):
                raise NotFormula(f"it takes {ONLY}")
            return at + 1, found
        at, name = self._output(self.tokens, at)
        return at, Formula(WeightedSum(((name, Fraction(1)),)))

    def _word(self, at: int) -> str:
        return self.tokens[at].word if at < len(self.tokens) else ""


def _number(text: str) -> Fraction:
    """Return a number in a formula of outputs exactly."""
    if not text.replace(".", "", 1).isdigit() or len(text) > _MAX_DIGITS:
        raise NotFormula(
            f"a number in it has too many digits. Write at most {_MAX_DIGITS}, such as 100 or 0.5"
        )
    return Fraction(text)
