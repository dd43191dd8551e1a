"""Numbers of different values: against brute force, the claim on all small tables, and the engine's matching."""

import random
from collections import Counter
from itertools import chain, combinations, combinations_with_replacement, product

import pyarrow as pa
import pytest

from sfumato.engines.duckdb.distinct_values import find_matching
from sfumato.framework import WHOLE
from sfumato.transformations import DistinctMatched, DistinctShared
from sfumato.transformations.statistics.distinct_values import max_matched

# A unit has up to three rows with one of these values.
UNITS = [rows for size in range(1, 4) for rows in combinations_with_replacement("abc", size)]


def number(statistic, units, weight=WHOLE):
    added = Counter()
    for rows in units:
        added += statistic.contribution([{"x": value} for value in rows], weight)
    return statistic.of_added(added)[statistic.names[0]]


def by_brute_force(sets, most):
    """Try all ways in which units bring values."""
    brought = [[c for k in range(min(most, len(s)) + 1) for c in combinations(sorted(s), k)] for s in sets]
    return max(len(set(chain(*way))) for way in product(*brought))


STATISTICS = [
    *(DistinctMatched("x", most) for most in (1, 2)),
    *(DistinctShared("x", most, exponent) for most, exponent in ((1, -3), (2, -20), (1, 0))),
]


def broken(statistic):
    """Whether one more unit moves the number by less than nothing, or by more than is claimed."""
    (bound,) = statistic.body.linf_sensitivities
    for others in chain(*(combinations_with_replacement(UNITS, size) for size in range(3))):
        without = number(statistic, others)
        if any(not 0 <= number(statistic, (*others, unit)) - without <= bound for unit in UNITS):
            return True
    return False


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_one_more_unit_moves_the_number_by_no_more_than_is_claimed(statistic):
    assert not broken(statistic)


def broken_in_part(statistic, weight):
    """Whether a part of one more unit moves the number by more than so large a part of what is claimed."""
    (bound,) = statistic.body.linf_sensitivities
    for others in chain(*(combinations_with_replacement(UNITS, size) for size in range(3))):
        without = Counter()
        for rows in others:
            without += statistic.contribution([{"x": value} for value in rows])
        (number,) = statistic.names
        before = statistic.of_added(without)[number]
        for rows in UNITS:
            part = statistic.contribution([{"x": value} for value in rows], weight)
            moved = statistic.of_added(without + part)[number] - before
            if not 0 <= moved * WHOLE <= bound * weight:
                return True
    return False


@pytest.mark.parametrize("values, weight", [(1, WHOLE // 2), (2, WHOLE // 3), (1, 1)])
def test_a_part_of_a_unit_moves_the_number_by_no_more_than_its_part(values, weight):
    assert not broken_in_part(DistinctShared("x", values), weight)


def test_a_matching_is_the_largest():
    rng = random.Random(5)
    for _ in range(300):
        most = rng.randint(1, 3)
        sets = [frozenset(rng.sample("abcde", rng.randint(0, 4))) for _ in range(rng.randint(0, 4))]
        assert max_matched(sets, most) == by_brute_force(sets, most)


def test_engines_have_the_same_matching():
    rng = random.Random(7)
    for _ in range(60):
        most, groups = rng.randint(1, 3), []
        for _ in range(rng.randint(1, 6)):
            values = range(rng.choice([3, 12, 40]))
            groups.append(
                [rng.sample(values, rng.randint(1, min(9, len(values)))) for _ in range(rng.randint(0, 20))]
            )
        found = find_matching(pa.array(groups, pa.list_(pa.list_(pa.uint64()))), most)
        assert found.to_pylist() == [max_matched(map(set, sets), most) for sets in groups]


def test_shares_never_count_more_than_a_matching():
    for units in combinations_with_replacement(UNITS, 3):
        for most in (1, 2):
            shared = number(DistinctShared("x", most, -10), units)
            assert shared <= number(DistinctMatched("x", most), units) << 10
            if all(len(rows) <= most for rows in units):
                assert shared == len(set(chain(*units))) << 10


def test_what_is_no_value_counts_for_nothing():
    for statistic in STATISTICS:
        assert not statistic.contribution([{"x": None}, {"x": float("nan")}])
