"""APPROX_TOP_COUNT and APPROX_TOP_SUM: the k largest groups, alone in a private SELECT."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from sfumato.api.largest_groups import MAX_CANDIDATES
from sfumato.dataclass import dataclass
from sfumato.dialect.keywords import LARGEST, SHARED, STRATA, STRATEGY
from sfumato.dialect.released_sql import FreeNames, Pieces, Writer
from sfumato.dialect.select_statement import Expression, Item, Statement, StatementChecker, WrittenAggregate
from sfumato.dialect.sql_tokens import Literal, Token, positive, refusal
from sfumato.measurements.candidate_selection import MAX_PEELS
from sfumato.plan.top_measurement import RANK, SUM, UNITS
from sfumato.query import aggregates as ask
from sfumato.query.aggregates import Aggregate
from sfumato.query.schema import quote_name

_COUNT, _SUM = LARGEST
_FORMS = {
    _COUNT: "write APPROX_TOP_COUNT(product, 10), for the ten groups with the most privacy units",
    _SUM: (
        "write APPROX_TOP_SUM(product, price, 10, contribution_bounds_per_group => (0, 50)), for the ten "
        "groups with the largest sums, with known bounds on what one unit adds to a group"
    ),
}
_ALONE = "{} must stand alone in the SELECT list. Compute other aggregates in another private SELECT"
_NO_GROUPS = "{} names its groups itself. Leave GROUP BY out"
_NO_HAVING = (
    "{} has no groups to filter before it selects them. Leave HAVING out, and write WHERE in a "
    "SELECT around this one"
)
# Options that say whose rows are read and what they cost; all others are about other questions.
_OPTIONS = (
    "epsilon",
    "delta",
    "privacy_unit_column",
    "timezone",
    "unit_timezone",
    "types",
    "multiline",
    "encoding",
    "confidence",
)
_LIMITS = ("max_groups_contributed", "kappa", "max_rows_per_group", "max_rows_contributed")
NOTE = "APPROX_TOP_COUNT counts the privacy units of each group, not its rows."


@dataclass(frozen=True)
class Largest:
    """How many of the largest groups APPROX_TOP_COUNT or APPROX_TOP_SUM shows, and how they are chosen.

    Args:
        k: how many.
        candidates: of private groups, how many of the largest may be shown; None for the default.
        counts: whether noisy numbers stand beside them.
        counts_share: the part of the budget that is for these, as written; None for the default.
    """

    k: int
    candidates: int | None = None
    counts: bool = True
    counts_share: str | None = None


class LargestGroups(StatementChecker):
    """A call of APPROX_TOP_COUNT or APPROX_TOP_SUM, alone in its private SELECT.

    Args:
        statement: the private SELECT.
        item: the only entry of its SELECT list.
        call: what that is.
    """

    def __init__(self, statement: Statement, item: Item, call: WrittenAggregate) -> None:
        self.statement, self._call, self._item = statement, call, item

    @classmethod
    def from_only_item(cls, statement: Statement, call: WrittenAggregate) -> LargestGroups:
        """Return the APPROX_TOP call of a private SELECT, in which nothing else may be asked.

        Raises:
            SqlError: another item, a clause or an aggregate is beside it.
        """
        function, (item, *more) = call.function, statement.items
        if more or item.value is not call:
            raise refusal(statement.text, call.name_place, _ALONE.format(function))
        if statement.clause == "ANONYMIZATION":
            message = (
                f"{function} cannot be used in WITH ANONYMIZATION. Use WITH DIFFERENTIAL_PRIVACY instead"
            )
            raise refusal(statement.text, call.name_place, message)
        if statement.group_by or statement.group_by_all:
            place = statement.group_by[0].place if statement.group_by else call.name_place
            raise refusal(statement.text, place, _NO_GROUPS.format(function))
        if statement.having is not None:
            raise refusal(statement.text, statement.having.place, _NO_HAVING.format(function))
        for _, _, other in [*statement.calls.values()][1:]:
            raise refusal(statement.text, other.name_place, _ALONE.format(function))
        return cls(statement, item, call)

    def grouped(self) -> Statement:
        """Return the statement with the columns of the APPROX_TOP call as its group keys.

        Raises:
            SqlError: no column is named.
        """
        call, item = self._call, self._item
        if call.argument is None or call.distinct:
            raise self._refuse(call.name_place, _FORMS[call.function])
        entries = list(_entries(call.argument.tokens))
        if not all(entries):
            raise self._refuse(call.argument.place, _FORMS[call.function])
        keys = list(map(Expression, entries))
        if len(keys) > 1 and item.alias is not None:
            message = "AS names the column of the groups, but there are several here. Leave AS out"
            raise self._refuse(item.alias_place, message)
        items = tuple(Item(key, item.alias, key.place, item.alias_place) for key in keys)
        return replace(self.statement, items=items, group_by_all=True)

    def request(self, public: bool) -> Largest:
        """Return how many top groups the call asks for, after checks of its arguments.

        Args:
            public: whether the groups are.
        Raises:
            SqlError: a number is missing, or out of its range.
        """
        call = self._call
        for place in (place for name, place in call.places.items() if name in SHARED | STRATA):
            raise self._refuse(place, f"{call.function} does not take this argument: {_FORMS[call.function]}")
        if len(call.ranks) != 1 or call.listed:
            place = call.ranks[0].place if call.ranks else call.name_place
            raise self._refuse(place, f"the number of groups is missing: {_FORMS[call.function]}")
        k = self._read_integer(call.ranks[0], "the number of groups", MAX_PEELS)
        candidates, share, number = call.named.get("candidates"), call.named.get("counts_share"), None
        if candidates is not None:
            if public:
                message = "candidates is for private groups, and all public groups can be shown. Leave it out"
                raise self._refuse(candidates.place, message)
            number = self._read_integer(candidates, "candidates", MAX_CANDIDATES)
            if number < k:
                raise self._refuse(
                    candidates.place, f"candidates must be at least {k}, the number of groups to show"
                )
        shown = call.is_set("counts")
        if share is not None:
            if not shown:
                raise self._refuse(
                    share.place, "counts => FALSE leaves the numbers out. Leave counts_share out"
                )
            if not 0 < Fraction(share.text) < 1:
                raise self._refuse(share.place, "counts_share must be between 0 and 1, such as 0.5")
        return Largest(k, number, shown, None if share is None else share.text)

    def by(self) -> tuple[tuple[str, Aggregate], ...]:
        """Return the sum by which APPROX_TOP_SUM ranks groups; () for APPROX_TOP_COUNT, which ranks by units.

        Raises:
            SqlError: its bounds are missing, or units have some.
        """
        call = self._call
        bounds, form = call.bounds, _FORMS[call.function]
        if call.function == _COUNT:
            if bounds is not None:
                message = f"a privacy unit counts once in each of its groups. Leave the bounds out, or {form}"
                raise self._refuse(bounds.place, message)
            return ()
        if len(call.others) > 1:
            raise self._refuse(call.others[1].place, form)
        column = self.statement.column(call.others[0])
        if column is None:
            raise self._refuse(call.others[0].place, form)
        if bounds is None:
            raise self._refuse(
                call.name_place,
                f"{_SUM} has no bounds, so no amount of noise is enough, and a catalog's bounds are "
                f"for single rows. {form[0].upper()}{form[1:]}",
            )
        if bounds.kind != "contribution_bounds_per_group" or bounds.more:
            raise self._refuse(
                bounds.place, f"the contribution of a privacy unit to a group needs bounds: {form}"
            )
        ((low, high),) = self._pairs(bounds)
        return ((SUM, ask.sum(column, lower=low, upper=high)),)

    def check_private(self) -> None:
        """Check that APPROX_TOP_SUM over private groups has no negative lower bound.

        Raises:
            SqlError: it may take away.
        """
        bounds = self._call.bounds
        if bounds is not None and Fraction(bounds.lower.text) < 0:
            raise self._refuse(
                bounds.lower.place,
                "where groups are private, the lower bound of a sum must be at least 0. Otherwise "
                f"join a public table of the groups, with group_selection_strategy = {STRATEGY}",
            )

    def check_options(self) -> None:
        """Refuse options that have no meaning for the top groups, such as limits.

        Raises:
            SqlError: one is.
        """
        for name, value in self.statement.options:
            strategy = name.text == "group_selection_strategy" and value.text.upper() == STRATEGY
            if name.text in _OPTIONS or strategy:
                continue
            why = "selects its groups by a method of its own"
            if name.text in _LIMITS:
                why = "needs no limit, as a privacy unit counts in all of its groups"
            raise self._refuse(name.place, f"{self._call.function} {why}; leave {name.text} out")

    def check_names(self, keys: Collection[str]) -> None:
        """Refuse a key with the name of the top groups' rank, units or sum column.

        Raises:
            SqlError: one has.
        """
        own = (RANK, UNITS if self._call.function == _COUNT else SUM)
        for name in keys:
            if name.casefold() in own:
                raise self._refuse(
                    self._item.place,
                    f"the output has a column {name.casefold()} already. Give the key another name: "
                    f"{self._call.function}(...) AS name, or for several keys a subquery in FROM",
                )

    def columns(self, keys: Collection[str]) -> tuple[str, ...]:
        """Return the columns that are released of the top groups: rank, keys and number."""
        shown = self._call.is_set("counts")
        return (RANK, *keys, *([UNITS if self._call.function == _COUNT else SUM] if shown else []))

    def _read_integer(self, literal: Literal, what: str, limit: int) -> int:
        """Return an argument of an APPROX_TOP call as an integer within its limit."""
        number = positive(self.statement.text, literal, what)
        if number > limit:
            raise self._refuse(literal.place, f"{what} must be at most {limit:,}")
        return number


class LargestWriter(Writer):
    """Writes the private SELECT of the top groups over its released table, in order of rank.

    Args:
        statement: the private SELECT, with groups as its keys.
        keys: the released keys, with their items.
        largest: what asks for them.
        free: the names that the text does not use.
    """

    def __init__(
        self, statement: Statement, keys: dict[str, Item], largest: LargestGroups, free: FreeNames
    ) -> None:
        super().__init__(statement, keys, {}, _nothing_beside, free)
        self.released: tuple[str, ...] = largest.columns(keys)
        free.taken.update(name.casefold() for name in self.released)
        self.bare: dict[str, str] = {
            name: name for name in self.released if name in (UNITS, SUM) and name not in keys
        }

    @property
    def computing(self) -> bool:
        """Whether the SELECT sorts or cuts the top groups."""
        return self.statement.after is not None

    def _derive_column(self, aggregate: Aggregate, written: Sequence[Token], name: str) -> str:
        """Refuse error bars of formulas: top groups have those of their numbers alone."""
        message = "only the numbers of the largest groups have error bars, such as DP_INTERVAL_LOW(units)"
        raise self._refuse(Expression(tuple(written)).place, message)

    def _private(self) -> tuple[list[Pieces], list[tuple[str, str | None, int]]]:
        """Return the released columns of the top groups as the SELECT list."""
        body = []
        for name in self.released:
            pieces = Pieces()
            pieces.add(quote_name(name), self.statement.items[0].place)
            body.append(pieces)
        return body, [(name, name, position) for position, name in enumerate(self.released, 1)]


def _nothing_beside(call: WrittenAggregate, position: int) -> NoReturn:
    raise AssertionError(
        f"{call.function} at {position}: nothing else can be computed for the largest groups"
    )


def _entries(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, ...]]:
    """Split the columns in APPROX_TOP_COUNT((a, b), k) at their commas; a single one stays whole."""
    depth, start, found = 0, 1, list[tuple[Token, ...]]()
    for i, token in enumerate(tokens):
        depth += (token.word in ("(", "[", "{")) - (token.word in (")", "]", "}"))
        last = i == len(tokens) - 1
        if not depth and not last:
            yield tokens
            return
        if (depth == 1 and token.word == ",") or last:
            found.append(tokens[start:i])
            start = i + 1
    yield from found if len(tokens) > 1 else [tokens]
