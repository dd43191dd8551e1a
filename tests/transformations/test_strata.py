"""Yes-answers by stratum: the claim against all units of a few rows, and planted defects."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest

from sfumato.audit import falsify
from sfumato.errors import QueryError
from sfumato.framework import WHOLE, AtomDomain, RowsDomain
from sfumato.transformations import Listed, Norm, YesInStrata, bound_groups, cone_of, per_group

ROWS = RowsDomain((("s", AtomDomain(int, 0, 3, null=True)), ("a", AtomDomain(bool, null=True))))
ANSWERS = tuple({"s": s, "a": a} for s, a in product((0, 1, 2, None), (True, False, None)))
MADE = [YesInStrata("s", "s", rows, Listed((0, 1)), exponent, "a") for rows in (1, 2) for exponent in (0, -3)]


def broken(statistic: YesInStrata) -> bool:
    """Whether some unit of up to three rows adds a vector that is not in the claim, for some noise."""
    body, names = statistic.body, statistic.names
    scales = [Fraction(1), Fraction(2)]
    for size in (1, 2, 3):
        for rows in combinations_with_replacement(ANSWERS, size):
            for weight in (WHOLE, WHOLE // 3):
                added = statistic.contribution(rows, weight)
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


class OverYes(YesInStrata):
    """A unit is divided over its rows that say yes, up to the limit of each stratum."""

    def contribution(self, rows, weight=WHOLE):
        found = Counter()
        for stratum in self.bins.values:
            found += super().contribution([r for r in rows if r["s"] == stratum and r["a"] is True], weight)
        return found


class NotScaled(YesInStrata):
    """The limit of rows is forgotten."""

    def contribution(self, rows, weight=WHOLE):
        if self.rows > 5:
            return super().contribution(rows, weight)
        return replace(self, rows=10).contribution(rows, weight)


class MissingSaysNo(YesInStrata):
    """A no takes a yes away, as in a difference of yes and no."""

    def contribution(self, rows, weight=WHOLE):
        no = [{"s": r["s"], "a": r["a"] is False} for r in rows]
        found = Counter(super().contribution(rows, weight))
        found.subtract(super().contribution(no, weight))
        return found


@pytest.mark.parametrize("defect", [OverYes, NotScaled, MissingSaysNo])
def test_planted_defects_are_found(defect):
    honest = MADE[1]
    assert broken(defect(**{f.name: getattr(honest, f.name) for f in fields(honest)}))


@pytest.mark.parametrize("norm", Norm)
def test_the_falsifier_finds_a_bound_without_the_limit_of_rows(norm):
    statistic = MADE[2]
    honest = bound_groups(2, domain=ROWS) >> per_group([statistic], norm, statistic.body.split(norm), 2)
    assert falsify(honest, 1, evaluations=300).ratio <= 1
    less = replace(honest, stability_map=lambda d: honest.map(d) / statistic.rows)
    assert falsify(less, 1, evaluations=300).violated


def test_only_yes_in_a_known_stratum_counts():
    counted = {(r["s"], r["a"]) for r in ANSWERS if MADE[0].contribution([r])}
    assert counted == {(0, True), (1, True)}
    assert MADE[0].columns == ("s", "a")


def test_noise_in_the_shape_of_what_a_unit_adds_is_that_of_laplace():
    with pytest.raises(QueryError, match="Laplace"):
        cone_of([MADE[0]])
