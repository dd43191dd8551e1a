"""The result of an analysis of exact rows, for the data owner alone: errors by limits. NOT PRIVATE."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Rows, Sentences, TextCard
from sfumato.display.pictures import check_picture, save
from sfumato.display.result_table import ResultTable
from sfumato.errors import ParameterError, nearest
from sfumato.measurements.int128_array import arrow_column
from sfumato.noise.law_tails import Floats
from sfumato.query.query import Query

Bounds = tuple[Fraction, Fraction]


@dataclass(frozen=True, repr=False)
class Limits(TextCard):
    """One combination of limits and bounds that an analysis compares, in place of the question's own.

    Args:
        groups, rows, total_rows: the limits; None if the question has none.
        bounds: the compared bounds of aggregates, by name.

    Made by `Question.analyze`.

    >>> Limits(groups=3, rows=1, bounds=(("time", (Fraction(0), Fraction(180))),))
    groups=3, rows=1, time 0 to 180
    """

    groups: int | None
    rows: int | None
    bounds: tuple[tuple[str, Bounds], ...] = ()
    total_rows: int | None = None

    def _limited(self, query: Query) -> Query:
        """Return a query with these limits and bounds of the analysis."""
        given = dict(self.bounds)

        def bounded(name: str, aggregate: Any) -> Any:
            lower, upper = given.get(name, (None, None))
            return aggregate if lower is None else replace(aggregate, lower=lower, upper=upper)

        asked = tuple((name, bounded(name, a)) for name, a in query.aggregates)
        return replace(
            query, max_groups=self.groups, max_rows=self.rows, total_rows=self.total_rows, aggregates=asked
        )

    @property
    def bounds_text(self) -> str:
        """The compared bounds, as text."""
        return ", ".join(f"{name} {_bounds_text(bounds)}" for name, bounds in self.bounds)

    def __str__(self) -> str:
        limits = ("groups", self.groups), ("rows", self.rows), ("total_rows", self.total_rows)
        found = [f"{n}={v:,}" for n, v in limits if v is not None]
        return ", ".join([*found, *filter(None, [self.bounds_text])]) or "the question as written"


def _bounds_text(bounds: Bounds) -> str:
    return f"{float(bounds[0]):g} to {float(bounds[1]):g}"


_COLUMNS, _MAX, _MAX_TEXTS = 3, 12, 120
_BLANK = "\n\n"  # between parts of a card
INK, PALE, MARK = "#1f2933", "#ffffff", "#d55e00"


@dataclass(frozen=True)
class Cells:
    """A panel of an analysis's heat map.

    Args:
        title: of the panel.
        values: by row and column, a number and what is written in the cell.
        marked: the cell that is framed.
    """

    title: str
    values: Mapping[tuple[int, int], tuple[float, str]]
    marked: tuple[int, int]


def heat_map(
    panels: Sequence[Cells],
    across: Sequence[str],
    down: Sequence[str],
    path: str | Path,
    title: str,
    limit: str,
    foot: str,
) -> None:
    """Write the heat map of an analysis: panels of cells, the darker the larger the error.

    Args:
        panels: one for each output, of which 12 are drawn.
        across, down: what columns and rows of cells stand for; of columns a limit, or nothing.
        path: where to, a .png or .svg.
        title, foot: above and below all.
        limit: what the limits of columns are of.
    Raises:
        ParameterError: the path is not admissible.
        EngineError: matplotlib is not installed.
    """
    target = check_picture(path)
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    panels = panels[:_MAX]
    wide = min(len(panels), _COLUMNS)
    high = math.ceil(len(panels) / _COLUMNS)
    labels = max(map(len, down)) * 0.07
    size = wide * (0.8 * len(across) + 0.9) + labels + 0.4, high * (0.6 * len(down) + 1.1) + 0.7
    figure = Figure(figsize=(max(size[0], 5.0), size[1]), layout="constrained")
    blues = colormaps["Blues"]
    for number, panel in enumerate(panels):
        axis = figure.add_subplot(high, wide, number + 1)
        logs = {
            place: math.log(value)
            for place, (value, _) in panel.values.items()
            if math.isfinite(value) and value > 0
        }
        low, top = min(logs.values(), default=0.0), max(logs.values(), default=0.0)
        for (row, column), (_, text) in panel.values.items():
            depth = (logs[row, column] - low) / (top - low) if (row, column) in logs and top > low else 0.0
            colour, corner = blues(0.08 + 0.8 * depth), (column - 0.5, row - 0.5)
            axis.add_patch(Rectangle(corner, 1, 1, facecolor=colour, edgecolor=PALE))
            if len(panel.values) <= _MAX_TEXTS:
                ink = PALE if depth > 0.6 else INK
                axis.text(
                    column, row, text, ha="center", va="center", fontsize=6, color=ink, parse_math=False
                )  # fmt: skip
        row, column = panel.marked
        axis.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=MARK, linewidth=2))
        axis.set(xlim=(-0.5, len(across) - 0.5), ylim=(len(down) - 0.5, -0.5))
        axis.set_title(panel.title, fontsize=9, parse_math=False)
        axis.set_xticks(range(len(across)), across, fontsize=7)
        first = number % _COLUMNS == 0
        axis.set_yticks(range(len(down)), down if first else [""] * len(down), fontsize=7)
        for label in axis.get_yticklabels():
            label.set_parse_math(False)
        if any(across):
            axis.set_xlabel(limit, fontsize=7)
    figure.suptitle(title, fontsize=9, color=MARK)
    figure.supxlabel(foot, fontsize=6)
    save(figure, target)


NOT_PRIVATE = (
    "NOT PRIVATE: this was computed from exact rows, for the owner of the table only. Do not publish "
    "it; limits and bounds chosen by it reveal rows."
)
_OF_CELL = ("output", "exact", "bias", "choice", "noise", "rmse")
OWN_COLUMNS = frozenset({"point", "groups", "rows", "total_rows", "bounds", "shown", *_OF_CELL})


@dataclass(frozen=True)
class Cell:
    """The errors of an output at one point of an analysis: arrays of shape (groups,).

    Args:
        exact: without limits, bounds and noise; NaN where there is none, as of a mean of no rows.
        bias: what limits and bounds change, in expectation over a random choice of groups.
        choice: the standard deviation of that choice.
        noise: the standard deviation of the noise; of outputs that are no sums, the root mean square of what
            it changes.
        hidden: whether a group that is not shown is off by all of its number.
    """

    exact: Floats
    bias: Floats
    choice: Floats
    noise: Floats
    hidden: bool

    @property
    def squares(self) -> Floats:
        """The expected squared error of each group at a point of the analysis, if the group is shown."""
        return np.asarray(self.bias**2 + self.choice**2 + self.noise**2)


@dataclass(frozen=True)
class Totals:
    """The errors of an output at one point of an analysis: root mean squares over groups.

    Args:
        bias, choice, noise: the parts of the error.
        rmse: the error of groups that are shown.
        error: the same; but of counts and sums of private groups that of all groups, of which those that are
            not shown are off by their whole number.
    """

    bias: float
    choice: float
    noise: float
    rmse: float
    error: float


@dataclass(frozen=True)
class Point:
    """The expected errors of an analysis with one combination of limits and bounds.

    Args:
        limits: these.
        shown: the chance of each group to be shown.
        cells: by output.
    """

    limits: Limits
    shown: Floats
    cells: Mapping[str, Cell]

    def totals(self, name: str) -> Totals:
        """Return the errors of an output at this point of the analysis, over all groups."""
        cell = self.cells[name]
        known = np.isfinite(cell.exact)
        weights = np.where(known, self.shown, 0.0)

        def mean(squares: Floats) -> float:
            total, summed = float(weights.sum()), float((weights * np.where(weights, squares, 0.0)).sum())
            return math.sqrt(summed / total) if total else math.nan

        squares = cell.squares
        rmse = error = mean(squares)
        if cell.hidden and known.any():
            of_all = weights * np.where(weights, squares, 0.0)
            lost = (1 - self.shown) * np.where(known, cell.exact, 0.0) ** 2
            error = math.sqrt(float((of_all + lost).sum()) / float(known.sum()))
        return Totals(mean(cell.bias**2), mean(cell.choice**2), mean(cell.noise**2), rmse, error)


class NonPrivateAnalysis(ResultTable):
    """Exact errors from limits, bounds and noise, by limits and group. NOT PRIVATE: for the owner only.

    `Question.analyze` returns it.

    Args:
        keys: the keys of the groups.
        outputs: the names of the outputs.
        points: one for each combination of limits and bounds.
        private_groups: whether a release may leave groups out.
    """

    def __init__(
        self, keys: pa.Table, outputs: Sequence[str], points: Sequence[Point], private_groups: bool
    ) -> None:
        self.keys = keys
        self.outputs: tuple[str, ...] = tuple(outputs)
        self.points: tuple[Point, ...] = tuple(points)
        self.private_groups = private_groups

    def best(self, output: str | None = None) -> Limits:
        """Return the limits with the smallest expected error.

        Args:
            output: the name of an output; by default all outputs, by the geometric mean of their errors.
        Returns:
            The limits.
        Raises:
            ParameterError: the output does not exist.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 1]}), privacy_unit="id").bound(rows=1).agg(n=sf.count())
        >>> analysis = visits.analyze(epsilon=1, rows=[1, 2, 3])
        >>> print(analysis.best())
        rows=1
        """
        return self.points[self._best(self.outputs if output is None else [self._known(output)])].limits

    def to_arrow(self, *, by_group: bool = False) -> pa.Table:
        """Return the numbers, NOT PRIVATE: a row for each combination and output, or for each group of these.

        Args:
            by_group: give the signed bias of each group, its noise, and the chance that it is shown.
        Returns:
            An Arrow table.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 1]}), privacy_unit="id").bound(rows=1).agg(n=sf.count())
        >>> analysis = visits.analyze(epsilon=1, rows=[1, 2, 3])
        >>> analysis.to_arrow().select(["rows", "bias"]).to_pylist()  # who has 3 rows
        [{'rows': 1, 'bias': 2.0}, {'rows': 2, 'bias': 1.0}, {'rows': 3, 'bias': 0.0}]
        """
        return self._by_group() if by_group else self._totals()

    def plot(self, path: str | Path) -> None:
        """Draw a heat map of the errors for each output. NOT PRIVATE.

        Args:
            path: where to write a .png or .svg.
        Raises:
            ParameterError: the path is not valid.
            EngineError: matplotlib is not installed.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 1]}), privacy_unit="id").bound(rows=1).agg(n=sf.count())
        >>> analysis = visits.analyze(epsilon=1, rows=[1, 2, 3])
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     analysis.plot(f"{folder}/errors.svg")
        ...     os.listdir(folder)
        ['errors.svg']
        """
        across = [
            p.limits.groups if p.limits.total_rows is None else p.limits.total_rows for p in self.points
        ]
        groups = list(dict.fromkeys(across))
        others = list(dict.fromkeys((p.limits.rows, p.limits.bounds) for p in self.points))
        panels = []
        for name in self.outputs:
            found: dict[tuple[int, int], tuple[float, str]] = {}
            for limit, p in zip(across, self.points, strict=True):
                totals = p.totals(name)
                place = others.index((p.limits.rows, p.limits.bounds)), groups.index(limit)
                spread = math.hypot(totals.choice, totals.noise)
                text = f"{_short(totals.error)}\n{_short(totals.bias)} | {_short(spread)}"
                found[place] = totals.error, text
            at = self._best([name])
            best = self.points[at].limits
            marked = others.index((best.rows, best.bounds)), groups.index(across[at])
            panels.append(Cells(name, found, marked))
        heat_map(
            panels,
            [_text(g) for g in groups],
            [str(Limits(None, rows, bounds)) for rows, bounds in others],
            path,
            "NOT PRIVATE: for the owner of the table only",
            "at most so many rows of a unit" if self._of_all else "groups of a unit, at most",
            "error (root mean square over groups); below it bias | selection and noise; the smallest "
            "is framed",
        )

    def __repr__(self) -> str:
        groups = f", {self.keys.num_rows:,} groups" if self.keys.num_columns else ""
        what = f"{len(self.points)} limits{groups}"
        return f"NonPrivateAnalysis({what}: exact numbers of rows, for their owner only)"

    def __str__(self) -> str:
        """Return the analysis as text: the error of each output, with bias and spread in brackets."""
        return f"{NOT_PRIVATE}\n\n{self._card().text().partition(_BLANK)[2]}"

    def _card(self) -> Card:
        names, *rows = self._errors
        title = "Expected errors by limits, for each output, with bias and spread in brackets"
        best = f"Smallest error of {'; of '.join(self._smallest)}."
        return Card(title, [Rows(names, rows, left=0), Sentences([best])], NOT_PRIVATE)

    @property
    def _errors(self) -> list[list[str]]:
        """The cells of the analysis as texts: errors of each output by limits, with bias and spread."""
        names = ["groups", "rows", "total_rows", "bounds"]
        shown = [
            [*map(_text, (p.limits.groups, p.limits.rows, p.limits.total_rows)), p.limits.bounds_text]
            for p in self.points
        ]
        used = [i for i in range(len(names)) if any(row[i] for row in shown)]
        head = [names[i] for i in used] + (["groups shown"] if self.private_groups else [])
        table = [head + [f"{n} (bias, spread)" for n in self.outputs]]
        for p, texts in zip(self.points, shown, strict=True):
            row = [texts[i] for i in used]
            if self.private_groups:
                row.append(f"{p.shown.sum():.4g} of {len(p.shown):,}")
            for name in self.outputs:
                t = p.totals(name)
                spread = math.hypot(t.choice, t.noise)
                row.append(f"{_short(t.error)} ({_short(t.bias)}, {_short(spread)})")
            table.append(row)
        return table

    @property
    def _smallest(self) -> list[str]:
        """The limits with the smallest errors in the analysis, as text for each output."""
        best = [f"{name}: {self.best(name)}" for name in self.outputs]
        if len(best) > 1:
            best.append(f"all: {self.best()}")
        return best

    @property
    def _of_all(self) -> bool:
        """Whether the analysis compares limits of a unit's rows in all groups together."""
        return self.points[0].limits.total_rows is not None

    def _known(self, name: object) -> str:
        if name not in self.outputs:
            near = nearest(str(name), self.outputs)
            hint = f", such as {near!r}" if near else ""
            raise ParameterError("output", name, f"one of {', '.join(self.outputs)}{hint}")
        return str(name)

    def _best(self, names: Iterable[str]) -> int:
        """Return the place of the point with the smallest geometric mean of errors."""
        scores = []
        for point in self.points:
            errors = [point.totals(name).error for name in names]
            logs = [math.log(max(e, 1e-300)) if math.isfinite(e) else math.inf for e in errors]
            scores.append(sum(logs) / len(logs))
        return int(np.argmin(scores))

    def _point_columns(self, place: int) -> dict[str, Any]:
        """Return what the analysis's tables say of a point: its place, limits and bounds."""
        limits = self.points[place].limits
        named = {"groups": limits.groups, "rows": limits.rows, "total_rows": limits.total_rows}
        return {"point": place} | named | {"bounds": limits.bounds_text}

    def _totals(self) -> pa.Table:
        rows = []
        for i, p in enumerate(self.points):
            shown = {"groups_shown": float(p.shown.sum())}
            for name in self.outputs:
                rows.append(self._point_columns(i) | shown | {"output": name} | vars(p.totals(name)))
        return pa.Table.from_pylist(rows, _TOTALS_SCHEMA)

    def _by_group(self) -> pa.Table:
        keys = dict(zip(self.keys.column_names, self.keys.columns, strict=True))
        tables = []
        for i, p in enumerate(self.points):
            for name, cell in ((name, p.cells[name]) for name in self.outputs):
                same = self._point_columns(i) | {"output": name}
                numbers = {
                    "shown": p.shown, "exact": cell.exact, "bias": cell.bias, "choice": cell.choice,
                    "noise": cell.noise, "rmse": np.sqrt(cell.squares),
                }  # fmt: skip
                columns = {
                    column: pa.repeat(pa.scalar(value, _TOTALS_SCHEMA.field(column).type), len(p.shown))
                    for column, value in same.items()
                }
                columns |= {n: arrow_column(np.asarray(v, np.float64)) for n, v in numbers.items()}
                tables.append(pa.table(keys | columns))
        return pa.concat_tables(tables)


_TOTALS_SCHEMA = pa.schema(
    [(name, pa.int64()) for name in ("point", "groups", "rows", "total_rows")]
    + [("bounds", pa.string()), ("groups_shown", pa.float64()), ("output", pa.string())]
    + [(name, pa.float64()) for name in ("bias", "choice", "noise", "rmse", "error")]
)


def _short(value: float) -> str:
    """Write an error of the analysis with three digits, and those before the point.

    >>> _short(2186.4), _short(0.83412), _short(12345678.0), _short(2.0)
    ('2,186', '0.834', '12,345,678', '2')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3g}"


def _text(limit: int | None) -> str:
    return "" if limit is None else f"{limit:,}"
