"""Independent noise, discrete Laplace or Gaussian, of exact numbers: alone, in vectors, and by group."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from sfumato.budget import Loss
from sfumato.budget.loss import PrivacyLoss
from sfumato.dataclass import dataclass
from sfumato.display.formatting import Spelled
from sfumato.errors import ParameterError
from sfumato.exact import positive, root_up
from sfumato.framework import (
    AbsoluteDistance,
    AtomDomain,
    Body,
    ContributionDistance,
    Domain,
    GaussianDP,
    GroupedIntegers,
    L1Distance,
    L2Distance,
    Linear,
    Measure,
    Measurement,
    Metric,
    Norm,
    PureDP,
    VectorDomain,
)
from sfumato.framework.domains import check_length
from sfumato.names.suggestions import suggest_arguments
from sfumato.noise import DiscreteLaplace, Gaussian, Laplace
from sfumato.noise.rounded_sampler import largest_scale
from sfumato.transformations.grid import Grid

Law = Laplace | Gaussian
Keys = Iterable[Hashable] | None
Space = tuple[Metric, Callable[[Any], Any], Callable[[Fraction], Fraction]]

INTEGERS = AtomDomain(int)


@dataclass(frozen=True)
class NoiseKind:
    """A kind of independent noise: its law, the norm that its privacy is stated in, its measurement."""

    name: str
    norm: Norm
    law: Callable[[Fraction], Law]
    measure: Measure

    def measurement(self, scale: Any, domain: Domain, keys: Keys = None) -> Measurement:
        """Return the measurement that adds independent noise of a scale.

        For integers by group the scale is one for each coordinate, and the groups are `keys`.
        """
        if isinstance(domain, GroupedIntegers) is (keys is None):
            raise ParameterError(
                "keys",
                keys,
                "the groups to show, public or chosen privately, and only for GroupedIntegers",
            )
        metric, function, privacy_map = self._space(scale, domain, tuple(keys or ()))
        return Measurement(self.name, domain, metric, self.measure, function, privacy_map)

    def by_group(self, scales: Sequence[Fraction], metric: ContributionDistance, keys: Keys) -> Measurement:
        """Return independent noise on units' contributions to groups; its map gives the composed `Loss`.

        Args:
            scales: one for each coordinate, in grid steps.
            metric: the body of one unit's contributions, and its groups.
            keys: the groups to show.
        """
        domain = GroupedIntegers(metric.body.names)
        laws = {name: self.law(scale) for name, scale in _scales(scales, domain).items()}

        def privacy_map(units: Fraction) -> Loss:
            return self.loss(metric.body, scales, metric.groups, units=math.ceil(units))

        return Measurement(
            self.name, domain, metric, PrivacyLoss(), _law_adder(laws, tuple(keys or ())), privacy_map
        )

    def loss(self, body: Body, scales: Sequence[Fraction], groups: int, units: int = 1) -> Loss:
        """Return the loss of independent noise for units that each add vectors of a body to some groups.

        Args:
            body: what one unit may add to a group.
            scales: one for each coordinate.
            groups: at most so many of each unit.
            units: how many come or go together.

        Source:
            docs/proofs/per_group.md, "Loss".
        """
        if not units:
            return Loss()
        if self.norm is Norm.L2:
            return Loss(gaussian=units**2 * groups * body.size(Norm.L2, scales))
        shifts: list[tuple[Fraction, int]] = []
        spread: list[tuple[Fraction, Fraction, int]] = []
        pure, start = Fraction(0), 0
        for part in body.parts:
            own = scales[start : start + len(part.names)]
            start += len(part.names)
            size = part.size(Norm.L1, own)
            if part.spread:
                # No coordinate of a known shift: its pure epsilon stands for it.
                each = (size, groups) if units == 1 else (units * groups * size, 1)
                spread.append((each[0], Fraction(0), each[1]))
            else:
                shifts += [
                    (units * most / scale, units * groups)
                    for most, scale in zip(part.linf_sensitivities, own, strict=True)
                    if most
                ]
                pure += units * groups * size
        return Loss(laplace=tuple(shifts), pure=pure, approximate=tuple(spread))

    def _space(self, scale: Any, domain: Domain, keys: tuple[Hashable, ...]) -> Space:
        vectors = L1Distance if self.norm is Norm.L1 else L2Distance
        if isinstance(domain, GroupedIntegers):
            scales = _scales(scale, domain)
            laws = {name: self.law(s) for name, s in scales.items()}
            return vectors(tuple(scales.items())), _law_adder(laws, keys), Linear(Fraction(1))
        scale = positive(scale, "scale")
        element = domain.element if isinstance(domain, VectorDomain) else domain
        if not isinstance(element, AtomDomain) or not is_exact(element):
            raise ParameterError(
                "domain",
                domain,
                "of whole numbers, exact numbers or bounded floats, a vector of them, or integers by group",
            )
        whole = element.kind is int
        step = Fraction(1) if whole else Grid.for_noise(scale).step
        if scale / step > largest_scale:
            raise ParameterError("scale", scale, "at most 2^57 for whole numbers")
        law = self.law(scale / step)

        def noisy(values: Sequence[Any]) -> list[Any]:
            draws = law.rounded(len(values)).tolist()
            # Halves round up, not to even: values a whole number of steps apart stay so.
            nearest = (math.floor(Fraction(v) / step + Fraction(1, 2)) for v in values)
            steps = [s + n for s, n in zip(nearest, draws, strict=True)]
            return steps if whole else [s * step for s in steps]

        if isinstance(domain, AtomDomain):
            stability = Linear(1 / scale) if whole else lambda d_in: math.ceil(d_in / step) * step / scale
            return AbsoluteDistance(), lambda value: noisy([value])[0], stability
        size = domain.size if isinstance(domain, VectorDomain) else None

        def noisy_vector(values: Sequence[Any]) -> list[Any]:
            return noisy(check_length(values, size, self.name))

        if whole:
            return vectors(), noisy_vector, Linear(1 / scale)
        if size is None:
            raise ParameterError("domain", domain, "of a known size, or of whole numbers")
        # Rounding to the grid moves each of the coordinates by at most half a step in each input.
        moved = step * (size if self.norm is Norm.L1 else root_up(Fraction(size)))
        return vectors(), noisy_vector, lambda d_in: (d_in + moved) / scale if d_in else Fraction(0)


@dataclass(frozen=True, repr=False)
class IndependentNoise(Spelled):
    """Independent noise of each coordinate of each group.

    Args:
        kind: Laplace or Gaussian.
        scales: one for each coordinate, in grid steps.
    """

    kind: NoiseKind
    scales: tuple[Fraction, ...]

    @cached_property
    def laws(self) -> tuple[Law, ...]:
        """The law of each coordinate's independent noise, in grid steps."""
        return tuple(map(self.kind.law, self.scales))

    def loss(self, body: Body, groups: int, units: int = 1) -> Loss:
        """Return the privacy loss of the independent noise.

        Args:
            body, groups, units: as of `NoiseKind.loss`.
        """
        return self.kind.loss(body, self.scales, groups, units)

    def description(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the description of the independent noise for the certificate.

        Args:
            names: of the coordinates, in order.
        """
        laws = zip(names, self.laws, strict=True)
        scales = {name: str(law.unit) for name, law in laws}
        return {"shape": "independent", "law": self.laws[0].name, "scales": scales}


@suggest_arguments
def laplace(scale: Any, domain: Domain = INTEGERS, *, keys: Keys = None) -> Measurement:
    """Add independent discrete Laplace noise: z steps with probability proportional to e^(-|z| / scale).

    Args:
        scale: a number greater than 0, in the unit of the values; for integers by group, a sequence with one
            for each coordinate, in grid steps.
        domain: single numbers (int, Fraction, or float with two bounds), a `VectorDomain` of them, or
            `GroupedIntegers`. Numbers that are not whole are first put on a grid of about 2^-30 scales.
        keys: for integers by group, the groups to show, even if they are empty. They are public or chosen
            privately beforehand, because the set of groups with people in them would itself reveal something
            about people.
    Returns:
        A Measurement to pure DP. For whole numbers epsilon is the distance / scale; for others, the distance
        after rounding to the grid / scale. The metric is absolute distance, L1 distance of vectors, or L1
        distance with these scales.
    Raises:
        ParameterError: a scale is not positive, or there is not one for each coordinate; or the domain is not
            of this kind, or is vectors of unknown size that are not whole numbers.

    >>> from sfumato.framework import GroupedIntegers
    >>> laplace(2).map(1), laplace([Fraction(2)], GroupedIntegers(("units",)), keys=["a"]).map(1)
    (Fraction(1, 2), Fraction(1, 1))

    Source:
        Ghosh, Roughgarden and Sundararajan 2012, geometric mechanism. Proof: docs/proofs/laplace.md.
    """
    return NOISES["laplace"].measurement(scale, domain, keys)


@suggest_arguments
def gaussian(scale: Any, domain: Domain = INTEGERS, *, keys: Keys = None) -> Measurement:
    """Add exactly rounded, independent Gaussian noise.

    Args:
        scale: the standard deviation, a number greater than 0, in the unit of the values; for integers by
            group, a sequence with one for each coordinate, in grid steps.
        domain, keys: as for `laplace`.
    Returns:
        A Measurement to Gaussian DP. mu is the distance / scale, after rounding to the grid if numbers are
        not whole. The metric is absolute distance, L2 distance of vectors, or L2 distance with these scales.
    Raises:
        ParameterError: as for `laplace`.

    >>> from sfumato.framework import GroupedIntegers
    >>> gaussian(2).map(1), gaussian([Fraction(2)], GroupedIntegers(("units",)), keys=["a"]).map(1)
    (Fraction(1, 2), Fraction(1, 1))

    Source:
        Dong, Roth, Su 2022, "Gaussian differential privacy", theorem 2.7 (d-dimensional by rotation).
        Proof: docs/proofs/gaussian.md.
    """
    return NOISES["gaussian"].measurement(scale, domain, keys)


def is_exact(element: AtomDomain) -> bool:
    """Whether numbers of a domain are finite, so that independent noise is added exactly."""
    return element.is_number and (element.kind is not float or element.is_bounded)


def _scales(scales: Any, domain: GroupedIntegers) -> dict[str, Fraction]:
    names = domain.coordinates
    if not isinstance(scales, Sequence) or len(scales) != len(names):
        raise ParameterError("scale", scales, f"one scale for each of {names}")
    return {name: positive(scale, f"scale of {name}") for name, scale in zip(names, scales, strict=True)}


def noise_adder(
    names: Sequence[str], keys: Sequence[Hashable], draw: Callable[[], Iterable[Iterable[Any]]]
) -> Callable[[Mapping[Any, Mapping[Any, int]]], dict[Any, dict[str, Any]]]:
    """Return a function that adds noise to the integers of the shown groups, empty or not.

    Args:
        names: of the coordinates.
        keys: the groups that are shown.
        draw: gives the noise: for each coordinate a number for each group.
    """

    def function(groups: Mapping[Any, Mapping[Any, int]]) -> dict[Any, dict[str, Any]]:
        noisy: dict[Any, dict[str, Any]] = {key: {} for key in keys}
        for name, row in zip(names, draw(), strict=True):
            for key, noise in zip(keys, row, strict=True):
                noisy[key][name] = int(groups.get(key, {}).get(name, 0)) + noise
        return noisy

    return function


def _law_adder(
    laws: Mapping[str, Law], keys: tuple[Hashable, ...]
) -> Callable[[Mapping[Any, Any]], dict[Any, dict[str, int]]]:
    return noise_adder(list(laws), keys, lambda: [law.rounded(len(keys)).tolist() for law in laws.values()])


NOISES = {
    "laplace": NoiseKind("laplace", Norm.L1, DiscreteLaplace, PureDP()),
    "gaussian": NoiseKind("gaussian", Norm.L2, Gaussian, GaussianDP()),
}
