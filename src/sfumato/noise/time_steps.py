"""Noise of the numbers of time steps, drawn for all series at once: what all kinds have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import whole_number
from sfumato.noise.words import Words

MOST = Fraction(2**40)  # scales from here on could leave 64-bit integers


@dataclass(frozen=True, repr=False)
class TimeStepsNoise(Spelled, ABC):
    """Noise of each number of each series of time steps.

    Args:
        scales: for each coordinate the scale of what is drawn, in grid steps.
        factor: which sums of steps have it.
        series: how many.
    """

    scales: tuple[Fraction, ...]
    factor: Any
    series: int

    def __post_init__(self) -> None:
        whole_number(self.series, "series", 1)
        if not self.scales or not 0 < min(self.scales) <= max(self.scales) <= MOST:
            raise ParameterError("scales", self.scales, f"above 0, and at most {MOST} grid steps")

    @property
    def groups(self) -> int:
        """How many groups there are, in all series together."""
        return int(self.series * self.factor.steps)

    @abstractmethod
    def rounded(self, words: Words | None = None) -> NDArray[Any]:
        """Draw once: integers of shape (coordinates, series, steps), in 2^-16 grid steps."""
