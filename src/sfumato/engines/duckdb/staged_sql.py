"""The SQL of an exact query in stages, for engines that move data between machines.

Rows give partial sums by unit and group; partial sums of whole units give bounded totals by group; totals
of whole groups give the answer. What is computed before the limits are applied is sums, so it may be
computed in parts and added up; and a group that is among the first of a unit's groups is among the first
of those in each part, so a part may forget the others. Where rows of all groups of a unit are limited, they
are chosen before anything is added up: the first stage then gives the rows themselves, equal ones once, with
their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sfumato.engines.duckdb import distinct
from sfumato.engines.duckdb.exact_sql import Counts, ExactSql, written
from sfumato.engines.duckdb.group_limit import first_pairs
from sfumato.engines.duckdb.row_limit import counted_rows, joined_counts, written_out
from sfumato.engines.duckdb.scaled import weighted
from sfumato.engines.duckdb.text import identifier

PARTIALS, TOTALS = "partials", "totals"


class StagedSql(ExactSql):
    """Writes each stage of one exact query. The tables `partials` and `totals` hold what came in."""

    @property
    def firsts(self) -> dict[int, str]:
        """None: a pair's rows are in several parts."""
        return {}

    @property
    def partial_order(self) -> list[str]:
        """Terms of an order of the first stage's rows, no two of which are equal, however they came."""
        return _texts(["u", *self.keys] if self.query.total_rows is None else self._row_columns)

    @property
    def total_order(self) -> list[str]:
        """The same of the second stage's rows."""
        return _texts(self.keys)

    def partials(self, shards: int) -> str:
        """Return the first stage, from any part of the rows: shard of the unit, u, keys, n and sums."""
        if self.query.total_rows is not None:
            ctes = {
                "input": self._input(),
                "counted": counted_rows(f"({self._in_groups})", self._row_columns),
            }
            return self._sent(ctes, _shard(["u"], shards))
        ctes, pairs = self._bounded()
        for index, tree in enumerate(self.trees):
            ctes[f"leaves{index}"] = self._listed_by_pair(tree, self._leaves_of_rows(index))
        return self._gathered(ctes, _shard(["u"], shards), pairs, self._same_pair)

    def joined_partials(self) -> str:
        """Return partial sums of one shard from several: in the first stage's columns, but fewer rows."""
        shard = f"(SELECT min(shard) FROM {PARTIALS})"
        if self.query.total_rows is not None:
            return self._sent({"counted": joined_counts(PARTIALS, self._row_columns)}, shard)
        ctes = self._joined_pairs()
        pairs = list(ctes)[-1]
        for index, tree in enumerate(self.trees):
            ctes[f"leaves{index}"] = self._listed_by_pair(tree, self._joined_leaves(tree))
        return self._gathered(ctes, shard, pairs, self._same_pair)

    def totals(self, shards: int) -> str:
        """Return the second stage, from all partial sums of some units: shard of the group, keys, totals."""
        by_rows = self.query.total_rows is not None
        if by_rows:
            ctes = {"given": written_out(joined_counts(PARTIALS, self._row_columns), self._row_columns)}
            ctes |= self._pairs_of_rows("given")
        else:
            ctes = self._joined_pairs()
        if self._in_part:
            ctes |= weighted("pairs", self.query.groups)
        pairs = list(ctes)[-1]
        ctes["sums"] = self._sums(pairs)
        for index, tree in enumerate(self.trees):
            of_units = self._leaves_of_rows(index) if by_rows else self._joined_leaves(tree)
            if isinstance(tree, distinct.KINDS):
                units = self._bringing(index, tree, of_units, pairs)
                ctes[f"leaves{index}"] = distinct.brought(tree, self.keys, units)
                continue
            ctes |= self._leaves(f"leaves{index}", tree, of_units, pairs)
        return self._gathered(ctes, _shard(self.keys, shards), "sums", self._match)

    def joined_totals(self) -> str:
        """Return totals of one shard of groups from several: in the second stage's columns."""
        # Without keys there is one row, of one shard, also of no parts at all.
        shard = f"(SELECT min(shard) FROM {TOTALS})" if self.keys else "0"
        return self._gathered(self._joined_totals(distinct.joined), shard, "sums", self._match)

    def collected(self) -> str:
        """Return what goes on of all totals of some groups: these, added up, of the largest groups alone
        where the question is of those."""
        if self.query.largest is None:
            return self.joined_totals()
        ctes = self._joined_totals(distinct.joined)
        ctes["largest"] = self._largest("sums")
        return self._gathered(ctes, f"(SELECT min(shard) FROM {TOTALS})", "largest", self._match)

    def merged(self) -> str:
        """Return the last stage, from all totals of some groups, and their public keys: the answer."""
        return f"WITH {written(self._joined_totals(distinct.counted_of_lists))}\n{self._output()}"

    def _gathered(
        self, ctes: Mapping[str, str], shard: str, sums: str, match: Callable[[str, str], str]
    ) -> str:
        """Put the shard before the sums and the leaves of each tree behind them; `match` joins the tables."""
        columns, joins = [f"{shard} AS shard", "base.*"], ""
        for index, tree in enumerate(self.trees):
            columns.append(f"leaves{index}.{identifier(tree.names[0])}")
            joins += f" LEFT JOIN leaves{index} ON ({match('base', f'leaves{index}')})"
        return f"WITH {written(ctes)}\nSELECT {', '.join(columns)} FROM {sums} AS base{joins}"

    def _sent(self, ctes: Mapping[str, str], shard: str) -> str:
        """Put the shard before rows and their number."""
        columns = ", ".join([*(f"base.{name}" for name in self._row_columns), "n"])
        return f"WITH {written(ctes)}\nSELECT {shard} AS shard, {columns} FROM counted AS base"

    def _listed_by_pair(self, tree: Counts | distinct.Distinct, leaves: str) -> str:
        listed = f"list_sort(list({{'leaf': leaf, 'm': m}})) AS {identifier(tree.names[0])}"
        return f"SELECT {self._pair_keys}, {listed} FROM ({leaves}) GROUP BY {self._pair_keys}"

    def _joined_pairs(self) -> dict[str, str]:
        """Add up partial sums, and choose among groups of a unit where that is done; the last holds them."""
        sums = [f"{p.joined} AS {identifier(p.coordinate)}" for p in self.parts if p.pair]
        summed = ", ".join([self._pair_keys, "CAST(sum(n) AS BIGINT) AS n", *sums])
        ctes = {"pairs": f"SELECT {summed} FROM {PARTIALS} GROUP BY {self._pair_keys}"}
        if self._chosen:
            ctes |= first_pairs("pairs", self.keys, self.query.groups, self.salt, self.small)
        return ctes

    def _joined_leaves(self, tree: Counts | distinct.Distinct) -> str:
        return (
            f"SELECT {self._pair_keys}, leaf.leaf AS leaf, CAST(sum(leaf.m) AS BIGINT) AS m FROM "
            f"(SELECT {self._pair_keys}, unnest({identifier(tree.names[0])}) AS leaf FROM {PARTIALS}) "
            "GROUP BY ALL"
        )

    def _joined_totals(
        self, of_distinct: Callable[[distinct.Distinct, Sequence[str], str], str]
    ) -> dict[str, str]:
        """Add up totals; numbers of different values as they are to be."""
        sums = [f"{p.joined} AS {identifier(p.coordinate)}" for p in self.parts if p.added]
        grouping = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        columns = ", ".join([*self.keys, *sums]) or "count(*) AS nothing"
        ctes = {"sums": f"SELECT {columns} FROM {TOTALS}{grouping}"}
        for index, tree in enumerate(self.trees):
            if isinstance(tree, distinct.KINDS):
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


def _texts(columns: Sequence[str]) -> list[str]:
    return [f"CAST({column} AS VARCHAR)" for column in columns]


def _shard(columns: Sequence[str], shards: int) -> str:
    return f"CAST(hash({', '.join(f'base.{c}' for c in columns)}) % {shards} AS INTEGER)" if columns else "0"
