"""Names of options: noises, group selections and methods, once for Python, SQL and the command."""

from __future__ import annotations

from typing import Literal, get_args

from sfumato.exact import Number

Amount = Number  # of a budget
NoiseName = Literal["laplace", "gaussian", "k_norm"]
Bounded = Literal["unit", "row"]
DistinctMethod = Literal["matching", "shares"]
VectorNorm = Literal["l2", "l1", "linf"]
BeyondChoice = Literal["auto", "scale", "sample"]
SelectionName = Literal["truncated_geometric", "laplace", "gaussian"]
NoiseChoice = Literal["auto", NoiseName]
SelectionChoice = Literal["auto", SelectionName]

NOISES: tuple[NoiseName, ...] = get_args(NoiseName)
# Those of each number by itself.
SEPARATE_NOISES = NOISES[:2]
SELECTIONS: tuple[SelectionName, ...] = get_args(SelectionName)
NOISE_CHOICES: tuple[NoiseChoice, ...] = get_args(NoiseChoice)
BEYOND_CHOICES: tuple[BeyondChoice, ...] = get_args(BeyondChoice)
SELECTION_CHOICES: tuple[SelectionChoice, ...] = get_args(SelectionChoice)


def noise_title(noise: str) -> str:
    """Return the name of a noise as one writes it.

    >>> noise_title("laplace"), noise_title("k_norm")
    ('Laplace', 'K-norm')
    """
    return "K-norm" if noise == "k_norm" else noise.capitalize()
