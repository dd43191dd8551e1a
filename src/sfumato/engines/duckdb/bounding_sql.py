"""The SQL of an exact query: bound each unit, then add up per group, in three stages.

    rows --partials--> sums by unit and group --totals--> bounded totals by group --merged--> the answer

On one machine all stages are one statement. On several, shuffles lie between the stages: partial sums of
whole units meet, then totals of whole groups. What is computed before the limits are applied is sums, so it
may be computed in parts and added up; and a group that is among the first of a unit's groups is among the
first of those in each part, so a part may forget the others. Where rows of all groups of a unit are limited,
they are chosen before anything is added up: the first stage then gives the rows themselves, equal ones once,
with their number.

It computes what `transformations.bound_groups >> per_group` define, or `scale_groups`, `share_groups` or
`bound_total_rows` in the place of the first, in exact integers; the tests hold it to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sfumato.engines.duckdb import distinct_values
from sfumato.engines.duckdb.contribution_limits import (
    counted_rows,
    first_pairs,
    joined_counts,
    limit_groups,
    limit_rows,
    weight_units,
    written_out,
)
from sfumato.engines.duckdb.ordering import canonical, order_by
from sfumato.engines.duckdb.row_steps import apply_steps
from sfumato.query import sizes
from sfumato.query.engine_protocol import ALL_GROUPS, ExactQuery
from sfumato.query.schema import INTEGERS, Column
from sfumato.sql_text import identifier
from sfumato.transformations import DistinctMatched, DistinctShared, Leaves, QuantileTree, RowsInBins
from sfumato.transformations.row_sql import RowSql, SqlPart, after, value_hash

PUBLIC_KEYS = "public_keys"
# What came in from the stage before, on several machines.
PARTIALS, TOTALS = "partials", "totals"
# What is counted by value first: in trees each value has a leaf, distinct ones a hash, and in bins a place.
Counts = QuantileTree | Leaves | RowsInBins


class BoundingSql:
    """Writes the SQL that bounds contributions and sums them by group; on several machines, of each stage.

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
        staged: whether rows of a unit in a group may be in several parts, which are added up later.
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
        staged: bool = False,
    ) -> None:
        self.combined = combined
        self.staged = staged
        self.small: bool = rows is not None and rows < sizes.FEW_ROWS
        left = replace(query, statistics=tuple(s for s in query.statistics if s not in known))
        if query.total_rows is None:
            query = left
        self.schema = schema
        self.salt = salt
        self._used: set[str] = {column for s in query.statistics for column in s.columns}
        self.rows: str = apply_steps(relation, query.steps, columns)
        self.keys: list[str] = [f"k{i}" for i in range(len(query.keys))]
        types = {name: column.type_name for name, column in schema.items()}
        weighted = query.scaled or query.shared
        self.values: RowSql = RowSql(types, weighted, sizes.BIGINT_ROOM, sizes.LISTED_BINS)
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
        """Return the bounding SQL of all stages as one statement."""
        ctes, pairs = self._bound_rows()
        ctes |= self._totals(pairs, self._leaves_of_rows)
        return f"WITH {write_tables(ctes, self.combined)}\n{self._output()}"

    def partials(self, shards: int) -> str:
        """Return bounding SQL of the first stage: partial sums by unit and group, with the unit's shard."""
        shard = _shard(["u"], shards)
        if self.query.total_rows is not None:
            rows = counted_rows(f"({self._in_groups})", self._row_columns)
            return self._sent({"input": self._input(), "counted": rows}, shard, "counted")
        ctes, pairs = self._bound_rows()
        return self._sent(ctes | self._listed_by_pair(self._leaves_of_rows), shard, pairs, self._same_pair)

    def joined_partials(self) -> str:
        """Return bounding SQL that adds up partial sums of one shard into fewer rows."""
        shard = f"(SELECT min(shard) FROM {PARTIALS})"
        if self.query.total_rows is not None:
            return self._sent({"counted": joined_counts(PARTIALS, self._row_columns)}, shard, "counted")
        ctes = self._joined_pairs()
        lists = self._listed_by_pair(self._join_leaves)
        return self._sent(ctes | lists, shard, list(ctes)[-1], self._same_pair)

    def totals(self, shards: int) -> str:
        """Return bounding SQL of the second stage: bounded totals by group, with the group's shard."""
        if self.query.total_rows is not None:
            ctes = {"given": written_out(joined_counts(PARTIALS, self._row_columns), self._row_columns)}
            ctes |= self._pairs_of_rows("given")
            ctes |= self._totals(list(ctes)[-1], self._leaves_of_rows)
        else:
            ctes = self._joined_pairs()
            ctes |= self._totals(list(ctes)[-1], self._join_leaves)
        return self._sent(ctes, _shard(self.keys, shards), "sums", self._match)

    def joined_totals(self) -> str:
        """Return bounding SQL that adds up totals of one shard of groups."""
        # Without keys there is one row, of one shard, also of no parts at all.
        shard = f"(SELECT min(shard) FROM {TOTALS})" if self.keys else "0"
        return self._sent(self._joined_totals(distinct_values.join_lists), shard, "sums", self._match)

    def collected(self) -> str:
        """Return bounding SQL of what a shard of groups sends on: its totals, or those of its largest groups,
        where the question is of those."""
        if self.query.largest is None:
            return self.joined_totals()
        ctes = self._joined_totals(distinct_values.join_lists)
        ctes["largest"] = self._largest("sums")
        return self._sent(ctes, f"(SELECT min(shard) FROM {TOTALS})", "largest", self._match)

    def merged(self) -> str:
        """Return bounding SQL of the last stage: the exact statistics of all groups, public keys too."""
        return f"WITH {write_tables(self._joined_totals(distinct_values.counted_of_lists))}\n{self._output()}"

    @property
    def partial_order(self) -> list[str]:
        """Terms of a total order of the first stage's rows in the bounding SQL."""
        return _texts(["u", *self.keys] if self.query.total_rows is None else self._row_columns)

    @property
    def total_order(self) -> list[str]:
        """Terms of a total order of the second stage's rows in the bounding SQL."""
        return _texts(self.keys)

    def distinct_rows(self, statistic: DistinctMatched) -> distinct_values.Rows:
        """Return SQL queries of distinct values and of the units that have them, without group keys."""
        kind, unit = (self.schema[name].type_name for name in (statistic.column, self.query.unit))
        # Chosen rows have the values that all statistics see, and no other: those are the key of the choice.
        if plain := self.query.total_rows is None and distinct_values.plain(kind):
            leaf = self.values.value(self.values.column(statistic.column), kind)
        else:
            leaf = self.values.value(statistic._place_sql(self.values), statistic.place_type)
        ctes, _ = self._bound_rows()
        del ctes["pairs"]  # they are not needed, and DuckDB would keep what is read twice
        # To read the units takes longer than to find a few values more, which no unit brings.
        all_rows = ctes if self.query.total_rows else ctes | {"input": self._input(everybody=True)}
        chosen = f"FROM near WHERE {leaf} IS NOT NULL"
        return distinct_values.Rows(
            f"WITH {write_tables(all_rows, self.combined)}\nSELECT {leaf} AS leaf {chosen}",
            f"WITH {write_tables(ctes, self.combined)}\n"
            f"SELECT {leaf} AS leaf, {value_hash('u', unit)} AS unit {chosen}",
            whole=plain and kind in INTEGERS,
        )

    @property
    def firsts(self) -> dict[int, str]:
        """For each tree: the column of unit-group pairs with the leaf of their only row.

        That is where one row of a unit counts, or a few values: most have no more in a group. None where a
        pair's rows are in several parts.
        """
        if self.staged:
            return {}
        of_few = [isinstance(t, distinct_values.KINDS) or getattr(t, "rows", None) == 1 for t in self.trees]
        return {i: f"first{i}" for i, few in enumerate(of_few) if few}

    def _bound_rows(self) -> tuple[dict[str, str], str]:
        """Return table expressions of the bounded rows, `near`, and the name of the unit-group pairs."""
        return {"input": self._input()} | self._pairs(), "kept" if self._chosen else "pairs"

    @property
    def _pair_keys(self) -> str:
        return ", ".join(["u", *self.keys])

    @property
    def _columns(self) -> str:
        return "".join(f"{k}, " for k in self.keys)

    def _same_pair(self, left: str, right: str) -> str:
        return _same(["u", *self.keys], left, right)

    @property
    def _chosen(self) -> bool:
        """Whether the bounding SQL chooses among groups of a unit that is in more than the limit."""
        public = self.query.public_keys
        most = public.num_rows if isinstance(public, pa.Table) else ALL_GROUPS
        limited = self.query.groups < most
        return bool(self.keys) and limited and not self.query.scaled and self.query.total_rows is None

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
        """Return table expressions of the unit-group pairs that the group limit keeps."""
        if self.query.total_rows is not None:
            return {"given": self._in_groups} | self._pairs_of_rows("given")
        if self._chosen:
            return limit_groups(
                "input",
                self.keys,
                self.query.groups,
                self.salt,
                self.values.named,
                self._aggregates,
                self._only,
                self.small,
            )
        return {"near": self._in_groups, "pairs": self._sum_rows("near")}

    @property
    def _aggregates(self) -> list[tuple[str, str]]:
        """Return aggregates of a unit's rows in a group: SQL expressions and their names."""
        sums = [(p.pair, identifier(p.coordinate)) for p in self.parts if p.pair]
        for index, name in self.firsts.items():
            sums.append((f"min({self.leaves[index]})", name))
            if self.each[index] != "1":
                sums.append((f"min({self.each[index]})", contribution_column(name)))
        return sums

    @property
    def _only(self) -> str:
        """Return the SEMI JOIN that keeps rows of public groups in the bounding SQL."""
        # Not a table expression: DuckDB would keep all that is in it in memory.
        if self.query.public_keys is None:
            return ""
        return f" SEMI JOIN {PUBLIC_KEYS} ON ({self._match('input', PUBLIC_KEYS)})"

    @property
    def _in_groups(self) -> str:
        """Return a SELECT of the rows of public groups, with their computed values."""
        computed = [f"{expression} AS {name}" for name, expression in self.values.named.items()]
        return f"SELECT {', '.join(['u', *self.keys, *computed])} FROM input{self._only}"

    def _sum_rows(self, rows: str) -> str:
        """Return a SELECT of sums of rows by unit and group, before bounding."""
        sums = [f"{expression} AS {name}" for expression, name in self._aggregates]
        columns = ", ".join([self._pair_keys, "count(*) AS n", *sums])
        return f"SELECT {columns} FROM {rows} GROUP BY {self._pair_keys}"

    @property
    def _row_columns(self) -> list[str]:
        """All columns of a row that statistics can see, by which a row limit chooses."""
        return ["u", *self.keys, *self.values.named]

    def _pairs_of_rows(self, rows: str) -> dict[str, str]:
        """Return table expressions of unit-group pairs under a limit of rows in all groups."""
        limit = self.query.total_rows or 1
        return limit_rows(rows, self._row_columns, limit, self.salt) | {"pairs": self._sum_rows("near")}

    def _totals(self, pairs: str, leaves: Callable[[int], str]) -> dict[str, str]:
        """Return table expressions of bounded totals by group, weighted where contributions are scaled."""
        ctes: dict[str, str] = {}
        if self.query.scaled or self.query.shared:
            ctes |= weight_units(pairs, self.query.groups if self.query.scaled else None)
            pairs = "weighted"
        ctes["sums"] = self._sums(pairs)
        for index in range(len(self.trees)):
            ctes |= self._by_value(index, leaves, pairs)
        return ctes

    def _sums(self, source: str) -> str:
        added = [f"{p.added} AS {identifier(p.coordinate)}" for p in self.parts if p.added]
        return self._by_group(added, after(source, [stage for p in self.parts for stage in p.stages]))

    def _by_group(self, sums: Sequence[str], source: str) -> str:
        columns = ", ".join([*self.keys, *sums]) or "count(*) AS nothing"
        return f"SELECT {columns} FROM {source}{self._grouping}"

    @property
    def _grouping(self) -> str:
        return f" GROUP BY {', '.join(self.keys)}" if self.keys else ""

    def _leaf_of_rows(self, index: int) -> str:
        """Return a SELECT of each bounded row with its leaf of a tree."""
        leaf = self.leaves[index]
        return f"SELECT {self._pair_keys}, {leaf} AS leaf, 1::BIGINT AS m FROM near WHERE {leaf} IS NOT NULL"

    def _bringing(self, index: int, s: distinct_values.Distinct, of_units: str, pairs: str) -> str:
        """Return a SELECT of the distinct values that units of several rows contribute to groups."""
        keys = "".join(f"pair.{k}, " for k in self.keys)
        source = f"({of_units}) AS unit JOIN {pairs} AS pair ON ({self._same_pair('unit', 'pair')})"
        if isinstance(s, DistinctMatched):
            unit = value_hash("pair.u", self.schema[self.query.unit].type_name)
            return f"SELECT DISTINCT {keys}{unit} AS u, leaf FROM {source}"
        each = distinct_values.shares(s, f"pair.{having(index)}", self.query.scaled)
        return f"SELECT {keys}leaf, m * {each} AS one FROM {source}"

    def _bringing_one(self, index: int, s: distinct_values.Distinct, pairs: str) -> str:
        """Return a SELECT of the distinct values that units of one row contribute to groups."""
        one = (
            f", {distinct_values.shares(s, '1', self.query.scaled)} AS one"
            if isinstance(s, DistinctShared)
            else ""
        )
        first = self.firsts[index]
        return f"SELECT {self._columns}{first} AS leaf{one} FROM {pairs} WHERE n = 1 AND {first} IS NOT NULL"

    def _leaves_of_rows(self, index: int, pairs: str | None = None) -> str:
        """Return a SELECT of each unit's rows counted by leaf of a tree in a group."""
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

    def _by_value(self, index: int, leaves: Callable[[int], str], pairs: str) -> dict[str, str]:
        """Return table expressions of bounded counts by value; the last is `leaves` and the index.

        `leaves` adds up rows of pairs by leaf; where a column of pairs has the leaf of those with one row, it
        is of the others alone.
        """
        tree, name, first = self.trees[index], f"leaves{index}", self.firsts.get(index)
        if isinstance(tree, distinct_values.KINDS):
            if self.staged:
                units = self._bringing(index, tree, leaves(index), pairs)
                return {name: distinct_values.brought(tree, self.keys, units)}
            units = self._bringing(index, tree, self._leaf_of_rows(index), f"(FROM {pairs} WHERE n > 1)")
            ones = self._bringing_one(index, tree, pairs)
            return {name: distinct_values.count_values(tree, self.keys, units, ones)}

        def weight(m: str) -> str:
            return self.values.scaled(f"({m}::HUGEINT * {1 << -tree.exponent})", tree.rows, tree.body)

        keys = "".join(f"pair.{k}, " for k in self.keys)
        weights = (
            f"SELECT {keys}leaf, {weight('m')} AS one FROM {name}_of_units AS unit "
            f"JOIN {pairs} AS pair ON ({self._same_pair('unit', 'pair')})"
        )
        if first is not None:
            one = "1" if self.each[index] == "1" else contribution_column(first)
            weights += (
                f" UNION ALL SELECT {keys}{first} AS leaf, {weight(one)} AS one FROM {pairs} AS pair "
                f"WHERE n = 1 AND {first} IS NOT NULL"
            )
        return {
            f"{name}_of_units": leaves(index) if first is None else self._leaves_of_rows(index, pairs),
            f"{name}_of_groups": (
                f"SELECT {self._columns}leaf, CAST(sum(one) AS {tree.weight_type}) AS weight "
                f"FROM ({weights}) GROUP BY ALL"
            ),
            name: self._listed(tree, f"{name}_of_groups"),
        }

    def _listed(self, tree: Counts, leaves: str) -> str:
        """Return a SELECT of each group's leaves and weights as a sorted list."""
        return (
            f"SELECT {self._columns}list_sort(list({{'leaf': leaf, 'weight': weight}})) "
            f"AS {identifier(tree.names[0])} FROM {leaves}{self._grouping}"
        )

    def _spread(self, s: RowsInBins, leaves: str) -> str:
        """Return a SELECT of the bounded weight of every bin of a group, zeros included."""
        found = f"SELECT {self._columns}unnest({identifier(s.names[0])}, recursive := true) FROM {leaves}"
        none = (
            f"SELECT {self._columns}unnest(range({s.bins.count})) AS leaf, 0::HUGEINT AS weight FROM {leaves}"
        )
        added = (
            f"SELECT {self._columns}leaf, sum(weight) AS weight FROM ({found} UNION ALL BY NAME {none}) "
            "GROUP BY ALL"
        )
        return (
            f"SELECT {self._columns}list(weight {order_by(['leaf'])}) AS bins FROM ({added}){self._grouping}"
        )

    def _sent(
        self, ctes: Mapping[str, str], shard: str, sums: str, match: Callable[[str, str], str] | None = None
    ) -> str:
        """Return the SELECT of a stage's rows to be sent: shard, sums, and the leaves of each tree."""
        columns, joins = [f"{shard} AS shard", "base.*"], ""
        for index, tree in enumerate(self.trees):
            if match is not None:
                columns.append(f"leaves{index}.{identifier(tree.names[0])}")
                joins += f" LEFT JOIN leaves{index} ON ({match('base', f'leaves{index}')})"
        return f"WITH {write_tables(ctes)}\nSELECT {', '.join(columns)} FROM {sums} AS base{joins}"

    def _listed_by_pair(self, leaves: Callable[[int], str]) -> dict[str, str]:
        """Return table expressions of leaves as a sorted list for each unit-group pair."""
        return {
            f"leaves{index}": (
                f"SELECT {self._pair_keys}, list_sort(list({{'leaf': leaf, 'm': m}})) "
                f"AS {identifier(tree.names[0])} FROM ({leaves(index)}) GROUP BY {self._pair_keys}"
            )
            for index, tree in enumerate(self.trees)
        }

    def _joined_pairs(self) -> dict[str, str]:
        """Return table expressions that add up partial sums by unit and group, and apply the group limit."""
        sums = [f"{p.joined} AS {identifier(p.coordinate)}" for p in self.parts if p.pair]
        summed = ", ".join([self._pair_keys, "CAST(sum(n) AS BIGINT) AS n", *sums])
        ctes = {"pairs": f"SELECT {summed} FROM {PARTIALS} GROUP BY {self._pair_keys}"}
        if self._chosen:
            ctes |= first_pairs("pairs", self.keys, self.query.groups, self.salt, self.small)
        return ctes

    def _join_leaves(self, index: int) -> str:
        name = identifier(self.trees[index].names[0])
        return (
            f"SELECT {self._pair_keys}, leaf.leaf AS leaf, CAST(sum(leaf.m) AS BIGINT) AS m FROM "
            f"(SELECT {self._pair_keys}, unnest({name}) AS leaf FROM {PARTIALS}) GROUP BY ALL"
        )

    def _joined_totals(
        self, of_distinct: Callable[[distinct_values.Distinct, Sequence[str], str], str]
    ) -> dict[str, str]:
        """Return table expressions that add up bounded totals of groups from several stages."""
        sums = [f"{p.joined} AS {identifier(p.coordinate)}" for p in self.parts if p.added]
        ctes = {"sums": self._by_group(sums, TOTALS)}
        for index, tree in enumerate(self.trees):
            if isinstance(tree, distinct_values.KINDS):
                ctes[f"leaves{index}"] = of_distinct(tree, self.keys, TOTALS)
                continue
            column = identifier(tree.names[0])
            weight = f"CAST(sum(leaf.weight) AS {tree.weight_type}) AS weight"
            leaves = (
                f"SELECT {self._columns}leaf.leaf AS leaf, {weight} FROM "
                f"(SELECT {self._columns}unnest({column}) AS leaf FROM {TOTALS}) GROUP BY ALL"
            )
            ctes[f"leaves{index}"] = self._listed(tree, f"({leaves})")
        return ctes

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
                none = distinct_values.nothing(s) if isinstance(s, distinct_values.KINDS) else "[]"
                columns.append(f"coalesce(leaves{index}.{name}, {none}) AS {name}")
        order = f" {order_by([f'{base}.{k}' for k in self.keys])}" if self.keys else ""
        return f"SELECT {', '.join(columns)} FROM {source}{joins}{order}"

    def _largest(self, sums: str) -> str:
        """Return the SELECT of the largest groups' sums; equal numbers go by key."""
        (part,) = self.parts
        number = f"coalesce({identifier(part.coordinate)}, {part.nothing})"
        return f"FROM {sums} {order_by(self.keys, [f'{number} DESC'])} LIMIT {self.query.largest}"

    def _match(self, left: str, right: str) -> str:
        return _same(self.keys, left, right)


def contribution_column(first: str) -> str:
    """Return the column name of what a unit's only row adds, beside the leaf column `first`."""
    return f"{first}each"


def having(index: int) -> str:
    """Return the column name of how many rows of a unit-group pair have a value, for a tree."""
    return f"having{index}"


def write_tables(ctes: Mapping[str, str], is_costly: bool = False) -> str:
    """Write common table expressions of bounding SQL in order; `is_costly` is of rows to make."""
    # A CTE that is read twice is kept by DuckDB; rows of a file are cheaper to read twice.
    once = {} if is_costly else {"input": "NOT MATERIALIZED"}
    return ",\n".join(f"{name} AS {once.get(name, '')} (\n{body}\n)" for name, body in ctes.items())


def _same(columns: Sequence[str], left: str, right: str) -> str:
    return " AND ".join(f"{left}.{c} IS NOT DISTINCT FROM {right}.{c}" for c in columns) or "true"


def _texts(columns: Sequence[str]) -> list[str]:
    return [f"CAST({column} AS VARCHAR)" for column in columns]


def _shard(columns: Sequence[str], shards: int) -> str:
    return f"CAST(hash({', '.join(f'base.{c}' for c in columns)}) % {shards} AS INTEGER)" if columns else "0"
