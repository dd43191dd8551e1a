"""Private group (partition) selection: which groups may be shown, by the number of units in each.

A group's key is private when it exists only because of some unit's rows. Three rules decide, each from
the number of units in the group alone; what they do is exact, in integers. With a pre-threshold T, a group of
fewer than T units is never shown and a rule sees x = units - (T - 1). A unit added or removed changes
x by at most 1, as it does units; and the step from "never shown" (x = 0) to x = 1 is, to the rule, the
step from an absent group to one of a single unit. So the same proof holds for every T.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from math import ceil, expm1, isqrt, log, log1p
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.budget.calibration import threshold_delta
from sfumato.budget.closed_forms import joined_delta
from sfumato.budget.epsilon_delta import admissible_count, admissible_delta, admissible_epsilon
from sfumato.budget.loss import Loss, PrivacyLoss
from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError, QueryError, RefusalError
from sfumato.exact import Number, positive_int
from sfumato.exact.library_settings import Isolated
from sfumato.exact.outward_rounding import exp_bounds, log2
from sfumato.exact.root_finding import find_first_integer
from sfumato.framework import WHOLE, ContributionDomain, Measurement, PrivacyUnitDistance
from sfumato.framework.record_keys import group_key, ordered_bytes
from sfumato.names.suggestions import suggest_arguments
from sfumato.noise import Gaussian, Laplace, Words, bernoulli_each
from sfumato.noise.k_norm.marginals import ErlangMixture
from sfumato.noise.noise_sums import log10_two_sided_tail

Units = NDArray[np.int64]
Flags = NDArray[np.bool_]

LONGEST_TABLE = 2**20
NEVER = np.iinfo(np.int64).min  # the noisy count of a group below the pre-threshold


class Selected(NamedTuple):
    """The selected groups, with noisy numbers of units if the selection rule makes them.

    Args:
        keep: for each group, whether it may be shown.
        noisy: int64, in the same order; None for a rule without noisy numbers.

    Made by `TruncatedGeometric.select`, and by the same method of thresholds.

    >>> from sfumato.measurements import TruncatedGeometric
    >>> TruncatedGeometric(epsilon=1, delta="1e-6").select([0, 1000])
    Selected(keep=array([False,  True]), noisy=None)
    """

    keep: Flags
    noisy: Units | None


class GroupSelection(Isolated, ABC):
    """A rule of group selection, which sees the numbers of units in groups."""

    pre_threshold: int

    @property
    @abstractmethod
    def expected_threshold(self) -> int:
        """The smallest number of units with an even chance, at least, of the group's selection."""

    @abstractmethod
    def chance(self, units: int) -> float:
        """Return about how probable the selection of a group of so many units is."""

    @abstractmethod
    def select(self, units: ArrayLike, words: Words | None = None) -> Selected:
        """Select groups: decide for each whether it may be shown.

        Args:
            units: whole numbers of shape (groups,): distinct units in each group.
            words: source of random words; None for this thread's secure words.
        Returns:
            bool of shape (groups,), and int64 of that shape or None, same order. Noisy counts of
            groups that are not kept must not be shown.
        Raises:
            ParameterError: units is not a one-dimensional array of integers. Never because of the data.
        """

    @property
    @abstractmethod
    def description(self) -> dict[str, Any]:
        """The description of the selection rule for the certificate."""

    @abstractmethod
    def loss(self, groups: int) -> Loss:
        """Return the loss of selection for one unit that is in at most `groups` groups.

        Args:
            groups: the most groups that a unit is in, at least 1.
        Returns:
            The loss of the whole selection, with that of the noisy counts.
        Raises:
            BudgetError: groups is not a whole number of at least 1.
        """

    def loss_beside_noise(self, groups: int) -> Loss:
        """Return the part of the selection's loss without that of noise on numbers shown anyway.

        Args:
            groups: the most groups that a unit is in, at least 1.
        Raises:
            BudgetError: groups is not a whole number of at least 1.
        """
        return self.loss(groups)


@dataclass(frozen=True, repr=False)
class TruncatedGeometric(Spelled, GroupSelection):
    """Select each group with the largest probability that (epsilon, delta)-DP allows for its units.

    Args:
        epsilon: a finite number greater than 0, per group.
        delta: a number in (0, 1), per group.
        pre_threshold: T, the smallest number of units of a group that may be kept.
    Raises:
        BudgetError: epsilon or delta is out of range.
        ParameterError: pre_threshold is not a whole number of at least 1.
        RefusalError: the rule would need a table of more than 2^20 probabilities.
    Source:
        Desfontaines, Voss, Gipson and Mandayam 2022, "Differentially private partition selection",
        theorem 1: pi_0 = 0, pi_n = min(e^eps pi_{n-1} + delta, 1 - e^-eps (1 - pi_{n-1} - delta), 1).

    The probabilities in use are rational. With r a rational, 1 <= r <= e^eps, and d <= delta, d on a grid,

        p_0 = 0,  p_n = the grid point at or below min(r p_{n-1} + d, 1 - (1 - p_{n-1} - d) / r, 1),

    and coins are tossed with exactly these. All four inequalities of (epsilon, delta)-DP between n - 1 and
    n units hold for them exactly:

    - p_n <= r p_{n-1} + d <= e^eps p_{n-1} + delta, as rounding is downward.
    - 1 - p_{n-1} <= e^eps (1 - p_n) + delta: p_n <= 1 - (1 - p_{n-1} - d) / r says that
      1 - p_{n-1} <= r (1 - p_n) + d; where 1 - p_{n-1} - d < 0 it holds for any p_n <= 1.
    - p_{n-1} <= p_n, whence p_{n-1} <= e^eps p_n + delta and 1 - p_n <= e^eps (1 - p_{n-1}) + delta: with
      1 - p_{n-1} - d >= 0 and r >= 1, each of the three bounds is at least min(p_{n-1} + d, 1), a grid point.

    >>> rule = TruncatedGeometric(epsilon=1, delta="1e-6")
    >>> rule.expected_threshold, rule.select([0, 1000]).keep
    (14, array([False,  True]))
    >>> rule.keep([1000])
    array([ True])
    >>> [round(rule.chance(units), 3) for units in (1, 10, 14, 20)]
    [0.0, 0.013, 0.7, 0.999]
    >>> rule.probability(1) <= rule.delta < rule.probability(2)  # exact: a unit alone is hardly ever shown
    True
    >>> rule.loss(groups=3).approximate  # epsilon, delta and how often
    ((Fraction(1, 1), Fraction(1, 1000000), 3),)
    """

    epsilon: Fraction
    delta: Fraction
    pre_threshold: int = 1

    if TYPE_CHECKING:  # numbers of any kind are made exact

        def __init__(self, epsilon: Number, delta: Number, pre_threshold: int = 1) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", admissible_epsilon(self.epsilon))
        object.__setattr__(self, "delta", admissible_delta(self.delta, zero=False))
        object.__setattr__(self, "pre_threshold", _admissible_pre_threshold(self.pre_threshold))
        if self._expected_length() > 1.1 * LONGEST_TABLE:
            self._refuse()

    @property
    def expected_threshold(self) -> int:
        """The smallest number of units with an even chance of the group's selection."""
        half = 1 << (self._bits - 1)
        return next(n for n, p in enumerate(self._table) if p >= half) + self.pre_threshold - 1

    def probability(self, units: int) -> Fraction:
        """Return the exact probability that a group with this number of units is selected.

        Args:
            units: the number of units in the group, at least 0.
        Returns:
            A Fraction.
        """
        seen = min(max(units - self.pre_threshold + 1, 0), len(self._table) - 1)
        return Fraction(self._table[seen], 1 << self._bits)

    def chance(self, units: int) -> float:
        """Return the probability that a group with this number of units is selected, as a float.

        Args:
            units: the number of units in the group, at least 0.
        Returns:
            A float.
        """
        return float(self.probability(units))

    def keep(self, units: ArrayLike, words: Words | None = None) -> Flags:
        """Decide at random for each group whether it is selected, without noisy counts.

        Args:
            units: the number of units of each group.
            words: a source of random words.
        Returns:
            For each group, whether it is kept.
        Raises:
            ParameterError: a number of units is not a whole number of at least 0, or words is not a source of
                random words.
        """
        seen = np.minimum(_seen(units, self.pre_threshold), len(self._table) - 1)
        present, index = np.unique(seen, return_inverse=True)
        scale = 1 << self._bits
        return bernoulli_each([Fraction(self._table[n], scale) for n in present.tolist()], index, words)

    def select(self, units: ArrayLike, words: Words | None = None) -> Selected:
        """Select groups at random, without noisy counts."""
        return Selected(self.keep(units, words), None)

    def loss(self, groups: int) -> Loss:
        """Return the loss of selecting among `groups` groups, each (epsilon, delta)-DP."""
        return Loss(approximate=((self.epsilon, self.delta, admissible_count(groups, "groups")),))

    @property
    def description(self) -> dict[str, Any]:
        """The description of truncated geometric selection for the certificate."""
        budget = {"epsilon": str(self.epsilon), "delta": str(self.delta)}
        return {"kind": "truncated_geometric", **budget, "pre_threshold": self.pre_threshold}

    @cached_property
    def _bits(self) -> int:
        return (self.delta.denominator // self.delta.numerator).bit_length() + 64

    @cached_property
    def _table(self) -> list[int]:
        """Numerators of the selection probabilities p_0, p_1, ... over 2^bits, up to the first 1."""
        bits = self._bits
        one = 1 << bits
        ratio = self._ratio()  # of 2^bits too
        leak = self.delta.numerator * one // self.delta.denominator
        table = [0]
        while table[-1] < one:
            if len(table) > LONGEST_TABLE:
                self._refuse()
            before = table[-1]
            rest = one - before - leak
            by_true = ((ratio * before) >> bits) + leak
            by_false = one + (-rest * one) // ratio if rest > 0 else one
            table.append(min(by_true, by_false, one))
        return table

    def _ratio(self) -> int:
        """A rational r at most e^epsilon, the step of selection probabilities, over 2^bits."""
        bits = self._bits
        if self.epsilon > bits:
            return 1 << (2 * bits)
        power = exp_bounds(self.epsilon, 2 * bits + 64)[0]
        return max(1 << bits, min(power.numerator * (1 << bits) // power.denominator, 1 << (2 * bits)))

    def _expected_length(self) -> float:
        # Up to 1/2, p_n is delta (e^(n eps) - 1) / (e^eps - 1); from there it mirrors.
        epsilon = min(float(self.epsilon), 700.0)
        rise = (log(expm1(epsilon)) if epsilon > 1e-300 else -690.0) - (log2(self.delta) + 1) * log(2)
        return 2 * (log1p(np.exp(rise)) if rise < 30 else rise) / epsilon

    def _refuse(self) -> None:
        raise RefusalError(
            f"TruncatedGeometric(epsilon={float(self.epsilon):.6g}, "
            f"delta={float(self.delta):.6g}) needs a table of more than 2^20 probabilities. Use "
            "LaplaceThreshold or GaussianThreshold instead"
        )


class _Threshold(GroupSelection):
    """Select the groups whose noisy number of units reaches a threshold.

    Proof of the loss, for both thresholds. Call *lone* the groups in which the unit is the only one that
    the rule sees (x = 1 with it, never shown without it), and q the chance that any of them is kept. All
    that is shown of lone groups is "none" with probability 1 without the unit, and with probability at
    least 1 - q with it: that is (0, q)-DP both ways. The other groups are there either way, and get noise
    on counts that the unit moves by 1 each. The two compose: delta is at most delta of the noise plus q.
    The lone groups are at most `groups` and their noises independent: q <= 1 - (1 - d)^groups where
    d bounds P(1 + R >= tau). Counts of kept groups are post-processing of the noisy counts.
    """

    law: Laplace | Gaussian
    delta_per_group: Fraction
    one: ClassVar[int] = 1  # what a unit of a single group adds to it

    def __post_init__(self) -> None:
        delta = admissible_delta(self.delta_per_group, "delta_per_group", zero=False)
        object.__setattr__(self, "delta_per_group", delta)
        object.__setattr__(self, "pre_threshold", _admissible_pre_threshold(self.pre_threshold))

    @cached_property
    def tau(self) -> int:
        """The selection threshold: the smallest whole tau with P(1 + R >= tau) <= delta_per_group.

        R is what is drawn, so R is what is judged: P(R >= tau - 1) = P(Z > tau - 3/2). The real noise
        has P(Z >= tau - 1), which is smaller: by exp(1 / (2 scale)) for Laplace noise.
        """

        return self._least(1, self.delta_per_group)

    def _least(self, added: int, chance: Fraction) -> int:
        """Return the smallest tau that a unit reaches by itself with at most this chance.

        Args:
            added: what it adds to the group.
            chance: in (0, 1).
        """

        def enough(tau: int) -> bool:
            return self.law.tail_bounds(tau - added - Fraction(1, 2))[1] <= chance

        return find_first_integer(enough, ceil(self.law.tail_quantile(chance) + added + 0.5))

    @property
    def description(self) -> dict[str, Any]:
        """The description of the threshold rule for the certificate."""
        known = {"threshold": self.tau, "pre_threshold": self.pre_threshold}
        return {"kind": "threshold", "name": "units", **known}

    @property
    def expected_threshold(self) -> int:
        """The smallest number of units with an even chance, at least, to reach the threshold."""
        return -(-max(self.tau, 1) // self.one) + self.pre_threshold - 1

    def chance(self, units: int) -> float:
        """Return approximately the probability that this number of units, with noise, reaches the threshold.

        Args:
            units: the number of units in the group, at least 0.
        Returns:
            A float.
        """
        if units < self.pre_threshold:
            return 0.0
        # Noise from here on, and it is symmetrical.
        beyond = self.tau + self.pre_threshold - 1 - units * self.one - 0.5
        half = float(10.0 ** self._log10_two_sided_tail(abs(beyond))) / 2
        return half if beyond > 0 else 1 - half

    def _log10_two_sided_tail(self, x: float) -> float:
        return log10_two_sided_tail(self.law, x)

    def noisy(self, units: ArrayLike, words: Words | None = None) -> Units:
        """Return noisy numbers of units for group selection: each plus exactly rounded noise.

        If a release also requests the count, this is the count of a kept group; it costs nothing more.

        Args:
            units: whole numbers of shape (groups,).
            words: source of random words; None for this thread's secure words.
        Returns:
            int64 of shape (groups,), same order: (units - (T - 1)) + noise + (T - 1). Groups of fewer than
            T units, which are never kept, get -2^63. Sums beyond 2^63 - 1 are moved to that.
        Raises:
            ParameterError: units is not a one-dimensional array of integers.
        """
        seen = _seen(units, self.pre_threshold)
        return self._with_noise(units, self.law.rounded(len(seen), words))

    def _with_noise(self, units: ArrayLike, noise: Units) -> Units:
        """Return noisy numbers of units, with noise that was drawn by the law beforehand."""
        seen = _seen(units, self.pre_threshold)
        total: Units = seen + noise  # wraps only upward, as seen >= 0
        total[(noise > 0) & (total < 0)] = np.iinfo(np.int64).max
        room = np.iinfo(np.int64).max - (self.pre_threshold - 1)
        total = np.minimum(total, room)
        total += self.pre_threshold - 1
        total[seen == 0] = NEVER
        return total

    def keep(self, noisy: Units) -> Flags:
        """Return which groups reach the threshold.

        Args:
            noisy: the result of `noisy`.
        Returns:
            For each group, whether it is kept.
        """
        least = self.tau + self.pre_threshold - 1
        if least > np.iinfo(np.int64).max:
            return np.zeros(len(noisy), np.bool_)
        kept: Flags = (noisy != NEVER) & (noisy >= max(least, NEVER))
        return kept

    def select(self, units: ArrayLike, words: Words | None = None) -> Selected:
        """Select the groups whose noisy number of units reaches the threshold; return these numbers too."""
        noisy = self.noisy(units, words)
        return Selected(self.keep(noisy), noisy)

    def loss(self, groups: int) -> Loss:
        """Return the loss of noisy numbers of units in `groups` groups and of a lone unit's selection."""
        return self._noise_loss(admissible_count(groups, "groups")) + self.loss_beside_noise(groups)

    def loss_beside_noise(self, groups: int) -> Loss:
        """Return the additional loss of selecting a lone unit's groups, without that of the noise.

        Args:
            groups: the most groups of a unit, at least 1.
        Returns:
            The part of `loss` that noise on the numbers of units does not have.
        Raises:
            BudgetError: groups is not a whole number of at least 1.
        """
        count = admissible_count(groups, "groups")
        return Loss(additive_delta=joined_delta(self.delta_per_group, count))

    @abstractmethod
    def _noise_loss(self, groups: int) -> Loss: ...


@dataclass(frozen=True, repr=False)
class LaplaceThreshold(Spelled, _Threshold):
    """Select the groups whose number of units, with Laplace noise, reaches a threshold.

    Args:
        law: Laplace noise with its scale in units; epsilon per group is 1 / scale.
        delta_per_group: the largest probability of keeping a group of one unit, in (0, 1).
        pre_threshold: T, the smallest number of units of a group that may be kept.
    Raises:
        BudgetError: delta_per_group is out of range.
        ParameterError: law is not a Laplace law, or pre_threshold is not a whole number of at least 1.
    Source:
        Korolova, Kenthapadi, Mishra and Ntoulas 2009, "Releasing search queries and clicks privately";
        Wilson et al. 2020, "Differentially private SQL with bounded user contribution".

    >>> from sfumato.noise import Laplace
    >>> rule = LaplaceThreshold(Laplace(scale=1), "1e-6")
    >>> rule.tau, rule.expected_threshold, float(rule.loss(groups=2).epsilon("2e-6"))
    (15, 15, 2.0)
    >>> float(rule.loss_beside_noise(groups=2).additive_delta)  # of a unit that is alone in both
    1.999999e-06
    >>> [round(rule.chance(units), 3) for units in (10, 15, 20)]
    [0.006, 0.697, 0.998]
    >>> noisy = rule.noisy([0, 1000])
    >>> rule.keep(noisy), rule.select([0, 1000]).keep
    (array([False,  True]), array([False,  True]))
    """

    law: Laplace
    delta_per_group: Fraction
    pre_threshold: int = 1

    if TYPE_CHECKING:  # numbers of any kind are made exact

        def __init__(self, law: Laplace, delta_per_group: Number, pre_threshold: int = 1) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.law, Laplace):
            raise ParameterError("law", self.law, "Laplace(scale=...)")
        super().__post_init__()

    def _noise_loss(self, groups: int) -> Loss:
        return Loss(laplace=((1 / self.law.scale, groups),))


@dataclass(frozen=True, repr=False)
class GaussianThreshold(Spelled, _Threshold):
    """Select the groups whose number of units, with Gaussian noise, reaches a threshold.

    Args:
        law: Gaussian noise with its sigma in units; mu^2 is groups / sigma^2.
        delta_per_group: the largest probability of keeping a group of one unit, in (0, 1).
        pre_threshold: T, the smallest number of units of a group that may be kept.
    Raises:
        BudgetError: delta_per_group is out of range.
        ParameterError: law is not a Gaussian law, or pre_threshold is not a whole number of at least 1.
    Source:
        As for `LaplaceThreshold`; Swanberg, Desfontaines and Haney 2023, "DP-SIPS: a simpler, more scalable
        mechanism for differentially private partition selection", section 2.

    >>> from sfumato.noise import Gaussian
    >>> rule = GaussianThreshold(Gaussian(sigma=2), "1e-6")
    >>> rule.tau, rule.loss(groups=4).gaussian
    (12, Fraction(1, 1))
    >>> float(rule.loss_beside_noise(groups=1).additive_delta)
    1e-06
    >>> [round(rule.chance(units), 3) for units in (6, 12, 18)]
    [0.003, 0.599, 0.999]
    >>> noisy = rule.noisy([0, 1000])
    >>> rule.keep(noisy), rule.select([0, 1000]).keep
    (array([False,  True]), array([False,  True]))
    """

    law: Gaussian
    delta_per_group: Fraction
    pre_threshold: int = 1

    if TYPE_CHECKING:  # numbers of any kind are made exact

        def __init__(self, law: Gaussian, delta_per_group: Number, pre_threshold: int = 1) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.law, Gaussian):
            raise ParameterError("law", self.law, "Gaussian(sigma=...)")
        super().__post_init__()

    def _noise_loss(self, groups: int) -> Loss:
        return Loss(gaussian=groups / self.law.sigma**2)


@dataclass(frozen=True, repr=False)
class SharedThreshold(GaussianThreshold):
    """Select the groups whose sum of units' shares, with Gaussian noise, reaches a threshold.

    A unit in t groups adds 1/sqrt(t) to each of them, so 1 to all in the L2 norm.

    Args:
        law: Gaussian noise with its sigma in steps of 2^-20 of a unit.
        delta_per_group: the largest probability of showing any group that has only one unit, in (0, 1).
        pre_threshold: always 1.
        groups: the most groups of a unit that count, at least 1.
    Raises:
        BudgetError: delta_per_group is out of range.
        ParameterError: law is not a Gaussian law, or groups is not a whole number of at least 1.
    Source:
        Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin 2020, "Differentially private set union",
        weighted Gaussian. Proof: docs/proofs/share_groups.md.

    >>> from sfumato.noise import Gaussian
    >>> rule = SharedThreshold(Gaussian(sigma=2 * 2**20), "1e-6", groups=1000)
    >>> rule.expected_threshold, float(rule.loss(groups=1000).gaussian)
    (13, 0.25)
    >>> [round(rule.chance(units), 3) for units in (6, 13, 18)]  # of units that are in no other group
    [0.001, 0.684, 0.999]
    """

    one: ClassVar[int] = WHOLE

    groups: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_int(self.groups, "groups")

    @cached_property
    def tau(self) -> int:
        """The selection threshold: the smallest that delta allows for every number of groups of a unit.

        From each power of two to the next, it is computed for the share of the power and the last number
        before the next.
        """
        found = []
        for i in range(self.groups.bit_length()):
            each = threshold_delta(self.delta_per_group, min((2 << i) - 1, self.groups))
            found.append(self._least(isqrt(WHOLE**2 >> i), each))
        return max(found)

    def loss_beside_noise(self, groups: int) -> Loss:
        """Return the additional loss of selecting a lone unit's groups, however many they are."""
        return super().loss_beside_noise(1)

    def _noise_loss(self, groups: int) -> Loss:
        return Loss(gaussian=WHOLE**2 / self.law.sigma**2)


def _admissible_pre_threshold(value: object) -> int:
    number = positive_int(value, "pre_threshold")
    if number > 2**62:
        raise ParameterError("pre_threshold", value, "at most 2^62")
    return number


def _seen(units: ArrayLike, pre_threshold: int) -> Units:
    """Return what group selection sees of each group: max(0, units - (T - 1)), as a fresh int64 array."""
    array = np.asarray(units)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ParameterError(
            "units", f"{array.dtype.name} of shape {array.shape}", "integers of shape (groups,)"
        )
    if array.dtype == np.uint64:
        array = np.minimum(array, np.iinfo(np.int64).max)
    seen: Units = np.maximum(array.astype(np.int64), 0)
    return np.maximum(seen - (pre_threshold - 1), 0)


@dataclass(frozen=True, repr=False)
class KNormThreshold(Spelled, _Threshold):
    """Select the groups whose number of units, with each group's K-norm noise, reaches a threshold.

    Args:
        law: of the units in a `SeparateNoise`, of which the other numbers of the group are part.
        delta_per_group: the most with which a group of one unit is kept, in (0, 1).
        pre_threshold: T, the fewest units with which a group may be kept.
    Source:
        docs/proofs/k_norm.md, "Private groups".

    >>> from sfumato.noise.k_norm import Cone, SeparateNoise
    >>> from sfumato.noise.k_norm.marginals import separate
    >>> law = separate(SeparateNoise(Cone(1), (Fraction(1), Fraction(30))), 0)
    >>> KNormThreshold(law, "1e-6").tau, LaplaceThreshold(Laplace(2), "1e-6").tau
    (17, 28)
    """

    law: ErlangMixture  # type: ignore[assignment]
    delta_per_group: Fraction
    pre_threshold: int = 1

    if TYPE_CHECKING:  # numbers of any kind are made exact

        def __init__(self, law: ErlangMixture, delta_per_group: Number, pre_threshold: int = 1) -> None: ...

    def _log10_two_sided_tail(self, x: float) -> float:
        return float(self.law.log10_outside(x))

    def select(self, units: ArrayLike, words: Words | None = None) -> Selected:
        """Refuse to select by units alone: they get no noise by themselves."""
        raise QueryError("K-norm noise of units is drawn jointly with all other numbers of their group")

    def _noise_loss(self, groups: int) -> Loss:
        raise QueryError("K-norm noise of units is charged jointly with all other numbers")


@suggest_arguments
def select_groups(rule: GroupSelection, groups: int) -> Measurement:
    """Select the groups that may be shown, by their noisy numbers of units.

    Args:
        rule: `TruncatedGeometric`, `LaplaceThreshold` or `GaussianThreshold`; or `SharedThreshold`, for which
            the numbers are sums of units' shares.
        groups: the most groups of a unit, at least 1, as enforced by `bound_groups` or `share_groups`.
    Returns:
        A Measurement from contributions to a dict: the keys that may be shown, each with its noisy number of
        units (None if the rule makes none). The order of the keys and their names are functions of their
        values (1 for True and 1.0, one NaN). Its map takes one unit added or removed, and gives the rule's
        `loss(groups)`.
    Raises:
        ParameterError: rule is not one of these, or groups is not a whole number of at least 1 or is above
            that of a `SharedThreshold`; from `map`, for d_in above 1.

    >>> from sfumato.measurements import LaplaceThreshold
    >>> from sfumato.noise import Laplace
    >>> from sfumato.transformations import Row, bound_groups
    >>> chosen = bound_groups(2) >> select_groups(LaplaceThreshold(Laplace(1), "1e-20"), groups=2)
    >>> rows = [Row(unit, "often", {}) for unit in range(1000)] + [Row(1, "once", {})]
    >>> list(chosen(rows)), float(chosen.map(1).epsilon("2e-20"))
    (['often'], 2.0)

    Source:
        That of the rule. Proof: docs/proofs/select_groups.md.
    """
    if not isinstance(rule, GroupSelection):
        raise ParameterError("rule", rule, "a TruncatedGeometric, LaplaceThreshold or GaussianThreshold")
    groups = positive_int(groups, "groups")
    shared = isinstance(rule, SharedThreshold)
    if isinstance(rule, SharedThreshold) and groups > rule.groups:
        raise ParameterError("groups", groups, f"at most {rule.groups}, as the rule has")
    loss = rule.loss(groups)

    def function(contributions: Mapping[Hashable, Sequence[Any]]) -> dict[Hashable, int | None]:
        # Sorted, because the order of a table's groups tells of its rows.
        units: Counter[Hashable] = Counter()
        for key, lists in contributions.items():
            units[group_key(key)] += sum(part.weight for part in lists) if shared else len(lists)
        keys = sorted(units, key=ordered_bytes)
        keep, noisy = rule.select([units[key] for key in keys])
        counts = [None] * len(keys) if noisy is None else noisy.tolist()
        return {key: count for key, count, kept in zip(keys, counts, keep, strict=True) if kept}

    def privacy_map(d_in: Fraction) -> Loss:
        if d_in > 1:
            raise ParameterError("d_in", d_in, "at most 1: the loss of a selection is stated for one unit")
        return loss if d_in == 1 else Loss()

    return Measurement(
        f"select_groups({type(rule).__name__})",
        ContributionDomain(groups, shared=shared),
        PrivacyUnitDistance(groups, shared=shared),
        PrivacyLoss(),
        function,
        privacy_map,
    )
