"""Whether many noises together have the spread of their law: missing, too narrow, too wide."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sfumato.errors import RefusalError
from sfumato.noise import Gaussian, Law
from sfumato.noise.sums import log10_outside
from sfumato.testing.assertions.cells import ONLY, Group, label
from sfumato.testing.assertions.places import Residue, log10_beyond
from sfumato.testing.discrete import DiscreteLaw
from sfumato.testing.flakiness import probability_text
from sfumato.testing.tolerances.combined import log10_gamma_deviation, log10_many
from sfumato.testing.tolerances.numbers import per_partition_k

# Each value by itself, values without noise, and the spread on either side.
_CHECKS = 4


def check_spread(residues: Sequence[Residue], k: float) -> None:
    """Fail where noises are missing, too narrow or too wide for their laws.

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
    """Fail where whole noises are impossible, missing, too narrow or too wide for their law.

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
        raise AssertionError(_spread_text("wide" if wide else "narrow", seen, values, log10))


def require_power(check: Callable[[list[Residue]], None], residues: Sequence[Residue], k: float) -> None:
    """Refuse a check that values without any noise would pass.

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
    chances = [1 - 10 ** log10_beyond(r.lead, 2 * r.slack + r.half) for r in residues]
    raise powerless(len(residues), k, max(chances))


def powerless(values: int, k: float, zero: float) -> RefusalError:
    """Make the refusal of too few values.

    Args:
        values: how many there are.
        k: of the check.
        zero: the largest probability of a value without noise.
    """
    needed = math.ceil((k + 1) / -math.log10(zero)) if 0 < zero < 1 else 0
    enough = f"at least {needed:,} values" if needed > values else "values with wider noise"
    return RefusalError(
        f"{values} value{'s' * (values != 1)} cannot show at k = {k:.4g} that noise is missing: with none at "
        f"all the check passes. Compare {enough}, or take a smaller k"
    )


def _check_single(residues: Sequence[Residue], each: float, k: float) -> None:
    """Each value by itself: nearer to the truth than its complementary tolerance."""
    one = per_partition_k(each, len(residues))
    limits: dict[Law, float] = {}
    for r in residues:
        if r.lead not in limits:
            limits[r.lead] = r.lead.complementary_tolerance(one)
        if r.size + r.slack + r.half < limits[r.lead]:
            raise AssertionError(near_text(r, one, k))


def _check_missing(residues: Sequence[Residue], each: float) -> None:
    """More values without any noise than rounding to whole steps explains."""
    chances: dict[tuple[Law, float], float] = {}
    largest, zeros = 0.0, 0
    for r in residues:
        # Float arithmetic leaves a trace of up to the slack where there is no noise.
        zeros += r.size <= r.slack
        key = r.lead, 2 * r.slack + r.half
        if key not in chances:
            chances[key] = 1 - 10 ** log10_outside(*key)
        largest = max(largest, chances[key])
    log10 = log10_many(zeros, len(residues), largest) if largest < 1 else 0.0
    if log10 <= -each:
        raise AssertionError(missing_text(zeros, len(residues), log10))


def _check_narrow(residues: Sequence[Residue], each: float) -> None:
    """The sum of |noise| (Laplace) or of its square (Gaussian) is a Gamma variable, or above one."""
    shape, total, seen = _gamma(residues, 1.0)
    if total >= shape:
        return
    log10 = log10_gamma_deviation(shape, total)
    if log10 <= -each:
        raise AssertionError(_spread_text("narrow", seen, len(residues), log10))


def _check_wide(residues: Sequence[Residue], each: float) -> None:
    alone = [r for r in residues if r.alone]
    if not alone:
        return
    shape, total, seen = _gamma(alone, -1.0)
    if total <= shape:
        return
    log10 = log10_gamma_deviation(shape, total)
    if log10 <= -each:
        raise AssertionError(_spread_text("wide", seen, len(alone), log10))


def _gamma(residues: Sequence[Residue], side: float) -> tuple[float, float, float]:
    """Return the Gamma law's shape, its variable with rounding on the given side, and the spread seen."""
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
    """Say which value is too near to its raw one.

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
    """Say how many values show no noise, and how probable so many are at most."""
    return (
        f"noise is missing: {zeros} of {values} values show none; "
        f"probability at most {probability_text(log10)}"
    )


def _spread_text(kind: str, seen: float, values: int, log10: float) -> str:
    return (
        f"noise is too {kind}: over {values} values its spread is {seen:.3g} times that of the law; "
        f"probability at most {probability_text(log10)}"
    )


def where_text(group: Group, output: str) -> str:
    """Return what a message calls a value."""
    return label(group) if output == ONLY else f"{label(group)} {output}"
