"""Leaves of a quantile tree: of one value and of many at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.transformations import QuantileTree

BOUNDS = [(0.0, 1000.0), (-5.0, 3.0), (1.70e9, 1.71e9), (-1e300, 1e300), (0.1, 0.1000001), (0.0, 1e-300)]


def leaf(tree, value):
    """The definition, in Python's own floats, one operation after the other."""
    clamped = min(max(value, tree.lower), tree.upper)
    return min(int((clamped - tree.lower) * tree.factor), 65_535)


@pytest.mark.parametrize("bounds", BOUNDS)
@settings(derandomize=True, database=None, deadline=None, max_examples=100)
@given(st.lists(st.floats(allow_nan=False), max_size=8), st.lists(st.floats(0, 1), max_size=8))
def test_leaves_of_many_values_are_those_of_each(bounds, values, shares):
    lower, upper = bounds
    tree = QuantileTree("x", "x", rows=1, lower=lower, upper=upper, exponent=-1)
    inside = [lower + share * (upper - lower) for share in shares]
    values += [*inside, *bounds, -0.0, math.inf, -math.inf, math.nextafter(upper, -math.inf)]
    expected = [leaf(tree, value) for value in values]
    assert tree.all_leaves(np.array(values)).tolist() == expected
    assert [tree.leaf(value) for value in values] == expected
    assert {0, 65_535} <= set(expected)


def test_what_is_no_value_has_no_leaf():
    tree = QuantileTree("x", "x", rows=1, lower=0.0, upper=1.0, exponent=-1)
    assert tree.leaf(None) is tree.leaf(math.nan) is None and not len(tree.all_leaves(np.zeros(0)))
