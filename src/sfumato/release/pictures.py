"""Where pictures of questions go, and how they are written: the same numbers give the same file."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import EngineError
from sfumato.files import checked_place, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")


def checked_picture(path: str | Path, called: str = "picture path") -> Path:
    """Return where a picture goes, before it is drawn.

    Args:
        path: ends in .png or .svg.
        called: the name of the path in messages.
    Raises:
        ParameterError: the path is not admissible.
        EngineError: matplotlib is not installed.
        OSError: no file can have the name.
    """
    target = checked_place(path, called, FORMATS)
    check_matplotlib()
    return target


def check_matplotlib() -> None:
    """Refuse to draw where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise EngineError("matplotlib is not installed; install it with: pip install 'sfumato[plot]'")


def save(figure: Figure, target: Path) -> None:
    """Write a picture to a path that `checked_picture` gave, in the place of what is there."""
    kind = target.suffix[1:].lower()
    with replacing(target, lambda: None) as file:
        figure.savefig(file, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
