"""Automatic bounds: found with noise for a share of the budget, admissible whatever the rows are, never silent."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import BudgetError, ParameterError
from sfumato.guidance.histogram_tail import Side, log_probability
from sfumato.guidance.inferred_bounds import (
    MIN_LOOK,
    PARTS,
    Histogram,
    ValueHistograms,
    _divide_range,
    admissible,
    find_bounds,
    ladder,
)
from sfumato.noise import SeededWords
from sfumato.query.aggregates import LARGEST_MAGNITUDE, check_bounds

pytestmark = pytest.mark.noise_cannot_matter("the words are seeded, or the numbers given")
AUTO = {"lower": "auto", "upper": "auto"}
LONG = pytest.mark.long


def later(*cases):
    """Cases of the second tier."""
    return [pytest.param(*case, marks=LONG) for case in cases]


def table(values, kind=None, groups=1):
    """One row of each unit."""
    x = values if isinstance(values, pa.Array) else pa.array(values, kind or pa.float64())
    ids = pa.array(np.arange(len(x)))
    return sf.scan(
        pa.table({"id": ids, "g": pa.array(np.arange(len(x)) % groups), "x": x}), privacy_unit="id"
    )


def released(values, kind=None, seed=1, epsilon=1, delta=0, **aggregates):
    asked = aggregates or {"m": sf.mean("x", **AUTO), "s": sf.sum("x", **AUTO, per="row")}
    question = table(values, kind).bound(rows=1).agg(**asked)
    return question.release(epsilon=epsilon, delta=delta, unsafe_words=SeededWords(seed))


BELL = np.random.default_rng(3).normal(170, 10, 5_000)
WAGES = np.random.default_rng(4).lognormal(6, 0.6, 5_000)


@pytest.mark.parametrize("values", [BELL, *later((BELL * 1e-30,), (-WAGES,))])
def test_bounds_are_near_the_values(values):
    release = released(values)
    ((lower, upper),) = (found.value for found in release.found)
    spread = values.max() - values.min()
    assert (upper - lower) <= 4 * spread
    assert lower <= np.quantile(values, 0.02) and upper >= np.quantile(values, 0.98)
    shown = release.to_arrow().to_pylist()[0]
    assert abs(shown["m"] - values.mean()) < 0.1 * spread


def test_the_cost_is_all_of_epsilon_and_is_listed():
    release = released(WAGES, epsilon="1/3")
    (found,) = release.found
    assert found.epsilon + release.plan.epsilon == Fraction(1, 3)
    assert release.spent == (1 / 3, 0.0)
    told = release.explain()
    assert told.spent == (Fraction(1, 3), 0)
    assert told.to_dict()["found"] == [found.content] and str(found) in str(told)
    assert "Together they cost, besides the preliminary" in str(told)
    assert Fraction(told.to_dict()["budget"]["epsilon"]) == release.plan.epsilon


@LONG
def test_shares_are_of_the_epsilon_for_looks():
    asked = {"m": sf.mean("x", **AUTO), "t": sf.sum("x", lower=0, upper="auto")}
    release = table(WAGES).bound(rows=1).agg(**asked).release(
        epsilon=1, auto_share="1/2", unsafe_words=SeededWords(1)
    )  # fmt: skip
    rows, totals = release.found
    assert max(rows.epsilon, totals.epsilon) <= Fraction(1, 4)
    assert rows.what != totals.what and totals.value[0] == 0
    assert release.plan.spent == (1, 0) and release.plan.epsilon >= Fraction(1, 2)


ODD = {
    "nothing": [],
    "both infinities": [math.inf, -math.inf] * 2_500,
    "denormal": [5e-324] * 5_000,
    "one unit": [3.0],
    "NULL alone": [None] * 50,
    "NaN alone": [math.nan] * 50,
    "infinite": [math.inf] * 5_000,
    "huge": [1e308] * 5_000,
    "huge, both signs": [1e308, -1e308] * 2_500,
    "zero": [0.0, -0.0] * 2_500,
    "one value": [123456789.123] * 5_000,
    "two near values": [1e15, 1e15 + 1] * 2_500,
}


@pytest.mark.long
@pytest.mark.parametrize("name", [*ODD][:3] + later(*zip([*ODD][3:], strict=True)))
@pytest.mark.parametrize(
    ("make", "magnitudes"),
    [(sf.mean, None), (sf.sum, (1, 10**6)), *later((sf.sum, None), (sf.variance, None))],
)
def test_odd_values_raise_nothing_and_are_bounded(name, make, magnitudes):
    made = make("x", **AUTO, magnitudes=magnitudes)
    release = released(ODD[name], a=made)
    (value,) = release.to_arrow()["a"].to_pylist()
    assert math.isfinite(value)
    ((lower, upper),) = (found.value for found in release.found)
    assert lower < upper and max(-lower, upper) <= (10**6 if magnitudes else 1e100)


WRONG = [
    (lambda q: q.release(epsilon=0), BudgetError, "epsilon is 0"),
    (lambda q: q.release(epsilon=1, auto_share=0), ParameterError, "auto_share is 0"),
    (lambda q: q.release(epsilon=1, auto_share=0.99), ParameterError, "auto_share"),
    (lambda q: q.release(epsilon=1, delta=2), BudgetError, "delta is 2"),
    (lambda q: q.release(epsilon=1, noise="uniform"), ParameterError, "noise is 'uniform'"),
    (lambda q: q.release(epsilon=1, confidence=2), ParameterError, "confidence"),
    (lambda q: q.release(epsilon="1e-30"), BudgetError, "epsilon"),
]


@pytest.mark.parametrize(("ask", "error", "text"), WRONG)
def test_what_is_wrong_is_said_before_the_first_look(ask, error, text, monkeypatch):
    monkeypatch.setattr(ValueHistograms, "draw", lambda *_: pytest.fail("looked"))
    with pytest.raises(error, match=text):
        ask(table(WAGES).bound(rows=1).agg(m=sf.mean("x", **AUTO)))


def test_admissible_bounds_are_taken_by_every_aggregate():
    numbers = [0.0, 5e-324, 1e-100, 1e-99, 1.0, 1 + 2**-52, 1e15, 1e99, 1e100, 1e308]
    numbers += [-x for x in numbers]
    for lower in numbers:
        for upper in numbers:
            found = admissible(Fraction(lower), Fraction(upper), (False, False))
            check_bounds("x", *found)
            assert max(map(abs, found)) <= LARGEST_MAGNITUDE
            if abs(lower) <= 1e99:
                check_bounds("x", *admissible(Fraction(lower), Fraction(upper), (True, False)))
                check_bounds("x", *admissible(Fraction(upper), Fraction(lower), (False, True)))


def noisy(rng, values, epsilon=0.2):
    def look(edges, part):
        scale = 1 / (epsilon * float(part))
        counts = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]
        return Histogram(edges, counts + rng.laplace(0, scale, len(counts)), scale)

    return look


@LONG
@pytest.mark.parametrize("magnitudes", [None, (Fraction(1), Fraction(10**6))])
def test_no_bound_is_far_beyond_the_values(magnitudes):
    """None of 240 is 5 times as wide as the values: rules that aim near the top overshoot by 10^140."""
    rng = np.random.default_rng(7)
    for _ in range(60):
        for values in (BELL[:2_000], WAGES[:2_000]):
            lower, upper = find_bounds(noisy(rng, values), ladder(magnitudes, False), 1.0)
            assert max(-lower, upper) < 5 * values.max()


def beyond(t: float, terms: int) -> mpmath.mpf:
    """Return how often a sum of Laplace noises is above t: the difference of two sums of exponential numbers."""

    def density(y):
        more = mpmath.gammainc(terms, t + y, regularized=True)
        return mpmath.exp((terms - 1) * mpmath.log(y) - y - mpmath.loggamma(terms)) * more

    return mpmath.quad(density, [terms * x / 8 for x in range(17)] + [4 * terms, mpmath.inf])


@pytest.mark.parametrize("terms", [1, 2, 3, 16, 75, 200])
def test_runs_of_noise_are_as_rare_as_they_say(terms):
    totals = np.array([1e-9, 0.3, 1, 4, 20, 90, 400])
    direct = [float(mpmath.log(beyond(t, terms))) for t in totals]
    got = log_probability(np.append(totals, [0.0, -5.0]), np.full(9, terms))
    assert got[:7] == pytest.approx(direct, rel=1e-8)  # as exact as the integral is
    assert got[7:] == pytest.approx(math.log(0.5))


def test_a_bound_is_where_noise_and_what_is_cut_off_meet():
    """Of a power law without noise, the error at the bound is at most twice the least one."""
    edges = np.concatenate([[0.0], 2.0 ** (np.arange(0, 60) / 4)])
    for power in (1.5, 2, 3):
        tail = 10_000 * np.concatenate([[1.0], edges[1:] ** -power])
        counts = tail - np.append(tail[1:], 0)
        bound = Side(edges, counts[:-1], np.ones(len(edges) - 1, int), 4.0).bound(1.5, 0.0, math.inf)

        def error(c, power=power):
            return math.hypot(1.5 * c, 10_000 * c ** (1 - power) / (power - 1))

        assert error(bound) <= 2 * min(map(error, edges[1:]))


@pytest.mark.parametrize("value", [1.0, 45.0, -3.0, 1e300, 5e-324, 2.0**53 + 2])
def test_values_that_are_one_number_have_bounds_around_it(value):
    """Without a warning, as of a division by the distance of bounds that are none."""

    def look(edges, part):
        counts = np.histogram(np.clip(value, edges[0], edges[-1]), edges)[0] * 50_000.0
        return Histogram(edges, counts, 1 / float(part))

    lower, upper = find_bounds(look, ladder(None, False), 1.0)
    at = min(max(value, -1e100), 1e100)
    assert lower <= at <= upper


def looked_at(units: float, seed: int, close: bool, **how: bool) -> list[Fraction]:
    """Return the parts of the share that looks have, of noise around a number of units."""
    rng, parts = np.random.default_rng(seed), []

    def look(edges, part):
        parts.append(part)
        middle = (edges[1:] + edges[:-1]) / 2
        values = (middle > 1000) & (middle < (1050 if close else 2**16))
        return Histogram(edges, values * units / max(values.sum(), 1) + rng.laplace(0, 9, len(values)), 9.0)

    find_bounds(look, ladder((Fraction(1), Fraction(2**20)), False), 1.0, **how)
    return parts


@pytest.mark.long
@given(st.floats(-1e4, 1e12), st.integers(0, 2**32), st.booleans())
def test_looks_have_at_most_the_whole_share_and_at_least_what_was_planned(units, seed, close):
    parts = looked_at(units, seed, close)
    assert sum(parts) <= 1 and min(parts) >= MIN_LOOK
    assert parts[0] == PARTS[0]


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40, unique=True),
    st.floats(-1e6, 1e6), st.floats(1, 1e6), st.floats(1e-3, 1e5),
)  # fmt: skip
def test_edges_of_the_last_look_make_up_those_before(edges, low, wide, width):
    edges, high = np.sort(edges), low + wide
    width = max(width, (high - low) / 100)
    finer = _divide_range(edges, low, high, width)
    assert np.isin(edges, finer).all() and (finer[0], finer[-1]) == (edges[0], edges[-1])
    assert len(finer) <= 128 * len(edges)  # also where a bin that they reach into is wide
    inside = finer[(finer > max(low, edges[0])) & (finer < min(high, edges[-1]))]
    assert (np.diff(inside) <= max(2 * width, np.diff(edges).max() / 128 * (1 + 1e-9))).all()
