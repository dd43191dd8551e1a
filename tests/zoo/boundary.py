"""What tests of the auditor look at: mechanisms at the exact boundary of their claim, wrong ones, a bettor that peeks."""

import math

import numpy as np

from sfumato.noise import Laplace, SeededWords


def on_grid(x):
    """Put numbers on a grid of 2^-20, so that nothing hides in their low bits."""
    return np.round(np.asarray(x) * 2**20) / 2**20


def clamped(dataset):
    """Clamp to [0, 1]; NaN is nothing."""
    return [min(max(float(x), 0.0), 1.0) for x in dataset if x == x]


def laplace_sum(rng, scale=1.0):
    """Epsilon is 1 / scale, and reached."""

    def mechanism(dataset, size):
        return on_grid(sum(clamped(dataset))) + on_grid(rng.laplace(0, scale, size))

    return mechanism


def exact_laplace_sum(seed, scale=1):
    """The same with this package's noise, on a grid of 2^-20."""
    words, law = SeededWords(seed), Laplace(scale=scale * 2**20)

    def mechanism(dataset, size):
        return (round(sum(clamped(dataset)) * 2**20) + law.rounded(size, words)) / 2.0**20

    return mechanism


def float_laplace_sum(rng):
    return lambda dataset, size: sum(clamped(dataset)) + rng.laplace(0, 1, size)


def randomized_response(rng, epsilon=1.0):
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))

    def mechanism(dataset, size):
        truth = round(sum(clamped(dataset))) % 2
        return np.where(rng.random(size) < keep, truth, 1 - truth)

    return mechanism


def geometric_count(rng, epsilon=1.0):
    def mechanism(dataset, size):
        p = -math.expm1(-epsilon)
        return len(dataset) + rng.geometric(p, size) - rng.geometric(p, size)

    return mechanism


def gaussian_sum(rng, sigma=1.0):
    def mechanism(dataset, size):
        return on_grid(sum(clamped(dataset))) + on_grid(rng.normal(0, sigma, size))

    return mechanism


def peeking(choose):
    """A defect for `Wager._chosen`: bets are chosen from the batch on which they are made."""

    def chosen(self, batch):
        counts, samples = self._counts, self._samples
        self._counts, self._samples = batch, int(batch[0].sum())
        try:
            return choose(self, batch)
        finally:
            self._counts, self._samples = counts, samples

    return chosen
