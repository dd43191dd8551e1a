"""What a release of the largest groups draws: of exact numbers of groups, ranks, keys and noisy numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.errors import ParameterError, RefusalError
from sfumato.exact import as_fraction
from sfumato.exact.isolation import Isolated
from sfumato.measurements.peeling import peel, peel_limited
from sfumato.noise import Words
from sfumato.query.noisy.numbers import arrow_column
from sfumato.query.top.plan import TopPlan

RANK, UNITS, SUM = "rank", "units", "sum"


@dataclass(frozen=True)
class TopDraw(Isolated):
    """Draws the largest groups, wherever their exact numbers meet.

    Args:
        plan: how much noise.
        keys: names of the key columns.
        measured: the name of the column of numbers.
        step: of numbers, in their own unit.
        whole: whether numbers are whole.
    """

    plan: TopPlan
    keys: tuple[str, ...]
    measured: str
    step: Fraction
    whole: bool

    @property
    def names(self) -> list[str]:
        """The output's columns."""
        return [RANK, *self.keys, *([] if self.plan.law is None else [self.measured])]

    def table(self, exact: pa.Table, words: Words | None) -> pa.Table:
        """Return ranks, keys, and noisy numbers where they were asked for.

        Args:
            exact: keys, and behind them a group's number in steps: of public groups all; of private ones at
                least the largest, one more than may be shown.
            words: source of random words; None for this thread's secure words.
        """
        plan, exact = self.plan, exact.combine_chunks()
        numbers = _integers(exact.column(exact.num_columns - 1))
        picked = self._picked(numbers, words)
        index = arrow_column(np.array(picked, np.int64))
        columns: dict[str, Any] = {RANK: arrow_column(np.arange(1, len(picked) + 1, dtype=np.int64))}
        for place, key in enumerate(self.keys):
            columns[key] = exact.column(place).take(index).combine_chunks()
        if plan.law is not None:
            noise = plan.law.rounded(len(picked), words)
            columns[self.measured] = self._numbers([numbers[i] for i in picked], noise.tolist())
        return pa.table(columns)

    def _picked(self, numbers: NDArray[Any], words: Words | None) -> list[int]:
        """Draw the places of groups, one after another."""
        plan = self.plan
        if plan.candidates is None or plan.margin is None:
            # Of keys that a pipeline brings there may be fewer.
            most = min(plan.k, len(numbers))
            return peel(numbers, plan.step_rate, most, words) if most else []
        return peel_limited(numbers, plan.step_rate, plan.k, plan.candidates, plan.margin, words)

    def half_width(self, confidence: float, simultaneous: bool = False) -> float:
        """Return the half-width of error bars of the numbers.

        Args:
            confidence: in (0, 1): the chance that a group's number is within it of the truth.
            simultaneous: let that be the chance that all of them are.
        Raises:
            ParameterError: confidence is not in (0, 1).
            RefusalError: numbers were left out.
        """
        if not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
            raise ParameterError("confidence", confidence, "between 0 and 1, such as 0.95")
        law = self.plan.law
        if law is None:
            raise RefusalError("errors: ranks have no error bars, and counts=False left the numbers out")
        each = as_fraction(confidence, "confidence")
        if simultaneous:
            each = 1 - (1 - each) / self.plan.k
        return float(law.rounded_half_width(each) * self.step)

    def _numbers(self, exact: list[int], noise: list[int]) -> pa.Array:
        noisy = [(int(n) + z) * self.step for n, z in zip(exact, noise, strict=True)]
        if not self.whole:
            return arrow_column(np.array([float(x) for x in noisy], np.float64))
        return arrow_column(np.array([min(max(round(x), -(2**63)), 2**63 - 1) for x in noisy], np.int64))


def _integers(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return exact numbers as int64, or as Python's integers where these do not suffice."""
    if pa.types.is_int64(column.type):
        return np.asarray(column.to_numpy(), np.int64)
    whole = np.array([int(x) for x in column.to_pylist()], object)
    return whole.astype(np.int64) if all(abs(x) < 2**62 for x in whole) else whole
