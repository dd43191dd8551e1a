"""Utility analysis of quantiles, and of rows that are chosen at random, beside all choices that there are."""

from itertools import combinations
from math import sqrt
from statistics import fmean

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.guidance import quantile_errors
from sfumato.guidance.unit_contributions import Share, ValuesCounted
from sfumato.plan.planning import make_plan

RNG = np.random.default_rng(5)
SIZE = 60
ROWS = pa.table(
    {
        "id": pa.array((12 * RNG.random(SIZE) ** 1.5).astype(int), mask=np.arange(SIZE) % 17 == 0),
        "town": [f"T{int(i)}" for i in 3 * RNG.random(SIZE)],
        "x": pa.array(RNG.gamma(2, 5, SIZE), mask=RNG.random(SIZE) < 0.15),
        "k": RNG.integers(-6, 12, SIZE),
    }
)
TOWNS = [f"T{i}" for i in range(4)]  # of which the last has no rows
WIDE = (-1000, 1000)  # no sum of rows is beyond


def by_town(table=ROWS, keys=TOWNS, **limits):
    return sf.scan(table, privacy_unit="id").group_by("town", keys=keys).bound(**limits)


def bounded(value, bounds):
    return min(max(value, bounds[0]), bounds[1])


def brought(rows, bounds):
    """What some rows of a unit in one group bring: numbers of which outputs are sums."""
    values = [row["x"] for row in rows if row["x"] is not None]
    whole = sum(row["k"] for row in rows)
    return {
        "n": len(rows),
        "has": len(values),
        "people": 1 if rows else 0,
        "per_row": sum(bounded(v, (0, 9)) for v in values),
        "per_unit": bounded(whole, bounds) if rows else 0,
        "lacking": bounded(sum(values), (8, 20)) if values else 0,
    }


def all_choices(total, bounds):
    """Mean and variance of each sum in each town, over all choices of so many rows of each unit."""
    units = {}
    for row in ROWS.to_pylist():
        if row["id"] is not None:
            units.setdefault(row["id"], []).append(row)
    found = {}
    for town in TOWNS:
        for rows in units.values():
            chosen = combinations(rows, min(total, len(rows)))
            each = [brought([r for r in one if r["town"] == town], bounds) for one in chosen]
            for name in each[0]:
                values = [one[name] for one in each]
                mean = fmean(values)
                known = found.setdefault((town, name), [0.0, 0.0])
                known[0] += mean
                known[1] += fmean((value - mean) ** 2 for value in values)
    return found


def asked(bounds):
    return {
        "n": sf.count(),
        "has": sf.count("x"),
        "people": sf.count_units(),
        "per_row": sf.sum("x", lower=0, upper=9, per="row"),
        "per_unit": sf.sum("k", lower=bounds[0], upper=bounds[1], per="unit"),
        "lacking": sf.sum("x", lower=8, upper=20, per="unit"),
    }


def beside_all_choices(bounds, of_sums):
    question = by_town(total_rows=2).agg(**asked(bounds))
    found = question.analyze(epsilon=1, noise="laplace", total_rows=[2, 50])
    assert [str(p.limits) for p in found.points] == [f"total_rows={n}" for n in (2, 50)]
    for point in found.points:
        expected = all_choices(point.limits.total_rows, bounds)
        for name, cell in point.cells.items():
            rough = {"per_unit": of_sums, "lacking": 0.25}.get(name, 1e-6)
            for i, town in enumerate(TOWNS):
                mean, variance = expected[town, name]
                assert cell.exact[i] + cell.bias[i] == pytest.approx(mean, rel=rough, abs=rough), (name, town)
                assert cell.choice[i] == pytest.approx(sqrt(variance), rel=rough, abs=1e-5), (name, town)


@pytest.mark.long
def test_of_chosen_rows_bias_and_deviation_are_those_of_all_choices():
    """Of counts, units and sums they are exact; of sums within bounds that no choice reaches, too."""
    beside_all_choices(WIDE, 1e-6)


def weighted_quantile(pairs, rank):
    """The smallest value up to which a share of weights is."""
    total, before = sum(w for _, w in pairs), 0.0
    for value, weight in sorted(pairs):
        before += weight
        if before >= rank * total * (1 - 1e-9):
            return value
    return None


RANKS = {"q_10": 0.1, "q_50": 0.5, "q_90": 0.9}


def quantile_question(beyond="scale", keys=TOWNS, rows=ROWS):
    q = sf.quantiles("x", list(RANKS.values()), lower=0, upper=30)
    return by_town(rows, keys, groups=1, rows=1, beyond=beyond).agg(n=sf.count(), q=q)


@pytest.fixture
def few_draws(monkeypatch):
    """Where noise is not looked at, draw it a few times."""
    monkeypatch.setattr(quantile_errors, "DRAWS", 3)


@pytest.mark.long
@pytest.mark.noise_cannot_matter("values without noise are compared, and the words are seeded")
@pytest.mark.parametrize("noise", ["laplace", "k_norm"])
def test_quantiles_are_those_of_rows_that_count_in_part(noise, few_draws):
    question = quantile_question()
    bounds = {"q": [(0, 30), (4, 9)]}
    found = question.analyze(epsilon=1, noise=noise, groups=[1, 2, 4], rows=[1, 2], bounds=bounds)
    units = {}
    for row in ROWS.to_pylist():
        if row["id"] is not None:
            units.setdefault(row["id"], {}).setdefault(row["town"], []).append(row["x"])
    for point in found.points:
        low, high = point.limits.bounds[0][1]
        for i, town in enumerate(TOWNS):
            pairs, raw = [], []
            for groups in units.values():
                here = groups.get(town, [])
                limit = None if point.limits.groups == len(TOWNS) else point.limits.groups
                part = Share(limit, scaled=True).part(len(groups))
                each = min(1.0, point.limits.rows / max(len(here), 1))
                pairs += [(x, part * each) for x in here if x is not None]
                raw += [(x, 1.0) for x in here if x is not None]
            for name, rank in RANKS.items():
                cell = point.cells[name]
                if not raw:
                    assert np.isnan(cell.exact[i]) and np.isfinite(cell.noise[i])
                    continue
                assert cell.exact[i] == weighted_quantile(raw, rank)
                expected = min(max(weighted_quantile(pairs, rank), low), high)
                assert cell.exact[i] + cell.bias[i] == pytest.approx(expected, rel=1e-9), (name, town)
                assert not cell.choice[i] and cell.noise[i] > 0


@pytest.mark.noise_cannot_matter("the words are seeded")
@pytest.mark.parametrize("noise", ["laplace", "k_norm"])
def test_what_is_drawn_is_what_an_engine_gives(noise):
    """Counts of leaves, or of places, are the engine's, but for the cut of each unit's part to the grid."""
    question = quantile_question()
    plan = make_plan(question.query, epsilon=1, noise=noise)
    batches = list(question.table._engine.statistics(plan.exact, 1 << 16, 1))
    (engine,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    seen = []
    right = quantile_errors.ExpectedQuantiles._batch

    def batch(self):
        seen.append(right(self))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantile_errors.ExpectedQuantiles, "_batch", batch)
        patch.setattr(quantile_errors, "DRAWS", 1)
        question.analyze(epsilon=1, noise=noise)
    exact, made = plan.measurement.columns(engine), plan.measurement.columns(seen[0])
    assert exact.keys() == made.keys()
    for name in exact:
        for one, other in zip(exact[name].to_pylist(), made[name].to_pylist(), strict=True):
            if isinstance(one, list):
                assert [e["leaf"] for e in one] == [e["leaf"] for e in other]
                wanted = [e["weight"] for e in one]
                assert [e["weight"] for e in other] == pytest.approx(wanted, rel=1e-3, abs=12), name
            else:
                assert int(other) == pytest.approx(int(one), abs=2)


def test_quantile_of_passes_over_what_counts_nothing():
    values = ValuesCounted(np.array([0, 3, 3, 5]), np.array([1.0, 2.0, 3.0, 7.0, 8.0]), np.ones(5), (), ())
    assert quantile_errors.find_quantiles(values, np.array([0.0, 2.0, 2.0, 1.0, 1.0]), 0.0)[0] == 2.0
    found = quantile_errors.find_quantiles(
        values, np.array([0.0, 2.0, 2.0, 0.0, 0.0]), np.array([0.5, 0.5, 0.5])
    )
    assert found[0] == 2.0 and np.isnan(found[1:]).all()
