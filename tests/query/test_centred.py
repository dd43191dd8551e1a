"""Plans whose noise is about a part of all units: the release draws what the chain says, and as little as promised."""

from __future__ import annotations

from fractions import Fraction as F
from math import sqrt

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import falsify
from sfumato.noise import SeededWords
from sfumato.noise.k_norm import CentredNoise, JointNoise
from sfumato.noise.k_norm.centred_laws import best_total
from sfumato.transformations import Row

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


@pytest.mark.parametrize("rows", [1, 3])
def test_counts_of_many_public_groups_are_counted_about_half_of_all_units(rows):
    plan = weeks(rows=rows).plan(epsilon="3/2", noise="k_norm")
    assert plan.drawn == CentredNoise((rows / F(3, 2),), WEEKS, best_total(WEEKS))
    assert plan.loss == plan.chain.map(1) and plan.loss.epsilon(0) == F(3, 2) and plan.delta == 0
    assert plan.expected["n"] == pytest.approx(18.501 * rows / 1.5, rel=1e-4)


def test_other_questions_and_few_groups_have_other_noise():
    assert isinstance(weeks(11).plan(epsilon=1, noise="k_norm").drawn, JointNoise)
    assert isinstance(weeks(12).plan(epsilon=1, noise="k_norm").drawn, CentredNoise)
    both = {"n": sf.count(), "s": sf.sum("x", lower=0, upper=1)}
    for asked in (both, {"m": sf.mean("x", lower=0, upper=1)}):
        assert isinstance(weeks(**asked).plan(epsilon=1, noise="k_norm").drawn, JointNoise)
    assert weeks(limit=40).plan(epsilon=1, noise="k_norm").drawn.groups == WEEKS


def test_no_unit_moves_a_plan_by_more_than_1_and_one_moves_it_as_far():
    found = falsify(weeks(12, rows=2).plan(epsilon=1, noise="k_norm").exact_chain, 1, evaluations=120)
    assert not found.violated and found.ratio >= F(99, 100), str(found)


def test_the_chain_is_what_a_release_runs(monkeypatch):
    monkeypatch.setattr(CentredNoise, "rounded", lambda self, words=None: np.arange(self.groups)[None] * 1000)
    asked = weeks(rows=2)
    rows = [Row(r["id"], (r["week"],), r) for r in TABLE.to_pylist()]
    expected = asked.plan(epsilon=1, noise="k_norm").chain(rows)
    shown = asked.release(epsilon=1, noise="k_norm").to_arrow().to_pylist()
    assert [r["n"] for r in shown] == [expected[(r["week"],)]["rows"] for r in shown]
    assert shown[3]["n"] == 3006


@pytest.mark.noise_cannot_matter("the words are seeded")
def test_errors_and_bars_are_those_that_are_promised():
    """40 releases of 52 weeks: the error is within a fifth of what is expected, and 0.9 of 0.95 bars hold."""
    errors, inside = [], []
    for i in range(40):
        table = (
            weeks()
            .release(epsilon=2, noise="k_norm", confidence=0.95, unsafe_words=SeededWords(i))
            .to_arrow()
        )
        off = np.abs(table["n"].to_numpy() - 6)
        errors.append(sqrt((off**2).mean()))
        inside.append((off <= table["n_error"].to_numpy()).mean())
    assert sqrt(np.mean(np.square(errors))) == pytest.approx(18.5 / 2, rel=0.2)
    assert np.mean(inside) > 0.9
