"""The spread of many noises against their law: missing, too narrow, or too wide.

Z of K-norm noise has a norm with the law of Gamma(D), D the number of its coordinates. What outputs show is
A Z, of full rank d. Its norm, the least of all z with A z = A Z, is at least a Gamma(d) number in law, and at
most the norm of Z: the proof is in docs/tolerances.md, "Noise that was drawn together".
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.dataclass import dataclass
from sfumato.errors import RefusalError
from sfumato.framework import ConeBody, KNormDistance
from sfumato.noise import Gaussian, Law
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.noise.noise_sums import log10_two_sided_tail
from sfumato.testing.assertions.compared_values import Group, where_text
from sfumato.testing.assertions.output_tolerances import Residue, each_k, log10_tail
from sfumato.testing.discrete_laws import DiscreteLaw
from sfumato.testing.flakiness import probability_text
from sfumato.testing.tolerances.noise_tolerances import log10_gamma_deviation, log10_many, per_partition_k

if TYPE_CHECKING:
    from sfumato.noise.k_norm import JointNoise, SeparateNoise


# Each value by itself, values without noise, and the spread on either side.
_CHECKS = 4


def check_spread(residues: Sequence[Residue], k: float) -> None:
    """Fail where noises are missing, or their spread is too narrow or too wide for their laws.

    Args:
        residues: |noise| of each value. Given all earlier ones, each holds a noise of its own, of
            the law `lead`; where there is more in it, this makes it wider and never narrower.
        k: correct noise fails with probability at most 10^-k.
    Raises:
        AssertionError: the text says which of the three, and how probable it is.
    Source:
        Anderson 1955 for "never narrower"; Chernoff's bounds for the rest: docs/testing.md.
    """
    each = k + math.log10(_CHECKS)
    mostly = sum(r.size <= r.slack for r in residues) > len(residues) / 2
    for check in (_check_missing, _check_narrow) if mostly else (_check_narrow, _check_missing):
        check(residues, each)
    _check_single(residues, each, k)
    _check_wide(residues, each)


def check_discrete(noises: Mapping[str, float], law: DiscreteLaw, k: float) -> None:
    """Fail where whole noises are impossible or missing, or their spread is too narrow or too wide.

    Args:
        noises: of each value, by what a message calls it.
        law: of each, independent.
        k: correct noise fails with probability at most 10^-k.
    Raises:
        AssertionError: the text says which of the four, and how probable it is.
    Source:
        Chernoff's bounds: docs/testing.md.
    """
    each, values = k + math.log10(3), len(noises)
    for where, noise in noises.items():
        if not law.is_possible(noise):
            raise AssertionError(f"noise of {where} is {noise:.6g}, which {law!r} never gives")
    zeros = sum(noise == 0 for noise in noises.values())
    log10 = log10_many(zeros, values, law.zero)
    if log10 <= -each:
        raise AssertionError(missing_text(zeros, values, log10))
    total = math.fsum(abs(noise) ** law._power for noise in noises.values())
    # E |X|^power is the derivative of the logarithm of its moments at 0.
    step = np.array([-1e-6, 0.0])
    usual = -float(np.diff(law._log_moments(step)[::-1])[0]) / (1e-6 * law._rate_unit)
    wide = total > values * usual
    log10 = law._log10_total(values, total, wide=wide)
    if log10 <= -each:
        seen = (total / (values * usual)) ** (1 / law._power)
        raise AssertionError(_spread_text("wide" if wide else "narrow", "spread", seen, values, log10))


def require_power(check: Callable[[list[Residue]], None], residues: Sequence[Residue], k: float) -> None:
    """Refuse a check of the spread that values without any noise would pass.

    Args:
        check: of the same values.
        residues: of which the noise is not looked at.
        k: of the check.
    Raises:
        RefusalError: it cannot fail where noise is missing.
    """
    try:
        check([replace(r, noise=0.0) for r in residues])
    except AssertionError:
        return
    chances = [1 - 10 ** log10_tail(r.lead, 2 * r.slack + r.half) for r in residues]
    raise powerless(len(residues), k, max(chances))


def powerless(values: int, k: float, zero: float) -> RefusalError:
    """Return the refusal of values too few to check the spread of their noise.

    Args:
        values: how many there are.
        k: of the check.
        zero: the largest probability of a value without noise.
    """
    needed = math.ceil((k + 1) / -math.log10(zero)) if 0 < zero < 1 else 0
    enough = f"at least {needed:,} values" if needed > values else "values with wider noise"
    return RefusalError(
        f"{values} value{'s' * (values != 1)} cannot show at k = {k:.4g} that noise is missing, "
        f"as the check passes with none at all. Compare {enough}, or use a smaller k"
    )


def _check_single(residues: Sequence[Residue], each: float, k: float) -> None:
    """Fail where one noise is nearer to 0 than its complementary tolerance."""
    one = per_partition_k(each, len(residues))
    limits: dict[Law, float] = {}
    for r in residues:
        if r.lead not in limits:
            limits[r.lead] = r.lead.complementary_tolerance(one)
        if r.size + r.slack + r.half < limits[r.lead]:
            raise AssertionError(near_text(r, one, k))


def _check_missing(residues: Sequence[Residue], each: float) -> None:
    """Fail where more noises are 0 than rounding to whole steps explains."""
    chances: dict[tuple[Law, float], float] = {}
    largest, zeros = 0.0, 0
    for r in residues:
        # Float arithmetic leaves a trace of up to the slack where there is no noise.
        zeros += r.size <= r.slack
        key = r.lead, 2 * r.slack + r.half
        if key not in chances:
            chances[key] = 1 - 10 ** log10_two_sided_tail(*key)
        largest = max(largest, chances[key])
    log10 = log10_many(zeros, len(residues), largest) if largest < 1 else 0.0
    if log10 <= -each:
        raise AssertionError(missing_text(zeros, len(residues), log10))


def _check_narrow(residues: Sequence[Residue], each: float) -> None:
    """Fail where the spread of noises is too narrow: their sum or square sum is above a Gamma variable."""
    shape, total, seen = _gamma(residues, 1.0)
    log10 = log10_gamma_deviation(shape, min(total, shape))
    if log10 <= -each:
        raise AssertionError(_spread_text("narrow", "spread", seen, len(residues), log10))


def _check_wide(residues: Sequence[Residue], each: float) -> None:
    alone = [r for r in residues if r.is_only_noise]
    if not alone:
        return
    shape, total, seen = _gamma(alone, -1.0)
    log10 = log10_gamma_deviation(shape, max(total, shape))
    if log10 <= -each:
        raise AssertionError(_spread_text("wide", "spread", seen, len(alone), log10))


def _gamma(residues: Sequence[Residue], side: float) -> tuple[float, float, float]:
    """Return the shape and variable of the Gamma law of noises, and their spread over that of the law."""
    shape = total = plain = 0.0
    for r in residues:
        unit = float(r.lead.unit)
        moved = max(0.0, r.size + side * (r.half + r.slack)) / unit
        if isinstance(r.lead, Gaussian):
            shape, total, plain = shape + 0.5, total + moved**2 / 2, plain + (r.size / unit) ** 2 / 2
        else:
            shape, total, plain = shape + 1.0, total + moved, plain + r.size / unit
    gaussian = isinstance(residues[0].lead, Gaussian)
    return shape, total, math.sqrt(plain / shape) if gaussian else plain / shape


def near_text(r: Residue, one: float, k: float) -> str:
    """Return the message about a noise too near to 0.

    Args:
        r: what it shows.
        one, k: of this value, and of all.
    """
    where = where_text(r.group, r.output)
    return (
        f"noise is missing or too narrow: {where} is {r.size:.3g} steps from the raw value, "
        f"nearer than correct noise comes but with probability 10^-{one:.4g} "
        f"(flakiness 10^-{k:.4g} in all)"
    )


def missing_text(zeros: int, values: int, log10: float) -> str:
    """Return the message about so many missing noises, with a bound of its probability."""
    return (
        f"noise is missing: {zeros} of {values} values show none; "
        f"probability at most {probability_text(log10)}"
    )


def _spread_text(kind: str, what: str, seen: float, values: int, log10: float) -> str:
    return (
        f"noise is too {kind}: over {values} values its {what} is {seen:.3g} times that of the law; "
        f"probability at most {probability_text(log10)}"
    )


# Each value by itself, values without noise, the norm on either side; and groups that are missing.
PARTS = 5
_LOG2 = math.log10(2)
_HALF = Fraction(1, 2)

Vector = Mapping[str, Fraction]


@dataclass(frozen=True)
class KNormLaw:
    """The law of K-norm noise: its norm, in units of the noise's scales, has a Gamma law.

    Args:
        noise: that was drawn.
        names: of its coordinates.
    """

    noise: JointNoise | SeparateNoise
    names: tuple[str, ...]

    @property
    def body(self) -> ConeBody:
        """The body whose norm K-norm noise has."""
        return ConeBody(self.names, self.noise.scales, bool(self.noise.cone.units))

    @property
    def metric(self) -> KNormDistance:
        """The norm of K-norm noise."""
        apart = isinstance(self.noise, SeparateNoise)
        return KNormDistance(self.body, 1 if apart else None, apart)


def check_k_norm(law: KNormLaw, residues: Sequence[Residue], hidden: int, groups: int, k: float) -> None:
    """Fail where the K-norm noise of a release is missing, or its spread is too narrow or too wide.

    Args:
        law: of the release's noise.
        residues: what outputs show of the noise of groups that are shown almost surely.
        hidden: how many more would be there, were they not hidden by values at their bounds.
        groups: how many groups those are.
        k: correct noise fails with probability at most 10^-k.
    Raises:
        AssertionError: the text says which of the three, and how probable it is.
    """
    each = k + math.log10(PARTS)
    # Which values are at their bounds follows from the noise, so that all possible choices of them count.
    many = len(residues) + hidden
    chosen = each + (math.log10(math.comb(many, hidden)) + (hidden + 1) * _LOG2 if hidden else 0.0)
    by_name: dict[str, list[Residue]] = defaultdict(list)
    for r in residues:
        by_name[r.name].append(r)
    mostly = sum(r.size <= r.slack for r in residues) > len(residues) / 2
    for check in (
        (_check_norm_missing, _check_norm_narrow) if mostly else (_check_norm_narrow, _check_norm_missing)
    ):
        check(law, by_name, chosen)
    one = each_k(each, many, apart=False)
    for r in residues:
        if r.size + r.slack + r.half < r.lead.complementary_tolerance(one):
            raise AssertionError(near_text(r, one, k))
    _check_norm_wide(law, by_name, groups, each)


def _check_norm_narrow(law: KNormLaw, by_name: Mapping[str, Sequence[Residue]], each: float) -> None:
    """Fail where the norm of all noises, or of those of one coordinate, is too narrow."""
    everything = [r for own in by_name.values() for r in own]
    for own in (everything, *by_name.values()) if len(by_name) > 1 else (everything,):
        seen, rounding = _norm(law, _solve_noises(own)), _rounding(law, own)
        log10 = log10_gamma_deviation(len(own), min(seen + rounding, len(own)))
        if log10 <= -(each + math.log10(len(by_name) + 1)):
            raise AssertionError(_spread_text("narrow", "norm", seen / len(own), len(own), log10))


def _check_norm_wide(
    law: KNormLaw, by_name: Mapping[str, Sequence[Residue]], groups: int, each: float
) -> None:
    """Fail where the norm of all noises is too wide; unknown signed numbers count as 0.

    So they may be in any group; units and rows must be known in all groups, or in none.
    """
    everything = [r for own in by_name.values() for r in own]
    known = {(r.group, r.name) for r in everything}
    if any((r.group, n) not in known for r in everything for n in r.others):
        return
    limiting = [len(by_name.get(n, ())) for n in law.names[: law.noise.cone.units + 1]]
    if any(0 < n < groups for n in limiting):
        return
    count = law.noise.groups if not isinstance(law.noise, SeparateNoise) else groups
    shape = count * law.noise.cone.dimensions
    seen = _norm(law, _solve_noises(everything))
    log10 = log10_gamma_deviation(shape, max(seen - _rounding(law, everything), shape))
    if log10 <= -each:
        raise AssertionError(_spread_text("wide", "norm", seen / shape, len(everything), log10))


def _check_norm_missing(law: KNormLaw, by_name: Mapping[str, Sequence[Residue]], each: float) -> None:
    """Fail where more noises of a coordinate are 0 than rounding to whole steps explains.

    Given the size r and the split that groups share, they are independent; a number's law is then that of a
    body's shadow in one direction: of M dimensions, its density is at most M over the shadow's length, which
    is r at least, and 2 r for signed numbers (Brunn and Minkowski).
    """
    drawn, each = law.noise, each + math.log10(len(by_name))
    least = 0.0
    if isinstance(drawn, JointNoise):
        each, shape = each + _LOG2, drawn.groups * drawn.cone.dimensions + 2
        least = float(shape)
        while log10_gamma_deviation(shape, least) > -each:
            least *= 0.95
    for name, own in by_name.items():
        # Float arithmetic leaves a trace of up to the slack where there is no noise.
        zeros, reach = sum(r.size <= r.slack for r in own), max(2 * r.slack + r.half for r in own)
        lead = own[0].lead
        if isinstance(drawn, JointNoise):
            signed = law.names.index(name) > drawn.cone.units
            chance = 2 * reach / float(lead.unit) * drawn.cone.dimensions / (least * (1 + signed))
        else:
            chance = -math.expm1(log10_tail(lead, reach) * math.log(10))
        log10 = log10_many(zeros, len(own), chance) if 0 < chance < 1 else 0.0
        if log10 <= -each:
            raise AssertionError(missing_text(zeros, len(own), log10))


def _solve_noises(residues: Iterable[Residue]) -> dict[Group, dict[str, Fraction]]:
    """Return noises by group and coordinate that explain the residues; others are 0."""
    found: dict[Group, dict[str, Fraction]] = defaultdict(dict)
    for r in residues:  # each has a leading noise that is in none before
        known = found[r.group]
        rest = sum((Fraction(w) * known.get(n, 0) for n, w in r.others.items()), Fraction(0))
        known[r.name] = Fraction(r.noise) - rest
    return found


def _norm(law: KNormLaw, noises: Mapping[Group, Vector]) -> float:
    """Return the norm of K-norm noises, which has a Gamma law."""
    names, bounds, units = law.names, law.body.bounds, law.noise.cone.units
    vectors = []
    for own in noises.values():
        vector = [own.get(n, Fraction(0)) for n in names]
        if units and (names[0] in own) != (names[1] in own):
            # A number of units that is not known is taken from rows, and these from units: no norm is less.
            known = 0 if names[0] in own else 1
            share = bounds[1 - known] / bounds[known]
            vector[1 - known] = vector[known] * share
        vectors.append(vector)
    return float(law.metric.vector_norm(vectors))


def _rounding(law: KNormLaw, residues: Iterable[Residue]) -> float:
    """Return a bound of the norm that rounding and slack add to noises."""
    moved: dict[Group, dict[str, Fraction]] = defaultdict(dict)
    for r in residues:
        own = moved[r.group]
        rest = sum((abs(Fraction(w)) * own.get(n, _HALF) for n, w in r.others.items()), Fraction(0))
        own[r.name] = Fraction(r.slack) + _HALF + rest
    body, units, sides = law.body, law.noise.cone.units, []
    for own in moved.values():
        x = [own.get(n, _HALF) / bound for n, bound in zip(body.names, body.bounds, strict=True)]
        largest = max(x[units:]) + (x[0] if units else 0)
        # Neither side is above the largest, and both together are not above this and what is in units more.
        both = largest + (x[1] if units else 0)
        apart = isinstance(law.noise, SeparateNoise)
        sides.append((both, Fraction(0)) if apart else (largest, largest))
    return float(law.metric.norm(sides))
