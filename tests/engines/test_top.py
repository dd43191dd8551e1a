"""The largest groups, from a table to a release: truth, error bars, composition, odd tables and refusals."""

from __future__ import annotations

import copy
import math
from fractions import Fraction as F

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.budget.closed_forms import zcdp_delta
from sfumato.errors import BudgetError, ParameterError, QueryError, RefusalError
from sfumato.noise import Gaussian, SeededWords

SIZES = {"a": 900, "b": 700, "c": 500, "d": 2}


def table(sizes=SIZES, type_=None):
    rows = [(u, key) for key, n in sizes.items() for u in range(n)] * 2  # two rows of each: one unit
    ids, keys = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"id": pa.array(ids, pa.int64()), "key": pa.array(keys, type_)})


def scan(data=None):
    return sf.scan(table() if data is None else data, privacy_unit="id")


def words():
    return SeededWords(11)


def test_public_groups():
    question = scan().top("key", k=3, keys=["a", "b", "c", "never"])
    found = question.release(epsilon=3, unsafe_words=words()).to_arrow().to_pydict()
    assert found["rank"] == [1, 2, 3] and found["key"] == ["a", "b", "c"]
    assert all(abs(n - SIZES[k]) < 60 for n, k in zip(found["units"], found["key"], strict=True))


def test_private_groups_stop_at_the_end():
    question = scan().top("key", k=4)
    release = question.release(epsilon=3, delta=1e-9, unsafe_words=words())
    assert release.to_arrow()["key"].to_pylist() == ["a", "b", "c"]
    assert release.to_arrow() is release.to_arrow()


def test_without_counts_and_error_bars():
    question = scan().top("key", k=2, keys=["a", "b"])
    bare = question.release(epsilon=3, counts=False, unsafe_words=words())
    assert bare.to_arrow().column_names == ["rank", "key"]
    with pytest.raises(RefusalError):
        bare.errors()
    release = question.release(epsilon=3, unsafe_words=words())
    one, all_ = release.errors(0.9), release.errors(0.9, simultaneous=True)
    width = one["units"][0].as_py()
    assert release.plan.measurement.law.rounded_half_width(F(0.9)) == width < all_["units"][0].as_py()
    with pytest.raises(ParameterError):
        release.errors(1)


@pytest.mark.parametrize("k", [1, 1000])
@pytest.mark.parametrize("keys", [None, "public"])
@pytest.mark.parametrize("counts", [True, False])
def test_what_is_spent_is_within_the_budget(k, keys, counts):
    public = list(range(1000)) if keys else None
    data = pa.table({"id": [1], "key": [1]})
    question = scan(data).top("key", k=k, keys=public)
    plan = question.plan(epsilon=1, delta=1e-6, counts=counts).measurement
    missed = F(0)
    if plan.candidates is not None:
        tail = math.exp(-float(plan.rate) * plan.margin)
        missed = F((1 + math.e) * plan.candidates * tail)
    if plan.zcdp is None:
        spent = k * plan.rate + (k / plan.law.scale if counts else 0)
        assert spent <= 1 and missed <= F(1e-6) * (1 + F(1, 10**9))
        assert spent == 1
        return
    rho = k * plan.rate**2 / 8
    if counts:
        assert isinstance(plan.law, Gaussian)
        rho += F(k) / (2 * plan.law.sigma**2)
    delta = zcdp_delta(rho, F(1))
    assert delta + missed <= F(1e-6) * (1 + F(1, 10**9))
    assert delta > F(1e-6) / 3
    # Planted: the number of peels, or the numbers beside them, forgotten.
    assert zcdp_delta(4 * rho, F(1)) > F(1e-6)


@pytest.mark.parametrize("sizes", [{}, {"a": 1}, {None: 600, "a": 1}])
def test_odd_tables(sizes):
    data = table(sizes, pa.string())
    found = scan(data).top("key", k=2).release(epsilon=2, delta=1e-9, unsafe_words=words()).to_arrow()
    assert found["key"].to_pylist() == [key for key, n in sizes.items() if n > 100]
    assert found.schema.field("rank").type == found.schema.field("units").type == pa.int64()


def test_units_that_are_null_do_not_count():
    data = pa.table({"id": [None] * 900 + list(range(500)), "key": ["x"] * 900 + ["y"] * 500})
    found = scan(data).top("key", k=1, keys=["x", "y"]).release(epsilon=2, unsafe_words=words())
    assert found.to_arrow()["key"].to_pylist() == ["y"]


def test_several_keys_filters_and_files(tmp_path):
    data = table().append_column("year", pa.array([2020] * table().num_rows))
    question = scan(data).filter("key <> 'a'").top("year", "key", k=1)
    release = question.release(epsilon=2, delta=1e-6, unsafe_words=words())
    path = tmp_path / "top.parquet"
    release.write(path)
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(path).to_pydict() == release.to_arrow().to_pydict()
    assert release.to_arrow().select(["year", "key"]).to_pylist() == [{"year": 2020, "key": "b"}]
    assert len(release.to_pandas()) == len(release.to_polars()) == 1 and release.spent == (2.0, 1e-6)
    explained = release.explain()
    assert "any number of groups" in str(explained) and '"margin"' in explained.to_json()


def test_a_source_is_not_written_over(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(table(), path)
    release = sf.scan(path, privacy_unit="id").top("key", k=1).release(epsilon=1, delta=1e-6)
    with pytest.raises((ParameterError, QueryError, RefusalError)):
        release.write(path)
    with pytest.raises(RefusalError):
        copy.copy(release)


def test_refused_before_anything_is_read():
    people = scan()
    for ask in (
        lambda: people.top("id", k=1),
        lambda: people.bound(groups=1).top("key", k=1),
        lambda: people.top("key", k=0),
        lambda: people.top("key", k=3, keys=["a"]),
        lambda: people.top("key", k=3, candidates=2),
        lambda: people.with_columns(Rank="key").top("Rank", k=1),
    ):
        with pytest.raises((ParameterError, QueryError)):
            ask()
    for options in ({"epsilon": 1}, {"epsilon": math.inf, "delta": 1e-6}, {"epsilon": 1, "delta": 1}):
        with pytest.raises((ParameterError, BudgetError)):
            people.top("key", k=1).release(**options)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 1e-280), (1000, 0.9)])
def test_claims_at_extremes(epsilon, delta):
    release = scan().top("key", k=2).release(epsilon=epsilon, delta=delta, unsafe_words=words())
    assert release.to_arrow().num_rows <= 2


def spending(type_=None):
    prices = [(u, "few rich", 50) for u in range(400)] + [(u, "many", 1) for u in range(900)]
    prices += [(0, "one", 10**6)]
    ids, keys, price = zip(*prices, strict=True)
    return scan(pa.table({"id": ids, "key": keys, "price": pa.array(price, type_ or pa.float64())}))


@pytest.mark.parametrize(
    ("type_", "keys"), [(pa.float64(), None), (pa.int64(), ["few rich", "many", "one"])], ids=str
)
def test_by_sum(type_, keys):
    question = spending(type_).top("key", k=1, by=sf.sum("price", lower=0, upper=50), keys=keys)
    release = question.release(epsilon=2, delta=1e-6, unsafe_words=words())
    [row] = release.to_arrow().to_pylist()
    assert row["key"] == "few rich" and abs(row["sum"] - 20_000) < 1500
    assert release.to_arrow().schema.field("sum").type == type_
    # The noise is for what one unit adds at most.
    width = release.errors(0.95)["sum"][0].as_py()
    assert (
        width == pytest.approx(50 * 2.9957, rel=0.02) if release.plan.measurement.zcdp is None else width > 0
    )
    assert "price" in str(release.explain())


def test_what_one_unit_does_to_sums_is_what_the_plan_hides():
    for lower, upper, spread, largest in ((0, 50, 50, 50), (-3, 50, 53, 50), (-9, -2, 9, 9), (2, 7, 7, 7)):
        by = sf.sum("price", lower=lower, upper=upper)
        for table_ in (spending(pa.int64()), spending()):
            plan = table_.top("key", k=2, by=by, keys=["a", "b"]).plan(epsilon=1).measurement
            step = plan.step
            assert 2 * plan.rate * F(spread) / step <= F(1, 2) and plan.spread * step >= spread
            assert plan.law.scale * step >= 4 * largest


def test_sums_that_are_refused():
    price = spending()
    for by in (
        sf.sum("price", lower=-1, upper=50),
        sf.sum("price", lower=0, upper=50, per="row"),
        sf.count(),
    ):
        with pytest.raises((ParameterError, QueryError)):
            price.top("key", k=1, by=by)
    with pytest.raises(BudgetError):
        price.top("key", k=1, keys=["a"]).plan(epsilon=1e-20)


@pytest.mark.parametrize("values", [(math.nan, math.inf), ('"; DROP', "\x00")])
def test_keys_of_any_value(values):
    data = pa.table({"id": list(range(600)) * 2, "key": [values[0]] * 600 + [values[1]] * 600})
    found = scan(data).top("key", k=2).release(epsilon=2, delta=1e-6, unsafe_words=words()).to_arrow()
    assert sorted(map(str, found["key"].to_pylist())) == sorted(map(str, values))


def test_a_key_may_have_the_name_of_what_is_added_up():
    by = sf.sum("price", lower=0, upper=5)
    data = pa.table({"id": list(range(600)), "by.total": ["a"] * 400 + ["b"] * 200, "price": [2] * 600})
    question = scan(data).top("by.total", k=2, by=by)
    (name,) = question.statistic.names
    assert name == "by.total"
    found = question.release(epsilon=5, delta=1e-6, unsafe_words=words()).to_arrow()
    assert found["by.total"].to_pylist() == ["a", "b"]
