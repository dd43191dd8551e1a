"""Variance and exponent of rounded noise, against mpmath."""

import math

import mpmath
import numpy as np
import pytest

from sfumato.noise import Gaussian, Laplace
from sfumato.noise.laws import RoundedNoise


@mpmath.workdps(60)
@pytest.mark.parametrize("law", [Laplace(b) for b in ("0.0001", "0.01", "0.3", 1, 20, 10**6)] + [Gaussian(s) for s in ("0.05", "0.4", 1, "1.9", 2, 9)], ids=str)  # fmt: skip
def test_variance_and_exponent_against_mpmath(law):
    noise = RoundedNoise(law)
    unit = mpmath.mpf(law.unit.numerator) / law.unit.denominator

    def mass(m):
        m = abs(m)
        if isinstance(law, Laplace):
            return (
                mpmath.exp(-m / unit) * mpmath.sinh(1 / (2 * unit)) if m else -mpmath.expm1(-1 / (2 * unit))
            )
        tail = [
            mpmath.erfc((m + h) / unit / mpmath.sqrt(2)) / 2 for h in (-mpmath.mpf(1) / 2, mpmath.mpf(1) / 2)
        ]
        return tail[0] - tail[1]

    if isinstance(law, Laplace):
        q = mpmath.exp(-1 / unit)
        variance = 2 * mpmath.sinh(1 / (2 * unit)) * q * (1 + q) / (1 - q) ** 3
    else:
        variance = 2 * sum(m * m * mass(m) for m in range(1, int(40 * unit) + 40))
    assert math.isclose(noise.variance, variance, rel_tol=1e-12, abs_tol=1e-300)
    for part in (1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999):
        s = mpmath.mpf(part) * (1 / unit if isinstance(law, Laplace) else 8 / max(unit, 1))
        if isinstance(law, Laplace):
            up, down = q * mpmath.exp(s), q * mpmath.exp(-s)
            total = mass(0) + mpmath.sinh(1 / (2 * unit)) * (up / (1 - up) + down / (1 - down))
        else:
            total = mass(0) + sum(2 * mass(m) * mpmath.cosh(m * s) for m in range(1, int(40 * unit) + 80))
        given, truth = float(noise.exponent(np.array([float(s)]))[0]), float(mpmath.log(total))
        assert given >= truth - 1e-12 * max(1, abs(truth))
        if s < 5:
            assert math.isclose(given, truth, rel_tol=1e-11, abs_tol=1e-12)


def test_a_laplace_exponent_ends_at_its_reach():
    noise = RoundedNoise(Laplace(4))
    assert noise.reach == 0.25 and np.isinf(noise.exponent(np.array([0.25, 1.0, 1e6]))).all()
    assert np.isfinite(RoundedNoise(Laplace("0.001")).exponent(np.array([900.0]))).all()
