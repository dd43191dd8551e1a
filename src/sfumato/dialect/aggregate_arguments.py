"""Check the arguments of a SQL aggregate call (bounds, ranks, weights) and make its aggregate."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sfumato.catalogs.declarations import TableDeclaration, bounds_note, exceeded_limit_message
from sfumato.dialect.from_clause import Source
from sfumato.dialect.keywords import (
    CUMULATIVE,
    FORM,
    FUNCTIONS,
    LISTED,
    PREFIXES,
    SHARED,
    STRATA,
    TWINS,
    takes,
)
from sfumato.dialect.select_statement import (
    Bounds,
    Expression,
    Item,
    Statement,
    StatementChecker,
    Truth,
    WrittenAggregate,
)
from sfumato.dialect.sql_tokens import Literal, Place, positive
from sfumato.errors import ParameterError, QueryError
from sfumato.query import aggregates as ask
from sfumato.query.aggregates import Aggregate, CountPrivacyUnits
from sfumato.query.aggregates.aggregate import counts
from sfumato.query.option_names import Bounded
from sfumato.query.schema import format_name

_FOUND = ", or OPTIONS (auto_bounds = true) to choose one with a part of epsilon"


_MAX_BOUNDARIES = 1000
_BINS = "write HISTOGRAM(x, [0, 18, 65]), with the edges of bins"
_VALUES = "write VALUE_COUNTS(x, ['a', 'b']), with the values that are counted"
_CALLED = {"text": "texts", "word": "truth values", "number": "whole numbers", "date": "dates"}


class Aggregates(StatementChecker):
    """The aggregates of a private SELECT, made from the arguments of their SQL calls.

    Args:
        statement: the private SELECT with the calls.
        unit: the column of the privacy unit.
        declared: the catalog's declaration of its table.
        keys: the group keys by name.
        notes: a list that gets sentences about defaults.
        automatic: whether bounds that are left out are inferred.
    """

    def __init__(
        self,
        statement: Statement,
        unit: str,
        declared: TableDeclaration | None,
        keys: Mapping[str, Item],
        notes: list[str],
        automatic: bool = False,
    ) -> None:
        self.statement = statement
        self.unit = unit
        self.declared = declared
        self.keys = keys
        self.notes = notes
        self.automatic = automatic
        self.anonymization: bool = statement.clause == "ANONYMIZATION"
        self.rows: tuple[int, Place] | None = None
        self.derived: dict[tuple[str, ...], tuple[str, str]] = {}
        self.words: frozenset[str] = frozenset(re.findall(r"\w+", statement.text.casefold()))

    def aggregate(self, call: WrittenAggregate) -> Aggregate:
        """Return the aggregate that a SQL call means, after checks of all its arguments.

        Raises:
            SqlError: it has no private form, or not with such bounds.
        """
        return self._cumulative(call) if call.function in CUMULATIVE else self._aggregate_rows(call)

    def _cumulative(self, call: WrittenAggregate) -> Aggregate:
        """Return the cumulative total that a call of CUMULATIVE_COUNT or CUMULATIVE_SUM means."""
        function, of = call.function, self._aggregate_rows(call)
        over = call.named.get("over")
        if not self.keys:
            raise self._refuse(
                call.name_place, f"{function} adds up over time steps. GROUP BY the column of time"
            )
        named = list(self.keys)
        if over is None and len(named) > 1:
            message = (
                f"{function}: which of {', '.join(named)} is time? Write over => {format_name(named[0])}"
            )
            raise self._refuse(call.name_place, message)
        if isinstance(over, Expression):
            named = [name for name in named if self.statement.means(over, self.keys[name], name)]
            if not named:
                message = f"{function}: over is none of the group keys. Write one of {', '.join(self.keys)}"
                raise self._refuse(over.place, message)
        try:
            return ask.cumulative(of, over=named[0])
        except QueryError:
            what = "a number of distinct values" if call.distinct else "a sum with automatic bounds"
            what = what if call.weight is None else "weights"
            message = (
                f"{function}: {what} cannot be accumulated over steps. Use it for rows, privacy units or sums"
            )
            raise self._refuse(call.name_place, message) from None

    def _aggregate_rows(self, call: WrittenAggregate) -> Aggregate:
        """Check the arguments of an aggregate call and return its aggregate of the rows of a group."""
        function, make = call.function, FUNCTIONS[call.function]
        self._check_form(call)
        weights = self._weights(call)
        if call.bounds is not None and call.bounds.more and not call.others:
            raise self._refuse(
                call.bounds.place, f"{function} takes one column. Write its bounds as (lower, upper)"
            )
        if counts(make):
            return self._count(call, weights)
        if call.distinct:
            raise self._refuse(call.name_place, f"{function}(DISTINCT ...) has no private form")
        if call.argument is None:
            raise self._refuse(call.name_place, f"{function}(*): name a column")
        if make is ask.proportion:
            return self._proportion(call, call.argument)
        if make in LISTED:
            return self._listed(call, weights)
        if call.others:
            return self._aggregate_columns(call, [call.argument, *call.others])
        return self._aggregate_column(call, weights)

    def _aggregate_column(self, call: WrittenAggregate, weights: Mapping[str, Any]) -> Aggregate:
        """Return an aggregate of one column, with the bounds, ranks and weights among its SQL arguments."""
        function, (low, high, per) = call.function, self._bounds(call)
        given: list[Any] = [self._first(call)]
        options: dict[str, Any] = {"lower": low, "upper": high, **weights}
        if takes(function, "ranks"):
            given.append(self._ranks(call))
        elif call.ranks:
            raise self._refuse(call.ranks[0].place, f"{function} takes one expression and its bounds")
        if takes(function, "error_bars"):
            options["error_bars"] = call.is_set("error_bars")
        if takes(function, "per"):
            options["per"] = per
        if function in ("VARIANCE", "STDDEV"):
            self._note(
                f"{function} is the population variance or standard deviation: it divides by the count, "
                "not by the count less one."
            )
        if function == "ANON_AVG":
            self._note("ANON_AVG clamps each row, where ZetaSQL clamps the average of each privacy unit.")
        return FUNCTIONS[function](*given, **options)

    def _check_form(self, call: WrittenAggregate) -> None:
        """Refuse an aggregate call with arguments of the other privacy clause, or of another aggregate."""
        function, make = call.function, FUNCTIONS[call.function]
        if function.startswith("ANON_") != self.anonymization:
            other = TWINS.get(function) or function.removeprefix("ANON_")
            other = other if other != function else f"ANON_{function}"
            hint = f"Write {other}" if other in FUNCTIONS else "Use WITH DIFFERENTIAL_PRIVACY instead"
            raise self._refuse(
                call.name_place, f"{function} cannot be used in WITH {self.statement.clause}. {hint}"
            )
        if call.bounds is not None and (call.bounds.kind == "clamped") != self.anonymization:
            form = (
                "CLAMPED BETWEEN lower AND upper"
                if self.anonymization
                else "contribution_bounds_... => (...)"
            )
            raise self._refuse(call.bounds.place, f"in WITH {self.statement.clause}, write bounds as {form}")
        sample = [place for name, place in call.places.items() if name in STRATA]
        if sample and make is not ask.proportion:
            raise self._refuse(sample[0], f"{function} needs strata: {FORM}")
        if "error_bars" in call.named and not takes(function, "error_bars"):
            raise self._refuse(
                call.places["error_bars"],
                f"{function} always has error bars. Leave the argument out: only quantiles can do "
                "without them",
            )

    def _count(self, call: WrittenAggregate, weights: Mapping[str, Any]) -> Aggregate:
        """Return the aggregate of a COUNT, COUNT(DISTINCT ...) or COUNTIF call."""
        bounds, make = call.bounds, FUNCTIONS[call.function]
        if call.ranks:
            raise self._refuse(call.ranks[0].place, f"{call.function} takes one expression and its bounds")
        if weights and call.distinct:
            raise self._refuse(
                call.name_place, f"{call.function}(DISTINCT ...) cannot be weighted. Leave the weights out"
            )
        if make is ask.count_distinct:
            return self._count_distinct(call)
        if call.distinct and make is not ask.count:
            raise self._refuse(call.name_place, f"{call.function} has no DISTINCT. Leave it out")
        if call.distinct:
            column = None if call.argument is None else self.statement.column(call.argument)
            if column is None or column.casefold() != self.unit.casefold():
                return self._count_distinct(call)
            if bounds is not None and [Fraction(bounds.lower.text), Fraction(bounds.upper.text)] != [0, 1]:
                raise self._refuse(
                    bounds.place, "a privacy unit counts once in each of its groups. Leave the bounds out"
                )
            if call.condition is not None:
                message = "COUNT of privacy units takes no FILTER. Write the condition in WHERE"
                raise self._refuse(call.condition.place, message)
            return ask.count_units()
        if bounds is not None:
            self._limit_rows(bounds)
        if call.argument is None and make is not ask.count:
            raise self._refuse(call.name_place, f"{call.function}(*): write a condition")
        if call.argument is None and call.condition is None:
            return ask.count(**weights)
        return make(self._first(call), **weights)

    def _limit_rows(self, bounds: Bounds) -> None:
        """Take the upper bound among a COUNT's arguments as the limit of rows per group."""
        if bounds.kind == "contribution_bounds_per_row":
            raise self._refuse(
                bounds.place, "a row counts as one row. Write contribution_bounds_per_group => (0, rows)"
            )
        if Fraction(bounds.lower.text) != 0:
            raise self._refuse(bounds.lower.place, "the lower bound of a count must be 0")
        rows = positive(self.statement.text, bounds.upper, "the upper bound of a count")
        if self.rows is not None and self.rows[0] != rows:
            raise self._refuse(
                bounds.upper.place,
                f"another COUNT has the bound {self.rows[0]}. All COUNTs of a query share one limit "
                "of rows: give both the same bound",
            )
        declared = self.declared
        if declared is not None and declared.max_rows is not None and rows > declared.max_rows:
            raise self._refuse(
                bounds.upper.place,
                exceeded_limit_message(declared, "the bound of a COUNT", rows, declared.max_rows),
            )
        self.rows = self.rows or (rows, bounds.upper.place)

    def _weights(self, call: WrittenAggregate) -> dict[str, Any]:
        """Return the weight arguments of an aggregate call as the Python function takes them."""
        make, most = FUNCTIONS[call.function], call.named.get("max_weight")
        written = call.weight or most
        if written is None:
            return {}
        place = written.place
        if make is ask.proportion or not takes(call.function, "weight"):
            known = "COUNT, SUM, AVG, HISTOGRAM and VALUE_COUNTS"
            raise self._refuse(place, f"{call.function} cannot be weighted. Only {known} can")
        if call.weight is None or most is None:
            raise self._refuse(place, "write weights as weight => column, max_weight => 50")
        if make is ask.sum and call.bounds and call.bounds.kind != "contribution_bounds_per_row":
            example = "SUM(x, contribution_bounds_per_row => (0, 9), weight => w, max_weight => 50)"
            raise self._refuse(call.bounds.place, f"a weighted sum has bounds for each row: {example}")
        if Fraction(most.text) <= 0:
            raise self._refuse(most.place, "the largest weight must be greater than 0")
        return {"weight": self._column(call.weight), "max_weight": most.text}

    def _count_distinct(self, call: WrittenAggregate) -> Aggregate:
        """Return the count of distinct values that COUNT(DISTINCT x) or APPROX_COUNT_DISTINCT(x) means."""
        bounds, fast = call.bounds, call.function == "APPROX_COUNT_DISTINCT"
        form = f"{call.function}({'' if fast else 'DISTINCT '}x" + (
            " CLAMPED BETWEEN 0 AND 3)"
            if self.anonymization
            else ", contribution_bounds_per_group => (0, 3))"
        )
        if call.argument is None:
            raise self._refuse(call.name_place, f"COUNT(DISTINCT ...) takes one column: {form}")
        if fast and call.distinct:
            raise self._refuse(
                call.name_place, f"{call.function} counts distinct values without DISTINCT: {form}"
            )
        if bounds is None:
            raise self._refuse(
                call.name_place,
                "a count of distinct values needs a limit on how many of them one privacy unit can "
                f"contribute to a group. Write {form}, or COUNT(DISTINCT {format_name(self.unit)}) to "
                "count privacy units",
            )
        if bounds.kind == "contribution_bounds_per_row":
            raise self._refuse(
                bounds.place, f"the contribution of a privacy unit to a group needs bounds: {form}"
            )
        if Fraction(bounds.lower.text) != 0:
            raise self._refuse(bounds.lower.place, "the lower bound of a count must be 0")
        values = positive(self.statement.text, bounds.upper, "the upper bound of a count")
        if values > ask.MAX_VALUES:
            raise self._refuse(
                bounds.upper.place, f"at most {ask.MAX_VALUES:,} values of a privacy unit can count"
            )
        column = self._first(call)
        return ask.count_distinct(column, values=values, method="shares" if fast else "matching")

    def _listed(self, call: WrittenAggregate, weights: Mapping[str, Any]) -> Aggregate:
        """Return an aggregate whose arguments have a list of edges or values, or an aggregate of vectors."""
        make, options = FUNCTIONS[call.function], dict(weights)
        for name, given in call.named.items():
            if name not in SHARED:
                options[name] = given.value if isinstance(given, Truth) else given.text
        listed: list[list[Any]] = []
        if takes(call.function, "length"):
            options["length"] = self._length(call)
        else:
            listed = [self._bins(call)]
        column = self._first(call)
        try:
            return make(column, *listed, **options)
        except ParameterError as error:  # there are too many, most likely
            raise self._refuse(call.name_place, str(error)) from None

    def _ranks(self, call: WrittenAggregate) -> list[float] | float:
        """Return the rank argument of a call for quantiles: a list of ranks, or one."""
        function, ranks = call.function, call.ranks
        listing = function == "QUANTILES"
        boundaries = function in ("APPROX_QUANTILES", "ANON_QUANTILES")
        if not ranks or call.listed != listing:
            second = "[0.25, 0.5, 0.75]" if listing else "4" if boundaries else "0.5"
            place = ranks[0].place if ranks else call.name_place
            raise self._refuse(place, f"write the second argument of {function} as {second}")
        if boundaries:
            number = positive(self.statement.text, ranks[0], f"the number of quantiles of {function}")
            if number > _MAX_BOUNDARIES:
                raise self._refuse(
                    ranks[0].place, f"at most {_MAX_BOUNDARIES} quantiles can be computed at once"
                )
            return [i / number for i in range(number + 1)]
        seen: set[float] = set()
        for rank in ranks:
            if not 0 <= Fraction(rank.text) <= 1:
                raise self._refuse(
                    rank.place, "a rank must be a number in [0, 1], such as 0.5 for the median"
                )
            if float(rank.text) in seen:
                raise self._refuse(rank.place, "this rank is listed twice")
            seen.add(float(rank.text))
        return [float(rank.text) for rank in ranks] if listing else float(ranks[0].text)

    def _bins(self, call: WrittenAggregate) -> list[Any]:
        """Return the list of edges or values among the arguments of HISTOGRAM or VALUE_COUNTS."""
        edges = call.function == "HISTOGRAM"
        form, what = (_BINS, "edges") if edges else (_VALUES, "values")
        if call.bounds is not None:
            raise self._refuse(call.bounds.place, f"bins take no bounds except their {what}: {form}")
        if not call.listed:
            raise self._refuse(call.ranks[0].place if call.ranks else call.name_place, form)
        return self._edges(call) if edges else self._values(call.ranks, "this value is listed twice")

    def _edges(self, call: WrittenAggregate) -> list[str]:
        """Return the bin edges among the arguments of HISTOGRAM, which must increase."""
        edges = call.ranks
        for one, other in pairwise(edges):
            if not float(one.text) < float(other.text) < math.inf or float(one.text) == -math.inf:
                raise self._refuse(other.place, "each edge must be a number greater than the one before")
        if not 2 <= len(edges) <= ask.MAX_BINS + 1:
            raise self._refuse(call.name_place, f"write from 1 to {ask.MAX_BINS:,} bins: {_BINS}")
        return [edge.text for edge in edges]

    def _values(self, listed: Sequence[Literal], twice: str) -> list[Any]:
        """Return the values in a list argument, which must differ and have one type."""
        found: list[Any] = []
        for literal in listed:
            if literal.kind != listed[0].kind:
                raise self._refuse(
                    literal.place,
                    f"this is not one of {_CALLED[listed[0].kind]}, which the values before it are",
                )
            value = _python_value(literal)
            if value is None:
                raise self._refuse(
                    literal.place, f"values must be {', '.join(_CALLED.values())}, within their range"
                )
            if value in found:
                raise self._refuse(literal.place, twice)
            found.append(value)
        return found

    def _length(self, call: WrittenAggregate) -> int:
        """Return the length argument of an aggregate of vectors, after a check that a bound is given."""
        write = f"write {call.function}(x, length => 128, bound => 1)"
        form = f"{write}, for vectors of 128 entries with a norm of at most 1"
        if call.bounds is not None:
            raise self._refuse(call.bounds.place, f"a vector has one bound, on its norm: {form}")
        if call.ranks:
            raise self._refuse(call.ranks[0].place, form)
        given = call.named
        for name in ("length", "bound"):
            if name not in given:
                raise self._refuse(call.name_place, f"{name} is missing; {form}")
        length: Literal = given["length"]
        if Fraction(length.text).denominator != 1:
            raise self._refuse(length.place, "the length of vectors must be a whole number")
        return int(Fraction(length.text))

    def _proportion(self, call: WrittenAggregate, argument: Expression) -> Aggregate:
        """Return the proportion in a stratified sample, from the arguments of STRATIFIED_PROPORTION."""
        if call.bounds is not None or call.ranks:
            place = call.bounds.place if call.bounds else call.ranks[0].place
            raise self._refuse(place, f"an answer is yes or no and takes no bounds: {FORM}")
        given, answer = call.named, self._column(argument)
        missing = [name for name in STRATA if name not in given and name != "confidence"]
        if missing:
            raise self._refuse(call.name_place, f"{' and '.join(missing)} missing: {FORM}")
        first = given["strata"][0].place
        strata = self._values(given["strata"], "strata names one stratum twice")
        sizes = []
        for name in ("asked", "population"):
            entries = given[name]
            if len(entries) != len(strata):
                place = Place(entries[0].place.start, entries[-1].place.stop)
                raise self._refuse(
                    place,
                    f"{name} has {len(entries)} sizes, but strata has {len(strata)} entries. "
                    "Give one size for each stratum",
                )
            whole = [positive(self.statement.text, entry, f"a size in {name}") for entry in entries]
            sizes.append(dict(zip(strata, whole, strict=True)))
        more = {"confidence": given["confidence"].text} if "confidence" in given else {}
        stratum = self._column(given["stratum"])
        try:
            return ask.proportion(answer, stratum=stratum, asked=sizes[0], population=sizes[1], **more)
        except ParameterError as error:
            raise self._refuse(first, str(error)) from None

    def _aggregate_columns(self, call: WrittenAggregate, arguments: list[Expression]) -> Aggregate:
        """Return an aggregate of several columns, with bounds from its arguments or from the catalog."""
        function, bounds, make = call.function, call.bounds, FUNCTIONS[call.function]
        most = 1 + ask.MAX_EXPLAINING if make is ask.linear_regression else 2
        if len(arguments) > most:
            raise self._refuse(arguments[most].place, f"{function} is of at most {most} columns")
        others = range(1, len(arguments))
        names = ", ".join(["y", *(f"x{i if others[1:] else ''}" for i in others)])
        each = ", ".join(["(lower, upper)"] * len(arguments))
        form = f"{function}({names}, contribution_bounds_per_row => ({each}))"
        if call.ranks:
            raise self._refuse(call.ranks[0].place, f"write {form}")
        columns = [self._first(call), *map(self._column, arguments[1:])]
        for i, column in enumerate(columns):
            if column.casefold() in {before.casefold() for before in columns[:i]}:
                other = "Name another column" if make is ask.linear_regression else "Write VAR_POP"
                raise self._refuse(arguments[i].place, f"{function} needs two different columns. {other}")
        if bounds is not None:
            if bounds.kind != "contribution_bounds_per_row" or len(bounds.pairs) != len(columns):
                raise self._refuse(bounds.place, f"each column needs bounds for its rows. Write {form}")
            return _make_column_aggregate(make, columns, dict(zip(columns, self._pairs(bounds), strict=True)))
        known = {}
        for argument, column in zip(arguments, columns, strict=True):
            own = self.statement.column(argument)
            found = None if self.declared is None or own is None else self.declared.bounds(own)
            if found is None or self.declared is None or own is None:
                raise self._refuse(
                    call.name_place,
                    self._meant(function, own)
                    + f"{form} with ranges known beforehand, not read from the data"
                    + self._declaring(argument, own),
                )
            self._note(bounds_note(self.declared, own, found))
            known[column] = found
        return _make_column_aggregate(make, columns, known)

    def _bounds(self, call: WrittenAggregate) -> tuple[str | Fraction, str | Fraction, Bounded]:
        """Return the bounds among a call's arguments or from the catalog, and whether per row or per unit."""
        function, bounds = call.function, call.bounds
        per_unit = "contribution_bounds_per_group"
        summed = FUNCTIONS[function] is ask.sum
        kind = f"contribution_bounds_per_{'group' if summed else 'row'}"
        if bounds is None:
            column = None if call.argument is None else self.statement.column(call.argument)
            if self.declared is not None and column is not None:
                # An aggregate sees the columns of the source alone, whatever is derived beside it.
                known = self.declared.bounds(column)
                if known is not None:
                    self._note(bounds_note(self.declared, column, known))
                    return *known, "row"
            automatic = takes(function, "magnitudes") and function not in CUMULATIVE
            if self.automatic and automatic:
                return ask.AUTO, ask.AUTO, "unit" if summed and call.weight is None else "row"
            form = " CLAMPED BETWEEN lower AND upper" if self.anonymization else f", {kind} => (lower, upper)"
            more = ", rank" if FUNCTIONS[function] is ask.quantiles else ""
            raise self._refuse(
                call.name_place,
                self._meant(function, column)
                + f"{function}(x{more}{form}) with a range known beforehand, not read from the data"
                + self._declaring(call.argument, column)
                + (_FOUND if automatic else ""),
            )
        if bounds.kind == per_unit and not summed:
            average = " (BigQuery averages the averages of the units; this averages all rows)"
            raise self._refuse(
                bounds.place,
                f"{function} bounds each row. Write contribution_bounds_per_row => (lower, upper)"
                + (average if function == "AVG" else ""),
            )
        low, high = self._pairs(bounds)[0]
        return low, high, "row" if bounds.kind == "contribution_bounds_per_row" else "unit"

    def _meant(self, function: str, column: str | None) -> str:
        """Say that bounds are missing, or suggest a column with declared bounds and a similar name."""
        name = None if column is None else self.statement.bare(column)
        meant = None if name is None or self.declared is None else self.declared.nearest(name)
        if meant is None:
            return f"{function} has no bounds, so no amount of noise is enough. Write "
        return f"no bounds of {name} are declared; did you mean {function}({meant})? Otherwise write "

    def _declaring(self, argument: Expression | None, column: str | None) -> str:
        """Suggest declaring the missing bounds of an argument in the catalog."""
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
            return f"; no bounds can be declared for {name}, a column of a subquery"
        if not all(isinstance(source, str) for source in sources):
            return ""
        where = ", ".join(map(str, sources))
        if self.declared.nearest(name) is not None:  # which is asked for first
            return ""
        return f", or declare lower and upper of {name} in {self.declared.catalog}: tables.{where}"

    def _first(self, call: WrittenAggregate) -> str:
        """Return the column of a call's first argument; with FILTER, a column derived by CASE WHEN."""
        argument, condition = call.argument, call.condition
        if condition is None:
            assert argument is not None
            return self._column(argument)
        shape = ("filter", *self.statement.shape(condition), "then")
        value = "1"
        if argument is not None:
            shape, value = (*shape, *self.statement.shape(argument)), self.statement.spell(argument)
        return self._derive_column(shape, f"CASE WHEN {self.statement.spell(condition)} THEN {value} END")

    def _column(self, argument: Expression) -> str:
        """Return the column of an aggregate's argument, derived where the argument is an expression."""
        column = self.statement.column(argument)
        if column is not None:
            return column
        return self._derive_column(self.statement.shape(argument), self.statement.spell(argument))

    def _derive_column(self, shape: tuple[str, ...], text: str) -> str:
        """Return the name of a derived column; equal expressions share one column."""
        if shape not in self.derived:
            name = f"_value_{len(self.derived) + 1}"
            while name in self.words:
                name = f"_{name}"
            self.derived[shape] = (name, text)
        return self.derived[shape][0]

    def default_name(self, call: WrittenAggregate, aggregate: Aggregate, position: int) -> str:
        """Return the output name of an aggregate call without AS."""
        if isinstance(aggregate.each, CountPrivacyUnits):
            return "count_units" if aggregate.each is aggregate else "cumulative_count_units"
        bare = call.function.removeprefix("ANON_")
        prefix = "count_distinct" if call.distinct else PREFIXES.get(bare, bare.lower())
        if call.argument is None:
            return prefix
        columns = [self.statement.column(x) for x in (call.argument, *call.others)]
        known = [self.statement.bare(column) for column in columns if column is not None]
        return "_".join([prefix, *(known if len(known) == len(columns) else [str(position)])])

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)


def _make_column_aggregate(
    make: Callable[..., Aggregate], columns: list[str], bounds: Mapping[str, tuple[Any, Any]]
) -> Aggregate:
    """Make an aggregate of several columns; a regression takes all but the first as a list."""
    if make is ask.linear_regression:
        return ask.linear_regression(columns[0], columns[1:], bounds=bounds)
    return make(*columns, bounds=bounds)


def _python_value(literal: Literal) -> str | bool | int | date | None:
    """Return a literal argument as a Python value; None for a fraction, or an invalid date."""
    if literal.kind == "text":
        return literal.text
    if literal.kind == "word":
        return literal.text.upper() == "TRUE"
    if literal.kind == "date":
        try:
            return date.fromisoformat(literal.text)
        except ValueError:
            return None
    number = Fraction(literal.text)
    return int(number) if number.denominator == 1 and -(2**63) <= number < 2**63 else None
