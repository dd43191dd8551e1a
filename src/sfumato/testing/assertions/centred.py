"""Whether K-norm noise about half of all units has the size of its law: missing, too narrow, too wide.

Each number's noise is X + Y U: X and Y serve all groups, and given them the U are independent and uniform.
Proof: docs/tolerances.md, "Noise about half of all units".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sfumato.noise.k_norm import CentredNoise
from sfumato.testing.assertions.places import Residue, each_k, log10_beyond
from sfumato.testing.assertions.spread import missing_text, near_text
from sfumato.testing.flakiness import probability_text
from sfumato.testing.tolerances.combined import log10_gamma_deviation, log10_many

# Each value by itself, values without noise, a range that is too narrow, and a value that is too far out.
_CHECKS = 4
_LOG2 = math.log10(2)


def check_centred(noise: CentredNoise, residues: Sequence[Residue], hidden: int, k: float) -> None:
    """Fail where the noises of a release are missing, too narrow or too wide for their law.

    Args:
        noise: of the release.
        residues: what outputs show of it.
        hidden: how many more would be there, were they not hidden by values at their bounds.
        k: correct noise fails with probability at most 10^-k.
    Raises:
        AssertionError: the text says which of the three, and how probable it is.
    """
    each, many = k + math.log10(_CHECKS), len(residues) + hidden
    one = each_k(each, many, apart=False)
    # Which values are at their bounds follows from the noise, so that all possible choices of them count.
    chosen = each + (math.log10(math.comb(many, hidden)) + (hidden + 1) * _LOG2 if hidden else 0.0)
    _check_missing(residues, _least_radius(noise, chosen + _LOG2), chosen + _LOG2)
    _check_narrow(noise, residues, chosen)
    for r in residues:
        if r.size + r.slack + r.half < r.lead.complementary_tolerance(one):
            raise AssertionError(near_text(r, one, k))
    for r in residues:
        log10 = log10_beyond(r.lead, max(r.size - r.slack - r.half, 0.0)) + math.log10(many)
        if log10 <= -each:
            raise AssertionError(
                f"noise is too wide: {r.size:.4g} steps, where the law's deviation is "
                f"{r.lead.standard_deviation:.4g}; probability at most {probability_text(log10)}"
            )


def _least_radius(noise: CentredNoise, each: float) -> float:
    """Return a number of steps that Y is below with probability at most 10^-each."""
    shape = noise.groups + 1
    least = float(shape)
    while log10_gamma_deviation(shape, least) > -each:
        least *= 0.95
    return least * float(noise.stretches[1] * noise.scales[0])


def _check_missing(residues: Sequence[Residue], radius: float, each: float) -> None:
    """More values without any noise than rounding to whole steps explains."""
    zeros, reach = sum(r.size <= r.slack for r in residues), max(2 * r.slack + r.half for r in residues)
    chance = reach / radius  # of an interval of length 2 Y the part within `reach` of 0, at most
    log10 = log10_many(zeros, len(residues), chance) if chance < 1 else 0.0
    if log10 <= -each:
        raise AssertionError(missing_text(zeros, len(residues), log10))


def _check_narrow(noise: CentredNoise, residues: Sequence[Residue], each: float) -> None:
    """All values nearer to each other than independent ones within Y of X are.

    The range of n numbers that are uniform within Y is at most 2 h with probability at most n (h/Y)^(n-1), of
    which the mean over the Gamma law of Y is known, as there are no more numbers than groups.
    """
    low, high = min(r.noise - r.slack for r in residues), max(r.noise + r.slack for r in residues)
    n, shape, unit = len(residues), noise.groups + 1, float(noise.stretches[1] * noise.scales[0])
    near = ((high - low) / 2 + max(r.half for r in residues)) / unit
    log10 = math.log10(n) + (n - 1) * math.log10(near)
    log10 += (math.lgamma(shape - n + 1) - math.lgamma(shape)) / math.log(10)
    if log10 <= -each:
        raise AssertionError(
            f"noise is too narrow: {n} values are within {high - low:.4g} steps of each other, where about "
            f"{2 * shape * unit:.4g} is usual; probability at most {probability_text(log10)}"
        )
