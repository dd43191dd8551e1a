"""Pairs of datasets are neighbours, and hold what code tends to break at."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.audit import edges, halton, numbers, odd_numbers, units, without
from sfumato.audit.mechanisms import fingerprint
from sfumato.audit.python_code import literal
from sfumato.errors import ParameterError


def multiset(records):
    return Counter(repr(fingerprint(r)) for r in records)


def test_halton_is_the_radical_inverse():
    points = halton(1000, 3)
    for d, base in enumerate((2, 3, 5)):
        digits = [np.base_repr(i, base)[::-1] for i in range(1, 1001)]
        assert [p[d] for p in points] == [int(t, base) / base ** len(t) for t in digits]
    assert len({tuple(p) for p in points}) == 1000
    with pytest.raises(ParameterError):
        halton(1, 17)


@pytest.mark.parametrize("neighbors", ["add-remove", "change-one"])
def test_edges_are_neighbours(neighbors):
    found = edges(numbers(), neighbors)
    for edge in found:
        more, less = multiset(edge.dataset), multiset(edge.neighbour)
        removed, added = more - less, less - more
        assert removed.total() == 1
        assert added.total() == (1 if neighbors == "change-one" else 0)
        assert isinstance(edge.name, str)
    assert len({repr((fingerprint(e.dataset), fingerprint(e.neighbour))) for e in found}) == len(found) < 100


def test_all_odd_values_are_added_and_removed():
    changed = [
        next(iter((multiset(e.dataset) - multiset(e.neighbour)).elements()))
        for e in edges(odd_numbers(-1, 1))
    ]
    for value in (math.nan, math.inf, -math.inf, 1e308, 5e-324, -0.0, 2**53 + 1, 2**63 - 1, -(2**63)):
        assert repr(fingerprint(value)) in changed


def test_numbers_lie_in_their_bounds():
    for dataset in numbers(-5, 3, odd=False):
        assert all(-5 <= x <= 3 for x in dataset)
    assert [-5.0] in numbers(-5, 3) and [3.0] in numbers(-5, 3)
    assert all(abs(x) <= 1e308 for dataset in numbers(-1e308, 1e308, odd=False) for x in dataset)
    for bounds in ((1, 1), (0, math.inf), (-math.inf, 0), (math.nan, 1)):
        with pytest.raises(ParameterError):
            numbers(*bounds)


@pytest.mark.parametrize(
    "dataset",
    [[3, 4, 5], (3, 4, 5), np.array([3, 4, 5]), pa.array([3, 4, 5]), pd.DataFrame({"a": [3, 4, 5]})],
)
def test_without_one_record(dataset):
    found = without(dataset, 1)
    assert type(found) is type(dataset)
    assert len(found) == 2 and len(dataset) == 3
    assert len(edges([dataset])) >= 2
    table = pa.table({"a": [3, 4, 5]})
    assert without(table, 0).to_pylist() == [{"a": 4}, {"a": 5}]


def test_arrays_and_tuples_change_one_record():
    for dataset in ((1, 2), np.array([1, 2])):
        assert all(type(e.neighbour) is type(dataset) for e in edges([dataset], "change-one"))
    with pytest.raises(ParameterError, match="give pairs"):
        edges([pa.table({"a": [1, 2]})], "change-one")


@pytest.mark.parametrize("table", [None, pa.Table.from_pylist, pd.DataFrame])
def test_user_level_pairs_differ_by_one_unit(table):
    for edge in units(table=table):
        rows, others = edge.dataset, edge.neighbour
        if table is not None:
            assert type(rows) is type(others)
            rows, others = (
                t.to_pylist() if hasattr(t, "to_pylist") else t.to_dict("records") for t in (rows, others)
            )
        extra = rows[len(others) :]
        assert multiset(rows[: len(others)]) == multiset(others) or table is pd.DataFrame
        assert len({r["unit"] for r in extra if r["unit"] == r["unit"]}) <= 1
        assert extra and all(r["unit"] in ("new", None) or r["unit"] != r["unit"] for r in extra)


def test_user_level_pairs_hold_many_rows_groups_and_nulls():
    found = units(groups=("a", "b"))
    assert len(found) == 27
    added = [[r for r in e.dataset if r["unit"] == "new"] for e in found]
    assert max(map(len, added)) >= 40
    assert any({r["group"] for r in rows} >= {"a", "b"} for rows in added)
    assert any(r["value"] is None for rows in added for r in rows)
    assert any(r["group"] is None for rows in added for r in rows)
    assert any(r["unit"] is None for e in found for r in e.dataset)


@pytest.mark.parametrize(
    "value",
    [
        [0.5, math.nan, -math.inf, 2**70, None, True, "a'b"],
        ["two  spaces", "a\nb\t", {" x  y ": "\u2028"}],
        ((1,), (), [[]], {"a": {1: math.nan}}),
        np.array([[1.0, math.nan]]),
        np.arange(3),
        pa.table({"unit": ["a", None], "x": [1.5, None]}),
        pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}),
        pl.DataFrame({"a": [1, None]}),
    ],
)
def test_datasets_can_be_written_as_code(value):
    code = literal(value)
    assert "\n" not in code
    again = eval(code, {"numpy": np, "pyarrow": pa, "pandas": pd, "polars": pl})
    assert type(again) is type(value)
    assert literal(again) == code
    assert repr(fingerprint(again)) == repr(fingerprint(value)) or not isinstance(
        value, (list, tuple, np.ndarray)
    )


def test_numbers_that_python_lacks_are_written_too():
    assert "1.5" in literal([np.longdouble(1.5)])
