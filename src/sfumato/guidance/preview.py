"""The preview of a query before a row is read: expected error bars, by budget and size of group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Rows, Sentences, TextCard
from sfumato.display.pictures import check_picture, save
from sfumato.display.result_table import ResultTable
from sfumato.errors import BudgetError, ParameterError, QueryError, RefusalError, nearest
from sfumato.exact import as_fraction, positive_int
from sfumato.guidance.expected_error import chance_shown
from sfumato.guidance.simulated_groups import FEW, MANY, SimulatedGroups, bars, fit_powers
from sfumato.plan.plan import Plan
from sfumato.plan.planning import make_plan
from sfumato.query.engine_protocol import Engine
from sfumato.query.query import Query

LARGEST_EPSILON = 100.0
_SMALLEST_EPSILON = 1e-3
_HALVINGS = 14  # of the logarithm of epsilon: to within a thousandth
_DIGITS = 4
_ENDS = (0.02, 0.98)  # near the bounds; at them bars end where the bounds do
_DRAWS = 1200  # of noise that is drawn for all groups at once
_FEW_NUMBERS = 8  # of a group; where there are more, fewer groups are drawn
_MAX = 200_000  # groups, of noise of each by itself
_RARE = (
    "With a confidence of {:.6g} errors are error bars, which are about as wide, or wider: noise "
    "that is so rare is not drawn."
)
_MUCH_WIDER = 1.15  # times: what a preview may be off


@dataclass(frozen=True, repr=False)
class Preview(TextCard, ResultTable):
    """Expected error bars, by budget and size of group.

    `Question.preview` returns it.

    Args:
        table: epsilon, units, the chance that a group is shown, and for each output the half-width of its
            error bar.
        confidence: the confidence of the error bars.
        notes: the assumptions.
    """

    table: pa.Table
    confidence: float
    notes: tuple[str, ...]

    def to_arrow(self) -> pa.Table:
        """Return the preview as a table: a row for each budget and size of group.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=2).agg(n=sf.count())
        >>> preview = visits.preview(epsilon=[1, 2], units=1_000)
        >>> preview.to_arrow().select(["epsilon", "n"]).to_pylist()  # n will be within 6, or 3
        [{'epsilon': 1.0, 'n': 6.0}, {'epsilon': 2.0, 'n': 3.0}]
        """
        return self.table

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs in the preview."""
        return list(self.table.column_names[3::2])

    def plot(self, path: str | Path) -> None:
        """Draw a panel for each output, with errors by the size of a group.

        Args:
            path: where to write a .png or .svg.
        Raises:
            ParameterError: the path is not valid.
            EngineError: matplotlib is not installed.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2]}), privacy_unit="id").bound(rows=2).agg(n=sf.count())
        >>> preview = visits.preview(epsilon=[1, 2], units=1_000)
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     preview.plot(f"{folder}/errors.svg")
        ...     os.listdir(folder)
        ['errors.svg']
        """
        draw(self, path)

    def _card(self) -> Card:
        names = self.table.column_names
        rows = [[_shown(name, row[name]) for name in names] for row in self.table.to_pylist()]
        title = f"Preview: error bars of {self.confidence * 100:g}%, by budget and size of group"
        return Card(title, [Rows(names, rows, left=0), Sentences(self.notes)])

    def __str__(self) -> str:
        """Return the numbers as a table of text, with what was assumed."""
        return self._card().text().partition("\n\n")[2]


def list_plans(query: Query, epsilon: Any, options: Mapping[str, Any]) -> list[Plan]:
    """Return the plans that a preview compares: one for each epsilon."""
    budgets = list(epsilon) if isinstance(epsilon, (list, tuple, np.ndarray)) else [epsilon]
    return [make_plan(query, epsilon=one, **options) for one in budgets]


def make_preview(
    query: Query,
    engine: Engine[Any],
    plans: Sequence[Plan],
    units: int | Sequence[int],
    rows: int,
    confidence: float,
    means: Mapping[str, Any] | None = None,
) -> Preview:
    """Return the preview of a query: expected error bars by epsilon and units, from simulated groups.

    Args:
        query, engine: what is asked, and what evaluates it.
        plans: one for each budget.
        units, rows, confidence, means: as of `Question.preview`.
    """
    _check_confidence(confidence)
    sizes = [positive_int(n, "units") for n in (units if isinstance(units, (list, tuple)) else [units])]
    each = positive_int(rows, "rows")
    taken = {"epsilon", "units", "shown"} & {name.casefold() for name in query.output_names}
    if taken:
        raise QueryError(f"preview: {taken.pop()!r} is a column of the preview. Give the output another name")
    powers = fit_powers(query, means)
    columns: dict[str, list[Any]] = {"epsilon": [], "units": [], "shown": []}
    for name in query.output_names:
        columns |= {name: [], f"{name}_error": []}
    for plan in plans:
        for size in sizes:
            widths = bars(plan, engine, size, each, confidence, powers)
            errors = dict(widths)
            if many := _many(plan, confidence):
                groups = SimulatedGroups.draw(plan, engine, size, each, many, powers=powers)
                errors |= groups.errors(confidence)
            columns["epsilon"].append(float(plan.epsilon))
            columns["units"].append(size)
            columns["shown"].append(chance_shown(plan, size))
            for name in query.output_names:
                columns[name].append(errors[name])
                columns[f"{name}_error"].append(widths[name])
    unsure = {n for n, a in query.measured if not powers.keys() & set(a.each.columns)}
    wider = _at_bounds(plan, engine, size, each, confidence, {n: w for n, w in widths.items() if n in unsure})
    notes = _notes(query, each, confidence, wider, means or {})
    if not all(_many(plan, confidence) for plan in plans):
        notes += (_RARE.format(confidence),)
    return Preview(pa.table(columns), confidence, notes)


def smallest_epsilon(
    query: Query,
    engine: Engine[Any],
    wanted: Mapping[str, Any],
    units: int,
    rows: int,
    confidence: float,
    shown: float | None,
    options: Mapping[str, Any],
    means: Mapping[str, Any] | None = None,
) -> float:
    """Return about the smallest epsilon whose error bars are narrow enough, as `Question.epsilon_for`."""
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

    powers = fit_powers(query, means)

    def reached(epsilon: float) -> tuple[bool, str]:
        try:
            plan = make_plan(query, epsilon=epsilon, **options)
        except (BudgetError, RefusalError) as error:
            return False, str(error)
        found = bars(plan, engine, size, each, confidence, powers)
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
            f"epsilon_for: no epsilon up to {LARGEST_EPSILON:g} reaches that in a group of "
            f"{size:,} units: {why}. Use larger groups, smaller bounds or limits, or fewer outputs"
        )
    low, high = math.log(_SMALLEST_EPSILON), math.log(LARGEST_EPSILON)
    if reached(_SMALLEST_EPSILON)[0]:
        return _SMALLEST_EPSILON
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(math.exp(middle))[0] else (middle, high)
    return _rounded_up(math.exp(high))


def _at_bounds(
    plan: Plan, engine: Engine[Any], units: int, rows: int, confidence: float, widths: Mapping[str, float]
) -> dict[str, float]:
    """Return how many times as wide a preview's error bars of means are if values lie near their bounds.

    The further a mean is from the middle, the more the noise of the count moves it.
    """
    means = [e.name for e in plan.requirements.estimates if e.kind == "mean" and widths.get(e.name)]
    if not means:
        return {}
    ends = [SimulatedGroups.draw(plan, engine, units, rows, FEW, end).bars(confidence) for end in _ENDS]
    return {name: max(end[name] for end in ends) / widths[name] for name in means}


def _notes(
    query: Query, rows: int, confidence: float, wider: Mapping[str, float], means: Mapping[str, Any]
) -> tuple[str, ...]:
    about = "".join(
        f", those of {name} with a mean of {float(as_fraction(mean, name)):g}" for name, mean in means.items()
    )
    each = "one row" if rows == 1 else f"{rows:,} rows"
    found = [
        f"Errors, not results: for simulated groups with {each} of each unit, and values spread "
        f"evenly between the bounds{about}. In the column of an output, {100 * confidence:.4g}% "
        "of releases are within this distance of the exact number; the column with _error has the "
        "error bar that a release shows, which may be wider. Neither includes bias from limits and "
        "bounds."
    ]
    wide = [f"{name} up to {times:.1f} times" for name, times in wider.items() if times >= _MUCH_WIDER]
    if wide:
        found.append(
            f"Where a mean lies near one of its bounds, its error bar is wider: {', '.join(wide)}. "
            "If you know its rough value, pass it in Python: preview(epsilon=..., means={column: "
            "number})."
        )
    if query.private_groups:
        found.append("shown: the probability that a group of this size is shown.")
    if query.grouping is not None:
        found.append("These are errors of groups; totals have error bars of their own.")
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
    """Return the number of simulated groups from which a preview takes errors; 0 if noise is slow to draw.

    0 where noise is dear to draw, and that would be more than twice as many as are enough for 95%.
    """
    measurement, many, most = plan.measurement, MANY, _MAX
    noise: Any = measurement.noise
    if any(e.kind == "quantile" for e in plan.requirements.estimates):
        many = MANY // 2  # places are drawn one by one
        most = 2 * many
    elif measurement.at_once:
        if measurement.series is None and measurement.totals is None:
            # Groups of one draw are alike, so that there must be more; it is kept for all sizes.
            many = min(3 * MANY, _DRAWS * noise.groups)
        elif noise.groups < FEW:
            many = MANY // 2
        most = 2 * max(many, noise.groups)
    many = max(MANY // 4, many * _FEW_NUMBERS // max(_FEW_NUMBERS, len(plan.laws)))
    rare = math.ceil(20 / (1 - confidence))
    return max(many, rare) if rare <= most else 0


def _check_confidence(confidence: object) -> None:
    if not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise ParameterError("confidence", confidence, "between 0 and 1, such as 0.95")


_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
)  # Okabe and Ito's, apart for every kind of sight
_COLUMNS, _MAX_PANELS = 3, 12


def plain(value: float, place: float = 0) -> str:
    """Return the label of a mark on a preview's logarithmic scale: at 100, 200 and 500, not at others."""
    digits = f"{value:.0e}"
    return f"{value:,.6g}" if digits[0] in "125" and math.isclose(float(digits), value) else ""


def draw(preview: Preview, path: str | Path) -> None:
    """Write the picture of a preview: a panel for each output, with a line for each budget.

    Args:
        preview: what to show.
        path: where to, a .png or .svg.
    Raises:
        ParameterError: the path is not admissible.
        EngineError: matplotlib is not installed.
    """
    target = check_picture(path)
    from matplotlib.figure import Figure

    table = preview.table.to_pylist()
    names = preview.outputs[:_MAX_PANELS]
    rows = math.ceil(len(names) / _COLUMNS)
    figure = Figure(figsize=(4 * min(len(names), _COLUMNS), 3 * rows + 0.4), layout="constrained")
    for i, name in enumerate(names):
        axis = figure.add_subplot(rows, min(len(names), _COLUMNS), i + 1)
        for colour, epsilon in zip(
            _COLOURS * len(table), dict.fromkeys(r["epsilon"] for r in table), strict=False
        ):
            points = sorted((r["units"], r[name]) for r in table if r["epsilon"] == epsilon)
            known = [(x, y) for x, y in points if math.isfinite(y) and y > 0]
            if known:
                axis.plot(*zip(*known, strict=True), marker="o", color=colour, label=f"epsilon {epsilon:g}")
        axis.set(xscale="log", yscale="log", xlabel="units in the group")
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_major_formatter(plain)
            scale.set_minor_formatter(plain)
        axis.set_title(name, parse_math=False)
        axis.grid(visible=True, which="major", alpha=0.3)
    axis.legend(fontsize=8)
    figure.supylabel(
        f"within this distance of the exact number in {preview.confidence:.4g} of releases", fontsize=8
    )
    save(figure, target)
