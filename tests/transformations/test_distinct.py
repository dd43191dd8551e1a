"""Numbers of different values: against brute force, the claim on all small tables, and the engine's matching."""

from __future__ import annotations

import random
from collections import Counter
from itertools import chain, combinations, combinations_with_replacement, product

import pyarrow as pa
import pytest

from sfumato.engines.duckdb.sparse_matching import matched
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


class InOrder(DistinctMatched):
    """Each unit takes the first values that are free: a unit in front moves what all others find."""

    def of_added(self, added):
        taken = set()
        for key, units in sorted(added.items(), key=lambda item: sorted(item[0][1])):
            for _ in range(units):
                free = [value for value in sorted(key[1], reverse=True) if value not in taken]
                taken |= set(free[: self.values])
        return Counter({self.names[0]: len(taken)})


class AllValues(DistinctMatched):
    """Every value counts, whoever has it."""

    def of_added(self, added):
        return Counter({self.names[0]: len(set().union(*(key[1] for key in added)))})


class OnceForAll(DistinctMatched):
    """Units with the same values are one."""

    def of_added(self, added):
        return Counter({self.names[0]: -max_matched([key[1] for key in added], self.values)})


class OneMore(DistinctMatched):
    """A unit brings one value more than is claimed."""

    def of_added(self, added):
        sets = [key[1] for key, units in added.items() for _ in range(units)]
        return Counter({self.names[0]: max_matched(sets, self.values + 1)})


class ByValues(DistinctShared):
    """A unit is divided by its different values, and counts with each row."""

    def contribution(self, rows, weight=WHOLE):
        own = Counter(row["x"] for row in rows)
        each = min(1 << -self.exponent, (self.values << -self.exponent) // len(own))
        return Counter({(self.names[0], value): n * each for value, n in own.items()})

    def of_added(self, added):
        return Counter({self.names[0]: sum(added.values())})


class NotCut(DistinctShared):
    """What units bring is at least a step for each value."""

    def of_added(self, added):
        whole = 1 << -self.exponent
        return Counter({self.names[0]: sum(whole for n in added.values() if n)})


class RoundedUp(DistinctShared):
    """Shares are rounded up."""

    def contribution(self, rows, weight=WHOLE):
        own = Counter(row["x"] for row in rows)
        each = min(1 << -self.exponent, -((-self.values << -self.exponent) // len(rows)))
        return Counter({(self.names[0], value): n * each for value, n in own.items()})


@pytest.mark.parametrize(
    ("defect", "given"),
    [
        (AllValues, (1,)),
        (OnceForAll, (1,)),
        (OneMore, (1,)),
        (OneMore, (2,)),
        (ByValues, (1, -3)),
        (NotCut, (1, -3)),
        (RoundedUp, (1, -3)),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_planted_defects_are_found(defect, given):
    assert broken(defect("x", *given))


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


class Halved(DistinctShared):
    """The half of a unit counts whole where it has one row."""

    def contribution(self, rows, weight=WHOLE):
        return super().contribution(rows, WHOLE if len(rows) == 1 else weight)


@pytest.mark.parametrize("weight", [WHOLE, WHOLE // 2, WHOLE // 3, 1])
@pytest.mark.parametrize("values", [1, 2])
def test_a_part_of_a_unit_moves_the_number_by_no_more_than_its_part(values, weight):
    assert not broken_in_part(DistinctShared("x", values), weight)


def test_a_planted_part_that_counts_whole_is_found():
    assert broken_in_part(Halved("x", 1), WHOLE // 2)
    assert not DistinctMatched("x", 1).divisible
    assert not DistinctShared("x", 1, -3).divisible


def test_a_choice_in_order_counts_less_than_a_matching():
    """It moves by as little, but is no largest matching: the definition is held to that one."""
    units = [("a", "b"), ("b",)]
    assert (number(InOrder("x", 1), units), number(DistinctMatched("x", 1), units)) == (1, 2)


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
        found = matched(pa.array(groups, pa.list_(pa.list_(pa.uint64()))), most)
        assert found.to_pylist() == [max_matched(map(set, sets), most) for sets in groups]


def test_shares_never_count_more_than_a_matching():
    for units in combinations_with_replacement(UNITS, 3):
        for most in (1, 2):
            shared = number(DistinctShared("x", most, -10), units)
            assert shared <= number(DistinctMatched("x", most), units) << 10
            if all(len(rows) <= most for rows in units):
                assert shared == len(set(chain(*units))) << 10


def test_a_part_of_a_unit_brings_a_part():
    statistic, part = DistinctShared("x", 2, -20), WHOLE // 3
    for rows in UNITS:
        assert number(statistic, [rows], part) <= 2 * part
    assert statistic.divisible and not DistinctShared("x", 2, -19).divisible
    assert not DistinctMatched("x", 2).divisible


def test_what_is_no_value_counts_for_nothing():
    for statistic in STATISTICS:
        assert not statistic.contribution([{"x": None}, {"x": float("nan")}])
