"""Numbers of different values in DuckDB: what stands for values, and what is sent to the matching."""

import random
from collections import defaultdict

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from sfumato.engines.duckdb import distinct_values
from sfumato.engines.duckdb.distinct_values import (
    Pruned,
    Rows,
    brought,
    count_values,
    find_matching,
    max_matching,
)
from sfumato.query import sizes
from sfumato.transformations import DistinctMatched
from sfumato.transformations.row_sql import value_hash
from sfumato.transformations.statistics.distinct_values import max_matched

# Of each type, values of which none equals another, though DuckDB's own hash takes some for one.
DIFFERENT = {
    "of numbers": "SELECT unnest([0.0, 1.5, -1.5, 'infinity'::DOUBLE])",
    "of 128 bits": "SELECT (i % 9)::HUGEINT + ((i // 9)::HUGEINT << 64) FROM range(81) t(i)",
    "of decimals": "SELECT (i * 1000000000000000)::DECIMAL(38, 2) FROM range(81) t(i)",
    "of months and time": "SELECT to_months((i % 99)::INTEGER) + to_microseconds(i // 99) FROM range(9900) t(i)",
    "of lists": "SELECT unnest([[], [NULL], [NULL, NULL], [1], [1, NULL], [NULL, 1]])",
    "of text": "SELECT unnest(['', chr(0), ' ', 'a', 'A', 'a ', 'ä', 'a\u0308'])",
    "of structs": "SELECT {'a': i % 9, 'b': i // 9} FROM range(81) t(i)",
}
EQUAL = {
    "zeros": "[0.0::DOUBLE, -0.0::DOUBLE]",
    "zeros in structs": "[{'a': 0.0::FLOAT}, {'a': -0.0::FLOAT}]",
    "no numbers in lists": "['[nan]'::DOUBLE[], '[-nan]'::DOUBLE[]]",
    "lengths of time": "[INTERVAL 30 DAY, INTERVAL 1 MONTH, INTERVAL 720 HOUR]",
}


def codes(values):
    with duckdb.connect() as con:
        (kind,) = con.execute(f"SELECT typeof(v) FROM ({values}) AS t(v) LIMIT 1").fetchone()
        found = f"SELECT count(*), count(DISTINCT {value_hash('v', kind)}) FROM ({values}) AS t(v)"
        return con.execute(found).fetchone()


def test_different_values_have_different_codes_and_equal_ones_have_one():
    for of, values in DIFFERENT.items():
        number, different = codes(values)
        assert number == different, of
    for of, values in EQUAL.items():
        assert codes(f"SELECT unnest({values})")[1] == 1, of


def rows_of_units(tables=50):
    """Rows (key, table, unit, value), none twice; units have one value or many, which others have too."""
    rng = random.Random(11)
    for table in range(tables):
        sizes, values = rng.choice([(1, 2), (1, 5), (3, 6)]), rng.choice([6, 20])
        for unit in range(rng.randint(1, 15)):
            key = rng.choice([None, "a", "b"])
            yield from ((key, table, unit, v) for v in rng.sample(range(values), rng.randint(*sizes)))


def test_what_is_left_to_match_has_the_same_matching():
    """Both of the statement of a part of the units, and of that of all, where those with one row come by themselves."""
    rows = list(rows_of_units())
    of_groups = defaultdict(lambda: defaultdict(set))
    for *key, unit, value in rows:
        of_groups[tuple(key)][unit].add(value)
    units = pa.table(dict(zip(["k0", "k1", "u", "leaf"], zip(*rows, strict=True), strict=True)))
    keys = ["k0", "k1"]
    ones = "SELECT k0, k1, min(leaf) AS leaf FROM units GROUP BY k0, k1, u HAVING count(*) = 1"
    several = "SELECT * FROM units QUALIFY count(*) OVER (PARTITION BY k0, k1, u) > 1"
    with duckdb.connect() as con:
        con.register("units", units)

        def given(text):
            *by, column = con.sql(text).to_arrow_table().combine_chunks().columns
            return list(zip(*(k.to_pylist() for k in by), strict=True)), column.combine_chunks()

        for most in (1, 2, 3):
            statistic = DistinctMatched("x", most)
            of_part, sets = given(brought(statistic, keys, "FROM units"))
            of_all, left = given(count_values(statistic, keys, several, ones))
            right = {key: max_matched(sets.values(), most) for key, sets in of_groups.items()}
            assert dict(zip(of_part, find_matching(sets, most).to_pylist(), strict=True)) == right
            numbers = pc.add(left.field("sure"), find_matching(left.field("sets"), most))
            assert dict(zip(of_all, numbers.to_pylist(), strict=True)) == right


# What is read at first: few rows of each value, so that others must be asked for, and all at once.
FIRST = [(0, 1), (0, 5), (1, 1), (2, 20), (8, 1000)]


def few_or_many(rng):
    """Rows (unit, value), some twice; values are of few units or of many, and some of one alone."""
    values, most = rng.choice([4, 9, 30, 200]), rng.choice([1, 2, 3])
    sets = [
        set(rng.sample(range(values), rng.randint(1, min(values, rng.choice([2, 30])))))
        for _ in range(rng.randint(1, rng.choice([3, 25])))
    ]
    sets[0] |= {1000 + i for i in range(rng.choice([0, 0, 1, 5]))}
    pairs = [(u, x) for u, own in enumerate(sets) for x in own for _ in range(rng.randint(1, 2))]
    rng.shuffle(pairs)
    return sets, pairs, most


def by_few_pairs(con, pairs, most, whole=False):
    units, leaves = (pa.array(column) for column in zip(*pairs, strict=True))
    con.register("pairs", pa.table({"u": units, "x": leaves}))
    return max_matching(
        lambda text: con.sql(text).to_arrow_reader(10),
        con.register,
        Rows("SELECT x AS leaf FROM pairs", "SELECT x AS leaf, hash(u) AS unit FROM pairs", whole),
        most,
    )


def test_few_pairs_show_a_largest_matching(monkeypatch):
    """Where few pairs are looked at the matching is a largest one, unless that is given up."""
    rng, given_up = random.Random(5), 0
    with duckdb.connect() as con, monkeypatch.context() as patch:
        for number in range(50):
            each, least = FIRST[number % len(FIRST)]
            patch.setattr(sizes, "ROWS_OF_A_VALUE", each)
            patch.setattr(sizes, "FIRST_ROWS", least)
            patch.setattr(sizes, "SHARE_LEFT_OUT", 1)
            patch.setattr(sizes, "UNIT_BUCKETS", 4 if number % 3 else 1 << 22)
            patch.setattr(sizes, "PRUNINGS", 1 if number % 7 else 20)
            sets, pairs, most = few_or_many(rng)
            # Each other table by values that are near each other, and not by their codes.
            found = by_few_pairs(con, pairs, most, whole=number % 2 == 1)
            given_up += found is None
            assert found in (None, max_matched(sets, most))
    assert given_up < 8


def of_copies(unit, value, most):
    """The size of a maximum matching by Hopcroft and Karp's algorithm, of as many copies of a unit as it has places."""
    copies = (np.asarray(unit)[:, None] * most + np.arange(most)).ravel()
    ends = np.repeat(value, most), copies
    graph = csr_array((np.ones(len(copies), bool), ends))
    return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())


def pairs_at_random(seed):
    """Pairs of units and values, in which units have few values and many."""
    rng = np.random.default_rng(seed)
    units, values, pairs = (int(n) for n in rng.integers(1, (3000, 3000, 20_000)))
    heavy = rng.random(pairs) ** rng.integers(1, 5)
    return (heavy * units).astype(np.int64), rng.integers(0, values, pairs), values, int(rng.integers(1, 5))


@pytest.mark.parametrize("small", [False, True])
def test_a_matching_is_largest_and_proves_it(monkeypatch, small):
    """It has the right size, and values and units that hold all pairs prove it."""
    if small:
        monkeypatch.setattr(sizes, "UNIT_BUCKETS", 2)
        monkeypatch.setattr(sizes, "PRUNINGS", 1)
    for seed in range(12):
        unit, value, values, most = pairs_at_random(seed)
        codes = unit.astype(np.uint64) << np.uint64(seed)
        found = Pruned(codes, value, values, most).matching()
        assert (~found.exposed[value] | np.isin(codes, found.full)).all()
        number = int((~found.exposed).sum()) + most * len(found.full)
        assert int(found.brought.sum()) == of_copies(unit, value, most) == number


@pytest.mark.parametrize("most", [1, 3, 2**40])
@pytest.mark.parametrize(
    ("units", "values", "number"),
    [
        ([], [], lambda most: 0),
        ([0] * 300_000, range(300_000), lambda most: min(most, 300_000)),
        (range(300_000), [0] * 300_000, lambda most: 1),
        (range(300_000), range(300_000), lambda most: 300_000),
        # Each unit has two values, and shares one with the next: they are freed one by one.
        (np.arange(100_000) // 2, np.arange(1, 100_001) // 2, lambda most: 50_000 + (most > 1)),
    ],
    ids=["none", "one unit", "one value", "a value each", "a chain"],
)
def test_sizes_that_are_far_from_even(units, values, number, most):
    unit, value = np.array(units, np.uint64), np.array(values, np.int64)
    found = Pruned(unit, value, int(value.max(initial=-1)) + 1, most).matching()
    assert found.brought.sum() == number(most)


# By type, the least and the largest of some numbers that lie near each other.
NEAR = {
    pa.int8(): (-128, 127),
    pa.int64(): (2**63 - 1000, 2**63 - 1),
    pa.uint64(): (2**63 - 500, 2**63 + 500),
    pa.uint32(): (2**32 - 1000, 2**32 - 1),
}


def near(column):
    with duckdb.connect() as con:
        con.register("leaves", pa.table({"leaf": column}))
        return distinct_values._Near(lambda text: con.sql(text).to_arrow_reader(7), "FROM leaves")


@pytest.mark.long
def test_values_that_are_near_are_numbered_in_their_order_and_far_ones_have_no_table():
    """Each column is cut out of a longer one."""
    rng = random.Random(3)
    for kind, (least, largest) in NEAR.items():
        numbers = [rng.randint(least, largest) for _ in range(60)] + [least, largest]
        rng.shuffle(numbers)
        column = pa.array(numbers, kind)
        found, different = near(column), sorted(n - least for n in set(numbers))
        assert np.flatnonzero(found.there).tolist() == different
        assert found.values(np.array(different)).to_pylist() == [n + least for n in different]
        for part in (column[:0], *(column[i : i + 7] for i in range(0, len(numbers), 7))):
            placed = found.numbers(pa.chunked_array([part], kind)).tolist()
            assert placed == [n - least for n in part.to_pylist()]
        if kind.bit_width > 16:
            of = np.iinfo(kind.to_pandas_dtype())
            assert not near(pa.array([of.min, of.max], kind)).is_near
            assert not near(pa.array([0, 1 << 23], kind)).is_near
            assert near(pa.array([], kind)).is_near
