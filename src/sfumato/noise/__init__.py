"""Exactly rounded real noise: random words, draws of Laplace and Gaussian noise, their laws, exact coins."""

from sfumato.noise.bernoulli import bernoulli, bernoulli_each
from sfumato.noise.law import Law
from sfumato.noise.laws import Gaussian, Laplace
from sfumato.noise.words import FixedWords, KeyedWords, SecureWords, SeededWords, Words, default_words

__all__ = [
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
