"""Laplace and Gaussian noise together: privacy loss distributions, by the dp_accounting library.

The library puts each noise's privacy loss on a grid of step h so that delta is never below the
truth at any epsilon ("connect the dots"; Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022),
and composes by fast Fourier transforms in float64. Neighbours are its ADD_OR_REMOVE_ONE: a
shift by the whole sensitivity, in either direction (both have the same distribution without
subsampling). What float64 adds is bounded by `float_error`, and added to delta.

**The float bound.** Let u = 2^-53, n the length of the grid, X its largest |loss|.

1. *The noise's delta at the grid points.* Each value, Phi(a) - exp(epsilon + log Phi(b)) or its
   Laplace twin, is off by at most 64 u (1 + X) (a few ulps of each function, and of the exponent
   relative to its size; a test compares them with mpmath). The grid's distribution is the
   one whose delta interpolates these values, linearly in e^epsilon; composed with any other
   distribution it gives an average of interpolated values, so the error is not amplified by 1/h.
2. *Masses from differences of these.* A mass is (d'' - e^h d') / (e^h - 1), with d', d'' adjacent
   differences of delta, which sum to at most 1 in size. Four roundings of each: in sum at most
   4 u (e^h + 1) / (e^h - 1) = 4 u coth(h/2). Masses below zero are raised to zero: upward.
3. *Transforms.* A transform of length N errs by at most 8 u log2(N) relative in the 2-norm (Higham
   2002, section 24.1, gives 7 u log2(N) for radix 2). Masses sum to at most 1, so no transform
   exceeds 1 in size and a product of two errs by the sum of their errors. A c-fold power errs by
   (c + 1) transforms and c roundings of the power, of 16 u each; a product of two by three
   transforms. The 1-norm, which bounds what a delta can change, is at most sqrt(N) times the
   2-norm. Errors of factors add up under convolution.
4. *Reading delta off.* n products and sums: a relative n u; and losses that are off by a few u X.
5. *Truncation.* The library moves what it truncates to an infinite loss: upward.

Parameters are rounded so that the noise is smaller and epsilon is smaller: upward again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from sfumato.exact import round_down, round_up
from sfumato.exact.directed import convert, directed, exactly

UNIT = 2.0**-53
RESOLUTION = 256  # grid steps per epsilon: delta is mostly within 1e-5 of the truth, at worst seen 3e-3
POINTS = 2**14  # on the grid at most: beyond it coarsens, and delta is still an upper bound
GAUSSIAN_TAIL = -60.0  # log of the mass that is moved to an infinite loss
LAPLACE_TAIL = 1e-18
COARSEST = 256.0


@lru_cache(maxsize=1024)  # a question that is asked again asks for the same
def pld_deltas(
    epsilons: tuple[Fraction, ...],
    scale: Fraction,
    laplace: tuple[tuple[Fraction, int], ...],
    gaussian: Fraction,
) -> tuple[tuple[Fraction, ...], float] | None:
    """Return upper bounds on delta at several epsilons of Laplace and Gaussian noise together.

    Args:
        epsilons: where delta is asked for; negative ones too.
        scale: the epsilon that the grid resolves, greater than 0.
        laplace: (sensitivity / scale, count) of each kind of Laplace noise.
        gaussian: mu^2 of all Gaussian noise.
    Returns:
        The bounds, the float error included in each of them; and that float error. None where losses are
        so large that their grid would be too coarse to compute with (e^256 per step).
    """
    rates = [(round_up(rate), count) for rate, count in laplace]
    up = directed(64).up
    mu = round_up(exactly(up.sqrt(convert(gaussian, up)))) if gaussian else 0.0
    step = _grid_step(float(scale), rates, mu)
    if step > COARSEST:
        return None
    from dp_accounting.pld import privacy_loss_distribution as pld

    composed: Any = None
    for rate, count in rates:
        part = pld.from_laplace_mechanism(round_down(1 / Fraction(rate)), value_discretization_interval=step)
        part = part.self_compose(count, LAPLACE_TAIL) if count > 1 else part
        composed = part if composed is None else composed.compose(part, 0)
    if mu:
        part = pld.from_gaussian_mechanism(
            round_down(1 / Fraction(mu)),
            value_discretization_interval=step,
            log_mass_truncation_bound=GAUSSIAN_TAIL,
        )
        composed = part if composed is None else composed.compose(part, 0)
    error, length = float_error(step, rates, mu)
    deltas = []
    for epsilon in epsilons:
        value = float(composed.get_delta_for_epsilon(round_down(epsilon)))
        deltas.append(Fraction(max(value, 0.0)) * (1 + Fraction(2 * length * UNIT)) + Fraction(error))
    return tuple(deltas), error


def float_error(step: float, rates: Sequence[tuple[float, int]], mu: float) -> tuple[float, int]:
    """Bound what float64 adds to delta; the derivation is at the top of this module.

    Args:
        step: the grid's step, in privacy loss.
        rates: (sensitivity / scale, count) of each kind of Laplace noise.
        mu: of the Gaussian noise, 0 for none.
    Returns:
        The absolute error in delta, and the number of grid points.
    """
    parts = [(rate, count) for rate, count in rates] + ([(_gaussian_reach(mu), 1)] if mu else [])
    length = sum(count * (2 * math.ceil(reach / step) + 3) for reach, count in parts)
    reach = sum(reach * count for reach, count in parts)
    transform = 8 * math.log2(2 * length)
    masses = 4 / math.tanh(step / 2)
    total = 8 * (1 + reach)
    for single, count in parts:
        total += count * (64 * (1 + single) + masses)
        if count > 1:
            total += math.sqrt(2 * length) * ((count + 1) * transform + 16 * count)
    total += (len(parts) - 1) * math.sqrt(2 * length) * 3 * transform
    return total * UNIT * 1.01, length


def _grid_step(scale: float, rates: Sequence[tuple[float, int]], mu: float) -> float:
    """Resolve epsilon and each noise's own loss, within the number of points.

    A Laplace noise has atoms at plus and minus its rate. Those of the kind with most variance lie
    on the grid, where they can: between its points they would be spread to both.
    """
    resolved = [scale / RESOLUTION] + [rate / 16 for rate, _ in rates] + ([mu / 16] if mu else [])
    finest = max(min(resolved), scale / 2**16)
    singles = [2 * rate for rate, _ in rates] + ([2 * _gaussian_reach(mu)] if mu else [])
    composed = sum(
        min(count * rate, 10 * math.sqrt(count) * rate + count * rate * rate) for rate, count in rates
    )
    limit = max(*singles, 2 * composed) / POINTS
    if not rates:
        return max(finest, limit)
    main = max(rates, key=lambda kind: kind[1] * kind[0] ** 2)[0]
    if main < max(finest, limit):
        return max(finest, limit)
    parts = math.ceil(main / finest)
    return main / (parts if main / parts >= limit else math.floor(main / limit))


def _gaussian_reach(mu: float) -> float:
    # e^-60 is the mass beyond 11 sigma; losses are mu times a normal, plus or minus mu^2 / 2
    return 11.5 * mu + mu * mu
