"""Draw docs/pictures/tolerances.svg: a law, its tolerances, and a mean's law beside its interval bound.

python docs/pictures/tolerances.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sfumato.noise import Laplace, SeededWords
from sfumato.testing import mean_tolerance

BLUE, RED, GREY = "#33638d", "#b5403a", "#8a8a8a"
K = 1
COUNT, SUM = 40, 60.0
COUNT_NOISE, SUM_NOISE = Laplace(4), Laplace(8)


def law(axes: plt.Axes) -> None:
    """Draw the density, both tolerances, and what is outside of one and inside of the other."""
    noise = Laplace(1)
    x = np.linspace(-5, 5, 2001)
    density = np.exp(-np.abs(x)) / 2
    far, near = noise.tolerance(K), noise.complementary_tolerance(K)
    axes.plot(x, density, color=BLUE)
    axes.fill_between(
        x, density, where=np.abs(x) >= far, color=RED, alpha=0.5, label=f"beyond ±{far:.3g}: off"
    )
    axes.fill_between(
        x, density, where=np.abs(x) <= near, color=GREY, alpha=0.6, label=f"within ±{near:.3g}: too near"
    )
    axes.set_title("Laplace noise of scale 1 at k = 1\neach shaded area is 10⁻¹")
    axes.set_xlabel("noise")
    axes.legend(frameon=False, loc="upper right", fontsize=7)


def mean(axes: plt.Axes) -> None:
    """Draw a noisy mean's law, from many draws, and the bounds of its error."""
    n, words = 1_000_000, SeededWords("tolerances")
    total = SUM + SUM_NOISE.rounded(n, words)
    count = np.maximum(1, COUNT + COUNT_NOISE.rounded(n, words))
    error = total / count - SUM / COUNT
    axes.hist(error, bins=np.linspace(-2, 4, 241), density=True, color=BLUE, alpha=0.6)
    bound = float(
        mean_tolerance(
            K,
            normalized_sum=SUM,
            count=COUNT,
            sum_noise=SUM_NOISE,
            count_noise=COUNT_NOISE,
            rounded="all",
            sum_step=1,
        )
    )
    true = float(np.quantile(np.abs(error), 1 - 10.0**-K))
    for t, colour, what in ((true, RED, "exact"), (bound, GREY, "interval bound")):
        for side in (-1, 1):
            axes.axvline(side * t, color=colour, label=f"{what}: ±{t:.2g}" if side > 0 else None)
    axes.set_title(f"error of a mean, sum {SUM:g} over count {COUNT}\nnoises of scales 8 and 4, k = 1")
    axes.set_xlabel("noisy mean less true mean")
    axes.set_xlim(-2, 3.5)
    axes.legend(frameon=False, loc="upper right", fontsize=7)


def main() -> None:
    """Write the picture beside this file."""
    plt.rcParams.update({"svg.hashsalt": "sfumato", "svg.fonttype": "path", "font.size": 9})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    law(left)
    mean(right)
    for axes in (left, right):
        axes.set_yticks([])
        axes.spines[["left", "right", "top"]].set_visible(False)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
