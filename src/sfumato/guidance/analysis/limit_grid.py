"""A grid of limits and bounds, each of which makes another question of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.display.cards import Told
from sfumato.errors import ParameterError, QueryError, nearest
from sfumato.exact import Number, positive_int
from sfumato.query.aggregates.aggregate import BoundedAggregate, checked_bounds
from sfumato.query.query import Query

LARGEST_LIMIT = 10**9
MOST_POINTS = 400
Bounds = tuple[Fraction, Fraction]


@dataclass(frozen=True, repr=False)
class Limits(Told):
    """One point of a grid: what a question is asked with, in the place of its own.

    Args:
        groups, rows, total_rows: the limits; None where the question has none.
        bounds: of aggregates, by name; those that are compared.

    Made by `Question.analyze`.

    >>> Limits(groups=3, rows=1, bounds=(("time", (Fraction(0), Fraction(180))),))
    groups=3, rows=1, time 0 to 180
    """

    groups: int | None
    rows: int | None
    bounds: tuple[tuple[str, Bounds], ...] = ()
    total_rows: int | None = None

    def _of(self, query: Query) -> Query:
        """Return the question with these."""
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
        """The bounds, as text."""
        return ", ".join(f"{name} {_text(bounds)}" for name, bounds in self.bounds)

    def __str__(self) -> str:
        limits = ("groups", self.groups), ("rows", self.rows), ("total_rows", self.total_rows)
        found = [f"{n}={v:,}" for n, v in limits if v is not None]
        return ", ".join([*found, *filter(None, [self.bounds_text])]) or "the question as it is"


def grid(
    query: Query,
    groups: int | Sequence[int] | None,
    rows: int | Sequence[int] | None,
    total_rows: int | Sequence[int] | None,
    bounds: Mapping[str, Sequence[tuple[Number, Number]]] | None,
) -> tuple[Limits, ...]:
    """Return all combinations of limits and bounds, each once; those of the question where none are given.

    Raises:
        ParameterError: a limit is not a whole number from 1 to 1,000,000,000, bounds are not admissible, or
            there are more than 400 combinations.
        QueryError: nothing in the question depends on what is compared.
    """
    if query.total_rows is None and total_rows is not None:
        raise QueryError(
            "analyze: total_rows is compared, but the question limits groups and rows; ask with "
            "bound(total_rows=...), or compare groups=... and rows=..."
        )
    if query.total_rows is not None and (groups is not None or rows is not None):
        raise QueryError(
            "analyze: the question limits a unit's rows in all groups together, beside which no other limit "
            "is set; compare total_rows=..., or ask with bound(groups=..., rows=...)"
        )
    if groups is not None and not query.keys:
        raise QueryError("analyze: groups is compared, but nothing is grouped; leave it out")
    if rows is not None and not any(a.needs_rows for _, a in query.aggregates):
        raise QueryError("analyze: rows is compared, but nothing that is asked depends on it; leave it out")
    axes: list[Sequence[Any]] = [
        _limits("groups", groups, query.max_groups),
        _limits("rows", rows, query.max_rows),
        _limits("total_rows", total_rows, query.total_rows),
    ]
    given: Any = {} if bounds is None else bounds
    names = _bounded_names(query, given)
    axes += [_bounds(name, given[name]) for name in names]
    size = 1
    for axis in axes:
        size *= len(axis)
    if size > MOST_POINTS:
        raise ParameterError("analyze: the number of combinations", size, f"at most {MOST_POINTS}")
    return tuple(
        Limits(of_groups, of_rows, tuple(zip(names, of_values, strict=True)), of_all)
        for of_groups, of_rows, of_all, *of_values in product(*axes)
    )


def _limits(name: str, given: Any, own: int | None) -> list[int | None]:
    if given is None:
        return [own]
    if isinstance(given, (str, bytes, Mapping)) or not hasattr(given, "__iter__"):
        given = [given]
    found = [positive_int(value, name) for value in given]
    if not found:
        raise ParameterError(name, given, "one limit or more, or left out")
    for value in found:
        if value > LARGEST_LIMIT:
            raise ParameterError(name, value, f"at most {LARGEST_LIMIT:,}, beyond which it limits nothing")
    return list(dict.fromkeys(found))


def _bounded_names(query: Query, bounds: object) -> list[str]:
    if not isinstance(bounds, Mapping):
        raise ParameterError("bounds", bounds, 'by name of an output, as {"visits": [(0, 10), (0, 30)]}')
    asked = dict(query.aggregates)
    for name in bounds:
        if name not in asked:
            near = nearest(str(name), list(asked))
            hint = f"; did you mean {near!r}?" if near else f". There are: {', '.join(asked)}"
            raise QueryError(f"analyze: bounds are of outputs, and there is no {str(name)!r}{hint}")
        if not isinstance(asked[name], BoundedAggregate):
            raise QueryError(f"analyze: bounds are given for {name!r}, which has none; leave them out")
    return [name for name in asked if name in bounds]


def _bounds(name: str, given: Any) -> list[Bounds]:
    form = "pairs of lower and upper, such as [(0, 10), (0, 30)]"
    pairs = list(given) if isinstance(given, (list, tuple)) else []
    if pairs and not any(isinstance(pair, (list, tuple)) for pair in pairs):
        pairs = [tuple(pairs)]  # a single one
    if not pairs or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise ParameterError(f"bounds of {name}", given, form)
    return list(dict.fromkeys(checked_bounds(f"bounds of {name}:", *pair) for pair in pairs))


def _text(bounds: Bounds) -> str:
    return f"{float(bounds[0]):g} to {float(bounds[1]):g}"
