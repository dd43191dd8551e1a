"""Pairs of datasets are neighbours, and hold what code tends to break at; claims are rounded to the weaker side."""

import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.audit import (
    approximate,
    audit,
    edges,
    gaussian,
    halton,
    numbers,
    odd_numbers,
    units,
    zcdp,
)
from sfumato.audit.claims import exp_up
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
    found = units(groups=("a", "b"))
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


# Claims: their pairs are never stronger than they are.


@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 0.1, 1.0, 3.7, 709.78])
def test_e_to_the_epsilon_is_rounded_up(epsilon):
    with mpmath.workdps(60):
        truth = mpmath.exp(mpmath.mpf(epsilon))
        found = exp_up(epsilon)
        assert truth <= found <= truth * (1 + mpmath.mpf(2) ** -51)
    assert exp_up(710.0) == math.inf


def test_parameters_are_rounded_to_the_weaker_side():
    pair = approximate(Fraction(1, 3), Fraction(1, 7)).pairs[0]
    assert Fraction(pair.epsilon) >= Fraction(1, 3) and Fraction(pair.delta) >= Fraction(1, 7)
    assert approximate("0.1").pairs[0].epsilon == 0.1


@pytest.mark.parametrize("mu", [0.01, 1, Fraction(5, 2), 100])
def test_gaussian_profile(mu):
    for pair in gaussian(mu).pairs:
        assert pair.delta < 1  # those that are 1 as floats say nothing, and are left out
        with mpmath.workdps(50):
            m, e = mpmath.mpf(Fraction(mu).numerator) / Fraction(mu).denominator, mpmath.mpf(pair.epsilon)
            truth = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
            # epsilon was rounded up a little after delta was computed: delta may only be on the safe side.
            assert truth <= pair.delta <= truth * (1 + mpmath.mpf(10) ** -9) + mpmath.mpf(10) ** -16


@pytest.mark.parametrize("rho", [1e-9, 0.125, 4])
def test_zcdp_pairs_are_implied_by_the_claim(rho):
    """The Gaussian mechanism with this rho is within each pair; so is the bound of some order alpha."""
    with mpmath.workdps(40):
        m = mpmath.sqrt(2 * mpmath.mpf(rho))
        for pair in zcdp(rho).pairs:
            e = mpmath.mpf(pair.epsilon)
            truth = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
            classic = mpmath.exp(-((e - rho) ** 2) / (4 * mpmath.mpf(rho)))
            orders = [1 + mpmath.mpf(k) / 100 * (e / rho) for k in range(1, 200)]
            best = min(mpmath.exp((a - 1) * (a * rho - e)) / (a - 1) * (1 - 1 / a) ** a for a in orders)
            assert truth < pair.delta < classic
            assert pair.delta == pytest.approx(float(best), rel=0.1)


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": -1}, {"epsilon": math.nan}, {"epsilon": math.inf}, {"epsilon": 1, "delta": 1}, {"epsilon": 1, "delta": -0.1},
        {}, {"epsilon": 1, "claim": zcdp(1)}, {"epsilon": 1, "alpha": 0}, {"epsilon": 1, "alpha": 1}, {"epsilon": 1, "confidence": 2},
        {"epsilon": 1, "seconds": 0}, {"epsilon": 1, "max_samples": 0}, {"epsilon": 1, "neighbors": "replace"}, {"epsilon": 1, "method": "guess"},
        {"epsilon": 1, "pairs": []}, {"epsilon": 1, "pairs": [1]}, {"epsilon": 1, "data": [[]]}, {"epsilon": 1, "data": [[1]], "pairs": [(1, 2)]},
        {"epsilon": 1, "data": [3]}, {"claim": "epsilon = 1"}, {"claim": zcdp(1), "delta": 0.1},
    ],
)  # fmt: skip
def test_bad_parameters_come_before_any_draw(options):
    def mechanism(dataset):
        raise AssertionError("drawn")

    with pytest.raises(ParameterError):
        audit(mechanism, **options)
    with pytest.raises(ParameterError):
        zcdp(0)
    with pytest.raises(ParameterError):
        gaussian(-1)
