"""Calibration: within the budget, a step less is not, and few calls."""

from fractions import Fraction as F

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.budget import Loss, calibrate, split_delta
from sfumato.budget.calibration import ROOM, threshold_delta
from sfumato.errors import BudgetError
from sfumato.exact import as_written

D = F(1, 10**6)
FINE = F(1, 2**40)

CLOSED = {
    "gaussian": lambda x: Loss(gaussian=1 / x**2),
    "gaussian and threshold": lambda x: Loss(gaussian=5 / x**2, additive_delta=D / 2),
    "gaussian and geometric": lambda x: Loss(gaussian=5 / x**2, approximate=((F(1, 1000), D / 20, 4),)),
    "geometric, many": lambda x: Loss(approximate=((1 / x, D / 200, 60),)),
    "laplace, many": lambda x: Loss(laplace=((1 / x, 40),)),
    "laplace, two kinds": lambda x: Loss(laplace=((1 / x, 30), (3 / x, 10)), additive_delta=D / 10),
    "laplace and gaussian": lambda x: Loss(laplace=((1 / x, 5),), gaussian=5 / x**2),
    "a laplace count, fixed": lambda x: Loss(laplace=((F(1, 20), 4),), gaussian=5 / x**2),
    "all": lambda x: Loss(5 / x**2, ((1 / x, 5),), 3 / x, ((F(1, 20), D / 20, 4),), D / 10),
}
SUMS = {
    "one laplace": (lambda x: Loss(laplace=((1 / x, 1),)), 1, 0, F(1)),
    "some laplace": (lambda x: Loss(laplace=((1 / x, 3), (2 / x, 2))), F(1, 2), 0, F(14)),
    "laplace, delta to spare": (lambda x: Loss(laplace=((1 / x, 3),)), 1, D, F(3)),
    "joint": (lambda x: Loss(laplace=((1 / x, 3),), pure=2 / x), 1, 0, F(2)),
    "a part is fixed": (lambda x: Loss(laplace=((1 / x, 3), (F(1, 4), 2))), 1, 0, F(6)),
    "all delta in the threshold": (lambda x: Loss(laplace=((1 / x, 3),), additive_delta=D), 1, D, F(3)),
    "geometric": (lambda x: Loss(approximate=((1 / x, D, 1),)), 2, D, F(1, 2)),
    "tiny": (lambda x: Loss(laplace=((1 / x, 7),)), F(1, 10**9), 0, F(7 * 10**9)),
    "huge": (lambda x: Loss(laplace=((1 / x, 7),)), 10**4, 0, F(7, 10**4)),
}


def counted(loss_at):
    calls = []

    def counting(x):
        calls.append(x)
        return loss_at(x)

    return counting, calls


@pytest.mark.parametrize("epsilon", [F(1, 2), F(8)])
@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms(name, epsilon):
    loss_at, calls = counted(CLOSED[name])
    found = calibrate(loss_at, epsilon, D)
    assert len(calls) < 60
    assert loss_at(found).delta(epsilon) <= D < loss_at(found * (1 - FINE)).delta(epsilon)


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_exact(name):
    loss_at, epsilon, delta, expected = SUMS[name]
    loss_at, calls = counted(loss_at)
    assert calibrate(loss_at, epsilon, delta) == expected
    assert len(calls) < 10


def test_sums_that_are_not_linear():
    loss_at, calls = counted(lambda x: Loss(laplace=((1 / x**2 + 1 / x, 2),)))
    found = calibrate(loss_at, 1, 0)
    assert len(calls) < 60
    assert loss_at(found).delta(1) == 0 < loss_at(found * (1 - FINE)).delta(1)


def test_compositions_beat_basic_composition():
    many = calibrate(lambda x: Loss(laplace=((1 / x, 40),)), 1, D)
    assert many < 30  # 40 by basic composition
    mixed = calibrate(lambda x: Loss(laplace=((1 / x, 5),), gaussian=5 / x**2), 1, D)
    assert mixed < 13


@settings(max_examples=15, deadline=None)
@given(st.floats(1e-6, 1e3), st.floats(1e-30, 0.9), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_any_budget(epsilon, delta, sensitivity, start):
    loss_at, calls = counted(lambda x: Loss(gaussian=(F(sensitivity) / x) ** 2))
    found = calibrate(loss_at, epsilon, delta, start=start)
    assert len(calls) < 60
    target = as_written(delta, "delta")
    assert loss_at(found).delta(epsilon) <= target < loss_at(found * (1 - FINE)).delta(epsilon)


@settings(max_examples=30, deadline=None)
@given(st.fractions(F(1, 10**12), F(999, 1000)), st.integers(2, 60))
def test_split_delta_is_the_largest(delta, groups):
    share = split_delta(delta, groups)
    assert 1 - (1 - share) ** groups <= delta < 1 - (1 - share * (1 + F(1, 2**74))) ** groups


def test_split_delta_special_cases():
    assert split_delta("0.3", 1) == F(3, 10) and split_delta(0, 5) == 0
    exact = split_delta(F(7, 16), 2)  # 1 - (3/4)^2
    assert F(1, 4) * (1 - F(1, 2**74)) < exact <= F(1, 4)
    tiny = split_delta(F(1, 10**300), 1000)
    assert F(1, 10**303) * (1 - F(1, 2**70)) < tiny
    assert Loss(approximate=((F(1), split_delta(D, 7), 7),)).delta(7) <= D


@pytest.mark.parametrize("delta", [F(1, 10**288), D, F(1, 3), F(999, 1000), 1 - F(1, 10**12)])
@pytest.mark.parametrize("groups", [1, 2, 60])
def test_threshold_delta_is_what_the_certificate_proves(delta, groups):
    independent, added = threshold_delta(delta, groups), threshold_delta(delta, groups, union=True)
    assert 1 - (1 - independent) ** groups < delta and added * groups < delta
    assert independent == min(split_delta(delta * (1 - ROOM), groups), F(1, 2))
    assert added == min(delta * (1 - ROOM) / groups, F(1, 2))


@pytest.mark.parametrize("union", [False, True])
def test_threshold_delta_refuses_what_rounding_would_hide(union):
    for delta, groups in ((F(1, 10**291), 1), (F(1, 10**280), 10**11)):
        with pytest.raises(BudgetError, match="less than 1e-290 for each private group"):
            threshold_delta(delta, groups, union=union)


UNBOUGHT = [
    (lambda x: Loss(gaussian=1 / x**2, additive_delta=2 * D), D, "group selection alone takes 2e-06"),
    (lambda x: Loss(gaussian=1 / x**2, additive_delta=D), D, "leaves none for Gaussian noise"),
    (lambda x: Loss(gaussian=1 / x**2), 0, "leaves none for Gaussian noise"),
    (
        lambda x: Loss(laplace=((1 / x, 1), (F(2), 1))),
        0,
        "no amount of noise is enough for epsilon = 1, delta = 0",
    ),
    (lambda x: Loss(gaussian=1 / x**2 + 9), D, "no amount of noise is enough"),
    (lambda x: Loss(gaussian=F(1, 10**6)), D, "does not depend on the multiplier"),
]


@pytest.mark.parametrize(("loss_at", "delta", "says"), UNBOUGHT)
def test_what_cannot_be_bought(loss_at, delta, says):
    with pytest.raises(BudgetError, match=says):
        calibrate(loss_at, 1, delta)


def test_bad_arguments():
    for name, ask in (
        ("epsilon", lambda: calibrate(CLOSED["gaussian"], float("nan"), D)),
        ("start", lambda: calibrate(CLOSED["gaussian"], 1, D, start=0)),
        ("delta", lambda: calibrate(CLOSED["gaussian"], 1, 1)),
        ("delta", lambda: split_delta("x", 2)),
        ("groups", lambda: split_delta(D, 1.5)),
        ("groups", lambda: split_delta(D, True)),
    ):
        with pytest.raises(BudgetError, match=name):
            ask()
