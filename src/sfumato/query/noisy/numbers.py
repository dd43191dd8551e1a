"""The noisy numbers of a batch of groups: all that outputs and error bars are computed from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

from sfumato.dataclass import dataclass
from sfumato.display.fields import Spelled
from sfumato.measurements.noise import Law
from sfumato.noise.intervals import Noises
from sfumato.noise.k_norm.intervals import DependentNoises
from sfumato.noise.k_norm.laws import Marginal
from sfumato.noise.law import Gaussian
from sfumato.noise.levels_gaussian import LevelNoises
from sfumato.noise.mixtures import laplaces_tolerance
from sfumato.noise.values import Floats
from sfumato.query.noisy.choosing import Places
from sfumato.query.noisy.quantiles import NoisyTree
from sfumato.query.totals import Totals


@dataclass(frozen=True)
class Cumulated:
    """Noisy totals of time steps up to each.

    Args:
        values: by coordinate, float64 of shape (groups,), in the units of the statistics.
        scales: by coordinate, the scale of the noise in grid steps.
        deviations: of each group's total, over the scale.
        off: how far each is off a sum of unrounded noises at most, before it is rounded to a whole step.
        largest: where totals are sums of Laplace noises, the largest scale among them, over the scale; None
            where they are Gaussian.
    """

    values: Mapping[str, Floats]
    scales: Mapping[str, float]
    deviations: Floats
    off: Floats
    largest: Floats | None = None

    def reach(self, sizes: Mapping[str, float], k: float) -> Floats:
        """Return t with P(|weighted sum of unrounded noises| > t) <= 10^-k, for each group.

        Args:
            sizes: by coordinate, the weight of its total.
            k: greater than 0.
        """
        each = [size * self.scales[n] for n, size in sizes.items()]
        deviations = math.hypot(*each) * self.deviations
        if self.largest is None:
            return Gaussian(1).tolerance(k) * deviations
        return laplaces_tolerance(k, deviations, max(each) * self.largest)


@dataclass(frozen=True)
class Levelled:
    """What is known of noisy numbers of groups and their totals.

    Args:
        totals: which there are.
        noises: of all that is shown.
        cells: the numbers of groups, without totals.
    """

    totals: Totals
    noises: LevelNoises
    cells: NoisyNumbers


@dataclass(frozen=True, repr=False)
class NoisyNumbers(Spelled):
    """The noisy numbers of a batch of groups, in the units of the statistics.

    Args:
        values: by coordinate, float64 of shape (groups,), or (groups, entries) where it is a vector.
        trees: by coordinate of a tree.
        laws: by coordinate, the law of the noise in grid steps.
        steps: by coordinate, the grid step.
        chosen: by coordinate of counts, the places that were chosen from them.
        totals: of time steps, all up to each; None where none are asked.
        levels: of groups and their totals; None where none are asked.
    """

    values: Mapping[str, Floats]
    trees: Mapping[str, NoisyTree]
    laws: Mapping[str, Law]
    steps: Mapping[str, Fraction]
    chosen: Mapping[str, Places] = field(default_factory=dict)
    totals: Cumulated | None = None
    levels: Levelled | None = None

    @property
    def cumulated(self) -> Cumulated:
        """The totals of time steps, which are asked."""
        assert self.totals is not None
        return self.totals

    def row(self, index: int) -> NoisyNumbers | None:
        """Return the numbers of one group; None where there are trees, chosen places or totals too."""
        if self.trees or self.chosen or self.totals is not None or self.levels is not None:
            return None
        return replace(self, values={n: v[index : index + 1] for n, v in self.values.items()})

    @property
    def noises(self) -> Noises:
        """The laws, for intervals."""
        if self.levels is not None:
            return self.levels.noises
        steps = {n: float(s) for n, s in self.steps.items()}
        together: dict[str, Any] = {n: law for n, law in self.laws.items() if isinstance(law, Marginal)}
        return DependentNoises(together, steps) if together else Noises(self.laws, steps)
