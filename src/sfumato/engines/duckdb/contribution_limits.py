"""Keep each unit in a limited number of its groups, or a limited number of its rows: the SQL.

A unit keeps the first `limit` of its groups in the order of (hash(hash(salt, unit, keys)), keys). Ranking all
(unit, group) pairs does that, but building and sorting all pairs is most of a release's time. So rows
of groups that cannot be among the first are dropped before pairs are built:

1. `cut`: one pass by unit alone finds a hash below which a unit has at least `limit` groups. It keeps
   no list of hashes, but a bitmap: hashes fall into buckets, the narrower the smaller they are, and bit b is
   set where some hash falls into bucket b. `limit` bits that are set prove as many distinct hashes, hence
   groups, up to the end of the last one's bucket.
2. `near`: rows at or below their unit's cut. Units of at most `limit` rows have no cut and need none.
3. `pairs`: what is left, by unit and group. `over`: the units that still have too many groups, because
   a cut is a little too high, there is none, or hashes tie.
4. `kept`: the pairs of all other units, and of these the first by rank, where keys break ties.

No step trusts the hash: whatever it is, no unit is left with more than `limit` groups, and all forms keep
the same ones. The tests compare with ranking all pairs, also under hashes that tie.

Of its rows, over all its groups together, a unit keeps the first in the order of (hash(hash(salt, unit, keys,
values, copy)), keys, values, copy): copies of a row, equal to it in all that statistics see, are numbered 1,
2, ... So each row has a hash of its own, and all are equally likely to be kept. As equal rows are the same to
every statistic, nothing follows from the order in which rows come, or from how workers divide them.

A unit may also count in part in each of its groups, with a weight `w` of `WHOLE`: where it is in more groups
than the limit, or where it shares a weight among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

from sfumato.engines.duckdb.ordering import copy_number, first_rows, order_by, order_by_hash, salted_hash
from sfumato.framework import WHOLE
from sfumato.query import sizes
from sfumato.sql_text import double

_NO_CUT = "18446744073709551615::UBIGINT"


def limit_groups(
    source: str,
    keys: Sequence[str],
    limit: int,
    salt: int,
    values: Mapping[str, str],
    aggregates: Sequence[tuple[str, str]],
    only: str = "",
    small: bool = False,
) -> dict[str, str]:
    """Return table expressions that keep each unit in at most `limit` groups; the last is `kept`.

    Args:
        source: rows with columns u and `keys`.
        keys: names of the key columns.
        limit: the most groups of a unit.
        salt: 64 random bits, fresh in each release.
        values: name and expression over a row; computed once for rows that are near, with u and the keys.
        aggregates: (expression over values of one unit and group, its quoted name).
        only: a SEMI JOIN with the groups that count; rows of others take nothing of a unit's limit.
        small: rows are so few that all pairs are ranked: the other steps take longer to plan than they save.
    """
    named, order = ", ".join(keys), _order(keys, salt)
    computed = "".join(f", {expression} AS {name}" for name, expression in values.items())
    sums = "".join(f", {expression} AS {name}" for expression, name in aggregates)
    names = "".join(f", {name}" for _, name in aggregates)
    pairs = f"SELECT u, {named}, many, count(*) AS n{sums} FROM near GROUP BY u, {named}, many"
    over = f"SELECT u FROM pairs WHERE many GROUP BY u HAVING count(*) > {limit}"
    kept = _limit_pairs("pairs", f"u, {named}, n{names}", keys, limit, salt)
    if small:
        return {
            "near": f"SELECT u, {named}{computed} FROM {source}{only}",
            "pairs": f"SELECT u, {named}, count(*) AS n{sums} FROM near GROUP BY u, {named}",
            "kept": f"SELECT u, {named}, n{names} FROM pairs {_first(keys, limit, salt)}",
        }
    if limit > sizes.BITMAP_BITS * sizes.BITMAP_WORDS:  # more than bitmaps could prove
        near = f"SELECT u, {named}, true AS many{computed} FROM {source}{only}"
        return {"near": near, "pairs": pairs, "over": over, "kept": kept}
    return {
        "cut": _cut(f"SELECT u, {order} AS h FROM {source}{only}", limit),
        "near": (
            f"SELECT u, {named}, cut.below IS NOT NULL AS many{computed} "
            f"FROM {source} LEFT JOIN cut USING (u){only} WHERE cut.below IS NULL OR {order} <= cut.below"
        ),
        "pairs": pairs,
        "over": over,
        "kept": kept,
    }


def first_pairs(
    pairs: str, keys: Sequence[str], limit: int, salt: int, small: bool = False
) -> dict[str, str]:
    """Return table expressions that apply the group limit to unit-group pairs that are built already."""
    if small:
        return {"kept": f"SELECT * FROM {pairs} {_first(keys, limit, salt)}"}
    return {
        "over": f"SELECT u FROM {pairs} GROUP BY u HAVING count(*) > {limit}",
        "kept": _limit_pairs(pairs, "*", keys, limit, salt),
    }


def _limit_pairs(pairs: str, columns: str, keys: Sequence[str], limit: int, salt: int) -> str:
    return (
        f"SELECT {columns} FROM {pairs} ANTI JOIN over USING (u) UNION ALL "
        f"SELECT {columns} FROM {pairs} SEMI JOIN over USING (u) {_first(keys, limit, salt)}"
    )


def _first(keys: Sequence[str], limit: int, salt: int) -> str:
    return first_rows("u", limit, order_by(keys, [_order(keys, salt)]))


def _order(keys: Sequence[str], salt: int) -> str:
    return salted_hash(salt, ["u", *keys])


def _cut(hashes: str, limit: int) -> str:
    """Return a SELECT of a hash below which a unit has at least as many groups as the limit."""
    words = 1
    while words < sizes.BITMAP_WORDS and sizes.GROUPS_PER_WORD * words < limit:
        words *= 2
    # Bucket b ends where b + 1 = (buckets - 1/1024) * (h / 2^64)^(1/power), so the first ones are narrow,
    # for units with many groups.
    buckets, power = sizes.BITMAP_BITS * words, 4 if words == 1 else 2
    root = "sqrt(sqrt(h::DOUBLE))" if power == 4 else "sqrt(h::DOUBLE)"
    factor = (buckets - 2.0**-10) / 2.0 ** (64 // power)
    bucketed = f"SELECT u, CAST(floor({root} * {double(factor)}) AS BIGINT) AS b FROM ({hashes})"
    bitmaps = ", ".join(f"{_bitmap(word, words)} AS b{word}" for word in range(words))
    query = f"SELECT u, {bitmaps} FROM ({bucketed}) GROUP BY u HAVING count(*) > {limit}"
    # The word with the bit that completes the limit (m), which of its bits it is (r), the buckets before (p).
    chosen: dict[str, list[str]] = {"m": [], "r": [], "p": []}
    before = "0::BIGINT"
    for word in range(words):
        upto = f"{before} + {_bit_count(f'b{word}')}"
        when = f"WHEN {upto} >= {limit} THEN "
        chosen["m"].append(f"{when}b{word}")
        chosen["r"].append(f"{when}{limit} - ({before})")
        chosen["p"].append(f"{when}{sizes.BITMAP_BITS * word}::BIGINT")
        before = upto
    cases = ", ".join(f"CASE {' '.join(whens)} END AS {name}" for name, whens in chosen.items())
    query = f"SELECT u, {cases} FROM ({query})"
    for half in (32, 16, 8, 4, 2, 1):  # binary search for the r-th bit that is set in m
        low = _bit_count(f"m & {(1 << half) - 1}::BIGINT")
        query = (
            f"SELECT u, CASE WHEN {low} >= r THEN m ELSE m >> {half} END AS m, "
            f"CASE WHEN {low} >= r THEN r ELSE r - {low} END AS r, "
            f"CASE WHEN {low} >= r THEN p ELSE p + {half} END AS p FROM ({query})"
        )
    # Nowhere before the bucket's true end, whatever the floats above were rounded to.
    width = Fraction(2**64) * (1 + Fraction(1, 2**20)) / (buckets - Fraction(1, 1024)) ** power
    end = f"{' * '.join(['(p + 1)::HUGEINT'] * power)} * {ceil(width)}"
    return (
        f"SELECT u, CASE WHEN p IS NULL THEN {_NO_CUT} ELSE CAST(least({end}, {2**64 - 1}) AS UBIGINT) END "
        f"AS below FROM ({query})"
    )


def _bit_count(bits: str) -> str:
    """Write the number of set bits, for the group limit's bitmaps. DuckDB gives a TINYINT."""
    return f"CAST(bit_count({bits}) AS BIGINT)"


def _bitmap(word: int, words: int) -> str:
    start = sizes.BITMAP_BITS * word
    bit = f"1::BIGINT << (b - {start})" if word else "1::BIGINT << b"
    if words > 1:
        bit = f"CASE WHEN b BETWEEN {start} AND {start + sizes.BITMAP_BITS - 1} THEN {bit} ELSE 0::BIGINT END"
    return f"bit_or({bit})"


def limit_rows(source: str, columns: Sequence[str], limit: int, salt: int) -> dict[str, str]:
    """Return table expressions that keep at most `limit` rows of each unit; the last is `near`.

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
    """Return a SELECT of different rows with their numbers, for a limit of rows."""
    named = ", ".join(columns)
    return f"SELECT {named}, count(*) AS n FROM {source} GROUP BY {named}"


def joined_counts(source: str, columns: Sequence[str]) -> str:
    """Return a SELECT that adds up counts of equal rows, for a limit of rows."""
    named = ", ".join(columns)
    return f"SELECT {named}, CAST(sum(n) AS BIGINT) AS n FROM {source} GROUP BY {named}"


def written_out(counts: str, columns: Sequence[str]) -> str:
    """Return a SELECT of each row as often as it was counted, for a limit of rows."""
    named = ", ".join(columns)
    blocks = f"SELECT {named}, n, unnest(range(0, n, {sizes.COPIES})) AS start FROM ({counts})"
    copies = f"SELECT {named}, unnest(range(start, least(n, start + {sizes.COPIES}))) FROM ({blocks})"
    return f"SELECT {named} FROM ({copies})"


def weight_units(pairs: str, limit: int | None) -> dict[str, str]:
    """Return table expressions that weight the contributions of units; the last is `weighted`.

    Args:
        pairs: what each unit has in each group, with columns u and n.
        limit: the most groups of a unit that count whole: of j groups each counts limit/j. Without one, of j
            groups each counts 1/sqrt(j).
    """
    # Of whole numbers below 2^52 the root is rounded so that its whole part is right.
    share = f"CAST(floor(sqrt(CAST({WHOLE**2} // count(*) AS DOUBLE))) AS BIGINT)"
    if limit is not None:
        share = f"CASE WHEN count(*) <= {limit} THEN {WHOLE} ELSE {limit * WHOLE}::BIGINT // count(*) END"
    return {
        "weights": f"SELECT u, {share} AS w FROM {pairs} GROUP BY u",
        "weighted": f"SELECT {pairs}.*, w FROM {pairs} JOIN weights USING (u)",
    }
