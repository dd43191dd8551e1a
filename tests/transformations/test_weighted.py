"""Sums of weights and of weighted values: their definition, and the claim against all rows of small grids."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import pytest

from sfumato.audit import falsify
from sfumato.errors import ParameterError
from sfumato.framework import WHOLE, AtomDomain, RowsDomain
from sfumato.transformations import (
    Norm,
    ValueGrid,
    WeightedSum,
    WeightGrid,
    bound_groups,
    cone_of,
    per_group,
)

NAN = float("nan")
ROWS = RowsDomain(tuple((name, AtomDomain(float, nan=True, null=True)) for name in ("w", "x")))
WEIGHTS = (None, NAN, -3, 0, 1, 2, 5, float("inf"))
VALUES = (None, NAN, -9, -3, -1, 0, 2, 3, float("inf"))
MADE = [
    WeightedSum("w", "w", rows, WeightGrid(0, 5), "x", ValueGrid(0, -half, half), bits)
    for rows, half, bits in ((1, 3, 0), (2, 3, 1), (2, 4, 2))
]


def given() -> list[dict[str, Any]]:
    return [{"w": w, "x": x} for w, x in product(WEIGHTS, VALUES)]


def broken(statistic: WeightedSum) -> bool:
    """Whether some unit of up to three rows is outside of the cone, or beyond a bound."""
    cone = cone_of([statistic])
    kinds = {statistic.row(row): row for row in given()}  # rows that add the same are one
    for size in (1, 2, 3):
        for rows in combinations_with_replacement(list(kinds.values()), size):
            added = statistic.contribution(rows)
            vector = [added[name] for name in statistic.names]
            if not cone.holds(vector) or any(
                abs(v) > bound for v, bound in zip(vector, statistic.body.linf_sensitivities, strict=True)
            ):
                return True
    return False


@pytest.mark.parametrize("statistic", MADE, ids=str)
def test_no_unit_is_outside_of_the_claim(statistic):
    assert not broken(statistic)


class Untrimmed(WeightedSum):
    """Weights above the largest count as they are."""

    def row(self, row):
        w, x = row["w"], row["x"]
        return super().row(row) if w != 5 else (7, 7 * (self.grid.centred(x) or 0) >> self.bits)


class Negative(WeightedSum):
    """Weights below 0 count."""

    def row(self, row):
        return (-1, self.grid.centred(row["x"]) or 0) if row["w"] == -3 else super().row(row)


class WithoutWeights(WeightedSum):
    """Values of rows without a weight are added up."""

    def row(self, row):
        return (0, self.grid.centred(row["x"]) or 0) if row["w"] is None else super().row(row)


class CutWeights(WeightedSum):
    """Weights of a unit with too many rows are cut, so that they no longer limit values."""

    def contribution(self, rows, weight=WHOLE):
        found = super().contribution(rows, weight)
        if len(rows) > self.rows:
            found[self.names[0]] = sum(self.row(r)[0] for r in rows) * self.rows // len(rows) - 1
        return found


class NotScaled(WeightedSum):
    """The limit of rows is forgotten."""

    def contribution(self, rows, weight=WHOLE):
        of = {f.name: getattr(self, f.name) for f in fields(self)}
        return WeightedSum(**of | {"rows": 10}).contribution(rows, weight)


class RoundedBound(WeightedSum):
    """The largest product is rounded down."""

    @property
    def largest(self):
        return self.grid.half_range >> self.bits


@pytest.mark.parametrize(
    "defect",
    [Untrimmed, Negative, WithoutWeights, CutWeights, NotScaled, RoundedBound],
    ids=lambda d: d.__name__,
)
def test_planted_defects_are_found(defect):
    assert any(broken(defect(**{f.name: getattr(s, f.name) for f in fields(s)})) for s in MADE[1:2])


@pytest.mark.parametrize("norm", Norm)
def test_the_falsifier_finds_a_bound_without_the_limit_of_rows(norm):
    statistic = MADE[1]
    honest = bound_groups(2, domain=ROWS) >> per_group([statistic], norm, statistic.body.split(norm), 2)
    assert falsify(honest, 1, evaluations=300).ratio <= 1
    less = replace(honest, stability_map=lambda d: honest.map(d) / statistic.rows)
    assert falsify(less, 1, evaluations=300).violated


def test_products_are_rounded_to_the_nearest_step():
    statistic = MADE[2]
    for w, x in product(range(6), range(-4, 5)):
        assert statistic.row({"w": w, "x": x}) == (w, int((Fraction(w * x, 4) + Fraction(1, 2)).__floor__()))


def test_a_unit_with_more_rows_is_scaled_down():
    statistic = replace(MADE[0], rows=2)
    rows = [{"w": 2, "x": 3}, {"w": 1, "x": 3}, {"w": 4, "x": None}]
    assert statistic.contribution(rows) == Counter({"w.weight": 2, "w.sum": 6})
    assert not statistic.divisible


def test_what_cannot_be_is_refused():
    with pytest.raises(ParameterError, match="column"):
        WeightedSum("w", "w", 1, WeightGrid(0, 5), None, ValueGrid(0, 0, 2))
    whole, fine = WeightGrid.up_to(Fraction(5, 2), whole=True), WeightGrid.up_to(Fraction(10), whole=False)
    assert (whole.exponent, whole.most) == (0, 3) and fine.most * fine.step == 10 and fine.most < 2**23
    assert WeightGrid.up_to(Fraction(2**40 + 1), whole=True).exponent > 0
