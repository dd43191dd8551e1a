"""Private groups of plans with K-norm noise: what their threshold is charged."""

from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.budget.calibration import ROOM
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import SeparateNoise


def question(**asked: Any):
    data = pa.table(
        {"id": list(range(200)), "g": [i % 4 for i in range(200)], "x": [i / 200 for i in range(200)]}
    )
    people = sf.scan(data, privacy_unit="id").group_by("g", keys=[0, 1, 2, 3, 4])
    return people.bound(groups=5, rows=1).agg(**asked)


def private(noise="k_norm", pre_threshold=1, delta=1e-6):
    """Group g has g + 1 units, for g below 60."""
    pairs = [(100 * g + i, g, 5.0) for g in range(60) for i in range(g + 1)]
    columns = dict(zip(("id", "g", "x"), map(list, zip(*pairs, strict=True)), strict=True))
    asked = sf.scan(pa.table(columns), privacy_unit="id").group_by("g").bound(groups=1, rows=1)
    asked = asked.agg(people=sf.count_units(), m=sf.mean("x", lower=0, upper=10))
    return asked, {"epsilon": 1, "delta": delta, "noise": noise, "pre_threshold": pre_threshold}


@pytest.mark.parametrize("pre_threshold", [1, 4])
def test_a_threshold_on_the_noise_of_units_is_charged_as_its_page_says(pre_threshold):
    asked, options = private(pre_threshold=pre_threshold)
    plan = asked.plan(**options)
    rule, law = plan.selection, plan.laws["units"]
    shown = law.rounded_sf(rule.tau - 2)  # P(1 + round(Z) >= tau)
    assert shown <= float(rule.delta_per_group) * (1 + 1e-12) < law.rounded_sf(rule.tau - 3)
    assert plan.loss.additive_delta == plan.delta * (1 - ROOM) and plan.delta == F("1e-6")
    assert plan.loss.epsilon(plan.delta) == plan.epsilon == 1
    assert (
        isinstance(plan.measurement.noise, SeparateNoise)
        and replace(plan.measurement, selection=None).map(1).epsilon(0) == 1
    )
    laplace = asked.plan(**(options | {"noise": "laplace"}))
    assert rule.expected_threshold < laplace.selection.expected_threshold
    assert plan.explain().to_dict()["selection"]["rule"] == "k_norm_threshold"


@pytest.mark.noise_cannot_matter("the words are seeded")
def test_groups_are_shown_where_their_noisy_units_reach_the_threshold():
    asked, options = private()
    release = asked.release(**options, unsafe_words=SeededWords(1))
    rule, noise = release.plan.selection, release.plan.measurement.noise
    drawn = noise.rounded(60, SeededWords(1))
    expected = [g for g in range(60) if g + 1 + drawn[0, g] >= rule.tau]
    table = release.to_arrow()
    assert table["g"].to_pylist() == expected and 0 < len(expected) < 60
    assert table["people"].to_pylist() == [g + 1 + int(drawn[0, g]) for g in expected]


@pytest.mark.noise_cannot_matter("the words are seeded")
def test_groups_below_the_pre_threshold_are_never_shown():
    asked, options = private(pre_threshold=30, delta=0.4)
    release = asked.release(**options, unsafe_words=SeededWords(2))
    assert min(release.to_arrow()["g"].to_pylist()) >= 29


def test_auto_spends_no_delta_on_public_groups():
    asked = question(n=sf.count(), m=sf.mean("x", lower=0, upper=1))
    release = asked.release(epsilon=1, delta=1e-6, unsafe_words=SeededWords(1))
    assert release.plan.noise.name == "k_norm" and release.spent == (1.0, 0.0)
