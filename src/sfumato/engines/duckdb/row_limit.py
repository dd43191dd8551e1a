"""Keep a limited number of each unit's rows, over all its groups together: the SQL.

A unit keeps the first rows in the order of (hash(hash(salt, unit, keys, values, copy)), keys, values, copy):
copies of a row, equal to it in all that statistics see, are numbered 1, 2, ... So each row has a hash of its
own, and all are equally likely to be kept; and as equal rows are the same to every statistic, nothing follows
from the order in which rows come, or from how they are divided among workers. Whatever the hash is, no unit
keeps more rows than the limit, and which ones depends on its own rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.engines.duckdb.ordering import copy_number, first_rows, order_by_hash
from sfumato.query import sizes


def kept_rows(source: str, columns: Sequence[str], limit: int, salt: int) -> dict[str, str]:
    """Return common table expressions, in order; the last, `near`, has the columns of the rows that are kept.

    Args:
        source: rows with the columns.
        columns: the unit, `u`, then keys and values: all that statistics see.
        limit: the most rows of a unit.
        salt: 64 random bits, fresh in each release.
    """
    named = ", ".join(columns)
    order = order_by_hash([*columns, "copy"], salt)
    copies = f"SELECT {named}, {copy_number(columns)} AS copy FROM {source} SEMI JOIN over_rows USING (u)"
    # Most units have few rows, which need no order.
    return {
        "over_rows": f"SELECT u FROM {source} GROUP BY u HAVING count(*) > {limit}",
        "near": (
            f"SELECT {named} FROM {source} ANTI JOIN over_rows USING (u) UNION ALL "
            f"SELECT {named} FROM ({copies}) "
            f"{first_rows('u', limit, order)}"
        ),
    }


def counted_rows(source: str, columns: Sequence[str]) -> str:
    """Return a SELECT of rows that differ, each with how many there are of it, n."""
    named = ", ".join(columns)
    return f"SELECT {named}, count(*) AS n FROM {source} GROUP BY {named}"


def joined_counts(source: str, columns: Sequence[str]) -> str:
    """Return the same of several such counts, added up."""
    named = ", ".join(columns)
    return f"SELECT {named}, CAST(sum(n) AS BIGINT) AS n FROM {source} GROUP BY {named}"


def written_out(counts: str, columns: Sequence[str]) -> str:
    """Return a SELECT of the rows themselves, from how many there are of each."""
    named = ", ".join(columns)
    blocks = f"SELECT {named}, n, unnest(range(0, n, {sizes.COPIES})) AS start FROM ({counts})"
    copies = f"SELECT {named}, unnest(range(start, least(n, start + {sizes.COPIES}))) FROM ({blocks})"
    return f"SELECT {named} FROM ({copies})"
