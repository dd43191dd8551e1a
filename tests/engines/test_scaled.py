"""What a unit of many rows or groups counts for: the SQL and the definitions, where BIGINTs end."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import pytest

from sfumato.framework import WHOLE, Segment
from sfumato.query import sizes
from sfumato.transformations.grid import scaled_down, scaled_down_upwards
from sfumato.transformations.row_sql import RowSql

EDGES = [(1 << 62) // rows + by for rows in (1, 3, 1000) for by in (-1, 0, 1)]
WHOLLY, IN_PART = (RowSql({}, part, sizes.BIGINT_ROOM, sizes.LISTED_BINS) for part in (False, True))
ONE = Segment("total", Fraction(1))
TOTALS = sorted({0, 1, 7, (1 << 31) - 1, 1 << 54, 1 << 63, *EDGES, 1 << 90})


def computed(expression: str, cases: list[tuple[int, int, int]]) -> list[int]:
    """Evaluate an expression over (total, n, w)."""
    rows = ", ".join(f"({total}::HUGEINT, {n}::BIGINT, {w}::BIGINT)" for total, n, w in cases)
    found = duckdb.sql(f"SELECT {expression} FROM (VALUES {rows}) AS _(total, n, w)").fetchall()
    return [value for (value,) in found]


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_totals_are_scaled_down_as_defined(rows):
    """Also where a total, or its product with the limit, is just within a BIGINT or just beyond."""
    signed = sorted({sign * total for total in TOTALS for sign in (1, -1)})
    cases = [(total, n, WHOLE) for total in signed for n in (1, rows, rows + 1, 5 * rows + 2)]
    expected = [scaled_down(total, n, rows) for total, n, _ in cases]
    assert computed(WHOLLY.scaled("total", rows, ONE), cases) == expected


@pytest.mark.parametrize("rows", [1, 3, 1000])
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
