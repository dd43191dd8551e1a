"""Advice as a picture: for each question the error by each of its choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from sfumato.dataclass import dataclass
from sfumato.query.pictures import checked_picture, save

_ROWS, _COLUMNS = 8, 4
_ERROR, _NOISE, _MARK = "#0072b2", "#999999", "#d55e00"


@dataclass(frozen=True)
class Curve:
    """The error by one choice, the others as they are advised.

    Args:
        choice: what is chosen, such as "groups".
        chosen: the advised value.
        points: values, and with each the noise and the error, of the error with the advised one.

    Made by `advise`; `Advice.curves` has all of them in a table.
    """

    choice: str
    chosen: float
    points: tuple[tuple[float, float, float], ...]


def draw(questions: Sequence[tuple[str, Sequence[Curve]]], path: str | Path) -> None:
    """Write a row of panels for each question, of which 8 are drawn, with 4 choices at most.

    Args:
        questions: names and curves.
        path: where to, a .png or .svg.
    Raises:
        ParameterError: the path is not admissible.
        EngineError: matplotlib is not installed.
    """
    target = checked_picture(path)
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    rows = [(name, curves[:_COLUMNS]) for name, curves in questions][:_ROWS]
    wide = max((len(curves) for _, curves in rows), default=1) or 1
    figure = Figure(figsize=(3.2 * wide + 0.4, 2.3 * len(rows) + 0.8), layout="constrained")
    for row, (name, curves) in enumerate(rows):
        for column, curve in enumerate(curves):
            axis = figure.add_subplot(len(rows), wide, row * wide + column + 1)
            points = [p for p in sorted(curve.points) if all(map(math.isfinite, p)) and min(p[1:]) > 0]
            if points:
                values, noise, error = zip(*points, strict=True)
                axis.plot(values, noise, color=_NOISE, linestyle="--", label="noise alone")
                axis.plot(
                    values, error, marker="o", markersize=3, color=_ERROR, label="noise and what is cut"
                )
            chosen = [p for p in points if p[0] == curve.chosen]
            if chosen:
                axis.plot(curve.chosen, chosen[0][2], marker="D", color=_MARK, linestyle="", label="advised")
            if all(p[0] > 0 for p in points):
                axis.set_xscale("log")
            axis.set_yscale("log")
            for each in (axis.xaxis, axis.yaxis):  # whose labels would be on each other
                each.set_minor_formatter(NullFormatter())
            axis.set_xlabel(curve.choice, fontsize=8, parse_math=False)
            axis.tick_params(labelsize=7)
            axis.grid(visible=True, which="major", alpha=0.3)
            if column == 0:
                axis.set_title(name, fontsize=9, loc="left", parse_math=False)
            if row == 0 and column == 0 and points:
                axis.legend(fontsize=6)
    figure.supylabel("expected error, times that of what is advised", fontsize=8)
    save(figure, target)
