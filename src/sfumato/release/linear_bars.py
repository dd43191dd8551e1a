"""Error bars of what SQL adds up over released rows: the law of a linear form of several groups' noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.noise.law_tails import Floats
from sfumato.noise.noise_sums import ONE, Form, Interval, Noises, balanced_half_width, quotient
from sfumato.plan.noisy_statistics import NoisyBatch
from sfumato.query.linear_forms import LinearColumn, Part, RatioParts

_Rows = dict[int, Form]  # a linear form of several groups: by released row, that of its noisy statistics
_Ratio = tuple[_Rows, _Rows]

HALF_WIDTHS_ALONE = (
    "errors: columns computed from several released rows have half-widths of the noise alone; leave kind and "
    "sampling out"
)


@dataclass(frozen=True, eq=False)
class LinearWidths:
    """Half-widths of columns that SQL computes from several rows of one release.

    Args:
        failure: the probability that a bar does not hold, in (0, 1).
        noises: the noise of the release.
        values: the noisy statistics of all released rows.
        forms: by output, the forms of which it is the ratio.
        own: these in each released row, where missing values that are clipped have no noise.
        missing: the numbers of missing values, which are clipped at 0.
    """

    failure: float
    noises: Noises
    values: Mapping[str, Floats]
    forms: Mapping[str, tuple[Form, Form]]
    own: Mapping[str, Sequence[tuple[Form, Form]]]
    missing: frozenset[str]

    @classmethod
    def of(cls, batches: Sequence[NoisyBatch], failure: float) -> LinearWidths:
        """Return half-widths by the noise of a release.

        Args:
            batches: all of it.
            failure: in (0, 1).
        """
        estimates = batches[0].measurement.requirements.estimates
        clipped = {name for e in estimates for name in e.null_counts}
        values = {
            name: np.concatenate([batch.numbers.values[name] for batch in batches])
            for name in batches[0].numbers.values
        }
        values |= {name: np.maximum(values[name], 0.0) for name in clipped}
        forms = {e.name: e.forms for e in estimates if e.forms}
        own = {
            e.name: [form for b in batches for form in _by_row(e.noisy_forms(b.numbers), b.keys.num_rows)]
            for e in estimates
            if e.forms
        }
        return cls(failure, batches[0].numbers.noises, values, forms, own, frozenset(clipped))

    def __call__(self, column: LinearColumn, weights: pa.Table, shown: Floats) -> Floats:
        """Return the half-widths of a column.

        Args:
            column: where its weights are.
            weights: all columns of weights.
            shown: the column.
        """
        listed = zip(*(weights[name].to_pylist() for name in column.names), shown.tolist(), strict=True)
        return np.array([self._half_width(column, row[:-1], row[-1]) for row in listed])

    def _half_width(self, column: LinearColumn, weights: Sequence[Any], shown: float) -> float:
        """Return the half-width of a number, given the weights of its ratios, and of the rows of its sums."""
        if weights[0] is None or not np.isfinite(shown):
            return np.inf
        alone = len({row[0] for rows in weights[1:] for row in rows or []}) == 1
        sums = [self._sum(own, rows or [], alone) for own, rows in zip(column.sums, weights[1:], strict=True)]
        whole, ratios = _Rows(), list[_Ratio]()
        for top, bottom in column.ratios:
            above, parts = self._weighted_sum(top, weights[0], sums)
            if bottom is None:
                _add(whole, above)
                ratios += parts
            else:
                ratios.append((above, self._weighted_sum(bottom, weights[0], sums)[0]))
        if len(ratios) == 1 and not any(form.weights for form in whole.values()):
            middle, own = self._value(whole), ratios[0]
            value = np.array([shown - middle])
            half = balanced_half_width(lambda part: self._quotient(*own, part), value, self.failure)[0]
        else:
            low, high = self._interval(whole, ratios)
            half = np.nan_to_num(max(high - shown, shown - low, 0.0), nan=np.inf)
        return float(half) + (0.0 if alone else self._shift(whole, ratios))

    def _sum(
        self, sides: Sequence[RatioParts], rows: Sequence[Sequence[float]], alone: bool
    ) -> tuple[_Rows, list[_Ratio]]:
        """Return what a sum adds up: a form, and the ratios of rows; `alone` if all is of one row."""
        whole, ratios = _Rows(), list[_Ratio]()
        for row in sorted(rows, key=list):
            for top, bottom in sides:
                above = {int(row[0]): self._form(top, row, alone)}
                if bottom is None:
                    _add(whole, above)
                else:
                    ratios.append((above, {int(row[0]): self._form(bottom, row, alone)}))
        return whole, ratios

    def _form(self, side: Mapping[Part, int], weights: Sequence[float], alone: bool) -> Form:
        found = Form({})
        for (name, of), place in side.items():
            forms = (self.own[name][int(weights[0])] if alone else self.forms[name]) if name else (ONE, ONE)
            found = found.plus(forms[of], weights[place])
        return found

    def _weighted_sum(
        self, side: Mapping[Part, int], weights: Sequence[float], sums: Sequence[tuple[_Rows, list[_Ratio]]]
    ) -> tuple[_Rows, list[_Ratio]]:
        """Return a weighted sum of sums."""
        whole, ratios = _Rows(), list[_Ratio]()
        for (name, _), place in side.items():
            if not name:
                _add(whole, {-1: ONE}, weights[place])
                continue
            form, parts = sums[int(name)]
            _add(whole, form, weights[place])
            for top, bottom in parts:
                scaled = _Rows()
                _add(scaled, top, weights[place])
                ratios.append((scaled, bottom))
        return whole, ratios

    def _value(self, rows: _Rows) -> float:
        return sum(
            form.constant + sum(float(w * self.values[name][row]) for name, w in form.weights.items())
            for row, form in rows.items()
        )

    def _quotient(self, top: _Rows, bottom: _Rows, failure: float) -> Interval:
        """Return Fieller's interval of a ratio of forms."""
        rows = [*top, *(row for row in bottom if row not in top)]
        one, other = ([(1, side.get(row, Form({}))) for row in rows] for side in (top, bottom))
        above, below = (np.array([self._value(side)]) for side in (top, bottom))
        return quotient(above, below, self.noises.along(one, other, failure))

    def _interval(self, whole: _Rows, ratios: Sequence[_Ratio]) -> tuple[float, float]:
        """Return the interval of a form plus ratios of forms.

        The error of a ratio is that of a form, (top - m bottom) / bottom with the noisy ratio m.
        """
        middle = self._value(whole)
        error = dict(whole)
        for top, bottom in ratios:
            down = self._value(bottom)
            if abs(down) <= self._reach(bottom):
                return -np.inf, np.inf
            ratio = self._value(top) / down
            _add(error, top, 1 / down)
            _add(error, bottom, -ratio / down)
            middle += ratio
        half = self._reach(error)
        return middle - half, middle + half

    def _shift(self, whole: _Rows, ratios: Sequence[_Ratio]) -> float:
        """Return how far clipped numbers of missing values move a sum over rows in expectation, at most.

        The mean of clipped noise is at most half of its standard deviation.
        """

        def moved(rows: _Rows) -> float:
            weights = [(n, float(abs(w))) for form in rows.values() for n, w in form.weights.items()]
            spread = {n: float(self.noises.deviation({n: np.ones(1)})[0]) for n in self.missing}
            return sum((w * spread[n] / 2 for n, w in weights if n in spread), 0.0)

        found = moved(whole)
        for top, bottom in ratios:
            down = self._value(bottom)
            ratio = abs(self._value(top) / down) if down else np.inf
            off = moved(top) + (ratio * moved(bottom) if moved(bottom) else 0.0)
            found += off / abs(down) if off else 0.0
        return found

    def _reach(self, rows: _Rows) -> float:
        """Return the half-width of a form; rows of equal weights are one part."""
        equal = Counter(tuple(sorted(form.weights.items())) for form in rows.values())
        return self.noises.reach([(n, Form(dict(weights))) for weights, n in equal.items()], self.failure)


def _by_row(forms: tuple[Form, Form], rows: int) -> Iterator[tuple[Form, Form]]:
    """Yield the two forms of an estimate in each row of a batch."""
    for row in range(rows):
        top, bottom = (
            Form({n: float(np.broadcast_to(w, rows)[row]) for n, w in form.weights.items()}, form.constant)
            for form in forms
        )
        yield top, bottom


def _add(rows: _Rows, other: _Rows, times: float = 1.0) -> None:
    for row, form in other.items():
        rows[row] = rows.get(row, Form({})).plus(form, times)
