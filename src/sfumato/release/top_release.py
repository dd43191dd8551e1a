"""A release of the largest groups: drawn once, when it is first accessed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.budget.epsilon_delta import ExactCost
from sfumato.display.cards import Card
from sfumato.display.progress import find_progress, notebook_bar
from sfumato.errors import QueryError, RefusalError, in_own_words
from sfumato.measurements.int128_array import arrow_column
from sfumato.noise import Words
from sfumato.noise.noise_sums import rounded_variance
from sfumato.plan.plan import Described, Plan, certify_plans
from sfumato.plan.top_measurement import RANK, TopMeasurement
from sfumato.query import sizes
from sfumato.query.error_bars import Bars, Bias, check_error_names
from sfumato.release.canonical_form import canonical_top
from sfumato.release.noisy_table import NoisyTable, make_draw_error
from sfumato.release.release_display import release_card, top_facts

if TYPE_CHECKING:
    from sfumato.api.largest_groups import Top, TopExplanation
    from sfumato.release.chart import Chart


_OF_THE_LARGEST = (
    "errors: sampling is only for groups that were named beforehand, as the largest groups of a "
    "sample are large by chance too. Leave sampling out, for error bars of the noise"
)


class TopRelease(NoisyTable):
    """A release of the largest groups, safe to publish: ranks, keys and noisy numbers.

    It is drawn once, on first access. `Top.release` returns it.

    Attributes:
        question: the `Top` that was released.
        plan: the plan, with its noise and cost.
    """

    def __init__(self, plan: Plan[Top, TopMeasurement], words: Words | None = None) -> None:
        certify_plans([plan])
        super().__init__(plan.query._engine)
        self.question = plan.query
        self.plan = plan
        self._words = words
        self._started = False

    @property
    def _plans(self) -> tuple[Described, ...]:
        """The plan of all that the release of the largest groups draws."""
        return (self.plan,)

    @property
    def _spent(self) -> ExactCost:
        return self.plan.spent

    @property
    def drawn(self) -> bool:
        """Whether the largest groups have been drawn."""
        return self._table is not None

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of rank and keys of the largest groups."""
        return (RANK, *self.question.keys)

    def to_arrow(self) -> pa.Table:
        """Return the largest groups: rank, keys, and `units` or `sum` if numbers were requested.

        Returns:
            An Arrow table.
        Raises:
            RefusalError: it is accessed in another process than the one that made it, before it was drawn
                there.
        """
        if self._table is None:
            self._check_home()
            with self._lock:
                if self._table is None:
                    with notebook_bar("Reading rows, drawing groups", find_progress(self._engine)):
                        self._table = self._draw()
                    self._drew(self._table.num_rows)
        self._table = self._with_metadata(self._table)
        return self._table

    def _errors(self, bars: Bars) -> pa.Table:
        """Return the error bars of the largest groups' numbers, beside ranks and keys."""
        self._check_kind(bars)
        width = self.plan.measurement.half_width(bars.confidence, bars.simultaneous or bars.selected)
        if bars.standard:
            law, step = self.plan.laws[self.question.measured], float(self.plan.measurement.step)
            width = math.sqrt(rounded_variance(law, 1.0)) * step
        table = self.to_arrow()
        widths = arrow_column(np.full(table.num_rows, width))
        return table.set_column(table.num_columns - 1, self.question.measured, widths)

    def _noisy_numbers(self) -> Any:
        """Return the noisy table of the largest groups."""
        return self._table

    def _restore(self, state: Any) -> None:
        """Have the noisy table that a release of the same largest groups had."""
        self._table, self._started = state, True

    def _state(self) -> dict[str, Any]:
        """Return the largest groups for another process: their noisy table and plan, and no rows."""
        return super()._state() | {"plan": replace(self.plan, query=self.question._detach())}

    def _set_state(self, state: Mapping[str, Any]) -> None:
        """Become the finished release of the largest groups that `_state` describes."""
        TopRelease.__init__(self, state["plan"])
        super()._set_state(state)

    @property
    def _unsafe(self) -> bool:
        return self._words is not None or self._was_unsafe

    def canonical(self) -> dict[str, Any]:
        """Return the canonical form of the query for the largest groups."""
        return canonical_top(self.plan)

    @property
    def bias(self) -> Bias:
        """The bias that the bounds of the sum can cause in the largest groups' numbers."""
        return self.question.bias

    def _check_kind(self, bars: Bars) -> None:
        """Refuse error bars with sampling error: the largest groups have none."""
        if bars.sampling:
            raise QueryError(_OF_THE_LARGEST)

    def _check_bars(self, bars: Bars) -> None:
        """Refuse error bars that the largest groups cannot have."""
        self._check_kind(bars)
        self.plan.measurement.half_width(bars.confidence, bars.simultaneous or bars.selected)
        check_error_names([self.question.measured], self.question.keys, bars.suffix)

    def _with_bars(self, bars: Bars) -> pa.Table:
        """Return the largest groups with error bars, as `write` writes them."""
        widths = bars._widths(self)
        name = f"{self.question.measured}{bars.suffix}"
        return self.to_arrow().append_column(name, widths.column(widths.num_columns - 1))

    def _chart(self, bars: Bars) -> Chart:
        """Return the chart of the largest groups, as plain data."""
        from sfumato.release.chart import Chart

        if not self.measured:
            raise QueryError(
                "plot: counts=False left out the numbers of the largest groups, so there is nothing to plot"
            )
        return Chart.from_largest_groups(self, bars)

    def explain(self) -> TopExplanation:
        """Return the explanation of the largest groups: each step with its noise and cost."""
        return self.plan.explain()

    @property
    def measured(self) -> list[str]:
        """The column of the largest groups with error bars; none if numbers were not requested."""
        return list(self.plan.laws)

    def _card(self) -> Card:
        groups = None if self.made is None else self.made.num_rows
        bars = self.bars if self.made is not None and self.measured else None
        notes = [("note", note) for note in self.explain().notes]
        return release_card(self, [*top_facts(self, groups, bars), *notes], self.keys)

    @property
    def _subject(self) -> str:
        return f"{self.question.k} by {', '.join(self.question.keys)}"

    def _draw(self) -> pa.Table:
        if self._started:
            raise RefusalError(
                "this release is being drawn, or failed while it was drawn, and a second draw would "
                "spend a second budget. Make a new release"
            )
        self._started = True
        with self._telling(), in_own_words(make_draw_error, Exception):
            batches = list(self._engine.statistics(self.plan.exact, sizes.BATCH_GROUPS))
            drawn = self._drawn(pa.Table.from_batches(batches))
            self._check_home()  # a handler of a signal may have forked in the middle: the child stops
        return drawn

    def _drawn(self, exact: pa.Table) -> pa.Table:
        return self.plan.measurement.draw(exact, self._words)
