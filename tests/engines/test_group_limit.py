"""DuckDB's limit of groups against ranking all pairs, under every kind of hash; and what a unit beyond it counts for.

The order must not matter to the limit: hashes that tie, that are all alike, or that crowd at either
end leave a unit with as many groups as ranking does, and with the same ones.
"""

from fractions import Fraction
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.duckdb.contribution_limits import first_pairs, limit_groups
from sfumato.framework import WHOLE, Segment
from sfumato.query import sizes
from sfumato.transformations.grid import scaled_down, scaled_down_upwards
from sfumato.transformations.row_sql import RowSql

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
LIMITS = [n + by for n in (1, 20, 40, 63, 80, 126, 127, 255, 504, 4999) for by in (0, 1)] + [2**31, 2**64]


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
    steps = limit_groups("source", ["k0", "k1"], limit, SALT, {"y": "u"}, [("sum(y)", '"s"')], small=small)
    written = ", ".join(f"{name} AS ({body.replace(HASH, HASHES[kind])})" for name, body in steps.items())
    assert HASHES[kind] in written
    kept = connection.execute(f"WITH {written} SELECT u, k0, k1, n FROM kept ORDER BY ALL").fetchall()
    ranked = connection.execute(
        "SELECT u, k0, k1, n FROM (SELECT u, k0, k1, count(*) AS n FROM source GROUP BY ALL) QUALIFY "
        f"row_number() OVER (PARTITION BY u ORDER BY {HASHES[kind]}, k0, k1) <= {limit} ORDER BY ALL"
    ).fetchall()
    return kept, ranked


@pytest.mark.parametrize(
    "kind", [*list(HASHES)[:2], *(pytest.param(k, marks=pytest.mark.long) for k in list(HASHES)[2:])]
)
def test_the_same_groups_as_by_ranking(kind):
    for limit in LIMITS[::2] if kind == "itself" else LIMITS[::5]:
        kept, ranked = answers(kind, limit, small=limit % 2 == 1)
        assert kept == ranked, limit


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


# What a unit of many rows or groups counts for: the SQL and the definitions, where BIGINTs end.
EDGES = [(1 << 62) // rows + by for rows in (1, 3, 1000) for by in (-1, 0, 1)]
WHOLLY, IN_PART = (RowSql({}, part, sizes.BIGINT_ROOM, sizes.LISTED_BINS) for part in (False, True))
ONE = Segment("total", Fraction(1))
TOTALS = sorted({0, 1, 7, (1 << 31) - 1, 1 << 54, 1 << 63, *EDGES, 1 << 90})


def computed(expression: str, cases: list[tuple[int, int, int]]) -> list[int]:
    """Evaluate an expression over (total, n, w)."""
    rows = ", ".join(f"({total}::HUGEINT, {n}::BIGINT, {w}::BIGINT)" for total, n, w in cases)
    found = duckdb.sql(f"SELECT {expression} FROM (VALUES {rows}) AS _(total, n, w)").fetchall()
    return [value for (value,) in found]


@pytest.mark.parametrize("rows", [1, 3])
def test_totals_are_scaled_down_as_defined(rows):
    """Also where a total, or its product with the limit, is just within a BIGINT or just beyond."""
    signed = sorted({sign * total for total in TOTALS for sign in (1, -1)})
    cases = [(total, n, WHOLE) for total in signed for n in (1, rows, rows + 1, 5 * rows + 2)]
    expected = [scaled_down(total, n, rows) for total, n, _ in cases]
    assert computed(WHOLLY.scaled("total", rows, ONE), cases) == expected


@pytest.mark.parametrize("rows", [1, 3])
def test_counts_are_scaled_upwards_as_defined(rows):
    exponent = -20
    cases = [
        (count << -exponent, n, WHOLE)
        for count in (
            0,
            1,
            rows,
            rows + 1,
            1 << 34,
            1 << 44,
            *(((1 << 62) // rows >> -exponent) + by for by in (-1, 0, 1)),
        )
        for n in (1, rows, rows + 1, 5 * rows + 2)
        if count <= rows or n > rows
    ]
    expected = [scaled_down_upwards(total >> -exponent, n, rows, exponent) for total, n, _ in cases]
    assert computed(WHOLLY.scaled_upwards("total", rows, rows << -exponent, ONE), cases) == expected


@pytest.mark.parametrize("most", [Fraction(1 << 41), Fraction(1 << 62)], ids=["narrow", "wide"])
def test_parts_of_totals_are_cut_towards_zero(most):
    """A weight of `WHOLE` leaves a total as it is."""
    totals = [total for whole in (0, 1, 7, most - 1) for total in (int(whole), -int(whole))]
    cases = [(total, n, w) for total in totals for n in (1, 5) for w in (1, WHOLE // 3, WHOLE - 1, WHOLE)]
    expected = [scaled_down(total, n, 2, w) for total, n, w in cases]
    assert computed(IN_PART.scaled("total", 2, Segment("total", most)), cases) == expected
