"""Gaussian noise with a part in common: made of its own draws, with its own laws; defects are found.

Seeds are fixed. sup |F_n - F| passes sqrt(ln(2 / a) / (2 n)) with probability at most a (Massart); a = 1e-12.
"""

from __future__ import annotations

import math
from fractions import Fraction as F

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.noise import Gaussian, SeededWords
from sfumato.noise import centred_noise as module
from sfumato.noise.centred_noise import FINE, MAX_SCALE, CentredGaussian

NOISE = CentredGaussian((F(3), F(8), F(1000)), F(9), (1, 3, 0), 4)


def test_a_draw_is_made_of_draws_on_the_fine_grid():
    words = SeededWords(1)
    shared = int(Gaussian(F(9) * 2**FINE).rounded(1, words=words)[0])
    expected = []
    for scale, weight in ((F(3), 1), (F(8), 3)):
        own = Gaussian(scale * 2**FINE).rounded(4, words=words).tolist()
        expected.append([math.floor(F(z + weight * shared, 2**FINE) + F(1, 2)) for z in own])
    expected.append(Gaussian(F(1000)).rounded(4, words=words).tolist())
    assert NOISE.rounded(SeededWords(1)).tolist() == expected


def far_from_the_laws(noise, n=1500):
    """Whether a number, what two groups differ by, or what one is beside another, is not as it should be."""
    words = SeededWords(str(noise))
    drawn = np.array([noise.rounded(words) for _ in range(n)])
    reach, found = math.sqrt(math.log(2 / 1e-12) / (2 * n)), []
    for i, (law, scale) in enumerate(zip(noise.laws, noise.scales, strict=True)):
        apart = Gaussian(F(math.sqrt(2)) * scale)
        for numbers, of in (
            (drawn[:, i, 0], law),
            (drawn[:, i, -1], law),
            (drawn[:, i, 0] - drawn[:, i, 1], apart),
        ):
            x = np.unique(numbers)[:: max(1, len(np.unique(numbers)) // 30)]
            # Two roundings move a difference by at most 1.
            loose = of is apart
            low, high = of.rounded_cdf((x - loose).tolist()), of.rounded_cdf((x + loose).tolist())
            share = (numbers[:, None] <= x).mean(axis=0)
            found.append(max(0.0, (np.array(low) - share).max(), (share - np.array(high)).max()))
    return max(found) > reach


def marginals_alone(monkeypatch):
    """Groups from different draws."""
    honest = CentredGaussian.rounded
    monkeypatch.setattr(
        CentredGaussian,
        "rounded",
        lambda self, words: np.stack([honest(self, words)[:, g] for g in range(self.groups)], axis=1),
    )


def not_drawn(monkeypatch):
    """What groups share is 0."""
    honest = Gaussian.rounded
    monkeypatch.setattr(
        Gaussian, "rounded", lambda self, n, words=None: honest(self, n, words=words) * (n > 1)
    )


def weight_forgotten(monkeypatch):
    """Rows have as much of it as units."""
    honest = CentredGaussian.rounded

    def rounded(self, words):
        ones = CentredGaussian(self.scales, self.shared, tuple(min(w, 1) for w in self.weights), self.groups)
        return honest(ones, words)

    monkeypatch.setattr(CentredGaussian, "rounded", rounded)


def coarse(monkeypatch):
    """The noises are rounded to whole steps times four before they are added up."""
    honest = Gaussian.rounded

    def rounded(self, n, words=None):
        return (honest(self, n, words=words) >> FINE + 2) << FINE + 2

    monkeypatch.setattr(module.Gaussian, "rounded", rounded)


def test_honest_noise_is_not_suspected():
    assert not far_from_the_laws(NOISE)


@pytest.mark.parametrize(
    "plant",
    [
        not_drawn,
        *(pytest.param(p, marks=pytest.mark.long) for p in (marginals_alone, weight_forgotten, coarse)),
    ],
)
def test_a_wrong_draw_is_found(plant, monkeypatch):
    plant(monkeypatch)
    assert far_from_the_laws(NOISE)


def test_laws_are_no_narrower_than_the_noise():
    """At each half step, wherever a real number within the rounding of the fine grid may be."""
    for noise in (NOISE, CentredGaussian((F(1, 50), F(20)), F(1, 40), (1, 1000), 2)):
        for law, scale, weight in zip(noise.laws, noise.scales, noise.weights, strict=True):
            true = math.sqrt(scale**2 + (weight * noise.shared) ** 2)
            assert 1 <= float(law.sigma) / true < 1.003
            off = (weight + 1) * 2.0**-FINE / 2 * bool(weight)
            for m in range(4):
                assert (m + 0.5) / float(law.sigma) <= (m + 0.5 - off) / true * (1 + 1e-15)


@pytest.mark.parametrize(
    "given",
    [((F(1),), F(1), (1, 0)), ((F(0),), F(1), (1,)), ((F(1),), F(0), (1,)), ((MAX_SCALE,), F(1), (1,)),
     ((F(1),), F(1), (2**11,)), ((F(1),), F(1), (-1,))],
)  # fmt: skip
def test_what_is_refused(given):
    with pytest.raises(ParameterError):
        CentredGaussian(*given, 3)
