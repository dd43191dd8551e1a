"""How many joined rows a unit has at most: counted before the join, and those beyond it are never made.

A row of the left table makes as many joined rows as it meets: the unit's rows of the right table with its
key, of which no more than the join's `rows` are matched. A unit's rows of the left table are put in the order
of a hash of all their columns, and kept as long as what they make, with those before them, is within the
limit. So what is kept of a unit follows from its own rows alone, as a multiset.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.dataclass import dataclass
from sfumato.engines.duckdb.combined import Rows
from sfumato.engines.duckdb.ordering import order_by_hash, rows_apart
from sfumato.query import sizes
from sfumato.query.tables.combining import Join

SIDES = ("left_rows", "right_rows")


def named_sides(left: Rows, right: Rows, sides: Sequence[str]) -> str:
    """Return table expressions of the two sides of a join, given their SELECTs with keys k0, k1, ..."""
    # What is made of tables is made once; of files only what is read is read again.
    return ", ".join(
        f"{name} AS {'' if dear(side) else 'NOT '}MATERIALIZED ({text})"
        for name, side, text in zip(SIDES, (left, right), sides, strict=True)
    )


def dear(side: Rows) -> bool:
    """Whether rows are made of tables, which takes more than to read them."""
    return side.source.looked is not None


@dataclass(frozen=True)
class UnitLimit:
    """The limit of joined rows of a unit, of a join of two private tables.

    Args:
        how: the join.
        left, right: its tables.
        keys: the columns of each that are compared.
    """

    how: Join
    left: Rows
    right: Rows
    keys: Sequence[Sequence[str]]

    def kept(self) -> str:
        """Return a SELECT of the rows of the left side that are joined, of the `named_sides`."""
        keys = [f"k{i}" for i in range(len(self.keys[0]))]
        named = {f"c{i}": column for i, column in enumerate(self.left.schema.values())}
        order = order_by_hash(rows_apart(named))
        same = " AND ".join(f"left_rows.{key} = met.{key}" for key in keys)
        alone = 1 if self.how.how == "left" else 0  # rows that one makes that meets none
        met = f"least(count(*), {self.how.rows}) AS made"
        return (
            f"WITH {self._wide()}, "
            f"met AS (SELECT {', '.join(keys)}, {met} FROM right_rows "
            f"SEMI JOIN wide ON (right_rows.{self._unit} = wide.unit) GROUP BY {', '.join(keys)}), "
            f"sized AS (SELECT left_rows.*, coalesce(met.made, {alone}) AS made, wide.most AS most "
            f"FROM left_rows JOIN wide ON (left_rows.{self._unit} = wide.unit) LEFT JOIN met ON ({same})) "
            f"SELECT * FROM left_rows ANTI JOIN wide ON (left_rows.{self._unit} = wide.unit) "
            f"UNION ALL SELECT * EXCLUDE (made, most) FROM sized "
            f"QUALIFY sum(made) OVER (PARTITION BY {self._unit} {order} "
            "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) <= most"
        )

    def look(self) -> str:
        """Return what finds a row where a unit may reach the limit, behind WITH and the `named_sides`."""
        if dear(self.left):  # to count its rows would be to make them twice
            counted = f"SELECT 1 FROM right_rows GROUP BY {self._unit} HAVING count(*) > 1"
            return f"wide AS ({counted}) SELECT 1 FROM wide"
        return f"{self._wide(self._busy())} SELECT 1 FROM wide"

    @property
    def _unit(self) -> str:
        """The key that is the unit, on both sides."""
        return f"k{self.keys[1].index(str(self.right.unit))}"

    def _wide(self, busy: str = "") -> str:
        """Return a table expression, `wide`: the units that may reach the limit, and what it is for each.

        Behind `busy`, which has buckets of units, only of these.
        """
        sides = []
        for table, name in (("left_rows", "l"), ("right_rows", "r")):
            source = f"{table} SEMI JOIN busy ON ({self._bucket} = busy.b)" if busy else table
            sides.append(
                f"(SELECT {self._unit} AS unit, count(*) AS {name}_n FROM {source} "
                f"GROUP BY {self._unit}) AS {name}"
            )
        most = f"greatest({self.how.unit_rows}, l.l_n, r.r_n) AS most"
        return (
            f"{busy}wide AS (SELECT l.unit, {most} FROM {sides[0]} JOIN {sides[1]} ON (l.unit = r.unit) "
            f"WHERE {self._made})"
        )

    @property
    def _made(self) -> str:
        """Whether rows of two counts may be more than the limit when they meet."""
        return f"l.l_n::HUGEINT * least(r.r_n, {self.how.rows}) > {self.how.unit_rows}"

    @property
    def _bucket(self) -> str:
        return f"hash({self._unit}) & {sizes.COUNTED_BUCKETS - 1}::UBIGINT"

    def _busy(self) -> str:
        """Return table expressions before `wide`: `busy`, the buckets of units that may reach the limit.

        It takes less than to count each unit's rows, where a bucket has few; nothing where it would not.
        """
        counts = [side.source.rows for side in (self.left, self.right)]
        known = [count for count in counts if count is not None and count >= sizes.COUNTED_ROWS]
        each = [count // sizes.COUNTED_BUCKETS + 1 for count in known]
        if len(known) < 2 or 4 * each[0] * each[1] > self.how.unit_rows:
            return ""
        sides = [
            f"(SELECT {self._bucket} AS b, count(*) AS {name}_n FROM {table} GROUP BY b) AS {name}"
            for table, name in (("left_rows", "l"), ("right_rows", "r"))
        ]
        return f"busy AS (SELECT l.b FROM {sides[0]} JOIN {sides[1]} ON (l.b = r.b) WHERE {self._made}), "
