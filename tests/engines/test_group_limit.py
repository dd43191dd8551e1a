"""DuckDB's limit of groups against ranking all pairs, under every kind of hash.

The order must not matter to the limit: hashes that tie, that are all alike, or that crowd at either
end leave a unit with as many groups as ranking does, and with the same ones.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.duckdb.group_limit import first_pairs, kept_pairs

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


def rows() -> pa.Table:
    """Units with 1 to 900 rows in 1 to 300 groups, some of which have a NULL in the key."""
    rng = np.random.default_rng(3)
    unit, first, second = [], [], []
    for u in range(120):
        size, groups = int(rng.integers(1, 60)), int(rng.choice([1, 2, 3, 5, 17, 70, 300]))
        size = 900 if u % 40 == 0 else size
        unit += [u] * size
        first += [None if g == 1 else int(g) for g in rng.integers(0, groups, size)]
        second += [None if g == 0 else "é" * int(g) for g in rng.integers(0, 2, size)]
    return pa.table({"u": unit, "k0": pa.array(first, pa.int64()), "k1": pa.array(second, pa.string())})


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


@pytest.mark.long
@pytest.mark.parametrize("kind", HASHES)
def test_the_same_groups_as_by_ranking(kind):
    for limit in (1, 2, 4, 13, 45, 200, 2**31, 2**64):
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
