"""Exactly drawn noise: random words, draws of Laplace and Gaussian noise, their laws, exact coins."""

from typing import TYPE_CHECKING

from sfumato.names import face
from sfumato.noise.laws import DiscreteLaplace, Gaussian, Laplace, Law
from sfumato.noise.random_words import (
    FixedWords,
    KeyedWords,
    SecureWords,
    SeededWords,
    Words,
    bernoulli,
    bernoulli_each,
    default_words,
)

__all__ = [
    "DiscreteLaplace",
    "FixedWords",
    "Gaussian",
    "KeyedWords",
    "Laplace",
    "Law",
    "SecureWords",
    "SeededWords",
    "Words",
    "bernoulli",
    "bernoulli_each",
    "default_words",
]

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("noise", __all__)
