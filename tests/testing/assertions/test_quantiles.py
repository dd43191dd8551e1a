"""Quantiles of a release, judged by a group's own values: the interval of walks, and the assertions on it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import ParameterError, RefusalError
from sfumato.noise import Gaussian, SeededWords
from sfumato.plan.noisy_trees import LeafCounts, noisy_tree
from sfumato.testing import assert_approx_equal, assert_noisy, recording
from sfumato.testing.assertions.quantile_tolerances import Chosen, Walk
from sfumato.transformations.statistics.quantile_counts import LEAVES
from tests.support.changed_plans import without_certificate

from .test_noisy import text_of

K, STEP = 23, 1 << 14
LONG = pytest.mark.long
pytestmark = pytest.mark.noise_cannot_matter("all noise is drawn from seeded words")


def counts_of(leaves: dict[int, int], groups: int = 1) -> LeafCounts:
    """The same counts by leaf in each of many groups, in steps."""
    places, weights = sorted(leaves), [leaves[leaf] for leaf in sorted(leaves)]
    position = np.arange(groups)[:, None] * LEAVES + np.array(places, np.int64)
    before = np.concatenate([[0], np.cumsum(np.tile(weights, groups))])
    return LeafCounts(position.ravel().astype(np.int64), before.astype(np.int64), groups)


class Steered:
    """A law whose noise a test chooses: by level and group, of the children of the one node that a walk is in."""

    def __init__(self, deviation: float, levels: np.ndarray) -> None:
        self.standard_deviation, self.levels = deviation, iter(levels)

    def rounded(self, count: int, words=None) -> np.ndarray:
        noise = next(self.levels)
        assert noise.size == count
        return noise.ravel()


def walked(walk: Walk, noise: list[list[list[int]]]) -> np.ndarray:
    """What walks find with each of many noises, given by level: all at once, as the same tree in many groups."""
    levels, counts = np.array(noise, np.int64).transpose(1, 0, 2), walk.counts
    groups = len(noise)
    position = np.arange(groups)[:, None] * LEAVES + counts.position
    before = np.concatenate([[0], np.cumsum(np.tile(np.diff(counts.before), groups))])
    many = LeafCounts(position.ravel().astype(np.int64), before.astype(np.int64), groups)
    law, no_bars = Steered(walk.law.standard_deviation, levels), np.zeros(0)  # bars draw for other nodes, too
    tree = noisy_tree(many, law, (walk.rank,), profile=no_bars)
    return walk.lower + tree.values[:, 0] * (walk.upper - walk.lower)


# Many small counts; counts beside which others look empty, or nearly; and huge ones.
trees = st.one_of(
    st.dictionaries(
        st.sampled_from([0, 1, 40, 300, 5000, 9000, 40_000, 65_000]), st.integers(0, 300) | st.just(10**5)
    ),
    st.dictionaries(st.integers(0, LEAVES - 1), st.integers(0, 60), max_size=25),
    st.dictionaries(st.sampled_from([0, 1, 15, 16, 17, 4095, 4096, LEAVES - 1]), st.integers(0, 2**40)),
)
ranks = st.sampled_from([0.0, 1.0, 0.5, 0.1, 0.3, 1 / 3, 1e-18, 1 - 2**-53]) | st.floats(0, 1)


@LONG
@given(trees, ranks, st.integers(0, 40), st.floats(0.01, 100), st.integers(0, 2**32))
@settings(max_examples=120, deadline=None)
def test_no_noise_within_reach_leaves_the_interval(leaves, rank, t, deviation, seed):
    """Any noise in [-t, t], among it the extremes, at small counts and at large ones."""
    walk = Walk(counts_of(leaves), Gaussian(deviation), rank, -3.0, 7.0)
    low, high = walk.ends(t)
    assert low <= walk.without_noise <= high
    rng, size = np.random.default_rng(seed), (12, 4, 16)  # numbers one by one would be most of the time
    extreme = rng.random(size) < np.repeat([0.5, 0.9, 1], 4)[:, None, None]
    tried = np.where(extreme, rng.choice([-t, t], size), rng.integers(-t, t + 1, size)).tolist()
    tried += [[[t] * 16] * 4, [[-t] * 16] * 4, [[0] * 16] * 4]
    for levels, found in zip(tried, walked(walk, tried), strict=True):
        assert low <= found <= high, levels


@LONG
def test_ties_that_floats_decide():
    """A rank of j/n beside j of n rows: the walk's floats may land on either side of the gap."""
    sides = set()
    for n in range(2, 50):
        for j in range(1, n):
            walk = Walk(counts_of({0: j, LEAVES - 1: n - j}), Gaussian("0.1"), j / n, 0.0, 1.0)
            low, high = walk.ends(0)
            assert low <= walk.without_noise <= high
            sides.add((Fraction(j / n) < Fraction(j, n), walk.without_noise > 0.5))
    assert len(sides) >= 3


@LONG
@pytest.mark.parametrize("deviation", [1, 40, 150, 600])
def test_children_that_may_look_empty(deviation):
    """The first child with rows is where rank 0 is, and a small one may be dropped beside a large one."""
    for small, t in itertools.product((5, 30, 60, 130, 310, 700, 800), (4, 20, 60)):
        walk = Walk(counts_of({0: small, LEAVES - 1: 100_000}), Gaussian(deviation), 0.0, 0.0, 1.0)
        low, high = walk.ends(t)
        tried = list(itertools.product(range(-t, t + 1), (-t, t)))
        found = walked(walk, [[[noise] + [-t] * 14 + [others]] * 4 for noise, others in tried])
        assert (low <= found).all() and (found <= high).all(), (small, t, found)


def test_ends_by_hand():
    """Three quarters of the rows are in leaf 0, the others in the last; ten rows of noise each way."""
    walk = Walk(counts_of({0: 75 * STEP, LEAVES - 1: 25 * STEP}), Gaussian(1), 0.5, 0.0, float(LEAVES))
    low, high = walk.ends(10 * STEP)
    # At the least, 85 rows in child 0 and 15 behind it: half of 100 is at 50/85 of it, and nothing in it
    # is left of its child 0. At the most, 65 rows in child 0 and 65 in children 12 to 15: a tie, and child 12,
    # which may hold its rows in its last leaf.
    assert low == pytest.approx(50 / 85) and high == pytest.approx(13 * LEAVES / 16 - 1)
    # With noise of all rows, and with none.
    low, high = walk.ends(100 * STEP)
    assert low == pytest.approx(0.5) and high == pytest.approx(LEAVES - 0.5)
    assert walk.ends(0) == (pytest.approx(walk.without_noise), pytest.approx(walk.without_noise))
    # A rank between the two: both sides of the gap, however little the noise.
    gap = Walk(walk.counts, walk.law, 0.75, 0.0, float(LEAVES))
    assert gap.ends(0) == (pytest.approx(1.0), pytest.approx(LEAVES - 1))
    # No rows and no noise: the rank itself.
    empty = Walk(counts_of({}), Gaussian(1), 0.25, 0.0, 8.0)
    assert empty.ends(0) == (pytest.approx(2.0), pytest.approx(2.0)) and empty.without_noise == 2.0


# Releases.


def columns(n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Two groups of the same size whose values differ by two deviations."""
    rng, group = np.random.default_rng(11), np.arange(n) % 2
    return group, np.clip(rng.normal(np.where(group, 60.0, 35.0), 10.0), 0, 100)


def asked(group, x, upper: float = 100) -> sf.GroupedTable:
    table = pa.table({"id": np.arange(len(x)), "g": group, "x": x})
    chosen = sf.scan(table, privacy_unit="id").group_by("g", keys=[0, 1]).bound(groups=1, rows=1)
    return chosen.agg(n=sf.count(), q=sf.quantiles("x", [0.25, 0.5, 0.75], lower=0, upper=upper))


def released(question, noise: str, seed: object = 1, **options) -> sf.Release:
    return question.release(
        epsilon=8, delta=1e-6, noise=noise, unsafe_words=SeededWords(repr(seed)), **options
    )


QUANTILES = ["q_25", "q_50", "q_75"]


def expected_of(group, x) -> dict[int, dict[str, object]]:
    return {g: {q: x[group == g] for q in ("q_25", "q_50", "q_75")} for g in (0, 1)}


@LONG
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_groups_own_values_pass_and_others_fail(noise):
    group, x = columns()
    release, expected = released(asked(group, x), noise), expected_of(group, x)
    lists = [{"g": g, "n": 2000} | {q: v.tolist() for q, v in row.items()} for g, row in expected.items()]
    shapes = [expected, lists, pa.Table.from_pylist(lists), pd.DataFrame(lists), pl.DataFrame(lists)]
    shapes.append({g: {q: pa.array(v) for q, v in row.items()} for g, row in expected.items()})
    shapes.append({g: {q: pl.Series([*v, None]) for q, v in row.items()} for g, row in expected.items()})
    shapes.append({g: {q: [*v, None, math.nan] for q, v in row.items()} for g, row in expected.items()})
    for shape in shapes:
        assert_approx_equal(release, shape, k=K, columns=QUANTILES)
    given = dict(k=K, columns=QUANTILES)
    assert "4 of 6 values are off" in text_of(
        assert_approx_equal, release, expected, **given, tolerance=dict.fromkeys(("q_25", "q_50"), 0)
    )
    text = text_of(assert_approx_equal, release, {0: expected[1], 1: expected[0]}, **given)
    assert "6 of 6 values are off" in text and "tolerances; probability at most" in text
    # A column that is shifted by one deviation, or scaled.
    for wrong in (x + 10, x * 0.7):
        assert "off" in text_of(assert_approx_equal, released(asked(group, wrong), noise), expected, **given)
    # A test clamps to the bounds that it means; other ones in the question are noticed either way.
    narrow, clamped = released(asked(group, x, 50), noise), expected_of(group, np.minimum(x, 50))
    assert "but the release's bounds are [0, 50]. Clamp the values" in text_of(
        assert_approx_equal, narrow, expected, **given
    )
    assert_approx_equal(narrow, clamped, **given)
    assert "1 q_50" in text_of(assert_approx_equal, release, clamped, **given)
    with pytest.raises(RefusalError, match="no output here shows its noise"):
        assert_noisy(release, expected, **given)


def test_what_is_no_groups_values_is_named():
    group, x = columns()
    release = released(asked(group, x), "laplace")
    with pytest.raises(RefusalError, match="q_50 is a quantile.*Pass the group's own values.*tolerance="):
        assert_approx_equal(release, {0: {"q_50": 35.0}, 1: {"q_50": 60.0}}, k=K, columns=["q_50"])
    with pytest.raises(RefusalError, match="q_50 is a quantile"):
        assert_approx_equal(release, {0: {"q_50": x[group == 0]}, 1: {"q_50": 60.0}}, k=K, columns=["q_50"])
    bad = [
        "abc",
        None,
        math.nan,
        ["a"],
        [[1.0]],
        {"leaf": 1},
        [{"leaf": LEAVES, "weight": 1}],
        [{"leaf": 1, "weight": -1}],
    ]
    for wrong in bad:
        with pytest.raises(ParameterError, match="^expected of 0 q_50 is"):
            assert_approx_equal(release, {0: {"q_50": wrong}}, k=K, columns=["q_50"])
    text = text_of(assert_approx_equal, release, {0: {"q_50": [5, Fraction(201, 2)]}}, k=K, columns=["q_50"])
    assert "expected of 0 q_50 has the value 201/2" in text


# Quantiles between chosen places: how far they may be, by the law of the choice.


def asked_to_choose(upper=100, bars=True, rows=4000):
    """Incomes of two groups, of which one is 20 above the other."""
    ids = np.arange(rows)
    table = pa.table({"id": ids, "g": ids % 2, "x": (ids * 37 % 60 + 20.0 * (ids % 2)).tolist()})
    people = sf.scan(table, privacy_unit="id").group_by("g", keys=[0, 1]).bound(groups=2, rows=1)
    return people.agg(n=sf.count(), x=sf.quantiles("x", [0.25, 0.5], lower=0, upper=upper, error_bars=bars))


def chosen_release(question, seed=0, epsilon=2, scale=1):
    plan = question.plan(epsilon=epsilon, noise="k_norm")
    wrong = tuple(replace(c, scale=c.scale * scale) for c in plan.measurement.choices)
    tampered = replace(plan, measurement=replace(plan.measurement, choices=wrong))
    with without_certificate():
        release = sf.Release(tampered, question.table._engine, unsafe_words=SeededWords(repr(seed)))
    release.to_arrow()
    release.plan = plan
    return release


def truth_of(question):
    with recording() as recorder:
        return recorder[chosen_release(question)].truth


@pytest.mark.long
@pytest.mark.parametrize("bars", [True, pytest.param(False, marks=LONG)])
def test_honest_releases_pass_and_wrong_ones_fail(bars):
    question = asked_to_choose(bars=bars)
    truth = truth_of(question)
    for seed in range(4):
        assert_approx_equal(chosen_release(question, seed, epsilon=2 if seed else "0.02"), truth, k=9)
    wrong = chosen_release(question, scale=400)
    text = text_of(
        assert_approx_equal, wrong, truth.select(["g", "x_25", "x_50"]), k=9, columns=["x_25", "x_50"]
    )
    assert "x_" in text and "probability at most" in text
    swapped = truth.set_column(0, "g", pa.array([1, 0]))
    assert "4 of 6 values are off" in text_of(assert_approx_equal, chosen_release(question), swapped, k=9)


def test_the_probability_is_that_of_the_k_at_which_the_interval_just_holds_a_value():
    walk = Walk(counts_of({i * LEAVES // 900: STEP for i in range(900)}), Gaussian(2 * STEP), 0.5, 0.0, 100.0)
    for actual in (70.0, 90.0):
        found = walk.tolerance_for(actual, 23).log10_probability
        narrow, wide = (walk.tolerance_for(actual, -found * part).tolerance for part in (0.95, 1.05))
        assert -1000 < found < -2 and narrow < actual - walk.without_noise <= wide
    assert walk.tolerance_for(100.5, 23).log10_probability == -math.inf


@pytest.mark.parametrize("rows", [0, 7])
def test_the_law_is_that_of_all_choices(rows):
    """On 9 whole places and for 3 targets all 729 choices are counted one by one."""
    table = pa.table({"id": range(rows), "x": pa.array([i * i % 9 for i in range(rows)], pa.int64())})
    question = sf.scan(table, privacy_unit="id").bound(rows=1).agg(
        x=sf.quantiles("x", [0.25], lower=0, upper=8)
    )  # fmt: skip
    plan = question.plan(epsilon=1, noise="k_norm")
    (choice,), (e,) = plan.measurement.choices, plan.requirements.estimates
    values = [i * i % 9 for i in range(rows)]
    chosen = Chosen.from_choice(choice, e, values, "x")
    steps = 1 << -choice.leaves.exponent

    def distance(target, place):
        total, goal = rows * steps, target.rank * rows * steps + target.shift
        low, high = goal - target.spread, goal + target.spread
        if target.within:
            low, high = min(max(low, 0), total), min(max(high, 0), total)
        before, upto = (steps * sum(v < place for v in values), steps * sum(v <= place for v in values))
        return max(before - high, low - upto, 0)

    weights = {}
    for places in itertools.product(range(9), repeat=3):
        largest = max(distance(t, p) for t, p in zip(choice.mechanism.targets, places, strict=True))
        weights.setdefault(largest, []).append(places)
    total = sum(len(p) * math.exp(-float(d / choice.scale)) for d, p in weights.items())
    unit = choice.mechanism.unit
    for i, d in enumerate(chosen.levels.distances.tolist()):
        # y is above the largest distance by what an exponential number is, so a choice's may be smaller.
        beyond = sum(len(p) * math.exp(-float(w / choice.scale)) for w, p in weights.items() if w * unit >= d)
        assert chosen.log10_tails[i] >= math.log10(beyond / total) - 1e-9
        low, high = chosen.ends(i)
        own = [p for w, places in weights.items() if w * unit <= d for three in places for p in three]
        assert (low, high) == (min(own), max(own))
