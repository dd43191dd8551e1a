"""Gamma laws in floats, beside mpmath."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from sfumato.noise.k_norm.sampling import density, lowest, upper_tail


@pytest.mark.parametrize("shape", [1, 2, 5, 17, 100, 101, 2000, 4_000_000])
def test_tails_and_densities_are_right_however_small(shape):
    with mpmath.workdps(30):
        for deviations in (-30, -9, -3, 0, 4, 12) if shape < 10**6 else (0, 5):
            x = max(shape + deviations * math.sqrt(shape), 1e-9)
            own = mpmath.exp((shape - 1) * mpmath.log(x) - x - mpmath.loggamma(shape))
            if shape > 1 and own > 1e-290:
                assert float(density(shape, np.array(x)) / own) == pytest.approx(1, rel=1e-11)
            exact = mpmath.gammainc(shape, x, mpmath.inf, regularized=True)
            assert float(upper_tail(shape, x) / exact) == pytest.approx(1, rel=1e-11)
            if x <= lowest(shape):
                assert 1 - exact < 1e-17


def test_a_tail_without_its_last_terms_is_found(monkeypatch):
    monkeypatch.setattr(math, "isqrt", lambda shape: 0)
    with pytest.raises(AssertionError):
        test_tails_and_densities_are_right_however_small(2000)
