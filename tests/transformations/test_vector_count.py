"""Rows with a vector: their definition, and the claim against all units of a few rows."""

from __future__ import annotations

from dataclasses import fields
from itertools import combinations_with_replacement

import pytest

from sfumato.framework import WHOLE
from sfumato.transformations import VectorCount

LISTS = (None, [], [1.0], [1.0, 2.0], [float("inf"), 0.0], [1.0, float("nan")], [None, 1.0], [1.0, 2.0, 3.0])
VALID = ([1.0, 2.0], [float("inf"), 0.0])
MADE = VectorCount("v", 2, 2, -3)


def broken(statistic: VectorCount) -> bool:
    """Whether some unit of up to four rows adds more than is claimed, or another number than it has."""
    (most,) = statistic.body.linf_sensitivities
    for size in (1, 2, 3, 4):
        for values in combinations_with_replacement(LISTS, size):
            for weight in (WHOLE, WHOLE // 3):
                (added,) = statistic.contribution([{"v": v} for v in values], weight).values() or (0,)
                valid = sum(v in VALID for v in values)
                if not 0 <= added <= most or (not valid and added):
                    return True
                if weight == WHOLE and added != (valid << 3) * min(2, size) // size:
                    return True
    return False


class NotScaled(VectorCount):
    """The limit of rows is forgotten."""

    def contribution(self, rows, weight=WHOLE):
        return VectorCount(self.column, self.length, 10, self.exponent).contribution(rows, weight)


class Lists(VectorCount):
    """All lists of the length count, whatever is in them."""

    def contribution(self, rows, weight=WHOLE):
        longer = [{"v": [0.0] * len(row["v"] or [])} for row in rows]
        return super().contribution(longer, weight)


class OfRowsWithVectors(VectorCount):
    """A unit is scaled by its rows with a vector, each twice."""

    def contribution(self, rows, weight=WHOLE):
        return super().contribution([row for row in rows if row["v"] in VALID] * 2 or rows, weight)


class OfOneRow(VectorCount):
    """The claim is that of one row."""

    @property
    def body(self):
        return VectorCount(self.column, self.length, 1, self.exponent).body


def test_no_unit_is_outside_of_the_claim():
    assert not broken(MADE)


@pytest.mark.parametrize("defect", [NotScaled, Lists, OfRowsWithVectors, OfOneRow], ids=lambda d: d.__name__)
def test_planted_defects_are_found(defect):
    assert broken(defect(**{f.name: getattr(MADE, f.name) for f in fields(MADE)}))


def test_parts_of_units_need_fine_steps():
    assert not MADE.divisible and VectorCount("v", 2, 2, -20).divisible
