"""Private selection among candidates: permute-and-flip, exponential mechanism and top k, drawn exactly.

All is made of coins of probability e^-x, uniform indices and random orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import ParameterError
from sfumato.exact import Number, positive, positive_int
from sfumato.exact.outward_rounding import convert, directed, exactly, exp_bounds
from sfumato.framework import (
    ApproximateDP,
    AtomDomain,
    Domain,
    GroupedIntegers,
    Linear,
    LInfDistance,
    Measurement,
    OneSidedDistance,
    PureDP,
    SpreadDistance,
    VectorDomain,
    ZeroConcentratedDP,
)
from sfumato.framework.domains import check_length
from sfumato.framework.record_keys import ordered_bytes
from sfumato.measurements.independent_noise import is_exact
from sfumato.names.suggestions import suggest_arguments
from sfumato.noise import Words, bernoulli_each
from sfumato.noise.random_words import Enclosures, get_source, pick


def exp_minus(x: Fraction) -> Enclosures:
    """Return enclosures of e^-x, x >= 0, the chance of a candidate's coin, for `bernoulli`.

    However large x is, nothing underflows.

    >>> low, high = exp_minus(Fraction(1))(64)
    >>> low < Fraction("0.36787944117144232159552377016146") < high
    True
    """

    def enclose(bits: int) -> tuple[Fraction, Fraction]:
        if x > bits:  # e^-x < 2^-bits
            return Fraction(0), Fraction(1, 2**bits)
        return exp_bounds(-x, bits + 8)

    return enclose


def uniform_below(bound: int | NDArray[np.int64], count: int, words: Words | None = None) -> NDArray[np.intp]:
    """Draw `count` candidates uniformly: whole numbers from 0 to bound - 1, with exactly equal chances.

    Words at or above the largest multiple of `bound` below 2^64 are drawn again. Each candidate may have a
    bound of its own.
    """
    words = get_source(words)
    bounds = np.broadcast_to(np.asarray(bound, np.uint64), count)
    last = ~(np.negative(bounds) % bounds)  # 2^64 less the rest of its division, less 1
    drawn = words.take(count)
    while (again := np.flatnonzero(drawn > last)).size:
        drawn[again] = words.take(again.size)
    return (drawn % bounds).astype(np.intp)


def random_order(count: int, words: Words | None = None) -> NDArray[np.intp]:
    """Draw a random order of the candidates 0 ... count - 1, each with exactly equal chances.

    Words are sorted; given that no two are equal, no order is likelier than another.
    """
    words = get_source(words)
    while True:
        drawn = words.take(count)
        order = np.argsort(drawn)
        if (np.diff(drawn[order]) > 0).all():
            return order


Draw = Callable[[list[Fraction], Words | None], int]


@suggest_arguments
def permute_and_flip(scale: Any, domain: Domain) -> Measurement:
    """Select a candidate with a high score: visit them in random order, and take the first heads.

    The coin of a candidate comes up heads with probability exactly e^(-(best - score) / (2 scale)).

    Args:
        scale: a number greater than 0, in the unit of the scores; epsilon = distance / scale.
        domain: a `VectorDomain` of known size, of whole numbers, exact numbers or bounded floats: one score
            for each candidate, where larger is better.
    Returns:
        A Measurement from scores to an index, under the largest difference of a score, to pure DP. Its
        expected error is never above that of the exponential mechanism.
    Raises:
        ParameterError: scale is not positive, or the domain is not of this kind.
        QueryError: from a call, for a wrong number of scores.

    >>> from sfumato.framework import AtomDomain, VectorDomain
    >>> best = permute_and_flip(2, VectorDomain(AtomDomain(int), size=3))
    >>> best([10**6, 0, -7]), best.map(1)
    (0, Fraction(1, 2))

    Source:
        McKenna and Sheldon 2020, "Permute-and-flip: a new mechanism for differentially private
        selection". Proof: docs/proofs/permute_and_flip.md.
    """
    return _noisy_max("permute_and_flip", scale, domain, flip_in_order)


@suggest_arguments
def exponential_mechanism(scale: Any, domain: Domain) -> Measurement:
    """Select a candidate with probability exactly proportional to e^(score / (2 scale)).

    It works by rejection: candidates are proposed uniformly and accepted with probability e^(-(best - score)
    / (2 scale)). On average this takes at most as many proposals as there are candidates.

    Args:
        scale: a number greater than 0, in the unit of the scores; epsilon = distance / scale.
        domain: as for `permute_and_flip`.
    Returns:
        A Measurement from scores to an index, under the largest difference of a score, to pure DP.
    Raises:
        ParameterError: scale is not positive, or the domain is not of this kind.
        QueryError: from a call, for a wrong number of scores.

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
    """Return the first candidate of a random order whose coin, of probability e^-gap, comes up heads.

    A gap of 0, which the best has, is certain. All coins are tossed, those behind the first heads in vain.
    """
    order = random_order(len(gaps), words)
    heads = bernoulli_each([exp_minus(gap) for gap in gaps], order, words)
    return int(order[heads.argmax()])


def accept_or_reject(gaps: list[Fraction], words: Words | None = None) -> int:
    """Return the first uniformly proposed candidate whose coin, of probability e^-gap, comes up heads."""
    coins = [exp_minus(gap) for gap in gaps]
    while True:
        proposed = uniform_below(len(gaps), len(gaps), words)
        heads = bernoulli_each(coins, proposed, words)
        if heads.any():
            return int(proposed[heads.argmax()])


MAX_PEELS = 100_000
# Floats look at what weighs more than e^-60 of the best, all together.
_NEAR = 60
# NumPy's exp is taken to be right to 2^-45. Its argument, below 105, is off by less than 105 * 4 * 2^-53 <
# 2^-44. So a weight is right to 2^-43, and the quotient of two sums of L weights to 4 * 2^-43 + L 2^-50.
_WEIGHT_ERROR = 2.0**-43


@suggest_arguments
def top_k(
    rate: Number, k: int, size: int, *, measure: PureDP | ZeroConcentratedDP | None = None
) -> Measurement:
    """Select k candidates in order, each with probability proportional to e^(rate * score) among the rest.

    This is the order of the k largest scores after Gumbel noise of scale 1 / rate.

    Args:
        rate: a number greater than 0: the epsilon of one index if one unit moves scores in one direction, by
            at most 1.
        k: the number of indices, from 1 to `size`.
        size: the number of scores, which are whole numbers.
        measure: `PureDP()`, in which the loss is k * rate * distance, or `ZeroConcentratedDP()`, in which it
            is k * (rate * distance)^2 / 8; None for the first.
    Returns:
        A Measurement from scores to a list of indices. Its metric is the spread of the changes, the largest
        minus the smallest. A unit that adds 1 to any number of scores makes a spread of 1.
    Raises:
        ParameterError: a parameter is not valid.

    >>> best = top_k(2, 2, 3)
    >>> best([10**6, 0, 2 * 10**6]), best.map(1)
    ([2, 0], Fraction(4, 1))

    Source:
        Durfee and Rogers 2019, "Practical differentially private top-k selection with pay-what-you-get
        composition"; the loss in zCDP: Cesar and Rogers 2021, "Bounding, concentrating, and truncating".
        Proof: docs/proofs/top_k.md.
    """
    each, size = positive(rate, "rate"), positive_int(size, "size")
    k = check_k(k, size)

    def function(scores: Sequence[int]) -> list[int]:
        check_length(scores, size, "top_k")
        return peel(np.array([int(s) for s in scores], object), each, k)

    domain, metric = VectorDomain(AtomDomain(int), size=size), SpreadDistance()
    if measure is None or measure == PureDP():
        return Measurement("top_k", domain, metric, PureDP(), function, Linear(k * each))
    if measure != ZeroConcentratedDP():
        raise ParameterError("measure", measure, "PureDP() or ZeroConcentratedDP()")
    return Measurement(
        "top_k", domain, metric, ZeroConcentratedDP(), function, lambda d: k * (each * d) ** 2 / 8
    )


@suggest_arguments
def limited_top_k(rate: Number, k: int, candidates: int, margin: int, *, name: str) -> Measurement:
    """Select the keys of up to k large groups from the candidates, when the keys are not public.

    The candidates are the `candidates` largest groups. An end marker competes with them; its count is
    `margin` + 1 above that of the largest other group. When the marker is selected, the list of keys ends.

    Args:
        rate: as for `top_k`; a unit adds at most 1 to a group's count, and may be in any number of groups.
        k: the largest number of keys, from 1 to `candidates`.
        candidates: the number of largest groups that can be selected.
        margin: a whole number, at least 0; `margin_for` computes it.
        name: the coordinate of the counts.
    Returns:
        A Measurement from counts by group to a list of keys, to approximate DP. Its map takes a distance
        of at most 1, and gives k * rate and (1 + e^(k * rate)) * candidates * e^(-rate * margin), rounded up.
    Raises:
        ParameterError: a parameter is not valid; from `map`, for d_in above 1.

    >>> best = limited_top_k(1, 2, 10, 400, name="units")
    >>> best({"a": {"units": 10**6}, "b": {"units": 1}})
    ['a']

    Source:
        Durfee and Rogers 2019, the limited-domain mechanism. Proof: docs/proofs/limited_top_k.md.
    """
    each, candidates = positive(rate, "rate"), positive_int(candidates, "candidates")
    k = check_k(k, candidates)
    if not isinstance(margin, int) or isinstance(margin, bool) or margin < 0:
        raise ParameterError("margin", margin, "a whole number, at least 0")

    def function(groups: Mapping[Hashable, Mapping[str, int]]) -> list[Hashable]:
        keys = sorted(groups, key=ordered_bytes)
        counts = np.array([int(groups[key].get(name, 0)) for key in keys], object)
        return [keys[i] for i in peel_limited(counts, each, k, candidates, margin)]

    def privacy_map(d_in: Fraction) -> tuple[Fraction, Fraction]:
        if d_in > 1:
            raise ParameterError("d_in", d_in, "at most 1: the loss is stated for one unit")
        if d_in == 0:
            return Fraction(0), Fraction(0)
        lost = k * each
        missed = candidates * exp_bounds(-each * margin, 128)[1]
        return lost, min(Fraction(1), (1 + exp_bounds(lost, 128)[1]) * missed)

    return Measurement(
        "limited_top_k",
        GroupedIntegers((name,)),
        OneSidedDistance(),
        ApproximateDP(),
        function,
        privacy_map,
    )


def margin_for(rate: Fraction, candidates: int, miss: Fraction, largest: int = 1) -> int:
    """Return the least margin that selects a group wrongly among candidates with chance `miss` at most.

    Args:
        rate: of the peels, per step of a score.
        candidates: how many groups may be picked.
        miss: in (0, 1).
        largest: how much of a score one unit makes at most; 1 of a count.

    >>> margin_for(Fraction(1), 10, Fraction(1, 10**6))
    17
    """
    _, up = directed(128)
    logarithm = exactly(up.log(convert(candidates / miss, up)))
    return math.ceil(logarithm / rate) + largest - 1


def check_k(k: object, limit: int) -> int:
    """Take the number k of candidates to select, from 1 to `limit`, and to 100,000."""
    number = positive_int(k, "k")
    if number > min(limit, MAX_PEELS):
        raise ParameterError("k", k, f"from 1 to {min(limit, MAX_PEELS):,}")
    return number


def peel_limited(
    scores: NDArray[Any],
    rate: Fraction,
    k: int,
    candidates: int,
    margin: int,
    words: Words | None = None,
) -> list[int]:
    """Select up to k of the largest candidates with positive scores, until the end is drawn.

    Args:
        scores, rate, k, words: as of `peel`.
        candidates, margin: as of `limited_top_k`.
    """
    # Ties are in the order of what is given: the proof holds for any order that follows from the scores.
    order = np.argsort(-scores, kind="stable")
    order = order[: candidates + 1][scores[order[: candidates + 1]] > 0]
    outside = int(scores[order[candidates]]) if len(order) > candidates else 0
    order = order[:candidates]
    competing = np.append(scores[order].astype(object), outside + 1 + margin)
    picked = peel(competing, rate, min(k, len(competing)), words, until=len(order))
    return [int(order[i]) for i in picked]


def peel(
    scores: NDArray[Any], rate: Fraction, k: int, words: Words | None = None, until: int | None = None
) -> list[int]:
    """Select k candidates, one after another, each in exact proportion to e^(rate * score) of the rest.

    Args:
        scores: whole numbers: int64, or Python's.
        rate: greater than 0.
        k: at most as many as there are scores.
        words: source of random words; None for this thread's secure words.
        until: an index at which nothing more is drawn; it is not returned.
    """
    order = np.argsort(-scores, kind="stable")
    falling = scores[order]
    starts = np.flatnonzero(np.append(True, falling[1:] != falling[:-1]))
    members = {int(start): int(end) for start, end in zip(starts, [*starts[1:], len(order)], strict=True)}
    levels, sizes = falling[starts], np.diff(np.append(starts, len(order)))
    near = math.ceil((_NEAR + math.ceil(math.log(len(order)))) / rate)
    found: list[int] = []
    while len(found) < k:
        gaps = levels[0] - levels
        level = pick(_cumulative(gaps, sizes, rate, near), words)
        start = int(starts[level])
        member = start + int(uniform_below(int(sizes[level]), 1, words)[0])
        last = members[start] - 1
        chosen = int(order[member])
        order[member], members[start] = order[last], last
        if chosen == until:
            break
        found.append(chosen)
        sizes[level] -= 1
        if sizes[level] == 0:
            levels, sizes, starts = (np.delete(a, level) for a in (levels, sizes, starts))
    return found


def _cumulative(gaps: NDArray[Any], sizes: NDArray[np.int64], rate: Fraction, near: int) -> Any:
    """Return bounds, for `pick`, of the chances that a level of candidates' scores up to each is drawn."""

    def bounds(bits: int) -> tuple[Any, Any]:
        if bits == 64:
            # The first test keeps `near`, which may be huge, away from 64 bits.
            some = len(gaps) if gaps[-1] <= near else int(np.searchsorted(gaps, near, "right"))
            weights = sizes[:some] * np.exp(-(gaps[:some].astype(float) * float(rate)))
            sums: NDArray[np.float64] = np.cumsum(weights)
            sums = sums / sums[-1]
            error = 4 * _WEIGHT_ERROR + some * 2.0**-50
            left = 0.0 if some == len(gaps) else 2 * math.exp(-_NEAR)
            low = sums * (1 - error) - left
            high = np.minimum(sums * (1 + error) + left, 1.0)
            high[-1] = 1.0
            if some == len(gaps):
                low[-1] = 1.0
            return low, high
        return _enclosures(gaps, sizes, rate, bits + 64 + int(sizes.sum()).bit_length())

    return bounds


def _enclosures(
    gaps: NDArray[Any], sizes: NDArray[np.int64], rate: Fraction, bits: int
) -> tuple[list[Fraction], list[Fraction]]:
    exact = [rate * int(gap) for gap in gaps.tolist()]
    none = Fraction(0), Fraction(1, 1 << bits)
    each = [exp_bounds(-x, bits) if x <= bits else none for x in exact]
    pairs = list(zip(sizes.tolist(), each, strict=True))
    lows, highs = (list(accumulate(n * e[side] for n, e in pairs)) for side in (0, 1))
    one = Fraction(1)
    return (
        [low / highs[-1] for low in lows[:-1]] + [one],
        [min(high / lows[-1], one) for high in highs[:-1]] + [one],
    )
