"""What tests of random choices share."""

import math
from collections.abc import Callable, Mapping

import pytest

ALARM = 1e-15


@pytest.fixture
def unlikely() -> Callable[[Mapping[object, int], Mapping[object, float]], bool]:
    """Whether counts of outcomes are too far from probabilities, by Chernoff's bound for each outcome.

    n draws have a share at least as far from p as x with probability at most 2 e^(-n KL(x, p)); this is
    true of honest draws with probability below 1e-15.
    """

    def far(counts: Mapping[object, int], law: Mapping[object, float]) -> bool:
        n = sum(counts.values())
        if not set(counts) <= set(law):
            return True
        allowed = math.log(2 * len(law) / ALARM) / n
        return any(divergence(counts.get(k, 0) / n, min(1.0, p)) > allowed for k, p in law.items())

    return far


def divergence(x: float, p: float) -> float:
    """KL of a coin of probability x from one of probability p."""
    total = 0.0
    for a, b in ((x, p), (1 - x, 1 - p)):
        if a > 0:
            total += a * math.log(a / b) if b > 0 else math.inf
    return total
