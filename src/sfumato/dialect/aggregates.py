"""Calls of private aggregates -> what they ask: each with its own bounds, or a refusal with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from sfumato.catalogs.declarations import TableDeclaration
from sfumato.catalogs.notes import beyond, bounds_note
from sfumato.dialect.inside.queries import Source
from sfumato.dialect.listed import listed
from sfumato.dialect.strata import FORM, Strata
from sfumato.dialect.syntax import Call, Expression, Statement, positive
from sfumato.dialect.vocabulary import NAMED
from sfumato.dialect.words import Place, refusal
from sfumato.errors import SqlError
from sfumato.query import aggregates as ask
from sfumato.query.aggregates import Aggregate, CountPrivacyUnits
from sfumato.query.choices import Bounded
from sfumato.query.schema import spelled

_MOST_BOUNDARIES = 1000


class Aggregates:
    """The aggregates of a statement, and what they bring with them.

    Args:
        statement: whose calls they are.
        unit: the column that tells whose a row is.
        declared: what a catalog says of its table.
    """

    def __init__(self, statement: Statement, unit: str, declared: TableDeclaration | None = None) -> None:
        self.statement, self.unit, self.declared = statement, unit, declared
        self.anonymization = statement.clause == "ANONYMIZATION"
        self.rows: tuple[int, Place] | None = None
        self.derived: dict[tuple[str, ...], tuple[str, str]] = {}
        self.notes: list[str] = []
        self.words = frozenset(re.findall(r"\w+", statement.text.casefold()))

    def of(self, call: Call) -> Aggregate:
        """Return what a call asks.

        Raises:
            SqlError: it has no private form, or not with such bounds.
        """
        function, make = call.function, FUNCTIONS[call.function]
        self._check_form(call)
        weights = self._weights(call, make)
        if call.bounds is not None and call.bounds.second is not None and call.second is None:
            raise self._refuse(call.bounds.place, f"{function} is of one column: write (lower, upper)")
        if make in (ask.count, ask.count_distinct):
            return self._count(call, weights)
        if call.distinct:
            raise self._refuse(call.name_place, f"{function}(DISTINCT ...) has no private form here")
        if call.argument is None:
            raise self._refuse(call.name_place, f"{function}(*): name a column")
        if function in NAMED or make is ask.proportion:
            return self._listed(call, call.argument, make, weights)
        if call.second is not None:
            return self._of_two(call, [call.argument, call.second], make)
        low, high, per = self._bounds(call)
        column = self._column(call.argument)
        error_bars = call.error_bars is None or call.error_bars.value
        if make is ask.quantiles:
            ranks = self._ranks(call)
            return ask.quantiles(column, ranks, lower=low, upper=high, error_bars=error_bars)
        if call.ranks:
            raise self._refuse(call.ranks[0].place, f"{function} takes one expression, and bounds")
        if make in _QUANTILES:
            return make(column, lower=low, upper=high, error_bars=error_bars)
        if make is ask.sum:
            return ask.sum(column, lower=low, upper=high, per=per, **weights)
        if function in ("VARIANCE", "STDDEV"):
            self._note(f"{function} is that of the population: divided by the count, not the count less one.")
        if function == "ANON_AVG":
            self._note("ANON_AVG clamps each row; ZetaSQL clamps the average of each privacy unit.")
        return make(column, lower=low, upper=high, **weights)

    def _check_form(self, call: Call) -> None:
        """Check that a call is written as its clause has it."""
        function, make = call.function, FUNCTIONS[call.function]
        if function.startswith("ANON_") != self.anonymization:
            other = _TWINS.get(function) or function.removeprefix("ANON_")
            other = other if other != function else f"ANON_{function}"
            hint = "ask in WITH DIFFERENTIAL_PRIVACY" if function in _NEWER else f"write {other}"
            raise self._refuse(
                call.name_place, f"{function} does not go with WITH {self.statement.clause}; {hint}"
            )
        if call.bounds is not None and (call.bounds.kind == "clamped") != self.anonymization:
            form = (
                "CLAMPED BETWEEN lower AND upper"
                if self.anonymization
                else "contribution_bounds_... => (...)"
            )
            raise self._refuse(
                call.bounds.place, f"with WITH {self.statement.clause}, bounds are written {form}"
            )
        if call.sample is not None and make is not ask.proportion:
            raise self._refuse(call.sample.place, f"{function} has no strata: {FORM}")
        if call.error_bars and make not in _QUANTILES:
            raise self._refuse(
                call.error_bars.place,
                f"{function} always has error bars; only quantiles do without, for less noise",
            )

    def _count(self, call: Call, weights: Mapping[str, Any]) -> Aggregate:
        bounds = call.bounds
        if call.ranks:
            raise self._refuse(call.ranks[0].place, f"{call.function} takes one expression, and bounds")
        if weights and call.distinct:
            raise self._refuse(
                call.name_place, f"{call.function}(DISTINCT ...) has no weights: leave them out"
            )
        if FUNCTIONS[call.function] is ask.count_distinct:
            return self._count_distinct(call)
        if call.distinct:
            column = None if call.argument is None else self.statement.column(call.argument)
            if column is None or column.casefold() != self.unit.casefold():
                return self._count_distinct(call)
            if bounds is not None and [Fraction(bounds.lower.text), Fraction(bounds.upper.text)] != [0, 1]:
                raise self._refuse(
                    bounds.place, "a privacy unit counts once in each of its groups: leave the bounds out"
                )
            return ask.count_units()
        if bounds is not None:
            if bounds.kind == "contribution_bounds_per_row":
                raise self._refuse(
                    bounds.place, "a row counts as one row; write contribution_bounds_per_group => (0, rows)"
                )
            if Fraction(bounds.lower.text) != 0:
                raise self._refuse(bounds.lower.place, "the lower bound of a count must be 0")
            rows = positive(self.statement.text, bounds.upper, "the upper bound of a count")
            if self.rows is not None and self.rows[0] != rows:
                raise self._refuse(
                    bounds.upper.place,
                    f"another COUNT is bounded by {self.rows[0]}; one limit holds for all",
                )
            declared = self.declared
            if declared is not None and declared.max_rows is not None and rows > declared.max_rows:
                raise self._refuse(
                    bounds.upper.place, beyond(declared, "the bound of a COUNT", rows, declared.max_rows)
                )
            self.rows = self.rows or (rows, bounds.upper.place)
        return ask.count(None if call.argument is None else self._column(call.argument), **weights)

    def _weights(self, call: Call, make: Callable[..., Aggregate]) -> dict[str, Any]:
        """Return the weights of a call, as its function takes them."""
        written = call.weight or call.max_weight
        if written is None:
            return {}
        place = written.place
        if make not in _WEIGHTED:
            known = "COUNT, SUM, AVG, HISTOGRAM and VALUE_COUNTS"
            raise self._refuse(place, f"{call.function} has no weights; {known} have")
        if call.weight is None or call.max_weight is None:
            raise self._refuse(place, "weights are written weight => column, max_weight => 50")
        if make is ask.sum and call.bounds and call.bounds.kind != "contribution_bounds_per_row":
            example = "SUM(x, contribution_bounds_per_row => (0, 9), weight => w, max_weight => 50)"
            raise self._refuse(call.bounds.place, f"with weights a sum has bounds of each row: {example}")
        if Fraction(call.max_weight.text) <= 0:
            raise self._refuse(call.max_weight.place, "the largest weight must be greater than 0")
        return {"weight": self._column(call.weight), "max_weight": call.max_weight.text}

    def _count_distinct(self, call: Call) -> Aggregate:
        bounds, fast = call.bounds, call.function == "APPROX_COUNT_DISTINCT"
        form = f"{call.function}({'' if fast else 'DISTINCT '}x" + (
            " CLAMPED BETWEEN 0 AND 3)"
            if self.anonymization
            else ", contribution_bounds_per_group => (0, 3))"
        )
        if call.argument is None:
            raise self._refuse(call.name_place, f"values of one column are counted: {form}")
        if fast and call.distinct:
            raise self._refuse(call.name_place, f"{call.function} counts different values by itself: {form}")
        if bounds is None:
            raise self._refuse(
                call.name_place,
                f"as how many different values may one privacy unit count in a group at most? Write {form}; "
                f"privacy units themselves are counted by COUNT(DISTINCT {spelled(self.unit)})",
            )
        if bounds.kind == "contribution_bounds_per_row":
            raise self._refuse(bounds.place, f"what a unit adds to a group is bounded: {form}")
        if Fraction(bounds.lower.text) != 0:
            raise self._refuse(bounds.lower.place, "the lower bound of a count must be 0")
        values = positive(self.statement.text, bounds.upper, "the upper bound of a count")
        if values > ask.MOST_VALUES:
            raise self._refuse(bounds.upper.place, f"at most {ask.MOST_VALUES:,} values of a unit can count")
        column = self._column(call.argument)
        return ask.count_distinct(column, values=values, method="shares" if fast else "matching")

    def _listed(
        self, call: Call, argument: Expression, make: Callable[..., Aggregate], weights: Mapping[str, Any]
    ) -> Aggregate:
        if make is not ask.proportion:
            return listed(call, make, self._column(argument), weights, self._refuse)
        if call.bounds is not None or call.ranks:
            place = call.bounds.place if call.bounds else call.ranks[0].place
            raise self._refuse(place, f"an answer is yes or no, and has no bounds: {FORM}")
        strata = Strata(self.statement.text, call.sample, call.name_place, self._refuse)
        return strata.proportion(self._column(argument), self._column)

    def _of_two(self, call: Call, arguments: list[Expression], make: Callable[..., Aggregate]) -> Aggregate:
        """Return an aggregate of two columns, each with its bounds: those of the call, or of a catalog."""
        function, bounds = call.function, call.bounds
        form = f"{function}(y, x, contribution_bounds_per_row => ((lower, upper), (lower, upper)))"
        if call.ranks:
            raise self._refuse(call.ranks[0].place, f"write {form}")
        columns = [self._column(argument) for argument in arguments]
        if columns[0].casefold() == columns[1].casefold():
            other = "name another column" if make is _line else "write VAR_POP"
            raise self._refuse(arguments[1].place, f"{function} of a column with itself: {other}")
        if bounds is not None:
            if bounds.kind != "contribution_bounds_per_row" or bounds.second is None:
                raise self._refuse(bounds.place, f"each row of each column is bounded: write {form}")
            pairs: list[Any] = [(bounds.lower, bounds.upper), bounds.second]
            for low, high in pairs:
                if Fraction(low.text) >= Fraction(high.text):
                    message = f"the lower bound {low.text} is not below the upper bound {high.text}"
                    raise self._refuse(bounds.place, message)
            return make(
                *columns,
                bounds={c: (low.text, high.text) for c, (low, high) in zip(columns, pairs, strict=True)},
            )
        known = {}
        for argument, column in zip(arguments, columns, strict=True):
            own = self.statement.column(argument)
            found = None if self.declared is None or own is None else self.declared.bounds(own)
            if found is None or self.declared is None or own is None:
                raise self._refuse(
                    call.name_place,
                    f"{function} without bounds: without them no noise is enough, and they are never read "
                    f"from the data. Write {form} with ranges that are known beforehand"
                    + self._declaring(argument, own),
                )
            self._note(bounds_note(self.declared, own, found))
            known[column] = found
        return make(*columns, bounds=known)

    def _bounds(self, call: Call) -> tuple[str | Fraction, str | Fraction, Bounded]:
        function, bounds = call.function, call.bounds
        per_unit = "contribution_bounds_per_group"
        kind = f"contribution_bounds_per_{'group' if function == 'SUM' else 'row'}"
        if bounds is None:
            column = None if call.argument is None else self.statement.column(call.argument)
            if self.declared is not None and column is not None:
                # An aggregate sees the columns of the source alone, whatever is derived beside it.
                known = self.declared.bounds(column)
                if known is not None:
                    self._note(bounds_note(self.declared, column, known))
                    return *known, "row"
            form = " CLAMPED BETWEEN lower AND upper" if self.anonymization else f", {kind} => (lower, upper)"
            more = ", rank" if FUNCTIONS[function] is ask.quantiles else ""
            raise self._refuse(
                call.name_place,
                f"{function} without bounds: without them no noise is enough, and they are never read "
                f"from the data. Write {function}(x{more}{form}) with a range that is known beforehand"
                + self._declaring(call.argument, column),
            )
        if bounds.kind == per_unit and function != "SUM":
            average = " (BigQuery averages the averages of the units; here all rows are averaged)"
            raise self._refuse(
                bounds.place,
                f"{function} bounds each row: write contribution_bounds_per_row => (lower, upper)"
                + (average if function == "AVG" else ""),
            )
        low, high = bounds.lower.text, bounds.upper.text
        if Fraction(low) >= Fraction(high):
            raise self._refuse(bounds.place, f"the lower bound {low} is not below the upper bound {high}")
        return low, high, "row" if bounds.kind == "contribution_bounds_per_row" else "unit"

    def _declaring(self, argument: Expression | None, column: str | None) -> str:
        """Say where else bounds could stand: in the catalog, where the column is one of a table there."""
        if self.declared is None or argument is None or column is None:
            return ""
        tables, name = self.statement.tables, self.statement.bare(column)
        of: list[tuple[str | None, Source]] = [(tables.alias, tables.source)]
        of += [(one.alias, one.source) for one in tables.joined]
        if len(argument.tokens) > 1:  # which is written with the name of its table
            whose = argument.tokens[0].text.casefold()
            of = [(alias, source) for alias, source in of if (alias or "").casefold() == whose]
        sources = [source for _, source in of]
        if len(sources) == 1 and not isinstance(sources[0], str):
            return f"; {name} is of a SELECT inside, of which no bounds are declared"
        if not all(isinstance(source, str) for source in sources):
            return ""
        where = ", ".join(map(str, sources))
        return f", or declare lower and upper of {name} in {self.declared.catalog}: tables.{where}"

    def _ranks(self, call: Call) -> list[float] | float:
        function, ranks = call.function, call.ranks
        listing = function == "QUANTILES"
        boundaries = function in ("APPROX_QUANTILES", "ANON_QUANTILES")
        if not ranks or call.listed != listing:
            second = "[0.25, 0.5, 0.75]" if listing else "4" if boundaries else "0.5"
            place = ranks[0].place if ranks else call.name_place
            raise self._refuse(place, f"the second argument of {function} is written {second}")
        if boundaries:
            number = positive(self.statement.text, ranks[0], f"the number of quantiles of {function}")
            if number > _MOST_BOUNDARIES:
                raise self._refuse(
                    ranks[0].place, f"at most {_MOST_BOUNDARIES} quantiles can be asked at once"
                )
            return [i / number for i in range(number + 1)]
        seen: set[float] = set()
        for rank in ranks:
            if not 0 <= Fraction(rank.text) <= 1:
                raise self._refuse(
                    rank.place, "a rank must be a number in [0, 1], such as 0.5 for the median"
                )
            if float(rank.text) in seen:
                raise self._refuse(rank.place, "this rank is asked twice")
            seen.add(float(rank.text))
        return [float(rank.text) for rank in ranks] if listing else float(ranks[0].text)

    def _column(self, argument: Expression) -> str:
        """Return the column's name; the same expression becomes the same derived column."""
        column = self.statement.column(argument)
        if column is not None:
            return column
        shape = self.statement.shape(argument)
        if shape not in self.derived:
            name = f"_value_{len(self.derived) + 1}"
            while name in self.words:
                name = f"_{name}"
            self.derived[shape] = (name, self.statement.spell(argument))
        return self.derived[shape][0]

    def default_name(self, call: Call, aggregate: Aggregate, position: int) -> str:
        """Return the name of an output without one."""
        if isinstance(aggregate, CountPrivacyUnits):
            return "count_units"
        bare = call.function.removeprefix("ANON_")
        prefix = "count_distinct" if call.distinct else _PREFIXES.get(bare, bare.lower())
        if call.argument is None:
            return prefix
        columns = [self.statement.column(x) for x in (call.argument, call.second) if x is not None]
        known = [self.statement.bare(column) for column in columns if column is not None]
        return "_".join([prefix, *(known if len(known) == len(columns) else [str(position)])])

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _refuse(self, place: Place, message: str) -> SqlError:
        return refusal(self.statement.text, place, message)


def _line(y: str, x: str, *, bounds: Mapping[str, Any]) -> Aggregate:
    """Explain a column by one other."""
    return ask.linear_regression(y, [x], bounds=bounds)


_PREFIXES = {
    "VARIANCE": "var",
    "VAR_POP": "var",
    "COVAR_POP": "covar",
    "STDDEV_POP": "stddev",
    "APPROX_QUANTILES": "quantiles",
    "APPROX_COUNT_DISTINCT": "count_distinct",
    "PERCENTILE_CONT": "percentile",
    "STRATIFIED_PROPORTION": "proportion",
}
# Which the older clause has no name for.
_NEWER = (
    *("COVAR_POP", "CORR", "LINEAR_REGRESSION", "HISTOGRAM", "VALUE_COUNTS", "STRATIFIED_PROPORTION"),
    *("VECTOR_SUM", "VECTOR_AVG"),
)
_TWINS = {
    "VARIANCE": "ANON_VAR_POP",
    "STDDEV": "ANON_STDDEV_POP",
    "APPROX_QUANTILES": "ANON_QUANTILES",
    "APPROX_COUNT_DISTINCT": "ANON_COUNT",
    **dict.fromkeys(("MEDIAN", "MIN", "MAX"), "ANON_PERCENTILE_CONT"),
    "ANON_QUANTILES": "APPROX_QUANTILES",
}
FUNCTIONS: dict[str, Callable[..., Aggregate]] = {
    "COUNT": ask.count,
    "SUM": ask.sum,
    "AVG": ask.mean,
    "VARIANCE": ask.variance,
    "VAR_POP": ask.variance,
    "STDDEV": ask.stddev,
    "STDDEV_POP": ask.stddev,
    "APPROX_QUANTILES": ask.quantiles,
    "QUANTILES": ask.quantiles,
    "PERCENTILE_CONT": ask.quantiles,
    "MEDIAN": ask.median,
    "MIN": ask.min,
    "MAX": ask.max,
    "APPROX_COUNT_DISTINCT": ask.count_distinct,
    "HISTOGRAM": ask.histogram,
    "STRATIFIED_PROPORTION": ask.proportion,
    "VALUE_COUNTS": ask.value_counts,
    "VECTOR_SUM": ask.vector_sum,
    "VECTOR_AVG": ask.vector_mean,
    "COVAR_POP": ask.covariance,
    "CORR": ask.correlation,
    "LINEAR_REGRESSION": _line,
    "ANON_COUNT": ask.count,
    "ANON_SUM": ask.sum,
    "ANON_AVG": ask.mean,
    "ANON_VAR_POP": ask.variance,
    "ANON_STDDEV_POP": ask.stddev,
    "ANON_QUANTILES": ask.quantiles,
    "ANON_PERCENTILE_CONT": ask.quantiles,
}
_WEIGHTED = (ask.count, ask.sum, ask.mean, ask.histogram, ask.value_counts)
# What may do without error bars, for less noise.
_QUANTILES = (ask.quantiles, ask.median, ask.min, ask.max)
