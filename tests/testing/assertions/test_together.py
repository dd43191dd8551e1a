"""Assertions of releases whose noise is drawn together: what must pass passes as often as stated, and defects fail."""

import math
from fractions import Fraction as F

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import RefusalError
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.testing import assert_approx_equal, assert_noisy, noise_free, recording
from sfumato.testing.assertions.released_values import ReleasedCells
from tests.support.changed_plans import scaled, without_certificate

from .test_noisy import text_of

K = 9
LONG = pytest.mark.long
pytestmark = pytest.mark.noise_cannot_matter("all noise is drawn from seeded words")
# Groups, the most groups of a unit, whether groups are public; and the noise that a plan then has.
KINDS = {
    "joint": (60, 60, True, JointNoise),
    "of each group": (60, 1, True, SeparateNoise),
    "private": (40, 2, False, SeparateNoise),
}


def asked(kind, rows=1, beyond=None, **outputs):
    groups, most, public, _ = KINDS[kind]
    ids = np.repeat(np.arange(500 if most > 2 else 20_000), most)
    own = (np.arange(len(ids)) * 7) % groups
    whole = pa.array(np.arange(len(ids)) % 11 - 2)
    table = pa.table({"id": ids, "g": own, "x": (np.arange(len(ids)) % 11) - 2.0}).append_column(
        pa.field("whole", whole.type, nullable=False), whole
    )
    people = sf.scan(table, privacy_unit="id").group_by("g", keys=list(range(groups)) if public else None)
    return people.bound(groups=most, rows=rows, beyond=beyond).agg(
        **(outputs or {"n": sf.count(), "m": sf.mean("x", lower=0, upper=8)})
    )


def released(question, seed=0, factor=1, epsilon=4, **options):
    """A release, with noise of so many times the scale that its plan says."""
    plan = question.plan(epsilon=epsilon, delta=1e-6, noise="k_norm", **options)
    wrong = scaled(plan, F(factor))
    with without_certificate():
        release = sf.Release(wrong, question.table._engine, unsafe_words=SeededWords(repr(seed)))
    release.to_arrow()
    release.plan = plan
    return release


def truth_of(question, **options):
    with recording() as recorder:
        return recorder[released(question, **options)].truth


ALL = {
    "n": sf.count(), "u": sf.count_units(), "c": sf.count("x"), "s": sf.sum("x", lower=-2, upper=9, per="row"),
    "m": sf.mean("x", lower=-2, upper=8), "v": sf.variance("x", lower=-2, upper=8),
    "d": sf.stddev("x", lower=-2, upper=8),
}  # fmt: skip


@LONG
@pytest.mark.parametrize("kind", KINDS)
def test_honest_releases_pass_and_wrong_ones_fail(kind):
    """Noise of another scale, no noise, another truth: each is found, and named."""
    question = asked(kind, rows=2, **ALL)
    # Noise of some steps at least, as rounding to whole steps hides the spread of less.
    options = {"epsilon": 4 if kind == "joint" else F(1, 10)}
    assert isinstance(released(question, **options).plan.measurement.noise, KINDS[kind][-1])
    truth = truth_of(question, **options)
    for seed in range(3):
        release = released(question, seed, **options)
        assert_approx_equal(release, truth, k=K)
        assert_noisy(release, truth, k=K)
    for factor, text in ((0.5, "too narrow"), (3, "too wide")):
        wrong = released(question, factor=factor, **options)
        if wrong.to_arrow().num_rows == len(truth):
            assert text in text_of(assert_noisy, wrong, truth, k=K)
    if KINDS[kind][2]:
        text = text_of(assert_approx_equal, released(question, factor=300, **options), truth, k=K)
        assert "values are off" in text and "probability at most" in text
    with noise_free():
        plain = question.release(delta=1e-6, noise="k_norm", **options)
    assert_approx_equal(plain, truth, k=K)
    assert "noise is" in text_of(assert_noisy, plain, truth, k=K)


@pytest.mark.parametrize("kind", ["joint", pytest.param("of each group", marks=LONG)])
def test_noise_that_is_missing_in_half_of_the_groups(kind, monkeypatch):
    question = asked(kind)
    truth, known = truth_of(question), KINDS[kind][-1]
    right = known.rounded

    def half(self, *given):
        noise = right(self, *given)
        noise[:, : noise.shape[1] // 2] = 0
        return noise

    monkeypatch.setattr(known, "rounded", half)
    text = text_of(assert_noisy, released(question), truth, k=4)
    assert "missing" in text or "too narrow" in text


@pytest.mark.parametrize("output, wide", [("n", True), pytest.param("m", False, marks=LONG)])
def test_what_some_outputs_alone_show(output, wide):
    """Of a mean alone the count's noise is not known: it may be in part of the sum's, so nothing is too wide."""
    question = asked("joint")
    truth = truth_of(question).select(["g", output])
    assert_noisy(released(question), truth, k=4, columns=[output])
    assert "too narrow" in text_of(assert_noisy, released(question, factor=0.1), truth, k=4, columns=[output])
    if wide:
        assert "too wide" in text_of(assert_noisy, released(question, factor=3), truth, k=4, columns=[output])
    else:
        assert_noisy(released(question, factor=3), truth, k=4, columns=[output])


@LONG
@pytest.mark.parametrize("kind", KINDS)
def test_assertions_fail_no_more_often_than_stated(kind):
    """At k = 1, in 40 releases: more than 16 failures have a probability below 1e-6."""
    question = asked(kind)
    truth = truth_of(question)
    failed = {assert_approx_equal: 0, assert_noisy: 0}
    for seed in range(40):
        release = released(question, seed)
        for check in failed:
            try:
                check(release, truth, k=1)
            except AssertionError:
                failed[check] += 1
    assert all(times <= 16 for times in failed.values()), failed


def test_private_groups():
    """A large group that is missing fails, a small one may be missing; the rule's chance is that of its draws."""
    counts = {"large": 500, "small": 4}
    table = pa.table({"id": range(504), "g": [g for g, n in counts.items() for _ in range(n)]})
    people = sf.scan(table, privacy_unit="id").group_by("g").bound(groups=1)
    question = people.agg(u=sf.count_units(), m=sf.sum("id", lower=0, upper=10))
    release = released(question, epsilon=0.5)
    assert release.to_arrow()["g"].to_pylist() == ["large"]
    expected = {g: {"u": n} for g, n in counts.items()}
    assert_approx_equal(release, expected, k=K, columns=["u"])
    text = text_of(assert_approx_equal, release, expected | {"other": {"u": 500}}, k=K, columns=["u"])
    assert "missing, in expected alone: 'other'" in text
    cells, drawn = ReleasedCells(release), release.plan.measurement.noise.rounded(4000, SeededWords(1))[0]
    least = release.plan.selection.tau
    for units in (least - 4, least, least + 4):
        misses = (units + drawn < least).mean()
        found = cells.log10_missing(("x",), {"u": float(units)})
        assert found == 0 if units < least else abs(10**found - misses) < 5 * math.sqrt(0.25 / 4000)


def test_groups_that_may_be_missing_are_not_judged():
    counts = {g: 3000 if g % 2 else 20 for g in range(100)}
    names = [g for g, n in counts.items() for _ in range(n)]
    people = sf.scan(pa.table({"id": range(len(names)), "g": names}), privacy_unit="id").group_by("g")
    question = people.bound(groups=1).agg(u=sf.count_units(), s=sf.sum("id", lower=0, upper=10))
    truth = truth_of(question, epsilon=0.5)
    assert released(question, epsilon=0.5).to_arrow().num_rows < 100
    assert_noisy(released(question, epsilon=0.5), truth, k=K)
    wrong = released(question, epsilon=0.5, factor=0.3)
    assert "too narrow" in text_of(assert_noisy, wrong, truth, k=K)
    unknown = {g: {"s": row["s"]} for g, row in zip(counts, truth.to_pylist(), strict=True)}
    with pytest.raises(RefusalError, match="shows its noise"):
        assert_noisy(released(question, epsilon=0.5), unknown, k=K, columns=["s"])
