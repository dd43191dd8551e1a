"""Pictures that notebooks show by themselves, whatever they were told of others. Imports matplotlib."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure


class Picture(Figure):
    """A figure of matplotlib; `savefig` writes it."""

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png", dpi=110)
        return file.getvalue()
