"""Inferred bounds of values: noisy histograms of a column's values, and the bounds that follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import RefusalError
from sfumato.guidance.histogram_tail import FINE, Floats, Side
from sfumato.noise import Words
from sfumato.plan.plan import Plan
from sfumato.plan.planning import make_plan
from sfumato.query.aggregates import LARGEST_MAGNITUDE, Aggregate, Automatic, InBins, Sum
from sfumato.query.engine_protocol import Engine
from sfumato.query.query import Query
from sfumato.query.schema import Kind, Step, format_name
from sfumato.query.tables.combined_tables import per_unit
from sfumato.query.tables.table_part import Part
from sfumato.release.release import Release
from sfumato.transformations import Edges

# Of the share for finding bounds: to find where values are, then how far they go, and where they turn out to
# be close together, once more.
PARTS = Fraction(1, 5), Fraction(11, 20), Fraction(1, 4)
# If there are more units than so many scales of the first histogram's noise, later ones show as much
# with less of the share: ever less with the fourth root, down to a half of it, in steps that sums of years
# keep short.
_FEW, _MIN_REST, _STEPS = 120.0, Fraction(1, 2), 64
MIN_LOOK = min(PARTS[0], *(part * _MIN_REST for part in PARTS[1:]))
# Octaves up to here have a bin each; beyond, several have one together.
_USUAL, _TOGETHER = 64, 8
_APART = 1.25  # how many times each other ends of magnitudes and the powers of two next to them are at least
_OCTAVES_AROUND = 6
# Bins of the same width: so many that each has some times the scale of the noise.
_MIN_EVEN, _MAX_EVEN, _WELL_FILLED = 8, 64, 4.0
# How often noise is taken for values nearer to zero than the others: seldom, as values that are close
# together, as years are, would get bounds from zero on. If there are some, the next histogram shows them.
_INWARDS = 1e-9
_CLOSE = 8.0  # values of one sign, the largest no more times the smallest
_RESOLVED = 6.0  # bins of the same width between bounds, with fewer of which a finer histogram is drawn


@dataclass(frozen=True)
class Histogram:
    """A noisy histogram of a column's values, by units; the end bins hold all that is beyond them.

    Args:
        edges: of the bins, one more than these.
        counts: noisy numbers.
        scale: of each number's Laplace noise.
    """

    edges: Floats
    counts: Floats
    scale: float

    def from_centre(self, centre: float) -> tuple[Side, Side]:
        """Return both sides of the histogram outwards from a centre."""
        below = int(np.searchsorted(self.edges, centre, side="right")) - 1
        above = int(np.searchsorted(self.edges, centre))
        ones = np.ones(len(self.counts), np.int64)
        return (
            Side(centre - self.edges[below::-1], self.counts[:below][::-1], ones[:below], self.scale),
            Side(self.edges[above:] - centre, self.counts[above:], ones[above:], self.scale),
        )

    @property
    def middle(self) -> float:
        """An edge of the histogram near the median of the values."""
        below = np.maximum.accumulate(np.cumsum(self.counts))
        at = int(np.searchsorted(below, below[-1] / 2)) if below[-1] > 0 else len(self.counts) // 2
        return float(self.edges[min(at, len(self.edges) - 2)])


# Gives a noisy histogram with edges, for a part of what may be spent.
DrawHistogram = Callable[[Floats, Fraction], Histogram]


def ladder(magnitudes: tuple[Fraction, Fraction] | None, is_integer: bool, wide: bool = False) -> Floats:
    """Return the edges of the first histogram from which bounds are inferred: zero and powers of two.

    Args:
        magnitudes: the smallest and the largest that are known; None where nobody knows.
        is_integer: whether values are whole numbers.
        wide: whether these may have more than 64 bits.
    """
    up: Floats
    if magnitudes is not None:
        least, most = map(float, magnitudes)
        # Powers of two, of which none is next to an end: what is known makes no histogram worse.
        powers = np.exp2(np.arange(math.ceil(math.log2(least)), math.floor(math.log2(most)) + 1.0))
        inside = powers[(powers > least * _APART) & (powers < most / _APART)]
        up = np.array([least, *inside, most], dtype=np.float64)
    elif is_integer:
        up = np.exp2(np.arange(65, dtype=np.float64))
        if wide:
            up = np.append(up, np.exp2(np.arange(64.0 + _TOGETHER, 129.0, _TOGETHER)))
    else:
        last = math.floor(math.log2(LARGEST_MAGNITUDE))
        far = np.arange(_USUAL + _TOGETHER, last, _TOGETHER)
        up = np.exp2(np.concatenate([-far[::-1], np.arange(-_USUAL, _USUAL + 1.0), far]))
        up = np.append(up, float(LARGEST_MAGNITUDE))
    return np.concatenate([-up[::-1], [0.0], up])


def find_bounds(
    draw: DrawHistogram,
    edges: Floats,
    noise: float,
    fixed: tuple[float | None, float | None] = (None, None),
    *,
    sparing: bool = True,
) -> tuple[float, float]:
    """Return inferred bounds: those with the least noise and clamping error, from noisy histograms.

    Args:
        draw: gives noisy histograms.
        edges: of the first one, symmetric around zero.
        noise: deviation of a total's noise, for bounds that are one apart.
        fixed: bounds that are known.
        sparing: whether histograms of many units take less than their parts; the release gets the rest.
    """
    first = draw(edges, PARTS[0])
    lower, upper = _reached(first)
    units = max(first.counts[(edges[:-1] >= lower) & (edges[1:] <= upper)].sum(), 0.0)
    rest = _rest(units / first.scale) if sparing else Fraction(1)
    near, far = sorted((abs(lower), abs(upper)))
    if lower * upper > 0 and far <= _CLOSE * near:
        low, high = _close(draw, first, (lower, upper), units, rest, noise, fixed)
    else:
        up = _finer(edges[edges > 0], far)
        seen = draw(np.concatenate([-up[::-1], [0.0], up]), sum(PARTS[1:]) * rest)
        low, high = _infer_both_sides(seen, 0.0, (lower, upper), noise, fixed, first)
    return max(low, float(edges[0])), min(high, float(edges[-1]))


def _rest(units: float) -> Fraction:
    """Return the part of its budget that each later histogram takes, given the number of units."""
    part = (_FEW / max(units, _FEW)) ** 0.25
    return max(Fraction(math.ceil(part * _STEPS), _STEPS), _MIN_REST)


def _close(
    draw: DrawHistogram,
    first: Histogram,
    reached: tuple[float, float],
    units: float,
    rest: Fraction,
    noise: float,
    fixed: tuple[float | None, float | None],
) -> tuple[float, float]:
    """Return inferred bounds of values of one sign that are close together, from histograms of even bins.

    Args:
        draw, noise, fixed: as of `find_bounds`.
        first: the first histogram.
        reached: between which of its edges there are values.
        units: how many there are, about.
        rest: how much of their parts histograms take.
    """
    edges, (low, high) = first.edges, reached
    drawn = [first]
    for part in (part * rest for part in PARTS[1:]):
        width = high - low
        if not width > 0:  # float64 has no other number there
            break
        each = _WELL_FILLED * first.scale * float(PARTS[0] / part)
        bins = 2 * min(max(int(units / each), _MIN_EVEN), _MAX_EVEN)
        if len(drawn) == 1:
            out = width * 2 ** (np.arange(FINE * 3) / FINE)
            even = np.linspace(low - width / 2, high + width / 2, bins + 1)
            around = np.unique(np.clip(np.concatenate([low - out, even, high + out]), edges[0], edges[-1]))
        else:
            around = _divide_range(drawn[-1].edges, low - width / 2, high + width / 2, 2 * width / bins)
        if len(around) < bins:  # float64 has hardly any more between them
            break
        seen = draw(around, part)
        centre = seen.middle
        sides = [side.coarse() for side in seen.from_centre(centre)]
        # Where values are seen on one side of the middle, less is enough to see them on the other. Where not
        # even that is there, they are as far as an earlier histogram had any, or all on one side.
        inside = any(side.last_run() for side in sides)
        if inside:
            down, up = (
                _distance_in_last_histogram(drawn, centre, i, float(sides[i].edges[:2][-1])) for i in (0, 1)
            )
            low, high = centre - down, centre + up
        before = drawn[-1] if len(drawn) > 1 else None
        low, high = _infer_both_sides(seen, centre, (low, high), noise, fixed, before, inside)
        drawn.append(seen)
        if high - low > width * _RESOLVED * 2 / bins:
            break
    # No values were seen on the other side of zero: if a finer histogram has all of them there, it is noise.
    low, high = (max(low, 0.0), high) if reached[0] > 0 else (low, min(high, 0.0))
    return (low, high) if low < high else reached


def _distance_in_last_histogram(drawn: list[Histogram], centre: float, side: int, nearest: float) -> float:
    """Return how far from a centre the last histogram with values on one side has them.

    In the bin that has the centre nothing is on either side.
    """
    for one in reversed(drawn):
        bins = one.from_centre(centre)[side].coarse()
        run = bins.last_run(inside=True)
        if run is not None:
            return float(bins.edges[run[0] + 1])
    return nearest


def _finer(edges: Floats, far: float) -> Floats:
    """Return the edges of a finer histogram, some octaves around a distance."""
    ends = np.array([far * 2.0**-_OCTAVES_AROUND * (1 + 1e-9), far * 2.0**_OCTAVES_AROUND * (1 - 1e-9)])
    first, last = np.searchsorted(edges, ends)
    kept = edges[max(first - 1, 0) : last + 1]
    pieces = np.maximum(np.ceil(FINE * np.log2(kept[1:] / kept[:-1]) - 1e-9), 1).astype(int)
    between = [
        start * (end / start) ** (np.arange(parts) / parts)
        for start, end, parts in zip(kept[:-1], kept[1:], pieces, strict=True)
    ]
    return np.concatenate([*between, kept[-1:]])


def _divide_range(edges: Floats, low: float, high: float, width: float) -> Floats:
    """Return the edges of a histogram whose bins divide those between two ends."""
    first = max(int(np.searchsorted(edges, low, side="right")) - 1, 0)
    last = min(int(np.searchsorted(edges, high)), len(edges) - 1)
    between = [
        np.linspace(start, end, max(round(min((end - start) / width, 2 * _MAX_EVEN)), 1), endpoint=False)
        for start, end in zip(edges[first:last], edges[first + 1 : last + 1], strict=True)
    ]
    return np.unique(np.concatenate([edges[:first], *between, edges[last:]]))


def _reached(seen: Histogram) -> tuple[float, float]:
    """Return the outermost edges of a histogram between which there are values."""
    ends, sides = [], [side.coarse() for side in seen.from_centre(0.0)]
    for side, sign in zip(sides, (-1, 1), strict=True):
        last = side.last_run()
        if last is not None:
            turned = Side(side.edges[-1] - side.edges[::-1], side.counts[::-1], side.terms[::-1], side.scale)
            inwards = turned.run_beyond_noise(_INWARDS)
            first = len(side.counts) - 1 - (last if inwards is None else inwards)[0]
            ends += [sign * side.edges[min(first, last[0])], sign * side.edges[last[0] + 1]]
    if not ends:
        (_, first, end), sign = min(
            (side.likeliest_run(), sign) for side, sign in zip(sides, (-1, 1), strict=True)
        )
        ends = [sign * sides[sign > 0].edges[at] for at in (first, end)]
    return float(min(ends)), float(max(ends))


def _infer_both_sides(
    seen: Histogram,
    centre: float,
    found: tuple[float, float],
    noise: float,
    fixed: tuple[float | None, float | None],
    before: Histogram | None = None,
    inside: bool = False,
) -> tuple[float, float]:
    """Return inferred bounds on both sides of a centre; the earlier ones if no values stand out.

    Args:
        seen: the latest histogram.
        centre: from which distances are counted.
        found: the bounds so far.
        noise, fixed: as of `find_bounds`.
        before: the histogram before.
        inside: whether values are seen on one side of the centre, which is their middle.
    """
    below, above = (side.coarse() for side in seen.from_centre(centre))
    wider = (None, None) if before is None else before.from_centre(centre)
    ends = (end if known is None else known for end, known in zip(found, fixed, strict=True))
    down, up = (max(sign * (end - centre), 0.0) for sign, end in zip((-1, 1), ends, strict=True))
    for _ in range(2):
        if fixed[1] is None:
            up = above.bound(noise, down, up, wider[1], inside)
        if fixed[0] is None:
            down = below.bound(noise, up, down, wider[0], inside)
    return centre - down, centre + up


Aggregates = tuple[tuple[str, Aggregate], ...]


@dataclass(frozen=True)
class Values:
    """The values whose bounds are inferred: of a column in rows, or units' totals in groups.

    Args:
        column: the column.
        totals: whether each unit's total in a group is bounded, in place of each row.
        lower, upper, magnitudes: as of `Automatic`.
    """

    column: str
    totals: bool
    lower: Fraction | None
    upper: Fraction | None
    magnitudes: tuple[Fraction, Fraction] | None

    @classmethod
    def from_aggregate(cls, aggregate: Automatic, rows: int | None, beside: tuple[Automatic, ...]) -> Values:
        """Return the values that an aggregate with automatic bounds bounds."""
        one, known = aggregate.placeholder, (aggregate.lower, aggregate.upper, aggregate.magnitudes)
        by_rows = cls(aggregate.column, False, *known)
        if not isinstance(one, Sum) or one.per == "row":
            return by_rows
        shared = rows == 1 and one.per is None
        if shared and any(
            cls.from_aggregate(a, rows, ()) == by_rows for a in beside if not isinstance(a.placeholder, Sum)
        ):
            return by_rows
        return cls(aggregate.column, True, *known)

    @property
    def fixed(self) -> tuple[float | None, float | None]:
        """The bounds that are given, and are not inferred."""
        lower, upper = (None if end is None else float(end) for end in (self.lower, self.upper))
        return lower, upper

    def within(self, ends: tuple[float | Fraction, float | Fraction]) -> tuple[Fraction, Fraction]:
        """Return inferred bounds in place of open ones, as every query accepts them."""
        given = self.lower, self.upper
        lower, upper = (Fraction(end) if one is None else one for end, one in zip(ends, given, strict=True))
        return admissible(lower, upper, (self.lower is not None, self.upper is not None))

    @property
    def description(self) -> str:
        """A description of the values whose bounds are inferred."""
        return f"{'unit totals' if self.totals else 'rows'} of {self.column!r}"


@dataclass(frozen=True)
class ValueHistograms:
    """Releases noisy histograms of values, from which bounds are inferred.

    Args:
        engine: what reads the rows.
        query: what is asked, of which unit, steps and keys are taken.
        part: the rows.
        values: what is bounded.
        words: a source of random words for tests.
    """

    engine: Engine[Any]
    query: Query
    part: Part
    values: Values
    words: Words | None = None

    @property
    def whole(self) -> bool:
        """Whether the values of the histograms are whole numbers."""
        return self.query.schema[self.values.column].kind is Kind.INTEGER and not self.values.totals

    @property
    def edges(self) -> Floats:
        """The edges of the first histogram."""
        wide = self.query.schema[self.values.column].type_name == "HUGEINT"
        return ladder(self.values.magnitudes, self.whole, wide)

    @property
    def known(self) -> tuple[Fraction, Fraction] | None:
        """Bounds that follow from the column's type, so that no histogram is needed."""
        boolean = self.query.schema[self.values.column].kind is Kind.BOOLEAN
        return (Fraction(0), Fraction(1)) if boolean and not self.values.totals else None

    @cached_property
    def _source(self) -> tuple[Engine[Any], tuple[Step, ...], str]:
        """The engine, steps and column from which the histograms are computed."""
        column = self.values.column
        if not self.values.totals:
            return self.engine, self.query.steps, column
        name = "total"
        while name.casefold() in {other.casefold() for other in self.query.schema}:
            name += "_"
        totals = per_unit(self.part, self.query.keys, {name: f"sum({format_name(column)})"})
        return self.engine.combined(totals), (), name

    def plan(self, edges: Floats, epsilon: Fraction) -> Plan:
        """Return the plan of one histogram: the number of units with values in each bin."""
        engine, steps, column = self._source
        bins = Edges((-math.inf, *edges[1:-1].tolist(), math.inf))
        asked = InBins(column, bins, tuple(map(str, range(bins.count))), "unit")
        schema = engine.schema(steps)
        looked = Query(engine.name, schema, self.query.unit, steps, (), None, None, None, (("n", asked),))
        return make_plan(looked, epsilon=epsilon, noise="laplace")

    def draw(self, edges: Floats, epsilon: Fraction) -> Histogram:
        """Release a noisy histogram of the values, for an epsilon.

        Args:
            edges: increasing; the first and the last bin also have all that is beyond them.
            epsilon: of this histogram.
        """
        plan = self.plan(edges, epsilon)
        shown = Release(plan, self._source[0], unsafe_words=self.words).to_arrow()
        counts = np.array([column[0].as_py() for column in shown.columns], dtype=np.float64)
        (deviation, *_) = plan.deviations.values()
        return Histogram(edges, counts, deviation / math.sqrt(2))


def open_values(aggregates: Aggregates, rows: int | None) -> dict[str, Values]:
    """Return the values whose bounds are to be inferred, by the name of the aggregate.

    Args:
        aggregates: of the query.
        rows: its limit of rows.
    """
    automatic = {name: a for name, a in aggregates if isinstance(a, Automatic)}
    return {name: Values.from_aggregate(a, rows, tuple(automatic.values())) for name, a in automatic.items()}


def apply_inferred_bounds(
    aggregates: Aggregates, bounds: Mapping[str, tuple[Fraction, Fraction]]
) -> Aggregates:
    """Return aggregates with inferred bounds in place of automatic ones, as far as they are known."""
    return tuple(
        (name, a.bounded(*bounds[name]) if isinstance(a, Automatic) and name in bounds else a)
        for name, a in aggregates
    )


def admissible(lower: Fraction, upper: Fraction, fixed: tuple[bool, bool]) -> tuple[Fraction, Fraction]:
    """Return inferred bounds moved so that every query accepts them: ordered, and at most 1e100.

    Args:
        lower, upper: as they were found.
        fixed: which of them were given, and stay; not both.
    """
    most = Fraction(LARGEST_MAGNITUDE)
    lower, upper = (
        end if stays else min(max(end, -most), most) for end, stays in zip((lower, upper), fixed, strict=True)
    )
    apart = max(max(abs(lower), abs(upper)) / 2**40, Fraction(1, LARGEST_MAGNITUDE))
    if upper - lower >= apart:
        return lower, upper
    if fixed[0]:
        return lower, lower + 2 * apart
    if fixed[1]:
        return upper - 2 * apart, upper
    middle = min(max((lower + upper) / 2, -most + apart), most - apart)
    return middle - apart, middle + apart


def check_preliminary(engine: Engine[Any]) -> None:
    """Refuse an engine that cannot answer preliminary queries, so that no bounds can be inferred.

    Raises:
        RefusalError: it is one.
    """
    if not engine.has_local_rows:
        raise RefusalError(
            f"{engine.name}: 'auto' bounds and limits need a preliminary query of the rows, but a "
            "pipeline has no rows yet. Give numbers, or release from a table opened with sf.scan"
        )
