"""Outputs of any kind become columns, and nothing that can be told apart is lost on the way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.audit import Raised, audit
from sfumato.audit.outputs import MISSING, ZERO_BITS, Reader, joined, leaves


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_lowest_set_bit_of_floats(values):
    draws = Reader().read(np.array(values))
    for value, low in zip(values, draws.low[:, 0].tolist(), strict=True):
        numerator, denominator = value.as_integer_ratio()
        if numerator == 0:
            assert low == ZERO_BITS
        else:
            assert low == (numerator & -numerator).bit_length() - denominator.bit_length()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_lowest_set_bit_of_integers(values):
    for draws in (Reader().read(np.array(values, np.int64)), Reader().read(values)):
        for value, low in zip(values, draws.low[:, 0].tolist(), strict=True):
            assert low == (ZERO_BITS if value == 0 else (value & -value).bit_length() - 1)


TELLING = [
    (1.0, 2.0), (0.0, -0.0), (1, 1.0), (True, 1), (None, 0.0), (math.nan, None), (math.inf, -math.inf), ("a", "b"), ("1", 1),
    ((1, 2), (1, 3)), ([1], [1, 1]), ({"a": 1}, {"b": 1}), ({"a": None}, {}), (Raised("ValueError"), Raised("TypeError")),
    (Raised("ValueError", "x"), Raised("ValueError", "y")), ({"g": ["a"], "n": [1]}, {"g": ["b"], "n": [1]}), (b"a", "a"),
    (2**100, 2**100 + 2**60), ("", None), ([[0.5]], [[0.25]]), ([True, None], [None, True]),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), TELLING)
def test_different_outputs_stay_different(one, other):
    reader = Reader()
    draws = reader.read([one, other, one])
    columns = len(reader.paths)
    draws = draws.wide(columns)
    assert draws.whole[0] == draws.whole[2] != draws.whole[1]


def test_an_output_that_cannot_be_written_is_told_by_its_type():
    class Silent:
        def __repr__(self):
            raise RuntimeError("no text")

    reader = Reader()
    assert reader.words(reader.read([Silent()])) == "(value a Silent)"


def in_itself(*beside):
    found = [*beside]
    found.append(found)
    return found


def in_its_array():
    found = np.array([0.5, None])
    found[1] = found
    return found


def deep(levels):
    found = 0.5
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("output", "columns"),
    [
        (in_itself(0.5), {"len(value)": "2", "[0]": "0.5", "[1]": "Ellipsis"}),
        ({"n": 3, "all": in_itself()}, {".n": "3", "len(.all)": "1", ".all[0]": "Ellipsis"}),
        (in_its_array(), {"len(value)": "2", "[0]": "0.5", "[1]": "Ellipsis"}),
        (deep(100_000), {"len(value)": "1", "[0]" * 50: "Ellipsis"}),
    ],
)
def test_an_output_that_contains_itself_or_lies_deep_is_an_output(output, columns):
    reader = Reader()
    draws = reader.read([output])
    read = {path: reader.word(draws, c) for c, path in enumerate(reader.paths)}
    assert read.items() >= columns.items()


@pytest.mark.parametrize("method", ["betting", "histogram"])
def test_a_mechanism_whose_output_contains_itself_is_judged(method):
    """By what stands beside the knot; a mapping that is its own column is an output of size 1 too."""
    pairs = [([1.0], [])]
    told = audit(lambda data: in_itself(float(len(data))), epsilon=1, pairs=pairs, method=method)
    assert told.violated
    knot = {}
    knot["all"] = knot
    hidden = audit(lambda data, size: knot, epsilon=1, pairs=pairs, method=method, max_samples=1)
    assert not hidden.violated


def test_one_part_in_two_places_does_not_contain_itself():
    part = [0.5]
    assert dict(leaves([part, part]))["[1][0]"] == 0.5


def test_the_same_leaf_has_the_same_column_in_every_batch():
    reader = Reader()
    first = reader.read([{"a": 1.0}, {"b": 2.0}])
    second = reader.read([{"b": 3.0, "c": 4.0}])
    both = joined([first, second], len(reader.paths))
    b = reader.paths.index(".b")
    assert both.numbers[:, b].tolist()[1:] == [2.0, 3.0]
    assert both.tokens[0, b] == MISSING
    assert both.tokens[:2, reader.paths.index(".c")].tolist() == [MISSING] * 2


def test_rows_of_a_table_are_known_by_their_texts():
    one = dict(leaves({"group": ["x", "y"], "n": [1, 2]}))
    other = dict(leaves({"group": ["y"], "n": [3]}))
    assert one["['y'].n"] == 2 and other["['y'].n"] == 3


def test_arrays_and_lists_of_floats_are_read_alike():
    values = np.array([0.5, -0.0, math.nan, math.inf])
    one, other = Reader().read(values), Reader().read(values.tolist())
    for name in ("numbers", "tokens", "low"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    matrix = values.reshape(2, 2)
    one, other = Reader().read(matrix), Reader().read(matrix.tolist())
    np.testing.assert_array_equal(one.numbers, other.numbers[:, 1:])
    np.testing.assert_array_equal(one.low, other.low[:, 1:])


def test_a_draw_is_read_alike_beside_whatever_other_draws():
    reader = Reader()
    draws = [[0.5, 2.0], [math.nan, -0.0]]
    alone, beside = reader.read(draws), reader.read([*draws, [None, 1.0], [0.5], 3, {"a": 1.0}])
    alone = alone.wide(len(reader.paths))
    for name in ("numbers", "tokens", "low"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(beside, name)[:2])


def test_very_wide_outputs_are_cut():
    reader = Reader()
    assert reader.read(np.zeros((3, 5000))).numbers.shape == (3, len(reader.paths))
    assert len(reader.paths) < 5000
