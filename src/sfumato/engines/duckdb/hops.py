"""Foreign keys where rows are on many machines: a shuffle by the key, before the one by the unit.

    the owners' table --> (shard of the key, each key and unit once) --+
                                                                       +--> rows of units
    rows of nobody -----> (shard of the key, rows as they are) --------+

What comes of it goes on as rows of any private table do; or it has the keys of the next table of a chain. A
key is sent as the bits by which it is compared, and the two are joined by the SQL of one machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.combined import reached_rows
from sfumato.engines.duckdb.compared import compared
from sfumato.engines.duckdb.text import identifier
from sfumato.query.schema import Schema

# Types of which values that are equal are the same bits.
_PLAIN = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|BOOLEAN|VARCHAR|BLOB|DATE|TIMESTAMP.*")


@dataclass(frozen=True)
class Hop:
    """One foreign key that is followed, from a table with units to one without.

    Args:
        owners, rows, gives: numbers of tables: the one that has units, the one that has none, and the one
            that comes of both.
        key, unit: columns of the owners.
        column: the foreign key.
        named: the column of the units in what comes of it, which may be that of the foreign key.
        there, here: the columns of owners and rows, as far as they are compared.
    """

    owners: int
    rows: int
    gives: int
    key: str
    unit: str
    column: str
    named: str
    there: Schema
    here: Schema

    @property
    def sent(self) -> dict[str, str]:
        """What is sent of the owners: columns, with DuckDB's types."""
        return {name: self.there[name].type_name for name in dict.fromkeys((self.key, self.unit))}

    def kept(self, columns: Sequence[str]) -> list[str]:
        """Return those of some columns of what comes of it that the rows have, and not the owners."""
        return [name for name in columns if name.casefold() != self.named.casefold()]

    def owners_sent(self, relation: str, shards: int) -> str:
        """Return what is sent of the owners' rows: the shard of a key, and each key and unit once."""
        values = [f"{compared(name, self.there)} AS c{i}" for i, name in enumerate(self.sent)]
        return (
            f"SELECT DISTINCT {_shard(self.key, self.there, shards)}, {', '.join(values)} FROM {relation} "
            f"WHERE {identifier(self.key)} IS NOT NULL AND {identifier(self.unit)} IS NOT NULL"
        )

    def rows_sent(self, relation: str, columns: Sequence[str], shards: int) -> str:
        """Return what is sent of the rows: the shard of a key, and some columns. Those of no key stay."""
        values = [f"{identifier(name)} AS c{i}" for i, name in enumerate(columns)]
        return (
            f"SELECT {_shard(self.column, self.here, shards)}, {', '.join(values)} FROM {relation} "
            f"WHERE {identifier(self.column)} IS NOT NULL"
        )

    def joined(self, owners: str, rows: str, columns: Sequence[str]) -> str:
        """Return some columns of what comes of tables of what was sent, of whole shards."""
        values = compared(self.column, self.here), compared(self.key, self.there), identifier(self.unit)
        return f"({reached_rows(self.kept(columns), self.named, *values, rows, owners)})"


def in_one_order(kinds: Iterable[str]) -> list[str]:
    """Return terms that order rows of columns c0, c1, ... of some types: in one order, however they came.

    What comes of a shuffle arrives in any order. Spark compares what is computed again with what was there
    before, and takes another order for rows that changed.
    """
    # Two floats may be equal and not the same, also in nested values.
    told = [f"c{i}" if _PLAIN.fullmatch(kind) else f"CAST(c{i} AS VARCHAR)" for i, kind in enumerate(kinds)]
    return [f"hash({', '.join(told)})", *told] if told else []


def _shard(column: str, schema: Schema, shards: int) -> str:
    """Return the shard of a value: equal ones are equal texts, of whichever type of whole numbers."""
    return f"CAST(hash(CAST({compared(column, schema)} AS VARCHAR)) % {shards} AS INTEGER) AS shard"
