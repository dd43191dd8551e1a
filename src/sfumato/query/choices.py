"""The names from which a release may choose, once for Python, SQL and the command."""

from __future__ import annotations

from typing import Literal, get_args

NoiseName = Literal["laplace", "gaussian"]
SelectionName = Literal["truncated_geometric", "laplace", "gaussian"]
NoiseChoice = Literal["auto", NoiseName]
SelectionChoice = Literal["auto", SelectionName]

NOISES: tuple[NoiseName, ...] = get_args(NoiseName)
SELECTIONS: tuple[SelectionName, ...] = get_args(SelectionName)
NOISE_CHOICES: tuple[NoiseChoice, ...] = get_args(NoiseChoice)
SELECTION_CHOICES: tuple[SelectionChoice, ...] = get_args(SelectionChoice)
