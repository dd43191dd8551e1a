"""The SQL of an exact query: bound each unit, then add up per group.

It computes what `transformations.bound_groups >> per_group` define, or `scale_groups` or `bound_total_rows`
in the place of the first, in exact integers; the tests hold it to them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sfumato.engines.duckdb import distinct, group_limit
from sfumato.engines.duckdb.compared import canonical
from sfumato.engines.duckdb.group_limit import kept_pairs
from sfumato.engines.duckdb.ordering import order_by
from sfumato.engines.duckdb.row_limit import kept_rows
from sfumato.engines.duckdb.scaled import weighted
from sfumato.engines.duckdb.steps import stepped
from sfumato.engines.duckdb.text import identifier
from sfumato.query import sizes
from sfumato.query.engine import ALL_GROUPS, ExactQuery
from sfumato.query.schema import INTEGERS, Column
from sfumato.transformations import DistinctMatched, DistinctShared, Leaves, QuantileTree, RowsInBins
from sfumato.transformations.row_sql import RowSql, SqlPart, after, value_hash

PUBLIC_KEYS = "public_keys"
# Types of columns that have the same name in every query, where they are.
TYPES = group_limit.TYPES | {"shard": "INTEGER", "leaves": "UBIGINT[]"}
TYPES |= dict.fromkeys(("n", "m", "w", "sure", "copy", "start"), "BIGINT")
# What is counted by value first: in trees each value has a leaf, distinct ones a hash, and in bins a place.
Counts = QuantileTree | Leaves | RowsInBins


class ExactSql:
    """Writes the SQL of one exact query.

    Args:
        query: what to compute.
        relation: where rows come from.
        columns: the source's columns, before the steps.
        schema: the columns after the steps.
        salt: a fresh random integer, for the order in which a unit's groups, or its rows, are kept.
        rows: how many rows there are, if that is known; it changes how they are bounded, and not the answer.
        combined: whether rows are made of other tables, which costs more than to read a file again.
        known: statistics of the query that are not written, as their numbers are known. Where rows of a unit
            are chosen, their values still decide which, so that all numbers are of the same rows.
    """

    def __init__(
        self,
        query: ExactQuery,
        relation: str,
        columns: Sequence[str],
        schema: Mapping[str, Column],
        salt: int,
        rows: int | None = None,
        combined: bool = False,
        known: Collection[DistinctMatched] = (),
    ) -> None:
        self.combined = combined
        self.small: bool = rows is not None and rows < sizes.FEW_ROWS
        left = replace(query, statistics=tuple(s for s in query.statistics if s not in known))
        if query.total_rows is None:
            query = left
        self.schema = schema
        self.salt = salt
        self._used: set[str] = {column for s in query.statistics for column in s.columns}
        self.rows: str = stepped(relation, query.steps, columns)
        self.keys: list[str] = [f"k{i}" for i in range(len(query.keys))]
        types = {name: column.type_name for name, column in schema.items()}
        self.values: RowSql = RowSql(types, query.scaled, sizes.BIGINT_ROOM, sizes.LISTED_BINS)
        self.parts: list[SqlPart] = [
            part for s in query.statistics if not s.by_value for part in s._sql_parts(self.values)
        ]
        trees: list[Any] = [s for s in query.statistics if s.by_value]
        leaves = {tree: self.values.value(tree._place_sql(self.values), tree.place_type) for tree in trees}
        each = {tree: tree._added_sql(self.values) for tree in trees}
        self.query = left
        self.trees: list[Counts | DistinctMatched | DistinctShared] = [t for t in trees if t not in known]
        self.leaves: list[str] = [leaves[tree] for tree in self.trees]
        self.each: list[str] = [each[tree] for tree in self.trees]
        for index, tree in enumerate(self.trees):
            if isinstance(tree, DistinctShared):
                self.parts.append(
                    SqlPart(having(index), f"count({self.leaves[index]})", "", pair_type="BIGINT")
                )

    def text(self) -> str:
        """Return the whole statement."""
        ctes, pairs = self._bounded()
        if self._in_part:
            ctes, pairs = ctes | weighted(pairs, self.query.groups), "kept"
        ctes["sums"] = self._sums(pairs)
        for index, tree in enumerate(self.trees):
            if isinstance(tree, distinct.KINDS):
                units = self._bringing(index, tree, self._leaf_of_rows(index), f"(FROM {pairs} WHERE n > 1)")
                ones = self._bringing_one(index, tree, pairs)
                ctes[f"leaves{index}"] = distinct.counted(tree, self.keys, units, ones)
                continue
            first = self.firsts.get(index)
            of_units = self._leaves_of_rows(index, pairs if first else None)
            one = "1" if first is None or self.each[index] == "1" else each_of(first)
            ctes |= self._leaves(f"leaves{index}", tree, of_units, pairs, first, one)
        return f"WITH {written(ctes, self.combined)}\n{self._output()}"

    def rows_of(self, statistic: DistinctMatched) -> distinct.Rows:
        """Return queries of values and of the units that have them, for a query without keys."""
        kind, unit = (self.schema[name].type_name for name in (statistic.column, self.query.unit))
        # Chosen rows have the values that all statistics see, and no other: those are the key of the choice.
        if plain := self.query.total_rows is None and distinct.plain(kind):
            leaf = self.values.value(self.values.column(statistic.column), kind)
        else:
            leaf = self.values.value(statistic._place_sql(self.values), statistic.place_type)
        ctes, _ = self._bounded()
        del ctes["pairs"]  # they are not needed, and DuckDB would keep what is read twice
        # To read the units takes longer than to find a few values more, which no unit brings.
        all_rows = ctes if self.query.total_rows else ctes | {"input": self._input(everybody=True)}
        chosen = f"FROM near WHERE {leaf} IS NOT NULL"
        return distinct.Rows(
            f"WITH {written(all_rows, self.combined)}\nSELECT {leaf} AS leaf {chosen}",
            f"WITH {written(ctes, self.combined)}\n"
            f"SELECT {leaf} AS leaf, {value_hash('u', unit)} AS unit {chosen}",
            whole=plain and kind in INTEGERS,
        )

    @property
    def types(self) -> dict[str, set[str]]:
        """The types of the columns that statements compute, by name; of several tables there may be several.

        A test compares them with those that DuckDB binds, and computes that no value is beyond its type.
        """
        columns = {"u": self.query.unit, **{f"v:{name}": name for name in self._used}}
        columns |= dict(zip(self.keys, self.query.keys, strict=True))
        named = TYPES | {alias: self.schema[name].type_name for alias, name in columns.items()}
        found = {name: {kind} for name, kind in (named | self.values.types).items()}

        def add(name: str, *kinds: str) -> None:
            found.setdefault(name, set()).update(kinds)

        for part in self.parts:
            add(part.coordinate, *part.types)
        for index, tree in enumerate(self.trees):
            leaf, first = tree.place_type, f"first{index}"
            entries = f"STRUCT(leaf {leaf}, m BIGINT)", f"STRUCT(leaf {leaf}, weight {tree.weight_type})"
            add("leaf", leaf, *entries)
            add(first, leaf)
            add(each_of(first), "BIGINT")
            add("one", "BIGINT", "HUGEINT")
            add("weight", tree.weight_type, "HUGEINT")
            add(tree.names[0], *(f"{entry}[]" for entry in entries))
            if isinstance(tree, DistinctMatched):
                add("u", "UBIGINT")
                add(tree.names[0], "UBIGINT[][]", "STRUCT(sure BIGINT, sets UBIGINT[][])")
            elif isinstance(tree, DistinctShared):
                add(tree.names[0], "BIGINT")
            elif isinstance(tree, RowsInBins):
                add("bins", "HUGEINT[]")
                for name in tree.names:
                    add(name, "HUGEINT")
        return found

    @property
    def firsts(self) -> dict[int, str]:
        """Of trees: the column of pairs with a row's leaf, where pairs of one row need no sums by leaf.

        That is where one row of a unit counts, or a few values: most have no more in a group.
        """
        of_few = [isinstance(t, distinct.KINDS) or getattr(t, "rows", None) == 1 for t in self.trees]
        return {i: f"first{i}" for i, few in enumerate(of_few) if few}

    def _bounded(self) -> tuple[dict[str, str], str]:
        """Return the first expressions, with the rows that may count in `near`, and the name of the pairs."""
        return {"input": self._input()} | self._pairs(), "kept" if self._chosen else "pairs"

    @property
    def _pair_keys(self) -> str:
        return ", ".join(["u", *self.keys])

    @property
    def _columns(self) -> str:
        return "".join(f"{k}, " for k in self.keys)

    def _same_pair(self, left: str, right: str) -> str:
        return " AND ".join(f"{left}.{k} IS NOT DISTINCT FROM {right}.{k}" for k in ["u", *self.keys])

    @property
    def _chosen(self) -> bool:
        """Whether a unit can be in more groups than the limit, so that some are chosen."""
        public = self.query.public_keys
        most = public.num_rows if isinstance(public, pa.Table) else ALL_GROUPS
        limited = self.query.groups < most
        return bool(self.keys) and limited and not self._in_part and self.query.total_rows is None

    @property
    def _in_part(self) -> bool:
        """Whether a unit that is in more groups than the limit counts in part in each."""
        return self.query.scaled

    def _input(self, everybody: bool = False) -> str:
        unit = identifier(self.query.unit)
        if self.schema[self.query.unit].type_name in ("FLOAT", "DOUBLE", "VARCHAR"):
            unit = canonical(self.query.unit, self.schema)
        keys = [
            f"{canonical(k, self.schema)} AS {alias}"
            for k, alias in zip(self.query.keys, self.keys, strict=True)
        ]
        values = [f"{identifier(c)} AS {self.values.column(c)}" for c in sorted(self._used)]
        text = f"SELECT {', '.join([f'{unit} AS u', *keys, *values])} FROM ({self.rows})" + (
            "" if everybody else f" WHERE {identifier(self.query.unit)} IS NOT NULL"
        )
        return f"FROM {after(f'({text})', self.values.stages)}" if self.values.stages else text

    def _pairs(self) -> dict[str, str]:
        """What each unit has in each group that it is kept in."""
        if self.query.total_rows is not None:
            return {"given": self._in_groups} | self._pairs_of_rows("given")
        if self._chosen:
            return kept_pairs(
                "input",
                self.keys,
                self.query.groups,
                self.salt,
                self.values.named,
                self._aggregates,
                self._only,
                self.small,
            )
        return {"near": self._in_groups, "pairs": self._summed("near")}

    @property
    def _aggregates(self) -> list[tuple[str, str]]:
        """What a unit has in a group: expressions over values of its rows, and their names."""
        sums = [(p.pair, identifier(p.coordinate)) for p in self.parts if p.pair]
        for index, name in self.firsts.items():
            sums.append((f"min({self.leaves[index]})", name))
            if self.each[index] != "1":
                sums.append((f"min({self.each[index]})", each_of(name)))
        return sums

    @property
    def _only(self) -> str:
        """What leaves the rows of public groups alone, behind FROM."""
        # Not a table expression: DuckDB would keep all that is in it in memory.
        if self.query.public_keys is None:
            return ""
        return f" SEMI JOIN {PUBLIC_KEYS} ON ({self._match('input', PUBLIC_KEYS)})"

    @property
    def _in_groups(self) -> str:
        """Return the rows of the groups that there are, with their values."""
        computed = [f"{expression} AS {name}" for name, expression in self.values.named.items()]
        return f"SELECT {', '.join(['u', *self.keys, *computed])} FROM input{self._only}"

    def _summed(self, rows: str) -> str:
        """Return the sums of rows by unit and group."""
        sums = [f"{expression} AS {name}" for expression, name in self._aggregates]
        columns = ", ".join([self._pair_keys, "count(*) AS n", *sums])
        return f"SELECT {columns} FROM {rows} GROUP BY {self._pair_keys}"

    @property
    def _row_columns(self) -> list[str]:
        """All of a row that statistics see."""
        return ["u", *self.keys, *self.values.named]

    def _pairs_of_rows(self, rows: str) -> dict[str, str]:
        """What each unit has in each group, where its rows in all of them are limited."""
        limit = self.query.total_rows or 1
        return kept_rows(rows, self._row_columns, limit, self.salt) | {"pairs": self._summed("near")}

    def _sums(self, source: str) -> str:
        added = [f"{p.added} AS {identifier(p.coordinate)}" for p in self.parts if p.added]
        columns = ", ".join([*self.keys, *added]) or "count(*) AS nothing"
        grouping = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        stages = [stage for p in self.parts for stage in p.stages]
        return f"SELECT {columns} FROM {after(source, stages)}{grouping}"

    def _leaf_of_rows(self, index: int) -> str:
        """Return each row with its leaf, as `_leaves_of_rows` does with their number."""
        leaf = self.leaves[index]
        return f"SELECT {self._pair_keys}, {leaf} AS leaf, 1::BIGINT AS m FROM near WHERE {leaf} IS NOT NULL"

    def _bringing(self, index: int, s: distinct.Distinct, of_units: str, pairs: str) -> str:
        """Return what units bring to values of their groups; `of_units` are the rows of pairs by value."""
        keys = "".join(f"pair.{k}, " for k in self.keys)
        source = f"({of_units}) AS unit JOIN {pairs} AS pair ON ({self._same_pair('unit', 'pair')})"
        if isinstance(s, DistinctMatched):
            unit = value_hash("pair.u", self.schema[self.query.unit].type_name)
            return f"SELECT DISTINCT {keys}{unit} AS u, leaf FROM {source}"
        each = distinct.shares(s, f"pair.{having(index)}", self._in_part)
        return f"SELECT {keys}leaf, m * {each} AS one FROM {source}"

    def _bringing_one(self, index: int, s: distinct.Distinct, pairs: str) -> str:
        """Return what units with one row in a group bring: its value, or the part of it that they count."""
        one = f", {distinct.shares(s, '1', self._in_part)} AS one" if isinstance(s, DistinctShared) else ""
        first = self.firsts[index]
        return f"SELECT {self._columns}{first} AS leaf{one} FROM {pairs} WHERE n = 1 AND {first} IS NOT NULL"

    def _leaves_of_rows(self, index: int, pairs: str | None = None) -> str:
        """Add up what each unit's rows come to in each leaf of a group; of `pairs`, only of several rows."""
        leaf, several = self.leaves[index], ""
        each = self.each[index]
        summed = "count(*)" if each == "1" else f"CAST(sum({each}) AS BIGINT)"
        if pairs is not None:
            found = f"(SELECT {self._pair_keys} FROM {pairs} WHERE n > 1) AS several"
            several = f" SEMI JOIN {found} ON ({self._same_pair('near', 'several')})"
        return (
            f"SELECT {self._pair_keys}, {leaf} AS leaf, {summed} AS m FROM near{several} "
            f"WHERE {leaf} IS NOT NULL GROUP BY {self._pair_keys}, {leaf}"
        )

    def _leaves(
        self, name: str, tree: Counts, of_units: str, pairs: str, first: str | None = None, one: str = "1"
    ) -> dict[str, str]:
        """Leaves of a tree, weighted by what their unit counts in the group.

        `of_units` adds up rows of pairs by leaf; of all, or of those with several, where `first` is a column
        with the leaf of the others, which add `one`.
        """

        def weight(m: str) -> str:
            return self.values.scaled(f"({m}::HUGEINT * {1 << -tree.exponent})", tree.rows, tree.body)

        keys = "".join(f"pair.{k}, " for k in self.keys)
        weights = (
            f"SELECT {keys}leaf, {weight('m')} AS one FROM {name}_of_units AS unit "
            f"JOIN {pairs} AS pair ON ({self._same_pair('unit', 'pair')})"
        )
        if first is not None:
            weights += (
                f" UNION ALL SELECT {keys}{first} AS leaf, {weight(one)} AS one FROM {pairs} AS pair "
                f"WHERE n = 1 AND {first} IS NOT NULL"
            )
        return {
            f"{name}_of_units": of_units,
            f"{name}_of_groups": (
                f"SELECT {self._columns}leaf, CAST(sum(one) AS {tree.weight_type}) AS weight "
                f"FROM ({weights}) GROUP BY ALL"
            ),
            name: self._listed(tree, f"{name}_of_groups"),
        }

    def _listed(self, tree: Counts, leaves: str) -> str:
        """Sort leaves, which differ in a group: faster than an aggregate that orders what comes in."""
        grouping = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return (
            f"SELECT {self._columns}list_sort(list({{'leaf': leaf, 'weight': weight}})) "
            f"AS {identifier(tree.names[0])} FROM {leaves}{grouping}"
        )

    def _spread(self, s: RowsInBins, leaves: str) -> str:
        """Return the weight of every bin of a group, in order; zeros are added so that none is left out."""
        grouping = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        found = f"SELECT {self._columns}unnest({identifier(s.names[0])}, recursive := true) FROM {leaves}"
        none = (
            f"SELECT {self._columns}unnest(range({s.bins.count})) AS leaf, 0::HUGEINT AS weight FROM {leaves}"
        )
        added = (
            f"SELECT {self._columns}leaf, sum(weight) AS weight FROM ({found} UNION ALL BY NAME {none}) "
            "GROUP BY ALL"
        )
        return f"SELECT {self._columns}list(weight {order_by(['leaf'])}) AS bins FROM ({added}){grouping}"

    def _output(self) -> str:
        base = PUBLIC_KEYS if self.query.public_keys is not None else "sums"
        columns = [
            f"{base}.{alias} AS {identifier(key)}"
            for key, alias in zip(self.query.keys, self.keys, strict=True)
        ]
        joins = "" if base == "sums" else f" LEFT JOIN sums ON ({self._match(base, 'sums')})"
        by_value = {name: index for index, tree in enumerate(self.trees) for name in tree.names}
        for number, tree in enumerate(self.trees):
            leaves = f"leaves{number}"
            found = f"({self._spread(tree, leaves)}) AS {leaves}" if isinstance(tree, RowsInBins) else leaves
            joins += f" LEFT JOIN {found} ON ({self._match(base, leaves)})"
        source = base if self.query.largest is None else f"({self._largest('sums')}) AS sums"
        nothing = {p.coordinate: p.nothing for p in self.parts}
        for s in sorted(self.query.statistics, key=lambda s: s.listed):
            for place, coordinate in enumerate(s.names):
                name, index = identifier(coordinate), by_value.get(coordinate)
                if index is None:
                    columns.append(f"coalesce(sums.{name}, {nothing[coordinate]}) AS {name}")
                    continue
                if isinstance(s, RowsInBins):
                    columns.append(f"coalesce(leaves{index}.bins[{place + 1}], 0::HUGEINT) AS {name}")
                    continue
                none = distinct.nothing(s) if isinstance(s, distinct.KINDS) else "[]"
                columns.append(f"coalesce(leaves{index}.{name}, {none}) AS {name}")
        order = f" {order_by([f'{base}.{k}' for k in self.keys])}" if self.keys else ""
        return f"SELECT {', '.join(columns)} FROM {source}{joins}{order}"

    def _largest(self, sums: str) -> str:
        """Return the sums of the largest groups; of those with equal numbers, the first by key."""
        (part,) = self.parts
        number = f"coalesce({identifier(part.coordinate)}, {part.nothing})"
        return f"FROM {sums} {order_by(self.keys, [f'{number} DESC'])} LIMIT {self.query.largest}"

    def _match(self, left: str, right: str) -> str:
        return " AND ".join(f"{left}.{k} IS NOT DISTINCT FROM {right}.{k}" for k in self.keys) or "true"


def each_of(first: str) -> str:
    """Return the name of what the one row of a pair adds, whose leaf is the column `first`."""
    return f"{first}each"


def having(index: int) -> str:
    """Return the name of how many rows of a pair have a value, for the tree with a number."""
    return f"having{index}"


def written(ctes: Mapping[str, str], dear: bool = False) -> str:
    """Write common table expressions in their order; `dear` says that rows cost much to make."""
    # A CTE that is read twice is kept by DuckDB; rows of a file are cheaper to read twice.
    once = {} if dear else {"input": "NOT MATERIALIZED"}
    return ",\n".join(f"{name} AS {once.get(name, '')} (\n{body}\n)" for name, body in ctes.items())
