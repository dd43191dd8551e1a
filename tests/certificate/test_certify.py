"""Descriptions of each kind: what is certified, and what is refused."""

import pytest

from sfumato.certificate import CertificateError, certify
from tests.certificate.descriptions import SUMS, UNITS, independent, part, release


def test_laplace():
    one = UNITS, SUMS
    noise = independent("laplace", units=4, x_sum=12000)
    found = certify(release(part(one, noise)))
    assert (found.epsilon, found.delta, found.pure) == (1, 0, 1)


def test_less_noise_is_refused():
    noise = independent("laplace", units=4, x_sum=11999)
    with pytest.raises(CertificateError, match="delta"):
        certify(release(part((UNITS, SUMS), noise)))
