"""Keep each unit in a limited number of its groups: the SQL, several times faster than ranking pairs.

A unit keeps the first `limit` of its groups in the order of (hash(hash(salt, unit, keys)), keys). Ranking all
(unit, group) pairs does that, but building and sorting all pairs is most of a release's time. So rows
of groups that cannot be among the first are dropped before pairs are built:

1. `cut`: one pass by unit alone finds a hash below which a unit has at least `limit` groups. It keeps
   no list of hashes, but bitmaps of their leading bits: bit b of a bitmap is set where some hash begins
   with b, so `limit` bits that are set prove as many distinct hashes, hence groups, up to the end of the
   last one's range. Bitmaps of finer ranges serve units with more groups.
2. `near`: rows at or below their unit's cut. Units of at most `limit` rows have no cut and need none.
3. `pairs`: what is left, by unit and group. `over`: the units that still have too many groups, because
   a cut is a little too high, there is none, or hashes tie.
4. `kept`: the pairs of all other units, and of these the first by rank, where keys break ties.

No step trusts the hash: whatever it is, no unit is left with more than `limit` groups, and all forms keep
the same ones. The tests compare with ranking all pairs, also under hashes that tie.
"""

from __future__ import annotations

from collections.abc import Sequence

# Bitmaps are BIGINTs whose sign bit is not used.
_BITS = 63
_MOST_WORDS = 8
_NO_CUT = "18446744073709551615::UBIGINT"


def kept_pairs(
    source: str, keys: Sequence[str], limit: int, salt: int, aggregates: Sequence[tuple[str, str]]
) -> dict[str, str]:
    """Return common table expressions, in order; the last, `kept`, has u, the keys, n and the aggregates.

    Args:
        source: rows with columns u and `keys`.
        keys: names of the key columns.
        limit: the most groups of a unit.
        salt: 64 random bits, fresh in each release.
        aggregates: (expression over rows of one unit and group, its quoted name).
    """
    named, order = ", ".join(keys), _order(keys, salt)
    sums = "".join(f", {expression} AS {name}" for expression, name in aggregates)
    names = "".join(f", {name}" for _, name in aggregates)
    return {
        "cut": _cut(f"SELECT u, {order} AS h FROM {source}", limit),
        "near": (
            f"SELECT {source}.*, cut.below IS NOT NULL AS many FROM {source} LEFT JOIN cut USING (u) "
            f"WHERE cut.below IS NULL OR {order} <= cut.below"
        ),
        "pairs": f"SELECT u, {named}, many, count(*) AS n{sums} FROM near GROUP BY u, {named}, many",
        "over": f"SELECT u FROM pairs WHERE many GROUP BY u HAVING count(*) > {limit}",
        "kept": _kept("pairs", f"u, {named}, n{names}", keys, limit, salt),
    }


def first_pairs(pairs: str, keys: Sequence[str], limit: int, salt: int) -> dict[str, str]:
    """Return the same choice from pairs that are built already: `over`, then `kept` with all columns."""
    return {
        "over": f"SELECT u FROM {pairs} GROUP BY u HAVING count(*) > {limit}",
        "kept": _kept(pairs, "*", keys, limit, salt),
    }


def _kept(pairs: str, columns: str, keys: Sequence[str], limit: int, salt: int) -> str:
    ranked = f"PARTITION BY u ORDER BY {_order(keys, salt)}, {', '.join(keys)}"
    return (
        f"SELECT {columns} FROM {pairs} ANTI JOIN over USING (u) UNION ALL "
        f"SELECT {columns} FROM {pairs} SEMI JOIN over USING (u) "
        f"QUALIFY row_number() OVER ({ranked}) <= {limit}"
    )


def _order(keys: Sequence[str], salt: int) -> str:
    # DuckDB folds arguments together by multiply and xor, so that one pass leaves the choices of two
    # salts, or of two units, related; the second mixes them.
    return f"hash(hash({salt}::UBIGINT, u, {', '.join(keys)}))"


def _cut(hashes: str, limit: int) -> str:
    """Return (u, below): for units of more than `limit` rows, a hash up to which they have as many groups."""
    words = 1
    while words < _MOST_WORDS and 10 * words < limit:
        words *= 2
    # Coarse to fine; the coarsest covers all hashes but for the last bucket.
    coarsest = 59 - words.bit_length()
    shifts = (coarsest, coarsest - 3, coarsest - 6) if words == 1 else (coarsest, coarsest - 4)
    bitmaps = ", ".join(_bitmap(shift, word) for shift in shifts for word in range(words))
    query = f"SELECT u, {bitmaps} FROM ({hashes}) GROUP BY u HAVING count(*) > {limit}"
    # In the finest bitmap with enough bits: the word with the bit that completes the limit (m), which
    # of its bits that is (r), the buckets before the word (p), and the bitmap's shift.
    chosen: dict[str, list[str]] = {"m": [], "r": [], "p": [], "shift": []}
    for shift in reversed(shifts):
        before = "0"
        for word in range(words):
            name = f"b{shift}_{word}"
            when = f"WHEN {before} + bit_count({name}) >= {limit} THEN "
            chosen["m"].append(f"{when}{name}")
            chosen["r"].append(f"{when}CAST({limit} - ({before}) AS INTEGER)")
            chosen["p"].append(f"{when}{(_BITS + 1) * word}::UBIGINT")
            chosen["shift"].append(f"{when}{shift}::UBIGINT")
            before += f" + bit_count({name})"
    cases = ", ".join(f"CASE {' '.join(whens)} END AS {name}" for name, whens in chosen.items())
    query = f"SELECT u, {cases} FROM ({query})"
    for half in (32, 16, 8, 4, 2, 1):  # binary search for the r-th bit that is set in m
        low = f"bit_count(m & {(1 << half) - 1}::BIGINT)"
        query = (
            f"SELECT u, shift, CASE WHEN {low} >= r THEN m ELSE m >> {half} END AS m, "
            f"CASE WHEN {low} >= r THEN r ELSE r - {low} END AS r, "
            f"CASE WHEN {low} >= r THEN p ELSE p + {half}::UBIGINT END AS p FROM ({query})"
        )
    end = "((p + 1::UBIGINT) << shift) - 1::UBIGINT"
    return f"SELECT u, coalesce({end}, {_NO_CUT}) AS below FROM ({query})"


def _bitmap(shift: int, word: int) -> str:
    bucket = f"(h >> {shift})"
    start = (_BITS + 1) * word
    inside = f"{bucket} < {start + _BITS}" + (f" AND {bucket} >= {start}" if word else "")
    bit = f"1::BIGINT << CAST({bucket} - {start} AS BIGINT)"
    return f"bit_or(CASE WHEN {inside} THEN {bit} ELSE 0::BIGINT END) AS b{shift}_{word}"
