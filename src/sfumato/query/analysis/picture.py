"""Errors by two choices as a picture: a panel for each output, a cell for each pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from sfumato.dataclass import dataclass
from sfumato.query.pictures import checked_picture, save

_COLUMNS, _MOST, _MOST_TEXTS = 3, 12, 120
INK, PALE, MARK = "#1f2933", "#ffffff", "#d55e00"


@dataclass(frozen=True)
class Cells:
    """A panel.

    Args:
        title: of the panel.
        values: by row and column, a number and what is written in the cell.
        marked: the cell that is framed.
    """

    title: str
    values: Mapping[tuple[int, int], tuple[float, str]]
    marked: tuple[int, int]


def heat_map(
    panels: Sequence[Cells],
    across: Sequence[str],
    down: Sequence[str],
    path: str | Path,
    title: str,
    limit: str,
    foot: str,
) -> None:
    """Write panels of cells, the darker the larger on a scale of powers of ten.

    Args:
        panels: one for each output, of which 12 are drawn.
        across, down: what columns and rows of cells stand for; of columns a limit, or nothing.
        path: where to, a .png or .svg.
        title, foot: above and below all.
        limit: what the limits of columns are of.
    Raises:
        ParameterError: the path is not admissible.
        EngineError: matplotlib is not installed.
    """
    target = checked_picture(path)
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    panels = panels[:_MOST]
    wide = min(len(panels), _COLUMNS)
    high = math.ceil(len(panels) / _COLUMNS)
    labels = max(map(len, down)) * 0.07
    size = wide * (0.8 * len(across) + 0.9) + labels + 0.4, high * (0.6 * len(down) + 1.1) + 0.7
    figure = Figure(figsize=(max(size[0], 5.0), size[1]), layout="constrained")
    blues = colormaps["Blues"]
    for number, panel in enumerate(panels):
        axis = figure.add_subplot(high, wide, number + 1)
        logs = {
            place: math.log(value)
            for place, (value, _) in panel.values.items()
            if math.isfinite(value) and value > 0
        }
        low, top = min(logs.values(), default=0.0), max(logs.values(), default=0.0)
        for (row, column), (_, text) in panel.values.items():
            depth = (logs[row, column] - low) / (top - low) if (row, column) in logs and top > low else 0.0
            colour, corner = blues(0.08 + 0.8 * depth), (column - 0.5, row - 0.5)
            axis.add_patch(Rectangle(corner, 1, 1, facecolor=colour, edgecolor=PALE))
            if len(panel.values) <= _MOST_TEXTS:
                ink = PALE if depth > 0.6 else INK
                axis.text(
                    column, row, text, ha="center", va="center", fontsize=6, color=ink, parse_math=False
                )  # fmt: skip
        row, column = panel.marked
        axis.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=MARK, linewidth=2))
        axis.set(xlim=(-0.5, len(across) - 0.5), ylim=(len(down) - 0.5, -0.5))
        axis.set_title(panel.title, fontsize=9, parse_math=False)
        axis.set_xticks(range(len(across)), across, fontsize=7)
        first = number % _COLUMNS == 0
        axis.set_yticks(range(len(down)), down if first else [""] * len(down), fontsize=7)
        for label in axis.get_yticklabels():
            label.set_parse_math(False)
        if any(across):
            axis.set_xlabel(limit, fontsize=7)
    figure.suptitle(title, fontsize=9, color=MARK)
    figure.supxlabel(foot, fontsize=6)
    save(figure, target)
