"""Laws of whole noise: against exact sums, and assertions that hold for right noise and fail for wrong."""

import math
import re
from functools import cache

import mpmath
import numpy as np
import pytest

from sfumato.errors import ParameterError, RefusalError
from sfumato.noise import DiscreteLaplace, Laplace, SeededWords
from sfumato.testing import (
    DiscreteGaussian,
    Pmf,
    assert_approx_equal,
    assert_noisy,
    complementary_laplace_tolerance,
)
from sfumato.testing.discrete_laws import to_assertion_law
from sfumato.testing.flakiness import Account, running

K = 23
pytestmark = pytest.mark.noise_cannot_matter("all noise is drawn from seeded words")


@cache
def masses(law, reach):
    """P(X = x), by mpmath."""
    if isinstance(law, Pmf):
        return law._masses
    with mpmath.workdps(40):
        if isinstance(law, DiscreteLaplace):
            powers = {x: -abs(x) / mpmath.mpf(str(float(law.scale))) for x in range(-reach, reach + 1)}
        else:
            double = 2 * mpmath.mpf(str(float(law.sigma))) ** 2
            powers = {x: -(mpmath.mpf(x) ** 2) / double for x in range(-reach, reach + 1)}
        weights = {x: mpmath.exp(power) for x, power in powers.items()}
        total = mpmath.fsum(weights.values())
        return {x: w / total for x, w in weights.items()}


LAWS = [(DiscreteLaplace(s), int(90 * s) + 90) for s in (0.25, 2)]
LAWS += [(DiscreteGaussian(s), int(20 * s) + 20) for s in (0.25, 0.75, 8)]


@pytest.mark.parametrize("law, reach", LAWS, ids=lambda p: repr(p) if not isinstance(p, int) else "")
def test_a_law_against_mpmath(law, reach):
    exact, loose = masses(law, reach), isinstance(law, DiscreteGaussian)
    law = to_assertion_law(law)
    assert abs(law.zero - exact[0]) < 1e-14
    for x in (0, 1, 2, 5, 9):
        outside = mpmath.fsum(p for y, p in exact.items() if abs(y) > x)
        if outside > mpmath.mpf(10) ** -60:
            bound, truth = law.log10_outside(x), float(mpmath.log10(outside))
            assert truth - 1e-12 <= bound <= truth + (0.35 if loose else 1e-12)
    for k in (1, 9):
        smallest = next(t for t in range(reach) if sum(p for y, p in exact.items() if abs(y) > t) <= 10.0**-k)
        assert smallest <= law.tolerance(k) <= smallest + loose
    rates = np.array([-3.0, -0.2, 0.7])
    for rate, found in zip(rates, law._log_moments(rates), strict=True):
        terms = (p * mpmath.exp(rate * law._rate_unit * abs(y) ** law._power) for y, p in exact.items())
        assert abs(found - mpmath.log(mpmath.fsum(terms))) < 1e-10


def test_a_pmf_is_the_law_that_it_writes():
    law = DiscreteLaplace(2)
    same = Pmf({x: float(p) for x, p in masses(law, 200).items()})
    shifted = Pmf(lambda x: np.exp(-np.abs(x - 1) / 2) * math.tanh(1 / 4), low=-1500, high=1500)
    for k in (1, 5, 20):
        assert same.tolerance(k) == law.tolerance(k)
        assert 0 <= shifted.tolerance(k) - law.tolerance(k) <= 1
    assert same.zero == pytest.approx(to_assertion_law(law).zero, abs=1e-15)
    assert Pmf({0: 1}).log10_outside(0) == -math.inf and Pmf({0: 1}).tolerance(9) == 0


def drawn(law, n, seed):
    """Whole noise of a law, by the quantiles of uniform numbers."""
    exact = masses(law, 60 * int(getattr(law, "scale", 0) or getattr(law, "sigma", 1)) + 60)
    places = sorted(exact)
    cumulated = np.cumsum([float(exact[x]) for x in places])
    uniform = (SeededWords(seed).take(n) >> np.uint64(11)) * 2.0**-53
    return np.array(places)[np.minimum(np.searchsorted(cumulated, uniform), len(places) - 1)]


def fails(call, *args, **options):
    """The text of a failure, or an empty one; what it costs is not counted here."""
    try:
        with running(Account()):
            call(*args, **options)
    except AssertionError as error:
        return str(error)
    return ""


RIGHT = [DiscreteLaplace("1/4"), DiscreteGaussian(3), Pmf({0: "0.9", 7: "0.1"})]


@pytest.mark.long
@pytest.mark.parametrize("law", RIGHT, ids=repr)
def test_right_noise_passes_and_wrong_noise_fails(law):
    """25 times at k = 1 it fails at most as often as k says: more than 12 by chance below 1e-6 of seeds."""
    n = 2000
    noise, zeros = drawn(law, n, "right"), [0] * n
    assert_noisy(noise.tolist(), zeros, law=law, k=K)
    assert_approx_equal(noise.tolist(), zeros, law=law, k=K)
    assert "missing" in fails(assert_noisy, zeros, zeros, law=law, k=K)
    half = np.where(np.arange(n) % 2 == 0, noise, 0)
    assert fails(assert_noisy, half.tolist(), zeros, law=law, k=9)
    assert fails(assert_noisy, (4 * noise).tolist(), zeros, law=law, k=K)
    failed = sum(
        bool(fails(assert_noisy, drawn(law, 200, f"run {i}").tolist(), [0] * 200, law=law, k=1))
        for i in range(25)
    )
    assert failed <= 12
    spread = law.tolerance(K)
    assert "off" in fails(assert_approx_equal, spread + 1, 0, law=law, k=K)
    assert not fails(assert_approx_equal, spread, 0, law=law, k=K)


def test_noise_that_a_law_never_gives_fails():
    coin = Pmf({-1: "1/4", 0: "1/2", 1: "1/4"})
    values = [1, -1, 0] * 100
    assert "is 2, which" in fails(assert_noisy, [*values[:4], 2, *values[5:]], [0] * 300, law=coin, k=K)
    assert "never gives" in fails(assert_noisy, [0.5, *values], [0] * 301, law=DiscreteLaplace(2), k=K)


def test_a_check_that_cannot_fail_is_refused():
    for call in (
        lambda: assert_noisy(6, 5, tolerance=0.0, k=K),
        lambda: assert_noisy({"a": 1, "b": 2}, {"a": 1, "b": 2}, tolerance={"a": 1, "b": 0}),
        lambda: assert_noisy(
            [1, 2], [1, 2], tolerance=lambda k: complementary_laplace_tolerance(k, 1, 1, rounded=True), k=K
        ),
    ):
        with pytest.raises(ParameterError, match="^tolerance is 0, but must be greater than 0.*law=Laplace"):
            call()
    for tolerance in (math.inf, {"a": math.inf}, lambda k: math.inf):
        with pytest.raises(ParameterError, match="^tolerance is inf, but must be finite"):
            assert_approx_equal({"a": 5}, {"a": 6}, tolerance=tolerance, k=K)
    for law in (Laplace(2), DiscreteLaplace(2), Pmf({0: "0.9", 1: "0.1"})):
        for n in (1, 10):
            with pytest.raises(RefusalError, match=rf"^{n} values? cannot show at k = 23") as refused:
                assert_noisy([5] * n, [5] * n, law=law, k=K)
        least = int(re.search(r"at least (\d+) values", str(refused.value))[1])
        # What is advised works: then missing noise fails, and with a few values less it is refused.
        assert "missing" in fails(assert_noisy, [5] * least, [5] * least, law=law, k=K)
        few = int(0.8 * least)
        with pytest.raises(RefusalError):
            assert_noisy([5] * few, [5] * few, law=law, k=K)
    with pytest.raises(RefusalError, match="values with wider noise"):
        assert_noisy([5] * 99, [5] * 99, law=Pmf({0: 1}), k=K)
    for nothing in ([], {}, {"a": {}}):
        for check in (assert_approx_equal, assert_noisy):
            with pytest.raises(RefusalError, match="no value to compare"):
                check(nothing, nothing, tolerance=1, k=K)


@pytest.mark.parametrize(
    "call",
    [
        lambda: DiscreteLaplace(0),
        lambda: DiscreteGaussian("1e200"),
        lambda: Pmf(lambda x: [[0.5, 0.5]] * len(x), low=-1, high=0),
        lambda: Pmf(lambda x: np.exp(-np.abs(x) / 2) * math.tanh(1 / 4), low=-100, high=100),
        lambda: Pmf({0: 0.5}),
        lambda: Pmf({0: 1.5, 1: -0.5}),
        lambda: Pmf({0.5: 1}),
        lambda: Pmf({}),
        lambda: Pmf(lambda x: x),
        lambda: Pmf({0: 1}, low=-1, high=1),
        lambda: Pmf(lambda x: x, low=0, high=10**7),
    ],
)
def test_what_is_no_law_is_refused(call):
    with pytest.raises(ParameterError):
        call()
