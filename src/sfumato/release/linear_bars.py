"""Error bars of what SQL adds up over released rows: the law of a linear form of several groups' noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.noise.law_tails import Floats
from sfumato.noise.noise_sums import ONE, Form, Interval, Noises, balanced_half_width, quotient
from sfumato.plan.noisy_statistics import NoisyBatch
from sfumato.query.linear_forms import LinearColumn, Part, Sides

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
    """

    failure: float
    noises: Noises
    values: Mapping[str, Floats]
    forms: Mapping[str, Sequence[Form]]

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
        return cls(failure, batches[0].numbers.noises, values, forms)

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
        sums = [self._sum(own, rows or []) for own, rows in zip(column.sums, weights[1:], strict=True)]
        whole, ratios = _Rows(), list[_Ratio]()
        for top, bottom in column.ratios:
            above, parts = self._weighted(top, weights[0], sums)
            if bottom is None:
                _add(whole, above)
                ratios += parts
            else:
                ratios.append((above, self._weighted(bottom, weights[0], sums)[0]))
        if len(ratios) == 1 and not any(form.weights for form in whole.values()):
            middle, own = self._value(whole), ratios[0]
            value = np.array([shown - middle])
            return float(balanced_half_width(lambda part: self._quotient(*own, part), value, self.failure)[0])
        low, high = self._interval(whole, ratios)
        return float(np.nan_to_num(max(high - shown, shown - low, 0.0), nan=np.inf))

    def _sum(self, sides: Sequence[Sides], rows: Sequence[Sequence[float]]) -> tuple[_Rows, list[_Ratio]]:
        """Return what a sum adds up: a form, and the ratios of rows."""
        whole, ratios = _Rows(), list[_Ratio]()
        for row in sorted(rows, key=list):
            for top, bottom in sides:
                above = {int(row[0]): self._form(top, row)}
                if bottom is None:
                    _add(whole, above)
                else:
                    ratios.append((above, {int(row[0]): self._form(bottom, row)}))
        return whole, ratios

    def _form(self, side: Mapping[Part, int], weights: Sequence[float]) -> Form:
        found = Form({})
        for (name, of), place in side.items():
            found = found.plus(self.forms[name][of] if name else ONE, weights[place])
        return found

    def _weighted(
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

    def _reach(self, rows: _Rows) -> float:
        """Return the half-width of a form; rows of equal weights are one part."""
        equal = Counter(tuple(sorted(form.weights.items())) for form in rows.values())
        return self.noises.reach([(n, Form(dict(weights))) for weights, n in equal.items()], self.failure)


def _add(rows: _Rows, other: _Rows, times: float = 1.0) -> None:
    for row, form in other.items():
        rows[row] = rows.get(row, Form({})).plus(form, times)
