"""The largest groups by number of privacy units, or by a sum: asked, planned and released."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.budget.parameters import admissible_delta, admissible_epsilon
from sfumato.errors import EngineError, ParameterError, QueryError, RefusalError, in_own_words
from sfumato.exact import Number, as_fraction, positive_int, truth_value
from sfumato.files import check_no_source
from sfumato.measurements.peeling import checked_k, peel, peel_limited
from sfumato.noise import Words
from sfumato.ownership import Owned
from sfumato.query import output
from sfumato.query.aggregates.moments import Sum
from sfumato.query.exact import BroughtKeys, Evaluator, ExactQuery
from sfumato.query.schema import Kind, Schema, Step
from sfumato.query.top_explanation import TopExplanation
from sfumato.query.top_plan import TopPlan, make_top_plan
from sfumato.transformations import CountUnits, Grid, UnitSum, ValueGrid

if TYPE_CHECKING:
    import pandas
    import polars

RANK, UNITS, SUM = "rank", "units", "sum"
_BATCH = 1 << 16
# A unit may be in all groups: a limit of none.
_ALL_GROUPS = 10**9


@dataclass(frozen=True)
class Top:
    """The question for the k largest groups; made by `Table.top`.

    Args:
        engine: what reads the rows.
        schema: the columns after the steps.
        unit: the privacy unit's column.
        steps: filters and derived columns.
        keys: the columns to group by.
        public_keys: the groups, where they are public.
        k: how many.
        candidates: of private groups, how many of the largest may be shown.
        notes: what whoever asks should know of the source.
        by: a sum with bounds on what each unit adds to a group, by which groups are large; None for units.
    """

    engine: Evaluator
    schema: Schema
    unit: str
    steps: tuple[Step, ...]
    keys: tuple[str, ...]
    public_keys: pa.Table | BroughtKeys | None
    k: int
    candidates: int | None = None
    notes: tuple[str, ...] = ()
    by: Sum | None = None

    def __post_init__(self) -> None:
        if self.engine.name != "DuckDB" or isinstance(self.public_keys, BroughtKeys):
            raise QueryError(
                "top: the largest groups are drawn in one place, on DuckDB; ask a file, a database or a data "
                "frame on this machine"
            )
        taken = {key.casefold() for key in self.keys} & {RANK, self.measured}
        if taken:
            name = min(taken)
            raise QueryError(
                f"top: the output has a column {name!r} of its own; give the key another name by with_columns"
            )
        public = self.public_keys
        if self.by is not None:
            self._check_by(self.by)
        if public is None:
            default = max(100, 10 * positive_int(self.k, "k"))
            given = default if self.candidates is None else positive_int(self.candidates, "candidates")
            object.__setattr__(self, "candidates", given)
            checked_k(self.k, given)
            return
        if self.candidates is not None:
            raise QueryError("top: candidates are of private groups; all public groups may be shown")
        checked_k(self.k, public.num_rows)

    def _check_by(self, by: object) -> None:
        if type(by) is not Sum or by.per == "row":
            raise QueryError(
                "top: by is a sum whose bounds are those of what a unit adds to a group, such as "
                'sf.sum("price", lower=0, upper=50), without weights; or leave it out, for units'
            )
        by.check("by", self.schema)
        if self.public_keys is None and by.lower < 0:
            raise QueryError(
                "top: where groups are private, a unit may only add to a sum: lower is at least 0; or give "
                "the groups by keys=[...]"
            )

    @property
    def measured(self) -> str:
        """The name of the column of numbers."""
        return UNITS if self.by is None else SUM

    @cached_property
    def statistic(self) -> CountUnits | UnitSum:
        """What groups are compared by."""
        by = self.by
        if by is None:
            return CountUnits()
        whole = self.whole and max(abs(by.lower), abs(by.upper)) < 2**40
        if whole:
            grid = Grid(0)
        else:
            made = ValueGrid.around(by.lower, by.upper, Grid.for_noise(by.upper - by.lower))
            grid = Grid(made.exponent)
        low, high = grid.steps_at_most(by.lower), grid.steps_at_least(by.upper)
        return UnitSum("by", by.column, grid.exponent, low, high, whole)

    @property
    def step(self) -> Fraction:
        """The grid step of what groups are compared by, in its own unit."""
        statistic = self.statistic
        return statistic.step if isinstance(statistic, UnitSum) else Fraction(1)

    @property
    def whole(self) -> bool:
        """Whether the numbers are whole."""
        return self.by is None or self.schema[self.by.column].kind in (Kind.INTEGER, Kind.BOOLEAN)

    @property
    def sensitivities(self) -> tuple[int, int]:
        """How far one unit moves groups apart at most, and how far one group, in steps.

        A unit that is in no group of two moves neither, so 0 is between the bounds of what it does.
        """
        statistic = self.statistic
        if isinstance(statistic, CountUnits):
            return 1, 1
        low, high = statistic.lower, statistic.upper
        return max(high, 0) - min(low, 0), max(abs(low), abs(high))

    @property
    def exact(self) -> ExactQuery:
        """The exact half: the number of each group, without a limit of groups."""
        public = self.public_keys
        groups = public.num_rows if isinstance(public, pa.Table) else _ALL_GROUPS
        return ExactQuery(self.steps, self.unit, self.keys, public, groups, (self.statistic,))

    def plan(
        self,
        *,
        epsilon: Number,
        delta: Number = 0,
        counts: bool = True,
        counts_share: Number = Fraction(1, 2),
    ) -> TopPlan:
        """Say what a release with these options would do and cost; takes the options of `release`."""
        share = as_fraction(counts_share, "counts_share")
        if not 0 < share < 1:
            raise ParameterError(
                "counts_share", counts_share, "between 0 and 1, or leave them out by counts=False"
            )
        if not truth_value(counts, "counts"):
            share = Fraction(0)
        budget = admissible_epsilon(epsilon), admissible_delta(delta)
        spread, largest = self.sensitivities
        plan = TopPlan(self.k, self.candidates, *budget, share, None, spread, largest)
        return make_top_plan(plan)

    def release(
        self,
        *,
        epsilon: Number,
        delta: Number = 0,
        counts: bool = True,
        counts_share: Number = Fraction(1, 2),
        unsafe_words: Words | None = None,
    ) -> TopRelease:
        """Release the keys of the largest groups, in the order drawn.

        Args:
            epsilon: the privacy budget, greater than 0. A float is taken as exactly its binary value.
            delta: in [0, 1); private groups need more than 0, and k public ones may gain by it.
            counts: whether noisy numbers of units of these groups stand beside them.
            counts_share: the part of the budget that is for these numbers.
            unsafe_words: a source of random words for tests; the result is not private.
        Returns:
            A TopRelease, drawn once, when it is first looked at.
        Raises:
            ParameterError, BudgetError: before anything is read or drawn.
        """
        if unsafe_words is not None and not isinstance(unsafe_words, Words):
            raise ParameterError("unsafe_words", unsafe_words, "a Words of sfumato.noise, in tests alone")
        plan = self.plan(epsilon=epsilon, delta=delta, counts=counts, counts_share=counts_share)
        return TopRelease(self, plan, unsafe_words)


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
        if not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
            raise ParameterError("confidence", confidence, "between 0 and 1, such as 0.95")
        law = self.plan.law
        if law is None:
            raise RefusalError("errors: ranks have no error bars, and counts=False left the numbers out")
        each = as_fraction(confidence, "confidence")
        if simultaneous:
            each = 1 - (1 - each) / self.plan.k
        table = self.to_arrow()
        width = float(law.rounded_half_width(each) * self.question.step)
        widths = pa.array(np.full(table.num_rows, width))
        return table.set_column(table.num_columns - 1, self.question.measured, widths)

    def write(self, path: str | Path) -> None:
        """Write the table to .parquet, .csv or .json (one object a line).

        Raises:
            ParameterError: the path is not admissible, or one that rows come from.
            OSError: the file cannot be written.
        """
        target = output.checked_path(path)

        def check() -> None:
            check_no_source(target, self.question.engine.files, "output path")

        check()
        output.write(target, iter(self.to_arrow().to_batches()), check)

    def explain(self) -> TopExplanation:
        """Return each step with its noise and cost; nothing in it depends on rows."""
        return TopExplanation(self.question, self.plan)

    def __repr__(self) -> str:
        epsilon, delta = self.spent
        keys = ", ".join(self.question.keys)
        return f"<TopRelease of {self.plan.k} by {keys}; epsilon={epsilon:g}, delta={delta:g}>"

    def _numbers(self, exact: list[int], noise: list[int]) -> pa.Array:
        noisy = [(int(n) + z) * self.question.step for n, z in zip(exact, noise, strict=True)]
        if not self.question.whole:
            return pa.array([float(x) for x in noisy], pa.float64())
        return pa.array([min(max(round(x), -(2**63)), 2**63 - 1) for x in noisy], pa.int64())

    def _draw(self) -> pa.Table:
        if self._started:
            raise RefusalError(
                "this release is being drawn, or failed while it was drawn; a second draw would spend a "
                "second budget. Ask for a new release"
            )
        self._started = True
        question, plan = self.question, self.plan
        with in_own_words(_stopped, Exception):
            batches = list(question.engine.statistics(question.exact, _BATCH))
            table = pa.Table.from_batches(batches).combine_chunks()
            counts = _integers(table.column(table.num_columns - 1))
            if plan.candidates is None or plan.margin is None:
                picked = peel(counts, plan.step_rate, plan.k, self._words)
            else:
                limits = plan.k, plan.candidates, plan.margin
                picked = peel_limited(counts, plan.step_rate, *limits, self._words)
            self._check_home()  # a handler of a signal may have forked in the middle: the child stops
            index = pa.array(picked, pa.int64())
            columns: dict[str, Any] = {RANK: pa.array(range(1, len(picked) + 1), pa.int64())}
            for place, key in enumerate(question.keys):
                columns[key] = table.column(place).take(index).combine_chunks()
            if plan.law is not None:
                noise = plan.law.rounded(len(picked), self._words)
                columns[question.measured] = self._numbers([counts[i] for i in picked], noise.tolist())
        return pa.table(columns)


def _integers(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return exact numbers as int64, or as Python's integers where these do not suffice."""
    if pa.types.is_int64(column.type):
        return np.asarray(column.to_numpy(), np.int64)
    whole = np.array([int(x) for x in column.to_pylist()], object)
    return whole.astype(np.int64) if all(abs(x) < 2**62 for x in whole) else whole


def _stopped(error: Exception) -> EngineError:
    kind = type(error).__name__
    return EngineError(f"the release stopped at a {kind}, whose text is left out, as it may quote rows")
