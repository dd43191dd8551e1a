"""Assertions of releases of the largest groups: which groups, in which order, and their numbers."""

import math

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, RefusalError
from sfumato.noise import SeededWords
from sfumato.release.top_release import TopRelease
from sfumato.testing import assert_approx_equal, assert_noisy, noise_free
from sfumato.testing.assertions import top_group_assertions as largest

SIZES = {"a": 900, "b": 700, "c": 500, "d": 2, "e": 0}
K = 23


def question(k=3, keys="public", by=None, price="1"):
    rows = [(u, key) for key, n in SIZES.items() for u in range(n)]
    ids, of = zip(*rows, strict=True)
    people = sf.scan(pa.table({"id": ids, "key": of}), privacy_unit="id").with_columns(price=price)
    return people.top("key", k=k, keys=[*SIZES] if keys else None, by=by)


OPTIONS = {"epsilon": 3, "delta": 1e-9}
SUM = sf.sum("price", lower=0, upper=2.5)


@pytest.mark.flakiness(k=K)
@pytest.mark.parametrize("keys, counts", [(None, True), ("public", True), (None, False)])
def test_a_right_release_passes(keys, counts):
    release = question(keys=keys).release(**OPTIONS, counts=counts)
    assert_approx_equal(release, SIZES)
    table = pa.table({"key": [*SIZES], "units": [*SIZES.values()]})
    assert_approx_equal(release, table)
    assert_approx_equal(release, table.to_pandas())


@pytest.mark.flakiness(k=K)
@pytest.mark.parametrize("price, keys", [("1", "public"), ("1.5", None)])
def test_sums(keys, price, recorder):
    release = question(keys=keys, by=SUM, price=price).release(**OPTIONS)
    assert_approx_equal(release, {key: n * float(price) for key, n in SIZES.items()})
    assert_approx_equal(release, recorder[release].truth)
    assert recorder[release].kept.column("sum").to_pylist() == [n * float(price) for n in (900, 700, 500)]
    with pytest.raises(AssertionError, match="3 of 3 values are off"):
        assert_approx_equal(release, {key: 2.5 * n for key, n in SIZES.items()})


def seeded():
    return SeededWords(5)


def test_wrong_truths_are_told():
    release = question().release(**OPTIONS, unsafe_words=seeded())
    with pytest.raises(AssertionError, match="rank 1: 'a', of 3, where there is one of 800; probability"):
        assert_approx_equal(release, SIZES | {"a": 3, "e": 800}, k=K)
    with pytest.raises(AssertionError, match="expected 200 within"):
        assert_approx_equal(release, SIZES | {"c": 200}, k=K)
    with pytest.raises(ParameterError, match="of public groups alone"):
        assert_approx_equal(release, SIZES | {"never": 3}, k=K)
    private = question(keys=None).release(**OPTIONS, unsafe_words=seeded())
    with pytest.raises(AssertionError, match="rank 3: 'c', of 0, cannot be shown"):
        assert_approx_equal(private, SIZES | {"c": 0}, k=K)
    four = question(k=4, keys=None).release(**OPTIONS, unsafe_words=seeded())
    with pytest.raises(AssertionError, match="nothing behind rank 3, where there is one of 700"):
        assert_approx_equal(four, SIZES | {"f": 700}, k=K)
    for wrong in ("a", {"a": "many"}, [1, 2], {}, {"a": {}}):
        with pytest.raises((ParameterError, AssertionError)):
            assert_approx_equal(release, wrong, k=K)
    for given in ({"tolerance": 3}, {"law": release.plan.measurement.law}, {"keys": ["key"]}):
        with pytest.raises(ParameterError, match="left out"):
            assert_approx_equal(release, SIZES, k=K, **given)


@pytest.mark.flakiness(k=K)
def test_noise_is_there():
    many = {f"k{i}": 30 for i in range(150)}
    rows = [(u, key) for key, n in many.items() for u in range(n)]
    ids, of = zip(*rows, strict=True)
    asked = sf.scan(pa.table({"id": ids, "key": of}), privacy_unit="id").top("key", k=150, keys=[*many])
    release = asked.release(epsilon=1)
    assert_noisy(release, many)
    assert_approx_equal(release, many)
    with noise_free():
        still = asked.release(epsilon=1)
    with pytest.raises(AssertionError, match="noise is missing"):
        assert_noisy(still, many)
    with pytest.raises(RefusalError, match="ranks show no noise"):
        assert_noisy(asked.release(epsilon=1, counts=False), many)


@pytest.mark.long
@pytest.mark.parametrize("keys, epsilon", [(None, 1), ("public", 8)])
def test_a_right_release_fails_no_more_often_than_it_says(keys, epsilon):
    """Of 200 releases of groups that are near to each other at most a tenth fail at k=1."""
    sizes = {f"k{i}": 3 + i % 5 for i in range(12)}
    rows = [(u, key) for key, n in sizes.items() for u in range(n)]
    ids, of = zip(*rows, strict=True)
    people = sf.scan(pa.table({"id": ids, "key": of}), privacy_unit="id")
    top = people.top("key", k=4, keys=[*sizes] if keys else None, candidates=None if keys else 6)
    plan, words, failed = top.plan(epsilon=epsilon, delta=0 if keys else 0.2), seeded(), 0
    exact = pa.Table.from_batches(top._engine.statistics(plan.exact, 1000))
    for _ in range(200):
        release = TopRelease(plan, words)
        release._table = release._drawn(exact)
        judged = largest._TopGroups(release, sizes, "expected")
        each = 1 + math.log10(8)  # four draws and four numbers
        failed += bool(judged.unlikely(each) or judged.off(each))
    assert failed <= 20


def test_a_draw_and_its_number_share_the_flakiness():
    rows = pa.table({"id": range(9), "key": ["a"] * 9})
    asked = sf.scan(rows, privacy_unit="id").top("key", k=1, keys=["a"])
    release = asked.release(epsilon="0.001", unsafe_words=seeded())
    shown, law = release.to_arrow()["units"][0].as_py(), release.plan.measurement.law
    reach = law.rounded_tolerance(K + math.log10(2))
    assert reach > law.rounded_tolerance(K) + 9
    assert_approx_equal(release, {"a": shown + reach}, k=K)
    with pytest.raises(AssertionError, match="off"):
        assert_approx_equal(release, {"a": shown + reach + 1}, k=K)
