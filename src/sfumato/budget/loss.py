"""What one release may reveal of a privacy unit: its composed loss, and the certificate that bounds it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import expm1
from math import log2 as float_log2
from typing import Any

from sfumato.budget.closed_forms import (
    falling_average,
    gaussian_delta,
    joined_delta,
    mixture,
    pure_mu,
    zcdp_delta,
)
from sfumato.budget.epsilon_delta import (
    admissible_amount,
    admissible_count,
    admissible_delta,
    admissible_epsilon,
)
from sfumato.certificate import Certificate, CertificateError, certify
from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import BudgetError, RefusalError
from sfumato.exact.library_settings import Isolated, mark_unaffected
from sfumato.exact.outward_rounding import log2
from sfumato.exact.root_finding import crossing, log_ratio
from sfumato.framework.measures import Measure

# Sums of losses that are added up one by one, alone and with Gaussian noise, where each takes 0.1 ms. The
# certificate adds up more.
MAX_SUMS, MAX_SUMS_WITH_GAUSSIAN = 1 << 10, 1 << 8
WORTHWHILE = 1024  # less than 1/1024 of the noise is not worth a search for it
_LONGEST_KEPT = 2**16  # characters of a description; those of long series take some MB each


@dataclass(frozen=True, repr=False)
class Loss(Isolated, Spelled):
    """The composed privacy loss of one release, for one privacy unit added or removed.

    Args:
        gaussian: mu^2, the sum of (L2 sensitivity / sigma)^2 over all Gaussian noises.
        laplace: (epsilon_i, count) of independent Laplace noises, where epsilon_i is sensitivity / scale.
            Each counts like any mechanism of this pure epsilon.
        pure: a bound on the loss of all these Laplace noises together, from their joint L1 sensitivity; None
            for the sum of epsilon_i * count.
        approximate: (epsilon, delta, count) of (epsilon, delta)-DP mechanisms of any kind.
        additive_delta: a probability, added to delta, of an event that reveals a unit's presence.
    Raises:
        BudgetError: a part is negative, not finite or out of range; the error names it.
    Source:
        Composition of dominating pairs: Zhu, Dong and Wang 2022, "Optimal accounting of differential privacy
        via characteristic function", theorem 10.

    >>> count, threshold = Loss(laplace=((Fraction(1, 2), 4),)), Loss(additive_delta=Fraction(1, 10**6))
    >>> both = count + threshold
    >>> both.epsilon(Fraction(1, 10**6)), both.delta(2)
    (Fraction(2, 1), Fraction(1, 1000000))

    Equal parts are merged and sorted, so that equal compositions are equal. `a + b` composes two losses.
    """

    gaussian: Fraction = Fraction(0)
    laplace: tuple[tuple[Fraction, int], ...] = ()
    pure: Fraction | None = None
    approximate: tuple[tuple[Fraction, Fraction, int], ...] = ()
    additive_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        laplace: Counter[Fraction] = Counter()
        for rate, count in self.laplace:
            laplace[admissible_epsilon(rate, "laplace epsilon")] += admissible_count(count, "laplace count")
        approximate: Counter[tuple[Fraction, Fraction]] = Counter()
        for epsilon, delta, count in self.approximate:
            key = (
                admissible_epsilon(epsilon, "approximate epsilon"),
                admissible_delta(delta, "approximate delta"),
            )
            approximate[key] += admissible_count(count, "approximate count")
        total = sum((rate * count for rate, count in laplace.items()), Fraction(0))
        pure = total if self.pure is None else admissible_amount(self.pure, "pure")
        if pure == 0 and total > 0:
            raise BudgetError("pure is 0, but must be greater than 0 where there is Laplace noise")
        values = {
            "gaussian": admissible_amount(self.gaussian, "gaussian"),
            "laplace": tuple(sorted(laplace.items())),
            "pure": pure if pure < total else None,
            "approximate": tuple((e, d, n) for (e, d), n in sorted(approximate.items())),
            "additive_delta": admissible_amount(self.additive_delta, "additive_delta"),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __add__(self, other: Loss) -> Loss:
        if not isinstance(other, Loss):
            return NotImplemented
        joint = self.pure is not None or other.pure is not None
        return Loss(
            gaussian=self.gaussian + other.gaussian,
            laplace=self.laplace + other.laplace,
            pure=self._laplace_total() + other._laplace_total() if joint else None,
            approximate=self.approximate + other.approximate,
            additive_delta=self.additive_delta + other.additive_delta,
        )

    def scaled(self, multiplier: Fraction) -> Loss:
        """Return the loss after every noise scale is multiplied by `multiplier`.

        Args:
            multiplier: the factor, above 0.
        Returns:
            The loss.
        Raises:
            BudgetError: the resulting loss is out of range, as with a multiplier of 0 or less.

        >>> Loss(gaussian=Fraction(1), laplace=((Fraction(1), 2),)).scaled(Fraction(2))
        Loss(gaussian=0.25, laplace=((0.5, 2),), pure=None, approximate=(), additive_delta=0)
        """
        return Loss(
            gaussian=self.gaussian / multiplier**2,
            laplace=tuple((rate / multiplier, count) for rate, count in self.laplace),
            pure=None if self.pure is None else self.pure / multiplier,
            approximate=tuple((epsilon / multiplier, delta, n) for epsilon, delta, n in self.approximate),
            additive_delta=self.additive_delta,
        )

    @property
    @mark_unaffected
    def basic_epsilon(self) -> Fraction:
        """The epsilon of the loss by basic composition, without Gaussian noise."""
        return self._laplace_total() + sum((e * n for e, _, n in self.approximate), Fraction(0))

    @property
    @mark_unaffected
    def rho(self) -> Fraction:
        """The rho of the loss in zero-concentrated DP, without its distinguishing events."""
        return self._add_up(self.gaussian / 2, lambda epsilon: epsilon * epsilon / 2)

    @property
    def mu_squared(self) -> Fraction:
        """The mu^2 of the loss in Gaussian DP, without its distinguishing events."""
        return self._add_up(self.gaussian, lambda epsilon: pure_mu(epsilon) ** 2)

    @property
    def least_delta(self) -> Fraction:
        """The part of delta that no epsilon removes: additive_delta and approximate deltas."""
        return self.additive_delta + self._leak()

    def delta(self, epsilon: object) -> Fraction:
        """Return an upper bound on the loss's delta at an epsilon.

        For Gaussian noise alone it is the exact closed form, rounded up. For pure and approximate mechanisms
        alone whose epsilons sum to at most epsilon, it is exactly the smallest delta. For up to 1,024 sums of
        losses, or 256 with Gaussian noise, it is exact for mechanisms of these epsilons, as a mixture in
        closed form. For more of them it is the delta of zero-concentrated DP.

        Args:
            epsilon: finite number greater than 0.
        Returns:
            A Fraction in [0, 1].
        Raises:
            BudgetError: epsilon is not a finite number greater than 0.
        Source:
            Kairouz, Oh and Viswanath 2015, "The composition theorem for differential privacy";
            `closed_forms` of this package.

        >>> float(Loss(gaussian=Fraction(1)).delta(1))
        0.126936737506...
        """
        noise, leak = self._noise(admissible_epsilon(epsilon)), self._leak()
        return min(Fraction(1), self.additive_delta + leak + (1 - leak) * noise)

    def epsilon(self, delta: object) -> Fraction:
        """Return the smallest epsilon found for the loss at a delta.

        Args:
            delta: number in [0, 1).
        Returns:
            A Fraction with `self.delta(epsilon) <= delta`, within 2^-20 of the smallest such; 0 if nothing is
            revealed. Laplace and approximate mechanisms alone give their exact sum if at most 1/1024 of it
            could be gained.
        Raises:
            BudgetError: delta is out of range, or no epsilon reaches it.
        Source:
            As for `delta`.

        >>> Loss(laplace=((Fraction(1, 10), 3),)).epsilon(0)
        Fraction(3, 10)
        """
        target = admissible_delta(delta)
        room = target - self.least_delta
        basic = self.basic_epsilon
        if room < 0 or (room == 0 and self.gaussian):
            raise BudgetError(f"delta is {float(target):.6g}, but {self._why_no_delta()}")
        if not self.gaussian and (basic == 0 or not self._improvable(basic, room)):
            return basic

        def height(x: float) -> float:
            noise = self.delta(Fraction(2.0**x)) - self.least_delta
            return log_ratio(noise, room)

        guess = basic + self.gaussian + 5 * Fraction(float(self.gaussian) ** 0.5)
        found = crossing(height, log2(guess), 2.0**-20, stride=1.0, reach=200.0)
        if found is None:  # pragma: no cover - a noise's delta vanishes at such an epsilon
            raise BudgetError(f"no epsilon reaches delta = {float(target):.6g}")
        epsilon = Fraction(2.0**found)
        return epsilon if self.gaussian else min(epsilon, basic)

    def _improvable(self, epsilon: Fraction, room: Fraction) -> bool:
        """Whether any bound of the loss can beat basic composition by 1/1024 of epsilon.

        All n losses are at their largest with probability at least 2^-n each way: delta at epsilon
        is then at least 2^-n (1 - e^(epsilon - sum)), whatever bound is used.

        Args:
            epsilon: what basic composition sums to.
            room: the delta that is left for the noise.
        """
        count = sum(n for _, n in self.laplace) + sum(n for _, _, n in self.approximate)
        if room <= 0:
            return False
        return -count + float_log2(-expm1(-float(min(epsilon, Fraction(1000))) / WORTHWHILE)) < log2(room)

    def _laplace_total(self) -> Fraction:
        if self.pure is not None:
            return self.pure
        return sum((rate * count for rate, count in self.laplace), Fraction(0))

    def _add_up(self, gaussian: Fraction, of_pure: Callable[[Fraction], Fraction]) -> Fraction:
        """Return a measure of all parts of the loss, added up, except its distinguishing events."""
        laplace = sum((of_pure(rate) * count for rate, count in self.laplace), Fraction(0))
        if self.pure is not None:  # a bound of all of them together
            laplace = min(laplace, of_pure(self.pure))
        others = sum((of_pure(epsilon) * count for epsilon, _, count in self.approximate), Fraction(0))
        return gaussian + laplace + others

    def _leak(self) -> Fraction:
        kept = Fraction(1)
        for _, delta, count in self.approximate:
            kept *= 1 - joined_delta(delta, count)
        return 1 - kept

    def _why_no_delta(self) -> str:
        if self.gaussian:
            return f"must be greater than {float(self.least_delta):.6g} where there is Gaussian noise"
        return f"group selection alone takes {float(self.least_delta):.6g}"

    def _noise(self, epsilon: Fraction) -> Fraction:
        """Return an upper bound of the loss's delta above its least delta."""
        basic = self.basic_epsilon
        if not self.gaussian and epsilon >= basic:
            return Fraction(0)
        # Pure mechanisms one by one, or all as one whose epsilon may be less, by a joint bound.
        max_sums = MAX_SUMS_WITH_GAUSSIAN if self.gaussian else MAX_SUMS
        each = [*((e, n) for e, _, n in self.approximate), *self.laplace]
        bounds = [Fraction(1)]

        def delta_after(loss: Fraction) -> Fraction:
            return gaussian_delta(epsilon - loss, self.gaussian)

        for parts in [each, [(basic, 1)]] if basic else [each]:
            losses = mixture(parts, max_sums)
            if losses is None:
                bounds.append(zcdp_delta(self.rho, epsilon))
            else:
                bounds.append(falling_average(losses, delta_after))
        return min(bounds)


@dataclass(frozen=True)
class PrivacyLoss(Measure):
    """The privacy measure whose map gives a `Loss`, from which delta follows at any epsilon.

    The numbers come from closed forms. A budget is (epsilon, delta).

    >>> from sfumato.budget import Loss
    >>> measure = PrivacyLoss()
    >>> both = measure.total([Loss(gaussian=Fraction(1, 4)), Loss(laplace=((Fraction(1, 2), 1),))])
    >>> measure.within(both, (Fraction(3), Fraction(1, 1000)))
    True

    Source:
        Zhu, Dong and Wang 2022, "Optimal accounting of differential privacy via characteristic function".
    """

    admitted = "a Loss of sfumato.budget"

    def _admit(self, loss: Any) -> Loss | None:
        """Return the Loss that a privacy map gave, or None if it gave something else.

        Args:
            loss: what the map gave.
        """
        return loss if isinstance(loss, Loss) else None

    def total(self, losses: Sequence[Loss]) -> Loss:
        """Return the composed loss of several losses."""
        return sum(losses, Loss())

    def within(self, loss: Loss, budget: tuple[Fraction, Fraction]) -> bool:
        """Whether a loss has at most the budget's delta at the budget's epsilon."""
        return loss.delta(budget[0]) <= budget[1]


def certify_loss(description: Mapping[str, Any], loss: Loss | None = None) -> Certificate:
    """Return the certificate of a release, if the charged loss is at least the certified one.

    Args:
        description: everything that is drawn, and the claim (docs/certificate.md).
        loss: the loss that a budget pays; None if the budget pays epsilon and delta alone.
    Raises:
        RefusalError: the release may lose more than it claims or pays, or something is unknown.
    """
    text = json.dumps(description)
    try:
        found = _certified(text) if len(text) <= _LONGEST_KEPT else certify(json.loads(text))
    except CertificateError as refusal:
        raise _make_refusal(str(refusal)) from None
    for what, paid, least in () if loss is None else _compare_losses(loss, found):
        if least is not None and paid < least:
            raise _make_refusal(
                f"{what} of {float(paid):.6g} would be paid, and {float(least):.6g} is proved"
            )
    return found


# The text of a description says all that is drawn, so that equal questions are certified once.
@lru_cache(maxsize=256)
def _certified(text: str) -> Certificate:
    return certify(json.loads(text))


def _compare_losses(loss: Loss, certificate: Certificate) -> tuple[tuple[str, Any, Any], ...]:
    """Return, for each measure of loss that budgets charge, the charged and the certified value."""
    one = [(epsilon, delta) for epsilon, delta, times in loss.approximate if times == 1]
    if len(one) == len(loss.approximate) == 1 and not (loss.gaussian or loss.laplace or loss.additive_delta):
        # One mechanism of any kind: budgets know its epsilon, and its delta as a chance of events.
        ((epsilon, delta),) = one
        if delta >= certificate.delta:
            return (("an epsilon", epsilon, certificate.epsilon),)
    pure = None if loss.gaussian else loss.basic_epsilon
    return (
        ("a pure epsilon", pure, None if pure is None else certificate.pure),
        ("a squared mu", loss.gaussian, certificate.mu_squared),
        ("a rho", loss.rho, certificate.rho),
        ("a chance of events", loss.least_delta, certificate.events),
    )


def _make_refusal(problem: str) -> RefusalError:
    return RefusalError(
        f"release: the certificate is refused, so nothing is read, charged or drawn: {problem}. This is a "
        "mistake in sfumato; please report it"
    )
