"""Histograms and value counts: numbers or shares of rows, or units, in bins of a column's values."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ColumnError, ParameterError
from sfumato.exact import Number, as_fraction, one_of, truth_value
from sfumato.noise.law_tails import Floats
from sfumato.noise.noise_sums import Interval
from sfumato.query.aggregates.aggregate import Aggregate, aggregate_function, check_numeric, column_name
from sfumato.query.aggregates.counting import CountEstimate
from sfumato.query.aggregates.estimate import Estimate, is_sure, ones
from sfumato.query.aggregates.weighted_aggregates import Weighted, Weights, get_weights, weighted
from sfumato.query.option_names import Bounded
from sfumato.query.schema import IN_PLACE, Kind, Schema, format_name
from sfumato.transformations import Edges, Grid, Listed, RowsInBins, UnitsInBins, WeightGrid, WeightsInBins

if TYPE_CHECKING:
    from sfumato.plan.noisy_statistics import NoisyNumbers
    from sfumato.plan.required_statistics import Design


MAX_BINS = 1000
# Each share is held against the noise of all bins.
MAX_SHARES = 100
# Values of a list are of one of these: how it is called, and of which types of column.
KINDS: dict[type, tuple[str, str]] = {
    str: ("texts", "VARCHAR"), bool: ("truth values", "BOOLEAN"), int: ("whole numbers", "BIGINT"),
    date: ("dates", "DATE"),
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class InBins(Aggregate):
    """A histogram: numbers, or shares, in bins of a column's values.

    Args:
        column: the column.
        bins: where values belong.
        suffixes: of the outputs' names, by bin.
        per: what is counted: each "row", or each "unit" once.
        shares: whether parts of all that is in bins are asked, in place of numbers.
    """

    column: str
    bins: Edges | Listed
    suffixes: tuple[str, ...]
    per: Bounded
    shares: bool = False

    @property
    def needs_rows(self) -> bool:
        """Whether a histogram depends on a limit of rows: if it counts rows."""
        return self.per == "row"

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return the output columns of a histogram: one for each bin."""
        return tuple(f"{name}_{suffix}" for suffix in self.suffixes)

    def check(self, name: str, schema: Schema) -> None:
        """Check that the column of a histogram has the type of its bins."""
        super().check(name, schema)
        if isinstance(self.bins, Edges):
            check_numeric(name, self.column, schema)
            return
        called, wanted = KINDS[type(self.bins.values[0])]
        found = schema[self.column]
        whole = wanted == "BIGINT" and found.kind is Kind.INTEGER
        if not whole and found.type_name != wanted:
            raise ColumnError(
                f"agg: {name} counts {called} of column {self.column!r}, which is {found.type_name}; give "
                f"values of its own type, or use try_cast({format_name(self.column)} AS {wanted}) {IN_PLACE}"
            )

    def meaning(self, written: Mapping[str, str]) -> str:
        """Return what a histogram counts, and its number of bins."""
        kind, of = ("shares" if self.shares else "numbers"), "units" if self.per == "unit" else "rows"
        column = written.get(self.column, self.column)
        return f"{kind} of {of} by {column}, {self.bins.count} bins"

    def estimates(self, design: Design, name: str) -> tuple[Estimate, ...]:
        """Return the estimates of a histogram's bins."""
        return self._estimates(design, name, None)

    def weighted_estimates(self, design: Design, name: str, aggregate: Weighted) -> tuple[Estimate, ...]:
        """Return the estimates of a histogram of the population."""
        return self._estimates(design, name, aggregate.weights)

    def _estimates(self, design: Design, name: str, weights: Weights | None) -> tuple[Estimate, ...]:
        """Return estimates of numbers or shares in bins; the same bins are counted once for both."""
        most = Fraction(1) if weights is None else weights.most
        names, outputs = self._counted(design, weights).names, self.outputs(name)
        if self.shares:
            least = float(most * min(Fraction(1), design.multiplier))
            pairs = zip(outputs, names, strict=True)
            return tuple(
                ShareEstimate(output, of, upper=1.0, least=least, bins=names) for output, of in pairs
            )
        return tuple(
            CountEstimate(o, of, whole=weights is None) for o, of in zip(outputs, names, strict=True)
        )

    def _counted(self, design: Design, weights: Weights | None) -> RowsInBins:
        """Add the statistic of the numbers in a histogram's bins, unless it is there."""
        once = self.per == "unit"
        of = {s.label: s for s in design.statistics.values() if isinstance(s, RowsInBins)}
        label, rows = f"{self.column}#{len(of) + 1}", 1 if once else design.rows
        exponent = Grid.for_noise(design.multiplier * rows).exponent
        made: RowsInBins
        if weights is None:
            make = UnitsInBins if once else RowsInBins
            made = make(label, self.column, rows, self.bins, min(design.whole_exponent, exponent))
        else:
            noise = design.multiplier * rows * weights.most
            grid = _weight_grid(design, weights, noise)
            # A unit that is scaled down needs finer steps than its weights.
            exponent = min(0, Grid.for_noise(noise).exponent - grid.exponent)
            made = WeightsInBins(
                label,
                self.column,
                rows,
                self.bins,
                exponent,
                weight=weights.column,
                weights=grid,
                once=once,
            )
        for one in of.values():
            if replace(made, label=one.label) == one:
                return one
        design.add(made)
        return made


@aggregate_function("HISTOGRAM")
def histogram(
    column: str,
    edges: Sequence[Number],
    *,
    outside: Literal["drop", "count"] = "drop",
    per: Bounded = "row",
    shares: bool = False,
    weight: str | None = None,
    max_weight: Number | None = None,
) -> Aggregate:
    """Count rows or units in bins between edges.

    Args:
        column: a numeric column.
        edges: increasing numbers, each rounded to the nearest float64; the first may be -inf and the last
            inf. A bin includes its lower edge, and the last bin its upper edge too.
        outside: "drop" numbers outside the edges, or "count" them in an extra bin on each side.
        per: "row" counts rows, at most `rows=` in all bins of a group together. "unit" counts each unit once;
            a unit with several rows is divided over their bins.
        shares: return shares of the total instead of counts.
        weight: a column of survey weights, to estimate counts in the population (expansion totals). With
            per="unit" a unit counts as much as the mean weight of its rows.
        max_weight: trim larger weights to this. Negative weights become 0; rows without a weight do not
            count.
    Returns:
        An aggregate with an output for each bin, such as `name_0_18` for the bin from 0 to 18; `name_under_0`
        and `name_over_65` outside the edges, and `name_under_18` and `name_from_65` for infinite edges. NULL
        and NaN are in no bin.
    Raises:
        QueryError: the column is not a name, or only one of `weight` and `max_weight` is given.
        ParameterError: edges are not at least two increasing numbers, there are more than 1,000 bins (100 for
            shares), or another argument is not valid.

    >>> histogram("age", [0, 18, 65], outside="count").outputs("age")
    ('age_under_0', 'age_0_18', 'age_18_65', 'age_over_65')

    Source:
        Dwork, McSherry, Nissim, Smith 2006, histograms. Proofs: docs/proofs/rows_in_bins.md, and with weights
        docs/proofs/weights_in_bins.md.
    """
    name = column_name("histogram", column)
    numbers = _edges(edges)
    one_of(outside, "outside", ("drop", "count"))
    one_of(per, "per", get_args(Bounded))
    counted = outside == "count"
    ends = counted and numbers[0] > -math.inf, counted and numbers[-1] < math.inf
    bins = Edges(numbers, *ends)
    texts = [_format_edge(number) for number in numbers]
    suffixes = [f"{low}_{high}" for low, high in pairwise(texts)]
    if numbers[0] == -math.inf:
        suffixes[0] = f"under_{texts[1]}"
    if numbers[-1] == math.inf:
        suffixes[-1] = f"from_{texts[-2]}" if len(texts) > 2 or numbers[0] > -math.inf else "all"
    if ends[0]:
        suffixes.insert(0, f"under_{texts[0]}")
    if ends[1]:
        suffixes.append(f"over_{texts[-1]}")
    asked = _made(InBins(name, bins, tuple(suffixes), per, truth_value(shares, "shares")), "edges")
    return weighted(asked, get_weights("histogram", weight, max_weight))


@aggregate_function("VALUE_COUNTS")
def value_counts(
    column: str,
    values: Sequence[Any],
    *,
    other: bool = False,
    per: Bounded = "row",
    shares: bool = False,
    weight: str | None = None,
    max_weight: Number | None = None,
) -> Aggregate:
    """Count rows or units for each listed value of a column.

    Args:
        column: a column of text, whole numbers, truth values or dates.
        values: public values of the column's type, which you know beforehand and do not read from the data.
        other: whether to count rows with other values together, in one extra bin.
        per, shares, weight, max_weight: as for `histogram`.
    Returns:
        An aggregate with an output for each value, such as `name_small` for "small", and `name_other` for
        other values. If two names differ only in case, the position in the list is added. NULL does not
        count.
    Raises:
        QueryError: the column is not a name, or only one of `weight` and `max_weight` is given.
        ParameterError: values are not 1 to 1,000 (100 for shares) distinct values of one type, or another
            argument is not valid.
    Source:
        as `histogram`.

    >>> value_counts("size", ["small", "large"], other=True).outputs("size")
    ('size_small', 'size_large', 'size_other')
    """
    name = column_name("value_counts", column)
    listed, expected = _listed(values), "texts, whole numbers of 64 bits, truth values or dates, of one kind"
    kinds = {type(value) for value in listed}
    if len(kinds) != 1 or not kinds <= set(KINDS) or not all(map(_plain, listed)):
        raise ParameterError("values", values, f"a list of {expected}")
    if len(set(listed)) < len(listed):
        raise ParameterError("values", values, "distinct, with none of them twice")
    one_of(per, "per", get_args(Bounded))
    bins = Listed(tuple(listed), truth_value(other, "other"))
    suffixes = [str(value).lower() if isinstance(value, bool) else str(value) for value in listed]
    suffixes += ["other"] * other
    asked = _made(InBins(name, bins, _different(suffixes), per, truth_value(shares, "shares")), "values")
    return weighted(asked, get_weights("value_counts", weight, max_weight))


def _made(aggregate: InBins, name: str) -> InBins:
    """Return a histogram, unless it has too many bins."""
    most = MAX_SHARES if aggregate.shares else MAX_BINS
    if aggregate.bins.count > most:
        raise ParameterError(name, f"{aggregate.bins.count:,} bins", f"at most {most:,} bins")
    return aggregate


def _edges(edges: Any) -> tuple[float, ...]:
    """Return the edges of a histogram's bins as float64."""
    found: list[float] = []
    with suppress(Exception):  # of whoever gives them
        if not isinstance(edges, (str, bytes, Mapping)):
            found = [_edge(edge) for edge in edges]
    increasing = all(one < other for one, other in pairwise(found))
    if len(found) < 2 or not increasing:
        raise ParameterError(
            "edges", edges, "at least two numbers, each greater than the one before: [0, 18, 65]"
        )
    return tuple(found)


def _edge(edge: Any) -> float:
    if isinstance(edge, float) and math.isinf(edge):
        return edge
    return float(as_fraction(edge, "edges")) + 0.0


def _listed(values: Any) -> list[Any]:
    with suppress(Exception):  # of whoever gives them
        if isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping)):
            return [v.item() if getattr(v, "shape", None) == () else v for v in values]
    raise ParameterError("values", values, "a list of values")


def _plain(value: Any) -> bool:
    """Whether a listed value can be compared with the values of columns."""
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return not isinstance(value, datetime)


def _format_edge(number: float) -> str:
    """Return the edge of a bin as text; different edges have different texts."""
    text = f"{number:g}"
    if float(text) == number:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**63 else repr(number)


def _different(suffixes: Sequence[str]) -> tuple[str, ...]:
    """Return names of bins that differ by more than case; with their places if they would not."""
    times = Counter(s.casefold() for s in suffixes)
    found = [s if times[s.casefold()] == 1 else f"{s}_{i + 1}" for i, s in enumerate(suffixes)]
    again = len({s.casefold() for s in found}) < len(found)
    return tuple(f"{i + 1}_{s}" for i, s in enumerate(suffixes)) if again else tuple(found)


# Noise on a sum of weights has no more steps than 2^45, as long as weights have 2^4.
_NOISE_BITS, _FEWEST_BITS = 45, 4


@dataclass(frozen=True)
class ShareEstimate(Estimate):
    """The estimate of the share of one bin of a histogram.

    Args:
        bins: the coordinates of all bins.
    """

    kind = "share"

    bins: tuple[str, ...] = ()

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The noisy numbers of all bins of a histogram."""
        return self.bins

    def is_steady(self, numbers: NoisyNumbers) -> NDArray[np.bool_]:
        """Whether the noisy sum of all bins is large beside its noise."""
        total = np.sum([numbers.values[name] for name in self.bins], axis=0)
        return is_sure(total, numbers.noises.deviation(ones(dict.fromkeys(self.bins, 1.0))))

    def value(self, numbers: NoisyNumbers) -> Floats:
        """Return the noisy share of a bin, from 0 to 1."""
        total = np.sum([numbers.values[name] for name in self.bins], axis=0)
        share: Floats = np.clip(numbers.values[self.count] / np.maximum(total, self.least), 0.0, 1.0)
        return share

    def interval(self, numbers: NoisyNumbers, failure: float) -> Interval:
        """Return Fieller's interval of a bin's share, whose noise is in the sum of all bins too."""
        whole = dict.fromkeys(self.bins, 1.0)
        return numbers.noises.ratio(numbers.values, {self.count: 1.0}, whole, (0.0, 1.0), failure)


def _weight_grid(design: Design, weights: Weights, noise: Fraction) -> WeightGrid:
    """Return the grid of a histogram's weights: whole ones stay whole, coarser if there is much noise."""
    whole = (
        design.schema[weights.column].kind in (Kind.INTEGER, Kind.BOOLEAN) and weights.most.denominator == 1
    )
    least = WeightGrid.up_to(weights.most, whole).exponent
    coarse = min(
        Grid.for_noise(noise, _NOISE_BITS).exponent, Grid.for_noise(weights.most, _FEWEST_BITS).exponent
    )
    grid = Grid(max(least, coarse))
    return WeightGrid(grid.exponent, grid.steps_at_least(weights.most))
