"""What every specimen of the zoo tells of itself."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy.special import ndtr

from sfumato.audit.claims import gaussian, zcdp

Dataset = Sequence[Any]
Mechanism = Callable[[Dataset, int], Any]
Pair = tuple[Dataset, Dataset]

# How a dataset of a specimen is written, and what its neighbours are.
VALUES = "values"  # numbers, one for each person; one is added or removed
REPLACED = "replaced values"  # numbers, one for each person; one is changed
ROWS = "rows"  # (unit, group, value); all rows of one unit are added or removed
ANSWERS = "answers"  # answers to queries of sensitivity 1; each may change by at most 1
ONE = "one answer"  # what one person says; it is changed
VECTORS = "vectors"  # a row of numbers for each person; one is added or removed

NOTHING, RECORD = (), (1.0,)


@dataclass(frozen=True, kw_only=True)
class Specimen:
    """A mechanism that is known to be wrong, and the same one done right.

    Args:
        name: of the defect.
        source: who made or described it.
        why: in a sentence, what goes wrong.
        claim: what the authors promise: epsilon (and delta), rho of zCDP or mu of Gaussian DP; epsilon = 1 by default.
        truth: the smallest epsilon (rho, mu) that is true of the broken one, at the claimed delta, over all
            neighbours; `math.inf` where none is.
        broken, twin: (dataset, size) -> outputs, one for each draw. The twin meets the claim.
        pairs: neighbours on which the defect shows.
        data: how datasets are written, and what neighbours are.
        truth_is: "exact", or "at least" where it grows with the size of datasets or only a bound is known.
        slow: takes many seconds to find, and is left to benchmarks/zoo.py.
        unseen: why no test can see it from outputs alone; empty where one can.
    """

    name: str
    source: str
    why: str
    claim: Mapping[str, float] = field(default_factory=lambda: {"epsilon": 1.0})
    truth: float = math.inf
    broken: Mechanism
    twin: Mechanism
    pairs: tuple[Pair, ...]
    data: str = VALUES
    truth_is: str = "exact"
    slow: bool = False
    unseen: str = ""


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta at epsilon between N(0, 1) and N(mu, 1): Balle and Wang 2018, theorem 8."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at delta between N(0, 1) and N(mu, 1), by bisection."""
    low, high = 0.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(mu, middle) > delta else (low, middle)
    return high


def claimed(specimen: Specimen) -> dict[str, Any]:
    """The claim as keywords of `audit`."""
    if "rho" in specimen.claim:
        return {"claim": zcdp(specimen.claim["rho"])}
    if "mu" in specimen.claim:
        return {"claim": gaussian(specimen.claim["mu"])}
    return dict(specimen.claim)
