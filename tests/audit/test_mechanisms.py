"""How mechanisms are called, and what is said of those that cannot be judged."""

import math
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.audit import Mechanism, MechanismError, Raised, audit
from sfumato.audit.mechanisms import BatchRaised, fingerprint, takes_size


def test_the_signature_tells_how_a_mechanism_is_called():
    for function, sized in (
        (lambda data, size: 0, True), (lambda data, size=1: 0, True), (lambda data, size, scale=2: 0, True),
        (lambda data: 0, False), (lambda data, scale=1: 0, False), (lambda *given: 0, False), (max, False),
    ):  # fmt: skip
        assert takes_size(function) is sized is Mechanism(function).vectorised
    assert Mechanism(lambda data, scale: 0, vectorised=False).vectorised is False


@pytest.mark.parametrize(
    "outputs", [np.arange(4), list(range(4)), pa.array(range(4)), pd.Series(range(4)), pl.Series(range(4))]
)
def test_batches_of_outputs(outputs):
    assert list(Mechanism(lambda data, size: outputs).draw([1], 4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("outputs", [np.zeros(3), 2.5, "text", None, {"a": [1, 2]}, {}])
def test_wrong_number_of_outputs(outputs):
    with pytest.raises(MechanismError, match=r"mechanism was called for 4 outputs and returned"):
        Mechanism(lambda data, size: outputs).draw([1], 4)


@pytest.mark.parametrize(
    ("dataset", "change"),
    [
        ([0.5, 1.0], lambda d: d.sort(reverse=True)),
        (np.zeros(3), lambda d: d.__setitem__(0, 1.0)),
        ([{"unit": 1}], lambda d: d[0].pop("unit")),
        (pd.DataFrame({"a": [1, 2]}), lambda d: d.__setitem__("b", 1)),
        ([math.nan], lambda d: d.__setitem__(0, 1.0)),
        ([0.5], lambda d: d.append(d)),
    ],
)
@pytest.mark.parametrize("size", [3])
def test_a_changed_dataset(dataset, change, size):
    before = fingerprint(dataset)
    with pytest.raises(MechanismError, match="changes its dataset"):
        Mechanism(change).draw(dataset, size)
    assert fingerprint(dataset) == before
    assert len(Mechanism(lambda data: 0).draw(dataset, size)) == size


def test_a_hanging_mechanism_has_no_verdict():
    forever = threading.Event()

    def mechanism(dataset):
        if len(dataset) == 3:
            forever.wait()
        return 0.0

    with pytest.raises(MechanismError, match="hangs"):
        audit(Mechanism(mechanism, call_seconds=0.1), epsilon=1)
    forever.set()


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize("limit", [None, 60.0])
@pytest.mark.parametrize(
    ("error", "output"),
    [
        (KeyError("income"), Raised("KeyError", "'income'")),
        (SystemExit(3), Raised("SystemExit", "3")),
        (Silent(), Raised("Silent")),
    ],
)
def test_exceptions_are_outputs_of_single_draws(error, output, limit):
    def mechanism(dataset):
        raise error

    assert Mechanism(mechanism, call_seconds=limit).draw([1], 2) == [output] * 2


def test_an_exception_of_a_batch_belongs_to_the_call():
    def mechanism(dataset, size):
        if size > 1:
            raise ValueError("size")
        return [1.0]

    with pytest.raises(BatchRaised):
        Mechanism(mechanism).draw([1], 3)
    assert Mechanism(mechanism).draw([1], 3, singly=True) == [1.0, 1.0, 1.0]


def test_a_mechanism_that_raises_always_has_no_verdict():
    def mechanism(dataset):
        raise TypeError("not a number")

    with pytest.raises(MechanismError, match=r"always raises: TypeError, on all \d+ pairs of datasets"):
        audit(mechanism, epsilon=1)


@pytest.mark.parametrize("singly", [True, False])
def test_two_sides_are_drawn_in_random_order_call_by_call(singly):
    """The order is drawn, but the same in every process."""
    calls = []

    def batch(data, size):
        calls.append(data[0])
        return [len(calls)] * size

    mechanism = Mechanism(batch) if not singly else Mechanism(lambda data: batch(data, 1)[0])
    firsts = []
    for _ in range(100):
        first, second = mechanism.draw_both(([0], [1]), 100)
        assert len(first) == len(second) == 100
        # One after the other, within each pair of draws; two calls in all where a call gives all draws.
        assert {abs(a - b) for a, b in zip(first, second, strict=True)} == {1}
        firsts += [a < b for a, b in zip(first, second, strict=True)][:: 1 if singly else 100]
    assert 0.2 * len(firsts) < sum(firsts) < 0.8 * len(firsts)
