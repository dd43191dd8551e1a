"""What a question of the journal asked, as far as two questions are compared: from canonical plans alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.budget.ledger.journal.chain import Line
from sfumato.dataclass import dataclass
from sfumato.exact.canonical import canonical_bytes

# A text of SQL, a name in quotes, a number, a name. DuckDB has written them, so that there is one spelling.
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|[^\W\d]\w*")
# A column that is one value: compared with a literal.
_EQUAL = re.compile(r"(?<![<>!])=|\bIN\b|\bIS NOT DISTINCT FROM\b", re.IGNORECASE)


@dataclass(frozen=True)
class Question:
    """One private SELECT of a question that was asked.

    Args:
        entry: of the ledger.
        dataset: whose budget paid.
        analyst: who asked; None for the owner.
        epsilon: what all of the question cost.
        plan: its canonical form.
        answered: whether an answer is known to have come.
    """

    entry: int
    dataset: str
    analyst: str | None
    epsilon: Fraction
    plan: Mapping[str, Any]
    answered: bool

    @cached_property
    def unit(self) -> frozenset[str]:
        """The column that tells whose a row is, those that it is made of, and what is made of it."""
        parts = self._table.get("unit_of", []) if isinstance(self._table, Mapping) else []
        found = {str(self.plan.get("privacy_unit"))}.union(*map(names, parts))
        before: set[str] = set()
        while before != found:
            before = set(found)
            found |= {name for name, of in _made(self._table) if found & names(of)}
        return frozenset(found)

    @cached_property
    def conditions(self) -> tuple[str, ...]:
        """What rows are kept by, also where tables are made of tables: all of them must hold."""
        own = [
            *self.plan.get("where", ()),
            *(one for one in self.plan.get("steps", ()) if isinstance(one, str)),
        ]
        return (*own, *_within(self.plan.get("table")))

    @cached_property
    def _table(self) -> Any:
        """Which rows are read, without what they are kept by."""
        return _without(self.plan.get("table"))

    @cached_property
    def expressions(self) -> tuple[str, ...]:
        """Expressions of rows that are counted, summed or grouped by."""
        keys = [key[1] for key in self.plan.get("group_by", ())]
        steps = [one[1] for one in self.plan.get("steps", ()) if not isinstance(one, str)]
        return (*keys, *steps, *(text for one in self.outputs for text in _columns(one)))

    @cached_property
    def outputs(self) -> tuple[Mapping[str, Any], ...]:
        """What is asked of the rows that are kept, without its names."""
        if self.plan.get("asks") == "largest groups":
            return ({"kind": "largest", "by": self.plan.get("by")},)
        return tuple(one[1] for one in self.plan.get("outputs", ()))

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names in what is measured."""
        return frozenset(name for one in self.outputs for text in _columns(one) for name in names(text))

    def measured(self) -> Iterator[str]:
        """Yield, for each output, all but the conditions: table, groups, and what is asked of them."""
        base = {name: self.plan.get(name) for name in ("privacy_unit", "group_by", "groups")}
        base["table"] = self._table
        for one in self.outputs:
            yield canonical_bytes({**base, "dataset": self.dataset, "output": one}).decode()

    @cached_property
    def but_for_budget(self) -> str:
        """All that is asked, without its names and what it may cost: equal for what is asked once more."""
        kept = {name: one for name, one in self.plan.items() if name not in _OF_BUDGET}
        if "outputs" in kept:
            called = {str(one[0]): i for i, one in enumerate(kept["outputs"])}
            kept["outputs"] = [_of_outputs(one[1], called) for one in kept["outputs"]]
        return canonical_bytes({"dataset": self.dataset, "plan": kept}).decode()


_OF_BUDGET = ("budget", "noise", "selection", "diagnostics", "weights", "found")
_OF_OTHERS = ("first", "second")  # in which an output names another one


def _of_outputs(one: Mapping[str, Any], called: Mapping[str, int]) -> dict[str, Any]:
    """Return an output in which others are known by their place."""
    return {n: called.get(v, v) if n in _OF_OTHERS and isinstance(v, str) else v for n, v in one.items()}


def questions(lines: Iterable[Line]) -> list[Question]:
    """Return all questions that were paid, in order; a text with several private SELECTs has several."""
    found: list[Question] = []
    lines = list(lines)
    came = {line.entry: line for line in lines if line.kind == "answered"}
    for line in lines:
        if line.kind != "asked" or line.entry is None:
            continue
        answer = came.get(line.entry)
        # Where bounds were found first, the plan is known with the answer.
        plan = (answer.detail.get("plan") if answer else None) or line.detail.get("plan")
        epsilon = Fraction(line.detail["entered"]["epsilon"])
        for one in parts(plan):
            made = Question(line.entry, line.dataset, line.analyst, epsilon, one, answer is not None)
            found.append(made)
    return found


def parts(plan: object) -> Iterator[Mapping[str, Any]]:
    """Yield each plan of a question that has several."""
    if not isinstance(plan, Mapping):
        return
    if "releases" in plan:
        for one in plan["releases"]:
            yield from parts(one)
    else:
        yield plan


def names(text: str) -> set[str]:
    """Return names in an expression: of columns, functions, and words of SQL.

    >>> sorted(names("((id = 4217) OR (town = 'id x'))"))
    ['OR', 'id', 'town']
    """
    found = {one for one in _TOKEN.findall(text) if not one.startswith("'") and not one[0].isdigit()}
    return {one[1:-1].replace('""', '"') if one.startswith('"') else one for one in found}


def template(text: str) -> str:
    """Return an expression without its literals.

    >>> template("((age < 50) AND (town = 'Ulm''s'))")
    '((age < ?) AND (town = ?))'
    """
    return _TOKEN.sub(lambda m: "?" if m[0][0] == "'" or m[0][0].isdigit() else m[0], text)


def _within(table: object) -> Iterator[str]:
    """Yield conditions of tables that a table is made of."""
    if isinstance(table, Mapping):
        yield from (one for one in table.get("where", ()) if isinstance(one, str))
        for name, value in table.items():
            if name != "where":
                yield from _within(value)
    elif isinstance(table, list):
        for one in table:
            yield from _within(one)


def _made(table: object) -> Iterator[tuple[str, str]]:
    """Yield names of columns of tables that a table is made of, each with what it is."""
    if isinstance(table, Mapping):
        for name, value in table.items():
            if name == "columns" and isinstance(value, Mapping):
                yield from ((str(column), str(of)) for column, of in value.items())
            else:
                yield from _made(value)
    elif isinstance(table, list):
        if len(table) == 2 and all(isinstance(one, str) for one in table):
            yield table[1], table[0]  # a column that is called otherwise
            yield table[0], table[1]  # an aggregate of one unit's rows
        for one in table:
            yield from _made(one)


def _without(table: object) -> object:
    if isinstance(table, Mapping):
        return {name: _without(value) for name, value in table.items() if name != "where"}
    return [_without(one) for one in table] if isinstance(table, list) else table


def equalities(conditions: Sequence[str]) -> int:
    """Return how many conditions ask for one value of a column."""
    return sum(len(_EQUAL.findall(template(one))) for one in conditions if " OR " not in one)


def _columns(output: Mapping[str, Any]) -> Iterator[str]:
    for name, value in output.items():
        if isinstance(value, Mapping):
            yield from _columns(value)
        elif isinstance(value, str) and name not in ("kind", "lower", "upper", "per", "noise"):
            yield value
        elif isinstance(value, list):
            yield from (one for one in value if isinstance(one, str))
