"""The attack that the mechanism is for: which floats can come out tells of the value's last bits.

Neighbours 0 and 1, claim epsilon = 1. For each exponent of the lowest set bit, the event "this release has a
lower one". If the claim were true, and the event came m times in an equal number of draws from both, those from
one side would be at most binomial(m, e / (1 + e)). The smallest of the tails' Chernoff bounds over all events
and both sides, times their number, bounds the probability of a false alarm.
"""

import math

import numpy as np

from sfumato.noise import SeededWords
from sfumato.snapping import SnappingMechanism

budget = 1000
exponents = range(-60, 4)


def lowest_bit(x: np.ndarray) -> np.ndarray:
    """The exponent of the lowest set bit; 0 has none, and gets a large one."""
    fraction, exponent = np.frexp(x)
    whole = np.ldexp(fraction, 53).astype(np.int64)
    low = np.log2((whole & -whole).astype(float), where=whole != 0, out=np.full(x.shape, 2000.0))
    return low + exponent - 53


def binomial_tail(count: int, total: int, p: float) -> float:
    """Bound P(binomial(total, p) >= count), by Chernoff."""
    if count <= total * p:
        return 1.0
    share = count / total
    rest = (1 - share) * math.log((1 - share) / (1 - p)) if share < 1 else 0.0
    return math.exp(-total * (share * math.log(share / p) + rest))


def false_alarm(zero: np.ndarray, one: np.ndarray, epsilon: float = 1.0) -> float:
    """Bound the probability that a mechanism with this claim looks as bad."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon)) + 1e-12
    low = [lowest_bit(released) for released in (zero, one)]
    tails = []
    for e in exponents:
        counts = [int((bits < e).sum()) for bits in low]
        tails += [binomial_tail(count, sum(counts), p) for count in counts]
    return min(1.0, min(tails) * len(tails))


def naive(value: float, n: int, seed: int) -> np.ndarray:
    """Textbook Laplace noise in float64, by inversion."""
    rng = np.random.default_rng(seed)
    return value + rng.choice([-1.0, 1.0], n) * -np.log(1 - rng.random(n))


def test_naive_noise_is_broken_by_its_last_bits():
    zero, one = naive(0.0, budget, 1), naive(1.0, budget, 2)
    # From 1, no release has a bit below 2^-54; from 0, many have.
    assert lowest_bit(one).min() >= -54
    assert (lowest_bit(zero) < -54).mean() > 0.1
    assert false_alarm(zero, one) < 1e-9


def test_snapped_noise_is_not_on_the_same_budget():
    m = SnappingMechanism(1, lower=0, upper=1)
    zero, one = (m.release(np.full(budget, v), SeededWords(f"attack {v}")) for v in (0.0, 1.0))
    assert false_alarm(zero, one) > 0.01
    # Nor on a hundred times the budget.
    zero, one = (m.release(np.full(100 * budget, v), SeededWords(f"attack {v}")) for v in (0.0, 1.0))
    assert false_alarm(zero, one) > 0.01
    assert set(zero.tolist()) == set(one.tolist())


def test_noise_added_outside_is_broken_as_well():
    """Planted: the mechanism's noise alone, added to the value (errata 17). The same test rejects it."""
    m = SnappingMechanism(1, lower=0, upper=1)
    center = float(m.center)
    zero, one = (
        v + m.release(np.full(budget, center), SeededWords(f"planted {v}")) - center for v in (0.0, 1.0)
    )
    assert false_alarm(zero, one) < 1e-9
