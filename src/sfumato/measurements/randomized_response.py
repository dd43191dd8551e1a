"""Randomized response: an answer that may be a lie, and estimates from many of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from sfumato.budget.epsilon_delta import admissible_epsilon
from sfumato.errors import ParameterError
from sfumato.exact.outward_rounding import expm1_down, log1p_up
from sfumato.framework import CategoryDomain, DiscreteDistance, Measurement, PureDP
from sfumato.measurements.candidate_selection import uniform_below
from sfumato.names.suggestions import suggest_arguments
from sfumato.noise import Words, bernoulli

LARGEST = 4096  # beyond it a lie, of probability below e^-4096, is as good as never reported


@suggest_arguments
def randomized_response(members: Sequence[Hashable], epsilon: object) -> Measurement:
    """Report the true answer with some probability, and each other answer with an equal smaller one.

    Args:
        members: the k >= 2 possible answers, all different.
        epsilon: a finite number greater than 0.
    Returns:
        A Measurement from one answer to one answer, under discrete distance, to pure DP. Its map gives ln of
        the exact ratio of the two probabilities, rounded up: at most epsilon.
    Raises:
        ParameterError: members are not at least two different values; from a call, the answer is not one of
            them.
        BudgetError: epsilon is not a finite number greater than 0.

    >>> respond = randomized_response(("yes", "no"), epsilon=1)
    >>> respond("yes") in ("yes", "no"), float(respond.map(1))
    (True, 1.0)

    Source:
        Warner 1965, "Randomized response"; for k answers Kairouz, Bonawitz and Ramage 2016, "Discrete
        distribution estimation under local privacy". Proof: docs/proofs/randomized_response.md.
    """
    domain = CategoryDomain(tuple(members))
    ratio = _ratio(epsilon)
    stated = min(admissible_epsilon(epsilon), log1p_up(ratio - 1))
    return Measurement(
        "randomized_response",
        domain,
        DiscreteDistance(),
        PureDP(),
        lambda answer: respond(answer, domain, ratio),
        lambda d_in: stated if d_in >= 1 else Fraction(0),
    )


def respond(answer: Any, domain: CategoryDomain, ratio: Fraction, words: Words | None = None) -> Hashable:
    """Draw a randomized response: the answer is `ratio` times as likely as each other one."""
    if not domain.contains(answer):
        raise ParameterError("answer", "another", f"one of {domain.members}")
    others = [member for member in domain.members if member != answer]
    if bernoulli(ratio / (ratio + len(others)), words=words):
        return next(member for member in domain.members if member == answer)
    return others[int(uniform_below(len(others), 1, words)[0])]


@suggest_arguments
def estimate_shares(
    responses: Iterable[Hashable], members: Sequence[Hashable], epsilon: object
) -> dict[Hashable, Fraction]:
    """Estimate without bias, from randomized responses, the share of respondents with each answer.

    Args:
        responses: at least one response, each drawn by `randomized_response(members, epsilon)`.
        members, epsilon: as for `randomized_response`.
    Returns:
        A share for each member. Shares sum to 1. One may be below 0 or above 1; clamping it would add bias.
    Raises:
        ParameterError: there is no response, or a response is not one of the members.
        BudgetError: epsilon is not a finite number greater than 0.

    >>> shares = estimate_shares(["yes"] * 6 + ["no"] * 4, ("yes", "no"), epsilon=1)
    >>> round(float(shares["yes"]), 3), sum(shares.values())
    (0.716, Fraction(1, 1))

    Source:
        A member with share s is reported with probability q + s (p - q), where p and q are the probabilities
        of the truth and of each other answer; this is solved for s. Kairouz et al. 2016, section 4.
    """
    domain = CategoryDomain(tuple(members))
    ratio = _ratio(epsilon)
    counts = Counter(responses)
    if not counts or not set(counts) <= set(domain.members):
        raise ParameterError("responses", "empty or with others", f"one or more of {domain.members}")
    parts = ratio + len(domain.members) - 1
    return {m: (Fraction(counts[m], counts.total()) * parts - 1) / (ratio - 1) for m in domain.members}


def _ratio(epsilon: object) -> Fraction:
    """Return how much likelier the truth is than a lie in randomized response: a rational up to e^epsilon."""
    return 1 + expm1_down(min(admissible_epsilon(epsilon), Fraction(LARGEST)))
