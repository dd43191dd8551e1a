"""Whole releases of this package, audited from outside at user level: each noise, and what bounds rows and groups.

Each aggregate, with Laplace noise, is in `test_every_aggregate.py`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.audit import audit, units
from sfumato.engines.duckdb import bounding_sql
from sfumato.engines.duckdb.contribution_limits import kept_rows
from sfumato.errors import RefusalError
from sfumato.testing import noise_free, release_mechanism

pytestmark = pytest.mark.long

SCHEMA = pa.schema([("unit", pa.string()), ("group", pa.string()), ("value", pa.float64())])
GROUPS = ["a", "b"]


def table(rows):
    return pa.Table.from_pylist(rows, SCHEMA)


def pairs():
    return units(groups=GROUPS, table=table)


def people(data):
    return sf.scan(data, privacy_unit="unit")


def question(data, keys=GROUPS, groups=1):
    grouped = people(data).group_by("group", keys=keys) if keys else people(data).group_by("group")
    return grouped.bound(groups=groups, rows=1).agg(
        n=sf.count(), total=sf.sum("value", lower=0, upper=1), mean=sf.mean("value", lower=0, upper=1)
    )


def question_of_vectors(data):
    vectors = people(data).with_columns(v="[value, 1 - value, 0]")
    return (
        vectors.group_by("group", keys=GROUPS)
        .bound(groups=1)
        .agg(s=sf.vector_sum("v", length=3, bound=1, norm="l2"))
    )


def question_of_rows(data, keys=GROUPS, people=True):
    table = sf.scan(data, privacy_unit="unit")
    grouped = table.group_by("group", keys=keys) if keys else table.group_by("group")
    units = {"people": sf.count_units()} if people else {}
    return grouped.bound(total_rows=3).agg(n=sf.count(), mean=sf.mean("value", lower=0, upper=1), **units)


def question_of_columns(data):
    """What is asked of two columns; correlations and regressions are made of such numbers too."""
    bounds = {"value": (0, 1), "other": (-1, 1)}
    return (
        people(data)
        .with_columns(other="CASE WHEN \"group\" = 'a' THEN value ELSE -value END")
        .bound(rows=1)
        .agg(
            c=sf.covariance("value", "other", bounds=bounds),
            n=sf.count_units(),
        )
    )


RELEASES = {
    "Laplace, public groups": (lambda d: question(d).release(epsilon=1, noise="laplace"), {"epsilon": 1}),
    "Gaussian, public groups": (
        lambda d: question(d).release(epsilon=1, delta=1e-3, noise="gaussian"),
        {"epsilon": 1, "delta": 1e-3},
    ),
    "vectors, Gaussian": (
        lambda d: question_of_vectors(d).release(epsilon=1, delta=1e-3, noise="gaussian"),
        {"epsilon": 1, "delta": 1e-3},
    ),
    "private groups": (
        lambda d: question(d, None).release(epsilon=1, delta=0.01),
        {"epsilon": 1, "delta": 0.01},
    ),
    "K-norm, public groups": (
        lambda d: question(d, groups=2).release(epsilon=1, noise="k_norm"),
        {"epsilon": 1},
    ),
    "K-norm, private groups": (
        lambda d: question(d, None).release(epsilon=1, delta=0.01, noise="k_norm"),
        {"epsilon": 1, "delta": 0.01},
    ),
    "rows over all groups, public groups": (
        lambda d: question_of_rows(d).release(epsilon=1, delta=1e-3),
        {"epsilon": 1, "delta": 1e-3},
    ),
    "rows over all groups, private groups": (
        lambda d: question_of_rows(d, None).release(epsilon=1, delta=0.01),
        {"epsilon": 1, "delta": 0.01},
    ),
    "rows over all groups, K-norm": (
        lambda d: question_of_rows(d, people=False).release(epsilon=1, noise="k_norm"),
        {"epsilon": 1},
    ),
    "covariance, Gaussian": (
        lambda d: question_of_columns(d).release(epsilon=1, delta=1e-3, noise="gaussian"),
        {"epsilon": 1, "delta": 1e-3},
    ),
    "one group, count": (
        lambda d: people(d).bound(rows=2).agg(n=sf.count()).release(epsilon=1),
        {"epsilon": 1},
    ),
}


@pytest.mark.flakiness(k=15, because="alpha of the audit")
@pytest.mark.parametrize("name", RELEASES)
def test_releases_keep_their_claim(name):
    ask, claim = RELEASES[name]
    report = audit(release_mechanism(ask), **claim, pairs=pairs(), max_samples=2000, alpha=1e-15)
    assert not report.violated, report
    assert min(samples for _, samples in report.edges) > 0


@pytest.mark.flakiness(
    k=30,
    because="the bet's wealth grows steadily, and is at its goal after some thousand of the draws that it has",
)
@pytest.mark.parametrize("name", RELEASES)
def test_releases_break_a_smaller_claim(name):
    ask, claim = RELEASES[name]
    smaller = {k: v / 8 for k, v in claim.items()}
    # The last one has three rows, which are one where that is the limit.
    crowd = [{"unit": f"u{min(i, 40)}", "group": "a", "value": 1.0} for i in range(43)]
    one = [(table(crowd), table(crowd[:40]))]
    assert audit(release_mechanism(ask), **smaller, pairs=one, max_samples=60_000).violated


@pytest.mark.flakiness(
    k=30,
    because="the bet's wealth grows steadily, and is at its goal after some thousand of the draws that it has",
)
def test_a_release_without_its_bound_is_found():
    """Rows are told to be units: 40 rows of one unit then count 40 times."""

    def unbounded(rows):
        data = table(rows).append_column("row", pa.array(np.arange(len(rows))))
        return sf.scan(data, privacy_unit="row").bound(rows=1).agg(n=sf.count()).release(epsilon=1)

    assert audit(
        release_mechanism(unbounded), epsilon=1, pairs=units(groups=GROUPS), max_samples=60_000
    ).violated


@pytest.mark.flakiness(
    k=30,
    because="the bet's wealth grows steadily, and is at its goal after some thousand of the draws that it has",
)
def test_a_limit_of_rows_that_counts_in_each_group_is_found(monkeypatch):
    """A unit with three rows in each of two groups then moves them by six rows, of which the noise hides three."""

    def in_each_group(source, columns, limit, salt):
        steps = kept_rows(source, columns, limit, salt)
        return {
            name: body.replace("PARTITION BY u ORDER", "PARTITION BY u, k0 ORDER")
            for name, body in steps.items()
        }

    monkeypatch.setattr(bounding_sql, "kept_rows", in_each_group)
    crowd = [{"unit": f"u{i}", "group": g, "value": 1.0} for i in range(9) for g in GROUPS]
    one = [(table([*crowd, *({"unit": "x", "group": g, "value": 1.0} for g in GROUPS * 3)]), table(crowd))]
    ask = release_mechanism(
        lambda d: (
            people(d).group_by("group", keys=GROUPS).bound(total_rows=3).agg(n=sf.count()).release(epsilon=1)
        )
    )
    assert audit(ask, epsilon=1, pairs=one, max_samples=60_000).violated


@pytest.mark.flakiness(k=23, because="60 draws are equal with 0.4^59 at most")
@pytest.mark.parametrize("name", RELEASES)
def test_bulk_draws_are_releases(name):
    """Without noise, each draw in bulk is the release itself; two draws with noise differ."""
    ask, _ = RELEASES[name]
    data = table([{"unit": str(i), "group": GROUPS[i % 2], "value": i / 80} for i in range(80)])
    with noise_free():
        drawn = release_mechanism(ask)(data, 3)
        expected = {}
        for row in ask(data).to_arrow().to_pylist():
            group = row.pop("group", "")
            if (vector := row.pop("s", None)) is not None:
                row |= {f"s[{i}]": entry for i, entry in enumerate(vector)}
            expected[repr(group)] = row
    for draw in range(3):
        if isinstance(drawn, dict):
            one = {k: v[draw] for k, v in drawn.items()}
        else:
            one = {f"{g}.{n}": v for g, outputs in drawn[draw].items() for n, v in outputs.items()}
        assert one == {
            (f"{g}.{n}" if g != "''" else n): v for g, row in expected.items() for n, v in row.items()
        }
    noisy = release_mechanism(ask)(data, 60)
    rows = noisy if isinstance(noisy, list) else [{k: v[i] for k, v in noisy.items()} for i in range(60)]
    # Two whole noises of scale 1 or more are equal with probability at most 0.4: all 60, below 10^-23.
    assert any(row != rows[0] for row in rows)


@pytest.mark.noise_cannot_matter("it looks at what was asked and how many draws came")
def test_the_engine_adds_up_each_table_once():
    asked = []

    def ask(data):
        asked.append(data.num_rows)
        return RELEASES["one group, count"][0](data)

    mechanism = release_mechanism(ask)
    for rows in (1, 2, 1, 2):
        data = table([{"unit": str(i), "group": "a", "value": 1.0} for i in range(rows)])
        assert len(mechanism(data, 5)["n"]) == 5
    assert asked == [1, 2]


@pytest.mark.flakiness(k=300, because="a group of one unit is shown 200 times, each at 0.01")
def test_a_group_that_is_not_shown_leaves_no_trace():
    ask, _ = RELEASES["private groups"]
    drawn = release_mechanism(ask)(table([{"unit": "1", "group": "a", "value": 1.0}]), 200)
    assert {} in drawn


def test_too_many_groups_are_refused():
    data = pa.table({"unit": np.arange(20_000), "group": np.arange(20_000)})
    keys = pa.table({"group": np.arange(20_000)})
    ask = release_mechanism(
        lambda d: (
            people(d)
            .group_by("group", keys=keys)
            .bound(groups=1, rows=1)
            .agg(n=sf.count())
            .release(epsilon=1)
        )
    )
    with pytest.raises(RefusalError, match="10,000 groups"):
        ask(data, 2)
