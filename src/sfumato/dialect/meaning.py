"""SQL text -> question: what `SELECT WITH DIFFERENTIAL_PRIVACY ...` means.

The form is read in `parser`, what OPTIONS (...) say in `options`; here each other part gets its meaning,
or a refusal with its place. The meaning, and where it differs from BigQuery's, is written for users in
docs/sql.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction

from sfumato.dialect.options import read_options
from sfumato.dialect.question import SqlQuery
from sfumato.dialect.reader import read
from sfumato.dialect.syntax import Call, Expression, Item, Statement, positive
from sfumato.dialect.words import Place, refusal
from sfumato.errors import QueryError, SqlError, nearest, shown
from sfumato.query import aggregates as ask
from sfumato.query.aggregates import Aggregate, CountPrivacyUnits, Sum
from sfumato.query.table import names_of

_most_boundaries = 1000


def parse(text: str) -> SqlQuery:
    """Understand a differentially private SELECT.

    Args:
        text: SQL with BigQuery's DIFFERENTIAL_PRIVACY clause or ZetaSQL's ANONYMIZATION clause;
            expressions of one row are DuckDB's SQL.
    Returns:
        What is asked. No table is opened, and no column looked up.
    Raises:
        SqlError: the text is not understood or not private; it shows the place and what to write.
    Source:
        docs/sql.md.

    >>> query = parse('''
    ...     SELECT WITH DIFFERENTIAL_PRIVACY
    ...       OPTIONS (epsilon = 1, delta = 1e-6, privacy_unit_column = id, max_groups_contributed = 3)
    ...       year, COUNT(*) AS n, AVG(docvis, contribution_bounds_per_row => (0, 30)) AS visits
    ...     FROM 'rwm5yr.parquet' WHERE age >= 25 GROUP BY year''')
    >>> query.source, query.where, query.keys, query.groups, query.epsilon
    ('rwm5yr.parquet', 'age >= 25', ('year',), 3, '1')
    >>> query.aggregates[1]
    ('visits', Mean(column='docvis', lower=Fraction(0, 1), upper=Fraction(30, 1)))
    >>> query.notes
    ('max_rows_per_group was not given: a privacy unit counts as at most 1 row in a group.',)
    """
    if not isinstance(text, str):
        raise QueryError(f"sql: the question is {shown(text)}, but must be SQL text")
    return _Reading(read(text)).query()


class _Reading:
    """One pass over a statement, from its groups to its aggregates."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.anonymization = statement.clause == "ANONYMIZATION"
        self.options = read_options(statement)
        self.rows: tuple[int, Place] | None = None
        self.derived: dict[tuple[str, ...], tuple[str, str]] = {}
        self.named: dict[str, tuple[Item, Aggregate]] = {}
        self.notes: list[str] = []
        self.words = frozenset(re.findall(r"\w+", statement.text.casefold()))

    def query(self) -> SqlQuery:
        statement, options = self.statement, self.options
        keys, derived_keys = self._keys()
        aggregates = self._aggregates()
        if not aggregates:
            raise self._refuse(
                statement.items[0].place, "nothing is asked of the groups; add an aggregate such as COUNT(*)"
            )
        self._check_names(keys)
        if keys and not Fraction(options.delta or 0):
            raise self._refuse(
                statement.clause_place,
                "groups are chosen privately, which needs a delta: showing that a group exists is never "
                "free. Write OPTIONS (delta = 1e-6, ...), well below one over the number of units",
            )
        groups = self._groups(bool(keys))
        rows = self._rows(aggregates.values())
        if options.delta is None:
            self.notes.append("delta was not given: 0 is taken.")
        if options.selecting is not None and not keys:
            raise self._refuse(
                options.selecting, "without GROUP BY no group is selected; leave this option out"
            )
        return SqlQuery(
            source=statement.source,
            alias=statement.alias,
            where=None if statement.where is None else statement.spell(statement.where),
            derived=(*derived_keys, *self.derived.values()),
            keys=tuple(keys),
            aggregates=tuple(aggregates.items()),
            epsilon=options.epsilon,
            delta=options.delta or "0",
            privacy_unit_column=options.unit,
            groups=groups,
            rows=rows,
            noise=options.noise,
            group_selection=options.selection,
            pre_threshold=options.threshold,
            notes=tuple(self.notes),
            types=options.types,
        )

    # Limits of contribution.

    def _groups(self, grouped: bool) -> int | None:
        groups = self.options.groups
        if not grouped:
            return None
        if groups is None:
            self.notes.append(
                "max_groups_contributed was not given: a privacy unit counts in at most 1 group "
                "(BigQuery's default)."
            )
        return groups or 1

    def _rows(self, asked: Iterable[Aggregate]) -> int | None:
        rows = self.options.rows
        if self.rows is not None:
            if rows is not None and rows != self.rows[0]:
                raise self._refuse(
                    self.rows[1],
                    f"a COUNT is bounded by {self.rows[0]}, but max_rows_per_group is {rows}; "
                    "one limit of rows holds for the whole question",
                )
            rows = self.rows[0]
        needed = any(
            not isinstance(a, CountPrivacyUnits) and not (isinstance(a, Sum) and a.per == "unit")
            for a in asked
        )
        if rows is None and needed:
            self.notes.append(
                "max_rows_per_group was not given: a privacy unit counts as at most 1 row in a group."
            )
            rows = 1
        return rows

    # Groups.

    def _keys(self) -> tuple[dict[str, Item], list[tuple[str, str]]]:
        """Return the keys with their items, in the order of the SELECT list, and what they derive."""
        statement = self.statement
        chosen = {id(item) for item in self._grouped_items()}
        keys: dict[str, Item] = {}
        derived: list[tuple[str, str]] = []
        for position, item in enumerate(statement.items, 1):
            if isinstance(item.value, Call):
                continue
            column = statement.column(item.value)
            if id(item) not in chosen:
                raise self._refuse(item.place, self._not_a_key(item.value))
            if column is not None and column.casefold() == self.options.unit.casefold():
                raise self._refuse(item.place, "a group for each privacy unit is not private")
            name = item.alias or column or f"key_{position}"
            if name.casefold() == self.options.unit.casefold():
                raise self._refuse(item.alias_place, f"{name} is the privacy unit; give the key another name")
            if column is None or name.casefold() != column.casefold():
                derived.append((name, statement.spell(item.value)))
            else:
                name = column
            if name.casefold() in (k.casefold() for k in keys):
                raise self._twice(name, item)
            keys[name] = item
        return keys, derived

    def _grouped_items(self) -> list[Item]:
        statement, found = self.statement, list[Item]()
        if statement.group_by_all:
            return [item for item in statement.items if isinstance(item.value, Expression)]
        for expression in statement.group_by:
            item = self._item_of(expression)
            if isinstance(item.value, Call):
                raise self._refuse(expression.place, "an aggregate is not a group key")
            if any(item is other for other in found):
                raise self._refuse(expression.place, "this group key is named twice")
            found.append(item)
        return found

    def _item_of(self, expression: Expression) -> Item:
        statement, items = self.statement, self.statement.items
        written = statement.spell(expression)
        if written.isdigit():
            if not 1 <= int(written) <= len(items):
                raise self._refuse(
                    expression.place, f"GROUP BY {written}: the SELECT list has {len(items)} entries"
                )
            return items[int(written) - 1]
        column, shape = statement.column(expression), statement.shape(expression)
        named = [i for i in items if column is not None and (i.alias or "").casefold() == column.casefold()]
        same = [i for i in items if isinstance(i.value, Expression) and statement.shape(i.value) == shape]
        for item in [*(i for i in named if not isinstance(i.value, Call)), *same, *named]:
            return item
        if column is not None and column.casefold() == self.options.unit.casefold():
            raise self._refuse(expression.place, "a group for each privacy unit is not private")
        raise self._refuse(
            expression.place, f"the group key {written} is not selected; add it to the SELECT list"
        )

    def _not_a_key(self, value: Expression) -> str:
        written = self.statement.spell(value)
        first = value.tokens[0].text
        if len(value.tokens) > 1 and value.tokens[1].word == "(":
            known = [name for name in _functions if name.startswith("ANON_") == self.anonymization]
            near = nearest(first, known)
            if near:
                return f"{first} is not an aggregate that is known here; did you mean {near}?"
        return (
            f"{written} is neither a group key nor a private aggregate; add it to GROUP BY, or ask for an "
            "aggregate of it"
        )

    def _check_names(self, keys: dict[str, Item]) -> None:
        seen = {name.casefold() for name in keys}
        for name, (item, aggregate) in self.named.items():
            for output in names_of(name, aggregate):
                if output.casefold() in seen:
                    raise self._twice(output, item)
                seen.add(output.casefold())

    def _twice(self, name: str, item: Item) -> SqlError:
        return self._refuse(
            item.alias_place, f"the output name {name} is used twice; give each column its own: ... AS name"
        )

    # Aggregates.

    def _aggregates(self) -> dict[str, Aggregate]:
        for position, item in enumerate(self.statement.items, 1):
            if isinstance(item.value, Call):
                aggregate = self._aggregate(item.value)
                name = item.alias or self._default_name(item.value, aggregate, position)
                if name.casefold() in (n.casefold() for n in self.named):
                    raise self._twice(name, item)
                self.named[name] = (item, aggregate)
        return {name: aggregate for name, (_, aggregate) in self.named.items()}

    def _aggregate(self, call: Call) -> Aggregate:
        function = call.function
        if function.startswith("ANON_") != self.anonymization:
            other = _twins.get(function) or function.removeprefix("ANON_")
            other = other if other != function else f"ANON_{function}"
            raise self._refuse(
                call.name_place, f"{function} does not go with WITH {self.statement.clause}; write {other}"
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
        if function.endswith("COUNT"):
            return self._count(call)
        if call.distinct:
            raise self._refuse(call.name_place, f"{function}(DISTINCT ...) has no private form here")
        if call.argument is None:
            raise self._refuse(call.name_place, f"{function}(*): name a column")
        low, high, per = self._bounds(call)
        make = _functions[function]
        column = self._column(call.argument)
        if make is ask.quantiles:
            ranks = self._ranks(call)
            return ask.quantiles(column, ranks, lower=low, upper=high)
        if call.ranks:
            raise self._refuse(call.ranks[0].place, f"{function} takes one expression, and bounds")
        if make is ask.sum:
            return ask.sum(column, lower=low, upper=high, per=per)
        if function in ("VARIANCE", "STDDEV"):
            self._note(f"{function} is that of the population: divided by the count, not the count less one.")
        if function == "ANON_AVG":
            self._note("ANON_AVG clamps each row; ZetaSQL clamps the average of each privacy unit.")
        return make(column, lower=low, upper=high)

    def _count(self, call: Call) -> Aggregate:
        bounds = call.bounds
        if call.ranks:
            raise self._refuse(call.ranks[0].place, f"{call.function} takes one expression, and bounds")
        if call.distinct:
            column = None if call.argument is None else self.statement.column(call.argument)
            if column is None or column.casefold() != self.options.unit.casefold():
                place = call.argument.place if call.argument else call.name_place
                raise self._refuse(
                    place,
                    "distinct values are not counted privately here, only privacy units: "
                    f"{call.function}(DISTINCT {self.options.unit})",
                )
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
            self.rows = self.rows or (rows, bounds.upper.place)
        return ask.count(None if call.argument is None else self._column(call.argument))

    def _bounds(self, call: Call) -> tuple[str, str, str]:
        function, bounds = call.function, call.bounds
        per_unit = "contribution_bounds_per_group"
        kind = f"contribution_bounds_per_{'group' if function == 'SUM' else 'row'}"
        if bounds is None:
            form = " CLAMPED BETWEEN lower AND upper" if self.anonymization else f", {kind} => (lower, upper)"
            more = ", rank" if _functions[function] is ask.quantiles else ""
            raise self._refuse(
                call.name_place,
                f"{function} without bounds: without them no noise is enough, and they are never read "
                f"from the data. Write {function}(x{more}{form}) with a range that is known beforehand",
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
            if number > _most_boundaries:
                raise self._refuse(
                    ranks[0].place, f"at most {_most_boundaries} quantiles can be asked at once"
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

    def _default_name(self, call: Call, aggregate: Aggregate, position: int) -> str:
        if isinstance(aggregate, CountPrivacyUnits):
            return "count_units"
        prefix = _prefixes.get(
            call.function.removeprefix("ANON_"), call.function.removeprefix("ANON_").lower()
        )
        if call.argument is None:
            return prefix
        column = self.statement.column(call.argument)
        return f"{prefix}_{position if column is None else column}"

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def _refuse(self, place: Place, message: str) -> SqlError:
        return refusal(self.statement.text, place, message)


_prefixes = {
    "VARIANCE": "var",
    "VAR_POP": "var",
    "STDDEV_POP": "stddev",
    "APPROX_QUANTILES": "quantiles",
    "PERCENTILE_CONT": "percentile",
}
_twins = {
    "VARIANCE": "ANON_VAR_POP",
    "STDDEV": "ANON_STDDEV_POP",
    "APPROX_QUANTILES": "ANON_QUANTILES",
    "ANON_QUANTILES": "APPROX_QUANTILES",
}
_functions: dict[str, Callable[..., Aggregate]] = {
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
    "ANON_COUNT": ask.count,
    "ANON_SUM": ask.sum,
    "ANON_AVG": ask.mean,
    "ANON_VAR_POP": ask.variance,
    "ANON_STDDEV_POP": ask.stddev,
    "ANON_QUANTILES": ask.quantiles,
    "ANON_PERCENTILE_CONT": ask.quantiles,
}
