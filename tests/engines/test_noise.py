"""Released noise, error bars and group selection, judged by fixed thresholds.

Each test has fewer than 100 thresholds, each of which correct noise passes but for 1e-16, and is shown to fail on
planted defects. Words of a seed, and a fixed salt, make those of which a miss would be more probable repeat.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import special

import sfumato as sf
from sfumato.api.table import Table
from sfumato.measurements.group_selection import TruncatedGeometric
from sfumato.noise import Gaussian, Laplace, SeededWords
from sfumato.plan.plan import Plan
from sfumato.release.release import Release
from tests.support.changed_plans import without_certificate

FALSE_ALARM = 1e-16
pytestmark = pytest.mark.flakiness(k=14, because="fewer than 100 thresholds, each of 1e-16")
GROUPS = 2000
ASKED = dict(
    n=sf.count(), u=sf.count_units(), s=sf.sum("n", lower=-2, upper=9), m=sf.mean("x", lower=0, upper=10),
    v=sf.variance("x", lower=0, upper=10), c=sf.count("n"),
)  # fmt: skip


@pytest.fixture(params=["duckdb", "stages"])
def local_engine(request, openers):
    """Each engine of one machine, as noise does not depend on the sizes at which it computes otherwise."""
    return openers(request.param)


def by_group(groups: int, units: int) -> pa.Table:
    """In each group the same units, each with one row; x runs through 0.0, 0.5, ... and n through 0..4."""
    ids = np.tile(np.arange(units), groups)
    return pa.table({
        "id": ids, "g": np.repeat(np.arange(groups), units), "x": (ids % 20) / 2, "n": ids % 5,
    })  # fmt: skip


def exactly(engine, plan: Plan) -> pa.Table:
    return pa.Table.from_batches(list(engine.statistics(plan.exact, 1 << 16)))


def noises(exact: pa.Table, release: Release) -> dict[str, np.ndarray]:
    """Return what was added to each coordinate, in steps: one number for each group, by key."""
    plan = release.plan
    noisy, keys = {}, []
    for batch in release._draw_all():
        keys += batch.keys["g"].to_pylist()
        for name, values in batch.numbers.values.items():
            noisy.setdefault(name, []).append(values / float(plan.steps[name]))
    order = np.argsort(keys)
    assert [keys[i] for i in order] == exact["g"].to_pylist()
    return {
        name: np.concatenate(parts)[order] - np.array([int(v) for v in exact[name].to_pylist()], float)
        for name, parts in noisy.items()
    }


def fits(noise: np.ndarray, law: Laplace | Gaussian) -> bool:
    """Whether the size of rounded draws is that of the law: by Gamma's or chi's exact quantiles.

    Rounding moves a draw by at most half a step, so the threshold is wider by that.
    """
    n, unit = len(noise), float(law.unit)
    if isinstance(law, Laplace):
        size, slack = np.abs(noise).sum() / unit, n / (2 * unit)
        low, high = special.gammaincinv(n, FALSE_ALARM / 2), special.gammainccinv(n, FALSE_ALARM / 2)
    else:
        size, slack = np.sqrt((noise**2).sum()) / unit, np.sqrt(n) / (2 * unit)
        squares = special.chdtri(n, [1 - FALSE_ALARM / 2, FALSE_ALARM / 2])
        # 1 - p loses digits for the lower end: Gamma's inverse keeps them.
        low, high = np.sqrt(2 * special.gammaincinv(n / 2, FALSE_ALARM / 2)), np.sqrt(squares[1])
    centred = abs(noise.mean()) < 9 * float(law.standard_deviation) / np.sqrt(n) + 0.5
    return bool(low - slack <= size <= high + slack and centred)


def public(engine, units=40):
    table = by_group(GROUPS, units)
    opened = engine(table)
    return opened, Table(opened, "id").group_by("g", keys=list(range(GROUPS))).bound(groups=5, rows=2)


@pytest.fixture
def everybody(monkeypatch):
    """Plans for 5 groups a unit, run without that limit: the noise alone is judged here."""
    from sfumato.query.query import Query

    honest = Query._exact
    monkeypatch.setattr(Query, "_exact", lambda self, s: replace(honest(self, s), groups=GROUPS))
    with without_certificate():  # which refuses noise for fewer groups than a unit is in
        yield


@pytest.mark.long
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_each_number_has_the_noise_that_is_claimed(local_engine, everybody, noise):
    opened, table = public(local_engine)
    plan = table.agg(**ASKED).plan(epsilon=0.05, delta=1e-6, noise=noise)
    drawn = noises(exactly(opened, plan), opened.release(plan))
    assert set(drawn) == set(plan.laws)
    for name, law in plan.laws.items():
        assert fits(drawn[name], law), name
    told = {s["name"]: Fraction(s["noise_scale"]) for s in plan.explain().to_dict()["statistics"]}
    assert told == {name: law.unit for name, law in plan.laws.items()}
    # Independent: a correlation of 2000 pairs is beyond 0.2, nine standard deviations, with chance below 1e-16.
    matrix = np.corrcoef([drawn[name] for name in sorted(drawn)])
    assert np.abs(matrix - np.eye(len(drawn))).max() < 0.2


def test_two_releases_and_two_looks(local_engine, everybody):
    opened, table = public(local_engine)
    question = table.agg(u=sf.count_units())
    release = question.release(epsilon=0.05)
    exact = exactly(opened, release.plan)
    one = noises(exact, release)["units"]
    assert (one == noises(exact, release)["units"]).all()
    other = noises(exact, question.release(epsilon=0.05))["units"]
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.2 and len(set(one)) > 50


# Error bars. The truth is the same in every group, so one release is 2000 trials.


def least_covered(trials: int, rate: float) -> int:
    """The smallest number of successes whose chance of being undercut is not below the false alarm."""
    successes = np.arange(trials + 1)
    return int(successes[special.bdtr(successes, trials, rate) >= FALSE_ALARM][0])


def covered(release: Release, confidence: float, shrunk: float = 1.0) -> int:
    """Return how many bars of a count have the 40 units that each group has."""
    value, width = release.to_arrow()["u"].to_numpy(), release.errors(confidence)["u"].to_numpy() * shrunk
    return int((np.abs(value - 40) <= width).sum())


def test_error_bars_of_single_numbers_are_tight_and_shorter_ones_are_seen(local_engine, everybody):
    """A count's bar is exact: it neither covers more than it says, nor does two fifths less still pass."""
    _, table = public(local_engine)
    for noise in ("laplace", "gaussian"):
        release = table.agg(u=sf.count_units()).release(epsilon=0.05, delta=1e-6, noise=noise)
        count = covered(release, 0.8)
        assert least_covered(GROUPS, 0.8) <= count <= GROUPS - least_covered(GROUPS, 1 - 0.81)
        assert covered(release, 0.8, shrunk=0.6) < least_covered(GROUPS, 0.8)


def test_simultaneous_bars_cover_all_at_once(local_engine, everybody, fixed_salt):
    _, table = public(local_engine)
    question = table.agg(u=sf.count_units(), s=sf.sum("n", lower=-2, upper=9))
    release = question.release(epsilon=1, unsafe_words=SeededWords("all at once"))
    answer, widths = release.to_arrow(), release.errors(1 - 1e-10, simultaneous=True)
    for name, truth in (("u", 40), ("s", 80)):
        assert (np.abs(answer[name].to_numpy() - truth) <= widths[name].to_numpy()).all()


# Private groups.
def sized(sizes: dict[int, int]) -> pa.Table:
    """`sizes[n]` groups of n units each; every unit is in one group."""
    keys, ids, group, unit = [], [], 0, 0
    for size, groups in sizes.items():
        for _ in range(groups):
            keys += [f"{size}:{group}"] * size
            ids += range(unit, unit + size)
            group, unit = group + 1, unit + size
    return pa.table({"id": ids, "g": keys})


def shown(release: Release) -> dict[int, int]:
    counts: dict[int, int] = {}
    for key in release.to_arrow()["g"].to_pylist():
        size = int(key.partition(":")[0])
        counts[size] = counts.get(size, 0) + 1
    return counts


def chance(rule, units: int) -> float:
    """The probability with which a group of so many units is shown, by the rule's own description."""
    if isinstance(rule, TruncatedGeometric):
        return float(rule.probability(units))
    if units < rule.pre_threshold:
        return 0.0
    return float(rule.law.rounded_sf(rule.expected_threshold - units - 1))


def plausible(count: int, trials: int, rate: float) -> bool:
    return special.bdtr(count, trials, rate) > FALSE_ALARM and (
        count == 0 or special.bdtrc(count - 1, trials, rate) > FALSE_ALARM
    )


@pytest.mark.parametrize("pre_threshold", [1, pytest.param(8, marks=pytest.mark.long)])
@pytest.mark.parametrize("selection", ["truncated_geometric", "laplace", "gaussian"])
def test_groups_are_shown_as_often_as_the_rule_says(local_engine, selection, pre_threshold):
    sample = Table(local_engine(sized({1: 1})), "id").group_by("g").bound(groups=1).agg(u=sf.count_units())
    options = dict(epsilon=1, delta=1e-3, group_selection=selection, pre_threshold=pre_threshold)
    middle = sample.plan(**options).selection.expected_threshold
    sizes = sorted({1, max(1, pre_threshold - 1), pre_threshold, middle - 2, middle - 1, middle, middle + 2})
    trials = {size: 1500 for size in sizes}
    question = Table(local_engine(sized(trials)), "id").group_by("g").bound(groups=1).agg(u=sf.count_units())
    release = question.release(**options)
    found = shown(release)
    rule = release.plan.selection
    for size in sizes:
        if size < pre_threshold:
            assert size not in found
        assert plausible(found.get(size, 0), 1500, chance(rule, size)), (size, found)
    # One unit more or less is seen: where the slope is, the rule's neighbours are implausible.
    count = found[middle]
    assert not plausible(count, 1500, chance(rule, middle - 2)) and not plausible(
        count, 1500, chance(rule, middle + 2)
    )
