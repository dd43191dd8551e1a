"""The table's stated error holds: at both ends of every segment and at random words, against MPFR."""

import gmpy2
import numpy as np
import pytest

from sfumato.noise import SeededWords, rounded_sampler
from sfumato.noise.rounded_sampler import Buffers
from sfumato.noise.standard_laws import gaussian, laplace

bits = 96
context = gmpy2.context(precision=bits)
standards = [laplace, gaussian]


def _approximations(standard, words):
    buffers = Buffers(len(words))
    buffers.magnitudes(standard, rounded_sampler.quantile_table(standard), words)
    return buffers._room[4].copy(), buffers._room[0].copy()


def _truth(standard, prefix, above):
    outside = context.mul_2exp(gmpy2.mpfr(int(prefix) + above, bits), -63)
    return standard.quantile(outside, context.sub(1, outside), bits)


def _rows(words):
    given = np.abs(words.astype(np.float64))
    row = (given.view(np.int64) >> rounded_sampler.row_shift) & rounded_sampler.row_mask
    return row - ((rounded_sampler.top_octave - rounded_sampler.octaves + 1) << rounded_sampler.segment_bits)


def _errors(standard, words):
    approximations, _ = _approximations(standard, words)
    prefix = np.where(words < 0, ~words, words)
    errors = []
    for i, (x, a) in enumerate(zip(approximations.tolist(), prefix.tolist(), strict=True)):
        # Either end of the interval of U, in turns.
        errors.append(abs(float(context.sub(x, _truth(standard, a, i % 2)))))
    return np.array(errors)


@pytest.mark.long
@pytest.mark.parametrize("standard", standards)
def test_bound_holds_at_the_ends_of_every_segment(standard):
    starts = np.concatenate(
        [
            2.0**e * (1 + np.arange(1 << rounded_sampler.segment_bits) * 2.0**-rounded_sampler.segment_bits)
            for e in range(63 - rounded_sampler.octaves, 63)
        ]
    )
    ends = np.nextafter(np.append(starts[1:], 2.0**63), 0)
    # erfc^-1 takes 60 us: of the Gaussian, every third segment.
    step = 1 if standard is laplace else 3
    words = np.concatenate([starts[::step], ends[::step]]).astype(np.int64)
    words[1::2] *= -1
    table = rounded_sampler.quantile_table(standard)
    errors, rows = _errors(standard, words), _rows(words)
    assert rows.min() == 0
    assert rows.max() >= len(table.row_errors) - step
    assert (errors <= table.row_errors[rows]).all()
    # The bound is not idle: somewhere more than a quarter of it is reached.
    assert (errors / table.row_errors[rows]).max() > 0.25


@pytest.mark.parametrize("standard", standards)
def test_bound_holds_at_random_words(standard):
    words = SeededWords(1).take(6000).view(np.int64)
    # Spread them over all octaves.
    words = words >> (np.arange(6000) % rounded_sampler.octaves)
    known = _rows(words) >= 0
    words = words[known]
    assert (
        _errors(standard, words) <= rounded_sampler.quantile_table(standard).row_errors[_rows(words)]
    ).all()


@pytest.mark.parametrize("standard", standards)
def test_words_without_a_row_give_nan(standard):
    smallest = 1 << (63 - rounded_sampler.octaves)
    words = np.array([0, -1, 1, 2, -2, 1000, smallest - 1, 2**63 - 1, -(2**63)], np.int64)
    approximations, _ = _approximations(standard, words)
    assert np.isnan(approximations).all()
    below = [1 << e for e in range(63 - rounded_sampler.octaves)]
    assert np.isnan(_approximations(standard, np.array(below, np.int64))[0]).all()
    above = [1 << e for e in range(63 - rounded_sampler.octaves, 63)]
    assert not np.isnan(_approximations(standard, np.array(above, np.int64))[0]).any()


@pytest.mark.parametrize("standard", standards)
def test_approximations_stay_below_the_stated_largest(standard):
    words = np.arange(-(2**16), 2**16, dtype=np.int64) << 46
    approximations, _ = _approximations(standard, words)
    assert np.nanmax(approximations) < rounded_sampler.quantile_table(standard).largest


def test_derivative_polynomials_are_the_known_ones():
    assert laplace.derivatives(5) == [[1], [1], [2], [6], [24]]
    assert gaussian.derivatives(4) == [[1], [0, 1], [1, 0, 2], [0, 7, 0, 6]]
