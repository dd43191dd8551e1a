"""The advice for several queries: complete queries, their budgets, expected errors, and a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import partial
from math import exp, isfinite, log
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.api.question import Question
from sfumato.budget import Budget
from sfumato.dataclass import dataclass
from sfumato.display.cards import Card, Rows, Sentences, TextCard
from sfumato.display.formatting import Spelled
from sfumato.display.pictures import check_picture, save
from sfumato.display.result_table import ResultTable
from sfumato.errors import QueryError
from sfumato.plan.plan import Plan
from sfumato.query.inferred_parameters import Found
from sfumato.query.option_names import noise_title
from sfumato.release.canonical_form import canonical
from sfumato.release.payment import payment
from sfumato.release.release import check_error_columns

_ROWS, _COLUMNS = 8, 4
_ERROR, _NOISE, _MARK = "#0072b2", "#999999", "#d55e00"


@dataclass(frozen=True)
class Curve:
    """The expected error of an advised query as one choice varies, with the others as advised.

    Args:
        choice: the name of the choice, such as "groups".
        chosen: the advised value.
        points: each value with the noise and the error, relative to the error at the advised value.
    """

    choice: str
    chosen: float
    points: tuple[tuple[float, float, float], ...]


def draw(questions: Sequence[tuple[str, Sequence[Curve]]], path: str | Path) -> None:
    """Write the picture of advice: a row of panels for each of up to 8 queries, with 4 choices at most.

    Args:
        questions: names and curves.
        path: where to, a .png or .svg.
    Raises:
        ParameterError: the path is not admissible.
        EngineError: matplotlib is not installed.
    """
    target = check_picture(path)
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    rows = [(name, curves[:_COLUMNS]) for name, curves in questions][:_ROWS]
    wide = max((len(curves) for _, curves in rows), default=1) or 1
    figure = Figure(figsize=(3.2 * wide + 0.4, 2.3 * len(rows) + 0.8), layout="constrained")
    for row, (name, curves) in enumerate(rows):
        for column, curve in enumerate(curves):
            axis = figure.add_subplot(len(rows), wide, row * wide + column + 1)
            points = [p for p in sorted(curve.points) if all(map(math.isfinite, p)) and min(p[1:]) > 0]
            if points:
                values, noise, error = zip(*points, strict=True)
                axis.plot(values, noise, color=_NOISE, linestyle="--", label="noise alone")
                axis.plot(values, error, marker="o", markersize=3, color=_ERROR, label="noise and bias")
            chosen = [p for p in points if p[0] == curve.chosen]
            if chosen:
                axis.plot(curve.chosen, chosen[0][2], marker="D", color=_MARK, linestyle="", label="advised")
            if all(p[0] > 0 for p in points):
                axis.set_xscale("log")
            axis.set_yscale("log")
            for each in (axis.xaxis, axis.yaxis):  # whose labels would be on each other
                each.set_minor_formatter(NullFormatter())
            axis.set_xlabel(curve.choice, fontsize=8, parse_math=False)
            axis.tick_params(labelsize=7)
            axis.grid(visible=True, which="major", alpha=0.3)
            if column == 0:
                axis.set_title(name, fontsize=9, loc="left", parse_math=False)
            if row == 0 and column == 0 and points:
                axis.legend(fontsize=6)
    figure.supylabel("expected error, as a multiple of the advised one", fontsize=8)
    save(figure, target)


_QUANTILE = "quantile"


@dataclass(frozen=True, repr=False)
class Better(TextCard):
    """Limits that the advice finds better than the ones you set, which stay in effect.

    Args:
        limits: the limits, by name.
        times: the expected error with them, relative to that with yours.

    >>> Better({"groups": 2, "rows": 10}, times=0.5)
    groups=2 and rows=10
    """

    limits: Mapping[str, int]
    times: float

    def __str__(self) -> str:
        return " and ".join(f"{name}={limit:,}" for name, limit in self.limits.items())


@dataclass(frozen=True, repr=False)
class Advised(Spelled):
    """One query of the advice: complete, with its part of the budget.

    Args:
        name: the name of the query.
        question: the complete question; its limits and bounds are numbers.
        epsilon, delta: the budget of its release.
        plan: the plan of its release.
        errors: the approximate error of each output over groups, at average size: of counts and sums their
            own, of means and variances that of their value, of quantiles that of their rank, from 0 to 1.
        by_default: the same with an equal part of the whole budget, and limits of 1 where they were open.
        bounds: the bounds that were open, by output name.
        better: limits that are better than those you set, if there are any.
        curves: the error by each choice, with the others as advised, as in `Advice.curves`.

    Made by `advise`.

    >>> import pyarrow as pa, sfumato as sf
    >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
    >>> long = visits.filter("minutes > 60").agg(people=sf.count_units())
    >>> one = sf.advise(visits, {"long": long}, epsilon=2).questions["long"]
    >>> one.epsilon, one.noise, round(one.errors["people"], 3)
    (Fraction(2, 1), 'laplace', 0.602)
    """

    name: str
    question: Question[Any]
    epsilon: Fraction
    delta: Fraction
    plan: Plan
    errors: Mapping[str, float]
    by_default: Mapping[str, float]
    bounds: Mapping[str, tuple[Fraction, Fraction]]
    better: Better | None
    curves: tuple[Curve, ...] = field(repr=False)  # hundreds of points

    @property
    def groups(self) -> int | None:
        """The advised limit on groups per unit."""
        return self.question.table.groups

    @property
    def rows(self) -> int | None:
        """The advised limit on rows per unit and group."""
        return self.question.table.rows

    @property
    def noise(self) -> str:
        """The noise of the advised query's release."""
        return self.plan.noise.name

    def release(self, **options: Any) -> Any:
        """Release the advised query, as `Question.release`, with the advised epsilon and delta.

        Args:
            options: other options of `Question.release`, such as `budget`.
        Returns:
            The release.
        Raises:
            QueryError, BudgetError: before anything is read, spent or drawn; also if you pass `epsilon` or
                `delta`, which are those advised.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
        >>> advice = sf.advise(visits, {"all": visits.agg(people=sf.count_units())}, epsilon=1)
        >>> advice.questions["all"].release(confidence=0.95)
        <Release of people; epsilon=1, delta=0>
        """
        for name in ("epsilon", "delta"):
            if name in options:
                raise QueryError(f"release: {name} is set by the advice. Write question.release({name}=...)")
        return self.question.release(epsilon=self.epsilon, delta=self.delta, **options)

    @property
    def limits(self) -> str:
        """Return the limits of the advised query, as text."""
        table = self.question.table
        named = ("groups", table.groups), ("rows", table.rows), ("total_rows", table.total_rows)
        return ", ".join(f"{name}={limit:,}" for name, limit in named if limit is not None) or "none"


@dataclass(frozen=True, repr=False)
class Advice(TextCard, ResultTable):
    """Advice on how to release several queries of a table within one budget.

    `advise` returns it.

    Args:
        questions: the complete questions, by name.
        epsilon, delta: the total for preliminary queries and all releases.
        spent: the epsilon of the preliminary queries.
        found: the findings of the preliminary queries, with the epsilon of each.
        notes: what an analyst should know.
    """

    questions: Mapping[str, Advised]
    epsilon: Fraction
    delta: Fraction
    spent: Fraction
    found: tuple[Found, ...]
    notes: tuple[str, ...]

    def release(self, *, budget: Budget | None = None, confidence: float | None = None) -> dict[str, Any]:
        """Release all advised queries, each with its part of the budget.

        Args:
            budget: the `sfumato.Budget` to charge, for all queries or none. Preliminary queries were charged
                before.
            confidence: also add error bars of this confidence, in columns named `<output>_error`.
        Returns:
            The releases by name. Each call makes new ones at the same cost again.
        Raises:
            QueryError, BudgetError: before anything is read, spent or drawn.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
        >>> people, long = (one.agg(n=sf.count_units()) for one in (visits, visits.filter("minutes > 60")))
        >>> advice = sf.advise(visits, {"all": people, "long": long}, epsilon=1, weights={"long": 3})
        >>> year = sf.Budget(epsilon=4)
        >>> advice.release(budget=year)["long"], year.remaining.epsilon
        (<Release of n; epsilon=0.75, delta=0>, 3.0)
        """
        if confidence is not None:
            for one in self.questions.values():
                check_error_columns(one.plan, confidence)
        engines = [one.question.table._engine for one in self.questions.values()]
        plans = [one.plan for one in self.questions.values()]
        made_up = all(one.made_up for one in engines)
        forms = [partial(canonical, *pair) for pair in zip(plans, engines, strict=True)]
        paid = payment(
            budget,
            plans,
            "advised questions",
            form=lambda: {"asks": "advised questions", "releases": [form() for form in forms]},
            made_up=made_up,
        )()
        return {
            name: one.question.table._engine.release(one.plan, confidence=confidence, pay=lambda: paid)
            for name, one in self.questions.items()
        }

    @property
    def times(self) -> float:
        """The advised queries' errors relative to those by default: a geometric mean."""
        logs = [
            log(error / one.by_default[name])
            for one in self.questions.values()
            for name, error in one.errors.items()
            if name in one.by_default and error > 0 and one.by_default[name] > 0
        ]
        return exp(sum(logs) / len(logs)) if logs else 1.0

    def to_arrow(self) -> pa.Table:
        """Return the advice as a table: a row for each output, with its budget, limits, noise and errors.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
        >>> people, long = (one.agg(n=sf.count_units()) for one in (visits, visits.filter("minutes > 60")))
        >>> advice = sf.advise(visits, {"all": people, "long": long}, epsilon=1, weights={"long": 3})
        >>> advice.to_arrow().select(["question", "epsilon"]).to_pylist()
        [{'question': 'all', 'epsilon': 0.25}, {'question': 'long', 'epsilon': 0.75}]
        """
        rows = [
            {
                "question": one.name,
                "epsilon": float(one.epsilon),
                "delta": float(one.delta),
                "groups": one.groups,
                "rows": one.rows,
                "lower": bounds[0],
                "upper": bounds[1],
                "noise": one.noise,
                "output": name,
                "expected_error": error,
                "by_default": one.by_default.get(name),
            }
            for one in self.questions.values()
            for name, error in one.errors.items()
            for bounds in [_bounds(one, name)]
        ]
        return pa.Table.from_pylist(rows, _SCHEMA)

    def curves(self) -> pa.Table:
        """Return the expected errors by each choice of the advice, as `plot` draws them.

        Returns:
            A row for each question, choice and value: the error and its part from noise, relative to the
            error with the advised value, and whether this is that value.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
        >>> people, long = (one.agg(n=sf.count_units()) for one in (visits, visits.filter("minutes > 60")))
        >>> advice = sf.advise(visits, {"all": people, "long": long}, epsilon=1, weights={"long": 3})
        >>> curves = advice.curves().to_pandas()
        >>> curves[curves["question"] == "long"][["choice", "value", "error", "advised"]].round(2).tail(3)
             choice  value  error  advised
        12  epsilon   0.50   1.52    False
        13  epsilon   0.75   1.00     True
        14  epsilon   1.00   0.74    False
        """
        columns: dict[str, list[Any]] = {
            name: [] for name in ("question", "choice", "value", "error", "noise", "advised")
        }
        for one in self.questions.values():
            for curve in one.curves:
                for value, noise, error in curve.points:
                    row = one.name, curve.choice, value, error, noise, value == curve.chosen
                    for column, cell in zip(columns.values(), row, strict=True):
                        column.append(cell)
        return pa.table(columns)

    def plot(self, path: str | Path) -> None:
        """Draw the error by each choice, a row of charts for each question.

        Args:
            path: where to write a .png or .svg.
        Raises:
            ParameterError: the path is not valid.
            EngineError: matplotlib is not installed.

        >>> import pyarrow as pa, sfumato as sf
        >>> visits = sf.scan(pa.table({"id": [1, 1, 2], "minutes": [30, 45, 200]}), privacy_unit="id")
        >>> people, long = (one.agg(n=sf.count_units()) for one in (visits, visits.filter("minutes > 60")))
        >>> advice = sf.advise(visits, {"all": people, "long": long}, epsilon=1, weights={"long": 3})
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     advice.plot(f"{folder}/errors.svg")
        ...     os.listdir(folder)
        ['errors.svg']
        """
        draw([(one.name, one.curves) for one in self.questions.values()], path)

    def _card(self) -> Card:
        head, names, rows, said = self._parts
        return Card(head, [Rows(names, rows, left=len(names)), Sentences(said)])

    @property
    def _parts(self) -> tuple[str, list[str], list[list[str]], list[str]]:
        """The title, table and sentences in which advice is displayed."""
        count = len(self.questions)
        asked = "1 question" if count == 1 else f"{count} questions"
        head = (
            f"Advice for {asked} at epsilon {float(self.epsilon):g}"
            + (f", delta {float(self.delta):g}" if self.delta else "")
            + f": {float(self.spent):g} was spent on preliminary queries, the rest is divided."
        )
        names = (
            "question",
            "epsilon",
            "delta",
            "limits",
            "bounds",
            "noise",
            "output",
            "expected error",
            "by default",
        )
        rows = [names, *self._rows()]
        kept = [
            i
            for i in range(len(names))
            if names[i] not in ("delta", "bounds") or any(row[i] for row in rows[1:])
        ]
        first, *others = [[row[i] for i in kept] for row in rows]
        better = [
            (
                f"{one.name}: {one.better} would make its error about {one.better.times:.2g} times "
                "the error with the settings as given."
            )
            for one in self.questions.values()
            if one.better is not None
        ]
        return head, first, others, [*better, *self.notes, *map(str, self.found)]

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for one in self.questions.values():
            first = True
            for name, error in one.errors.items():
                low, high = _bounds(one, name)
                bounds = "" if low is None else f"{low:g} to {high:g}"
                delta = f"{float(one.delta):.3g}" if one.delta else ""
                before = (one.name, f"{float(one.epsilon):.4g}", delta, one.limits)
                shown = before if first else ("",) * len(before)
                noise = noise_title(one.noise) if first else ""
                by_default = _error_text(one, name, one.by_default.get(name))
                yield (*shown, bounds, noise, name, _error_text(one, name, error), by_default)
                first = False


_SCHEMA = pa.schema(
    [
        ("question", pa.string()),
        ("epsilon", pa.float64()),
        ("delta", pa.float64()),
        ("groups", pa.int64()),
        ("rows", pa.int64()),
        ("lower", pa.float64()),
        ("upper", pa.float64()),
        ("noise", pa.string()),
        ("output", pa.string()),
        ("expected_error", pa.float64()),
        ("by_default", pa.float64()),
    ]
)


def _bounds(one: Advised, name: str) -> tuple[float | None, float | None]:
    """Return the advised bounds of an output, if they were open."""
    asked = next(n for n, a in one.plan.query.aggregates if name in a.outputs(n))
    found = one.bounds.get(asked)
    return (None, None) if found is None else (float(found[0]), float(found[1]))


def _error_text(one: Advised, name: str, error: float | None) -> str:
    if error is None or not isfinite(error):
        return "not known"
    estimate = next(e for e in one.plan.requirements.estimates if e.name == name)
    if estimate.kind == _QUANTILE:
        return f"± {error:.2g} of ranks" if error < 1 else "all of its range"
    if estimate.kind in ("mean", "variance", "stddev") and error >= estimate.upper - estimate.lower:
        return "all of its range"
    return f"± {error:,.0f}" if error >= 1000 else f"± {error:.3g}"
