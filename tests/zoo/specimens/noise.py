"""Noise of the wrong size or shape: counts of records, of sensitivity 1."""

import math
from fractions import Fraction

import numpy as np

from sfumato.budget.closed_forms import gaussian_mu
from specimens.draws import gaussian, laplace, total
from specimens.specimen import NOTHING, RECORD, Specimen, gaussian_delta, gaussian_epsilon

COUNT = ((NOTHING, RECORD),)


def noisy_count(scale):
    """A mechanism: the number of records with Laplace noise of this scale."""
    return lambda dataset, size: len(dataset) + laplace(scale, size)


def gaussian_count(sigma):
    """A mechanism: the number of records with Gaussian noise."""
    return lambda dataset, size: len(dataset) + gaussian(sigma, size)


def analytic_sigma(epsilon, delta):
    return 1 / gaussian_mu(epsilon, delta)


def classic_sigma(epsilon, delta):
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def count_and_sum(count_scale, sum_scale):
    def mechanism(dataset, size):
        exact = np.array([len(dataset), total(dataset, 0, 10)])
        return exact + np.stack([laplace(count_scale, size), laplace(sum_scale, size)], axis=1)

    return mechanism


def averaged(dataset, size):
    return len(dataset) + laplace(1, (size, 4)).mean(axis=1)


def cut(dataset, size):
    return len(dataset) + np.clip(laplace(1, size), -4, 4)


def redrawn(dataset, size):
    noisy = len(dataset) + laplace(1, size)
    while (bad := noisy < 0).any():
        noisy[bad] = len(dataset) + laplace(1, int(bad.sum()))
    return noisy


def clamped_count(dataset, size):
    return np.maximum(noisy_count(1)(dataset, size), 0)


def classic(name, epsilon, delta, why, **how):
    sigma = classic_sigma(epsilon, delta)
    return Specimen(
        name=name,
        source="Dwork and Roth 2014, theorem A.1, outside its range epsilon < 1; Balle and Wang 2018, section 2",
        why=why,
        claim={"epsilon": epsilon, "delta": delta},
        truth=gaussian_epsilon(1 / sigma, delta),
        broken=gaussian_count(sigma),
        twin=gaussian_count(analytic_sigma(epsilon, delta)),
        pairs=COUNT,
        **how,
    )


WIDE = float(analytic_sigma(0.25, 0.01))

SPECIMENS = [
    Specimen(
        name="half noise",
        source="folklore",
        why="The scale is half of sensitivity / epsilon.",
        truth=2.0,
        broken=noisy_count(0.5),
        twin=noisy_count(1),
        pairs=COUNT,
    ),
    Specimen(
        name="inverted scale",
        source='Ding et al. 2018, "Histogram" with scale epsilon',
        why="The scale is epsilon / sensitivity in place of its inverse.",
        claim={"epsilon": 0.5},
        truth=2.0,
        broken=noisy_count(0.5),
        twin=noisy_count(2),
        pairs=COUNT,
    ),
    Specimen(
        name="swapped scales",
        source="folklore",
        why="The noise of the count (sensitivity 1) is added to the sum (sensitivity 10) and the other way round.",
        truth=0.05 + 5,
        broken=count_and_sum(20, 2),
        twin=count_and_sum(2, 20),
        pairs=((NOTHING, (10.0,)),),
    ),
    Specimen(
        name="averaged noise",
        source="folklore",
        why="The mean of four noises of scale 1 is added; its tails fall four times as fast.",
        truth=4.0,
        broken=averaged,
        twin=noisy_count(1),
        pairs=COUNT,
    ),
    Specimen(
        name="tail is cut",
        source="folklore",
        why="Noise beyond 4 scales is moved to 4 scales, so the largest output tells the count.",
        broken=cut,
        twin=noisy_count(1),
        pairs=COUNT,
    ),
    Specimen(
        name="redrawn until positive",
        source="Holohan et al. 2018, The bounded Laplace mechanism",
        why="Conditioning on a noisy count of at least 0 scales the density by a factor that depends on the count.",
        truth=1 + math.log(2 - math.exp(-1)),
        broken=redrawn,
        twin=clamped_count,
        pairs=COUNT,
    ),
    classic(
        "classic Gaussian sigma at epsilon 20",
        20.0,
        1e-3,
        "sqrt(2 ln(1.25 / delta)) / epsilon holds for epsilon < 1 only: delta is 0.098, not 0.001.",
        unseen="A breach of epsilon 20 is an output at least e^20 = 5e8 times rarer on the neighbour: no sample of "
        "feasible size bounds a probability by 2e-10. `closeness` sees it, as sigma is 0.83 of what is needed.",
    ),
    classic(
        "classic Gaussian sigma at epsilon 8",
        8.0,
        0.1,
        "The same formula at an epsilon where outputs can show it: delta is "
        f"{gaussian_delta(1 / classic_sigma(8, 0.1), 8):.3f}, not 0.1.",
        slow=True,
    ),
    Specimen(
        name="sigma where a variance belongs",
        source="folklore",
        why="A function that wants a variance gets sigma, so the noise has standard deviation sqrt(sigma).",
        claim={"epsilon": 0.25, "delta": 0.01},
        truth=gaussian_epsilon(1 / math.sqrt(WIDE), 0.01),
        broken=gaussian_count(Fraction(math.sqrt(WIDE))),
        twin=gaussian_count(analytic_sigma(0.25, 0.01)),
        pairs=COUNT,
    ),
]
