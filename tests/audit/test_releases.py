"""Whole releases, audited from outside at user level: each kind of noise, and selection.

Faults of what bounds a unit, and of what is paid, are in tests/faults; here are those that only outputs show.
"""

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.api import largest_groups
from sfumato.audit import audit, units
from sfumato.testing import noise_free, release_mechanism
from tests.support.changed_plans import changed_top, without_certificate

GROUPS = ["a", "b"]
SCHEMA = pa.schema([("unit", pa.string()), ("group", pa.string()), ("value", pa.float64())])
LONG = pytest.mark.long
KEPT = pytest.mark.flakiness(k=14, because="alpha of the audit, 10^-15")
FOUND = pytest.mark.flakiness(
    k=14, because="the bet's wealth grows steadily, and is at its goal after a tenth of its draws or less"
)


def table(rows):
    return pa.Table.from_pylist(rows, SCHEMA)


def people(data):
    return sf.scan(data, privacy_unit="unit")


def crowd(count, group="a"):
    return [{"unit": f"u{i}", "group": group, "value": 1.0} for i in range(count)]


def kept(mechanism, claim, pairs, draws):
    report = audit(mechanism, **claim, pairs=pairs, max_samples=draws, alpha=1e-15, seconds=600)
    assert not report.violated, report
    assert min(samples for _, samples in report.edges) > 0, report.edges


def found(mechanism, claim, pair, draws):
    report = audit(mechanism, **claim, pairs=[pair], max_samples=draws, seconds=600)
    assert report.violated, report


# Releases of groups.


def question(data, keys=GROUPS, groups=1):
    grouped = people(data).group_by("group", keys=keys)
    return grouped.bound(groups=groups, rows=1).agg(
        n=sf.count(), total=sf.sum("value", lower=0, upper=1), mean=sf.mean("value", lower=0, upper=1)
    )


def of_vectors(data):
    vectors = people(data).with_columns(v="[value, 1 - value, 0]").group_by("group", keys=GROUPS)
    return vectors.bound(groups=1).agg(s=sf.vector_sum("v", length=3, bound=1, norm="l2"))


def of_rows(data, keys=GROUPS):
    return people(data).group_by("group", keys=keys).bound(total_rows=3).agg(n=sf.count(), u=sf.count_units())


def of_all(data):
    return people(data).bound(rows=2).agg(n=sf.count())


def of_quantiles(data):
    return people(data).bound(rows=2).agg(q=sf.median("value", lower=0, upper=1), n=sf.count())


def of_totals(data):
    return people(data).group_by("group", keys=GROUPS).totals().bound(groups=1, rows=1).agg(n=sf.count())


DELTA = {"epsilon": 1, "delta": 1e-3}
RELEASES = {
    "Laplace": (question, {}, {"epsilon": 1}, {"noise": "laplace"}),
    "Gaussian": (question, {}, DELTA, {"noise": "gaussian"}),
    "vectors": (of_vectors, {}, DELTA, {"noise": "gaussian"}),
    "private groups": (question, {"keys": None}, {"epsilon": 1, "delta": 0.01}, {}),
    "K-norm": (question, {"groups": 2}, {"epsilon": 1}, {"noise": "k_norm"}),
    "K-norm, private groups": (question, {"keys": None}, {"epsilon": 1, "delta": 0.01}, {"noise": "k_norm"}),
    "rows over all groups": (of_rows, {}, DELTA, {}),
    "quantiles": (of_quantiles, {}, {"epsilon": 1}, {"noise": "laplace"}),
    "totals": (of_totals, {}, DELTA, {"noise": "gaussian"}),
    "one group, count": (of_all, {}, {"epsilon": 1}, {}),
}
QUICK = ("one group, count",)


def asked(name):
    """Return a function that makes a release of a table, and its claim."""
    ask, options, claim, more = RELEASES[name]
    return lambda data: ask(data, **options).release(**claim, **more), claim


@pytest.mark.long
@KEPT
@pytest.mark.parametrize("name", [pytest.param(n, marks=[LONG] * (n not in QUICK)) for n in RELEASES])
def test_releases_keep_their_claim(name):
    ask, claim = asked(name)
    kept(release_mechanism(ask), claim, units(groups=GROUPS, table=table), 1400)


@LONG
@FOUND
@pytest.mark.parametrize("name", ["Gaussian", "private groups", "K-norm", "quantiles", "one group, count"])
def test_releases_break_a_smaller_claim(name):
    ask, claim = asked(name)
    rows = [*crowd(40), *({"unit": "new", "group": "a", "value": 1.0} for _ in range(3))]
    found(
        release_mechanism(ask), {k: v / 8 for k, v in claim.items()}, (table(rows), table(crowd(40))), 200_000
    )


@pytest.mark.long
@FOUND
def test_a_release_without_its_bound_is_found():
    """Rows are told to be units: 40 rows of one unit then count 40 times."""

    def unbounded(rows):
        data = table(rows).append_column("row", pa.array(np.arange(len(rows))))
        return sf.scan(data, privacy_unit="row").bound(rows=1).agg(n=sf.count()).release(epsilon=1)

    pairs = units(groups=GROUPS)
    assert audit(release_mechanism(unbounded), epsilon=1, pairs=pairs, max_samples=60_000).violated


BULK = pytest.mark.flakiness(
    k=13, because="60 draws are equal with 0.4^59 at most; 90 of a group are shown with 0.01^90"
)


@BULK
@pytest.mark.parametrize(
    "name",
    ["Laplace", *(pytest.param(n, marks=LONG) for n in ("vectors", "private groups", "K-norm", "totals"))],
)
def test_bulk_draws_are_releases(name):
    """Without noise, each draw in bulk is the release itself; draws with noise differ, and hide what is not shown."""
    ask, _ = asked(name)
    data = table([{"unit": str(i), "group": GROUPS[i % 2], "value": i / 80} for i in range(80)])
    with noise_free():
        drawn = release_mechanism(ask)(data, 3)
        shown = {}
        for row in ask(data).to_arrow().to_pylist():
            key = [row.pop(k) for k in ("group", "grouping") if k in row]
            if (vector := row.pop("s", None)) is not None:
                row |= {f"s[{i}]": entry for i, entry in enumerate(vector)}
            shown |= {f"{repr(tuple(key))[1:-1].rstrip(',')}.{n}": v for n, v in row.items()}
    for one in singly(drawn, 3):
        assert one == shown
    rows = singly(release_mechanism(ask)(data, 60), 60)
    # Two whole noises of scale 1 or more are equal with probability at most 0.4: all 60, below 10^-23.
    assert any(row != rows[0] for row in rows)
    if name == "private groups":
        assert {} in release_mechanism(ask)(table(crowd(1)), 90)


def singly(drawn, count):
    """Return draws one by one, each a mapping of a number's place to it."""
    if isinstance(drawn, dict):
        return [{k: v[i] for k, v in drawn.items()} for i in range(count)]
    return [{f"{g}.{n}": v for g, outputs in one.items() for n, v in outputs.items()} for one in drawn]


# Releases of the largest groups.


def top(k=2, keys=GROUPS, by=None, candidates=None, **options):
    options = {"epsilon": 1} | options
    return release_mechanism(
        lambda rows: (
            people(rows).top("group", k=k, keys=keys, by=by, candidates=candidates).release(**options)
        )
    )


SPREAD = sf.sum("value", lower=-1, upper=1)
PRIVATE = {"epsilon": 1, "delta": 0.01}
TOPS = {
    "public": ({"epsilon": 1}, {"by": SPREAD}),
    "keys alone": ({"epsilon": 1}, {"counts": False}),
    "private": (PRIVATE, {"keys": None, "k": 1, "candidates": 1} | PRIVATE),
}


@LONG
@KEPT
@pytest.mark.parametrize("name", TOPS)
def test_releases_of_the_largest_keep_their_claim(name):
    claim, options = TOPS[name]
    kept(top(**options), claim, units(groups=GROUPS, table=table), 1400)


ALONE = table([*crowd(3), {"unit": "more", "group": "z", "value": 1.0}]), table(crowd(3))
SAME = [*crowd(3), *crowd(3, "b")]
ONE_MORE = table([*SAME, {"unit": "more", "group": "a", "value": 1.0}]), table(SAME)
WRONG_TOPS = {
    "sensitivity a sixteenth": ({"each": lambda p: 16 * p.measurement.each}, ONE_MORE, {"counts": False}),
    "a forgotten end": ({"margin": lambda p: 0}, ALONE, {"keys": None, "delta": 1e-6, "counts": False}),
}


@LONG
@FOUND
@pytest.mark.parametrize("name", WRONG_TOPS)
def test_wrong_draws_of_the_largest_are_found(name, monkeypatch):
    changes, pair, options = WRONG_TOPS[name]
    right = largest_groups.make_top_plan

    def wrong(*given):
        plan = right(*given)
        return changed_top(plan, **{n: change(plan) for n, change in changes.items()})

    monkeypatch.setattr(largest_groups, "make_top_plan", wrong)
    claim = {"epsilon": 1, "delta": options.get("delta", 0)}
    with without_certificate():  # which refuses some of them
        found(top(**options), claim, pair, 20_000)


@pytest.mark.noise_cannot_matter("the epsilon is beyond all noise")
def test_draws_of_the_largest_are_releases():
    """Of each group that is shown its rank and number; of what is not, no trace."""
    drawn = top(epsilon=10**9)(table([*crowd(9), *crowd(7, "b")]), 2)
    assert drawn == [{"'a'": {"rank": 1, "units": 9}, "'b'": {"rank": 2, "units": 7}}] * 2
    assert top(keys=None, counts=False, epsilon=900, delta=1e-6)(table([]), 1) == [{}]
