"""Epsilon and delta: what a release loses, and the noise that a budget buys."""

from sfumato.budget.calibration import calibrate, gaussian_mu, gaussian_sigma, split_delta
from sfumato.budget.filters import Spent
from sfumato.budget.loss import Loss
from sfumato.budget.spending import Budget, Remaining

__all__ = [
    "Budget",
    "Loss",
    "Remaining",
    "Spent",
    "calibrate",
    "gaussian_mu",
    "gaussian_sigma",
    "split_delta",
]
