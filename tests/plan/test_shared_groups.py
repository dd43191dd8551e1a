"""Private groups without a limit: each unit shares a weight of 1 among its groups."""

from fractions import Fraction
from math import sqrt

import mpmath as mp
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.budget import Loss
from sfumato.errors import ParameterError, QueryError
from sfumato.exact import root_up
from sfumato.framework import WHOLE, ContributionDomain, PrivacyUnitDistance
from sfumato.measurements import SharedThreshold, select_groups
from sfumato.noise import Gaussian, Laplace
from sfumato.transformations import Count, CountUnits, Norm, Row, per_group, share_groups

MOST = 1000
BUDGET = {"epsilon": 1, "delta": 1e-6}


def shared(rows: pa.Table) -> sf.Question:
    return sf.scan(rows, privacy_unit="id").group_by("g").bound(groups="shared").agg()


def table(pairs) -> pa.Table:
    unit, group = zip(*pairs, strict=True)
    return pa.table({"id": pa.array(unit, pa.int64()), "g": pa.array(group, pa.int64())})


OTHERS = [(unit, unit * k % 50) for unit in range(300) for k in range(1, 1 + unit % 7)]


def sums(rows: pa.Table) -> dict[int, int]:
    question = shared(rows)
    (batch,) = question._engine.statistics(question.plan(**BUDGET).exact, 1 << 20)
    return dict(zip(*(column.to_pylist() for column in batch.columns), strict=True))


@pytest.mark.parametrize("sigma", ["1/4", "2", "50"])
@pytest.mark.parametrize("groups", [1, 5, MOST])
def test_the_threshold_is_for_every_number_of_groups(sigma, groups):
    """By mpmath: the chance of each number of groups is within delta, and at a step less one is not, or nearly so."""
    scale, delta = Fraction(sigma) * WHOLE, Fraction(1, 10**6)
    rule = SharedThreshold(Gaussian(sigma=scale), delta, groups=groups)
    with mp.workdps(60):

        def chance(t: int, tau: int) -> mp.mpf:
            weight = mp.floor(WHOLE / mp.sqrt(t))
            return (
                1 - (1 - mp.ncdf(-(tau - weight - mp.mpf(1) / 2) * scale.denominator / scale.numerator)) ** t
            )

        numbers = range(1, groups + 1)
        assert max(chance(t, rule.tau) for t in numbers) <= mp.mpf(1) / 10**6
        # The last numbers of groups are together, which moves the threshold by less than their weights differ.
        room = 1 if sigma == "1/4" or groups == 1 else WHOLE // 10 if groups == 5 else WHOLE // 70
        assert max(chance(t, rule.tau - room) for t in numbers) > mp.mpf(1) / 10**6


def test_the_loss_is_that_of_one_group():
    plan = shared(table(OTHERS)).plan(**BUDGET)
    sigma, rule = plan.scales["units"], plan.selection
    assert isinstance(rule, SharedThreshold) and rule.groups == MOST
    assert plan.exact_chain.map(1) == root_up(WHOLE**2 / sigma**2)
    assert plan.loss.gaussian == WHOLE**2 / sigma**2
    assert rule.delta_per_group <= plan.loss.additive_delta <= rule.delta_per_group * (1 + Fraction(1, 10**8))
    assert plan.loss.delta(1) <= plan.delta == Fraction(1, 10**6)
    assert plan.loss.delta(Fraction(99, 100)) > plan.delta


def test_the_claim_of_the_measurement():
    rule = SharedThreshold(Gaussian(sigma=4 * WHOLE), "1e-6", groups=9)
    chosen = share_groups(9) >> select_groups(rule, 9)
    assert chosen.map(1) == Loss(gaussian=Fraction(1, 16), additive_delta=Fraction(1, 10**6))
    assert chosen.map(0) == Loss()
    assert select_groups(rule, 9).input_domain == ContributionDomain(9, shared=True)
    assert select_groups(rule, 9).input_metric == PrivacyUnitDistance(9, shared=True)


@pytest.mark.flakiness(k=200, because="sums of 10,000 against noise of 4, and shares of one unit against 24")
def test_the_measurement_sees_shares():
    rule = SharedThreshold(Gaussian(sigma=4 * WHOLE), "1e-60", groups=4)
    rows = [Row(unit, "often", {}) for unit in range(10_000)] + [Row(-1, str(i), {}) for i in range(4)]
    assert list((share_groups(4) >> select_groups(rule, 4))(rows)) == ["often"]


@pytest.mark.parametrize("many", [1, 2, 3, 7, 999, MOST, 3000])
def test_one_unit_adds_at_most_1_in_the_l2_norm_and_changes_nobody_else(many):
    """In groups of its own and of others; of 3,000 groups it is in 1,000, whichever."""
    own = [(-1, group) for group in range(25, 25 + many)]
    before, after = sums(table(OTHERS)), sums(table(OTHERS + own * 2))
    moved = [after[group] - before.get(group, 0) for group in after if after[group] != before.get(group, 0)]
    assert before.keys() <= after.keys() and len(moved) == min(many, MOST)
    assert set(moved) == {int(WHOLE / sqrt(len(moved)))}
    assert WHOLE**2 * 0.998 <= sum(one**2 for one in moved) <= WHOLE**2


def test_rows_without_a_unit_and_their_order_change_nothing():
    rows = OTHERS + [(None, group) for group in range(80)]
    shuffled = [rows[i] for i in np.random.default_rng(3).permutation(len(rows))]
    assert sums(table(OTHERS)) == sums(table(rows)) == sums(table(shuffled))


@pytest.mark.flakiness(
    k=30, because="noise of .08 against shares of .03 and a threshold of 1.5, and 3,000 units"
)
def test_a_unit_in_very_many_groups_shows_none_of_them():
    rows = table([(-1, group) for group in range(100_000)] + [(unit, -5) for unit in range(3_000)])
    release = shared(rows).release(epsilon=200, delta=1e-16)
    assert release.to_arrow().to_pydict() == {"g": [-5]}
    assert release.to_arrow().column_names == ["g"]


@pytest.mark.flakiness(k=12, because="groups of 300 units against a threshold of 27 with noise of 4.4")
def test_numbers_of_the_groups_that_are_shown():
    """In one budget, by the keys of the first release; and the same in SQL."""
    rows = table([(unit, group) for unit in range(1000) for group in (unit % 3, 9)])
    budget = sf.Budget(epsilon=2, delta=1e-6, composition="adding")
    shown = shared(rows).release(**BUDGET, budget=budget).to_arrow()
    people = sf.scan(rows, privacy_unit="id")
    numbers = people.group_by("g", keys=shown).bound(groups=1, rows=1).agg(n=sf.count_units())
    assert numbers.release(epsilon=1, budget=budget).to_arrow()["g"].to_pylist() == [0, 1, 2, 9]
    assert budget.remaining.epsilon == 0
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon=1, delta=1e-6, privacy_unit_column=id) g FROM t GROUP BY g"
    assert sf.sql(text, tables={"t": rows}).to_arrow() == shown


def test_what_is_refused():
    people = sf.scan(table(OTHERS), privacy_unit="id")
    grouped = people.group_by("g").bound(groups="shared")
    for wrong in (people, people.group_by("g", keys=[1, 2])):
        with pytest.raises(QueryError, match="selects private groups"):
            wrong.bound(groups="shared").agg()
    for wrong in (grouped.bound(total_rows=3), grouped.bound(beyond="sample")):
        with pytest.raises(QueryError, match="takes no total_rows"):
            wrong.agg()
    with pytest.raises(QueryError, match="releases keys and no numbers"):
        grouped.agg(n=sf.count_units())
    for option in ({"noise": "laplace"}, {"group_selection": "truncated_geometric"}, {"pre_threshold": 2}):
        with pytest.raises(ParameterError, match=next(iter(option))):
            grouped.agg().plan(**BUDGET, **option)
    with pytest.raises(QueryError, match="advise: bound"):
        sf.advise(people, [grouped.agg()], **BUDGET)
    with pytest.raises(QueryError, match="analyze"):
        grouped.agg().analyze(**BUDGET)
    with pytest.raises(ParameterError, match="norm"):
        per_group([CountUnits(-20)], Norm.L1, [Fraction(1)], 3, shared=True)
    with pytest.raises(ParameterError, match="steps of"):
        per_group([Count(1)], Norm.L2, [Fraction(1)], 3, shared=True)
    with pytest.raises(ParameterError, match="law"):
        SharedThreshold(Laplace(1), "1e-6", groups=3)
    with pytest.raises(ParameterError, match="groups"):
        select_groups(SharedThreshold(Gaussian(1), "1e-6", groups=3), 4)
    assert grouped.bound(groups=3).agg(n=sf.count_units()).query.groups == 3
