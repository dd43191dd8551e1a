"""What epsilon means: Bayes' rule, rounded outward, and the best guess of an attacker."""

from fractions import Fraction as F

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import BudgetError, ParameterError


@settings(max_examples=20, deadline=None)
@given(
    st.fractions(F(1, 1000), 30),
    st.fractions(F(1, 10**6), F(999_999, 10**6)),
    st.sampled_from([F(0), F(1, 10**6), F(1, 3)]),
)
def test_beliefs_and_guesses_are_no_less_than_those_of_high_precision(epsilon, prior, delta):
    meaning = sf.explain_epsilon(epsilon, delta, priors=[prior])
    (belief,) = meaning.beliefs
    with mpmath.workdps(60):
        odds = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        p = mpmath.mpf(prior.numerator) / prior.denominator
        most, least = p * odds / (1 - p + p * odds), p / (p + (1 - p) * odds)
        guessed = (odds + mpmath.mpf(delta.numerator) / delta.denominator) / (1 + odds)
        assert most <= belief.most <= most * (1 + mpmath.mpf(2) ** -50)
        assert least * (1 - mpmath.mpf(2) ** -50) <= belief.least <= least
        assert odds <= meaning.odds <= odds * (1 + mpmath.mpf(2) ** -50)
        assert guessed <= meaning.guessed <= guessed * (1 + mpmath.mpf(2) ** -50)


@pytest.mark.parametrize("epsilon", ["1/10", 1, 3])
def test_randomized_response_reaches_what_is_said(epsilon):
    """Nobody learns more, and of this mechanism somebody learns as much."""
    meaning = sf.explain_epsilon(epsilon, priors=["1/10"])
    e = mpmath.exp(mpmath.mpf(F(epsilon).numerator) / F(epsilon).denominator)
    told = e / (1 + e)  # of one answer, by who is in the table
    after = told / 10 / (told / 10 + (1 - told) * 9 / 10)
    assert float(after) == pytest.approx(meaning.beliefs[0].most, rel=1e-12)
    assert float(told) == pytest.approx(meaning.guessed, rel=1e-12)


def test_what_is_refused():
    for wrong in ({"epsilon": 0}, {"epsilon": float("nan")}, {"epsilon": 701}, {"epsilon": 1, "delta": 1}):
        with pytest.raises((BudgetError, ParameterError)):
            sf.explain_epsilon(**wrong)
    for prior in (0, 1, "much"):
        with pytest.raises(ParameterError):
            sf.explain_epsilon(1, priors=[prior])
