"""Epsilon and delta: what a release loses, and the noise that a budget buys."""

from typing import TYPE_CHECKING

from sfumato.names import face

if TYPE_CHECKING:
    from sfumato.budget.budget import Budget, Remaining
    from sfumato.budget.calibration import calibrate, gaussian_mu, gaussian_sigma, split_delta
    from sfumato.budget.filters import Spent
    from sfumato.budget.loss import Loss

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

# The names of each module, which is loaded when one of them is first used.
_HOMES = {
    "budget.calibration": "calibrate gaussian_mu gaussian_sigma split_delta",
    "budget.filters": "Spent",
    "budget.loss": "Loss",
    "budget.budget": "Budget Remaining",
}

if not TYPE_CHECKING:  # a checker of types says which names are none
    __getattr__, __dir__ = face("budget", __all__, _HOMES)
