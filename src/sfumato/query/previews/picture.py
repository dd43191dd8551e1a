"""A preview as a picture: for each output, how wide error bars are by the size of a group."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.query.pictures import checked_picture, save

if TYPE_CHECKING:
    from sfumato.query.previews.preview import Preview

_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
)  # Okabe and Ito's, apart for every kind of sight
_COLUMNS, _MOST = 3, 12


def plain(value: float, place: float = 0) -> str:
    """Return what stands at a mark of a scale of powers of ten: at 100, 200 and 500, not at others."""
    digits = f"{value:.0e}"
    return f"{value:,.6g}" if digits[0] in "125" and math.isclose(float(digits), value) else ""


def draw(preview: Preview, path: str | Path) -> None:
    """Write a panel for each output: one line for each budget, on scales of powers of ten.

    Args:
        preview: what to show.
        path: where to, a .png or .svg.
    Raises:
        ParameterError: the path is not admissible.
        EngineError: matplotlib is not installed.
    """
    target = checked_picture(path)
    from matplotlib.figure import Figure

    table = preview.table.to_pylist()
    names = [n for n in preview.outputs][:_MOST]
    rows = math.ceil(len(names) / _COLUMNS)
    figure = Figure(figsize=(4 * min(len(names), _COLUMNS), 3 * rows + 0.4), layout="constrained")
    for i, name in enumerate(names):
        axis = figure.add_subplot(rows, min(len(names), _COLUMNS), i + 1)
        for colour, epsilon in zip(
            _COLOURS * len(table), dict.fromkeys(r["epsilon"] for r in table), strict=False
        ):
            points = sorted((r["units"], r[name]) for r in table if r["epsilon"] == epsilon)
            known = [(x, y) for x, y in points if math.isfinite(y) and y > 0]
            if known:
                axis.plot(*zip(*known, strict=True), marker="o", color=colour, label=f"epsilon {epsilon:g}")
        axis.set(xscale="log", yscale="log", xlabel="units in the group")
        for scale in (axis.xaxis, axis.yaxis):
            scale.set_major_formatter(plain)
            scale.set_minor_formatter(plain)
        axis.set_title(name, parse_math=False)
        axis.grid(visible=True, which="major", alpha=0.3)
    axis.legend(fontsize=8)
    figure.supylabel(f"within this of the exact number, {preview.confidence:.4g} of releases", fontsize=8)
    save(figure, target)
