"""What the machine does: floats, integers that wrap, NaN, exceptions, weak randomness."""

import math

import numpy as np

from sfumato.budget.closed_forms import gaussian_mu
from specimens.draws import GRID, NUMPY, gaussian, laplace, on_grid, total
from specimens.noise import COUNT, noisy_count
from specimens.specimen import NOTHING, REPLACED, Specimen

GAUSSIAN = {"epsilon": 1.0, "delta": 1e-3}
SIGMA = float(1 / gaussian_mu(1, "0.001")) * 1.001
LARGE = 2**62
FAR = 2.0**52


def float_laplace(dataset, size):
    return float(len(dataset)) + NUMPY.laplace(0, 1, size)


def float_gaussian(dataset, size):
    return float(len(dataset)) + NUMPY.normal(0, SIGMA, size)


def box_muller(dataset, size):
    first, second = 1 - NUMPY.random((2, size))
    return float(len(dataset)) + SIGMA * np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)


def exact_gaussian(dataset, size):
    return len(dataset) + gaussian(SIGMA, size)


def fixed_seed(dataset, size):
    """Each call of the library makes its generator anew, from the same seed."""
    noise = on_grid(np.random.default_rng(42).laplace())
    return np.full(size, len(dataset) + noise)


def sixteen_bits(dataset, size):
    uniform = (NUMPY.integers(0, 2**16, size) + 0.5) / 2**16 - 0.5
    noise = -np.sign(uniform) * np.log1p(-2 * np.abs(uniform))
    return len(dataset) + on_grid(noise)


def nan_survives(dataset, size):
    values = np.array([float(v) for v in dataset])
    clipped = on_grid(np.clip(values, 0, 1))
    return clipped.sum() + laplace(1, size)


def infinity_raises(dataset, size):
    steps = [int(v / GRID) for v in dataset if not math.isnan(v)]
    return np.clip(np.array(steps) * GRID, 0, 1).sum() + laplace(1, size)


def bounded_sum(dataset, size):
    return total(dataset, 0, 1) + laplace(1, size)


def wrapping(dataset, size):
    """Values from 0 to 2^62, in steps of 2^20, added up in int64."""
    steps = np.array([int(min(max(v, 0), LARGE)) for v in dataset if not math.isnan(v)], np.int64)
    with np.errstate(over="ignore"):
        exact = int(np.add.reduce(steps)) >> 20
    return exact + laplace(2**42, size, grid=1.0)


def not_wrapping(dataset, size):
    steps = [int(min(max(v, 0), LARGE)) >> 20 for v in dataset if not math.isnan(v)]
    return sum(steps) + laplace(2**42, size, grid=1.0)


def in_range(dataset):
    return [min(max(v, FAR), FAR + 1) if not math.isnan(v) else FAR for v in dataset]


def in_order(dataset, size):
    """Values from 2^52 to 2^52 + 1, added up from left to right; less what is public."""
    exact = 0.0
    for value in in_range(dataset):
        exact += value
    return exact - len(dataset) * FAR + laplace(1, size)


def exactly_added(dataset, size):
    return sum(int(v) - int(FAR) for v in in_range(dataset)) + laplace(1, size)


SPECIMENS = [
    Specimen(
        name="float Laplace",
        source="Mironov 2012",
        why="The floats near 0 that a noise of float64 can reach are not those that 1 + noise can reach.",
        broken=float_laplace,
        twin=noisy_count(1),
        pairs=COUNT,
    ),
    Specimen(
        name="float Gaussian",
        source="Jin, McMurtry, Rubinstein and Ohrimenko 2022, Are we there yet?",
        why="As for Laplace: the low bits of 1 + noise are rounded away.",
        claim=GAUSSIAN,
        broken=float_gaussian,
        twin=exact_gaussian,
        pairs=COUNT,
    ),
    Specimen(
        name="Box-Muller on 53 bits",
        source="Qrlew (read, not run); Jin et al. 2022",
        why="A float Gaussian made by the database from its RANDOM().",
        claim=GAUSSIAN,
        broken=box_muller,
        twin=exact_gaussian,
        pairs=COUNT,
    ),
    Specimen(
        name="fixed seed",
        source="folklore",
        why="The noise is the same number every time.",
        broken=fixed_seed,
        twin=noisy_count(1),
        pairs=COUNT,
    ),
    Specimen(
        name="16-bit randomness",
        source="Garfinkel and Leclerc 2020 on randomness for DP",
        why="There are 65,536 noises, and those shifted by 1 are other numbers.",
        broken=sixteen_bits,
        twin=noisy_count(1),
        pairs=COUNT,
    ),
    Specimen(
        name="NaN poisoning",
        source="Desfontaines 2020, section 4.2.6; PipelineDP's np.clip (read, not run)",
        why="NaN survives the clip, and the sum is NaN.",
        broken=nan_survives,
        twin=bounded_sum,
        pairs=((NOTHING, (math.nan,)), ((0.5,), (0.5, math.nan))),
    ),
    Specimen(
        name="exception on infinity",
        source="Desfontaines 2020, section 4.2.6: an error in one row tells that the row is there",
        why="int(infinity) raises before the clamp.",
        broken=infinity_raises,
        twin=bounded_sum,
        pairs=((NOTHING, (math.inf,)), ((0.5,), (0.5, math.inf))),
    ),
    Specimen(
        name="int64 wrap",
        source="Desfontaines 2020, section 4.2.6; google/differential-privacy #40",
        why="2^62 + 2^62 is -2^63: one record moves the sum by three times its bound.",
        truth=3.0,
        broken=wrapping,
        twin=not_wrapping,
        pairs=(((2.0**62,), (2.0**62, 2.0**62)),),
    ),
    Specimen(
        name="float summation order",
        source="google/differential-privacy #127; Casacuberta et al. 2022",
        why="Near 2^54 floats are 4 apart: a value that changes by 1 moves the running sum by 4.",
        truth=4.0,
        broken=in_order,
        twin=exactly_added,
        pairs=(((FAR + 1, FAR + 1, FAR + 1, FAR), (FAR, FAR + 1, FAR + 1, FAR)),),
        data=REPLACED,
        truth_is="at least",
    ),
]
