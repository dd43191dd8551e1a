"""Report noisy max: which of a few candidates scores best, drawn exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from sfumato.errors import ParameterError
from sfumato.exact import positive
from sfumato.framework import AtomDomain, Domain, Linear, LInfDistance, Measurement, PureDP, VectorDomain
from sfumato.framework.domains import check_length
from sfumato.measurements.coins import exp_minus, random_order, uniform_below
from sfumato.measurements.noise import is_exact
from sfumato.names.helpful import helpful
from sfumato.noise import Words, bernoulli_each

Draw = Callable[[list[Fraction], Words | None], int]


@helpful
def permute_and_flip(scale: Any, domain: Domain) -> Measurement:
    """Pick the index of a high score: go through candidates in random order, take the first heads.

    The coin of a candidate comes up heads with probability exactly e^(-(best - score) / (2 scale)).

    Args:
        scale: number greater than 0, in the unit of the scores; epsilon = distance / scale.
        domain: a `VectorDomain` of known size, of whole numbers, exact numbers or bounded floats: one
            score for each candidate, the larger the better.
    Returns:
        A Measurement from scores to an index, under the largest difference of a score, to pure DP. Its
        expected error is never above the exponential mechanism's.
    Raises:
        ParameterError: scale is not positive, or domain is another.
        QueryError: from a call, for another number of scores.

    >>> from sfumato.framework import AtomDomain, VectorDomain
    >>> best = permute_and_flip(2, VectorDomain(AtomDomain(int), size=3))
    >>> best([10**6, 0, -7]), best.map(1)
    (0, Fraction(1, 2))

    Source:
        McKenna and Sheldon 2020, "Permute-and-flip: a new mechanism for differentially private
        selection". Proof: docs/proofs/permute_and_flip.md.
    """
    return _noisy_max("permute_and_flip", scale, domain, flip_in_order)


@helpful
def exponential_mechanism(scale: Any, domain: Domain) -> Measurement:
    """Pick an index with probability exactly proportional to e^(score / (2 scale)).

    By rejection: candidates are proposed uniformly and accepted with probability
    e^(-(best - score) / (2 scale)), which takes at most as many proposals as candidates on average.

    Args:
        scale: number greater than 0, in the unit of the scores; epsilon = distance / scale.
        domain: as of `permute_and_flip`.
    Returns:
        A Measurement from scores to an index, under the largest difference of a score, to pure DP.
    Raises:
        ParameterError: scale is not positive, or domain is another.
        QueryError: from a call, for another number of scores.

    >>> from sfumato.framework import AtomDomain, VectorDomain
    >>> best = exponential_mechanism("0.5", VectorDomain(AtomDomain(int), size=3))
    >>> best([10**6, 0, -7]), best.map(1)
    (0, Fraction(2, 1))

    Source:
        McSherry and Talwar 2007, "Mechanism design via differential privacy".
        Proof: docs/proofs/exponential_mechanism.md.
    """
    return _noisy_max("exponential_mechanism", scale, domain, accept_or_reject)


def _noisy_max(name: str, scale: Any, domain: Domain, draw: Draw) -> Measurement:
    width = positive(scale, "scale")
    size = domain.size if isinstance(domain, VectorDomain) else None
    element = domain.element if isinstance(domain, VectorDomain) else None
    if size is None or not isinstance(element, AtomDomain) or not is_exact(element):
        raise ParameterError(
            "domain",
            domain,
            "a VectorDomain of known size, of whole numbers, exact numbers or bounded floats",
        )

    def function(scores: Sequence[Any]) -> int:
        check_length(scores, size, name)
        exact = [Fraction(score) for score in scores]
        best = max(exact)
        return draw([(best - score) / (2 * width) for score in exact], None)

    return Measurement(name, domain, LInfDistance(), PureDP(), function, Linear(1 / width))


def flip_in_order(gaps: list[Fraction], words: Words | None = None) -> int:
    """Return the first of a random order whose coin, of probability e^-gap, comes up heads.

    A gap of 0, which the best has, is certain. All coins are tossed, those behind the first heads in vain.
    """
    order = random_order(len(gaps), words)
    heads = bernoulli_each([exp_minus(gap) for gap in gaps], order, words)
    return int(order[heads.argmax()])


def accept_or_reject(gaps: list[Fraction], words: Words | None = None) -> int:
    """Return the first of uniformly drawn indices whose coin, of probability e^-gap, comes up heads."""
    coins = [exp_minus(gap) for gap in gaps]
    while True:
        proposed = uniform_below(len(gaps), len(gaps), words)
        heads = bernoulli_each(coins, proposed, words)
        if heads.any():
            return int(proposed[heads.argmax()])
