"""The measurement of the largest groups: exact numbers of groups to ranks, keys and noisy numbers."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.budget import Loss
from sfumato.budget.closed_forms import zcdp_delta
from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError, RefusalError
from sfumato.exact import as_fraction
from sfumato.exact.library_settings import isolated
from sfumato.exact.outward_rounding import exp_bounds
from sfumato.measurements.candidate_selection import peel, peel_limited
from sfumato.measurements.independent_noise import NOISES, Law, NoiseKind
from sfumato.measurements.int128_array import arrow_column
from sfumato.noise import Words
from sfumato.query.engine_protocol import ExactQuery
from sfumato.transformations import CountUnits, UnitSum

RANK, UNITS, SUM = "rank", "units", "sum"


@dataclass(frozen=True, repr=False)
class TopMeasurement(Spelled):
    """The measurement of the largest groups: it draws them from exact statistics and maps to the loss.

    `draw` and `map` use the same parameters, without another copy of them. Workers run the same object,
    pickled.

    Args:
        keys: the names of the key columns.
        statistic: the statistic that ranks the groups.
        whole: whether the numbers are whole.
        k: the number of groups to release.
        candidates: the number of largest groups from which to choose; None for public groups.
        share: the share of the budget for the numbers, from 0 to less than 1.
        each: the epsilon of one choice.
        zcdp: the epsilon at which zCDP composition states the loss; None for pure DP.
        law: the distribution of the noise on the numbers, in steps; None without numbers.
        margin: the distance of the end marker above the groups that are not candidates; None for public
            groups.
    """

    keys: tuple[str, ...]
    statistic: CountUnits | UnitSum
    whole: bool
    k: int
    candidates: int | None
    share: Fraction
    each: Fraction
    zcdp: Fraction | None = None
    law: Law | None = None
    margin: int | None = None

    @property
    def statistics(self) -> tuple[CountUnits | UnitSum]:
        """The statistic that ranks the groups, which the engine computes."""
        return (self.statistic,)

    @property
    def kind(self) -> NoiseKind:
        """The kind of noise on the numbers of the largest groups."""
        return NOISES["laplace" if self.zcdp is None else "gaussian"]

    @property
    def laws(self) -> Mapping[str, Law]:
        """The distribution of the noise on the numbers, in steps; empty without numbers."""
        return {} if self.law is None else {self.measured: self.law}

    @property
    def measured(self) -> str:
        """The name of the column with the numbers of the largest groups."""
        return UNITS if isinstance(self.statistic, CountUnits) else SUM

    @property
    def names(self) -> list[str]:
        """The output columns of the largest groups."""
        return [RANK, *self.keys, *self.laws]

    @property
    def step(self) -> Fraction:
        """The grid step of the numbers, in their own unit."""
        return self.statistic.coordinates[0].step

    @property
    def ends(self) -> tuple[int, int]:
        """The smallest and the largest amount that one unit adds to a group's number, in steps."""
        one = self.statistic
        return (1, 1) if isinstance(one, CountUnits) else (one.lower, one.upper)

    @property
    def spread(self) -> int:
        """The largest change of one group's score relative to another's by one unit, in steps."""
        lower, upper = self.ends
        return max(upper, 0) - min(lower, 0)

    @property
    def largest(self) -> int:
        """The largest change of a released group's number by one unit, in steps."""
        lower, upper = self.ends
        return max(abs(lower), abs(upper))

    @property
    def rate(self) -> Fraction:
        """The weight of one step of the score in the exponent of each choice."""
        return self.each / self.spread

    @cached_property
    def loss(self) -> Loss:
        """The privacy loss of the largest groups for one unit."""
        return self.map(1)

    @isolated
    def map(self, units: int = 1) -> Loss:
        """Return the privacy loss of choices and numbers together, from the parameters that draw them.

        Args:
            units: the number of privacy units added or removed; at most 1 for private groups.
        Returns:
            The loss.
        Raises:
            ParameterError: units is above 1 and groups are private.
            BudgetError: no budget can have the epsilon of the loss.

        >>> import pyarrow as pa, sfumato as sf
        >>> sales = sf.scan(pa.table({"id": [1, 2], "town": ["a", "b"]}), privacy_unit="id")
        >>> sales.top("town", k=2, keys=["a", "b"]).plan(epsilon=1).measurement.map(1).epsilon(0)
        Fraction(1, 1)

        Source:
            docs/proofs/top_k.md and docs/proofs/limited_top_k.md.
        """
        if not units:
            return Loss()
        if units > 1 and self.candidates is not None:
            raise ParameterError("units", units, "at most 1, where groups are private")
        pick = units * self.rate * self.spread
        number = Fraction(0) if self.law is None else units * self.largest / self.law.unit
        epsilon, delta = self.k * (pick + number), Fraction(0)
        if self.zcdp is not None:
            # Picks of zCDP, and Gaussian noise of numbers.
            epsilon, rho = self.zcdp, self.k * (pick**2 / 8 + number**2 / 2)
            delta = zcdp_delta(rho, epsilon)
        if self.candidates is not None and self.margin is not None:
            end = self.rate * (self.margin - self.largest + 1)
            missed = self.candidates * exp_bounds(-end, 128)[1]
            delta += (1 + exp_bounds(epsilon, 128)[1]) * missed
        return Loss(approximate=((epsilon, Fraction(0), 1),), additive_delta=min(delta, Fraction(1)))

    def charge(self, epsilon: Fraction, delta: Fraction) -> Loss:
        """Return the charge of the largest groups to a budget.

        Args:
            epsilon, delta: the claim of the plan.
        Returns:
            The charge.
        Raises:
            BudgetError: no budget can have this epsilon.

        >>> import pyarrow as pa, sfumato as sf
        >>> sales = sf.scan(pa.table({"id": [1, 2], "town": ["a", "b"]}), privacy_unit="id")
        >>> plan = sales.top("town", k=2, keys=["a", "b"]).plan(epsilon=1)
        >>> plan.measurement.charge(plan.epsilon, plan.delta).epsilon(0)
        Fraction(1, 1)
        """
        return Loss(approximate=((epsilon, delta, 1),))

    def description(self, exact: ExactQuery) -> dict[str, Any]:
        """Return the description of choices and numbers that the certificate reads.

        Args:
            exact: the transformation that the engine computes.
        Returns:
            The description, as plain data.

        >>> import pyarrow as pa, sfumato as sf
        >>> sales = sf.scan(pa.table({"id": [1, 2], "town": ["a", "b"]}), privacy_unit="id")
        >>> plan = sales.top("town", k=2, keys=["a", "b"]).plan(epsilon=1)
        >>> plan.measurement.description(plan.exact)["picks"]
        2
        """
        law, (lower, upper) = self.law, self.ends
        return {
            "kind": "largest_groups",
            "keys": "private" if exact.public_keys is None else "public",
            "lower": str(lower),
            "upper": str(upper),
            "rate": str(self.rate),
            "picks": self.k,
            "candidates": self.candidates,
            "margin": self.margin,
            "noise": None if law is None else {"law": law.name, "scale": str(law.unit)},
        }

    @isolated
    def draw(self, exact: pa.Table, words: Words | None = None) -> pa.Table:
        """Draw the largest groups.

        Args:
            exact: the keys, and after them each group's number in steps: for public groups all of them, for
                private groups at least the `candidates` + 1 largest.
            words: a source of random words; None for this thread's secure source.
        Returns:
            A table of ranks and keys, with noisy numbers if requested.

        >>> import pyarrow as pa, sfumato as sf
        >>> from sfumato.noise import SeededWords
        >>> sales = sf.scan(pa.table({"id": [1, 2], "town": ["a", "b"]}), privacy_unit="id")
        >>> plan = sales.top("town", k=1, keys=["a", "b"]).plan(epsilon=1)
        >>> plan.measurement.draw(pa.table({"town": ["a", "b"], "units": [5, 3]}), SeededWords(1)).num_rows
        1
        """
        law, exact = self.law, exact.combine_chunks()
        numbers = _integers(exact.column(exact.num_columns - 1))
        picked = self._pick_groups(numbers, words)
        index = arrow_column(np.array(picked, np.int64))
        columns: dict[str, Any] = {RANK: arrow_column(np.arange(1, len(picked) + 1, dtype=np.int64))}
        for place, key in enumerate(self.keys):
            columns[key] = exact.column(place).take(index).combine_chunks()
        if law is not None:
            noise = law.rounded(len(picked), words)
            columns[self.measured] = self._numbers([numbers[i] for i in picked], noise.tolist())
        return pa.table(columns)

    def _pick_groups(self, numbers: NDArray[Any], words: Words | None) -> list[int]:
        """Pick the largest groups one after another."""
        if self.candidates is None or self.margin is None:
            # Of keys that a pipeline brings there may be fewer.
            most = min(self.k, len(numbers))
            return peel(numbers, self.rate, most, words) if most else []
        return peel_limited(numbers, self.rate, self.k, self.candidates, self.margin, words)

    @isolated
    def half_width(self, confidence: float, simultaneous: bool = False) -> float:
        """Return the half-width of the error bars of the largest groups' numbers.

        Args:
            confidence: in (0, 1), the chance that a group's number is within this distance of the truth.
            simultaneous: let the confidence hold for all groups at once.
        Returns:
            The half-width, in the unit of the numbers.
        Raises:
            ParameterError: confidence is not in (0, 1).
            RefusalError: the release has no numbers.

        >>> import pyarrow as pa, sfumato as sf
        >>> sales = sf.scan(pa.table({"id": [1, 2], "town": ["a", "b"]}), privacy_unit="id")
        >>> sales.top("town", k=1, keys=["a", "b"]).plan(epsilon=1).measurement.half_width(0.95)
        6.0
        """
        if not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
            raise ParameterError("confidence", confidence, "between 0 and 1, such as 0.95")
        if self.law is None:
            raise RefusalError("errors: ranks have no error bars, and counts=False left the numbers out")
        each = as_fraction(confidence, "confidence")
        if simultaneous:
            each = 1 - (1 - each) / self.k
        return float(self.law.rounded_half_width(each) * self.step)

    def _numbers(self, exact: list[int], noise: list[int]) -> pa.Array:
        noisy = [(int(n) + z) * self.step for n, z in zip(exact, noise, strict=True)]
        if not self.whole:
            return arrow_column(np.array([float(x) for x in noisy], np.float64))
        return arrow_column(np.array([min(max(round(x), -(2**63)), 2**63 - 1) for x in noisy], np.int64))


def _integers(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return the exact numbers of groups as int64, or as Python integers if they need more bits."""
    if pa.types.is_int64(column.type):
        return np.asarray(column.to_numpy(), np.int64)
    whole = np.array([int(x) for x in column.to_pylist()], object)
    return whole.astype(np.int64) if all(abs(x) < 2**62 for x in whole) else whole
