"""DuckDB's limit of groups against ranking all pairs, under every kind of hash.

The order must not matter to the limit: hashes that tie, that are all alike, or that crowd at either
end leave a unit with as many groups as ranking does, and with the same ones.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.duckdb.contribution_limits import first_pairs, kept_pairs

SALT = 77
HASH = f"hash(hash({SALT}::UBIGINT, u, k0, k1))"
TOP = "18446744073709551615::UBIGINT"
HASHES = {
    "itself": HASH,
    "constant zero": "0::UBIGINT",
    "constant top": TOP,
    "one bit": f"({HASH} & 1::UBIGINT)",
    "two leading bits": f"(({HASH} >> 62) << 62)",
    "all in one bucket": f"({HASH} >> 40)",
    "at the far end": f"({TOP} - ({HASH} >> 50))",
    "of the key alone": "hash(k0)",
    "of the unit alone": "hash(u)",
    "small keys in order": "CAST(coalesce(k0, 0) AS UBIGINT)",
}


# On both sides of each number of words that a bitmap has, of a word's bits, of what 8 bits count, and of all bits.
LIMITS = (
    1,
    2,
    4,
    13,
    20,
    21,
    40,
    41,
    45,
    63,
    64,
    80,
    81,
    126,
    127,
    128,
    160,
    200,
    255,
    256,
    504,
    505,
    4999,
    5000,
    2**31,
    2**64,
)


@cache
def rows() -> pa.Table:
    """Units in 1 to 300 groups, of 1 to 3 rows each, and one unit in 5,000; a part of the keys is NULL."""
    rng = np.random.default_rng(3)
    unit, first, second = [], [], []
    for u, groups in enumerate([1, 2, 3, 5, 17, 34, 70, 126, 127, 128, 129, 200, 300] * 4 + [5000]):
        keys = np.repeat(rng.permutation(groups), rng.integers(1, 4, groups))
        unit += [u] * len(keys)
        first += [None if key == 1 else int(key) // 2 for key in keys]
        second += [None if key == 0 else "é" * int(key % 2) for key in keys]
    table = pa.table({"u": unit, "k0": pa.array(first, pa.int64()), "k1": pa.array(second, pa.string())})
    return table.take(rng.permutation(len(table)))


def answers(kind: str, limit: int, small: bool = False) -> tuple[list[tuple], list[tuple]]:
    """What is kept, and what ranking all pairs keeps: (unit, keys, rows)."""
    connection = duckdb.connect()
    connection.register("source", rows())
    steps = kept_pairs("source", ["k0", "k1"], limit, SALT, {"y": "u"}, [("sum(y)", '"s"')], small=small)
    written = ", ".join(f"{name} AS ({body.replace(HASH, HASHES[kind])})" for name, body in steps.items())
    assert HASHES[kind] in written
    kept = connection.execute(f"WITH {written} SELECT u, k0, k1, n FROM kept ORDER BY ALL").fetchall()
    ranked = connection.execute(
        "SELECT u, k0, k1, n FROM (SELECT u, k0, k1, count(*) AS n FROM source GROUP BY ALL) QUALIFY "
        f"row_number() OVER (PARTITION BY u ORDER BY {HASHES[kind]}, k0, k1) <= {limit} ORDER BY ALL"
    ).fetchall()
    return kept, ranked


def test_rows_are_as_they_say():
    """Numbers of groups of units are those that the limits are to meet, on both sides."""
    pairs = {(row["u"], row["k0"], row["k1"]) for row in rows().to_pylist()}
    groups = set(Counter(u for u, _, _ in pairs).values())
    assert {1, 34, 126, 127, 128, 129, 300, 5000} <= groups


@pytest.mark.parametrize("limit", LIMITS)
def test_the_same_groups_as_by_ranking(limit):
    kept, ranked = answers("itself", limit)
    assert kept == ranked


@pytest.mark.long
@pytest.mark.parametrize("kind", HASHES)
def test_the_same_groups_as_by_ranking_under_any_hash(kind):
    for limit in LIMITS:
        for small in (False, True):
            kept, ranked = answers(kind, limit, small)
            assert kept == ranked, (limit, small)


@pytest.mark.parametrize("small", [False, True])
def test_of_pairs_that_are_built_the_same_are_kept(small):
    connection = duckdb.connect()
    connection.register("source", rows())
    connection.execute("CREATE TABLE pairs AS SELECT u, k0, k1, count(*) AS n FROM source GROUP BY ALL")
    for limit in (1, 2, 4, 45):
        steps = first_pairs("pairs", ["k0", "k1"], limit, SALT, small)
        written = ", ".join(f"{name} AS ({body})" for name, body in steps.items())
        kept = connection.execute(f"WITH {written} SELECT u, k0, k1, n FROM kept ORDER BY ALL").fetchall()
        assert kept == answers("itself", limit)[1] != answers("itself", limit + 1)[1]


def test_another_order_is_seen():
    """The comparison rejects an answer of another hash, and one of another limit."""
    kept, _ = answers("itself", 2)
    assert kept != answers("of the key alone", 2)[1] and kept != answers("itself", 3)[1]
