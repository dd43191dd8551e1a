"""Local answers: what one person says of herself."""

import math

import numpy as np

from specimens.draws import NUMPY
from specimens.specimen import ONE, Specimen

CHOICES = ("apple", "bread", "cheese", "dates", "eggs", "figs", "grapes", "honey", "ice", "jam")
K = len(CHOICES)


def randomized_response(truth):
    """Says the truth with this probability, and else one of the others."""

    def mechanism(dataset, size):
        mine = CHOICES.index(dataset[0])
        shift = np.where(NUMPY.random(size) < truth, 0, NUMPY.integers(1, K, size))
        return np.array(CHOICES)[(mine + shift) % K].tolist()

    return mechanism


def unary_encoding(flip):
    """A bit for each choice, each flipped with this probability."""

    def mechanism(dataset, size):
        bits = np.array(CHOICES) == dataset[0]
        return (bits ^ (NUMPY.random((size, K)) < flip)).astype(int)

    return mechanism


TWO = (("apple",), ("bread",))

SPECIMENS = [
    Specimen(
        name="randomized response over ten answers",
        source="Warner 1965, used for k answers, Kairouz et al. 2014 for the right one",
        why="The truth with probability e^eps / (e^eps + 1) is for two answers; a lie is nine times rarer here.",
        truth=1 + math.log(K - 1),
        broken=randomized_response(math.e / (math.e + 1)),
        twin=randomized_response(math.e / (math.e + K - 1)),
        pairs=(TWO,),
        data=ONE,
    ),
    Specimen(
        name="unary encoding with the whole budget for each bit",
        source="Wang et al. 2017, section 4; Erlingsson et al. 2014 (RAPPOR)",
        why="Two bits differ between two people, and each is flipped as if it were alone.",
        truth=2.0,
        broken=unary_encoding(1 / (1 + math.e)),
        twin=unary_encoding(1 / (1 + math.exp(0.5))),
        pairs=(TWO,),
        data=ONE,
    ),
]
