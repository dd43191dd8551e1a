"""Epsilon and delta: what a release loses, and the noise that a budget buys."""

from typing import TYPE_CHECKING

from sfumato.budget.calibration import calibrate, gaussian_mu, gaussian_sigma, split_delta
from sfumato.budget.filters import Spent
from sfumato.budget.loss import Loss
from sfumato.budget.spending import Budget, Remaining
from sfumato.names import face

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

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("budget", __all__)
