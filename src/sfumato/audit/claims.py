"""Claims of privacy: the (epsilon, delta) pairs that an audit tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.budget.closed_forms import gaussian_delta, zcdp_delta
from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError
from sfumato.exact import Number, as_fraction, at_least_0, positive, round_up
from sfumato.exact.outward_rounding import exp_bounds

# Where curves are tested: from total variation to rare events.
_EPSILONS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)


@dataclass(frozen=True)
class Pair:
    """One testable privacy claim: P(A) <= e^epsilon Q(A) + delta for all events A, in both directions.

    Args:
        epsilon: at least 0.
        delta: from 0 to less than 1.
    Raises:
        ParameterError: a value is out of range.

    >>> Pair(0.5).factor > 1.6487212707001281 - 1e-15
    True
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        # A claim is weakened, never strengthened, where a float cannot hold it: no false alarms.
        object.__setattr__(self, "epsilon", round_up(at_least_0(self.epsilon, "epsilon")))
        object.__setattr__(self, "delta", round_up(at_least_0(self.delta, "delta")))
        if self.delta >= 1:
            raise ParameterError("delta", self.delta, "from 0 to less than 1")

    @cached_property
    def factor(self) -> float:
        """e^epsilon of the claim, rounded up."""
        return exp_up(self.epsilon)


@dataclass(frozen=True)
class Claim:
    """A privacy claim: its (epsilon, delta) pairs, and its text.

    `approximate`, `gaussian`, `zcdp` and `curve` return it.

    Args:
        text: the claim in words, such as "epsilon = 1, delta = 1e-6".
        pairs: one or more pairs. Each is tested, and evidence is averaged over them.
        code: the keyword arguments of `audit` that state the claim, such as "epsilon=1.0".
    """

    text: str
    pairs: tuple[Pair, ...]
    code: str


def approximate(epsilon: Number, delta: Number = 0) -> Claim:
    """Return the claim of (epsilon, delta)-differential privacy.

    Args:
        epsilon: at least 0.
        delta: from 0 to less than 1.
    Returns:
        The claim.
    Raises:
        ParameterError: a value is out of range.

    >>> approximate(1, "1e-6").text
    'epsilon = 1, delta = 1e-06'
    """
    pair = Pair(epsilon, delta)  # type: ignore[arg-type]
    if pair.delta == 0:
        return Claim(f"epsilon = {pair.epsilon:g}", (pair,), f"epsilon={pair.epsilon!r}")
    text = f"epsilon = {pair.epsilon:g}, delta = {pair.delta:g}"
    return Claim(text, (pair,), f"epsilon={pair.epsilon!r}, delta={pair.delta!r}")


def make_claim(epsilon: Any, delta: Any, claim: Claim | None) -> Claim:
    """Return the claim of an audit, which is given by epsilon and delta, or as a whole.

    Raises:
        ParameterError: neither or both are given, or one is not admissible.
    """
    if claim is None:
        if epsilon is None:
            raise ParameterError("epsilon", None, "given, or claim= in its place")
        return approximate(epsilon, delta)
    if not isinstance(claim, Claim):
        raise ParameterError("claim", claim, "zcdp(rho), gaussian(mu) or curve(pairs)")
    if epsilon is not None:
        raise ParameterError("epsilon", epsilon, "left out when claim is given, which replaces it")
    if delta != 0:
        raise ParameterError("delta", delta, "left out when claim is given, as it belongs to epsilon")
    return claim


def curve(pairs: Iterable[tuple[Number, Number]] | Callable[[float], float]) -> Claim:
    """Return the claim of a whole privacy profile.

    Args:
        pairs: (epsilon, delta) pairs, or a function from epsilon to delta, which is evaluated at ten epsilons
            from 0 to 8.
    Returns:
        The claim.
    Raises:
        ParameterError: there is no pair with a delta below 1, or a value is out of range.

    >>> len(curve(lambda epsilon: 0.5 / (1 + epsilon)).pairs)
    10
    """
    given = [(e, pairs(e)) for e in _EPSILONS] if callable(pairs) else list(pairs)
    kept = _drop_trivial_pairs((e, as_fraction(d, "delta")) for e, d in given)
    if not kept:
        raise ParameterError("claim", given, "a curve with at least one delta below 1")
    code = ", ".join(f"({p.epsilon!r}, {p.delta!r})" for p in kept)
    return Claim(f"a curve of {len(kept)} (epsilon, delta) pairs", kept, f"claim=curve([{code}])")


def zcdp(rho: Number) -> Claim:
    """Return the claim of rho-zero-concentrated differential privacy.

    Args:
        rho: greater than 0.
    Returns:
        The claim.
    Raises:
        ParameterError: rho is not a number greater than 0.

    >>> zcdp(0.5).pairs[2]
    Pair(epsilon=2.0, delta=0.05429...)

    Source:
        Bun and Steinke 2016; Canonne, Kamath and Steinke 2020, corollary 13, for delta.
    """
    exact = positive(rho, "rho")
    root = math.sqrt(float(exact))
    steps = (Fraction(f"{root * factor:.2g}") for factor in (0.7, 1.4, 2.1, 3.2, 5.0))
    pairs = ((exact + step, zcdp_delta(exact, exact + step)) for step in steps)
    return Claim(
        f"zCDP with rho = {float(exact):g}", _drop_trivial_pairs(pairs), f"claim=zcdp({float(exact)!r})"
    )


def gaussian(mu: Number) -> Claim:
    """Return the claim of mu-Gaussian differential privacy.

    Args:
        mu: greater than 0. The mechanism protects as well as noise N(0, 1) does for a difference of mu.
    Returns:
        The claim.
    Raises:
        ParameterError: mu is not a number greater than 0.

    >>> gaussian(1).pairs[0]
    Pair(epsilon=0.0, delta=0.38292492254802624)

    Source:
        Dong, Roth and Su 2022, corollary 1; Balle and Wang 2018, theorem 8.
    """
    exact = positive(mu, "mu")
    pairs = ((exact * k / 2, gaussian_delta(exact * k / 2, exact * exact)) for k in (0, 1, 2, 4, 7))
    return Claim(
        f"Gaussian DP with mu = {float(exact):g}",
        _drop_trivial_pairs(pairs),
        f"claim=gaussian({float(exact)!r})",
    )


def exp_up(epsilon: float) -> float:
    """Return e^epsilon of a claim rounded up, infinity where no float is large enough.

    >>> exp_up(1.0), exp_up(800.0)
    (2.7182818284590455, inf)
    """
    return math.inf if epsilon > 710 else round_up(exp_bounds(Fraction(epsilon), 80)[1])


def _drop_trivial_pairs(pairs: Iterable[tuple[Number, Fraction]]) -> tuple[Pair, ...]:
    """Return a claim's pairs without those whose delta is 1, also by rounding."""
    return tuple(Pair(e, d) for e, d in pairs if round_up(d) < 1)  # type: ignore[arg-type]
