"""The sparse vector technique in the six variants of Lyu, Su and Li 2017, figure 1.

Variants 1 and 2 are private and are the twins here. Answers have sensitivity 1, the threshold is 0, epsilon is 1.
An output is a row with 1 (above), 0 (below) or -1 (not asked any more) for each answer.
"""

import numpy as np

from specimens.draws import laplace
from specimens.specimen import ANSWERS, Specimen

STOP = 2  # the cut-off c of the twins


def after_stop(above, limit):
    """Rows of 1 and 0, with -1 from where `limit` answers were above."""
    asked = np.cumsum(above, axis=1) - above < limit
    return np.where(asked, above.astype(int), -1)


def variant_1(answers, size, limit=STOP):
    threshold = laplace(2, (size, 1))
    above = np.asarray(answers) + laplace(4 * limit, (size, len(answers))) >= threshold
    return after_stop(above, limit)


def variant_2(answers, size, limit=STOP):
    threshold = laplace(2 * limit, size)
    noisy = np.asarray(answers) + laplace(4 * limit, (size, len(answers)))
    above = np.zeros(noisy.shape, bool)
    for i in range(len(answers)):
        above[:, i] = noisy[:, i] >= threshold
        threshold = np.where(above[:, i], laplace(2 * limit, size), threshold)
    return after_stop(above, limit)


def variant_3(answers, size):
    """Gives the noisy answer that was above (limit 1): (its place, its value)."""
    noisy = np.asarray(answers) + laplace(2, (size, len(answers)))
    above = noisy >= laplace(2, (size, 1))
    place = np.where(above.any(axis=1), above.argmax(axis=1), len(answers))
    value = np.where(above.any(axis=1), noisy[np.arange(size), above.argmax(axis=1)], 0)
    return np.stack([place, value], axis=1)


def variant_1_and_value(answers, size):
    """Half of the budget for the place (variant 1 at epsilon 1/2, limit 1), half for a fresh noisy answer."""
    answers = np.asarray(answers)
    above = answers + laplace(8, (size, len(answers))) >= laplace(4, (size, 1))
    place = np.where(above.any(axis=1), above.argmax(axis=1), len(answers))
    value = np.where(above.any(axis=1), answers[above.argmax(axis=1)] + laplace(2, size), 0)
    return np.stack([place, value], axis=1)


LIMIT_4 = 4


def variant_4(answers, size):
    noisy = np.asarray(answers) + laplace(4 / 3, (size, len(answers)))
    return after_stop(noisy >= laplace(4, (size, 1)), LIMIT_4)


def variant_5(answers, size):
    return (np.asarray(answers) >= laplace(2, (size, 1))).astype(int)


def variant_6(answers, size):
    noisy = np.asarray(answers) + laplace(2, (size, len(answers)))
    return (noisy >= laplace(2, (size, 1))).astype(int)


PAPER = "Lyu, Su and Li 2017, figure 1, "

SPECIMENS = [
    Specimen(
        name="sparse vector variant 3",
        source=PAPER + "algorithm 3 (lecture notes of 2011)",
        why="The noisy answer that passed is published, and says that the threshold was below it.",
        broken=variant_3,
        twin=variant_1_and_value,
        pairs=(((0.0,) * 8 + (1.0,), (1.0,) * 8 + (0.0,)),),
        data=ANSWERS,
    ),
    Specimen(
        name="sparse vector variant 4",
        source=PAPER + "algorithm 4 (Lee and Clifton 2014)",
        why="The answers' noise does not grow with the cut-off c = 4: epsilon is (1 + 6c)/4.",
        truth=(1 + 6 * LIMIT_4) / 4,
        broken=variant_4,
        twin=variant_1,
        pairs=(((0.0,) * 8, (1.0,) * 4 + (-1.0,) * 4),),
        data=ANSWERS,
    ),
    Specimen(
        name="sparse vector variant 5",
        source=PAPER + "algorithm 5 (Stoddard et al. 2014)",
        why="Answers have no noise: one threshold lies between 0 and 1 for both answers, or it does not.",
        broken=variant_5,
        twin=variant_2,
        pairs=(((0.0, 1.0), (1.0, 0.0)),),
        data=ANSWERS,
    ),
    Specimen(
        name="sparse vector variant 6",
        source=PAPER + "algorithm 6 (Chen et al. 2015)",
        why="It never stops, so every answer above the threshold costs again.",
        broken=variant_6,
        twin=variant_2,
        pairs=(((0.0,) * 8, (1.0,) * 4 + (-1.0,) * 4),),
        data=ANSWERS,
    ),
]
