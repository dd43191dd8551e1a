"""Densities of all numbers at once, against quadrature for each number."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from sfumato.noise.k_norm import Cone, LimitedNoise
from sfumato.noise.k_norm import limited_laws as laws
from sfumato.noise.k_norm.marginals import marginals

CONES = [Cone(0), Cone(1), Cone(4), Cone(0, True), Cone(2, True)]


def law_of(cone, groups, most, shared):
    noise = LimitedNoise(cone, (F(1),) * cone.dimensions, groups, most, shared)
    return marginals(noise)[: 1 + cone.units + min(cone.signed, 1)]


@pytest.mark.parametrize(
    "cone", [CONES[1], *(pytest.param(c, marks=pytest.mark.long) for c in CONES)], ids=str
)
@pytest.mark.parametrize(
    "groups, most, shared",
    [(12, 4, F(1, 4)), *(pytest.param(*a, marks=pytest.mark.long) for a in (
        (2, 1, F(3, 4)), (2, 2, F(999, 1000)), (1000, 20, F(1, 8)), (1000, 999, F(3, 4)), (40, 2, F(1, 2)),
    ))],
    ids=str,
)  # fmt: skip
def test_densities_are_those_of_quadrature_over_the_radii(cone, groups, most, shared):
    for law in law_of(cone, groups, most, shared):
        assert laws._densities(law.sizes) is not None
        for factor in (0.01, 1, 4):
            x = factor * law.standard_deviation
            assert law.outside(x) == pytest.approx(law._mean(x, law._both), abs=law.error / 2)
        assert law.outside(1e9) == 0 and law.outside(0) == 1


@pytest.mark.parametrize("cone", CONES, ids=str)
@pytest.mark.parametrize(
    "groups, most, shared", [(12, 4, F(1, 4)), (30, 2, F(1, 8)), (1024, 500, F(1, 2))], ids=str
)
def test_panels_of_two_thirds_change_nothing(cone, groups, most, shared, monkeypatch):
    found = []
    for panel in (laws._panel, laws._panel * 2 / 3):
        monkeypatch.setattr(laws, "_panel", panel)
        laws._densities.cache_clear()
        laws._variances.cache_clear()
        found.append([
            p for law in law_of(cone, groups, most, shared)
            for p in (law.variance / groups**2, *(law.outside(f * groups**0.5) for f in (0.3, 2, 5, 9)))
        ])  # fmt: skip
    laws._densities.cache_clear()
    laws._variances.cache_clear()
    assert found[0] == pytest.approx(found[1], abs=1e-8)


def test_what_needs_too_many_panels_is_still_found():
    (law,) = law_of(Cone(0), 2, 1, F(1, 1000))
    assert laws._densities(law.sizes) is None and 0 < law.outside(4.0) < law.outside(2.0) < 1
