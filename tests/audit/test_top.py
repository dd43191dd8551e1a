"""Releases of the largest groups, audited from outside at user level."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api import largest_groups
from sfumato.api.largest_groups import Top
from sfumato.audit import audit, units
from sfumato.measurements import candidate_selection
from sfumato.testing import release_mechanism
from tests.support.changed_plans import changed_top, without_certificate

pytestmark = pytest.mark.long

SCHEMA = pa.schema([("unit", pa.string()), ("group", pa.string()), ("value", pa.float64())])
GROUPS = ["a", "b", "c"]
PRIVATE = {"epsilon": 1, "delta": 0.01}


def table(rows):
    return pa.Table.from_pylist(rows, SCHEMA)


def crowd(each, one_more=()):
    """So many people in each group, and one in others."""
    rows = [{"unit": f"u{i}", "group": g, "value": 1.0} for g, n in each.items() for i in range(n)]
    return table(rows + [{"unit": "more", "group": g, "value": 1.0} for g in one_more])


def ask(keys=GROUPS, k=2, by=None, candidates=None, **options):
    return release_mechanism(
        lambda rows: (
            sf.scan(rows, privacy_unit="unit")
            .top("group", k=k, keys=keys, by=by, candidates=candidates)
            .release(**options)
        )
    )


SUM = {"by": sf.sum("value", lower=0, upper=1)}
SPREAD = {"by": sf.sum("value", lower=-1, upper=1)}
CLAIMS = {
    "public": ({"epsilon": 1}, {}),
    "public, keys alone": ({"epsilon": 1}, {"counts": False}),
    "public, by sum": ({"epsilon": 1}, SPREAD),
    "private": (PRIVATE, {"keys": None}),
    "private, few candidates": (PRIVATE, {"keys": None, "k": 1, "candidates": 1}),
    "private, by sum": (PRIVATE, {"keys": None} | SUM),
}


@pytest.mark.flakiness(k=14, because="alpha of the audits")
@pytest.mark.parametrize("name", CLAIMS)
def test_releases_keep_their_claim(name):
    claim, options = CLAIMS[name]
    report = audit(
        ask(**claim, **options),
        **claim,
        pairs=units(groups=GROUPS, table=table),
        max_samples=200,
        alpha=1e-15,
    )
    assert not report.violated, report


THREE = crowd({"a": 3, "b": 3, "c": 3}, ["a"]), crowd({"a": 3, "b": 3, "c": 3})
ALONE = crowd({"a": 3}, ["z"]), crowd({"a": 3})
# Of two groups the first by key is the candidate, but where the other has one more.
TIED = crowd({"a": 60, "b": 60}, ["b"]), crowd({"a": 60, "b": 60})


def plan(**changes):
    """Return what has the planner make plans with other parameters, of which each follows from the plan."""
    right = largest_groups.make_top_plan

    def changed(made):
        return changed_top(made, **{name: wrong(made) for name, wrong in changes.items()})

    return lambda patch: patch.setattr(largest_groups, "make_top_plan", lambda *given: changed(right(*given)))


def exact_without_the_next_group(patch):
    right = Top._exact
    patch.setattr(Top, "_exact", lambda top, of: replace(right(top, of), largest=top.candidates))


def ties_by_key(patch):
    patch.setattr(candidate_selection, "uniform_below", lambda most, size, words: np.zeros(size, np.int64))


DEFECTS = {
    "k taken the wrong way": (plan(each=lambda p: p.epsilon * p.query.k), THREE, {}),
    "sensitivity a sixteenth": (plan(each=lambda p: 16 * p.measurement.each), THREE, {}),
    "noise of the numbers a sixteenth": (plan(scale=lambda p: Fraction(1, 16)), THREE, {"counts": True}),
    "equal groups by key": (ties_by_key, THREE, {}),
    "a forgotten end": (plan(margin=lambda p: 0), ALONE, {"keys": None, "delta": 1e-6}),
    "an end that forgets the next group": (
        exact_without_the_next_group,
        TIED,
        {"keys": None, "delta": 1e-6, "k": 1, "candidates": 1},
    ),
}


@pytest.mark.flakiness(
    k=14,
    because="the bet's wealth grows steadily, and is at its goal after some hundred of the draws that it has",
)
@pytest.mark.parametrize("name", DEFECTS)
def test_planted_defects_are_found(name, monkeypatch):
    plant, pair, options = DEFECTS[name]
    plant(monkeypatch)
    given = {"epsilon": 1, "counts": False} | options
    claim = {n: given[n] for n in ("epsilon", "delta") if n in given}
    with without_certificate():  # which refuses some of them
        assert audit(ask(**given), **claim, pairs=[pair], max_samples=20_000).violated


@pytest.mark.noise_cannot_matter("the epsilon is beyond all noise")
def test_draws_are_releases():
    """Of each group that is shown its rank and number; of what is not, no trace."""
    drawn = ask(k=2, epsilon=10**9)(crowd({"a": 9, "b": 7, "c": 1}), 2)
    assert drawn == [{"'a'": {"rank": 1, "units": 9}, "'b'": {"rank": 2, "units": 7}}] * 2
    assert ask(k=2, keys=None, counts=False, epsilon=900, delta=1e-6)(crowd({}), 1) == [{}]
