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


def checked_picture(path: str | Path) -> Path:
    """Return where a picture goes, before it is drawn.

    Raises:
        ParameterError: the path is not admissible.
        EngineError: matplotlib is not installed.
    """
    target = checked_place(path, "picture path", FORMATS)
    if importlib.util.find_spec("matplotlib") is None:
        raise EngineError("matplotlib is not installed; install it with: pip install 'sfumato[plot]'")
    return target


def save(figure: Figure, target: Path) -> None:
    """Write a picture to a path that `checked_picture` gave, in the place of what is there."""
    kind = target.suffix[1:].lower()
    with replacing(target, lambda: None) as file:
        figure.savefig(file, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
