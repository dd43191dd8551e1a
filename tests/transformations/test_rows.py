"""Bounding tells units, keys and rows apart as the metric does, and no order of rows decides what is kept."""

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import islice, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.framework.record_keys import digest, group_key, ordered_bytes, record_key
from sfumato.measurements import TruncatedGeometric, select_groups
from sfumato.transformations import Row, bound_groups, bound_rows

BIG = 10**5000


def nan():
    return float("nan")


TWINS = [
    (0.0, -0.0), (1, True), (Fraction(1, 2), 0.5), (Decimal("1.0"), 1), ("a", np.str_("a")), ((1, "x"), (True, "x")),
]  # fmt: skip


def moved(chain, one, other):
    return chain.output_metric.distance(chain(one), chain(other))


@pytest.mark.parametrize("unit", [nan, lambda: Decimal("NaN"), lambda: (1, nan()), lambda: np.float32("nan")])
def test_nan_is_one_unit_with_one_limit(unit):
    rows = [Row(unit(), key, {}) for key in "abcde"]
    for groups in (1, 2, 5):
        assert moved(bound_groups(groups), rows, []) == 1
        assert sum(map(len, bound_groups(groups)(rows).values())) == groups


@pytest.mark.parametrize("one, other", TWINS)
def test_units_that_python_takes_for_equal_do_not_displace_each_other(one, other):
    rows = [Row(one, key, {"n": 1}) for key in "abcd"]
    more = [Row(other, key, {"n": 2}) for key in "efgh"]
    for groups in (1, 2, 3):
        chain = bound_groups(groups)
        d_in = chain.input_metric.distance(rows, rows + more)
        assert moved(chain, rows, rows + more) <= chain.map(d_in) and d_in == 1


KEYS = [-1, -2, 0, 2**61 - 1, "a", None, (1, -1), (1, -2), b"a", 1.5, nan(), (2, nan()), BIG, -BIG]


@pytest.mark.long
@settings(derandomize=True, deadline=None)
@given(data=st.data(), groups=st.integers(1, 5))
def test_rows_in_another_order_are_the_same_rows(data, groups):
    units = data.draw(st.lists(st.sampled_from([-1, -2, nan(), 1, True]), min_size=1, max_size=3))
    rows = [Row(unit, key, {}) for unit in units for key in KEYS]
    for chain in (bound_groups(groups), bound_groups(groups, lambda unit, key: 0)):
        assert moved(chain, rows, data.draw(st.permutations(rows))) == 0


def test_keys_whose_hashes_tie():
    assert hash((7, -1)) == hash((7, -2))
    rows = [Row(7, -1, {}), Row(7, -2, {})]
    assert moved(bound_groups(1), rows, rows[::-1]) == 0


def test_rows_that_tie():
    rows = [{"x": 1}, {"x": True}, {"x": 1.0}, {"x": -0.0}, {"x": 0.0}, {"x": nan()}, {"x": BIG}, {"x": "1"}]
    for chain in (bound_rows(3, 1), bound_rows(3, 1, order=lambda values: 0)):
        kept = {
            tuple(map(record_key, chain({"a": [list(p)]})["a"][0]))
            for p in islice(permutations(rows), 0, None, 397)
        }
        assert len(kept) == 1


@pytest.mark.long
@pytest.mark.noise_cannot_matter("groups of 10^3 units at epsilon 1000 are kept surely")
@pytest.mark.parametrize("one, other", [*TWINS, (nan(), nan()), (datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))))])  # fmt: skip
def test_the_name_of_a_group_does_not_tell_which_row_came_first(one, other):
    chosen = bound_groups(1) >> select_groups(TruncatedGeometric(1000, "1e-6"), 1)
    rows = [Row(unit, key, {}) for unit, key in enumerate([one, other] * 1000)]
    here, there = list(chosen(rows)), list(chosen(rows[::-1]))
    assert len(here) == 1 and repr(here) == repr(there)
    assert here == [one] or one != one


@pytest.mark.noise_cannot_matter("one group of one unit; that nothing is raised is all that is asked")
def test_no_key_and_no_row_raises():
    odd = [BIG, -BIG, Fraction(1, BIG), Fraction(BIG, 3), (BIG,), "\ud800", frozenset([BIG, "a"]), Decimal("1E+999999"),
           Decimal("-1E-999999"), math.inf, -math.inf, Decimal("Infinity"), 5e-324, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9)))]  # fmt: skip
    chosen = bound_groups(3) >> bound_rows(2, 3)
    rows = [Row(unit, key, {"x": x}) for unit, key in enumerate(odd) for x in odd]
    assert sum(map(len, chosen(rows).values())) == len(odd)
    select_groups(TruncatedGeometric(1, "1e-6"), 3)(bound_groups(3)(rows))


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(10**700), 10**700), st.floats(), st.fractions(), st.text(), st.binary(),
    st.decimals(allow_nan=False), st.datetimes(), st.dates(),
)  # fmt: skip

RECORDS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)


@pytest.mark.long
@settings(derandomize=True, deadline=None, max_examples=300)
@given(one=RECORDS, other=RECORDS)
def test_bytes_are_equal_for_equal_records_only(one, other):
    assert (ordered_bytes(one) == ordered_bytes(other)) is (record_key(one) == record_key(other))
    assert (digest(one) == digest(other)) is (ordered_bytes(one) == ordered_bytes(other))
    assert ordered_bytes(group_key(one)) == ordered_bytes(group_key(group_key(one)))
    if one == other:
        assert ordered_bytes(group_key(one)) == ordered_bytes(group_key(other))
    assert group_key(one) == one or "nan" in repr(one).lower()


@pytest.mark.long
@settings(derandomize=True, deadline=None, max_examples=300)
@given(one=st.one_of(st.integers(), st.floats(allow_nan=False), st.fractions()), other=st.one_of(st.integers(), st.floats(allow_nan=False), st.fractions()))  # fmt: skip
def test_numbers_sort_as_numbers(one, other):
    if one < other:
        assert ordered_bytes(one) < ordered_bytes(other)


def test_groups_that_a_unit_keeps_do_not_depend_on_other_units():
    own, others = [Row(1, "a", {}), Row(1, "b", {})], [Row(unit, "b", {}) for unit in (0, 2, 3)]
    bounding = bound_groups(1, order=lambda unit, key: 0)
    (kept,) = bounding(own)
    for rows in (own + others, others + own):
        found = bounding(rows)
        assert sum(map(len, found.values())) == 4 and len(found[kept]) == 1 + (kept == "b") * 3


def test_rows_without_a_unit_are_no_unit():
    rows = [Row(None, "a", {}), Row(1, "a", {})]
    assert {key: len(units) for key, units in bound_groups(2)(rows).items()} == {"a": 1}
