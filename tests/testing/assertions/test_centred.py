"""Assertions of releases whose noise has a part in common: K-norm noise about half of all units, and Gaussian."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.noise import SeededWords
from sfumato.noise.centred_gaussian import CentredGaussian
from sfumato.noise.k_norm import CentredNoise
from sfumato.testing import assert_approx_equal, assert_noisy, noise_free, recording

from .test_noisy import text_of

K = 9
GROUPS = 52
pytestmark = pytest.mark.noise_cannot_matter("all noise is drawn from seeded words")
COUNT, BOTH = {"n": sf.count()}, {"n": sf.count(), "m": sf.mean("x", lower=0, upper=8)}
KINDS = {
    "k_norm": (COUNT, "k_norm", CentredNoise),
    "gaussian": (COUNT, "gaussian", CentredGaussian),
    "gaussian of two": (BOTH, "gaussian", CentredGaussian),
}


def question(outputs):
    ids = np.repeat(np.arange(400), GROUPS)
    table = pa.table({"id": ids, "g": np.arange(len(ids)) % GROUPS, "x": (ids % 9).astype(float)})
    people = sf.scan(table, privacy_unit="id").group_by("g", keys=list(range(GROUPS)))
    return people.bound(groups=GROUPS, rows=1).agg(**outputs)


def stretched(drawn, factor):
    found = replace(drawn, scales=tuple(s * F(factor) for s in drawn.scales))
    return replace(found, shared=drawn.shared * F(factor)) if isinstance(drawn, CentredGaussian) else found


def released(kind, seed=0, factor=1, drawn=None):
    """A release, with noise of so many times the scale that its plan says."""
    outputs, noise, expected = KINDS[kind]
    asked = question(outputs)
    plan = asked.plan(epsilon=F(1, 2), delta=1e-6, noise=noise)
    assert isinstance(plan.drawn, expected)
    wrong = replace(plan, drawn=drawn(plan.drawn) if drawn else stretched(plan.drawn, factor))
    release = sf.Release(wrong, asked.table.engine, unsafe_words=SeededWords(repr(seed)))
    release.to_arrow()
    release.plan = plan
    return release


def truth_of(kind):
    with recording() as recorder:
        return recorder[released(kind)].truth


@pytest.mark.parametrize("kind", KINDS)
def test_honest_releases_pass_and_wrong_ones_fail(kind):
    truth = truth_of(kind)
    for seed in range(20):
        release = released(kind, seed)
        assert_approx_equal(release, truth, k=K)
        assert_noisy(release, truth, k=K)
    assert "too narrow" in text_of(assert_noisy, released(kind, factor=0.2), truth, k=K)
    assert "too wide" in text_of(assert_noisy, released(kind, factor=9), truth, k=K)
    text = text_of(assert_approx_equal, released(kind, factor=300), truth, k=K)
    assert "values are off" in text
    outputs, noise, _ = KINDS[kind]
    with noise_free():
        plain = question(outputs).release(epsilon=F(1, 2), delta=1e-6, noise=noise)
    assert_approx_equal(plain, truth, k=K)
    assert "noise is" in text_of(assert_noisy, plain, truth, k=K)


@pytest.mark.parametrize("kind", KINDS)
def test_all_groups_with_one_noise(kind, monkeypatch):
    """What groups have in common is there, and what each has of its own is not: their differences are bare."""
    truth, known = truth_of(kind), KINDS[kind][-1]
    right = known.rounded
    monkeypatch.setattr(known, "rounded", lambda *given: np.repeat(right(*given)[:, :1], GROUPS, axis=1))
    seen = released(kind, seed=3).to_arrow()["n"].to_numpy() - truth["n"].to_numpy()
    assert len(set(np.round(seen))) == 1
    if kind == "k_norm":
        assert "too narrow" in text_of(assert_noisy, released(kind, seed=3), truth, k=K)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_that_is_missing_in_half_of_the_groups(kind, monkeypatch):
    truth, known = truth_of(kind), KINDS[kind][-1]
    right = known.rounded

    def half(self, *given):
        noise = right(self, *given)
        noise[:, : GROUPS // 2] = 0
        return noise

    monkeypatch.setattr(known, "rounded", half)
    assert "missing" in text_of(assert_noisy, released(kind), truth, k=4)
