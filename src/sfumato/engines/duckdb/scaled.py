"""The SQL of what a unit counts for that is in more groups than the limit: a weight `w` of `WHOLE`."""

from __future__ import annotations

from sfumato.framework import WHOLE


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
