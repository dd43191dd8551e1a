"""Numbers of distinct values: the SQL of what units bring to each value of a group, and what that comes to.

A value is known by its hash of 64 bits: of ten million values, two are taken for one with a probability of
3 in a million, and a unit changes a number by no more than it may, whatever the hash. A maximum matching is
no SQL: what is left of a group's sets of values, of units that have more than they may bring, goes to
`matched`, which has it from SciPy.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.dataclass import dataclass
from sfumato.framework import WHOLE
from sfumato.query.schema import INTEGERS
from sfumato.sql_text import identifier
from sfumato.transformations import DistinctMatched, DistinctShared

Distinct = DistinctMatched | DistinctShared
KINDS = (DistinctMatched, DistinctShared)


@dataclass(frozen=True)
class Rows:
    """Queries of the distinct values of one group, and of the units that have them.

    Args:
        values: a query of `leaf`, which is a value or its code; also of rows without a unit.
        pairs: a query of `leaf` and `unit`, the code of a unit; with repetitions.
        whole: whether leaves are whole numbers, and not codes. Of days there are so few that DuckDB finds
            them sooner than by a table.
    """

    values: str
    pairs: str
    whole: bool = False


def plain(type_name: str) -> bool:
    """Return whether DuckDB counts distinct values faster than their hashes."""
    return (type_name in INTEGERS and "HUGE" not in type_name) or type_name in (
        "DATE",
        "TIMESTAMP",
        "BOOLEAN",
    )


def shares(statistic: DistinctShared, having: str, in_part: bool) -> str:
    """Write the share of a distinct value that each row of a unit contributes."""
    whole = 1 << -statistic.exponent
    each = (
        f"CASE WHEN {having} <= {statistic.values} THEN {whole}::BIGINT "
        f"ELSE {statistic.values * whole}::BIGINT // {having} END"
    )
    return f"((({each}) * w) // {WHOLE})" if in_part else f"({each})"


def brought(statistic: Distinct, keys: Sequence[str], units: str) -> str:
    """Return a SELECT of the distinct values that units contribute to each group, as lists.

    Args:
        statistic: the number.
        keys: names of the key columns.
        units: rows of keys, leaf and, of shares, `one`: of matchings each of a unit `u` and leaf once.
    """
    columns, name = "".join(f"{k}, " for k in keys), identifier(statistic.names[0])
    if isinstance(statistic, DistinctShared):
        leaves = f"SELECT {columns}leaf, CAST(sum(one) AS BIGINT) AS weight FROM ({units}) GROUP BY ALL"
        return _grouped(f"list({{'leaf': leaf, 'weight': weight}}) AS {name}", keys, leaves)
    ctes, rest = _sure_and_rest(statistic.values, keys, units)
    sets = f"WITH {ctes} SELECT {columns}[leaf] AS leaves FROM sure UNION ALL {rest}"
    return _grouped(f"list(leaves) AS {name}", keys, sets)


def _sure_and_rest(most: int, keys: Sequence[str], units: str, ones: str | None = None) -> tuple[str, str]:
    """Return SQL of distinct values that surely count, and of the sets left for a matching."""
    # Who has no more values than the limit brings them all in some largest matching: each of these values is
    # as good as brought by a unit of its own. Of the others only what is left of their sets is needed.
    columns, same = "".join(f"{k}, " for k in keys), [f"rest.{k} IS NOT DISTINCT FROM sure.{k}" for k in keys]
    each = f"SELECT {columns}u, list(leaf) AS leaves FROM ({units}) GROUP BY {columns}u"
    sure = f"SELECT {columns}unnest(leaves) AS leaf FROM each_unit WHERE len(leaves) <= {most}"
    if ones is not None:
        sure += f" UNION ALL {ones}"
    rest = f"SELECT {columns}u, unnest(leaves) AS leaf FROM each_unit WHERE len(leaves) > {most}"
    return (
        f"each_unit AS MATERIALIZED ({each}), sure AS MATERIALIZED (SELECT DISTINCT * FROM ({sure}))",
        f"SELECT {columns}list(leaf) AS leaves FROM ({rest}) AS rest "
        f"ANTI JOIN sure ON ({' AND '.join([*same, 'rest.leaf = sure.leaf'])}) GROUP BY {columns}u",
    )


def joined(statistic: Distinct, keys: Sequence[str], lists: str) -> str:
    """Return a SELECT that joins lists of distinct values of each group from several stages."""
    columns, name = "".join(f"{k}, " for k in keys), identifier(statistic.names[0])
    if isinstance(statistic, DistinctMatched):
        return _grouped(f"flatten(list({name})) AS {name}", keys, f"SELECT * FROM {lists}")
    each = f"SELECT {columns}unnest({name}) AS leaf FROM {lists}"
    leaves = (
        f"SELECT {columns}leaf.leaf AS leaf, CAST(sum(leaf.weight) AS BIGINT) AS weight "
        f"FROM ({each}) GROUP BY ALL"
    )
    return _grouped(f"list({{'leaf': leaf, 'weight': weight}}) AS {name}", keys, leaves)


def counted(statistic: Distinct, keys: Sequence[str], units: str, ones: str) -> str:
    """Return a SELECT of each group's number of distinct values, or the sets left for a matching.

    Args:
        statistic: the number.
        keys: names of the key columns.
        units: rows as of `brought`, of units with several rows in a group.
        ones: rows of keys, leaf and, of shares, `one`, of all others: such a unit brings its value.
    """
    columns, name = "".join(f"{k}, " for k in keys), identifier(statistic.names[0])
    if isinstance(statistic, DistinctShared):
        rows = f"SELECT {columns}leaf, one FROM ({units}) UNION ALL {ones}"
        return _sum(
            statistic, keys, f"SELECT {columns}sum(one) AS weight FROM ({rows}) GROUP BY {columns}leaf"
        )
    ctes, rest = _sure_and_rest(statistic.values, keys, units, ones)
    number = f"SELECT {columns}count(*) AS sure, NULL AS leaves FROM sure"
    both = f"WITH {ctes} {number}{_grouping(keys)} UNION ALL SELECT {columns}0, leaves FROM ({rest})"
    sets = "coalesce(list(leaves) FILTER (leaves IS NOT NULL), [])"
    return _grouped(f"{{'sure': CAST(sum(sure) AS BIGINT), 'sets': {sets}}} AS {name}", keys, both)


def counted_of_lists(statistic: Distinct, keys: Sequence[str], lists: str) -> str:
    """Return a SELECT of each group's number of distinct values from lists of several stages."""
    columns, name = "".join(f"{k}, " for k in keys), identifier(statistic.names[0])
    if isinstance(statistic, DistinctMatched):
        sets = joined(statistic, keys, lists)
        return f"SELECT {columns}{{'sure': 0::BIGINT, 'sets': {name}}} AS {name} FROM ({sets})"
    each = f"SELECT {columns}unnest({name}) AS leaf FROM {lists}"
    leaves = f"SELECT {columns}sum(leaf.weight) AS weight FROM ({each}) GROUP BY {columns}leaf.leaf"
    return _sum(statistic, keys, leaves)


def nothing(statistic: Distinct) -> str:
    """Return SQL of the number of distinct values of a group without units."""
    return "0" if isinstance(statistic, DistinctShared) else "{'sure': 0::BIGINT, 'sets': []}"


def _sum(statistic: DistinctShared, keys: Sequence[str], leaves: str) -> str:
    whole, name = 1 << -statistic.exponent, identifier(statistic.names[0])
    return _grouped(f"CAST(sum(least(weight, {whole})) AS BIGINT) AS {name}", keys, leaves)


def _grouped(number: str, keys: Sequence[str], rows: str) -> str:
    return f"SELECT {''.join(f'{k}, ' for k in keys)}{number} FROM ({rows}){_grouping(keys)}"


def _grouping(keys: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(keys)}" if keys else ""
