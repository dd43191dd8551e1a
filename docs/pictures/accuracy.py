"""Draw docs/pictures/accuracy.svg: what noise has to hide and what it hides, and the error that follows.

python docs/pictures/accuracy.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pyarrow as pa

import sfumato as sf

BLUE, RED, GREY = "#33638d", "#b5403a", "#8a8a8a"
COLOURS = {"laplace": RED, "gaussian": GREY, "k_norm": BLUE}
LABELS = {"laplace": "Laplace", "gaussian": "Gaussian, delta 1e-6", "k_norm": "K-norm"}
GROUPS = (1, 2, 3, 4, 5, 7, 9, 12, 16, 20, 26, 33, 42, 50)


def shapes(axes: plt.Axes) -> None:
    """One group: a person adds 1 to the count, and up to 1 either way to the centred sum."""
    diamond, square = ((0, 2), (2, 0), (0, -2), (-2, 0)), ((1, 1), (1, -1), (-1, -1), (-1, 1))
    for corners, noise in ((diamond, "laplace"), (square, "k_norm")):
        axes.add_patch(
            plt.Polygon(
                corners,
                fill=False,
                linewidth=1.6,
                edgecolor=COLOURS[noise],
                label=f"{LABELS[noise]} noise hides",
            )
        )
    axes.add_patch(
        plt.Polygon(
            ((0, 0), (1, 1), (1, -1)), color="black", alpha=0.75, linewidth=0, label="a person can add"
        )
    )
    axes.set(xlim=(-2.6, 2.6), ylim=(-2.6, 2.6), aspect="equal",
             xlabel="count", ylabel="sum, about the middle of its bounds",
             title="one group: a count and a mean")  # fmt: skip
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def errors(axes: plt.Axes) -> None:
    """Public groups, all of which a person may be in: the deviation of each count."""
    columns = [pa.field(name, pa.int64(), nullable=False) for name in ("person", "year", "visits")]
    people = sf.scan(pa.table([[1], [1], [1]], pa.schema(columns)), privacy_unit="person")
    for noise, colour in COLOURS.items():
        deviations = []
        for groups in GROUPS:
            question = people.group_by("year", keys=list(range(groups))).bound(groups=groups, rows=1).agg(
                n=sf.count(), mean=sf.mean("visits", lower=0, upper=30))  # fmt: skip
            plan = question.plan(epsilon=1, delta=1e-6 if noise == "gaussian" else 0, noise=noise)
            deviations.append(plan.laws["units"].standard_deviation)
        axes.plot(GROUPS, deviations, color=colour)
        place, x, y = {"laplace": (-3, -8, 4), "gaussian": (0, 0, 30), "k_norm": (6, 6, -10)}[noise]
        axes.annotate(
            LABELS[noise],
            (GROUPS[place], deviations[place]),
            (x, y),
            textcoords="offset points",
            color=colour,
            ha="right" if noise == "laplace" else "left",
        )
    axes.set(xlabel="public groups that a person may be in", ylabel="standard deviation of a count",
             title="count and mean, epsilon 1", xscale="log", yscale="log")  # fmt: skip
    axes.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    axes.set_yticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
    axes.minorticks_off()


def main() -> None:
    """Write the picture beside this file."""
    plt.rcParams.update({"svg.hashsalt": "sfumato", "svg.fonttype": "path", "font.size": 9})
    figure, panels = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    shapes(panels[0])
    errors(panels[1])
    for axes in panels:
        axes.spines[["right", "top"]].set_visible(False)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
