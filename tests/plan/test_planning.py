"""Plans that are remembered: of the same question with the same options, and of no other."""

from __future__ import annotations

import gc
import weakref

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import BudgetError
from sfumato.plan import planning


def planned(keys=None, unit="id", **options):
    rows = pa.table({"id": [1], "name": ["a"], "k": [1], "x": [1.0]})
    table = sf.scan(rows, privacy_unit=unit).filter(options.pop("where", "k > 0")).group_by("k", keys=keys)
    asked = table.bound(groups=options.pop("groups", 2), rows=1).agg(
        n=sf.count(), m=sf.mean("x", lower=0, upper=options.pop("upper", 2))
    )
    return asked.plan(**({"epsilon": 1, "delta": 1e-6} | options))


def test_a_question_that_is_asked_again_has_the_same_plan():
    one, other = planned(), planned()
    assert planning._chosen.cache_info().hits == 1
    assert (one.scales, one.laws, one.selection, one.loss) == (
        other.scales,
        other.laws,
        other.selection,
        other.loss,
    )


@pytest.mark.parametrize(
    "other",
    [
        {"unit": "name"}, {"where": "k > 1"}, {"groups": 1}, {"upper": 3}, {"epsilon": 2}, {"delta": 1e-7},
        {"noise": "gaussian"}, {"group_selection": "laplace"}, {"pre_threshold": 2}, {"keys": [1, 2]},
    ],
    ids=str,
)  # fmt: skip
def test_what_differs_is_planned_anew(other):
    planned()
    found = planned(**other)
    assert planning._chosen.cache_info().hits == 0
    planning._chosen.cache_clear()
    assert found == planned(**other)


def test_a_remembered_plan_has_the_groups_that_are_asked_for():
    """Of public groups only their number decides; which they are is the question's own."""
    for keys in ([1, 2], [3, 4]):
        for noise in ("laplace", "k_norm"):
            plan = planned(keys=keys, noise=noise)
            assert plan.query.public_groups == tuple((key,) for key in keys)
            assert plan.exact.public_keys.column("k").to_pylist() == keys
    assert planning._chosen.cache_info().hits == 2


def test_who_changes_a_plan_changes_no_other():
    one, scales, laws = planned(), dict(planned().scales), dict(planned().laws)
    one.scales.clear()
    one.laws.clear()
    assert (planned().scales, planned().laws) == (scales, laws)
    assert scales
    assert laws


@pytest.mark.parametrize("noise", ["auto", "k_norm"])
def test_of_a_question_no_values_are_remembered(noise):
    """Which groups there are, or the labels that a type declares, may be large."""
    plan = planned(keys=[1, 2], noise=noise)
    held = weakref.ref(plan.query.public_keys)
    remembered = plan.query.kind
    assert remembered.public_groups == ((None,), (None,))
    assert remembered.public_keys.nbytes == 0
    del plan
    gc.collect()
    assert held() is None


def test_a_budget_that_buys_nothing_is_refused_each_time():
    for _ in range(2):
        with pytest.raises(BudgetError):
            planned(delta=0)
