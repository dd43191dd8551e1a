"""Numbers in bins: where values belong, and the claim against all units of a few rows."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import fields, replace
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest

from sfumato.audit import falsify
from sfumato.errors import ParameterError, QueryError
from sfumato.framework import WHOLE, AtomDomain, RowsDomain
from sfumato.framework.contribution_bodies import SimplexBody
from sfumato.transformations import (
    Count,
    Edges,
    Listed,
    Norm,
    RowsInBins,
    UnitsInBins,
    bound_groups,
    cone_of,
    per_group,
)

NAN = float("nan")
ROWS = RowsDomain((("x", AtomDomain(float, nan=True, null=True)),))
VALUES = (None, NAN, -1.0, 0.0, 1.0, 1.5, 2.0, 9.0)
EDGES = Edges((0.0, 1.0, 2.0), above=True)
MADE = [
    *(RowsInBins("x", "x", rows, EDGES, exponent) for rows in (1, 2) for exponent in (0, -3)),
    UnitsInBins("x", "x", 1, EDGES, -3),
    RowsInBins("x", "x", 2, Listed((0.0, 2.0), other=True), -1),
]


def broken(statistic: RowsInBins) -> bool:
    """Whether some unit of up to four rows adds a vector that is not in the claim, for some noise."""
    body, names = statistic.body, statistic.names
    scales = [Fraction(i + 1) for i in range(len(names))]
    for size in (1, 2, 3, 4):
        for values in combinations_with_replacement(VALUES, size):
            for weight in (WHOLE, WHOLE // 3):
                added = statistic.contribution([{"x": value} for value in values], weight)
                vector = [added[name] for name in names]
                moved = sum((Fraction(v) / s for v, s in zip(vector, scales, strict=True)), Fraction(0))
                squared = sum((Fraction(v) / s) ** 2 for v, s in zip(vector, scales, strict=True))
                if min(vector) < 0 or sum(vector) > body.linf_sensitivities[0]:
                    return True
                if moved > body.size(Norm.L1, scales) or squared > body.size(Norm.L2, scales):
                    return True
    return False


@pytest.mark.parametrize("statistic", MADE, ids=str)
def test_no_unit_is_outside_of_the_claim(statistic):
    assert not broken(statistic)


class NotScaled(RowsInBins):
    """The limit of rows is forgotten."""

    def contribution(self, rows, weight=WHOLE):
        return (
            replace(self, rows=10).contribution(rows, weight)
            if self.rows < 10
            else super().contribution(rows)
        )


class OfEachBin(RowsInBins):
    """Rows of each bin are limited, and not those of all bins."""

    def contribution(self, rows, weight=WHOLE):
        found = Counter()
        for row in rows:
            found |= super().contribution([row] * len([r for r in rows if r["x"] == row["x"]]), weight)
        return found


class RoundedUp(RowsInBins):
    """What a scaled unit adds is rounded up."""

    def contribution(self, rows, weight=WHOLE):
        return Counter({name: n + 1 for name, n in super().contribution(rows, weight).items()})


class OverRowsWithValues(UnitsInBins):
    """A unit is divided over its rows with a value, and yet rows without one are in a bin."""

    def contribution(self, rows, weight=WHOLE):
        valued = [row for row in rows if row["x"] == row["x"] and row["x"] is not None]
        found = super().contribution(valued, weight) if valued else Counter()
        found[self.names[0]] += (len(rows) - len(valued)) * (1 << -self.exponent) // len(rows)
        return found


class InTwoBins(RowsInBins):
    """A value at an edge is in the bins on both sides."""

    def contribution(self, rows, weight=WHOLE):
        found = super().contribution(rows, weight)
        at = [{"x": 0.5} for row in rows if row["x"] == 1.0]
        return found + super().contribution(at, weight) if at else found


@pytest.mark.parametrize("defect", [NotScaled, OfEachBin, RoundedUp, OverRowsWithValues, InTwoBins])
def test_planted_defects_are_found(defect):
    honest = MADE[4] if issubclass(defect, UnitsInBins) else MADE[1]
    assert broken(defect(**{f.name: getattr(honest, f.name) for f in fields(honest)}))


@pytest.mark.parametrize("norm", Norm)
def test_the_falsifier_finds_a_bound_without_the_limit_of_rows(norm):
    statistic = RowsInBins("x", "x", 2, EDGES)
    honest = bound_groups(2, domain=ROWS) >> per_group([statistic], norm, statistic.body.split(norm), 2)
    assert falsify(honest, 1, evaluations=300).ratio <= 1
    less = replace(honest, stability_map=lambda d: honest.map(d) / statistic.rows)
    assert falsify(less, 1, evaluations=300).violated


def test_noise_does_not_grow_with_the_number_of_bins():
    for norm in Norm:
        sizes = {
            SimplexBody(tuple(map(str, range(k))), Fraction(3)).size(norm, [Fraction(3)] * k) for k in (1, 99)
        }
        assert sizes == {Fraction(1)}


def test_bins_are_those_of_numpy():
    values = np.array([-5.0, -1.0, -0.5, 0.0, 0.1, 0.3, 1.0, 2.0, 2.5])
    edges = (-1.0, -0.0, 0.1, 2.0)
    found = Counter(Edges(edges).place(x) for x in values)
    assert [found[i] for i in range(3)] == np.histogram(values, edges)[0].tolist()


def test_infinite_edges_hold_infinities_and_what_is_outside_has_a_bin_where_asked():
    open_ended = Edges((-math.inf, 0.0, math.inf))
    assert [open_ended.place(x) for x in (-math.inf, -1, 0, math.inf, NAN)] == [0, 0, 1, 1, None]
    closed = Edges((0.0, 1.0), below=True, above=True)
    assert [closed.place(x) for x in (-math.inf, 0, 1, math.inf, None)] == [0, 1, 1, 2, None]
    assert [Edges((0.0, 1.0)).place(x) for x in (-1, 2)] == [None, None]


def test_truth_values_and_texts_are_listed_as_they_are():
    assert [Listed((True, False)).place(x) for x in (False, True, None)] == [1, 0, None]
    assert [Listed(("a", "é"), other=True).place(x) for x in ("A", "e\u0301", "é", None)] == [2, 2, 1, None]


def test_what_cannot_be_is_refused():
    for edges in ((), (1.0,), (1.0, 1.0), (2.0, 1.0), (0.0, NAN)):
        with pytest.raises(ParameterError, match="edges"):
            Edges(edges)
    for values in ((), ("a", "a"), (1, True)):
        with pytest.raises(ParameterError, match="values"):
            Listed(values)
    with pytest.raises(ParameterError, match="rows"):
        UnitsInBins("x", "x", 2, EDGES)
    with pytest.raises(QueryError, match="Laplace"):
        cone_of([Count(2), MADE[2]])


def test_parts_of_units_need_fine_steps():
    assert not MADE[0].divisible and replace(MADE[0], exponent=-20).divisible
    added: Any = replace(MADE[0], exponent=-20).contribution([{"x": 0.5}], WHOLE // 4)
    assert added == Counter({"x.bin0": 1 << 18})
