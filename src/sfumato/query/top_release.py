"""The largest groups, released: drawn once, here, when they are first looked at."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import EngineError, QueryError, RefusalError, in_own_words
from sfumato.files import check_no_source
from sfumato.noise import Words
from sfumato.ownership import Owned
from sfumato.query import output
from sfumato.query.canonical import canonical_top
from sfumato.query.engine import Engine
from sfumato.query.top_explanation import TopExplanation
from sfumato.query.top_plan import TopPlan

if TYPE_CHECKING:
    import pandas
    import polars

    from sfumato.query.receipt import Receipt
    from sfumato.query.top import Top

_BATCH = 1 << 16


class TopRelease(Owned):
    """The largest groups, safe to publish: ranks, keys, and noisy numbers of units.

    Drawn when it is first looked at, and once. Made by `Top.release`.
    """

    _elsewhere = (
        "drawn in two places, it would be two releases for one price. Look at it first and pass on what "
        "to_arrow() gives, or make another release there"
    )

    def __init__(self, question: Top, plan: TopPlan, words: Words | None = None) -> None:
        self.question, self.plan, self._words = question, plan, words
        self._drawing = question.drawing(plan)
        self._lock = threading.RLock()
        self._table: pa.Table | None = None
        self._started = False

    @property
    def spent(self) -> tuple[float, float]:
        """The budget (epsilon, delta) that the release stays within."""
        return float(self.plan.epsilon), float(self.plan.delta)

    def to_arrow(self) -> pa.Table:
        """Return the table: rank, the keys, and `units` or `sum` where numbers were asked for."""
        if self._table is None:
            self._check_home()
            with self._lock:
                if self._table is None:
                    self._table = self._draw()
        return self._table

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a pandas data frame."""
        output.require("pandas", "pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return the table as a Polars data frame."""
        return output.to_polars(self.to_arrow())

    def errors(self, confidence: float = 0.95, *, simultaneous: bool = False) -> pa.Table:
        """Return half-widths of error bars of the numbers, beside ranks and keys.

        Args:
            confidence: in (0, 1): the chance that a group's number is within its half-width of the truth.
            simultaneous: let that be the chance that all of them are.
        Raises:
            ParameterError: confidence is not in (0, 1).
            RefusalError: numbers were left out.
        """
        width = self._drawing.half_width(confidence, simultaneous)
        table = self.to_arrow()
        widths = pa.array(np.full(table.num_rows, width))
        return table.set_column(table.num_columns - 1, self.question.measured, widths)

    def write(self, path: str | Path, *, confidence: float | None = None, simultaneous: bool = False) -> None:
        """Write the table to .parquet, .csv or .json (one object a line).

        Args:
            path: where to; the ending names the format.
            confidence: also write error bars of the numbers, in a column named `units_error` or `sum_error`.
            simultaneous: as for `errors`.
        Raises:
            ParameterError: the path is not admissible, or one that rows come from.
            QueryError: a key has the name of the error bars.
            RefusalError: error bars are asked for, and numbers were left out.
            OSError: the file cannot be written.
        """
        target = output.checked_path(path)
        check = partial(self.check_no_source, target)
        check()
        if confidence is not None:
            self._check_bars(confidence, simultaneous)
        table = self.to_arrow() if confidence is None else self._with_bars(confidence, simultaneous)
        output.write(target, iter(table.to_batches()), check)

    def receipt(self, *, confidence: float | None = None, simultaneous: bool = False) -> Receipt:
        """Return what it cost, its plan, and a digest of the answer; as `Release.receipt`."""
        from sfumato.query.answer import Answer
        from sfumato.query.receipt import Receipt

        if confidence is not None:
            self._check_bars(confidence, simultaneous)
        answer = Answer.of(self.to_arrow())
        bars = None if confidence is None else Answer.of(self._with_bars(confidence, simultaneous))
        plan, spent = canonical_top(self.question, self.plan), (self.plan.epsilon, self.plan.delta)
        return Receipt(spent, plan, answer, bars, unsafe_words=self._words is not None)

    def _check_bars(self, confidence: float, simultaneous: bool) -> None:
        """Refuse error bars that could not be written, before anything is drawn."""
        self._drawing.half_width(confidence, simultaneous)
        name = f"{self.question.measured}_error"
        if name in {key.casefold() for key in self.question.keys}:
            raise QueryError(f"confidence: the error bars need the name {name!r}, which is taken")

    def _with_bars(self, confidence: float, simultaneous: bool) -> pa.Table:
        """Return the table with error bars, as `write` writes it."""
        widths = self.errors(confidence, simultaneous=simultaneous)
        bars = widths.column(widths.num_columns - 1)
        return self.to_arrow().append_column(f"{self.question.measured}_error", bars)

    @property
    def engine(self) -> Engine[Any]:
        """What reads the rows."""
        return self.question.engine

    def check_no_source(self, path: Path, name: str = "output path") -> None:
        """Refuse to write where the rows come from; called by all that writes files about a release.

        Raises:
            ParameterError: the path, which came by the parameter `name`, is a file that is read.
        """
        check_no_source(path, self.question.engine.files, name)

    def explain(self) -> TopExplanation:
        """Return each step with its noise and cost; nothing in it depends on rows."""
        return TopExplanation(self.question, self.plan)

    def __repr__(self) -> str:
        epsilon, delta = self.spent
        keys = ", ".join(self.question.keys)
        return f"<TopRelease of {self.plan.k} by {keys}; epsilon={epsilon:g}, delta={delta:g}>"

    def _draw(self) -> pa.Table:
        if self._started:
            raise RefusalError(
                "this release is being drawn, or failed while it was drawn; a second draw would spend a "
                "second budget. Ask for a new release"
            )
        self._started = True
        with in_own_words(_stopped, Exception):
            batches = list(self.question.engine.statistics(self.question.exact, _BATCH))
            drawn = self._drawn(pa.Table.from_batches(batches))
            self._check_home()  # a handler of a signal may have forked in the middle: the child stops
        return drawn

    def _drawn(self, exact: pa.Table) -> pa.Table:
        return self._drawing.table(exact, self._words)


def _stopped(error: Exception) -> EngineError:
    kind = type(error).__name__
    return EngineError(f"the release stopped at a {kind}, whose text is left out, as it may quote rows")
