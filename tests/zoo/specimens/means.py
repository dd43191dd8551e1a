"""Means and variances."""

import numpy as np

from specimens.draws import clamped, laplace, on_grid
from specimens.specimen import NOTHING, Specimen


def exact_divisor(scale):
    def mechanism(dataset, size):
        values = clamped(dataset, 0, 1)
        return on_grid((values.sum() + laplace(scale, size)) / max(1, len(values)))

    return mechanism


def exact_divisor_by_width(dataset, size):
    values = clamped(dataset, 4, 5)
    return on_grid((values.sum() + laplace(1, size)) / max(1, len(values)))


def noisy_divisor(lower, upper, scale):
    """Half of the budget for the sum of distances from `lower`, half for the count."""

    def mechanism(dataset, size):
        values = clamped(dataset, lower, upper) - lower
        noisy_sum = values.sum() + laplace(scale * (upper - lower), size)
        noisy_count = len(values) + laplace(scale, size)
        return np.clip(lower + noisy_sum / np.maximum(1, noisy_count), lower, upper)

    return mechanism


def moments(dataset, size, scales):
    """Noisy count, sum and sum of squares of values in [-5, 5]."""
    values = clamped(dataset, -5, 5)
    exact = np.array([len(values), values.sum(), on_grid(values**2).sum()])
    return exact + np.stack([laplace(scale, size) for scale in scales], axis=1)


def variance_of_pipelinedp(dataset, size):
    return moments(dataset, size, (1, 5, 12.5))


def variance_done_right(dataset, size):
    return moments(dataset, size, (1, 5, 25))


def variance(noisy):
    count = np.maximum(1, noisy[:, 0])
    return np.clip(noisy[:, 2] / count - (noisy[:, 1] / count) ** 2, 0, 25)


def zero_for_few(dataset, size):
    if len(dataset) < 2:
        return np.zeros(size)
    return variance(variance_done_right(dataset, size)) + laplace(1, size)


def zero_for_noisy_few(dataset, size):
    noisy = variance_done_right(dataset, size)
    return np.where(noisy[:, 0] < 2, 0.0, variance(noisy))


SPECIMENS = [
    Specimen(
        name="mean over the exact count",
        source="Li, Lyu, Su and Yang 2016, algorithm 2.3; Desfontaines 2020, section 4.2.6, footnote by Kulesza",
        why="A noisy sum over the exact count: the width of its law tells the number of records.",
        claim={"epsilon": 0.5},
        broken=exact_divisor(2),
        twin=noisy_divisor(0, 1, 4),
        pairs=(((1.0,), (1.0, 1.0)), ((0.0,), (0.0, 1.0))),
    ),
    Specimen(
        name="mean of the sum with the width of its bounds",
        source="Desfontaines 2020, section 4.2.6: the regression that its tester found",
        why="Both mistakes of ANON_AVG at once: |upper - lower| as the sum's scale, and the exact count.",
        broken=exact_divisor_by_width,
        twin=noisy_divisor(4, 5, 2),
        pairs=(((4.0,), (4.0, 5.0)), (NOTHING, (5.0,))),
    ),
    Specimen(
        name="exact zero for n < 2",
        source="folklore",
        why="The output is exactly 0 where there are fewer than two records, and hardly ever elsewhere.",
        claim={"epsilon": 3.0},
        broken=zero_for_few,
        twin=zero_for_noisy_few,
        pairs=(((1.0,), (1.0, -1.0)),),
    ),
    Specimen(
        name="noise for the raw squares",
        source="PipelineDP 0.3.1 (run): variance of values in [-5, 5]",
        why="The sum of squares gets noise for 12.5, half of the raw interval, where a record moves it by 25.",
        claim={"epsilon": 3.0},
        truth=4.0,
        broken=variance_of_pipelinedp,
        twin=variance_done_right,
        pairs=((NOTHING, (5.0,)),),
    ),
]
