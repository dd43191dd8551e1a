"""Estimates by group with standard errors, from one release or several, and their error bars."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Facts, Rows, cell
from sfumato.display.formatting import visible
from sfumato.display.result_table import ResultTable, pandas_frame
from sfumato.names import SuggestingArguments, foreign_names
from sfumato.noise.law_tails import Floats
from sfumato.query.aggregates.estimate import nullable_column
from sfumato.query.error_bars import (
    UNBIASED,
    BarKind,
    Bars,
    Errors,
    check_confidence,
    check_error_names,
    requested_kind,
)
from sfumato.release.release_display import format_measured

if TYPE_CHECKING:
    import pandas

TAILS = ("gaussian", "laplace", "log_concave")  # families of noise; each may be wider than those before it
_CUTS = np.geomspace(1e-2, 60, 2_000)
_SHOWN = 20


class Source(NamedTuple):
    """A release from which estimates come: what tells it from any other.

    Args:
        token: of a release that was drawn here; "" for one that was read from a file or a journal.
        digest: of its plan and its answer; "" before it is drawn.
    """

    token: str
    digest: str

    def is_same(self, other: Source) -> bool:
        """Whether two sources may be one release, whose noise is the same."""
        if self.token and other.token:
            return self.token == other.token
        return self.digest == other.digest != ""


@dataclass(frozen=True, repr=False)
class EstimateTable(SuggestingArguments, ResultTable):
    """A table of estimates by group with standard errors, from one release or several.

    Args:
        keys: the groups.
        values: the estimates by output; NaN if there is none.
        standard_errors: the standard errors by output; NaN if there is none.
        half_steps: by output, half a step of whole numbers, computed in the same way as the standard errors.
        tail: the family of the noise, one of `TAILS`.
        notes: sentences on what the numbers include and what they do not.
        sources: the releases from which it is computed.
        name: a short description of the table.
        lacking: the release's outputs without a standard error.

    Made by `combine`, `change` and `read_release`.

    >>> import pyarrow as pa, sfumato as sf
    >>> visits = sf.scan(pa.table({"id": range(500)}), privacy_unit="id").agg(people=sf.count_units())
    >>> both = sf.combine([visits.release(epsilon=1), visits.release(epsilon=1)])
    >>> both.to_arrow().column_names, round(both.errors(kind="standard")["people"][0].as_py(), 2)
    (['people'], 0.96)
    """

    keys: pa.Table
    values: Mapping[str, Floats]
    standard_errors: Mapping[str, Floats]
    half_steps: Mapping[str, Floats]
    tail: str
    notes: tuple[str, ...]
    sources: tuple[Source, ...]
    name: str = "Estimates"
    lacking: tuple[str, ...] = ()

    _foreign = foreign_names.RELEASE

    def to_arrow(self) -> pa.Table:
        """Return the keys and the estimates, as float64.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": range(500)}), privacy_unit="id").agg(people=sf.count_units())
        >>> sf.combine([visits.release(epsilon=1), visits.release(epsilon=1)]).to_arrow().num_rows
        1
        """
        return self._add_keys(self.values)

    def errors(
        self, confidence: float = 0.95, *, kind: BarKind = "half_width", simultaneous: bool = False
    ) -> pa.Table:
        """Return half-widths of error bars or standard errors: the keys, and a column for each output.

        A half-width is a multiple of the standard error, exact for Gaussian noise and an upper bound for
        Laplace noise, its sums, and K-norm noise. Noise of whole numbers adds half a step.

        Args:
            confidence: in (0, 1), the probability that the exact statistic is within its half-width.
            kind: "half_width" or "standard".
            simultaneous: let the confidence hold for all numbers at once.
        Returns:
            An Arrow table.
        Raises:
            ParameterError: confidence is not in (0, 1), or the kind does not exist.
            QueryError: simultaneous standard errors are requested.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": range(500)}), privacy_unit="id").agg(people=sf.count_units())
        >>> both = sf.combine([visits.release(epsilon=1), visits.release(epsilon=1)])
        >>> round(both.errors(0.95)["people"][0].as_py(), 2)
        2.39
        """
        bars = Bars._check(check_confidence(confidence), simultaneous, False, kind)
        return self._add_keys(self._widths(bars))

    def frame(self, *, errors: Errors = False, confidence: float = 0.95) -> pandas.DataFrame:
        """Return the estimates as a pandas data frame, optionally with error bars.

        Args:
            errors: True to add the half-width of each estimate `n` in a column `n_error` after it; "standard"
                to add its standard error in `n_standard_error`.
            confidence: the confidence of half-widths.
        Returns:
            A pandas data frame.
        Raises:
            ParameterError: confidence is not in (0, 1).
            QueryError: the name of an error-bar column is taken.
            EngineError: pandas is not installed.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": range(500)}), privacy_unit="id").agg(people=sf.count_units())
        >>> both = sf.combine([visits.release(epsilon=1), visits.release(epsilon=1)])
        >>> list(both.frame(errors="standard"))
        ['people', 'people_standard_error']
        """
        if (kind := requested_kind(errors)) is None:
            return self.to_pandas()
        bars = Bars._check(confidence, kind=kind)
        check_error_names(self.values, [*self.keys.column_names, *self.values], bars.suffix)
        widths = self._widths(bars)
        columns = {
            name: column
            for output, values in self.values.items()
            for name, column in ((output, values), (f"{output}{bars.suffix}", widths[output]))
        }
        return pandas_frame(self._add_keys(columns), self._attributes())

    def _widths(self, bars: Bars) -> Mapping[str, Floats]:
        if bars.standard:
            return self.standard_errors
        among = len(self.values) * self._size or 1
        times = deviations(self.tail, (1 - bars.confidence) / (among if bars.simultaneous else 1))[1]
        return {name: times * error + self.half_steps[name] for name, error in self.standard_errors.items()}

    @property
    def _size(self) -> int:
        return len(next(iter(self.values.values())))

    def _add_keys(self, columns: Mapping[str, Floats]) -> pa.Table:
        made = [*self.keys.columns, *map(nullable_column, columns.values())]
        return pa.table(made, names=[*self.keys.column_names, *columns])

    def _attributes(self) -> dict[str, Any]:
        return {"notes": list(self.notes)} if self.notes else {}

    def _card(self) -> Card:
        names, table, widths = self.keys.column_names, self.to_arrow().slice(0, _SHOWN), self.errors()
        columns = {
            name: [cell(one) for one in table[name].to_pylist()]
            if name in names
            else format_measured(table[name].to_pylist(), widths[name].slice(0, _SHOWN).to_pylist())
            for name in table.column_names
        }
        beyond = (
            f"The first {_SHOWN} of {self._size:,} rows; to_pandas() has all." if self._size > _SHOWN else ""
        )
        rows = Rows(list(columns), list(zip(*columns.values(), strict=True)), left=len(names), beyond=beyond)
        facts = [("±", Bars().describe(UNBIASED)), *(("note", one) for one in self.notes)]
        return Card(self.name, [rows, Facts(facts)])

    def __repr__(self) -> str:
        return visible(f"<{self.name} of {', '.join([*self.keys.column_names, *self.values])}>")


@lru_cache(1 << 8)
def deviations(tail: str, failure: float) -> tuple[float, float]:
    """Return the least and the most t with P(|Z| > t deviations) = failure that a family of noise has.

    Of all symmetric log-concave laws, such as those of K-norm noise and of sums, the extremes are truncated
    exponential laws, from the uniform law to Laplace's.

    >>> [round(most, 3) for _, most in (deviations(tail, 0.05) for tail in TAILS)]
    [1.96, 2.118, 2.169]

    Source:
        Fradelizi and Guédon 2004, "The extreme points of subsets of s-concave probabilities and a geometric
        localization theorem".
    """
    normal, laplace = -NormalDist().inv_cdf(failure / 2), -math.log(failure) / math.sqrt(2)
    if tail == TAILS[0]:
        return normal, normal
    if tail == TAILS[1]:
        return min(normal, laplace), max(normal, laplace)
    rest = np.exp(-_CUTS)
    squares = (2 - (_CUTS**2 + 2 * _CUTS + 2) * rest) / -np.expm1(-_CUTS)
    found = -np.log(failure + (1 - failure) * rest) / np.sqrt(squares)
    return float(found.min()), float(found.max())


def widest_tail(description: Mapping[str, Any]) -> str:
    """Return the widest family of the noise that a certificate's description names.

    >>> noise = {"shape": "independent", "law": "laplace", "scales": {"n": "4"}}
    >>> widest_tail({"parts": [{"noise": noise}, {"noise": {"law": "gaussian"}}, {"noise": None}]})
    'laplace'
    """
    laws = [
        str(one.get("law", one.get("shape"))) for part in description["parts"] if (one := part.get("noise"))
    ]
    kinds = [next((i for i in (0, 1) if TAILS[i] in law), 2) for law in laws]
    return TAILS[max(kinds, default=0)]
