"""GROUP BY of a private SELECT: group keys, ROLLUP and other sets of keys, and their declared domains."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import prod

from sfumato.catalogs.declarations import TableDeclaration, check_size, groups_note
from sfumato.dataclass import dataclass
from sfumato.dialect.keywords import meant
from sfumato.dialect.options_clause import Options
from sfumato.dialect.public_groups import PublicGroups
from sfumato.dialect.select_statement import Expression, Item, Statement, StatementChecker
from sfumato.dialect.sql_tokens import Cursor
from sfumato.dialect.syntax_tree import Node
from sfumato.errors import QueryError, nearest
from sfumato.query.group_totals import MAX_SETS, GroupingSets

_EACH_UNIT = (
    "a group for each privacy unit is not private. Group by a column that many units share; to "
    "compute one row per unit first, write FROM (SELECT id, count(*) AS n FROM visits GROUP BY id)"
)


class Groups(StatementChecker):
    """The group keys of a private SELECT.

    Args:
        statement: the private SELECT.
        options: its options.
        declared: the catalog's declaration of its table.
        public: the public groups, with PUBLIC_GROUPS.
        notes: a list that gets sentences about defaults.
    """

    def __init__(
        self,
        statement: Statement,
        options: Options,
        declared: TableDeclaration | None,
        public: PublicGroups | None,
        notes: list[str],
    ) -> None:
        self.statement = statement
        self.options = options
        self.declared = declared
        self.public = public
        self.notes = notes
        self.unselected: list[Item] = []  # group keys that the SELECT list leaves out
        self.grouped = self._grouped_items()

    def keys(self) -> tuple[dict[str, Item], list[tuple[str, str]]]:
        """Return the group keys by output name, with their items, and the columns to derive for them."""
        statement = self.statement
        chosen = {id(item) for item in self.grouped}
        keys: dict[str, Item] = {}
        derived: list[tuple[str, str]] = []
        taken: set[str] = set()
        aliases = {(item.alias or "").casefold() for item in statement.items}
        for position, item in enumerate([*statement.items, *self.unselected], 1):
            if not isinstance(item.value, Expression) or id(item) not in chosen:
                continue  # what is computed with keys is judged when they are known
            column = statement.column(item.value)
            if column is not None and column.casefold() == self.options.privacy_unit_column.casefold():
                raise self._refuse(item.place, _EACH_UNIT)
            name = item.alias or (column and statement.bare(column)) or f"key_{position}"
            if position > len(statement.items) and name.casefold() in aliases:
                name = f"key_{position}"
            if self.public is not None:
                name = self.public.key(statement, item)
            if name.casefold() == self.options.privacy_unit_column.casefold():
                raise self._refuse(item.alias_place, f"{name} is the privacy unit. Give the key another name")
            if column is None or name.casefold() != column.casefold():
                derived.append((name, statement.spell(item.value)))
            else:
                name = column
            if name.casefold() in taken:
                raise self._twice(name, item)
            taken.add(name.casefold())
            keys[name] = item
        return keys, derived

    def sets(self, keys: dict[str, Item]) -> GroupingSets | None:
        """Return the sets of group keys of ROLLUP, CUBE or GROUPING SETS; None without those."""
        if self.statement.group_sets is None:
            return None
        named = {id(item): name for name, item in keys.items()}
        names = [named[id(item)] for item in self.grouped]
        return GroupingSets(
            tuple(tuple(names[i] for i in one) for one in self.statement.group_sets), whole=True
        )

    def domains(self, keys: dict[str, Item]) -> tuple[tuple[Hashable, ...], ...] | None:
        """Return the domain of each group key, where the catalog declares all of them.

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
        """Return the items that GROUP BY names, in order, with those that are not in the SELECT list."""
        statement, found = self.statement, dict[int, Item]()
        if statement.group_by_all:
            return [item for item in statement.items if isinstance(item.value, Expression)]
        known = self._known_items()
        for expression in statement.group_by:
            item = self._resolve_key(expression, known)
            if not isinstance(item.value, Expression):
                raise self._refuse(
                    expression.place,
                    "this is not a group key. Leave it out: GROUP BY takes columns and expressions of one "
                    "row, and every group gets its aggregates",
                )
            if id(item) in found:
                raise self._refuse(expression.place, "this group key is listed twice")
            found[id(item)] = item
        return list(found.values())

    def _known_items(self) -> dict[object, Item]:
        """Return the items of the SELECT list by what GROUP BY may call them: alias or expression."""
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

    def _resolve_key(self, expression: Expression, known: dict[object, Item]) -> Item:
        """Return the item that a group key names by position, alias or expression, or a new one."""
        statement, items = self.statement, self.statement.items
        written = statement.spell(expression)
        if written.isdigit():
            if not 1 <= int(written) <= len(items):
                raise self._refuse(
                    expression.place, f"GROUP BY {written}: the SELECT list has only {len(items)} entries"
                )
            return items[int(written) - 1]
        column = statement.column(expression)
        name = None if column is None else column.casefold()
        shape = statement.shape(expression)
        # A qualified name is no alias.
        for key in [shape] if len(expression.tokens) > 1 else [(False, name), shape, (True, name)]:
            if key in known:
                return known[key]
        if name is not None and len(of_table := self._items_of_a_table(name)) == 1:
            return of_table[0]
        if name == self.options.privacy_unit_column.casefold():
            raise self._refuse(expression.place, _EACH_UNIT)
        item = Item(expression, None, expression.place, expression.place)
        known[shape] = item
        self.unselected.append(item)
        return item

    def _items_of_a_table(self, column: str) -> list[Item]:
        """Return the items that select this group key's column qualified, as in `r.region`."""
        found = []
        for item in self.statement.items:
            words = item.value.tokens if isinstance(item.value, Expression) else ()
            if len(words) == 3 and words[1].word == "." and words[2].text.casefold() == column:
                found.append(item)
        return found

    def not_a_key(self, value: Expression) -> str:
        """Return the message about a selected expression that is neither group key nor aggregate."""
        written = self.statement.spell(value)
        first = value.tokens[0].text
        called = len(value.tokens) > 1 and value.tokens[1].word == "("
        if called and (near := meant(first, self.statement.clause == "ANONYMIZATION")):
            return f"{first} is not a private aggregate; did you mean {near}?"
        unselected = [self.statement.spell(item.value) for item in self.unselected]  # type: ignore[arg-type]
        if near := nearest(written, unselected):
            return f"{written} is not a group key; GROUP BY names {near}: write one of the two in both places"
        return (
            f"{written} is neither a group key nor a private aggregate. Add it to GROUP BY, or aggregate it"
        )


_MAX_DEPTH = 8


@dataclass(frozen=True)
class _Part:
    """A part of GROUP BY: its group keys, and how many sets of them it makes."""

    keys: list[range]
    sets: int


def spans_of_keys(words: Cursor, parts: list[range], split: Callable[[range], list[range]]) -> list[range]:
    """Return the tokens of each group key inside ROLLUP, CUBE and GROUPING SETS, once each.

    Args:
        words: the tokens of the text.
        parts: between the commas of GROUP BY.
        split: splits a list at its commas.
    Raises:
        SqlError: something is written that has no place there, or has too many sets.
    """
    read = [_part(words, part, split, 0) for part in parts]
    if prod(part.sets for part in read) > MAX_SETS:
        raise words.refuse(f"at most {MAX_SETS} sets of keys are supported", words.tokens[parts[0].start])
    first: dict[tuple[str, ...], range] = {}
    for span in (key for part in read for key in part.keys):
        written = tuple(t.word or t.text.casefold() for t in words.tokens[span.start : span.stop])
        first.setdefault(written, span)
    return list(first.values())


def is_grouping(words: Cursor, part: range) -> bool:
    """Whether a part of GROUP BY is ROLLUP, CUBE or GROUPING SETS, and no single group key."""
    first, second = words.tokens[part.start], words.tokens[part.start + 1]
    return (first.word in ("ROLLUP", "CUBE") and second.word == "(") or (
        first.word == "GROUPING" and second.word == "SETS"
    )


def read_grouping_sets(tree: Node) -> tuple[tuple[int, ...], ...]:
    """Return the sets of group keys in a syntax tree, by position, the largest first."""
    return tuple(sorted((tuple(one) for one in tree["group_sets"]), key=lambda one: (-len(one), one)))


def _part(words: Cursor, part: range, split: Callable[[range], list[range]], depth: int) -> _Part:
    """Parse a part of GROUP BY: a group key, ROLLUP, CUBE or GROUPING SETS."""
    if depth > _MAX_DEPTH:
        raise words.refuse(
            "this is nested too deeply. Write the sets of keys in one GROUPING SETS (...)",
            words.tokens[part.start],
        )
    if not is_grouping(words, part):
        return _Part([part], 1)
    name = words.tokens[part.start].word
    opening = part.start + (2 if name == "GROUPING" else 1)
    if words.tokens[opening].word != "(" or words.closing[opening] != part.stop - 1:
        what = "GROUPING SETS" if name == "GROUPING" else name
        raise words.refuse(
            f"{what} stands alone in GROUP BY: write {what} (region, town) and nothing after it",
            words.tokens[opening],
        )
    inner = [_member(words, one, split, depth, name) for one in split(range(opening + 1, part.stop - 1))]
    keys = [key for one in inner for key in one.keys]
    if name == "GROUPING":
        return _Part(keys, sum(one.sets for one in inner))
    return _Part(keys, len(inner) + 1 if name == "ROLLUP" else 1 << min(len(inner), 64))


def _member(words: Cursor, one: range, split: Callable[[range], list[range]], depth: int, name: str) -> _Part:
    """Parse one entry of ROLLUP, CUBE or GROUPING SETS: a group key, several in brackets, or a nested set."""
    bracketed = words.tokens[one.start].word == "(" and words.closing[one.start] == one.stop - 1
    if bracketed and len(one) == 2 and name == "GROUPING":
        return _Part([], 1)
    if bracketed:
        return _Part(split(range(one.start + 1, one.stop - 1)), 1)
    if name != "GROUPING" and is_grouping(words, one):
        raise words.refuse(f"{name} can contain only keys", words.tokens[one.start])
    return _part(words, one, split, depth + 1)
