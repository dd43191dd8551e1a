"""Assertions on outputs that are lists: each entry is judged by its own noise."""

from __future__ import annotations

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, RefusalError
from sfumato.testing import assert_approx_equal, assert_noisy, noise_free, recording

TABLE = pa.table(
    {
        "id": list(range(60)),
        "g": ["a", "b", "c"] * 20,
        "v": pa.array([[0.6, 0.8, float(i % 2)] for i in range(60)]),
    }
)


def released(**options):
    grouped = sf.scan(TABLE, privacy_unit="id").group_by("g", keys=["a", "b", "z"]).bound(groups=1)
    return grouped.agg(s=sf.vector_sum("v", length=3, bound=2), n=sf.count_units()).release(
        epsilon=1, **options
    )


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_a_release_is_near_its_truth_and_noisy_and_one_entry_that_is_off_is_named(delta):
    with recording() as recorder:
        release = released(delta=delta)
        truth = recorder[release].truth
    assert_approx_equal(release, truth, k=15)
    with pytest.raises(RefusalError, match="^12 values cannot show"):  # a count is 0 steps off too often
        assert_noisy(release, truth, k=15)
    assert_noisy(release, truth, k=15, columns=["s"])
    wrong = truth.to_pylist()
    wrong[1]["s"][2] += 1000
    with pytest.raises(AssertionError, match=r"1 of 12 values is off(.|\n)*b.* s\[2\]"):
        assert_approx_equal(release, wrong, k=15)


def test_vectors_without_noise_are_seen():
    with noise_free(), recording() as recorder:
        release = released()
        with pytest.raises(AssertionError, match="noise is missing"):
            assert_noisy(release, recorder[release].truth.select(["g", "s"]), k=15, columns=["s"])


def test_one_vector_may_be_given_by_itself_and_must_have_its_length():
    whole = sf.scan(TABLE, privacy_unit="id").agg(s=sf.vector_sum("v", length=3, bound=2)).release(epsilon=1)
    assert_approx_equal(whole, {"s": [36, 48, 30]}, k=15)
    for given in ([36, 48], 36, "abc"):
        with pytest.raises(ParameterError, match="a list of 3 numbers"):
            assert_approx_equal(whole, {"s": given}, k=15)
