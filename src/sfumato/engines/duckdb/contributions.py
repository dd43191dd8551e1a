"""The SQL of an analysis for the owner: what units bring to groups under many limits, of one look at rows.

Rows are put together by unit and group once, as a release without a limit of groups would. What a unit brings
to a group under a limit of rows, or under bounds, follows from that. It is added up by group and by the
number j of groups that units are in, as that alone says what a limit of groups leaves of it: a part p in
expectation, and where groups are chosen at random with the variance p (1 - p) times its square.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.engines.duckdb.exact_sql import PUBLIC_KEYS, ExactSql, written
from sfumato.engines.duckdb.text import double
from sfumato.framework import WHOLE
from sfumato.query.analysis.atoms import Atom
from sfumato.query.analysis.contributions import Column, Contributions, Share

# No value counts as more than this, whose square is a float64 too.
LARGEST = 1e120


class ContributionsSql(ExactSql):
    """Writes the SQL of one analysis.

    Args:
        asked: what is asked of the rows.
        options: as of `ExactSql`.
    """

    def __init__(self, asked: Contributions, **options: Any) -> None:
        super().__init__(asked.exact, **options)
        self.asked = asked
        # Name by expression: over values of a pair's rows, over what a pair has, and over pairs.
        self._of_pairs: dict[str, str] = {}
        self._brought: dict[str, str] = {}
        self._added: dict[str, str] = {}
        self._outputs = [*self._truths(), *self._by_share()]

    def text(self) -> str:
        """Return the whole statement."""
        ctes, pairs = self._bounded()
        brought = "".join(f", {text} AS {name}" for text, name in self._brought.items())
        ctes["units"] = f"SELECT u, count(*) AS j FROM {pairs} GROUP BY u"
        ctes["brought"] = f"SELECT {self._columns}j{brought} FROM {pairs} JOIN units USING (u)"
        added = ", ".join(f"{text} AS {name}" for text, name in self._added.items())
        ctes["sizes"] = f"SELECT {self._columns}j, {added} FROM brought GROUP BY {self._columns}j"
        outputs = ", ".join(f"CAST(sum({text}) AS DOUBLE) AS r{i}" for i, text in enumerate(self._outputs))
        grouping = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        shares = enumerate(self.asked.shares)
        parts = ", ".join(f"{_share(s)} AS w{i}, w{i} * (1 - w{i}) AS v{i}" for i, s in shares)
        ctes["sums"] = f"SELECT {self._columns}{outputs} FROM (SELECT *, {parts} FROM sizes){grouping}"
        return f"WITH {written(ctes, self.combined)}\n{self._shown()}"

    @property
    def _used(self) -> set[str]:
        return {column.name for column in self.asked.columns}

    @property
    def _aggregates(self) -> list[tuple[str, str]]:
        return list(self._of_pairs.items())

    def _pair(self, text: str) -> str:
        return self._of_pairs.setdefault(text, f"p{len(self._of_pairs)}")

    def _bring(self, text: str) -> str:
        return self._brought.setdefault(text, f"a{len(self._brought)}")

    def _add(self, text: str) -> str:
        return self._added.setdefault(text, f"s{len(self._added)}")

    def _sum(self, text: str) -> str:
        """Return what pairs bring together, of units in as many groups."""
        return self._add(f"sum({self._bring(text)})")

    @property
    def _units(self) -> str:
        return self._add("count(*)")

    def _truths(self) -> list[str]:
        """Numbers without limits: rows and units; of columns rows with a value, sums and squares."""
        found = [self._sum("n"), self._units]
        for column in self.asked.columns:
            found.append(self._sum(self._valued(column.name)))
            value = self.values.value(self._value(column)) if column.numeric else ""
            sums = [f"sum({value})", f"sum({value} * {value})" if column.squares else ""]
            found += [self._sum(self._pair(text)) if value and text else "0::DOUBLE" for text in sums]
        return found

    def _by_share(self) -> list[str]:
        """What is expected of units and of what they bring, and its variances, as of `Contributed`."""
        found = []
        for i, (atoms, pairs) in enumerate(zip(self.asked.atoms, self.asked.pairs, strict=True)):
            # Of a coin: mean, variance, third central moment.
            found += [f"{self._units} * {text}" for text in (f"w{i}", f"v{i}", f"v{i} * (1 - 2 * w{i})")]
            found += [f"{self._sum(self._atom(atom))} * w{i}" for atom in atoms]
            for one, other in pairs:
                first, second = sorted([self._bring(self._atom(one)), self._bring(self._atom(other))])
                found.append(f"{self._add(f'sum({first} * {second})')} * v{i}")
        return found

    def _valued(self, column: str) -> str:
        """Return how many rows of a pair have a value."""
        return self._pair(f"count({self.values.value(_or_null(self.values.valued(column)))})")

    def _atom(self, atom: Atom) -> str:
        """Write what a pair brings."""
        if atom.kind == "unit":
            return "1.0::DOUBLE"
        if atom.kind == "rows":
            return f"least(n, {atom.rows})::DOUBLE"
        limited = f" * (CASE WHEN n <= {atom.rows} THEN 1 ELSE {atom.rows}::DOUBLE / n END)"
        if atom.kind == "valued":
            return self._valued(atom.column) + limited
        if atom.kind == "unit_sum":
            total = self._pair(f"sum({self.values.value(self._finite(atom.column, -LARGEST, LARGEST))})")
            return f"least(greatest(coalesce({total}, 0), {double(atom.lower)}), {double(atom.upper)})"
        clamped = (
            f"least(greatest({self.values.number(atom.column)}, {double(atom.lower)}), {double(atom.upper)})"
        )
        valued = self.values.valued(atom.column)
        value = self.values.value(f"CASE WHEN {valued} THEN {clamped} - {double(atom.centre)} END")
        total = self._pair(f"sum({value})" if atom.kind == "sum" else f"sum({value} * {value})")
        return f"coalesce({total}, 0)" + limited

    def _value(self, column: Column) -> str:
        """Return a value as exact answers have it, from the centre; an infinite one is at an end."""
        return f"{self._finite(column.name, column.lower, column.upper)} - {double(column.centre)}"

    def _finite(self, column: str, lower: float, upper: float) -> str:
        """Return a column with other values in the place of infinite ones."""
        number = self.values.number(column)
        if self.schema[column].type_name in ("FLOAT", "DOUBLE"):
            number = (
                f"CASE WHEN {number} = 'inf'::DOUBLE THEN {double(upper)} "
                f"WHEN {number} = '-inf'::DOUBLE THEN {double(lower)} ELSE {number} END"
            )
        clamped = f"least(greatest({number}, {double(-LARGEST)}), {double(LARGEST)})"
        return f"CASE WHEN {self.values.valued(column)} THEN {clamped} END"

    def _shown(self) -> str:
        """Return the numbers of all groups; of public ones that have no rows too."""
        base = PUBLIC_KEYS if self.query.public_keys is not None else "sums"
        joins = "" if base == "sums" else f" LEFT JOIN sums ON ({self._match(base, 'sums')})"
        columns = [f"{base}.{key} AS {key}" for key in self.keys]
        columns += [f"sums.r{i} AS r{i}" for i in range(len(self._outputs))]
        return f"SELECT {', '.join(columns)} FROM {base}{joins}{_order(base, self.keys)}"


def _order(base: str, keys: Sequence[str]) -> str:
    return f" ORDER BY {', '.join(f'{base}.{key}' for key in keys)}" if keys else ""


def _or_null(condition: str) -> str:
    return f"CASE WHEN {condition} THEN 1 END"


def _share(share: Share) -> str:
    """Write `Share.of`, of j groups."""
    if share.groups is None:
        return "1.0::DOUBLE"
    if share.scaled:
        whole = share.groups * WHOLE
        return f"(CASE WHEN j <= {share.groups} THEN 1 ELSE ({whole}::BIGINT // j) / {WHOLE}::DOUBLE END)"
    return f"least(1, {share.groups}::DOUBLE / j)"
