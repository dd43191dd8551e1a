"""The comparison of two groups of a release, and shares of a total: post-processing, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Sentences, TextCard
from sfumato.errors import QueryError, RefusalError, nearest
from sfumato.errors import shown as written
from sfumato.measurements.int128_array import arrow_column
from sfumato.noise.law_tails import Floats
from sfumato.noise.noise_sums import ONE, Form, Interval, fieller, quotient
from sfumato.plan.noisy_statistics import NoisyBatch, NoisyNumbers
from sfumato.query.aggregates import Estimate
from sfumato.query.error_bars import NO_BIAS, UNBIASED, Bars, Bias

if TYPE_CHECKING:
    from sfumato.release.sampling_error import Sampled


@dataclass(frozen=True, repr=False)
class Comparison(TextCard):
    """The difference and the ratio of one output in two groups of a release.

    Args:
        output: the name of the output.
        first, second: its values in the two groups.
        confidence: the confidence of each interval.
        difference, ratio: the intervals of first - second and of first / second; infinite where the noise
            allows any value.
        sampling: whether the intervals cover a population of which the units are a random sample, rather than
            the exact statistics of these rows.
        bias: the bias from limits and bounds, which no interval includes.

    Made by `NoisyTable.compare`.

    >>> visits = Comparison("visits", 940.0, 800.0, 0.95, (105.0, 175.0), (1.12, 1.23))
    >>> visits.excludes_zero
    True
    >>> print(visits)
    visits: 940 and 800; difference 140 (105 to 175), ratio 1.175 (1.12 to 1.23)
    95% intervals: each covers the noise, not sampling error.
    """

    output: str
    first: float
    second: float
    confidence: float
    difference: tuple[float, float]
    ratio: tuple[float, float]
    sampling: bool = False
    bias: Bias = UNBIASED

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval of the difference excludes 0.

        Without `sampling` the interval covers the noise alone. An interval without 0 then says that the two
        groups of this table differ, and nothing about a population or an effect. Use `compare(...,
        sampling=True)` to test whether two groups of a population differ.
        """
        low, high = self.difference
        return low > 0 or high < 0

    def _card(self) -> Card:
        return Card(f"Two groups compared by {self.output}", [Sentences(str(self).splitlines())])

    def __str__(self) -> str:
        less, more = self.difference
        low, high = self.ratio
        ratio = self.first / self.second if self.second else float("nan")
        apart = f"difference {self.first - self.second:.4g} ({less:.4g} to {more:.4g})"
        times = f"ratio {ratio:.4g} ({low:.4g} to {high:.4g})"
        values = f"{self.output}: {self.first:.6g} and {self.second:.6g}"
        bars = Bars(self.confidence, sampling=self.sampling)
        return f"{values}; {apart}, {times}\n{covered(bars, self.bias)}"


def covered(bars: Bars, bias: Bias) -> str:
    """Return a sentence on what the intervals of a comparison cover, and what not."""
    left = f" Each {NO_BIAS}." if bias else ""
    return f"{bars.confidence * 100:.4g}% intervals: each covers {bars._covers(bias)}.{left}"


ELSEWHERE = {
    "compare": "two groups differ by what the output is in one less the other, within the sum of both error "
    "bars, with a confidence of 95%",
    "share_of_total": "with totals() the row of all groups is there too, and a share is from (n - n_error) / "
    "(total + total_error) to (n + n_error) / (total - total_error), with a confidence of 95%",
}


def only_here(method: str, what: str) -> RefusalError:
    """Make the error that groups cannot be compared where a release's noisy parts stay with workers.

    Args:
        method: of `Release`, which has no place there.
        what: a release there.
    """
    return RefusalError(
        f"{method}: {what} has only the released columns, without the noise that groups share. "
        "Compute it from error bars of two numbers at once, release(..., confidence=0.975): "
        f"{ELSEWHERE[method]}"
    )


def compare_groups(
    batches: Sequence[NoisyBatch],
    output: str,
    first: object,
    second: object,
    bars: Bars,
    bias: Bias,
    sampled: Sampled | None,
) -> Comparison:
    """Compare an output of two groups: return difference and ratio with intervals.

    They are those of the law of the noise in both groups. With the sampling error, and where that law is not
    known, the intervals of the two groups, each of which fails half as often, say how far they are apart.

    Args:
        batches: the whole release.
        output: whose values are compared.
        first, second: keys: a value, or several by name or in order.
        bars: the confidence of each interval.
        bias: what limits and bounds can change in the release.
        sampled: what makes intervals with the sampling error, where these are to hold it.
    Raises:
        QueryError: there is no such output, or no such group among those that are shown; or it has no
            interval with the sampling error.
    """
    estimate = get_estimate(batches, output)
    failure = 1 - bars.confidence
    places = [_place(batches, key) for key in (first, second)]
    rows = [_row(*place) for place in places]
    shown = [float(estimate.output(numbers)[row].as_py()) for numbers, row in rows]
    found = None if sampled is not None else _form_intervals(estimate, rows, places[0] == places[1], failure)
    if found is None:
        interval = estimate.interval if sampled is None else sampled.make_interval(estimate)
        sides = [_at(interval(numbers, failure / 2), row) for numbers, row in rows]
        found = sides[0] - sides[1], sides[0] / sides[1]
    apart, times = ((float(i.low[0]), float(i.high[0])) for i in found)
    return Comparison(output, shown[0], shown[1], bars.confidence, apart, times, sampled is not None, bias)


Row = tuple[NoisyNumbers, int]


def _form_intervals(
    estimate: Estimate, rows: Sequence[Row], same: bool, failure: float
) -> tuple[Interval, Interval] | None:
    """Return the intervals of difference and ratio by the law of the noise; None where it is not known."""
    one_error, other_error = (error_form(estimate, *row, failure) for row in rows)
    if one_error is None or other_error is None:
        return None
    (first, one), (second, other) = one_error, other_error
    noises, none = rows[0][0].noises, Form({})
    top, bottom = ([(1, one)], [(1, other)]) if same else ([(1, one), (1, none)], [(1, none), (1, other)])
    along = noises.along(top, bottom, failure)
    apart = [(n, a.plus(b, -1.0)) for (n, a), (_, b) in zip(top, bottom, strict=True)]
    half = np.array([noises.reach(apart, failure)])
    middle = np.array([first - second])
    return Interval(middle - half, middle + half), quotient(np.array([first]), np.array([second]), along)


def error_form(
    estimate: Estimate, numbers: NoisyNumbers, row: int, failure: float
) -> tuple[float, Form] | None:
    """Return the value of an output in a group, and its error as a form of the noise; None if it is none.

    The error of a ratio m is that of top - m bottom over the noisy bottom, at the end of its interval where
    that varies most.
    """
    if estimate.forms is None or numbers.levels is not None or numbers.totals is not None:
        return None
    (top, bottom), noises = estimate.forms, numbers.noises
    above, below = (float(form.value(numbers.values)[row]) for form in (top, bottom))
    if bottom == ONE:
        return above, top
    if abs(below) <= noises.reach([(1, bottom)], failure):
        return None
    interval = _at(estimate.interval(numbers, failure), row)
    if not np.isfinite([interval.low, interval.high]).all():
        return None
    ends = (
        Form({}).plus(top, 1 / below).plus(bottom, -float(end[0]) / below)
        for end in (interval.low, interval.high)
    )
    return above / below, max(ends, key=lambda form: float(noises.deviation(form.weights)[0]))


def shares(
    batches: Sequence[NoisyBatch], output: str, bars: Bars, bias: Bias, sampled: Sampled | None
) -> pa.Table:
    """Return each group's share of the total over all groups that are shown, with intervals.

    Args:
        batches: the whole release.
        output: a count or a sum.
        bars: the confidence of each interval.
        bias: what limits and bounds can change in the release.
        sampled: what makes intervals with the sampling error, where these are to hold it.
    Returns:
        The keys, `share`, and its interval from `low` to `high`.
    Raises:
        QueryError: there is no such output, or it does not add up; or it has no interval with the sampling
            error.
    """
    estimate = get_estimate(batches, output)
    if batches[0].measurement.totals is not None:
        raise QueryError(
            "share_of_total: this release has totals with its groups. Use compare() for the ratio of two rows"
        )
    if estimate.linear is None:
        raise QueryError(f"share_of_total: {output!r} does not add up over groups. Use a count or a sum")
    failure, numbers = 1 - bars.confidence, batches[0].numbers
    form, count = Form(estimate.linear), estimate.kind == "count"
    # Forms, as values may have a part that was clipped: over many groups that would add up.
    value = np.concatenate([form.value(b.numbers.values) for b in batches])
    others, whole = max(len(value) - 1, 0), np.full(len(value), value.sum())
    if sampled is None and numbers.totals is None:
        top, bottom = ([(1, form), (others, of)] for of in (Form({}), form))
        along = numbers.noises.along(top, bottom, failure)
        found = fieller(value, whole, along, (0.0, 1.0)) if count else quotient(value, whole, along)
    else:
        found = _share_interval(batches, estimate, value, failure / 2, sampled)
    columns = {"share": value / np.where(whole == 0, np.nan, whole), "low": found.low, "high": found.high}
    keys = pa.Table.from_batches([b.keys for b in batches])
    made = pa.table(
        [*keys.columns, *map(arrow_column, columns.values())], names=[*keys.column_names, *columns]
    )
    return made.replace_schema_metadata({"intervals": covered(bars, bias)})


def _share_interval(
    batches: Sequence[NoisyBatch],
    estimate: Estimate,
    value: Floats,
    failure: float,
    sampled: Sampled | None,
) -> Interval:
    """Return the intervals of shares by those of each group and of the others, which fail half as often."""
    # With the sampling error, one half of each part is for the noise and one for the sample.
    noise = failure if sampled is None else failure / 2
    own = [estimate.interval(b.numbers, noise) for b in batches]
    each = Interval(np.concatenate([i.low for i in own]), np.concatenate([i.high for i in own]))
    others, form = len(value) - 1, Form(estimate.linear or {})
    noises = batches[0].numbers.noises
    # Of time steps the noises depend on each other: a sum is off by no more than all of them.
    parts = others * noises.reach([(1, form)], noise) if batches[0].numbers.totals else None
    half = noises.reach([(others, form)], noise) if parts is None and others else parts or 0.0
    rest = value.sum() - value
    if estimate.kind == "count":  # no exact count is below 0
        each = each.map(lambda x: np.maximum(x, 0.0))
    # Where all the others add up to more than 0, and with this one too, a share grows with its group; more of
    # the others bring it nearer to 0.
    least, most = rest - half, rest + half
    if sampled is not None:
        each, of_others = sampled.parts(estimate, each, Interval(least, most), noise)
        least, most = of_others.low, of_others.high
    low = _share(each.low, np.where(each.low > 0, most, least))
    high = _share(each.high, np.where(each.high > 0, least, most))
    sure = (least > 0) & (each.low + least > 0)
    edges = (0.0, 1.0) if estimate.kind == "count" else (-np.inf, np.inf)
    return Interval(*(np.where(sure, end, edge) for end, edge in zip((low, high), edges, strict=True)))


def get_estimate(batches: Sequence[NoisyBatch], output: object) -> Estimate:
    """Return the estimate of an output that groups are compared by.

    Raises:
        QueryError: there is none of this name, or it is a list.
    """
    known = {e.name: e for e in batches[0].measurement.requirements.estimates}
    if not isinstance(output, str) or output not in known:
        near = nearest(str(output), known)
        hint = f"; did you mean {near!r}?" if near else "."
        raise QueryError(f"there is no output {written(output)}{hint} There are: {', '.join(known)}")
    if known[output].entries:
        raise QueryError(f"{output!r} has a list of numbers in each group. Compare outputs of one number")
    return known[output]


def _place(batches: Sequence[NoisyBatch], key: object) -> tuple[NoisyBatch, int]:
    """Return the row of a group in the comparison; it is public which groups are shown."""
    names = batches[0].keys.schema.names
    if isinstance(key, Mapping):
        if set(key) != set(names):
            raise QueryError(
                f"compare: a group is identified by {', '.join(names)}, not by {', '.join(map(str, key))}"
            )
        given: tuple[Any, ...] = tuple(key[name] for name in names)
    else:
        given = tuple(key) if isinstance(key, (tuple, list)) else (key,)
    if len(given) != len(names):
        raise QueryError(f"compare: a group is identified by {', '.join(names) or 'nothing: there is one'}")
    # Numbers of NumPy are Python's; an array is no key.
    given = tuple(part.item() if isinstance(part, np.generic) else part for part in given)
    if any(isinstance(part, np.ndarray) for part in given):
        raise QueryError("compare: a group must be a key, or a tuple or a dict of several, not an array")
    for batch in batches:
        for row, found in enumerate(zip(*(c.to_pylist() for c in batch.keys.columns), strict=True)):
            if found == given:
                return batch, row
    raise QueryError(f"compare: no group {written(key)} is shown")


def _row(batch: NoisyBatch, place: int) -> Row:
    """Return the noisy statistics of a group, and its row in them."""
    own = batch.numbers.row(place)
    return (batch.numbers, place) if own is None else (own, 0)


def _at(interval: Interval, row: int) -> Interval:
    return Interval(interval.low[row : row + 1], interval.high[row : row + 1])


def _share(part: Floats, rest: Floats) -> Floats:
    whole = part + rest
    return np.asarray(part / np.where(whole == 0, np.nan, whole))
