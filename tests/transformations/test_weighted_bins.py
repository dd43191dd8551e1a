"""Weights in bins: their definition, and the claim against all units of a few rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import pytest

from sfumato.audit import falsify
from sfumato.errors import ParameterError, QueryError
from sfumato.framework import WHOLE, AtomDomain, RowsDomain
from sfumato.transformations import (
    Edges,
    Listed,
    Norm,
    RowsInBins,
    UnitsInBins,
    WeightGrid,
    WeightsInBins,
    bound_groups,
    cone_of,
    per_group,
)

NAN = float("nan")
ROWS = RowsDomain(tuple((name, AtomDomain(float, nan=True, null=True)) for name in ("w", "x")))
WEIGHTS = (None, NAN, -3.0, 0.0, 0.4, 1.5, 5.0, float("inf"))
VALUES = (None, 0.0, 1.0, 9.0)
EDGES = Edges((0.0, 1.0, 2.0), above=True)


def made(rows: int = 2, exponent: int = -3, **options: Any) -> WeightsInBins:
    return WeightsInBins("x", "x", rows, EDGES, exponent, weight="w", weights=WeightGrid(-1, 6), **options)


MADE = [
    *(made(rows, exponent) for rows in (1, 2) for exponent in (0, -3)),
    made(1, once=True),
    WeightsInBins("x", "x", 2, Listed((0.0, 9.0), other=True), -1, weight="w", weights=WeightGrid(0, 5)),
]


def broken(statistic: WeightsInBins) -> bool:
    """Whether some unit of up to three rows adds a vector that is not in the claim, for some noise."""
    body, names = statistic.body, statistic.names
    scales = [Fraction(i + 1) for i in range(len(names))]
    given = [{"w": w, "x": x} for w, x in product(WEIGHTS, VALUES)]
    for size in (1, 2, 3):
        for rows in combinations_with_replacement(given, size):
            added = statistic.contribution(rows)
            vector = [added[name] for name in names]
            moved = sum((Fraction(v) / s for v, s in zip(vector, scales, strict=True)), Fraction(0))
            if min(vector) < 0 or sum(vector) > body.linf_sensitivities[0]:
                return True
            if moved > body.size(Norm.L1, scales) or max(vector) > body.split(Norm.L2)[0]:
                return True
    return False


@pytest.mark.parametrize("statistic", MADE, ids=lambda s: f"{s.rows} {s.exponent} {s.once} {s.bins.count}")
def test_no_unit_is_outside_of_the_claim(statistic):
    assert not broken(statistic)


class Untrimmed(WeightsInBins):
    """Weights above the largest count as they are."""

    def contribution(self, rows, weight=WHOLE):
        of = {f.name: getattr(self, f.name) for f in fields(self)}
        return WeightsInBins(**of | {"weights": replace(self.weights, most=7)}).contribution(rows, weight)


class Negative(WeightsInBins):
    """Weights below 0 count."""

    def contribution(self, rows, weight=WHOLE):
        found = super().contribution(rows, weight)
        found.subtract({self.names[0]: sum(row["w"] == -3 and row["x"] == 0 for row in rows)})
        return found


class NotScaled(WeightsInBins):
    """The limit of rows is forgotten."""

    def contribution(self, rows, weight=WHOLE):
        of = {f.name: getattr(self, f.name) for f in fields(self)}
        return WeightsInBins(**of | {"rows": 10, "once": False}).contribution(rows, weight)


class OverRowsOfEachBin(WeightsInBins):
    """A unit is scaled by its rows in a bin, and not by those in all."""

    def contribution(self, rows, weight=WHOLE):
        found: Counter[Any] = Counter()
        for value in {row["x"] for row in rows}:
            found += super().contribution([row for row in rows if row["x"] == value], weight)
        return found


class WithoutWeightCountsOne(WeightsInBins):
    """A row without a weight counts as the largest, and takes nothing of the limit."""

    def contribution(self, rows, weight=WHOLE):
        given = [row for row in rows if row["w"] is not None]
        found = super().contribution(given, weight) if given else Counter()
        lacking = [{**row, "w": 9.0} for row in rows if row["w"] is None]
        return found + (super().contribution(lacking, weight) if lacking else Counter())


class RoundedUp(WeightsInBins):
    """What a scaled unit adds is rounded up."""

    def contribution(self, rows, weight=WHOLE):
        return Counter({name: n + 1 for name, n in super().contribution(rows, weight).items()})


class OfOneRow(WeightsInBins):
    """The claim is that of one row."""

    @property
    def body(self):
        return replace(super().body, most=super().body.most / 2)


DEFECTS = [Untrimmed, Negative, NotScaled, OverRowsOfEachBin, WithoutWeightCountsOne, RoundedUp, OfOneRow]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda d: d.__name__)
@pytest.mark.parametrize("once", [False, True])
def test_planted_defects_are_found(defect, once):
    honest = made(1 if once else 2, once=once)
    assert broken(defect(**{f.name: getattr(honest, f.name) for f in fields(honest)}))


@pytest.mark.parametrize("norm", Norm)
def test_the_falsifier_finds_a_bound_without_weights_or_without_the_limit_of_rows(norm):
    statistic = made()
    honest = bound_groups(2, domain=ROWS) >> per_group([statistic], norm, statistic.body.split(norm), 2)
    assert falsify(honest, 1, evaluations=300).ratio <= 1
    for forgotten in (statistic.rows, statistic.weights.most):
        less = replace(honest, stability_map=lambda d, f=forgotten: honest.map(d) / f)
        assert falsify(less, 1, evaluations=300).violated


def test_weights_of_one_are_rows_and_units_in_bins():
    of = {"weight": "w", "weights": WeightGrid(0, 1)}
    pairs = [
        (RowsInBins("x", "x", 2, EDGES, -3), WeightsInBins("x", "x", 2, EDGES, -3, **of)),
        (UnitsInBins("x", "x", 1, EDGES, -3), WeightsInBins("x", "x", 1, EDGES, -3, **of, once=True)),
    ]
    for plain, weighted in pairs:
        assert plain.body == weighted.body and plain.by_rows == weighted.by_rows
        for values in combinations_with_replacement((None, NAN, -1.0, 0.0, 1.5, 9.0), 3):
            rows = [{"x": x, "w": 1} for x in values]
            for part in (WHOLE, WHOLE // 3):
                assert plain.contribution(rows, part) == weighted.contribution(rows, part)


def test_a_unit_that_counts_once_counts_its_mean_weight():
    rows = [{"x": 0.5, "w": 2}, {"x": 1.5, "w": 1}, {"x": 7, "w": None}, {"x": None, "w": 3}]
    assert made(1, once=True).contribution(rows) == Counter({"x.bin0": 8, "x.bin1": 4})  # of 16: 2/4 and 1/4


def test_what_cannot_be_is_refused():
    with pytest.raises(ParameterError, match="rows"):
        made(2, once=True)
    with pytest.raises(QueryError, match="Laplace"):
        cone_of([made()])
    assert made(exponent=-20).divisible and not made(exponent=-3).divisible
    assert made(exponent=-3).coordinates[0].step == Fraction(1, 16)
