"""What a release would give, before a row is read: noise of a plan on made-up groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.display.card import Card, Rows, Sentences
from sfumato.display.displayed import Told
from sfumato.errors import BudgetError, ParameterError, QueryError, RefusalError, nearest
from sfumato.exact import as_fraction, positive_int
from sfumato.measurements.wide import WideIntegers
from sfumato.noise import SeededWords
from sfumato.noise.values import Floats
from sfumato.query.engine import Engine
from sfumato.query.noisy.noising import Noising, NoisyBatch, SideBySide
from sfumato.query.noisy.numbers import NoisyNumbers
from sfumato.query.plans.plan import Plan
from sfumato.query.plans.planning import make_plan
from sfumato.query.previews.made_up import MadeUp, made_up_rows
from sfumato.query.previews.picture import draw
from sfumato.query.query import Query
from sfumato.query.released import output
from sfumato.query.totals import GROUPING
from sfumato.transformations import QuantileTree

if TYPE_CHECKING:
    import pandas
    import polars

MOST_ROWS = 1_000_000
FEW, MANY = 40, 2000  # made-up groups: of which the middle bar is shown, and errors
# Of which the middle of values is moved, as a part of the bounds: places near no number that is very round.
SHIFTS = (-0.0437, -0.0161, 0.0189, 0.0472)
LARGEST_EPSILON = 100.0
_SMALLEST_EPSILON = 1e-3
_HALVINGS = 14  # of the logarithm of epsilon: to within a thousandth
_DIGITS = 4


@dataclass(frozen=True, repr=False)
class Preview(Told):
    """Error bars to be expected, by budget and size of group.

    Args:
        table: epsilon, units, the chance to be shown, and for each output half of the width of its error bar.
        confidence: of the error bars.
        notes: what was assumed.
    """

    table: pa.Table
    confidence: float
    notes: tuple[str, ...]

    def to_arrow(self) -> pa.Table:
        """Return the numbers: a row for each budget and size."""
        return self.table

    def to_pandas(self) -> pandas.DataFrame:
        """Return the numbers as a pandas data frame."""
        output.require("pandas", "pandas")
        return self.table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return the numbers as a Polars data frame."""
        return output.to_polars(self.table)

    @property
    def outputs(self) -> list[str]:
        """The names of what is asked."""
        return list(self.table.column_names[3::2])

    def plot(self, path: str | Path) -> None:
        """Draw a panel for each output, of errors by the size of a group, to .png or .svg.

        Args:
            path: where to.
        Raises:
            ParameterError: the path is not admissible.
            EngineError: matplotlib is not installed.
        """
        draw(self, path)

    def _card(self) -> Card:
        names = self.table.column_names
        rows = [[_shown(name, row[name]) for name in names] for row in self.table.to_pylist()]
        told = f"Preview: error bars of {self.confidence * 100:g}%, by budget and size of group"
        return Card(told, [Rows(names, rows, left=0), Sentences(self.notes)])

    def __str__(self) -> str:
        """Return the numbers as a table of text, with what was assumed."""
        names = self.table.column_names
        rows = [names, *([_shown(name, row[name]) for name in names] for row in self.table.to_pylist())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(names))]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        ]
        return "\n".join([*lines, "", *self.notes])


def previewed(
    query: Query,
    engine: Engine[Any],
    epsilon: Any,
    units: int | Sequence[int],
    rows: int,
    confidence: float,
    options: Mapping[str, Any],
) -> Preview:
    """Return error bars of made-up groups, for each budget and size.

    Args:
        query, engine: what is asked, and what evaluates it.
        epsilon, units, rows, confidence, options: as of `Question.preview`.
    """
    _check_confidence(confidence)
    budgets = list(epsilon) if isinstance(epsilon, (list, tuple, np.ndarray)) else [epsilon]
    sizes = [positive_int(n, "units") for n in (units if isinstance(units, (list, tuple)) else [units])]
    each = positive_int(rows, "rows")
    taken = {"epsilon", "units", "shown"} & {name.casefold() for name in query.output_names}
    if taken:
        raise QueryError(f"preview: {taken.pop()!r} is a column of the preview; give the output another name")
    plans = [make_plan(query, epsilon=one, **options) for one in budgets]
    columns: dict[str, list[Any]] = {"epsilon": [], "units": [], "shown": []}
    for name in query.output_names:
        columns |= {name: [], f"{name}_error": []}
    for plan in plans:
        for size in sizes:
            widths = bars(plan, engine, size, each, confidence)
            many = MadeUpGroups.of(plan, engine, size, each, _many(plan, confidence))
            errors = widths | many.errors(confidence)
            columns["epsilon"].append(float(plan.epsilon))
            columns["units"].append(size)
            columns["shown"].append(chance_shown(plan, size))
            for name in query.output_names:
                columns[name].append(errors[name])
                columns[f"{name}_error"].append(widths[name])
    return Preview(pa.table(columns), confidence, _notes(query, each, confidence))


def smallest_epsilon(
    query: Query,
    engine: Engine[Any],
    wanted: Mapping[str, Any],
    units: int,
    rows: int,
    confidence: float,
    shown: float | None,
    options: Mapping[str, Any],
) -> float:
    """Return about the smallest budget whose error bars are as narrow as asked, as `Question.epsilon_for`."""
    _check_confidence(confidence)
    size, each = positive_int(units, "units"), positive_int(rows, "rows")
    goals = {name: float(as_fraction(value, f"the half-width of {name}")) for name, value in wanted.items()}
    if not goals and shown is None:
        raise QueryError("epsilon_for: name an output and its half-width, such as mean=0.1")
    for name, goal in goals.items():
        if name not in query.output_names:
            near = nearest(name, query.output_names)
            hint = f"; did you mean {near!r}?" if near else f". There are: {', '.join(query.output_names)}"
            raise QueryError(f"epsilon_for: there is no output {name!r}{hint}")
        if goal <= 0:
            raise ParameterError(name, goal, "a half-width above 0")

    def reached(epsilon: float) -> tuple[bool, str]:
        try:
            plan = make_plan(query, epsilon=epsilon, **options)
        except (BudgetError, RefusalError) as error:
            return False, str(error)
        found = bars(plan, engine, size, each, confidence)
        missed = [
            f"{n} ± {found[n]:.4g}, not {goal:.4g}" for n, goal in goals.items() if not found[n] <= goal
        ]
        chance = chance_shown(plan, size)
        if shown is not None and chance < shown:
            missed.append(f"shown with probability {chance:.2g}, not {shown:g}")
        return not missed, "; ".join(missed)

    make_plan(query, epsilon=LARGEST_EPSILON, **options)  # says what is wrong with the question
    done, why = reached(LARGEST_EPSILON)
    if not done:
        raise QueryError(
            f"epsilon_for: no epsilon up to {LARGEST_EPSILON:g} reaches that in a group of {size:,} units: "
            f"{why}. Ask of larger groups, set smaller bounds or limits, or ask for fewer outputs"
        )
    low, high = math.log(_SMALLEST_EPSILON), math.log(LARGEST_EPSILON)
    if reached(_SMALLEST_EPSILON)[0]:
        return _SMALLEST_EPSILON
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(math.exp(middle))[0] else (middle, high)
    return _rounded_up(math.exp(high))


def bars(plan: Plan, engine: Engine[Any], units: int, rows: int, confidence: float) -> dict[str, float]:
    """Return the middle half-width of each output's error bar, in groups of so many made-up units.

    Args:
        plan: of the release.
        engine: what evaluates its question.
        units, rows: of a group, and of each unit in it.
        confidence: of the error bars.
    """
    return MadeUpGroups.of(plan, engine, units, rows, FEW).bars(confidence)


@dataclass(frozen=True)
class MadeUpGroups:
    """Groups with the noise of a plan; of no row, and released nowhere.

    They are all alike. But how far off a quantile is hangs on how near it is to a round number, so that for
    quantiles there are groups of several kinds, in which it is not at the same place.

    Args:
        plan: of the release.
        noisy: batches of such groups, each of one kind.
        exact: the outputs without noise, of each batch.
        numbers: the numbers without noise, of each batch, as of one group.
    """

    plan: Plan
    noisy: tuple[NoisyBatch, ...]
    exact: tuple[Mapping[str, float | None], ...]
    numbers: tuple[Mapping[str, Floats], ...]

    @classmethod
    def of(cls, plan: Plan, engine: Engine[Any], units: int, rows: int, count: int) -> MadeUpGroups:
        """Draw noise of so many groups, or more; the same each time."""
        if units * rows > MOST_ROWS:
            raise ParameterError("units", units, f"at most {MOST_ROWS:,} rows in a group")
        shifts = SHIFTS if any(e.kind == "quantile" for e in plan.requirements.estimates) else (0.0,)
        words, found = SeededWords(0), list[tuple[NoisyBatch, Any, Any]]()
        for shift in shifts:
            made = made_up_rows(plan.query, units, rows, shift)
            noising, batch, draws = _batch(plan, engine, made, math.ceil(count / len(shifts)))
            numbers = _numbers(plan, noising.columns(batch))
            exact = _exact(plan, numbers, made)
            found += [(noising.draw(batch, words), exact, numbers) for _ in range(draws)]
        noisy, exacts, of_one = zip(*found, strict=True)
        return cls(plan, noisy, exacts, of_one)

    @property
    def draws(self) -> dict[str, Floats]:
        """The noise that was drawn of each number, in its own unit."""
        pairs = list(zip(self.noisy, self.numbers, strict=True))
        return {
            n: np.concatenate([b.numbers.values[n] - own[n] for b, own in pairs]) for n in self.numbers[0]
        }

    def bars(self, confidence: float) -> dict[str, float]:
        """Return the middle of the half-widths of each output's error bar."""
        found = [batch.half_widths(confidence) for batch in self.noisy]
        return {n: float(np.median(self._numbers(found, n))) for n in self.plan.query.output_names}

    def errors(self, confidence: float) -> dict[str, float]:
        """Return within what outputs are of exact ones, but for a part 1 - confidence of groups.

        Those of which no exact one is known are left out.
        """
        released, found = [batch.outputs() for batch in self.noisy], {}
        for name, known in self.exact[0].items():
            if known is not None:
                off = np.abs(self._numbers(released, name, [exact[name] for exact in self.exact]))
                off = np.where(np.isnan(off), np.inf, off)
                found[name] = float(np.quantile(off, confidence, method="higher"))
        return found

    def _numbers(
        self, batches: Sequence[pa.RecordBatch], name: str, less: Sequence[float | None] | None = None
    ) -> Floats:
        """Return an output of all groups, less what is given for each batch."""
        found = []
        for batch, noisy, away in zip(batches, self.noisy, less or [0.0] * len(batches), strict=True):
            column = batch.column(name)
            values = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
            numbers = np.array(values.to_pylist(), np.float64).reshape(batch.num_rows, -1)
            if self.plan.query.grouping is not None:  # groups, and not their totals
                numbers = numbers[np.array(noisy.keys.column(GROUPING).to_pylist()) == 0]
            found.append(numbers.ravel() - (away or 0.0))
        return np.concatenate(found)


def _batch(plan: Plan, engine: Engine[Any], made: MadeUp, count: int) -> tuple[Noising, pa.RecordBatch, int]:
    """Return the exact numbers of groups that are alike, and how often to draw their noise for so many."""
    query, noising = plan.query, replace(plan.noising, selection=None)
    asked = replace(
        plan.exact, steps=(), unit=made.unit, keys=(), public_keys=None, groups=1, scaled=False,
        total_rows=None,
    )  # fmt: skip
    (one,) = engine.of_rows(made.table).statistics(asked, 1)
    keys: list[Any] = []
    each, draws = count, 1
    noise: Any = noising.together
    if noising.at_once:
        each = noise.groups
        draws = math.ceil(count / each)
        if noising.series is None and noising.totals is None:
            together: Any = SideBySide(noise, draws)
            noising, each, draws = replace(noising, together=together), each * draws, 1
        else:  # which are told by keys
            public: Any = query.public_keys
            keys = [column.combine_chunks() for column in public.columns]
    keys = keys or [pa.nulls(each, pa.int64()) for _ in query.keys]
    numbers = [column.take(pa.array(np.zeros(each, np.int64))) for column in one.columns]
    names = [f"c{i}" for i in range(len(keys) + len(numbers))]
    return noising, pa.RecordBatch.from_arrays([*keys, *numbers], names=names), draws


def _numbers(plan: Plan, columns: Mapping[str, pa.Array]) -> dict[str, Floats]:
    """Return numbers without noise, of one group."""
    return {
        c.name: WideIntegers.from_arrow(columns[c.name][:1]).scaled(c.step)
        for s in plan.requirements.statistics
        if not s.listed and not isinstance(s, QuantileTree)
        for c in s.coordinates
        if c.name in columns
    }


def _exact(plan: Plan, values: Mapping[str, Floats], made: MadeUp) -> dict[str, float | None]:
    """Return outputs without noise; None of cumulative totals."""
    numbers = NoisyNumbers(values, {}, plan.laws, plan.steps)
    found: dict[str, float | None] = {}
    for e in plan.requirements.estimates:
        if e.kind == "quantile":
            column = dict(plan.query.aggregates)[name_of(plan.query, e.name)].columns[0]
            found[e.name] = float(
                np.quantile(np.array(made.table[column].to_pylist(), float), e.rank, method="inverted_cdf")
            )
        elif e.entries:
            found[e.name] = 0.0  # vectors of zeros were made up
        elif e.kind == "cumulative total":
            found[e.name] = None
        else:
            found[e.name] = float(e.value(numbers)[0])
    return found


def name_of(query: Query, output: str) -> str:
    """Return the name by which what gives an output is asked."""
    return next(name for name, a in query.aggregates if output in a.outputs(name))


def chance_shown(plan: Plan, units: int) -> float:
    """Return about how probable it is that a group of so many units is shown."""
    return 1.0 if plan.selection is None else plan.selection.chance(units)


def _notes(query: Query, rows: int, confidence: float) -> tuple[str, ...]:
    each = "one row" if rows == 1 else f"{rows:,} rows"
    found = [
        f"Of made-up groups with {each} of each unit, values spread evenly between the bounds. By output: "
        f"within what {confidence:.4g} of releases are of the exact number; _error: the error bar that a "
        "release shows, which for some is wider. What limits and bounds cut is in neither."
    ]
    if query.private_groups:
        found.append("shown: the chance that a group of so many units is shown.")
    if query.grouping is not None:
        found.append("Of groups; totals have bars of their own.")
    return tuple(found)


def _shown(name: str, value: Any) -> str:
    if name == "units":
        return f"{value:,}"
    if name == "shown":
        if 0.99 < value < 1:
            return ">99%"
        return f"{value:.0%}" if value >= 0.01 or not value else f"{value:.2g}"
    return f"{value:.4g}"


def _rounded_up(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - _DIGITS + 1)
    return float(f"{math.ceil(value / unit) * unit:.{_DIGITS}g}")


def _many(plan: Plan, confidence: float) -> int:
    """Return of how many groups errors are looked at: the largest 20 of them, or more, are beyond."""
    # Places, and noise of few groups together, are drawn one by one.
    slow = any(e.kind == "quantile" for e in plan.requirements.estimates)
    together: Any = plan.noising.together
    slow = slow or (plan.noising.at_once and together.groups < FEW)
    return min(max(MANY // 2 if slow else MANY, math.ceil(20 / (1 - confidence))), 200_000)


def _check_confidence(confidence: object) -> None:
    if not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise ParameterError("confidence", confidence, "between 0 and 1, such as 0.95")
