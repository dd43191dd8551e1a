"""Whether noise that was drawn together has the size of its law: missing, too narrow, too wide.

Z of K-norm noise has a norm with the law of Gamma(D), D the number of its coordinates. What outputs show is
A Z, of full rank d. Its norm, the least of all z with A z = A Z, is at least a Gamma(d) number in law, and at
most the norm of Z: the proof is in docs/tolerances.md, "Noise that was drawn together".
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from sfumato.dataclass import dataclass
from sfumato.framework import ConeBody, KNormDistance
from sfumato.noise.k_norm import JointNoise, SeparateNoise
from sfumato.testing.assertions.cells import Group
from sfumato.testing.assertions.places import Residue, each_k, log10_beyond
from sfumato.testing.assertions.spread import missing_text, near_text
from sfumato.testing.flakiness import probability_text
from sfumato.testing.tolerances.combined import log10_gamma_deviation, log10_many

if TYPE_CHECKING:
    from sfumato.noise.k_norm import JointNoise, SeparateNoise

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
        """The body whose norm the noise has."""
        return ConeBody(self.names, self.noise.scales, bool(self.noise.cone.units))

    @property
    def metric(self) -> KNormDistance:
        """The norm."""
        apart = isinstance(self.noise, SeparateNoise)
        return KNormDistance(self.body, 1 if apart else None, apart)


def check_k_norm(law: KNormLaw, residues: Sequence[Residue], hidden: int, groups: int, k: float) -> None:
    """Fail where the noises of a release are missing, too narrow or too wide for the law of all of them.

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
    for check in (_check_missing, _check_narrow) if mostly else (_check_narrow, _check_missing):
        check(law, by_name, chosen)
    one = each_k(each, many, apart=False)
    for r in residues:
        if r.size + r.slack + r.half < r.lead.complementary_tolerance(one):
            raise AssertionError(near_text(r, one, k))
    _check_wide(law, by_name, groups, each)


def _check_narrow(law: KNormLaw, by_name: Mapping[str, Sequence[Residue]], each: float) -> None:
    """The norm of all noises, and of those of each coordinate: any z that shows the same has one as large."""
    everything = [r for own in by_name.values() for r in own]
    for own in (everything, *by_name.values()) if len(by_name) > 1 else (everything,):
        seen, rounding = _norm(law, _solved(own)), _rounding(law, own)
        log10 = log10_gamma_deviation(len(own), min(seen + rounding, len(own)))
        if log10 <= -(each + math.log10(len(by_name) + 1)):
            raise AssertionError(_text("narrow", len(own), seen / len(own), log10))


def _check_wide(law: KNormLaw, by_name: Mapping[str, Sequence[Residue]], groups: int, each: float) -> None:
    """The norm of all noises, or what it is at least: unknown signed numbers are then 0.

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
    seen = _norm(law, _solved(everything))
    log10 = log10_gamma_deviation(shape, max(seen - _rounding(law, everything), shape))
    if log10 <= -each:
        raise AssertionError(_text("wide", len(everything), seen / shape, log10))


def _check_missing(law: KNormLaw, by_name: Mapping[str, Sequence[Residue]], each: float) -> None:
    """More values of a coordinate without any noise than rounding to whole steps explains.

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
            chance = -math.expm1(log10_beyond(lead, reach) * math.log(10))
        log10 = log10_many(zeros, len(own), chance) if 0 < chance < 1 else 0.0
        if log10 <= -each:
            raise AssertionError(missing_text(zeros, len(own), log10))


def _solved(residues: Iterable[Residue]) -> dict[Group, dict[str, Fraction]]:
    """Return noises that show what the residues do, by group and coordinate; others are 0."""
    found: dict[Group, dict[str, Fraction]] = defaultdict(dict)
    for r in residues:  # each has a leading noise that is in none before
        known = found[r.group]
        rest = sum((Fraction(w) * known.get(n, 0) for n, w in r.others.items()), Fraction(0))
        known[r.name] = Fraction(r.noise) - rest
    return found


def _norm(law: KNormLaw, noises: Mapping[Group, Vector]) -> float:
    """Return the norm of noises, which has a Gamma law."""
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
    return float(law.metric.of(vectors))


def _rounding(law: KNormLaw, residues: Iterable[Residue]) -> float:
    """Return a bound of the norm of what rounding and slack have moved."""
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


def _text(kind: str, values: int, seen: float, log10: float) -> str:
    return (
        f"noise is too {kind}: over {values} values its norm is {seen:.3g} times that of the law; "
        f"probability at most {probability_text(log10)}"
    )
