"""Totals: what one unit moves, what is drawn, that they agree, how far they are off, and what is refused."""

from dataclasses import replace
from fractions import Fraction as F
from itertools import combinations, product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import EngineError, QueryError
from sfumato.exact import root_up
from sfumato.exact.rollup import Rollup
from sfumato.framework import LevelsDistance
from sfumato.noise import SeededWords
from sfumato.query.group_totals import _divide_total
from sfumato.transformations import Count, Moments, ValueGrid, per_group

KEYS = [(region, town) for region in "BAC" for town in (1, None, 2)]
TABLE = pa.table(
    {
        "id": list(range(12)) * 3,
        "region": ["A", "B", "B", "C"] * 9,
        "town": [1, 2, None] * 12,
        "x": [0.25 * (i % 7) for i in range(36)],
        "k": [i % 5 for i in range(36)],
    }
)
PEOPLE = sf.scan(TABLE, privacy_unit="id")
BUDGET = {"epsilon": 1, "delta": "1/1000000"}
COUNT = {"n": sf.count()}


def asked(groups=2, rows=1, sets=(), cube=False, integer=False, keys=KEYS, **aggregates):
    grouped = PEOPLE.group_by("region", "town", keys=keys)
    totals = grouped.totals(*sets, cube=cube, integer=integer)
    return totals.bound(groups=groups, rows=rows).agg(**(aggregates or COUNT))


# What is shown.


@pytest.mark.noise_cannot_matter("the words are seeded")
@pytest.mark.parametrize("cube", [False, True])
@pytest.mark.parametrize("integer", [False, True])
def test_totals_agree(cube, integer):
    question = asked(cube=cube, integer=integer, **COUNT, s=sf.sum("k", lower=0, upper=4, per="row"))
    for seed in range(3):
        rows = question.release(**BUDGET, unsafe_words=SeededWords(seed)).to_arrow().to_pylist()
        for name in ("n", "s"):
            for r in rows:
                of = [
                    c[name]
                    for c in rows[:9]
                    if (r["grouping"] & 2 or c["region"] == r["region"])
                    and (r["grouping"] & 1 or c["town"] == r["town"])
                ]
                assert r[name] == pytest.approx(sum(of), abs=0 if integer else 1e-9)
                assert not integer or (isinstance(r[name], int) and r[name] >= 0)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(-50, 50)), min_size=1, max_size=20),
    st.lists(st.integers(-40, 60), min_size=4, max_size=4),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_whole_parts_add_up_and_are_near(parts, totals, positive):
    names, place = np.unique([p for p, _ in parts], return_inverse=True)
    values = np.array([v for _, v in parts])
    wanted = np.array(totals[: len(names)], float)
    wanted = np.maximum(wanted, 0) if positive else wanted
    found = _divide_total(wanted, values, place, 0.0 if positive else -np.inf)
    assert np.all(found == np.rint(found)) and (not positive or found.min() >= 0)
    for i, total in enumerate(wanted):
        own, of = values[place == i], found[place == i]
        assert of.sum() == total
        # The nearest parts that add up to it, by the definition: moved by one number, and cut.
        low, high = own.min() - abs(total) - 60, own.max() + abs(total) + 60
        for _ in range(200):
            shift = (low + high) / 2
            exact = np.maximum(own - shift, 0) if positive else own - shift
            low, high = (shift, high) if exact.sum() > total else (low, shift)
        assert np.all(np.abs(of - exact) <= 1 + 1e-6)


# What one unit moves.

STATISTICS = [Count(2), Moments("x", "x", 2, ValueGrid(0, -3, 3))]
ROLLUP = Rollup(((0, 1), (0,), ()), (2, 3), ((0, 1, 2, 3, 4), (0, 0, 0, 1, 1), (0,) * 5))


def shape(groups=2, sizes=(F(2), F(3), F(5)), statistics=STATISTICS, of=LevelsDistance, rollup=ROLLUP):
    names = tuple(n for s in statistics for n in s.names)
    metric = of(names, (F(2), F(6))[: len(names)], sizes, rollup, tuple(range(rollup.cells)))
    body = per_group(statistics, groups=groups).output_metric.body
    size = root_up(metric.moved(body, groups))
    return replace(metric, scales=tuple(size * s for s in metric.scales))


@pytest.mark.parametrize("groups", [1, 2, 3, 4, 5])
def test_no_unit_moves_groups_and_totals_by_more_than_1_and_one_moves_them_as_far(groups):
    metric = shape(groups)
    largest = [{"rows": 2, "x.sum": s} for s in (-6, 6)]
    moved = max(
        metric.distance(dict(zip(chosen, vectors, strict=True)), {})
        for chosen in combinations(range(5), groups)
        for vectors in product(largest, repeat=groups)
    )
    assert F(99, 100) < moved <= 1


# What is drawn.


def test_totals_that_are_changed_on_their_way_are_refused():
    totals = asked().query.totals
    with pytest.raises(EngineError):
        totals.for_keys([pa.array(["A"] * 9), pa.array([1, 2, 3] * 3)])


@pytest.mark.noise_cannot_matter("the words are seeded")
def test_comparisons_are_of_totals_too():
    release = asked(groups=1).release(**BUDGET, unsafe_words=SeededWords(1))
    found = release.compare("n", ("A", None, 1), {"region": "B", "town": None, "grouping": 1})
    assert found.difference[0] < found.first - found.second < found.difference[1]
    with pytest.raises(QueryError, match="compare"):
        release.share_of_total("n")


# What is refused.


@pytest.mark.parametrize(
    "made",
    [
        PEOPLE.totals,
        lambda: asked(sets=(["regoin"],)),
        lambda: asked(sets=(["town"],), cube=True),
        lambda: asked(n=sf.count_units()),
        lambda: asked(n=sf.count_distinct("x", values=1)),
        lambda: asked(n=sf.median("x", lower=0, upper=1)),
        lambda: asked(grouping=sf.count()),
        lambda: PEOPLE.group_by("town").totals().bound(groups=1, rows=1).agg(**COUNT),
        lambda: PEOPLE.group_by("town", keys=[1, 2]).totals().bound(total_rows=3).agg(**COUNT),
    ],
)
def test_questions_that_are_refused(made):
    with pytest.raises(QueryError):
        made()
