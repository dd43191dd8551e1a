"""The best of several answers, each of sensitivity 1."""

import math

import numpy as np

from specimens.draws import NUMPY, laplace, on_grid
from specimens.specimen import ANSWERS, Specimen

FIVE = ((0.0,) * 5, (1.0,) * 5)


def exponential(scale, shape):
    return -scale * np.log1p(-NUMPY.random(shape))


def laplace_max(publish, scale):
    """Noisy max with Laplace noise: publishes the index (argmax) or the value (max)."""
    return lambda answers, size: publish(np.asarray(answers) + laplace(scale, (size, len(answers))), axis=1)


def exponential_max(publish, scale):
    """Noisy max with exponential noise: its index is permute-and-flip."""
    return lambda answers, size: publish(
        np.asarray(answers) + on_grid(exponential(scale, (size, len(answers)))), axis=1
    )


def choose(logarithms, size):
    """The exponential mechanism by Gumbel's trick, which neither overflows nor underflows."""
    return np.argmax(logarithms - np.log(exponential(1, (size, len(logarithms)))), axis=1)


def exponential_mechanism(factor):
    return lambda answers, size: choose(factor * np.asarray(answers), size)


def underflowing(answers, size):
    weights = np.exp(0.5 * np.asarray(answers))
    if weights.sum() == 0:
        return np.zeros(size, int)
    return np.searchsorted(np.cumsum(weights), NUMPY.random(size) * weights.sum(), side="right")


# Permute-and-flip takes the worse of two answers, 1 apart, with this probability (epsilon 1). The truth for zCDP is
# at least the Kullback-Leibler divergence between the two sides.
LESS = math.exp(-0.5) / 2

SPECIMENS = [
    Specimen(
        name="noisy max that gives the value, Laplace",
        source="Ding et al. 2018, noisy max variant 2 (Laplace); Dwork and Roth 2014, section 3.3",
        why="With noise for the index alone, the largest value falls below all five shifted answers too rarely.",
        truth=2.5,
        broken=laplace_max(np.max, 2),
        twin=laplace_max(np.argmax, 2),
        pairs=(FIVE,),
        data=ANSWERS,
    ),
    Specimen(
        name="noisy max that gives the value, exponential",
        source="Ding et al. 2018, noisy max variant 2 (exponential)",
        why="The value is never below the largest answer, and neighbours differ in that.",
        broken=exponential_max(np.max, 2),
        twin=exponential_max(np.argmax, 2),
        pairs=(FIVE,),
        data=ANSWERS,
    ),
    Specimen(
        name="noisy max with half the noise",
        source="Dwork and Roth 2014, claim 3.9, used for answers that do not all move one way",
        why="Scale 1 / epsilon is enough for counts that only grow; these may move apart by 2.",
        truth=2.0,
        broken=laplace_max(np.argmax, 1),
        twin=laplace_max(np.argmax, 2),
        pairs=(((0.0, 1.0), (-1.0, 2.0)),),
        data=ANSWERS,
    ),
    Specimen(
        name="exponential mechanism without its factor 1/2",
        source="McSherry and Talwar 2007, theorem 6",
        why="exp(epsilon * score) in place of exp(epsilon * score / 2): the normaliser moves too.",
        truth=2.0,
        broken=exponential_mechanism(1),
        twin=exponential_mechanism(0.5),
        pairs=(((0.0, 1.0), (-1.0, 2.0)), ((0.0, 2.0), (-1.0, 3.0))),
        data=ANSWERS,
    ),
    Specimen(
        name="exponential mechanism that underflows",
        source="Ilvento 2020, Implementing the exponential mechanism with base-2 DP",
        why="exp(-745.5) is 0 in float64: a candidate that should be chosen nearly as often never is.",
        broken=underflowing,
        twin=exponential_mechanism(0.5),
        pairs=(((-1489.0, -1490.0), (-1490.0, -1491.0)), ((-1489.0, -1489.0), (-1489.0, -1491.0))),
        data=ANSWERS,
    ),
    Specimen(
        name="zCDP of noisy max four times too small",
        source="opendp #2911",
        why="epsilon^2 / 8 is proven for the exponential mechanism; permute-and-flip needs up to epsilon^2 / 2.",
        claim={"rho": 1 / 8},
        truth=(1 - 2 * LESS) * math.log(1 / LESS - 1),
        broken=exponential_max(np.argmax, 2),
        twin=exponential_mechanism(0.5),
        pairs=(((0.0, 1.0), (1.0, 0.0)),),
        data=ANSWERS,
        truth_is="at least",
    ),
]
