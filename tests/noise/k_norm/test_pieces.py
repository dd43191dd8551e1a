"""Functions that are fitted piece by piece."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.noise.k_norm.joint_marginals import Pieces


def test_a_step_is_found_between_smooth_parts():
    steep = Pieces(lambda x: np.tanh((x - 0.5) * 1e4), [0, 0.5, 1], 1e-12)
    x = np.concatenate([[0, 0.5, 1], 0.5 + np.geomspace(1e-7, 0.4, 200)])
    assert np.abs(steep(x) - np.tanh((x - 0.5) * 1e4)).max() < 1e-10


def test_pieces_are_fitted_once_and_only_where_they_are_asked_for():
    seen = []
    line = Pieces(lambda x: seen.append(x) or x, [0, 1, 2], 1e-12)
    for _ in range(2):
        assert line(np.array([[1.2], [1.9]])).ravel() == pytest.approx([1.2, 1.9])
    assert len(seen) == 1 and seen[0].min() > 1


def test_what_is_never_smooth_ends():
    rough = Pieces(lambda x: np.sin(x * 1e9), [0, 1], 1e-12)
    assert np.isfinite(rough(np.linspace(0, 1, 5))).all()
