"""Tolerances that a test states: a number, a mapping, a function of k, or a law."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sfumato.errors import ParameterError
from sfumato.noise import Law
from sfumato.noise.k_norm.marginals import Marginal
from sfumato.noise.noise_sums import NoiseSum
from sfumato.testing.assertions.compared_values import ONLY, Group, is_number, label, number, read
from sfumato.testing.assertions.output_tolerances import each_k, log10_tail
from sfumato.testing.discrete_laws import DiscreteLaw, to_assertion_law
from sfumato.testing.flakiness import charge, charge_unstated, check_k

Tolerance = Any


class Limits:
    """The tolerance of each value, as stated by an assertion's `tolerance` or `law`."""

    def __init__(
        self,
        tolerance: Tolerance,
        law: Law | Marginal | DiscreteLaw | None,
        k: object,
        values: int,
        *,
        whole: bool,
        joint: bool = False,
    ) -> None:
        if (tolerance is None) == (law is None):
            raise ParameterError(
                "tolerance", tolerance, "given, or else law=..., a law of the noise, but not both"
            )
        known = Law | DiscreteLaw if joint else Law | DiscreteLaw | Marginal
        if law is not None and not isinstance(law, known):
            raise ParameterError(
                "law", law, "a law of sfumato.noise, such as Laplace(scale=2), or one of sfumato.testing"
            )
        self.tolerance = tolerance
        self.law = to_assertion_law(law)
        self._complementary = not whole
        if k is not None:
            check_k(k)
        self.k: float = math.nan
        self._of_law: dict[bool, float] = {}
        derived = law is not None or callable(tolerance)
        self._given = None if derived else StatedTolerance(tolerance)
        if self._given is not None and self._given.one is not None:
            self._able_to_fail(self._given.one)
        if derived or k is not None:
            self.k = charge(k)
        else:
            charge_unstated()
        apart = not isinstance(law, Marginal)
        self.each: float = each_k(self.k, max(values, 1), apart=apart) if derived and not joint else math.nan
        self.stated: str = "" if math.isnan(self.k) else f" (flakiness 10^-{self.k:.4g} in all)"

    def find(self, group: Group, output: str, rounded: bool) -> float:
        """Return the stated tolerance of one value; `rounded` where its noise is."""
        if isinstance(self.law, DiscreteLaw):
            if True not in self._of_law:
                self._of_law[True] = float(self.law.tolerance(self.each))
            return self._of_law[True]
        if self.law is not None:
            if rounded not in self._of_law:
                law, each = self.law, self.each
                self._of_law[rounded] = float(law.rounded_tolerance(each)) if rounded else law.tolerance(each)
            return self._of_law[rounded]
        if callable(self.tolerance):
            return self._able_to_fail(_limit(self.tolerance(self.each)))
        assert self._given is not None
        return self._able_to_fail(self._given.stated(group, output))

    def _able_to_fail(self, found: float) -> float:
        """Refuse a stated tolerance with which no value can fail."""
        if self._complementary and found == 0:
            raise ParameterError(
                "tolerance",
                0,
                "greater than 0. Pass the noise: law=Laplace(2), k=23",
            )
        if not self._complementary and found == math.inf:
            raise ParameterError("tolerance", found, "finite")
        return found

    def log10_outside(self, gap: float, rounded: bool) -> float | None:
        """Return log10 of the probability of such a gap, where a law is stated."""
        if self.law is None:
            return None
        if isinstance(self.law, DiscreteLaw):
            return self.law.log10_outside(math.ceil(gap) - 1)
        if rounded and isinstance(self.law, Law):
            return NoiseSum(((1.0, self.law),)).log10_tail(gap)
        return log10_tail(self.law, gap - (0.5 if rounded else 0.0))


class StatedTolerance:
    """A stated tolerance: a number, a mapping by group, by output or by both, or an array."""

    def __init__(self, tolerance: Any) -> None:
        self.by: Mapping[Group, Mapping[str, object]] = {}
        self.one: float | None = None
        if is_number(tolerance):
            self.one = _limit(tolerance)
        else:
            self.by = read(tolerance, "tolerance", ()).values

    def stated(self, group: Group, output: str) -> float:
        """Return the stated tolerance of a value.

        Raises:
            ParameterError: none is.
        """
        found = self.find(group, output)
        if found is None:
            raise ParameterError("tolerance", None, f"given for {label(group)} {output} too")
        return found

    def find(self, group: Group, output: str) -> float | None:
        """Return the stated tolerance of a value; None where there is none."""
        if self.one is not None:
            return self.one
        for place, name in ((group, output), (group, ONLY), ((output,), ONLY)):
            row = self.by.get(place, {})
            if name in row:
                return _limit(row[name])
        return None


def _limit(value: object) -> float:
    found = number(value)
    if found is None or math.isnan(found) or found < 0:
        raise ParameterError("tolerance", value, "a number of at least 0")
    return found
