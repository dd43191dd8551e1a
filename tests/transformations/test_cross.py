"""Sums and products of several columns: their definition, and the claim against all rows of small grids."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import pytest

from sfumato.audit import falsify
from sfumato.errors import ParameterError
from sfumato.framework import AtomDomain, RowsDomain
from sfumato.framework.contribution_bodies import weighted
from sfumato.transformations import (
    Axis,
    Count,
    CrossMoments,
    Norm,
    ValueGrid,
    bound_groups,
    cone_of,
    per_group,
)
from sfumato.transformations.statistics import cross_moments as module
from sfumato.transformations.statistics.cross_moments import CrossBody, square_share

NAN = float("nan")
ROWS = RowsDomain(tuple((name, AtomDomain(float, nan=True, null=True)) for name in ("x", "y")))
X, Y = Axis("x", "x", ValueGrid(0, -2, 2), 2), Axis("y", "y", ValueGrid(0, 1, 7), 6)
ALL = ((0, 1), (0, 0), (1, 1))
MADE = [
    CrossMoments("c", (X, Y), 1, ALL),
    CrossMoments("c", (X, Y), 2, ALL, -2),
    CrossMoments("c", (X, Y), 3, ((0, 1),), 0),
]
VALUES = (None, NAN, -9, -1, 0, 1, 4, 7, float("inf"))


def broken(statistic: CrossMoments) -> bool:
    """Whether some unit of up to three rows is beyond the cone of a number of rows, or the body's size."""
    cone, body = cone_of([Count(statistic.rows), statistic]), statistic.body
    skewed = [Fraction(3 * i + 1, 2) for i in range(len(statistic.names))]
    sizes = [(n, s, body.size(n, s)) for n in Norm for s in (body.split(n), skewed)]
    kinds = {statistic.row(row): row for row in ({"x": x, "y": y} for x, y in product(VALUES, VALUES))}
    for count in (1, 2, 3):
        for rows in combinations_with_replacement(list(kinds.values()), count):
            added = statistic.contribution(rows)
            vector = [added[name] for name in statistic.names]
            if not cone.holds([min(count, statistic.rows), *vector]):
                return True
            if any(weighted(norm, vector, scales) > size for norm, scales, size in sizes):
                return True
    return False


@pytest.mark.parametrize("statistic", MADE, ids=["one row", "complete rows", "covariance alone"])
def test_no_unit_is_outside_of_the_claim(statistic):
    assert not broken(statistic)


class Unclamped(CrossMoments):
    """Products are of values that are not bounded."""

    def row(self, row):
        found = list(super().row(row))
        if row["x"] == -9 and any(found):
            found[-len(self.pairs)] *= 2
        return tuple(found)


class NotScaled(CrossMoments):
    """The limit of rows is forgotten."""

    def contribution(self, rows, weight=module.WHOLE):
        of = {f.name: getattr(self, f.name) for f in fields(self)}
        return CrossMoments(**of | {"rows": 10}).contribution(rows, weight)


class Uncentred(CrossMoments):
    """Squares are not shifted, but the body says so."""

    def row(self, row):
        plain = replace(self.plain, axes=tuple(replace(a, square_centre=0) for a in self.axes))
        return plain.row(row)

    @property
    def plain(self):
        return CrossMoments(**{f.name: getattr(self, f.name) for f in fields(self)})


class RoundedUp(CrossMoments):
    """What is scaled down is rounded away from zero."""

    def contribution(self, rows, weight=module.WHOLE):
        found = super().contribution(rows, weight)
        if len(rows) > self.rows:
            for name in found:
                found[name] += 1 if found[name] > 0 else -1 if found[name] < 0 else 0
        return found


@pytest.mark.parametrize("defect", [Unclamped, NotScaled, Uncentred, RoundedUp], ids=lambda d: d.__name__)
def test_planted_defects_are_found(defect):
    assert any(broken(defect(**{f.name: getattr(s, f.name) for f in fields(s)})) for s in MADE[:2])


def test_a_size_of_the_ends_alone_is_found(monkeypatch):
    """Where squares are shifted far, the largest row has zeros."""
    far = replace(MADE[0], axes=(replace(X, square_centre=4), replace(Y, square_centre=9)))
    assert not broken(far)

    def ends(self, norm, scales):
        return self.rows**2 * weighted(norm, self._at(self.half_ranges), scales)

    monkeypatch.setattr(CrossBody, "size", ends)
    assert broken(far)


@pytest.mark.parametrize("norm", Norm)
def test_the_falsifier_finds_a_bound_without_the_limit_of_rows(norm):
    statistic = MADE[1]
    honest = bound_groups(2, domain=ROWS) >> per_group([statistic], norm, statistic.body.split(norm), 2)
    assert falsify(honest, 1, evaluations=300).ratio <= 1
    less = replace(honest, stability_map=lambda d: honest.map(d) / statistic.rows)
    assert falsify(less, 1, evaluations=300).violated


@pytest.mark.parametrize("axes", range(1, 8))
def test_the_shift_of_squares_balances_rows_at_the_centre_and_at_the_ends(axes):
    """The size of a row in L2 is that of the centre, and less than that of all numbers by themselves."""
    made = tuple(
        Axis(f"x{i}", f"x{i}", ValueGrid(0, -16, 16), int(square_share(axes) * 256)) for i in range(axes)
    )
    body = CrossMoments("c", made, 1, tuple(combinations_with_replacement(range(axes), 2))).body
    scales = body.split(Norm.L2)
    assert body.size(Norm.L2, scales) == 4 * axes * square_share(axes) ** 2
    assert body.size(Norm.L2, scales) < weighted(Norm.L2, [int(s) for s in body.linf_sensitivities], scales)


def test_many_columns_count_with_their_largest_values():
    axes = tuple(Axis(f"x{i}", f"x{i}", ValueGrid(0, -1, 1)) for i in range(11))
    body = CrossMoments("c", axes, 2, ((0, 10),)).body
    assert body.size(Norm.L2, body.split(Norm.L2)) == 12


def test_what_cannot_be_is_refused():
    for pairs in (((1, 0),), ((0, 2),), ((0, 1), (0, 1)), ((-1, 0),)):
        with pytest.raises(ParameterError, match="pairs"):
            CrossMoments("c", (X, Y), 1, pairs)


def test_names_are_different_whatever_columns_are_called():
    hostile: list[Any] = ["x", "y", "x', 'y", "rows['x'].x", "x[0,1].rows_sum"]
    axes = tuple(Axis(f"{c}[0,1]", c, ValueGrid(0, 0, 2)) for c in hostile)
    pairs = tuple(combinations_with_replacement(range(len(axes)), 2))
    names = CrossMoments("rows", axes, 1, pairs, 0).names
    assert len(set(names)) == len(names)
