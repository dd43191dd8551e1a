"""Sums whose noise does not fit what one person can change."""

from fractions import Fraction

import numpy as np

from specimens.draws import clamped, gaussian, laplace, numbers, total
from specimens.specimen import NOTHING, REPLACED, VECTORS, Specimen

LEVELS = 4
WIDTH = 16


def noisy_sum(lower, upper, scale):
    return lambda dataset, size: total(dataset, lower, upper) + laplace(scale, size)


def bounds_from_data(dataset, size):
    values = numbers(dataset)
    if not len(values) or values.min() == values.max():
        return np.full(size, values.sum())
    lower, upper = values.min(), values.max()
    return total(values, lower, upper) + laplace(max(abs(lower), abs(upper)), size)


def clip_unused(dataset, size):
    values = numbers(dataset)
    np.clip(values, 0, 1)
    return total(values, -1e6, 1e6) + laplace(1, size)


def no_bounds(dataset, size):
    lower = upper = None
    sensitivity = 0 if upper is None else max(abs(lower), abs(upper))
    exact = total(dataset, -1e6, 1e6)
    return exact + (laplace(sensitivity, size) if sensitivity else np.zeros(size))


def rounded_after(dataset, size):
    return np.rint(total(dataset, 0, 0.6)) + laplace(Fraction("0.6"), size)


def rounded_before(dataset, size):
    return np.rint(clamped(dataset, 0, 0.6)).sum() + laplace(1, size)


def with_length(dataset, size):
    noisy = total(dataset, 0, 1) + laplace(1, size)
    return np.stack([noisy, np.full(size, float(len(dataset)))], axis=1)


def with_noisy_length(dataset, size):
    noisy = total(dataset, 0, 1) + laplace(2, size)
    return np.stack([noisy, len(dataset) + laplace(2, size)], axis=1)


def vector_sum(sigma):
    """Records are vectors of `WIDTH` entries, each clamped to [-1, 1]."""

    def mechanism(dataset, size):
        exact = sum((clamped(record, -1, 1) for record in dataset), np.zeros(WIDTH))
        return exact + gaussian(sigma, (size, WIDTH))

    return mechanism


def quantile_tree(scale):
    """Counts of all nodes of a binary tree of `LEVELS` levels over [0, 1]; a record is in one node of each."""

    def mechanism(dataset, size):
        leaf = np.minimum(clamped(dataset, 0, 1) * 2 ** (LEVELS - 1), 2 ** (LEVELS - 1) - 1).astype(int)
        levels = [np.bincount(leaf >> (LEVELS - 1 - i), minlength=2**i) for i in range(LEVELS)]
        counts = np.concatenate(levels).astype(float)
        return counts + laplace(scale, (size, len(counts)))

    return mechanism


SPECIMENS = [
    Specimen(
        name="sum with the width of its bounds",
        source="Desfontaines 2020, section 4.2.6: the first version of ANON_SUM (Wilson et al. 2020)",
        why="|upper - lower| fits a changed record; an added one moves the sum by max(|lower|, |upper|).",
        truth=2.0,
        broken=noisy_sum(1, 2, 1),
        twin=noisy_sum(1, 2, 2),
        pairs=((NOTHING, (2.0,)), ((1.5,), (1.5, 2.0))),
    ),
    Specimen(
        name="sum with the wrong neighbouring",
        source="folklore; the reverse of ANON_SUM's first version",
        why="max(|lower|, |upper|) fits an added record; a changed one moves the sum by upper - lower.",
        truth=2.0,
        broken=noisy_sum(-5, 5, 5),
        twin=noisy_sum(-5, 5, 10),
        pairs=(((-5.0,), (5.0,)),),
        data=REPLACED,
    ),
    Specimen(
        name="bounds from the data",
        source="what diffprivlib's PrivacyLeakWarning is about",
        why="Clamping bounds and the scale are the minimum and maximum of the records.",
        broken=bounds_from_data,
        twin=noisy_sum(0, 4, 4),
        pairs=(((1.0, 2.0), (1.0, 2.0, 1000.0)),),
    ),
    Specimen(
        name="clip computed and unused",
        source="smartnoise-sdk #622",
        why="The clamped values are computed, and the raw ones are summed.",
        broken=clip_unused,
        twin=noisy_sum(0, 1, 1),
        pairs=((NOTHING, (50.0,)),),
    ),
    Specimen(
        name="no noise without bounds",
        source="smartnoise-sdk #317",
        why="Bounds that were left out give sensitivity 0, and thus no noise.",
        broken=no_bounds,
        twin=noisy_sum(0, 1, 1),
        pairs=((NOTHING, (1.0,)),),
    ),
    Specimen(
        name="sensitivity truncated to an integer",
        source="opendp #314",
        why="int(1.75) = 1 becomes the sensitivity.",
        truth=1.75,
        broken=noisy_sum(0, 1.75, int(1.75)),
        twin=noisy_sum(0, 1.75, 1.75),
        pairs=((NOTHING, (1.75,)),),
    ),
    Specimen(
        name="rounding after the sum",
        source="google/differential-privacy #126; Casacuberta et al. 2022",
        why="A sum that moves by 0.6 moves by 1 once it is rounded to whole numbers.",
        truth=1 / 0.6,
        broken=rounded_after,
        twin=rounded_before,
        pairs=(((0.4,), (0.4, 0.6)),),
    ),
    Specimen(
        name="length as public",
        source="folklore",
        why="The exact number of records comes with the noisy sum, though neighbours differ in it.",
        broken=with_length,
        twin=with_noisy_length,
        pairs=((NOTHING, (1.0,)),),
    ),
    Specimen(
        name="L-infinity for L2 in 16 dimensions",
        source="folklore",
        why="Each of 16 entries moves by 1, so the vector moves by 4 in the norm that Gaussian noise is about.",
        claim={"mu": 1.0},
        truth=4.0,
        broken=vector_sum(1),
        twin=vector_sum(4),
        pairs=((NOTHING, ((1.0,) * WIDTH,)),),
        data=VECTORS,
    ),
    Specimen(
        name="quantile tree without a split",
        source="folklore",
        why="A record is in a node of each of 4 levels, and every level spends the whole budget.",
        truth=4.0,
        broken=quantile_tree(1),
        twin=quantile_tree(LEVELS),
        pairs=((NOTHING, (0.3,)),),
    ),
]
