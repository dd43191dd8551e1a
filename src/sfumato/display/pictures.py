"""Pictures by matplotlib: where their files go, and how they are written; equal numbers give equal files."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import require
from sfumato.files import check_output_path, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")


def new_picture(**options: Any) -> Figure:
    """Return an empty matplotlib figure that notebooks show by itself.

    Args:
        options: of `matplotlib.figure.Figure`.
    """
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A matplotlib picture that a notebook shows as PNG."""

        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png", dpi=110)
            return file.getvalue()

    return Picture(**options)


def check_picture(path: str | Path, name: str = "picture path") -> Path:
    """Return the path of a picture file, checked before the picture is drawn.

    Args:
        path: ends in .png or .svg.
        name: the name of the path in messages.
    Raises:
        ParameterError: the path is not admissible.
        EngineError: matplotlib is not installed.
        OSError: no file can have the name.
    """
    target = check_output_path(path, name, FORMATS)
    require("matplotlib", "plot")
    return target


def save(figure: Figure, target: Path, check: Callable[[], object] = lambda: None) -> None:
    """Write a picture to a path from `check_picture`, and replace the file that is there.

    Args:
        figure: the picture.
        target: the path.
        check: raises an error if a file of that name must not be replaced.
    """
    kind = target.suffix[1:].lower()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with replacing(target, check) as file:
        figure.savefig(file, format=kind, dpi=160, metadata=metadata)
