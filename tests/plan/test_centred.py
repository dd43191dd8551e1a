"""Plans whose noise is about a part of all units: the release draws what the chain says, and as little as promised."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction as F
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import falsify
from sfumato.exact import root_up
from sfumato.framework import CentredDistance, Norm, Product
from sfumato.measurements.correlated_noise import centred_noise
from sfumato.measurements.independent_noise import IndependentNoise
from sfumato.noise import SeededWords
from sfumato.noise.centred_noise import CentredGaussian
from sfumato.testing import assert_approx_equal, noise_free, recording
from sfumato.transformations import (
    Count,
    CountUnits,
    Moments,
    Row,
    ValueGrid,
    bound_groups,
    cone_of,
    per_group,
)
from tests.support.plan_chains import same_loss

from .test_k_norm import STATISTICS, WidthOfSum, vectors

WEEKS = 52
TABLE = pa.table(
    {
        "id": [i for i in range(6) for _ in range(WEEKS)],
        "week": list(range(WEEKS)) * 6,
        "x": [0.1 * (i % 7) for i in range(6 * WEEKS)],
    }
)


def weeks(count=WEEKS, limit=None, rows=1, **asked):
    grouped = sf.scan(TABLE, privacy_unit="id").group_by("week", keys=list(range(count)))
    return grouped.bound(groups=limit or count, rows=rows).agg(**(asked or {"n": sf.count()}))


GAUSSIAN = {"noise": "gaussian", "delta": "1/1000000"}
QUESTIONS = {
    "count": {"n": sf.count()},
    "people and rows": {"u": sf.count_units(), "n": sf.count()},
    "mean": {"n": sf.count(), "m": sf.mean("x", lower=0, upper=2)},
    "variance": {"n": sf.count(), "v": sf.variance("x", lower=0, upper=2)},
    "sum by unit": {"u": sf.count_units(), "s": sf.sum("x", lower=0, upper=3)},
}


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("asked", QUESTIONS)
def test_no_unit_moves_gaussian_numbers_by_more_than_1_and_one_moves_them_nearly_as_far(asked, rows):
    plan = weeks(5, rows=rows, **QUESTIONS[asked]).plan(epsilon=1, **GAUSSIAN)
    assert isinstance(plan.measurement.noise, CentredGaussian)
    # The falsifier's groups are plain numbers.
    statistics, rows_domain = plan.requirements.statistics, plan.exact_chain.input_domain
    metric = replace(plan.metric, keys=range(5))
    moved = per_group(statistics, groups=5, together=metric)
    found = falsify(bound_groups(5, domain=rows_domain) >> moved, 1, evaluations=200)
    assert not found.violated and found.ratio >= F(8, 10), str(found)
    assert (
        plan.metric.moved(plan.requirements.body, 5)
        <= 1
        < plan.metric.moved(plan.requirements.body, 5) * F(1001, 1000)
    )


class Generous(Moments):
    """Rows beyond the limit are not scaled down."""

    def contribution(self, rows):
        return Counter({n: v * max(1, len(rows) - self.rows) for n, v in super().contribution(rows).items()})


class NoSquares(Moments):
    """Squares are forgotten in what a row may add."""

    @property
    def body(self):
        return replace(super().body, largest_square=1)


def most_moved(statistics, centre):
    """The farthest that a unit of up to four rows in each of two groups moves: over the bound, and squared."""
    body = Product(tuple(s.body for s in statistics))
    cone = cone_of(statistics)
    counts = 1 + cone.units
    beside = [scale * 2 for scale in body.split(Norm.L2)[counts:]]
    metric = CentredDistance(cone, (*cone.bounds[:counts], *beside), F(3), centre, ["a", "b"])
    size = root_up(metric.moved(body, 2))
    metric = replace(metric, scales=tuple(size * s for s in metric.scales), total=size * metric.total)
    assert per_group(statistics, groups=2, together=metric).map(1) == 1
    distinct = sorted(set(map(tuple, vectors(statistics))))
    rng = Random(1)
    pairs = [(v, v) for v in distinct] + [(v, rng.choice(distinct)) for v in distinct * 2]
    tables = [
        {"a": dict(zip(cone.names, v, strict=True)), "b": dict(zip(cone.names, w, strict=True))}
        for v, w in pairs
    ]
    alone = [{"a": t["a"]} for t in tables[: len(distinct)]]
    return max(metric.distance(t, {}) for t in [*tables, *alone])


@pytest.mark.parametrize("centre", [F(1, 4), F(3, 4)])
@pytest.mark.parametrize("name", STATISTICS)
def test_no_rows_of_small_grids_move_a_unit_by_more_than_1(name, centre):
    assert F(1, 2) < most_moved(STATISTICS[name], centre) <= 1


GRID = ValueGrid(0, -3, 3)


@pytest.mark.parametrize(
    "statistics",
    [
        [Count(2), Generous("x", "x", 2, GRID)],
        [Count(2), NoSquares("x", "x", 2, GRID, True, None, 0, 0)],
        [CountUnits(), WidthOfSum("x", "x", 0, 0, 4, True, 0)],
    ],
    ids=["not scaled down", "squares forgotten", "width of a sum"],
)
def test_a_wrong_contribution_is_found_by_all_rows(statistics):
    assert most_moved(statistics, F(1, 4)) > 1


@pytest.mark.parametrize("asked", QUESTIONS)
def test_the_loss_of_gaussian_noise_is_what_its_chain_says(asked):
    plan = weeks(20, rows=2, **QUESTIONS[asked]).plan(epsilon=1, **GAUSSIAN)
    assert same_loss(plan) and plan.loss.delta(1) <= F(1, 10**6)
    assert plan.loss.delta(F(99, 100)) > F(1, 10**6)
    assert plan.measurement.noise == centred_noise(plan.metric, plan.multiplier)
    assert "a part in common" in str(plan.explain())
    told = plan.explain().to_dict()["statistics"]
    assert tuple(F(s["noise_scale"]) for s in told) == plan.measurement.noise.scales
    common = [F(s["noise_scale_in_common"]) / plan.multiplier for s in told]
    assert tuple(common) == plan.metric.common


def test_the_chain_of_gaussian_noise_is_what_a_release_runs(monkeypatch):
    def known(self, words=None):
        return 1000 * np.arange(len(self.scales))[:, None] + np.arange(self.groups)

    monkeypatch.setattr(CentredGaussian, "rounded", known)
    asked = weeks(rows=2, **QUESTIONS["mean"])
    rows = [Row(r["id"], (r["week"],), r) for r in TABLE.to_pylist()]
    plan = asked.plan(epsilon=1, **GAUSSIAN)
    exact = plan.exact_chain(rows)
    (batch,) = asked.release(epsilon=1, **GAUSSIAN)._draw()
    for name, step in plan.steps.items():
        drawn = [int(F(v) / step) for v in batch.numbers.values[name]]
        at = plan.measurement.names.index(name)
        assert drawn == [exact.get((week,), Counter())[name] + 1000 * at + week for week in range(WEEKS)]


def test_errors_of_gaussian_noise_are_those_of_the_goal():
    """52 public weeks, of which each unit is in all; counts and sums of other numbers of groups."""
    for epsilon, most in (("1/2", 35), (1, 18), (2, 9.5)):
        plan = weeks().plan(epsilon=epsilon, **GAUSSIAN)
        assert plan.laws["units"].standard_deviation <= most
    sums = {"n": sf.count(), "s": sf.sum("x", lower=-1, upper=1, per="row")}
    for groups, count, total in ((12, 13.5, 18.5), (20, 16.5, 23.5), (50, 24.4, 36.4)):
        plan = weeks(groups, **sums).plan(epsilon=1, **GAUSSIAN)
        by_name = {n: law.standard_deviation * float(plan.steps[n]) for n, law in plan.laws.items()}
        assert by_name["units"] <= count and by_name["x[-1,1].sum"] <= total


def test_each_number_keeps_its_own_noise_where_little_is_gained():
    def kind(asked):
        return type(asked.plan(epsilon=1, **GAUSSIAN).measurement.noise)

    assert kind(weeks(2)) is CentredGaussian and kind(weeks(1)) is kind(weeks(limit=4)) is IndependentNoise
    quantile = {"q": sf.quantiles("x", 0.5, lower=0, upper=1), "n": sf.count()}
    assert kind(weeks(**quantile)) is IndependentNoise
    assert kind(weeks(**{"s": sf.sum("x", lower=-1, upper=1)})) is IndependentNoise
    schema = pa.schema([("id", pa.int64()), ("week", pa.int64())])
    people = sf.scan(schema, privacy_unit="id").group_by("week", keys=[1, 2, 3, 4])
    assert kind(people.bound(groups=4, rows=1).agg(n=sf.count())) is CentredGaussian  # on Beam, too
    tiny = {"epsilon": "1e-12", "delta": "1e-12", "noise": "gaussian"}  # beyond what is drawn in fine steps
    assert type(weeks().plan(**tiny).measurement.noise) is IndependentNoise


@pytest.mark.long
@pytest.mark.noise_cannot_matter("the words are seeded")
def test_bars_of_gaussian_noise_hold_as_often_as_they_say():
    asked, inside = weeks(12, **QUESTIONS["mean"]), []
    for i in range(60):
        options = {"epsilon": 2, "confidence": 0.95, "unsafe_words": SeededWords(i)}
        table = asked.release(**options, **GAUSSIAN).to_arrow()
        off = np.abs(table["n"].to_numpy() - 6)
        inside.append((off <= table["n_error"].to_numpy()).mean())
    assert np.mean(inside) > 0.9


@pytest.mark.noise_cannot_matter("the words are seeded")
def test_assertions_and_recorders_know_of_it():
    with recording() as recorder:
        release = weeks(12, **QUESTIONS["mean"]).release(epsilon=1, unsafe_words=SeededWords(3), **GAUSSIAN)
        truth = recorder[release].truth
    assert truth["n"].to_pylist() == [6] * 12
    assert_approx_equal(release, truth, k=9)
    wrong = truth.set_column(1, "n", pa.array([600] * 12))
    with pytest.raises(AssertionError):
        assert_approx_equal(release, wrong, k=9)
    with noise_free():
        still = weeks(12).release(epsilon=1, **GAUSSIAN)
    assert still.to_arrow()["n"].to_pylist() == [6] * 12


@pytest.mark.noise_cannot_matter("bars of counts follow from the laws alone")
@pytest.mark.parametrize("noise", ["laplace", "gaussian", "k_norm"])
def test_simultaneous_bars_exist_at_any_confidence(noise):
    """What each of many bars may fail with is told apart from 0, where its confidence is no longer from 1."""
    budget = {"epsilon": 2, "noise": noise, "delta": "1/1000000" if noise == "gaussian" else 0}
    release = weeks(12).release(**budget, unsafe_words=SeededWords(1))
    for confidence in (0.9, 1 - 2.0**-53):
        one, every = (release.errors(confidence, simultaneous=s)["n"].to_pylist() for s in (False, True))
        assert len({*one}) == len({*every}) == 1 and one[0] < every[0]
