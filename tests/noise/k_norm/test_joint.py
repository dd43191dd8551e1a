"""One draw for very many groups: all blocks of them share λ and μ."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np

from sfumato.noise import SeededWords
from sfumato.noise.k_norm import Cone, JointNoise
from sfumato.noise.k_norm.sampling import block

COUNT = JointNoise(Cone(0), (F(1),), 2**20)


def blocks_differ(numbers):
    """Whether blocks do not reach about as far as all together: one of n uniform numbers is among the last 60/n.

    None is in one of 256 honest ends with probability below 256 (1 - 60/n)^n < 1e-23.
    """
    parts = numbers.reshape(-1, block)
    slack = (numbers.max() - numbers.min()) * 60 / block
    return bool(
        (parts.max(axis=1) < numbers.max() - slack).any() or (parts.min(axis=1) > numbers.min() + slack).any()
    )


def test_a_million_groups_share_one_draw():
    words = SeededWords(3)
    numbers = COUNT.rounded(words)[0]
    assert numbers.shape == (2**20,) and not blocks_differ(numbers)
    # Their size is a Gamma number of shape groups + 2, within 9 deviations of it but for 1e-18.
    assert abs(np.ptp(numbers) / 2**20 - 1) < 9 / 2**10 + 60 / 2**20


def test_blocks_that_draw_for_themselves_are_found():
    words = SeededWords(3)
    small = JointNoise(COUNT.cone, (F(2**20, block),), block)
    assert blocks_differ(np.concatenate([small.rounded(words)[0] for _ in range(2**20 // block)]))
