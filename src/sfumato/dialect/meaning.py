"""SQL text -> question: what `SELECT WITH DIFFERENTIAL_PRIVACY ...` means.

The form is read in `parser`, what OPTIONS (...) say in `options`; here each other part gets its meaning,
or a refusal with its place. The meaning, and where it differs from BigQuery's, is written for users in
docs/sql.md.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import replace
from fractions import Fraction

from sfumato.catalogs.declarations import Declarations, TableDeclaration
from sfumato.catalogs.domains import check_size
from sfumato.catalogs.notes import groups_note, limit_note
from sfumato.dialect.aggregates import FUNCTIONS, Aggregates
from sfumato.dialect.around import private_parts
from sfumato.dialect.cursor import Cursor
from sfumato.dialect.joins import of_tables
from sfumato.dialect.options import read_options
from sfumato.dialect.outside import names_in, put_together
from sfumato.dialect.pieces import Names
from sfumato.dialect.public_groups import PublicGroups, public_groups
from sfumato.dialect.question import SqlQuery
from sfumato.dialect.reader import read
from sfumato.dialect.syntax import Call, Expression, Item, Statement
from sfumato.dialect.words import Place, refusal
from sfumato.dialect.writer import Writer
from sfumato.errors import ParameterError, QueryError, SqlError, nearest, shown
from sfumato.query.aggregates import Aggregate, CountPrivacyUnits, Sum, names_of
from sfumato.query.question import checked_weights


def parse(
    text: str,
    catalog: Declarations | None = None,
    *,
    public: Iterable[str] = (),
    private: Iterable[str] = (),
) -> SqlQuery:
    """Understand a differentially private SELECT, or several with what is computed with them.

    Args:
        text: SQL with BigQuery's DIFFERENTIAL_PRIVACY clause or ZetaSQL's ANONYMIZATION clause;
            expressions of one row are DuckDB's SQL.
        catalog: the tables that FROM may name; what the text leaves out is taken from there.
        public, private: names of tables, where there is no catalog; what is computed with released numbers
            may read public ones.
    Returns:
        What is asked; of several private SELECTs the first, with the others `beside` it. No table is opened,
        and no column looked up.
    Raises:
        SqlError: the text is not understood or not private, or FROM names no private table of the catalog; it
            shows the place and what to write.
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
    words = Cursor(text)
    free, parts = names_in(words), private_parts(words)
    readings = []
    for part in parts:
        own, groups = public_groups(words.part(part.start, part.stop))
        statement = read(own)
        declared = None if catalog is None else _declared(statement, catalog)
        readings.append(_Reading(statement, declared, groups, free))
    outside = put_together(words, parts, [reading.writer for reading in readings])
    if catalog is not None:
        public = [name for name, table in catalog.tables.items() if table.public]
        private = [name for name, table in catalog.tables.items() if not table.public]
    queries = [reading.query() for reading in readings]
    public = list(public)
    hidden = {*private, *(name for query in queries for name in query.sources)} - {*public}
    queries = [query.within(public, hidden) for query in queries]
    if outside is not None:
        released = (name for reading in readings for name in reading.released)
        outside = outside.checked(released, [query.read for query in queries], public, hidden)
    return replace(queries[0], outside=outside, beside=tuple(queries[1:]))


def _declared(statement: Statement, catalog: Declarations) -> TableDeclaration:
    try:
        return of_tables(statement.tables, catalog)
    except QueryError as error:
        raise refusal(statement.text, statement.source_place, str(error)) from None


class _Reading:
    """One pass over a statement, from its groups to its aggregates."""

    def __init__(
        self,
        statement: Statement,
        declared: TableDeclaration | None,
        groups: PublicGroups | None,
        free: Names,
    ) -> None:
        self.public = None if groups is None else groups.of(statement)
        self.statement = statement if self.public is None else self.public.read_by(statement)
        self.declared = declared
        self.options = read_options(statement, declared)
        self.aggregates = Aggregates(self.statement, self.options.unit, declared)
        self.notes = self.aggregates.notes
        self.keys, self.derived_keys = self._keys()
        self.named = self._aggregates()
        self.writer = Writer(self.statement, self.keys, self.named, self._asked, free)
        grouped = {id(item) for item in self.keys.values()}
        for item in statement.items:
            value = item.value
            if isinstance(value, Expression) and id(item) not in grouped and not self.writer.computes(value):
                raise self._refuse(item.place, self._not_a_key(value))

    @property
    def released(self) -> list[str]:
        """The columns that are released."""
        outputs = (output for name, (_, a) in self.named.items() for output in names_of(name, a))
        return [*self.keys, *outputs]

    def query(self) -> SqlQuery:
        statement, options, keys, named = self.statement, self.options, self.keys, self.named
        aggregates = {name: aggregate for name, (_, aggregate) in named.items()}
        if not aggregates:
            raise self._refuse(
                statement.items[0].place, "nothing is asked of the groups; add an aggregate such as COUNT(*)"
            )
        self._check_names(keys, named)
        domains = self._domains(keys)
        if keys and domains is None and self.public is None and not Fraction(options.delta or 0):
            raise self._refuse(
                statement.clause_place,
                "groups are chosen privately, which needs a delta: showing that a group exists is never "
                "free. Write OPTIONS (delta = 1e-6, ...), well below one over the number of units",
            )
        groups = self._groups(bool(keys))
        rows = self._rows(aggregates.values())
        if options.delta is None:
            self.notes.append("delta was not given: 0 is taken.")
        if options.selecting is not None and not keys and self.public is None:
            raise self._refuse(
                options.selecting, "without GROUP BY no group is selected; leave this option out"
            )
        return SqlQuery(
            tables=statement.tables,
            named=statement.read[0],
            plain=statement.read[1],
            where=None if statement.where is None else statement.spell(statement.where),
            derived=(*self.derived_keys, *self.aggregates.derived.values()),
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
            domains=domains,
            multiline=options.multiline,
            weights=self._weights(aggregates),
            public_groups=None if self.public is None else self.public.ordered(keys),
            confidence=options.confidence,
        )

    def _asked(self, call: Call, position: int) -> tuple[Aggregate, str]:
        aggregate = self.aggregates.of(call)
        return aggregate, self.aggregates.default_name(call, aggregate, position)

    def _weights(self, names: Collection[str]) -> tuple[tuple[str, Fraction], ...]:
        try:
            return checked_weights(self.options.weights.items(), names)
        except (ParameterError, QueryError) as error:
            raise self._refuse(self.options.weighing or self.statement.clause_place, str(error)) from None

    # Limits of contribution.

    def _groups(self, grouped: bool) -> int | None:
        groups = self.options.groups
        if not grouped:
            return None
        if groups is None and self.declared is not None and self.declared.max_groups is not None:
            groups = self.declared.max_groups
            self.notes.append(limit_note(self.declared, "max_groups_contributed", groups))
        elif groups is None:
            self.notes.append(
                "max_groups_contributed was not given: a privacy unit counts in at most 1 group "
                "(BigQuery's default)."
            )
        return groups or 1

    def _rows(self, asked: Iterable[Aggregate]) -> int | None:
        rows, of_count = self.options.rows, self.aggregates.rows
        if of_count is not None:
            if rows is not None and rows != of_count[0]:
                raise self._refuse(
                    of_count[1],
                    f"a COUNT is bounded by {of_count[0]}, but max_rows_per_group is {rows}; "
                    "one limit of rows holds for the whole question",
                )
            rows = of_count[0]
        needed = any(
            not isinstance(a, CountPrivacyUnits) and not (isinstance(a, Sum) and a.per == "unit")
            for a in asked
        )
        if rows is None and needed and self.declared is not None and self.declared.max_rows is not None:
            rows = self.declared.max_rows
            self.notes.append(limit_note(self.declared, "max_rows_per_group", rows))
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
        taken: set[str] = set()
        for position, item in enumerate(statement.items, 1):
            if not isinstance(item.value, Expression) or id(item) not in chosen:
                continue  # what is computed with keys is judged when they are known
            column = statement.column(item.value)
            if column is not None and column.casefold() == self.options.unit.casefold():
                raise self._refuse(item.place, "a group for each privacy unit is not private")
            name = item.alias or (column and statement.bare(column)) or f"key_{position}"
            if self.public is not None:
                name = self.public.key(statement, item)
            if name.casefold() == self.options.unit.casefold():
                raise self._refuse(item.alias_place, f"{name} is the privacy unit; give the key another name")
            if column is None or name.casefold() != column.casefold():
                derived.append((name, statement.spell(item.value)))
            else:
                name = column
            if name.casefold() in taken:
                raise self._twice(name, item)
            taken.add(name.casefold())
            keys[name] = item
        return keys, derived

    def _domains(self, keys: dict[str, Item]) -> tuple[tuple[Hashable, ...], ...] | None:
        """Return the values of each key, where a catalog has all.

        Whoever says how groups are chosen has them chosen.
        """
        if self.declared is None or self.options.selecting is not None or self.public is not None:
            return None
        values = [item.value for item in keys.values() if isinstance(item.value, Expression)]
        columns = [column for column in map(self.statement.column, values) if column is not None]
        domains = self.declared.domains(columns) if len(columns) == len(keys) else None
        if domains is not None:
            try:
                check_size(columns, domains)
            except QueryError as error:
                raise self._refuse(values[0].place, str(error)) from None
            self.notes.append(groups_note(self.declared, columns, domains))
        return domains

    def _grouped_items(self) -> list[Item]:
        statement, found = self.statement, dict[int, Item]()
        if statement.group_by_all:
            return [item for item in statement.items if isinstance(item.value, Expression)]
        known = self._known_items()
        for expression in statement.group_by:
            item = self._item_of(expression, known)
            if not isinstance(item.value, Expression):
                raise self._refuse(expression.place, "an aggregate is not a group key")
            if id(item) in found:
                raise self._refuse(expression.place, "this group key is named twice")
            found[id(item)] = item
        return list(found.values())

    def _known_items(self) -> dict[object, Item]:
        """Return items by what GROUP BY may call them: their name, or their shape."""
        known: dict[object, Item] = {}
        items = self.statement.items
        for item in items:
            if isinstance(item.value, Expression):
                known.setdefault(self.statement.shape(item.value), item)
        for call in (False, True):
            for item in items:
                if (not isinstance(item.value, Expression)) == call and item.alias is not None:
                    known.setdefault((call, item.alias.casefold()), item)
        return known

    def _item_of(self, expression: Expression, known: dict[object, Item]) -> Item:
        statement, items = self.statement, self.statement.items
        written = statement.spell(expression)
        if written.isdigit():
            if not 1 <= int(written) <= len(items):
                raise self._refuse(
                    expression.place, f"GROUP BY {written}: the SELECT list has {len(items)} entries"
                )
            return items[int(written) - 1]
        column = statement.column(expression)
        name = None if column is None else column.casefold()
        for key in ((False, name), statement.shape(expression), (True, name)):
            if key in known:
                return known[key]
        if name == self.options.unit.casefold():
            raise self._refuse(expression.place, "a group for each privacy unit is not private")
        raise self._refuse(
            expression.place, f"the group key {written} is not selected; add it to the SELECT list"
        )

    def _not_a_key(self, value: Expression) -> str:
        written = self.statement.spell(value)
        first = value.tokens[0].text
        if len(value.tokens) > 1 and value.tokens[1].word == "(":
            anonymization = self.statement.clause == "ANONYMIZATION"
            known = [name for name in FUNCTIONS if name.startswith("ANON_") == anonymization]
            near = nearest(first, known)
            if near:
                return f"{first} is not an aggregate that is known here; did you mean {near}?"
        return (
            f"{written} is neither a group key nor a private aggregate; add it to GROUP BY, or ask for an "
            "aggregate of it"
        )

    def _aggregates(self) -> dict[str, tuple[Item, Aggregate]]:
        named: dict[str, tuple[Item, Aggregate]] = {}
        taken: set[str] = set()
        for position, item in enumerate(self.statement.items, 1):
            if isinstance(item.value, Call):
                aggregate = self.aggregates.of(item.value)
                name = item.alias or self.aggregates.default_name(item.value, aggregate, position)
                if name.casefold() in taken:
                    raise self._twice(name, item)
                taken.add(name.casefold())
                named[name] = (item, aggregate)
        return named

    def _check_names(self, keys: dict[str, Item], named: dict[str, tuple[Item, Aggregate]]) -> None:
        seen = {name.casefold() for name in keys}
        for name, (item, aggregate) in named.items():
            for output in names_of(name, aggregate):
                if output.casefold() in seen:
                    raise self._twice(output, item)
                seen.add(output.casefold())

    def _twice(self, name: str, item: Item) -> SqlError:
        return self._refuse(
            item.alias_place, f"the output name {name} is used twice; give each column its own: ... AS name"
        )

    def _refuse(self, place: Place, message: str) -> SqlError:
        return refusal(self.statement.text, place, message)
