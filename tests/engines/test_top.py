"""The largest groups, from a table to a release: truth, error bars, composition, odd tables and refusals."""

import copy
import math
from fractions import Fraction as F

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import BudgetError, ParameterError, QueryError, RefusalError
from sfumato.noise import SeededWords

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


@pytest.mark.parametrize("values", [(math.nan, math.inf), ('"; DROP', "\x00")])
def test_keys_of_any_value(values):
    data = pa.table({"id": list(range(600)) * 2, "key": [values[0]] * 600 + [values[1]] * 600})
    found = scan(data).top("key", k=2).release(epsilon=2, delta=1e-6, unsafe_words=words()).to_arrow()
    assert sorted(map(str, found["key"].to_pylist())) == sorted(map(str, values))
