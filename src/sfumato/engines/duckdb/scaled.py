"""The SQL of what a unit counts for, that has more rows than the limit, or is in more groups.

HUGEINTs take several times as long to divide as BIGINTs, so what a BIGINT holds is divided as one.

A pair of a unit and a group has a number of rows `n`; where units count in part, a weight `w` of `WHOLE` too.
"""

from __future__ import annotations

from fractions import Fraction

from sfumato.framework import WEIGHT_BITS, WHOLE
from sfumato.query import sizes


def weighted(pairs: str, limit: int) -> dict[str, str]:
    """Return common table expressions, in order; the last, `kept`, has all pairs with their weight.

    Args:
        pairs: what each unit has in each group, with columns u and n.
        limit: the most groups of a unit that count whole: of j groups each counts limit/j.
    """
    share = f"CASE WHEN count(*) <= {limit} THEN {WHOLE} ELSE {limit * WHOLE}::BIGINT // count(*) END"
    return {
        "weights": f"SELECT u, {share} AS w FROM {pairs} GROUP BY u",
        "kept": f"SELECT {pairs}.*, w FROM {pairs} JOIN weights USING (u)",
    }


def scaled(total: str, rows: int | None, most: Fraction | None) -> str:
    """Write `grid.scaled_down`: integer division cuts towards zero.

    Args:
        total: a HUGEINT.
        rows: the limit of rows, or None for what has none.
        most: where units count in part: the largest |number| within the limit of rows.
    """
    if rows is not None:
        limit = sizes.BIGINT_ROOM // rows
        total = (
            f"CASE WHEN n <= {rows} THEN {total} "
            f"WHEN {total} BETWEEN {-limit} AND {limit} THEN (CAST({total} AS BIGINT) * {rows}) // n "
            f"ELSE ({total} * {rows}) // n END"
        )
    if most is None:
        return total
    if _narrow(most):
        return f"(CAST({total} AS BIGINT) * w) // {WHOLE}"
    return f"CASE WHEN w = {WHOLE} THEN {total} ELSE (({total}) * w) // {WHOLE} END"


def scaled_upwards(total: str, rows: int, limit: int, most: Fraction | None) -> str:
    """Write `grid.scaled_down_upwards`.

    Args:
        total: a HUGEINT, in steps, not negative.
        rows, limit: the limit of rows, and the same in steps.
        most: as of `scaled`.
    """

    def cut(number: str) -> str:
        return f"least(({number} * {rows} + n - 1) // n + 1, {limit})"

    narrow = sizes.BIGINT_ROOM // rows
    limited = (
        f"CASE WHEN n <= {rows} OR {total} = 0 THEN {total} "
        f"WHEN {total} <= {narrow} THEN {cut(f'CAST({total} AS BIGINT)')} ELSE {cut(total)} END"
    )
    if most is None:
        return limited
    limited = f"CAST({limited} AS BIGINT)" if _narrow(most) else f"({limited})"
    return f"({limited} * w + {WHOLE - 1}) // {WHOLE}"


def whole_number(count: str, exponent: int, in_part: bool) -> str:
    """Write the same for a whole number within the limit, in steps of 2^exponent; and its parts."""
    if in_part:
        count, exponent = f"{count} * w", exponent + WEIGHT_BITS
    return f"({count})::HUGEINT * {1 << -exponent}" if exponent else count


def _narrow(most: Fraction) -> bool:
    """Whether a BIGINT holds `WHOLE` times such a number."""
    return most * WHOLE < sizes.BIGINT_ROOM
