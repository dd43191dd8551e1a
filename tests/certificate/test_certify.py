"""Descriptions of each kind: what is certified, and what is refused."""

from fractions import Fraction

import pytest

from sfumato.certificate import CertificateError, certify
from tests.certificate.descriptions import (
    ROWS,
    SQUARES,
    SUMS,
    UNITS,
    independent,
    k_norm,
    part,
    release,
    threshold,
)  # fmt: skip


def test_laplace():
    one = UNITS, SUMS
    noise = independent("laplace", units=4, x_sum=12000)
    found = certify(release(part(one, noise)))
    assert (found.epsilon, found.delta, found.pure) == (1, 0, 1)


def test_less_noise_is_refused():
    noise = independent("laplace", units=4, x_sum=11999)
    with pytest.raises(CertificateError, match="delta"):
        certify(release(part((UNITS, SUMS), noise)))


def test_two_statistics_of_one_name_are_refused():
    with pytest.raises(CertificateError, match="twice"):
        certify(release(part((ROWS, ROWS), independent("laplace", rows=100))))


def test_a_threshold_on_parts_of_a_unit_is_refused():
    rule, noise = threshold(100), independent("laplace", units=100)
    for units in (UNITS | {"one": "2"}, ROWS | {"name": "units"}):
        described = part([units], noise, selection=rule, keys="private", delta="1/2")
        with pytest.raises(CertificateError, match="expected units"):
            certify(release(described))


def test_one_draw_for_private_groups_is_refused():
    noise = k_norm(["units"]) | {"scales": {"units": "100"}}
    with pytest.raises(CertificateError, match="public"):
        certify(release(part([UNITS], noise, selection=threshold(999), keys="private", delta="1/2")))


def test_gaussian_parts_add_up_as_squares():
    """Each part claims all of epsilon; the squares of both are within it, and of three no more."""
    one = part([UNITS], independent("gaussian", units=12), delta="1/1000000", per_unit=2)
    found = certify(release(one, one, epsilon="1", delta="1/1000000"))
    assert found.mu_squared == Fraction(4, 144) and found.epsilon == 1 and found.rho == Fraction(1, 72)
    with pytest.raises(CertificateError, match="together"):
        certify(release(*[one] * 5, epsilon="1", delta="1/1000000"))


def test_numbers_for_a_ledger():
    rule = threshold(40)
    described = part([UNITS, SUMS], independent("laplace", units=4, x_sum=12000), selection=rule, keys="private",
                     delta="1/1000")  # fmt: skip
    found = certify(release(described))
    assert found.pure == 1 and found.mu_squared is None and found.events == found.delta > 0
    assert found.rho == Fraction(1, 8)


def test_squares_about_a_high_centre():
    """Most of their range is below the centre: an empty row adds as much as the centre."""
    high = SQUARES | {"squares": SQUARES["squares"] | {"centre": "62500"}}
    noise = independent("laplace", x_sum=10**9, x_squares=3 * 62500)
    assert certify(release(part([high], noise, per_unit=1, epsilon="101/100"))).epsilon > 1
    noise = k_norm(["rows", "x.sum", "x.squares"]) | {
        "scales": {"rows": "3", "x.sum": "3000", "x.squares": "187500"}
    }
    assert certify(release(part([ROWS, high], noise))).epsilon == 1
    with pytest.raises(CertificateError):
        certify(release(part([ROWS, high], noise, epsilon="99/100")))
