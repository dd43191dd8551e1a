"""Draw docs/pictures/snapping.svg: the lowest set bit of releases, for naive and for snapped noise.

python docs/pictures/snapping.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sfumato.noise import SeededWords
from sfumato.snapping import SnappingMechanism

BLUE, RED = "#33638d", "#b5403a"
DRAWS = 100_000
EXPONENTS = np.arange(-62, 3)


def naive(value: float, seed: int) -> np.ndarray:
    """Textbook Laplace noise in float64, by inversion."""
    words = SeededWords(seed).take(DRAWS)
    uniform = ((words >> 11) + 1) * 2.0**-53
    return value - np.where(words & 1, 1.0, -1.0) * np.log(uniform)


def snapped(value: float, seed: int) -> np.ndarray:
    """The same value, snapped."""
    mechanism = SnappingMechanism(1, lower=0, upper=1)
    return mechanism.release(np.full(DRAWS, value), SeededWords(seed))


def lowest_bit(x: np.ndarray) -> np.ndarray:
    """The exponent of the lowest set bit of each float."""
    fraction, exponent = np.frexp(x)
    whole = np.ldexp(fraction, 53).astype(np.int64)
    return np.log2((whole & -whole).astype(float)) + exponent - 53


def main() -> None:
    """Write the picture beside this file."""
    plt.rcParams.update({"svg.hashsalt": "sfumato", "svg.fonttype": "path", "font.size": 9})
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", sharey=True)
    for axes, release, title in (
        (panels[0], naive, "naive float64 Laplace noise"),
        (panels[1], snapped, "snapped"),
    ):
        for value, colour, shift in ((0.0, BLUE, -0.2), (1.0, RED, 0.2)):
            low = lowest_bit(release(value, int(value)))
            share = [(low == e).mean() for e in EXPONENTS]
            axes.bar(EXPONENTS + shift, share, width=0.4, color=colour, label=f"from {value:g}")
        axes.set_title(f"{title}, epsilon = 1")
        axes.set_xlabel("exponent of the lowest set bit of the release")
        axes.set_yscale("log")
        axes.spines[["right", "top"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    panels[0].set_ylabel("share of releases")
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
