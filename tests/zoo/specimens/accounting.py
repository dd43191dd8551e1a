"""Noise that is right, and a budget that is added up wrongly."""

import math

import numpy as np

from specimens.draws import NUMPY, laplace, total
from specimens.noise import COUNT, gaussian_count
from specimens.specimen import NOTHING, Specimen

RATE = 0.25
AMPLIFIED = math.log1p(RATE * math.expm1(1))


def count_and_sum(scale):
    def mechanism(dataset, size):
        exact = np.array([len(dataset), total(dataset, 0, 1)])
        return exact + laplace(scale, (size, 2))

    return mechanism


def three_counts(scale):
    return lambda dataset, size: len(dataset) + laplace(scale, (size, 3))


def fixed_sample(dataset, size):
    sample = dataset[: math.ceil(RATE * len(dataset))]
    return len(sample) + laplace(1, size)


def poisson_sample(dataset, size):
    return NUMPY.binomial(len(dataset), RATE, size) + laplace(1, size)


SPECIMENS = [
    Specimen(
        name="shared budget spent twice",
        source="folklore",
        why="The count and the sum of one release each spend all of epsilon.",
        truth=2.0,
        broken=count_and_sum(1),
        twin=count_and_sum(2),
        pairs=((NOTHING, (1.0,)),),
    ),
    Specimen(
        name="odometer that takes the largest",
        source="smartnoise-sdk #621 and #624",
        why="Three releases of epsilon 1 are reported as their largest, not as their sum.",
        truth=3.0,
        broken=three_counts(1),
        twin=three_counts(3),
        pairs=COUNT,
    ),
    Specimen(
        name="zCDP four times too small",
        source="opendp #2911's factor, on Gaussian noise",
        why="sigma = 1 / sqrt(8 rho): a sensitivity of 1 was taken as 1/2.",
        claim={"rho": 0.125},
        truth=0.5,
        broken=gaussian_count(1),
        twin=gaussian_count(2),
        pairs=COUNT,
    ),
    Specimen(
        name="amplification by a sample that is no sample",
        source="Balle, Barthe and Gaboardi 2018 on subsampling; folklore",
        why="The first quarter of the records is used, and epsilon is lowered as for a random quarter.",
        claim={"epsilon": AMPLIFIED},
        truth=1.0,
        broken=fixed_sample,
        twin=poisson_sample,
        pairs=COUNT,
    ),
]
